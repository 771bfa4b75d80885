"""Token accounts whose rent runs out are compressed by the published programs: once, none early, incentive received."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
import pytest_asyncio
from compressible_accounts import (
    RENT_SPONSOR,
    create_account,
    create_associated_account,
    create_mint,
    mint_of,
    set_mint,
)
from compressible_program import NAMED, SPONSOR, account_key, create_placeholders, set_account, set_program
from localnet_forester import Kit, forester_on
from localnet_pipeline import STATE_TREE
from localnet_process import Localnet, running_localnet
from solders.keypair import Keypair
from solders.pubkey import Pubkey

from forester.chain.programs import registry
from forester.chain.rpc_client import Account
from forester.chain.tree_metadata import TreeMetadata
from forester.compressible.closers import MintCloser, ProgramAccountCloser, TokenAccountCloser
from forester.compressible.closing import ClosingRounds
from forester.compressible.rent import RENT_EPOCH_SLOTS
from forester.compressible.sources import sources
from forester.compressible.tracker import AccountTracker
from forester.epoch.phases import SlotRange
from forester.journal.compressible import TOKEN, CompressibleStore, TrackedAccount, TrackedCounts
from forester.observability.metrics import total
from forester.scheduling.eligibility_window import EligibilityWindow, ProcessingResult

ACTIVE_SLOTS, REGISTRATION_SLOTS = 200, 100
"""Phases of the fixtures' protocol config (shared/localnet/docs/chain.md, "Published accounts")."""


@pytest.fixture
def net() -> Iterator[Localnet]:
    with running_localnet() as localnet:
        yield localnet


@pytest_asyncio.fixture
async def kit(net: Localnet, tmp_path: Path) -> AsyncIterator[Kit]:
    async with forester_on(net, tmp_path) as kit:
        yield kit


class World:
    """A forester with its closer, in the active phase of an epoch of the localnet."""

    def __init__(self, kit: Kit, tree: TreeMetadata) -> None:
        self.kit = kit
        self.store = CompressibleStore(kit.journal)
        self.sources = sources([NAMED])
        tokens, mints, programs = self.sources
        self.closers = ClosingRounds(
            *(kit.rpc, self.store, kit.sender, kit.metrics),
            closers=[
                TokenAccountCloser(tokens, payer=kit.pubkey, derivation=kit.pubkey),
                MintCloser(mints, kit.indexer, payer=kit.pubkey),
                ProgramAccountCloser(programs, kit.rpc, kit.indexer, payer=kit.pubkey),
            ],
            trees=lambda: [tree],
        )
        self.epoch = 0
        self.slot = 0

    async def scan(self) -> None:
        slot = await self.kit.rpc.slot()
        for source in self.sources:
            await AccountTracker(source, self.kit.rpc, self.store, current_slot=lambda: slot).scan()

    async def counts(self) -> TrackedCounts:
        return sum((await self.store.counts(self.slot)).values(), TrackedCounts())

    async def create(self, number: int, epochs: int) -> list[Pubkey]:
        """Create token accounts with rent for some epochs."""
        mint = set_mint(self.kit)
        keys = [Keypair.from_seed(bytes([epochs, index]).ljust(32, b".")) for index in range(number)]
        for key in keys:
            instruction = create_account(key.pubkey(), mint, self.kit.pubkey, self.kit.pubkey, epochs)
            outcome = await self.kit.moving(
                self.kit.sender.send([instruction], purpose="test", subject=b"", within_s=120, signers=[key])
            )
            assert outcome.error is None, outcome
        return [key.pubkey() for key in keys]

    async def create_mints(self, number: int, epochs: int) -> list[Pubkey]:
        """Create mints with rent for some epochs."""
        keys = [Keypair.from_seed(bytes([0xAA, epochs, index]).ljust(32, b".")) for index in range(number)]
        for key in keys:
            work = await asyncio.to_thread(create_mint, self.kit.net, key.pubkey(), self.kit.pubkey, epochs)
            outcome = await self.kit.moving(
                self.kit.sender.send([work], purpose="test", subject=b"", within_s=120, signers=[key])
            )
            assert outcome.error is None, outcome
        return [mint_of(key.pubkey())[0] for key in keys]

    async def create_associated(self, number: int, epochs: int) -> list[Pubkey]:
        """Create associated token accounts with rent for some epochs."""
        mint, accounts = set_mint(self.kit), []
        for index in range(number):
            owner = Keypair.from_seed(bytes([0xBB, epochs, index]).ljust(32, b".")).pubkey()
            account, work = create_associated_account(mint, owner, self.kit.pubkey, epochs)
            outcome = await self.kit.moving(self.kit.sender.send([work], purpose="test", subject=b"", within_s=120))
            assert outcome.error is None, outcome
            accounts.append(account)
        return accounts

    async def create_program_accounts(self, number: int, epochs: int) -> list[Pubkey]:
        """Create accounts of the test program with rent for some epochs."""
        set_program(self.kit.net)
        keys = [account_key(100 * epochs + index) for index in range(number)]
        for begin in range(0, number, 3):
            part = keys[begin : begin + 3]
            await self.kit.send(await asyncio.to_thread(create_placeholders, self.kit.net, self.kit.pubkey, part))
        for key in keys:
            set_account(self.kit.net, key, epochs, 0)
        return keys

    async def go_to(self, slot: int) -> None:
        """Register in the epoch after a slot, and go to its active phase."""
        kit = self.kit
        self.epoch = slot // ACTIVE_SLOTS + 1
        await asyncio.to_thread(kit.net.call, "localnet_warp", self.epoch * ACTIVE_SLOTS)
        await kit.send(registry.register_forester_epoch(kit.pubkey, kit.pubkey, kit.pubkey, self.epoch))
        self.slot = self.epoch * ACTIVE_SLOTS + REGISTRATION_SLOTS + 1
        await asyncio.to_thread(kit.net.call, "localnet_warp", self.slot)
        await kit.send(registry.finalize_registration(kit.pubkey, kit.pubkey, self.epoch))

    async def work(self) -> ProcessingResult:
        window = SlotRange(self.slot, self.slot + 10_000)
        return await self.kit.moving(self.closers.work(EligibilityWindow(self.epoch, window, lambda: self.slot + 1)))

    async def existing(self, accounts: list[Pubkey]) -> list[Pubkey]:
        found = await self.kit.rpc.accounts(accounts)
        return [key for key, account in zip(accounts, found, strict=True) if account is not None]


