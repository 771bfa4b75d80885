"""The tracker and its rows in a journal on a real file system, with a node of the test's making."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import pytest_asyncio
from compressible_accounts import account_data, mint_data
from solders.pubkey import Pubkey

from forester.chain.programs.addresses import COMPRESSED_TOKEN, REGISTRY
from forester.chain.rpc_client import Account
from forester.chain.subscriptions import AccountChanged, NotificationsLost, SlotSeen
from forester.compressible import scan
from forester.compressible import tracker as module
from forester.compressible.rent import RENT_EPOCH_SLOTS
from forester.compressible.sources import sources
from forester.compressible.token_account import RENT_BYTES, RENT_OFFSET
from forester.compressible.tracker import AccountTracker, ChangeListener
from forester.daemon.supervisor import Supervisor
from forester.errors import AnswerTooLong, EndpointUnreachable, MalformedAnswer, RequestRefused
from forester.journal.compressible import (
    ASSOCIATED_TOKEN,
    MINT,
    NEVER_SLOT,
    TOKEN,
    CompressibleStore,
    TrackedAccount,
    TrackedCounts,
)
from forester.journal.database import Journal
from forester.observability.health import HealthBoard
from shared.process.retries import Backoff

READY = 2 * RENT_EPOCH_SLOTS
TOKENS, MINTS = sources([])


def key(number: int) -> Pubkey:
    return Pubkey(number.to_bytes(32, "big"))


def row(number: int, ready: int = READY, reward: int = 11_000, seen: int = 1) -> TrackedAccount:
    return TrackedAccount(bytes(key(number)), TOKEN, ready, reward, seen)


@pytest_asyncio.fixture
async def store(tmp_path: Path) -> AsyncIterator[CompressibleStore]:
    async with await Journal.open(tmp_path / "journal.sqlite") as journal:
        yield CompressibleStore(journal, maximum=50)


async def ready(store: CompressibleStore, slot: int, maximum: int = 10) -> list[bytes]:
    return await store.ready(TOKENS.kinds, slot, maximum)


async def counts(store: CompressibleStore, slot: int) -> TrackedCounts:
    return (await store.counts(slot)).get(TOKEN, TrackedCounts())


def tracker_of(node: Node, store: CompressibleStore, **options: Any) -> AccountTracker:
    return AccountTracker(TOKENS, node, store, **{"current_slot": lambda: 100} | options)  # type: ignore[arg-type]


class Node:
    """Answers scans; those of all accounts are too long if ``too_long``."""

    def __init__(self, accounts: list[Account], *, too_long: bool = False) -> None:
        self.listed = accounts
        self.too_long = too_long
        self.unlisted: list[Account] = []
        self.read: list[Pubkey] = []
        self.scans: list[Any] = []
        self.slot_now = 10

    @property
    def whole_scans(self) -> int:
        return sum(len(memcmp) == 1 for memcmp in self.scans)

    async def slot(self) -> int:
        return self.slot_now

    async def minimum_balance(self, data_length: int) -> int:
        return (128 + data_length) * 6960

    async def accounts(self, addresses: list[Pubkey]) -> list[Account | None]:
        self.read += addresses
        existing = {item.address: item for item in (*self.listed, *self.unlisted)}
        return [existing.get(address) for address in addresses]

    async def program_accounts(
        self, program: Pubkey, *, memcmp: list[tuple[int, bytes]], start: int, length: int, maximum: None
    ) -> list[Account]:
        assert program == COMPRESSED_TOKEN
        self.scans.append(memcmp)
        if self.too_long and len(memcmp) == 1:
            raise AnswerTooLong("longer than 128 bytes")
        matching = [item for item in self.listed if all(item.data[at:][: len(part)] == part for at, part in memcmp)]
        return [
            Account(item.address, item.owner, item.lamports, item.data[start:][:length], len(item.data))
            for item in matching
        ]


def token_account(
    number: int, lamports: int = 2_011_800, *, owner: int | None = None, is_associated: bool = False
) -> Account:
    data = bytearray(account_data())
    data[32] = (number if owner is None else owner) % 256  # the first byte of the owner
    data[175] = is_associated
    return Account(key(number), COMPRESSED_TOKEN, lamports, bytes(data))


def mint_account(number: int) -> Account:
    return Account(key(number), COMPRESSED_TOKEN, 2_011_800, mint_data(key(number)))


async def test_ready__of_waiting_and_due_accounts__earns_most_first(store: CompressibleStore) -> None:
    await store.put([row(1), row(2, reward=20_000), row(3, READY + 1), row(4, READY - 5), row(5, NEVER_SLOT)])
    assert await ready(store, READY, 10) == [bytes(key(number)) for number in (2, 4, 1)]
    assert await ready(store, READY, 1) == [bytes(key(2))]
    found = await counts(store, READY)
    assert (found.tracked, found.ready, found.waiting, found.next_ready_slot) == (5, 3, 2, READY + 1)


async def test_put__of_an_earlier_slot__changes_nothing(store: CompressibleStore) -> None:
    await store.put([row(1, READY + 7, seen=5)])
    await store.put([row(1, READY, seen=4)])
    assert await ready(store, READY, 10) == []
    await store.put([row(1, READY, seen=5)])
    assert await ready(store, READY, 10) == [bytes(key(1))]


async def test_put__more_than_there_is_room_for__says_how_many(store: CompressibleStore) -> None:
    assert await store.put(row(number) for number in range(60)) == 10
    assert await store.put([row(100), row(0, READY + 7, seen=5)]) == 1
    assert bytes(key(0)) not in await ready(store, READY, 100), "what is tracked is kept up to date"
    assert (await counts(store, 0)).tracked == 50


async def test_scan__of_a_chain__stores_its_accounts_and_forgets_the_rest(store: CompressibleStore) -> None:
    await store.put([row(1, seen=3), row(99, seen=3), row(98, seen=11)])
    tracker = tracker_of(Node([token_account(1), token_account(2, 2_011_799)]), store)
    await tracker.scan()
    assert await ready(store, READY, 10) == [bytes(key(number)) for number in (2, 1, 98)]
    assert await ready(store, RENT_EPOCH_SLOTS, 10) == [bytes(key(2))]
    assert await store.last_scan_at(TOKENS.kinds) > 0


@pytest.mark.parametrize("missing", [25, 40])
async def test_scan__lacks_many_accounts_that_exist__fails_and_forgets_none(
    store: CompressibleStore, missing: int
) -> None:
    large, accounts = CompressibleStore(store._journal), [token_account(number) for number in range(1, 41)]
    node = Node(accounts)
    tracker = tracker_of(node, large)
    await tracker.scan()
    scanned_at = await large.last_scan_at(TOKENS.kinds)
    node.listed, node.unlisted, node.slot_now = accounts[missing:], accounts[:missing], 20
    text = f"lacks {missing} of 40 known accounts, but {missing} of {missing} that were read again exist"
    with pytest.raises(MalformedAnswer, match=text):
        await tracker.scan()
    assert (await counts(large, 0)).tracked == 40
    assert await large.last_scan_at(TOKENS.kinds) == scanned_at
    node.unlisted = []
    await tracker.scan()
    assert (await counts(large, 0)).tracked == 40 - missing


async def test_scan__lacks_many_of_many_accounts__reads_a_hundred_of_them(store: CompressibleStore) -> None:
    large = CompressibleStore(store._journal)
    await large.put(row(number) for number in range(1, 3001))
    node = Node([])
    node.unlisted = [token_account(number) for number in range(1, 1001)]
    with pytest.raises(MalformedAnswer, match="lacks 3000 of 3000 known accounts"):
        await tracker_of(node, large).scan()
    assert len(node.read) == len(set(node.read)) == 100


@pytest.mark.parametrize(("tracked", "missing"), [(40, 20), (300, 30)])
async def test_scan__lacks_few_accounts__forgets_them_unread(
    store: CompressibleStore, tracked: int, missing: int
) -> None:
    large = CompressibleStore(store._journal)
    await large.put(row(number) for number in range(1, tracked + 1))
    node = Node([token_account(number) for number in range(missing + 1, tracked + 1)])
    await tracker_of(node, large).scan()
    assert (await counts(large, 0)).tracked == tracked - missing
    assert node.read == []


async def test_scan__at_a_wrong_slot__leaves_rows_that_the_next_one_changes_and_forgets(
    store: CompressibleStore,
) -> None:
    node = Node([token_account(1), token_account(2)])
    node.slot_now = 2**47
    tracker = tracker_of(node, store)
    await tracker.scan()
    tracker.notice(AccountChanged(2**47, token_account(3)))
    assert [found.seen_slot for found in tracker._changes.values()] == [100]
    node.listed, node.slot_now = [token_account(1, 2_011_799)], 101
    await tracker_of(node, store, current_slot=lambda: 200).scan()
    assert await ready(store, RENT_EPOCH_SLOTS, 10) == [bytes(key(1))]
    assert (await counts(store, 0)).tracked == 1


async def test_scan__rows_of_a_slot_that_never_was__are_forgotten_by_the_second_at_the_latest(
    store: CompressibleStore,
) -> None:
    await store.put([row(1, seen=2**47), row(2, seen=2**47)])
    node = Node([token_account(1)])
    for node.slot_now in (10, 11):
        await tracker_of(node, store).scan()
    assert await ready(store, READY, 10) == [bytes(key(1))]
    assert (await counts(store, 0)).tracked == 1


async def test_scan__too_long_for_one_answer__is_split_by_owner(store: CompressibleStore) -> None:
    node = Node([token_account(number) for number in range(1, 30)], too_long=True)
    await tracker_of(node, store).scan()
    assert (await counts(store, 0)).tracked == 29
    assert len(node.scans) == 257


async def test_scan__a_part_has_many_accounts__does_not_request_all_at_once(store: CompressibleStore) -> None:
    large = CompressibleStore(store._journal)
    node = Node([token_account(number, owner=number % 2) for number in range(1, 201)])
    await tracker_of(node, large).scan()
    assert (await counts(large, 0)).tracked == 200
    assert node.whole_scans == 0


class PagedNode(Node):
    """Also answers in pages, or refuses them after one."""

    def __init__(self, accounts: list[Account], *, refuses: bool = False) -> None:
        super().__init__(accounts)
        self.refuses = refuses
        self.pages = 0

    async def program_account_pages(
        self, program: Pubkey, *, memcmp: list[tuple[int, bytes]], start: int, length: int
    ) -> AsyncIterator[list[Account]]:
        found = await self.program_accounts(program, memcmp=memcmp, start=start, length=length, maximum=None)
        for begin in range(0, len(found), 10):
            self.pages += 1
            if self.refuses and self.pages == 2:
                raise RequestRefused("Method not found", code=-32601)
            yield found[begin : begin + 10]


@pytest.mark.parametrize("refuses", [False, True])
async def test_scan__in_pages__has_all_accounts_also_if_the_node_refuses(
    store: CompressibleStore, monkeypatch: pytest.MonkeyPatch, *, refuses: bool
) -> None:
    monkeypatch.setattr(scan, "_PAGE_PAUSE_S", 0)
    node = PagedNode([token_account(number) for number in range(1, 26)], refuses=refuses)
    await tracker_of(node, store, paged=True).scan()
    assert (await counts(store, 0)).tracked == 25
    assert node.pages == (2 if refuses else 3)


async def test_slot__whose_parent_was_not_reported__causes_a_scan(
    store: CompressibleStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_AFTER_GAP_S", 0.01)
    node = Node([token_account(1)])
    tracker = tracker_of(node, store)
    await tracker.scan()
    listener = ChangeListener([tracker])
    running = asyncio.create_task(tracker.run())
    # Slots 12 and 14 were skipped by the chain, 15 is on a fork of 13; slot 18 was not reported.
    for slot, parent in ((10, 9), (11, 10), (13, 11), (15, 11), (16, 15)):
        listener.notice(SlotSeen(slot, parent))
    await asyncio.sleep(0.1)
    assert node.whole_scans == 1
    listener.notice(SlotSeen(19, 18))
    while node.whole_scans < 2:  # noqa: ASYNC110
        await asyncio.sleep(0.01)
    running.cancel()


async def test_kinds__tracked_together__are_counted_and_scanned_apart(store: CompressibleStore) -> None:
    tokens, mints = Node([token_account(1), token_account(2, is_associated=True)]), Node([mint_account(3)])
    await tracker_of(tokens, store).scan()
    await AccountTracker(MINTS, mints, store, current_slot=lambda: 100).scan()  # type: ignore[arg-type]
    await tracker_of(tokens, store).scan()
    found = await store.counts(READY)
    assert {kind: item.tracked for kind, item in found.items()} == {TOKEN: 1, ASSOCIATED_TOKEN: 1, MINT: 1}
    assert await ready(store, NEVER_SLOT - 1) == [bytes(key(1)), bytes(key(2))]
    assert await store.ready(MINTS.kinds, NEVER_SLOT - 1, 10) == [bytes(key(3))]
    await store.keep_kinds([MINT])
    assert list(await store.counts(READY)) == [MINT]


async def test_claimable__of_accounts_that_owe_rent__is_ordered_by_rent(store: CompressibleStore) -> None:
    rows = [
        TrackedAccount(bytes(key(number)), TOKEN, 10 * RENT_EPOCH_SLOTS, 11_000, 1, epoch, rent)
        for number, epoch, rent in ((1, 3, 400), (2, 1, 400), (3, 5, 900), (4, 2, 0), (5, 4, 900))
    ]
    await store.put([*rows, TrackedAccount(bytes(key(6)), TOKEN, 4 * RENT_EPOCH_SLOTS, 11_000, 1, 0, 400)])
    slot = 5 * RENT_EPOCH_SLOTS
    assert [bytes(address) for address, _ in await store.claimable(slot, 5, 10)] == [
        bytes(key(number)) for number in (2, 5, 1)
    ]
    await store.claimed([bytes(key(2))], 5)
    assert [address for address, _ in await store.claimable(slot, 5, 10)] == [bytes(key(5)), bytes(key(1))]


async def test_changes__noticed_between_scans__are_stored_together(store: CompressibleStore, monkeypatch: Any) -> None:
    monkeypatch.setattr(module, "_STORE_S", 0.01)
    tracker = tracker_of(Node([]), store)
    tracker.notice(AccountChanged(7, token_account(1)))
    tracker.notice(AccountChanged(8, token_account(1, 2_012_200)))
    tracker.notice(AccountChanged(8, Account(key(3), REGISTRY, 5, account_data())))
    tracker.notice(AccountChanged(8, Account(key(4), COMPRESSED_TOKEN, 5, bytes(165))))
    storing = asyncio.create_task(tracker.store_changes())
    while not (await counts(store, 0)).tracked:  # noqa: ASYNC110
        await asyncio.sleep(0.01)
    storing.cancel()
    assert await ready(store, NEVER_SLOT - 1, 10) == [bytes(key(1))]
    assert await ready(store, READY, 10) == []


async def test_run__after_a_restart__scans_only_when_it_is_due_or_after_a_gap(
    store: CompressibleStore, monkeypatch: Any
) -> None:
    monkeypatch.setattr(module, "_AFTER_GAP_S", 0.01)
    node = Node([token_account(1)])
    first = tracker_of(node, store)
    await first.scan()
    again = tracker_of(node, store)
    listener = ChangeListener([again])
    listener.notice(NotificationsLost(0))
    running = asyncio.create_task(again.run())
    await asyncio.sleep(0.1)
    assert node.whole_scans == 1
    listener.notice(NotificationsLost(1))
    while node.whole_scans < 2:  # noqa: ASYNC110
        await asyncio.sleep(0.01)
    running.cancel()


async def test_run__an_hour_after_the_last_scan__scans(store: CompressibleStore) -> None:
    node = Node([token_account(1)])
    await tracker_of(node, store).scan()
    later = await store.last_scan_at(TOKENS.kinds) + module.SCAN_EVERY_S
    running = asyncio.create_task(tracker_of(node, store, clock=lambda: later).run())
    while node.whole_scans < 2:  # noqa: ASYNC110
        await asyncio.sleep(0.01)
    running.cancel()


class FakeTime:
    """A clock that sleeps move."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 1_000_000.0
        self._sleep = asyncio.sleep
        self.slept: list[float] = []
        monkeypatch.setattr(asyncio, "sleep", self.sleep)
        monkeypatch.setattr(module, "occurs_within", self.occurs_within)
        monkeypatch.setattr("shared.process.retries.time", SimpleNamespace(monotonic=lambda: self.now))
        monkeypatch.setattr("forester.journal.compressible.time", SimpleNamespace(time=lambda: self.now))

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds
        await self._sleep(0)

    async def occurs_within(self, event: asyncio.Event, seconds: float) -> bool:
        if not event.is_set():
            await self.sleep(seconds)
        return event.is_set()


