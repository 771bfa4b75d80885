"""Integer columns and variable-length words of gnark 0.14 against encoders written from the specification."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest
from constraint_system_hooks import Hooks
from gnark_conversion import column_words, encode_column, encode_leb128
from golden_vectors import load
from hypothesis import given, settings
from hypothesis import strategies as st
from sampling import examples

WIDTHS = (32, 64)
any_width = pytest.mark.parametrize("width", WIDTHS)


@pytest.fixture(scope="module")
def hooks(testing_library: Path) -> Hooks:
    return Hooks(testing_library)


def golden(width: int) -> list[tuple[list[int], list[int]]]:
    """Return values and words of the reference's compressor."""
    cases = load("gnark/encoding.json")[f"intcomp_uint{width}"]
    return [([int(v) for v in case["in"]], [int(str(w), 0) for w in case["words"] or []]) for case in cases]


def in_file(words: list[int], width: int) -> bytes:
    return struct.pack(f"<Q{len(words)}{'I' if width == 32 else 'Q'}", len(words), *words)


@st.composite
def columns(draw: st.DrawFn, width: int) -> list[int]:
    """Return runs of steps of different sizes, long enough for packed blocks of several units."""
    mask = (1 << width) - 1
    values: list[int] = []
    for _ in range(draw(st.integers(0, 6))):
        value = draw(st.integers(0, mask))
        length = draw(st.sampled_from([1, 3, 40, 128, 256, 300]))
        bits = draw(st.integers(0, width))
        signed = draw(st.booleans())
        random = draw(st.randoms(use_true_random=False))
        for _ in range(length):
            step = random.getrandbits(bits) if bits else 0
            value = (value + (-step if signed and random.random() < 0.5 else step)) & mask
            values.append(value)
    return values


@any_width
def test_column__golden_words__are_read_and_written(hooks: Hooks, width: int) -> None:
    for values, words in golden(width):
        data = in_file(words, width)
        assert column_words(values, width) == words
        assert hooks.column(data, width, len(values)) == (values, len(data))


@any_width
@settings(max_examples=examples(80), deadline=None)
@given(data=st.data())
def test_column__any_values__come_back(hooks: Hooks, width: int, data: st.DataObject) -> None:
    values = data.draw(columns(width))
    encoded = encode_column(values, width)
    assert hooks.column(encoded + b"behind", width, len(values)) == (values, len(encoded))
    if values:
        assert hooks.column(encoded, width, len(values) - 1) == "there are more values than expected"


@any_width
@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_column__words_changed__is_refused_or_read_within_bounds(hooks: Hooks, width: int, data: st.DataObject) -> None:
    values = data.draw(columns(width))
    encoded = bytearray(encode_column(values, width))
    for _ in range(data.draw(st.integers(1, 4))):
        place = data.draw(st.integers(0, len(encoded) - 1))
        encoded[place] = data.draw(st.integers(0, 255))
    result = hooks.column(bytes(encoded), width, len(values))
    if not isinstance(result, str):
        read, used = result
        assert len(read) <= len(values)
        assert used <= len(encoded)


@any_width
@given(data=st.binary(max_size=400))
def test_column__any_bytes__are_refused_or_read_within_bounds(hooks: Hooks, width: int, data: bytes) -> None:
    result = hooks.column(data, width, 1000)
    assert isinstance(result, str) or result[1] <= len(data)


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        ([7], "the last word is not the length of the last block"),
        ([1, 3, 0x07808080], "a block length is out of range"),
        ([1, 3, 0x07808080, 4], "the last word is not the length of the last block"),
        ([1, 2, 0x07808080, 3], "a block ends inside a value"),
        ([1, 4, 0x07808080, 3], "a block length is out of range"),
        ([0, 2, 2], "a block has no values"),
        ([1, 1, 1], "a block length is out of range"),
        ([2**31, 3, 0x07808080, 3], "there are more values than expected"),
        ([1, 3, 0x07808081, 3], "a block is padded with other bytes than 0x80"),
        ([1, 4, 0x07808080, 0x80808080, 4], "a block is longer than its values"),
        ([5, 3, 0x01010101, 3], "a block ends inside a value"),
        ([1, 4, 0x80808080, 0x80018080, 4], "a value is wider than a word"),
        ([1, 4, 0xFFFFFFFF, 0x1F808080, 4], "a value is wider than a word"),
        ([129, 5, 0, 0, 0, 5], "a packed block has a partial unit"),
        ([128, 2, 2], "a packed block is shorter than its header"),
        ([128, 3, 0, 3], "a packed block ends early"),
        ([128, 4, 0, 0x21000000, 4], "a packed group has more bits than a word"),
        ([128, 4, 0, 0x01000000, 4], "a packed block ends early"),
        ([128, 5, 0, 0, 0, 5], "a block does not end where its length says"),
    ],
)
def test_column__inconsistent_blocks__are_named(hooks: Hooks, words: list[int], problem: str) -> None:
    assert hooks.column(in_file(words, 32), 32, 1000) == problem


def test_column__fewer_bytes_than_words__is_refused(hooks: Hooks) -> None:
    assert hooks.column(b"\1\0\0\0\0\0\0", 32, 9) == "the word count is cut off"
    assert hooks.column(struct.pack("<QI", 2, 7), 32, 9) == "there are fewer bytes than the word count says"
    assert hooks.column(struct.pack("<Q", 2**61), 64, 9) == "there are fewer bytes than the word count says"


def test_column__signed_packed_words__are_refused(hooks: Hooks) -> None:
    words = [3 << 32 | 256, 0, 1 << 32, 3]
    assert hooks.column(in_file(words, 64), 64, 1000) == "a packed block describes signed values"


@given(words=st.lists(st.one_of(st.integers(0, 300), st.integers(0, 2**32 - 1)), max_size=50))
def test_words__any_values__come_back(hooks: Hooks, words: list[int]) -> None:
    encoded = encode_leb128(words)
    assert hooks.words(encoded) == (words, len(encoded))


@pytest.mark.parametrize(
    "bad", [b"", b"\x80", b"\xff\xff\xff\xff", b"\x80\x80\x80\x80\x10", b"\xff" * 5, b"\x80" * 9 + b"\1"]
)
def test_words__cut_off_or_too_large__ends_before_it(hooks: Hooks, bad: bytes) -> None:
    assert hooks.words(b"\x05\xac\x02" + bad) == ([5, 300], 3)


def test_words__largest__is_read(hooks: Hooks) -> None:
    assert hooks.words(b"\xff\xff\xff\xff\x0f\x00") == ([2**32 - 1, 0], 6)
