"""Native reading of arrays of numbers, compared with Python's decoder and the numbers of the wire."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.requests.json_elements import Elements, read_elements
from shared.trees.field import SCALAR_MODULUS, format_number, parse_scalar, scalar_bytes

ZERO = "0x" + "0" * 64
NUMBERS = st.lists(st.integers(0, SCALAR_MODULUS - 1))
SPELLINGS: tuple[Callable[[int], str], ...] = (
    lambda value: format_number(scalar_bytes(value)),
    lambda value: f"{value:#x}",
    lambda value: f"0x{value:064X}",
)


def dump(value: Any, choose: random.Random) -> str:
    """Write arrays with blanks that mean nothing."""
    blank = "".join(choose.choices(" \n\t\r", k=choose.choice((0, 0, 0, 1, 3))))
    if isinstance(value, list):
        return f"{blank}[{blank}{','.join(dump(element, choose) for element in value)}{blank}]"
    return f"{blank}{json.dumps(value)}{blank}"


def expected(text: bytes, *, nested: bool) -> Elements:
    """Return the elements by way of Python objects. Raises ValueError for texts that are not of this type."""
    rows = msgspec.json.decode(text if nested else b"[" + text + b"]", type=list[list[str]])
    return Elements(b"".join(parse_scalar(text)[0] for row in rows for text in row), [len(row) for row in rows])


@given(st.lists(NUMBERS, max_size=4), st.sampled_from(SPELLINGS), st.randoms())
def test_elements__usually_spelt__are_those_of_the_decoder(
    values: list[list[int]], spell: Callable[[int], str], choose: random.Random
) -> None:
    rows = [list(map(spell, row)) for row in values]
    text = dump(rows, choose).encode()
    assert read_elements(text, nested=True) == expected(text, nested=True)
    for row in rows:
        text = dump(row, choose).encode()
        assert read_elements(msgspec.Raw(text), nested=False) == expected(text, nested=False)
        assert read_elements(text, nested=True) == (None if row else Elements(b"", []))


@given(
    st.lists(
        st.sampled_from(["[", "]", ",", '"', "0x", "1", "f", "F", ZERO, f'"{ZERO}"', " ", "\\", "g", "0"]), max_size=12
    )
    .map(lambda pieces: "".join(pieces).encode())
    .flatmap(lambda text: st.sampled_from([text, b"[" + text + b"]", b"[[" + text + b"]]"]))
    | st.binary(max_size=80),
    st.booleans(),
)
def test_elements__of_any_bytes__are_none_or_those_of_the_decoder(text: bytes, nested: bool) -> None:
    found = read_elements(text, nested=nested)
    if found is not None:
        assert found == expected(text, nested=nested)


@pytest.mark.parametrize(
    "odd",
    [
        "",
        "0x",
        "1",
        "0x-1",
        "0x+1",
        "0x 1",
        "0x1 ",
        "0x 0 0",
        "0x0x1",
        "0X" + "0" * 64,
        "00" + "0" * 64,
        "0x" + "g" * 64,
        "0x" + " 0" * 32,
        "0x" + "0" * 62 + "  ",
        "0x" + "0" * 66,
        "0x" + "0" * 63 + "\u0660",
        f"{SCALAR_MODULUS:#066x}",
        None,
        1,
        [],
        {},
        [ZERO],
    ],
)
def test_elements__one_of_them_odd__are_none(odd: Any) -> None:
    assert read_elements(json.dumps([ZERO, odd, ZERO]).encode(), nested=False) is None
    assert read_elements(json.dumps([[ZERO], [ZERO, odd, ZERO], []]).encode(), nested=True) is None


@pytest.mark.parametrize(
    "text", [b"", b"null", b"{}", b"[", b"[]]", b"[,]", b'["0x1",]', b'["0x1"', b'["0x1"]x', b'["0x1']
)
@pytest.mark.parametrize("nested", [False, True])
def test_elements__of_a_text_that_is_no_array__are_none(text: bytes, nested: bool) -> None:
    assert read_elements(text, nested=nested) is None
    assert read_elements(b"[" + text + b"]", nested=nested) == (Elements(b"", [0][nested:]) if text == b"" else None)


@pytest.mark.parametrize("cut", range(1, 80))
def test_elements__cut_anywhere__are_none(cut: int) -> None:
    text = f'[["{ZERO}"],[]]'.encode()
    assert read_elements(text[:-cut], nested=True) is None
