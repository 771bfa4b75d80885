"""Rounds of claiming rent that does not land, with a node and a sender of the test's making."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pytest
from compressible_accounts import AUTHORITY, account_data
from solders.instruction import Instruction
from solders.pubkey import Pubkey

from forester.chain.program_errors import ForesterRefusal
from forester.chain.programs.addresses import COMPRESSED_TOKEN, REGISTRY
from forester.chain.rpc_client import Account
from forester.compressible.candidates import UNKNOWN_SLOTS
from forester.compressible.claiming import RentClaims
from forester.compressible.rent import RENT_EPOCH_SLOTS
from forester.compressible.sources import sources
from forester.epoch.phases import SlotRange
from forester.errors import InsufficientFunds, TransactionRefused
from forester.journal.compressible import NEVER_SLOT, TOKEN, CompressibleStore, TrackedAccount
from forester.journal.database import Journal
from forester.observability.metrics import Metrics
from forester.scheduling.eligibility_window import EligibilityWindow
from forester.transactions.confirm import Fate, Outcome

ADDRESS = Pubkey(bytes(31) + b"\1")
SLOT = 7 * RENT_EPOCH_SLOTS


class World:
    """A node with one account that owes rent, and a sender whose transactions have one outcome."""

    payer = AUTHORITY

    def __init__(self, outcome: Outcome) -> None:
        self.outcome = outcome
        self.sent = 0

    async def accounts(self, addresses: list[Pubkey]) -> list[Account]:
        return [Account(address, COMPRESSED_TOKEN, 9_000_000, account_data()) for address in addresses]

    async def wait_for_earlier(self, *_: object) -> bool:
        return True

    def fits(self, _: list[Instruction]) -> bool:
        return True

    async def send(self, _: list[Instruction], **__: object) -> Outcome:
        self.sent += 1
        return self.outcome


def window(slot: int) -> EligibilityWindow:
    return EligibilityWindow(1, SlotRange(0, 10**9), lambda: slot)


async def claims_of(world: Any, journal: Journal) -> tuple[RentClaims, CompressibleStore]:
    store = CompressibleStore(journal)
    await store.put([TrackedAccount(bytes(ADDRESS), TOKEN, NEVER_SLOT - 1, 0, 1, 5, 300)])
    times = itertools.count(0, 1000)
    claims = RentClaims(
        *(world, store, world, Metrics()),
        sources=sources([]),
        derivation=AUTHORITY,
        minimum=1,
        clock=lambda: next(times),
    )
    return claims, store


@pytest.mark.parametrize(
    ("code", "owes"), [(ForesterRefusal.FORESTER_NOT_ELIGIBLE, True), (6020, False)], ids=["the forester", "an account"]
)
async def test_claim__that_the_registry_refuses__is_repeated_if_it_refused_the_forester(
    tmp_path: Path, code: int, owes: bool
) -> None:
    error = TransactionRefused("refused", program=str(REGISTRY), code=code)
    world: Any = World(Outcome(Fate.REFUSED, error=error))
    async with await Journal.open(tmp_path / "journal.sqlite") as journal:
        claims, store = await claims_of(world, journal)
        done = await claims.work(window(SLOT))
        assert done.failure is (error if owes else None)
        left = await store.claimable(SLOT, SLOT // RENT_EPOCH_SLOTS, 10)
        assert [bytes(address) for address, _ in left] == ([bytes(ADDRESS)] if owes else [])


async def test_search__accounts_that_are_due_and_wait__do_not_hide_others(tmp_path: Path) -> None:
    world: Any = World(Outcome(Fate.CONFIRMED))
    due = [TrackedAccount(bytes([9]) * 28 + number.to_bytes(4, "big"), TOKEN, 0, 0, 1, 0, 300) for number in range(500)]

    async def accounts(addresses: list[Pubkey]) -> list[Account]:
        lamports = {ADDRESS: 9_000_000}
        return [
            Account(address, COMPRESSED_TOKEN, lamports.get(address, 2_011_800), account_data())
            for address in addresses
        ]

    world.accounts = accounts
    async with await Journal.open(tmp_path / "journal.sqlite") as journal:
        claims, store = await claims_of(world, journal)
        await store.put(due)
        for _ in range(3):
            await store.postpone({account.address: SLOT + 1500 for account in due})
            await claims.work(window(SLOT))
        assert world.sent == 1


@pytest.mark.parametrize("error", [None, InsufficientFunds()])
async def test_claim__of_unknown_outcome__is_repeated_once_it_cannot_land(
    tmp_path: Path, error: InsufficientFunds | None
) -> None:
    world: Any = World(Outcome(Fate.DEADLINE_PASSED, error=error))
    async with await Journal.open(tmp_path / "journal.sqlite") as journal:
        claims, _ = await claims_of(world, journal)
        for slot, sent in ((SLOT, 1), (SLOT + UNKNOWN_SLOTS - 1, 1), (SLOT + UNKNOWN_SLOTS, 2)):
            await claims.work(window(slot))
            assert world.sent == sent
