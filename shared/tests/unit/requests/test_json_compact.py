"""Compaction of JSON compared with Python's parser: the same value without unknown members, or a refusal."""

from __future__ import annotations

import contextlib
import json
import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shared.requests.json_compact import JsonCompaction, JsonTooLong, MalformedJson, count_commas

KEPT = ("a", "kept", "längst")
COMPACTION = JsonCompaction(KEPT)
ENOUGH = 1 << 20


class Pairs(list[tuple[str, Any]]):
    """Members of an object in their order, duplicates included."""


def read(text: bytes | bytearray) -> Any:
    """Return what the standard library makes of a text, numbers as they are written."""
    return json.loads(text, object_pairs_hook=Pairs, parse_int=str, parse_float=str, parse_constant=refuse)


def refuse(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


def without_unknown(value: Any) -> Any:
    if isinstance(value, Pairs):
        return Pairs((name, without_unknown(member)) for name, member in value if name in KEPT)
    if isinstance(value, list):
        return [without_unknown(element) for element in value]
    return value


def dump(value: Any, choose: random.Random) -> str:
    """Write a value with blanks and escapes that mean nothing."""
    blank = "".join(choose.choices(" \n\t\r", k=choose.choice((0, 0, 0, 1, 3))))
    if isinstance(value, dict):
        members = [
            f"{json.dumps(name, ensure_ascii=False)}{blank}:{dump(member, choose)}" for name, member in value.items()
        ]
        return f"{blank}{{{blank}{','.join(members * choose.choice((1, 1, 2)))}}}{blank}"
    if isinstance(value, list):
        return f"{blank}[{','.join(dump(element, choose) for element in value)}{blank}]"
    return f"{blank}{json.dumps(value, ensure_ascii=choose.random() < 0.5)}{blank}"


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.sampled_from(KEPT) | st.text(), inner),
    max_leaves=30,
)


@settings(max_examples=100, deadline=None)
@given(value=VALUES, seed=st.integers(0, 2**32))
def test_compaction__of_any_value__keeps_the_members_asked_for(value: Any, seed: int) -> None:
    text = dump(value, random.Random(seed)).encode("utf-8", "surrogatepass")
    compact = COMPACTION.compact(text, ENOUGH)
    assert len(compact) <= len(text)
    if b"\\" not in text:  # names with escapes stay
        assert read(compact) == without_unknown(read(text))
        again = COMPACTION.compact(compact, ENOUGH)
        assert again == compact


@settings(max_examples=250, deadline=None)
@given(
    value=VALUES,
    seed=st.integers(0, 2**32),
    at=st.floats(0, 1),
    size=st.integers(0, 3),
    patch=st.text(alphabet='{}[]":,\\0123456789.eE+-truefalsn u/x', max_size=4),
)
def test_compaction__of_a_damaged_text__refuses_what_is_no_json(
    value: Any, seed: int, at: float, size: int, patch: str
) -> None:
    whole = dump(value, random.Random(seed))
    place = int(at * len(whole))
    text = whole[:place] + patch + whole[place + size :]
    sent = text.encode("utf-8", "surrogatepass")
    try:
        expected = read(text.encode("utf-8", "surrogatepass"))
    except ValueError:
        if b"\xed" not in sent:  # the standard library checks what is left to the decoder here
            with pytest.raises(MalformedJson):
                COMPACTION.compact(sent, ENOUGH)
        return
    compact = COMPACTION.compact(sent, ENOUGH)
    if "\\" not in text:
        assert read(compact) == without_unknown(expected)


@settings(max_examples=300, deadline=None)
@given(text=st.binary(max_size=60))
def test_compaction__of_any_bytes__ends(text: bytes) -> None:
    with contextlib.suppress(MalformedJson):
        assert len(COMPACTION.compact(text, ENOUGH)) <= len(text)


@pytest.mark.parametrize(
    ("text", "left"),
    [
        (b'{"x":1}', b"{}"),
        (b'{"x":1,"a":2,"y":3}', b'{"a":2}'),
        (b'{"a":1,"x":{"a":2,"y":[{"a":3}]},"a":4}', b'{"a":1,"a":4}'),
        (b'[{"x":1},{"kept":{"x":[],"a":{}}}]', b'[{},{"kept":{"a":{}}}]'),
        (b'{"\\u0061":1,"\\u0078":2}', b'{"\\u0061":1,"\\u0078":2}'),
        (b'{"":1,"ab":2,"ake":3}', b"{}"),
        (b' "a" ', b'"a"'),
        (b"-0.5E-7\n", b"-0.5E-7"),
        (b'{"x":"}"}', b"{}"),
    ],
)
def test_compaction__of_a_text__leaves_this(text: bytes, left: bytes) -> None:
    assert COMPACTION.compact(text, ENOUGH) == left


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        (b"", "ends too early"),
        (b" \n", "ends too early"),
        (b'{"a":1', "ends too early"),
        (b'"\\u12', "ends too early"),
        (b"01", "trailing characters .byte 1."),
        (b"1 2", "trailing characters .byte 2."),
        (b"[1,]", "invalid character .byte 3."),
        (b'{"a":1,}', "invalid character .byte 7."),
        (b'"\n"', "invalid character .byte 1."),
        (b'"\\x"', "invalid character .byte 2."),
        (b'"\\\0"', "invalid character .byte 2."),
        (b"tru\0", "invalid character .byte 3."),
        (b"[}", "invalid character .byte 1."),
        (b"[" * 1000, "nested too deeply .byte 512."),
        (b'{"x":' * 1000, "nested too deeply"),
        (b"\xef\xbb\xbf{}", "invalid character .byte 0."),
        (b"NaN", "invalid character .byte 0."),
        (b"-Infinity", "invalid character .byte 1."),
    ],
)
def test_compaction__of_no_json__names_the_place(text: bytes, fault: str) -> None:
    with pytest.raises(MalformedJson, match=fault):
        COMPACTION.compact(text, ENOUGH)


def test_compaction__at_and_beyond_its_limit__fits_or_not() -> None:
    text = b' {"x":"long","a": [1, 2]} '
    assert COMPACTION.compact(text, 11) == b'{"a":[1,2]}'
    for limit in range(11):
        with pytest.raises(JsonTooLong, match=f"more than {limit} bytes"):
            COMPACTION.compact(text, limit)


def test_compaction__with_as_many_levels_as_allowed__reads_them() -> None:
    text = b"[" * 512 + b"]" * 512
    assert COMPACTION.compact(text, ENOUGH) == text


def test_compaction__for_too_many_names__is_refused() -> None:
    most = JsonCompaction(f"name{number}" for number in range(64))
    assert most.compact(b'{"name63":1,"name64":2}', ENOUGH) == b'{"name63":1}'
    for names in ([f"name{number}" for number in range(65)], ["x" * 64]):
        with pytest.raises(ValueError, match="too many names, or a name is too long"):
            JsonCompaction(names).compact(b"{}", ENOUGH)


@given(st.binary())
def test_commas__of_any_text__are_counted(text: bytes) -> None:
    assert count_commas(text) == text.count(b",")
