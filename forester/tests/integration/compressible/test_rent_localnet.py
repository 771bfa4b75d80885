"""Rent arithmetic against the published programs at the border of a rent epoch, for accounts of any balance and rent.

Each case is an account that is written as the case says; the program's decision is that of a simulated transaction.
"""

from __future__ import annotations

import asyncio
import base64
import random
import struct
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from compressible_accounts import (
    OUTPUT_QUEUE,
    RENT_SPONSOR,
    create_account,
    create_mint,
    mint_of,
    set_mint,
)
from localnet_forester import Kit, forester_on
from localnet_pipeline import STATE_TREE
from localnet_process import Localnet, running_localnet
from solders.compute_budget import set_compute_unit_limit
from solders.hash import Hash
from solders.instruction import Instruction
from solders.keypair import Keypair
from solders.message import Message
from solders.pubkey import Pubkey
from solders.transaction import VersionedTransaction

from forester.chain.programs import registry
from forester.chain.programs.addresses import COMPRESSED_TOKEN
from forester.chain.programs.compression import (
    CompressedLocation,
    claim,
    compress_and_close,
    compress_mint,
)
from forester.chain.programs.registry import Forester
from forester.chain.rpc_client import Account
from forester.compressible.mint_account import MintAccount, decode_mint_account
from forester.compressible.rent import RENT_EPOCH_SLOTS, RentState
from forester.compressible.token_account import TokenAccount, decode_token_account

CASES = 40
BORDER = 4 * RENT_EPOCH_SLOTS
EPOCH = (BORDER - 150) // 200
"""The forester epoch in whose active phase the border is."""

NOT_COMPRESSIBLE = 6122
TOKEN_INFO, MINT_INFO = 176, 166
CLAIMED, EXEMPTION, RENT_CONFIG = 72, 80, 88
"""Offsets in the compression info."""


@pytest.fixture
def net() -> Iterator[Localnet]:
    with running_localnet() as localnet:
        yield localnet


@pytest_asyncio.fixture
async def kit(net: Localnet, tmp_path: Path) -> AsyncIterator[Kit]:
    async with forester_on(net, tmp_path) as kit:
        yield kit


