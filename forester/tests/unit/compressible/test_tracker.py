"""The tracker and its rows in a journal on a real file system, with a node of the test's making."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest_asyncio
from compressible_accounts import account_data
from solders.pubkey import Pubkey

from forester.chain.programs.addresses import COMPRESSED_TOKEN, REGISTRY
from forester.chain.rpc_client import Account
from forester.chain.subscriptions import AccountChanged, NotificationsLost
from forester.compressible import tracker as module
from forester.compressible.rent import RENT_EPOCH_SLOTS
from forester.compressible.token_account import RENT_BYTES, RENT_OFFSET
from forester.compressible.tracker import TokenAccountTracker
from forester.errors import AnswerTooLong
from forester.journal.compressible import NEVER_SLOT, CompressibleStore, TrackedAccount
from forester.journal.database import Journal

READY = 2 * RENT_EPOCH_SLOTS


def key(number: int) -> Pubkey:
    return Pubkey(number.to_bytes(32, "big"))


def row(number: int, ready: int = READY, reward: int = 11_000, seen: int = 1) -> TrackedAccount:
    return TrackedAccount(bytes(key(number)), ready, reward, seen)


@pytest_asyncio.fixture
async def store(tmp_path: Path) -> AsyncIterator[CompressibleStore]:
    async with await Journal.open(tmp_path / "journal.sqlite") as journal:
        yield CompressibleStore(journal, maximum=50)


class Node:
    """Answers scans; the first ``too_long`` of them are too long."""

    def __init__(self, accounts: list[Account], too_long: int = 0) -> None:
        self.accounts = accounts
        self.too_long = too_long
        self.scans: list[Any] = []

    async def slot(self) -> int:
        return 10

    async def program_accounts(
        self, program: Pubkey, *, memcmp: list[tuple[int, bytes]], start: int, length: int, maximum: None
    ) -> list[Account]:
        assert program == COMPRESSED_TOKEN
        self.scans.append(memcmp)
        if len(self.scans) <= self.too_long:
            raise AnswerTooLong("longer than 128 bytes")
        matching = [item for item in self.accounts if all(item.data[at:][: len(part)] == part for at, part in memcmp)]
        return [
            Account(item.address, item.owner, item.lamports, item.data[start:][:length], len(item.data))
            for item in matching
        ]


def token_account(number: int, lamports: int = 2_011_800) -> Account:
    data = bytearray(account_data())
    data[32] = number  # the first byte of the owner
    return Account(key(number), COMPRESSED_TOKEN, lamports, bytes(data))


async def test_ready__of_waiting_and_due_accounts__earns_most_first(store: CompressibleStore) -> None:
    await store.put([row(1), row(2, reward=20_000), row(3, READY + 1), row(4, READY - 5), row(5, NEVER_SLOT)])
    assert await store.ready(READY, 10) == [bytes(key(number)) for number in (2, 4, 1)]
    assert await store.ready(READY, 1) == [bytes(key(2))]
    counts = await store.counts(READY)
    assert (counts.tracked, counts.ready, counts.waiting, counts.next_ready_slot) == (5, 3, 2, READY + 1)


async def test_put__of_an_earlier_slot__changes_nothing(store: CompressibleStore) -> None:
    await store.put([row(1, READY + 7, seen=5)])
    await store.put([row(1, READY, seen=4)])
    assert await store.ready(READY, 10) == []
    await store.put([row(1, READY, seen=5)])
    assert await store.ready(READY, 10) == [bytes(key(1))]


async def test_put__more_than_there_is_room_for__says_how_many(store: CompressibleStore) -> None:
    assert await store.put(row(number) for number in range(60)) == 10
    assert (await store.counts(0)).tracked == 50


async def test_scan__of_a_chain__stores_its_accounts_and_forgets_the_rest(store: CompressibleStore) -> None:
    await store.put([row(1, seen=3), row(99, seen=3), row(98, seen=11)])
    tracker = TokenAccountTracker(Node([token_account(1), token_account(2, 2_011_799)]), store)  # type: ignore[arg-type]
    await tracker.scan()
    assert await store.ready(READY, 10) == [bytes(key(number)) for number in (2, 1, 98)]
    assert await store.ready(RENT_EPOCH_SLOTS, 10) == [bytes(key(2))]
    assert await store.last_scan_at() > 0


async def test_scan__too_long_for_one_answer__is_split_by_owner(store: CompressibleStore) -> None:
    node = Node([token_account(number) for number in range(1, 30)], too_long=1)
    await TokenAccountTracker(node, store).scan()  # type: ignore[arg-type]
    assert (await store.counts(0)).tracked == 29
    assert len(node.scans) == 257


async def test_changes__noticed_between_scans__are_stored_together(store: CompressibleStore, monkeypatch: Any) -> None:
    monkeypatch.setattr(module, "_STORE_S", 0.01)
    tracker = TokenAccountTracker(Node([]), store)  # type: ignore[arg-type]
    tracker.notice(AccountChanged(7, token_account(1)))
    tracker.notice(AccountChanged(8, token_account(1, 2_012_200)))
    tracker.notice(AccountChanged(8, Account(key(3), REGISTRY, 5, account_data())))
    tracker.notice(AccountChanged(8, Account(key(4), COMPRESSED_TOKEN, 5, bytes(165))))
    storing = asyncio.create_task(tracker.store_changes())
    while not (await store.counts(0)).tracked:  # noqa: ASYNC110
        await asyncio.sleep(0.01)
    storing.cancel()
    assert await store.ready(NEVER_SLOT - 1, 10) == [bytes(key(1))]
    assert await store.ready(READY, 10) == []


async def test_run__after_a_restart__scans_only_when_it_is_due_or_after_a_gap(
    store: CompressibleStore, monkeypatch: Any
) -> None:
    for name in ("_AFTER_GAP_S", "_BETWEEN_SCANS_S"):
        monkeypatch.setattr(module, name, 0.01)
    node = Node([token_account(1)])
    first = TokenAccountTracker(node, store)  # type: ignore[arg-type]
    await first.scan()
    again = TokenAccountTracker(node, store)  # type: ignore[arg-type]
    again.notice(NotificationsLost(0))
    running = asyncio.create_task(again.run())
    await asyncio.sleep(0.1)
    assert len(node.scans) == 1
    again.notice(NotificationsLost(1))
    while len(node.scans) < 2:  # noqa: ASYNC110
        await asyncio.sleep(0.01)
    running.cancel()


async def test_run__an_hour_after_the_last_scan__scans(store: CompressibleStore) -> None:
    node = Node([token_account(1)])
    await TokenAccountTracker(node, store).scan()  # type: ignore[arg-type]
    later = await store.last_scan_at() + module.SCAN_EVERY_S
    running = asyncio.create_task(TokenAccountTracker(node, store, clock=lambda: later).run())  # type: ignore[arg-type]
    while len(node.scans) < 2:  # noqa: ASYNC110
        await asyncio.sleep(0.01)
    running.cancel()


def test_slice__of_a_scan__covers_the_extension() -> None:
    assert (RENT_OFFSET, RENT_BYTES) == (165, 107)