@pytest_asyncio.fixture
async def world(kit: Kit) -> World:
    return World(kit, await kit.tree(STATE_TREE))


async def test_accounts__whose_rent_has_run_out__are_closed_once_and_none_early(world: World) -> None:
    due, later = await world.create(12, 2), await world.create(3, 4)
    await world.scan()
    await world.go_to(2 * RENT_EPOCH_SLOTS - ACTIVE_SLOTS * 2)
    assert world.slot < 2 * RENT_EPOCH_SLOTS
    assert await world.work() == ProcessingResult()
    assert await world.existing(due + later) == due + later

    await world.go_to(2 * RENT_EPOCH_SLOTS)
    before = await world.kit.rpc.balance(world.kit.pubkey)
    done = await world.work()
    assert (done.elements, done.failure) == (12, None)
    assert await world.existing(due + later) == later
    earned = await world.kit.rpc.balance(world.kit.pubkey) - before
    transactions = 2  # of eight and four accounts, as many as fit
    assert earned == 12 * 11_000 - transactions * (5000 + 5000) - 12
    assert world.kit.metrics.accounts_compressed_count("ctoken") == 12
    counts = await world.counts()
    assert (counts.tracked, counts.ready) == (3, 0)
    assert (await world.work()).elements == 0


async def test_account__that_the_node_reported_wrongly__is_read_again_and_not_sent(world: World) -> None:
    accounts = await world.create(2, 2)
    await world.scan()
    await world.go_to(RENT_EPOCH_SLOTS)
    missing = Pubkey.new_unique()
    wrong = [TrackedAccount(bytes(key), TOKEN, 0, 11_000, world.slot) for key in (*accounts, missing)]
    await world.store.put(wrong)
    sent = world.kit.rpc.sent
    assert await world.work() == ProcessingResult()
    assert world.kit.rpc.sent == sent
    counts = await world.counts()
    assert (counts.tracked, counts.ready) == (2, 0)