class SlowNode(Node):
    """Fails scans after some time, all but the first ``good`` ones."""

    def __init__(self, time: FakeTime, seconds: float, *, good: int = 0) -> None:
        super().__init__([token_account(1)])
        self.time = time
        self.seconds = seconds
        self.good = good
        self.began: list[float] = []

    async def slot(self) -> int:
        self.began.append(self.time.now)
        return await super().slot()

    async def program_accounts(self, *arguments: Any, **options: Any) -> list[Account]:
        if len(self.began) <= self.good:
            return await super().program_accounts(*arguments, **options)
        self.time.now += self.seconds
        raise EndpointUnreachable


async def test_run__scan_was_recorded_by_a_clock_ahead__scans_within_an_hour_and_soon_after_a_gap(
    store: CompressibleStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    time = FakeTime(monkeypatch)
    began = time.now
    for gap in (False, True):
        time.now = began + 86_400
        await store.finish_scan(TOKENS.kinds, 10)
        time.now = began
        node = SlowNode(time, 1.0, good=1)
        tracker = tracker_of(node, store, clock=lambda: time.now)
        if gap:
            tracker.notice_gap()
        running = asyncio.create_task(tracker.run())
        while not node.began:
            await time._sleep(0)
        running.cancel()
        assert node.began[0] - began <= (module._AFTER_GAP_S if gap else module.SCAN_EVERY_S)


@pytest.mark.parametrize("seconds", [0.1, 100.0])
async def test_run__scans_fail__pauses_grow_to_a_multiple_of_their_duration_and_they_reach_the_health_board(
    store: CompressibleStore, monkeypatch: pytest.MonkeyPatch, seconds: float
) -> None:
    time = FakeTime(monkeypatch)
    node, board = SlowNode(time, seconds), HealthBoard(clock=lambda: time.now)
    tracker = tracker_of(node, store, clock=lambda: time.now)
    supervisor = Supervisor(failed=board.task_failed, backoff=Backoff(0.001, 0.001))
    supervisor.start("compressible_scan_0", tracker.run)
    seen: list[int] = []
    while len(node.began) < 8:
        if board.problems:
            seen.append(len(node.began))
        await time._sleep(0)
    await supervisor.stop(1)
    pauses = [after - before - seconds for before, after in itertools.pairwise(node.began[:8])]
    for number, pause_s in enumerate(pauses):
        expected_s = max(15.0, min(15.0 * 2**number, 20 * seconds))
        assert expected_s - 0.1 <= pause_s <= expected_s + 5
    assert seen
    assert 3 <= min(seen) <= 5


async def test_run__clock_is_set_while_a_scan_fails__scans_again_within_an_hour(
    store: CompressibleStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    time = FakeTime(monkeypatch)
    node = SlowNode(time, 7 * 86_400.0)
    running = asyncio.create_task(tracker_of(node, store, clock=lambda: time.now).run())
    while not time.slept:
        await time._sleep(0)
    time.now -= 7 * 86_400.0
    while len(node.began) < 2:
        await time._sleep(0)
    running.cancel()
    assert sum(time.slept) <= module.SCAN_EVERY_S + module._REPORT_EVERY_S


async def test_run__scan_after_a_gap_fails__is_repeated_and_a_success_ends_the_failures(
    store: CompressibleStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    time = FakeTime(monkeypatch)
    node = SlowNode(time, 10.0)
    tracker = tracker_of(node, store, clock=lambda: time.now)
    await store.finish_scan(TOKENS.kinds, 10)
    tracker.notice_gap()
    running = asyncio.create_task(tracker.run())
    while len(node.began) < 2:
        await time._sleep(0)
    assert 25 <= node.began[1] - node.began[0] <= 26
    node.good = 3
    while len(node.began) < 4:
        await time._sleep(0)
    running.cancel()
    assert 3590 <= node.began[3] - node.began[2] <= 3610


def test_slice__of_a_scan__covers_the_extension() -> None:
    assert (RENT_OFFSET, RENT_BYTES) == (165, 107)