def at_random(numbers: random.Random, size: int, slot: int) -> tuple[int, int, int, tuple[int, int, int]]:
    """Return lamports, exemption, last claimed slot, and the rent config of an account near a decision."""
    config = numbers.randrange(1, 2**16), numbers.randrange(2**16), numbers.randrange(256)
    exemption = (128 + size) * 6960 + numbers.randrange(3)
    claimed = max(0, (slot // RENT_EPOCH_SLOTS - numbers.randrange(5)) * RENT_EPOCH_SLOTS + numbers.choice((-1, 0, 1)))
    rent = config[0] + size * config[2]
    lamports = exemption + config[1] + max(0, numbers.randrange(6) * rent + numbers.choice((-1, 0, 1)))
    return lamports, exemption, min(claimed, slot), config


def written(net: Localnet, account: Account, info: int, facts: tuple[int, int, int, tuple[int, int, int]]) -> Account:
    """Write an account with other facts; return it."""
    lamports, exemption, claimed, config = facts
    data = bytearray(account.data)
    struct.pack_into("<QI", data, info + CLAIMED, claimed, exemption)
    struct.pack_into("<HHB", data, info + RENT_CONFIG, *config)
    content = {"lamports": lamports, "data": base64.b64encode(data).decode(), "owner": str(COMPRESSED_TOKEN)}
    net.call("localnet_setAccount", str(account.address), content)
    return Account(account.address, COMPRESSED_TOKEN, lamports, bytes(data))


def simulated(kit: Kit, work: Instruction, account: Pubkey) -> tuple[Any, int]:
    """Return the error of a transaction, and the lamports of an account after it."""
    message = Message.new_with_blockhash([set_compute_unit_limit(600_000), work], kit.pubkey, Hash.default())
    transaction = bytes(VersionedTransaction(message, [kit.key]))
    options = {
        "encoding": "base64",
        "replaceRecentBlockhash": True,
        "commitment": "processed",
        "accounts": {"encoding": "base64", "addresses": [str(account)]},
    }
    value = kit.net.call("simulateTransaction", base64.b64encode(transaction).decode(), options)["value"]
    [after] = value["accounts"] or [None]
    return value["err"], after["lamports"] if after is not None else 0


async def registered(kit: Kit) -> Forester:
    """Register the forester for the epoch of the border."""
    await asyncio.to_thread(kit.net.call, "localnet_warp", EPOCH * 200)
    await kit.send(registry.register_forester_epoch(kit.pubkey, kit.pubkey, kit.pubkey, EPOCH))
    await asyncio.to_thread(kit.net.call, "localnet_warp", EPOCH * 200 + 101)
    await kit.send(registry.finalize_registration(kit.pubkey, kit.pubkey, EPOCH))
    return Forester.registered(kit.pubkey, kit.pubkey, EPOCH)


async def test_token_accounts__around_the_border__are_compressed_and_claimed_as_computed(kit: Kit) -> None:
    key, mint = Keypair.from_seed(bytes([1]) * 32), set_mint(kit)
    create = create_account(key.pubkey(), mint, kit.pubkey, kit.pubkey, 2)
    outcome = await kit.moving(kit.sender.send([create], purpose="test", subject=b"", within_s=120, signers=[key]))
    assert outcome.error is None, outcome
    model = await kit.rpc.existing_account(key.pubkey(), "the account")
    forester, numbers = await registered(kit), random.Random(7)
    decisions, claims = set(), set()
    for slot in (BORDER - 1, BORDER):
        await asyncio.to_thread(kit.net.call, "localnet_warp", slot)
        for _ in range(CASES):
            account = written(kit.net, model, TOKEN_INFO, at_random(numbers, len(model.data), slot))
            found = decode_token_account(account)
            assert isinstance(found, TokenAccount)
            decisions.add(closes(kit, forester, found) is found.rent.is_compressible(slot) or (found.rent, slot))
            work = claim(forester, found.rent_sponsor, found.compression_authority, [found.address])
            error, left = simulated(kit, work, found.address)
            assert error is None, error
            claims.add(found.rent.lamports - left == found.rent.claimable(slot) or (found.rent, slot, left))
    assert decisions == claims == {True}


def closes(kit: Kit, forester: Forester, found: TokenAccount) -> bool:
    """Return whether the programs close an account now."""
    work = compress_and_close(forester, OUTPUT_QUEUE, found.compression_authority, [found])
    error, _ = simulated(kit, work, found.address)
    return error is None


async def test_mints__around_the_border__are_compressed_and_claimed_as_computed(kit: Kit) -> None:
    key = Keypair.from_seed(bytes([2]) * 32)
    create = await asyncio.to_thread(create_mint, kit.net, key.pubkey(), kit.pubkey, 2)
    outcome = await kit.moving(kit.sender.send([create], purpose="test", subject=b"", within_s=120, signers=[key]))
    assert outcome.error is None, outcome
    mint, _ = mint_of(key.pubkey())
    model = await kit.rpc.existing_account(mint, "the mint")
    forester, numbers = await registered(kit), random.Random(8)
    seen: set[bool] = set()
    location = CompressedLocation(STATE_TREE, OUTPUT_QUEUE, 0)
    for slot in (BORDER - 1, BORDER):
        await asyncio.to_thread(kit.net.call, "localnet_warp", slot)
        for _ in range(CASES):
            account = written(kit.net, model, MINT_INFO, at_random(numbers, len(model.data), slot))
            found = decode_mint_account(account)
            assert isinstance(found, MintAccount)
            error, _ = simulated(kit, compress_mint(kit.pubkey, mint, RENT_SPONSOR, location, OUTPUT_QUEUE), mint)
            assert error in (None, {"InstructionError": [1, {"Custom": NOT_COMPRESSIBLE}]}), error
            assert (error is None) is found.rent.is_compressible(slot), (found.rent, slot)
            work = claim(forester, found.rent_sponsor, found.compression_authority, [mint])
            error, left = simulated(kit, work, mint)
            assert error is None, error
            assert found.rent.lamports - left == found.rent.claimable(slot), (found.rent, slot)
            seen.add(found.rent.is_compressible(slot))
    assert seen == {True, False}


def test_cases__drawn_at_random__are_due_and_not_due_and_owe_rent() -> None:
    numbers = random.Random(7)
    states = []
    for _ in range(CASES):
        lamports, exemption, claimed, config = at_random(numbers, 272, BORDER)
        states.append(RentState(272, lamports, exemption, claimed, *config))
    assert {state.is_compressible(BORDER) for state in states} == {True, False}
    assert any(state.claimable(BORDER) for state in states)
