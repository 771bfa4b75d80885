"""Rent arithmetic against the rule of the token program, written as its source states it."""

from __future__ import annotations

import pytest
from compressible_accounts import AUTHORITY, DELEGATE, MINT, OWNER, SPONSOR, account_data
from hypothesis import given
from hypothesis import strategies as st
from solders.pubkey import Pubkey

from forester.chain.programs.addresses import COMPRESSED_TOKEN
from forester.chain.rpc_client import Account
from forester.compressible.rent import RENT_EPOCH_SLOTS, RentState
from forester.compressible.token_account import (
    RENT_BYTES,
    RENT_OFFSET,
    decode_token_account,
    decode_token_rent,
)
from forester.errors import MalformedAccount

ADDRESS = Pubkey(bytes([1]) * 32)


def compressible_by_the_rule(rent: RentState, slot: int) -> bool:
    """forester/docs/reference/programs.md, "Compressible accounts"."""
    per_epoch = rent.base_rent + rent.data_bytes * rent.lamports_per_byte
    available = max(0, rent.lamports - rent.rent_exemption - rent.compression_cost)
    required = slot // RENT_EPOCH_SLOTS + 1 - rent.last_claimed_slot // RENT_EPOCH_SLOTS
    return available < per_epoch * required


@given(
    rent=st.builds(
        RentState,
        data_bytes=st.integers(165, 1000),
        lamports=st.integers(0, 10**10),
        rent_exemption=st.integers(0, 2**32 - 1),
        last_claimed_slot=st.integers(0, 2**40),
        base_rent=st.integers(0, 2**16 - 1),
        compression_cost=st.integers(0, 2**16 - 1),
        lamports_per_byte=st.integers(0, 255),
    ),
    after=st.integers(-2, 2),
)
def test_compressible_from__any_account__is_the_first_slot_of_the_rule(rent: RentState, after: int) -> None:
    first = rent.compressible_from
    if first is None:
        assert rent.rent_per_epoch == 0
        return
    assert first % RENT_EPOCH_SLOTS == 0
    assert compressible_by_the_rule(rent, first)
    slot = max(rent.last_claimed_slot, first + after)
    assert rent.is_compressible(slot) == compressible_by_the_rule(rent, slot)
    if first > rent.last_claimed_slot:
        assert not compressible_by_the_rule(rent, first - 1)


def claimable_by_the_rule(rent: RentState, slot: int) -> int:
    """forester/docs/reference/programs.md, "Compressible accounts"."""
    if compressible_by_the_rule(rent, slot):
        return 0
    completed = max(0, slot // RENT_EPOCH_SLOTS - rent.last_claimed_slot // RENT_EPOCH_SLOTS)
    return completed * (rent.base_rent + rent.data_bytes * rent.lamports_per_byte)


@given(
    rent=st.builds(
        RentState,
        data_bytes=st.integers(165, 1000),
        lamports=st.integers(0, 10**6),
        rent_exemption=st.integers(0, 10**5),
        last_claimed_slot=st.integers(0, 20 * RENT_EPOCH_SLOTS),
        base_rent=st.integers(0, 2**16 - 1),
        compression_cost=st.integers(0, 2**16 - 1),
        lamports_per_byte=st.integers(0, 255),
    ),
    slot=st.integers(0, 40 * RENT_EPOCH_SLOTS),
)
def test_claimable__any_account_and_slot__is_that_of_the_rule(rent: RentState, slot: int) -> None:
    assert rent.claimable(slot) == claimable_by_the_rule(rent, slot)


def test_compressible_from__two_prepaid_epochs__is_the_third() -> None:
    rent = RentState(272, 2_000_000 + 11_000 + 2 * 400, 2_000_000, 700, 128, 11_000, 1)
    assert (rent.rent_per_epoch, rent.compressible_from) == (400, 2 * RENT_EPOCH_SLOTS)


def account(data: bytes, lamports: int = 2_011_800) -> Account:
    return Account(ADDRESS, COMPRESSED_TOKEN, lamports, data)


@pytest.mark.parametrize(("delegated", "to_itself"), [(False, False), (True, False), (False, True)])
def test_token_account__decoded__has_what_the_instruction_names(*, delegated: bool, to_itself: bool) -> None:
    found = decode_token_account(account(account_data(delegated=delegated, to_itself=to_itself)))
    assert found is not None
    assert (found.address, found.mint, found.compression_authority, found.rent_sponsor) == (
        *(ADDRESS, MINT, AUTHORITY, SPONSOR),
    )
    assert found.owner == (ADDRESS if to_itself else OWNER)
    assert found.delegate == (DELEGATE if delegated else None)
    assert found.rent == RentState(272, 2_011_800, 2_000_000, 5, 128, 11_000, 1)


def test_rent__of_the_slice_of_a_scan__is_that_of_the_account() -> None:
    data = account_data()
    whole = decode_token_account(account(data))
    assert whole is not None
    found = decode_token_rent(data[RENT_OFFSET:][:RENT_BYTES], len(data), 2_011_800)
    assert found is not None
    assert found[1].rent == whole.rent


@pytest.mark.parametrize(
    "data",
    [
        account_data()[:-1],
        account_data()[:165],
        b"",
        account_data()[:165] + b"\x01" + account_data()[166:],
        account_data()[:171] + b"\x1f" + account_data()[172:],
        account_data()[:167] + bytes(4) + account_data()[171:],
    ],
    ids=["short", "plain", "empty", "mint", "another extension", "no extension"],
)
def test_account__without_rent__is_none(data: bytes) -> None:
    assert decode_token_account(account(data)) is None


def test_account__claimed_in_a_slot_that_never_comes__is_refused_with_the_field() -> None:
    with pytest.raises(MalformedAccount, match="last_claimed_slot"):
        decode_token_account(account(account_data(last_claimed=2**50)))


@given(st.binary(max_size=400), st.integers(0, 10**18))
def test_account__of_any_bytes__is_decoded_or_refused(data: bytes, lamports: int) -> None:
    try:
        decode_token_account(account(data, lamports))
    except MalformedAccount:
        return
