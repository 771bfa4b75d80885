"""The wire's spelling of numbers, against Python integers."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.trees.field import (
    BASE_MODULUS,
    SCALAR_MODULUS,
    InvalidNumber,
    format_number,
    parse_coordinate,
    parse_number,
    parse_scalar,
    scalar_bytes,
)

integers = st.integers(min_value=0, max_value=2**300)


@given(integers, st.booleans(), st.booleans(), st.integers(0, 8))
def test_number__any_spelling__is_read(value: int, prefix: bool, upper: bool, zeros: int) -> None:
    digits = "0" * zeros + (f"{value:X}" if upper else f"{value:x}")
    text = ("0x" if prefix else "") + digits
    assert parse_number(text) == value
    data, canonical = parse_scalar(text)
    assert int.from_bytes(data, "big") == value % SCALAR_MODULUS
    assert canonical == (value < SCALAR_MODULUS)


@pytest.mark.parametrize(
    ("text", "value"), [("0x-1", -1), ("-1", -1), ("+1", 1), ("0x+ff", 255), ("-0", 0), ("0" * 500 + "1", 1)]
)
def test_number__with_sign__is_read(text: str, value: int) -> None:
    assert parse_number(text) == value
    assert int.from_bytes(parse_scalar(text)[0], "big") == value % SCALAR_MODULUS


@pytest.mark.parametrize(
    "text",
    ["", "0x", "0X1", "0X", "-0x1", "--1", "0x0x1", "zz", "0xzz", "1_0", " 1", "1 ", "\n1", "0x 1", "\u0663", "0x1\n"],
)
def test_number__not_of_the_wire__is_refused(text: str) -> None:
    with pytest.raises(InvalidNumber, match="invalid number: "):
        parse_number(text)
    with pytest.raises(InvalidNumber):
        parse_scalar(text)


def test_number__padded_with_blanks_inside__is_refused() -> None:
    with pytest.raises(InvalidNumber):
        parse_scalar("0x" + " 1" * 32)


def test_error__names_the_number_without_prefix__and_not_all_of_it() -> None:
    with pytest.raises(InvalidNumber, match=r"^invalid number: zz$"):
        parse_number("0xzz")
    with pytest.raises(InvalidNumber) as caught:
        parse_number("z" * 10_000)
    assert len(str(caught.value)) < 120


@pytest.mark.parametrize(
    ("value", "canonical"), [(0, True), (SCALAR_MODULUS - 1, True), (SCALAR_MODULUS, False), (2**256 - 1, False)]
)
def test_scalar__around_the_modulus__is_reduced_and_flagged(value: int, canonical: bool) -> None:
    data, flag = parse_scalar(f"0x{value:064x}")
    assert int.from_bytes(data, "big") == value % SCALAR_MODULUS
    assert len(data) == 32
    assert flag is canonical


@given(st.integers(0, BASE_MODULUS - 1))
def test_coordinate__below_the_modulus__round_trips(value: int) -> None:
    text = format_number(value.to_bytes(32, "big"))
    assert len(text) == 66
    assert text == text.lower()
    assert int.from_bytes(parse_coordinate(text), "big") == value


@pytest.mark.parametrize("text", [f"{BASE_MODULUS:x}", "-1", "f" * 65, "0X1"])
def test_coordinate__outside_the_field__is_refused(text: str) -> None:
    with pytest.raises(InvalidNumber):
        parse_coordinate(text)


@pytest.mark.parametrize("value", [-1, SCALAR_MODULUS])
def test_scalar_bytes__outside_the_field__is_refused(value: int) -> None:
    with pytest.raises(ValueError, match="scalar"):
        scalar_bytes(value)


@pytest.mark.parametrize("prefix", ["", "0x", "-", "0x-", "0x+"])
@pytest.mark.parametrize(
    "digits", ["0" * 5000 + "1f", "f" * 4097, "0" * 4096, "0" * 9000 + f"{SCALAR_MODULUS:x}", "1" + "0" * 20_000]
)
def test_scalar__of_thousands_of_digits__is_reduced_and_flagged(prefix: str, digits: str) -> None:
    value = -int(digits, 16) if prefix.endswith("-") else int(digits, 16)
    data, canonical = parse_scalar(prefix + digits)
    assert int.from_bytes(data, "big") == value % SCALAR_MODULUS
    assert canonical is (0 <= value < SCALAR_MODULUS)


@pytest.mark.parametrize(
    "text", ["0x" + "1" * 5000 + "g", "z" * 5000, "+-" + "1" * 5000, "0x0x" + "1" * 5000, "1" * 4096 + " "]
)
def test_scalar__of_thousands_of_characters_and_no_number__is_refused(text: str) -> None:
    with pytest.raises(InvalidNumber, match="invalid number: ") as caught:
        parse_scalar(text)
    assert len(str(caught.value)) < 120