async def test_group__with_an_account_that_the_node_lies_about__loses_only_that_one(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    due, [later] = await world.create(3, 2), await world.create(1, 4)
    await world.scan()
    await world.go_to(2 * RENT_EPOCH_SLOTS)
    await world.store.put([TrackedAccount(bytes(later), TOKEN, 0, 11_000, world.slot)])
    honest = world.kit.rpc.accounts

    async def lying(addresses: Sequence[Pubkey]) -> list[Account | None]:
        found = await honest(addresses)
        return [
            replace(item, lamports=item.lamports - 800) if item is not None and item.address == later else item
            for item in found
        ]

    monkeypatch.setattr(world.kit.rpc, "accounts", lying)
    done = await world.work()
    assert (done.elements, done.failure) == (3, None)
    monkeypatch.setattr(world.kit.rpc, "accounts", honest)
    assert await world.existing([*due, later]) == [later]
    monkeypatch.setattr(world.kit.rpc, "accounts", lying)
    sent = world.kit.rpc.sent
    assert (await world.work()).elements == 0
    assert world.kit.rpc.sent == sent  # it waits


async def test_closing__killed_while_a_transaction_is_in_flight__is_not_done_twice(
    net: Localnet, tmp_path: Path
) -> None:
    async with forester_on(net, tmp_path) as kit:
        world = World(kit, await kit.tree(STATE_TREE))
        accounts = await world.create(5, 2)
        await world.scan()
        await world.go_to(2 * RENT_EPOCH_SLOTS)
        window = SlotRange(world.slot, world.slot + 10_000)
        work = asyncio.create_task(world.closers.work(EligibilityWindow(world.epoch, window, lambda: world.slot + 1)))
        sent = kit.rpc.sent
        while kit.rpc.sent == sent:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        work.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await work
        epoch, slot = world.epoch, world.slot
    await asyncio.to_thread(net.call, "localnet_advance", 1)
    async with forester_on(net, tmp_path) as kit:
        again = World(kit, await kit.tree(STATE_TREE))
        again.epoch, again.slot = epoch, slot
        await again.work()
        assert kit.rpc.sent == 0
        assert await again.existing(accounts) == []
        assert (await again.counts()).tracked == 0


async def test_mints__whose_rent_has_run_out__are_closed_and_their_lamports_go_to_the_sponsor(world: World) -> None:
    due, later = await world.create_mints(9, 2), await world.create_mints(1, 3)
    await world.scan()
    await world.go_to(2 * RENT_EPOCH_SLOTS - ACTIVE_SLOTS * 2)
    assert await world.work() == ProcessingResult()
    await world.go_to(2 * RENT_EPOCH_SLOTS)
    held = sum(account.lamports for account in await world.kit.rpc.accounts(due) if account is not None)
    before = await world.kit.rpc.balance(RENT_SPONSOR)
    sent = world.kit.rpc.sent
    done = await world.work()
    assert (done.elements, done.failure) == (9, None)
    assert await world.existing(due + later) == later
    assert await world.kit.rpc.balance(RENT_SPONSOR) - before == held
    assert total(world.kit.metrics.rent_recovered) == held
    assert world.kit.rpc.sent - sent == 1  # as many as fit
    assert (await world.work()).elements == 0


async def test_associated_accounts__whose_rent_has_run_out__are_closed_and_counted_apart(world: World) -> None:
    due = await world.create_associated(3, 2)
    await world.scan()
    await world.go_to(2 * RENT_EPOCH_SLOTS)
    assert (await world.work()).elements == 3
    assert await world.existing(due) == []
    assert world.kit.metrics.accounts_compressed_count("ata") == 3


async def test_program_accounts__whose_rent_has_run_out__are_closed_and_the_indexer_has_them(world: World) -> None:
    due, later = await world.create_program_accounts(9, 2), await world.create_program_accounts(1, 3)
    await world.scan()
    await world.go_to(2 * RENT_EPOCH_SLOTS - ACTIVE_SLOTS * 2)
    assert await world.work() == ProcessingResult()
    await world.go_to(2 * RENT_EPOCH_SLOTS)
    held = sum(account.lamports for account in await world.kit.rpc.accounts(due) if account is not None)
    before, sent = await world.kit.rpc.balance(SPONSOR), world.kit.rpc.sent
    done = await world.work()
    assert (done.elements, done.failure) == (9, None)
    assert await world.existing(due + later) == later
    assert await world.kit.rpc.balance(SPONSOR) - before == held
    assert world.kit.metrics.accounts_compressed_count("pda") == 9
    assert world.kit.rpc.sent - sent == 1


async def test_accounts__associated_and_others__are_closed_by_transactions_of_each_without_a_refusal(
    world: World,
) -> None:
    due = [*await world.create(3, 2), *await world.create_associated(3, 2)]
    await world.scan()
    await world.go_to(2 * RENT_EPOCH_SLOTS)
    sent = world.kit.rpc.sent
    assert (await world.work()).elements == 6
    assert await world.existing(due) == []
    assert world.kit.rpc.sent - sent == 2
