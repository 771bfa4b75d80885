"""Parsed accounts and instructions, compared with what the decoders of a cluster's node made of the same bytes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from parsed_cases import decoded
from solders.account import Account
from solders.pubkey import Pubkey

from localnet.rpc.parsed.accounts import parse_account
from localnet.rpc.parsed.amounts import Display, Interest, Multiplier, exact
from localnet.rpc.parsed.fields import float_text
from localnet.rpc.parsed.instructions import PARSERS, parse_instruction

RECORDED = json.loads((Path(__file__).parents[2] / "vectors" / "parsed.json").read_text())["cases"]
OWNERS = ("Stake11111111111111111111111111111111111111", "TokenzQdBNbLqP5VEhdkAS6EPFLC1PHnBqCXEpPxuEb")


def test_parsed__recorded_cases__equal_those_of_a_node() -> None:
    assert len(RECORDED) > 400
    for case in RECORDED:
        assert decoded(case) == case["decoded"], case


def test_parsed__recorded_cases__have_every_program() -> None:
    parsed = [case for case in RECORDED if case["decoded"] is not None]
    assert {case["program"] for case in parsed if "program" in case} == set(PARSERS)
    extensions = {
        entry["extension"]
        for case in parsed
        if "owner" in case
        for entry in case["decoded"]["parsed"].get("info", {}).get("extensions", [])
    }
    assert len(extensions - {"unparseableExtension"}) >= 28


@given(st.binary(max_size=300), st.sampled_from(sorted(PARSERS)), st.integers(0, 12))
def test_instructions__any_bytes__are_parsed_or_left(data: bytes, program: str, accounts: int) -> None:
    found = parse_instruction(program, data, [str(index) for index in range(accounts)])
    assert found is None or found["programId"] == program


@given(st.binary(max_size=500), st.sampled_from(OWNERS))
def test_accounts__any_bytes__are_parsed_or_left(data: bytes, owner: str) -> None:
    account = Account(1, data, Pubkey.from_string(owner))
    found = parse_account(account, lambda _mint: Display(6))
    assert found is None or found["space"] == len(data)


@given(st.integers(0, (1 << 64) - 1), st.integers(0, 30))
def test_amount__any__text_is_exact(amount: int, decimals: int) -> None:
    text = exact(amount, decimals)
    whole, _, fraction = text.partition(".")
    assert int(whole) * 10**decimals + int(fraction.ljust(decimals, "0") or 0) == amount
    assert not text.endswith(".")


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_float__any__text_reads_back_without_exponent(value: float) -> None:
    text = float_text(value)
    assert "e" not in text
    assert float(text) == value


@pytest.mark.parametrize(
    ("scale", "expected"),
    [
        # Five percent for a year: e to the 0.05; rates are in hundredths of a percent, years of 365.24 days.
        (Interest(0, 0, 0, 500), "1.0512710964"),
        (Multiplier(1.5, 2.0, effective=40_000_000), "1.5"),
        (Multiplier(1.5, 2.0, effective=10), "2"),
    ],
)
def test_amount__mint_that_scales__is_scaled(scale: Any, expected: str) -> None:
    shown = Display(10, scale, now=31_556_736).amount(10**10)
    assert (shown["uiAmountString"], shown["amount"]) == (expected, "10000000000")
    assert shown["uiAmount"] == float(expected)
