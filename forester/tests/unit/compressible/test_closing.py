"""Rounds of closing and their pauses, with a node, a sender and an indexer of the test's making."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import pytest_asyncio
from compressible_accounts import AUTHORITY, account_data, mint_data
from solders.instruction import Instruction
from solders.pubkey import Pubkey

from forester.chain.programs.addresses import COMPRESSED_TOKEN, REGISTRY
from forester.chain.programs.compressed_address import compressed_address
from forester.chain.programs.compression import MINT_ADDRESS_TREE
from forester.chain.rpc_client import Account
from forester.compressible import closing
from forester.compressible.closers import MintCloser, TokenAccountCloser
from forester.compressible.closing import ClosingRounds
from forester.compressible.rent import RENT_EPOCH_SLOTS
from forester.compressible.sources import sources
from forester.epoch.phases import SlotRange
from forester.errors import InsufficientFunds, TransactionRefused
from forester.indexer.types import Hash32
from forester.journal.compressible import MINT, TOKEN, CompressibleStore, TrackedAccount
from forester.journal.database import Journal
from forester.observability.metrics import Metrics
from forester.scheduling.eligibility_window import EligibilityWindow, ProcessingResult
from forester.transactions.confirm import Fate, Outcome

DUE = 2 * RENT_EPOCH_SLOTS
TOKENS, MINTS = sources([])
PAYER = AUTHORITY
BATCH = 10


def address_of_mint(number: int) -> bytes:
    """Return the address of the compressed account of a mint."""
    return compressed_address(key(number), MINT_ADDRESS_TREE, COMPRESSED_TOKEN)


def key(number: int) -> Pubkey:
    return Pubkey(number.to_bytes(32, "big"))


class World:
    """Due accounts, and a sender that refuses transactions with an account for which ``refuses`` is true."""

    def __init__(self, store: CompressibleStore) -> None:
        self.store = store
        self.sent: list[int] = []
        self.refuses: Callable[[int], bool] = lambda _: False
        self.error: TransactionRefused = TransactionRefused("refused", program=str(COMPRESSED_TOKEN), code=6090)
        self.first_errors: list[TransactionRefused] = []
        """Errors of the first refusals."""
        self.unknown: Outcome | None = None
        """Outcome of all transactions, if it is one."""
        self.slot = DUE
        self.now = 1000.0
        self.chain: dict[Pubkey, Account] = {}
        self.trees: list[Any] = [
            SimpleNamespace(queue=key(10**6), metadata=SimpleNamespace(network_fee=1, rollover_fee=1))
        ]
        parts: Any = (self, store, self, Metrics())
        indexer: Any = self
        self.rounds = ClosingRounds(
            *parts,
            closers=[
                TokenAccountCloser(TOKENS, payer=PAYER, derivation=PAYER),
                MintCloser(MINTS, indexer, payer=PAYER),
            ],
            trees=lambda: list(self.trees),
            clock=lambda: self.now,
        )

    async def add(self, numbers: range, kind: int = TOKEN) -> None:
        rows = [TrackedAccount(bytes(key(number)), kind, DUE, 11_000 if kind == TOKEN else 0, 1) for number in numbers]
        await self.store.put(rows)
        for number in numbers:
            data = account_data() if kind == TOKEN else mint_data(key(number))
            self.chain[key(number)] = Account(key(number), COMPRESSED_TOKEN, 2_011_800, data)

    async def work(self, later_s: float = 0.0) -> ProcessingResult:
        self.sent.clear()
        self.now += later_s
        return await self.rounds.work(EligibilityWindow(1, SlotRange(0, 10**9), lambda: self.slot))

    # A node.

    async def accounts(self, addresses: Sequence[Pubkey], **_: object) -> list[Account | None]:
        return [self.chain.get(address) for address in addresses]

    # A sender.

    async def wait_for_earlier(self, *_: object) -> bool:
        return True

    def fits(self, _: Sequence[Instruction]) -> bool:
        return True

    async def send(self, work: Sequence[Instruction], **_: object) -> Outcome:
        named = {meta.pubkey for instruction in work for meta in instruction.accounts} & self.chain.keys()
        self.sent.append(len(named))
        if self.unknown is not None:
            return self.unknown
        if any(self.refuses(int.from_bytes(bytes(address))) for address in named):
            return Outcome(Fate.REFUSED, error=self.first_errors.pop(0) if self.first_errors else self.error)
        return Outcome(Fate.CONFIRMED, slot=self.slot)

    # An indexer.

    async def compressed_accounts(self, addresses: Sequence[Hash32]) -> list[Any]:
        return [SimpleNamespace(hash=address) for address in addresses]

    async def validity_proof(self, hashes: Sequence[Hash32]) -> Any:
        raise AssertionError("no proof is requested")

    async def proof(self, _: Sequence[Hash32]) -> Any:
        """Return a proof by index; tests replace ``validity_proof`` by it."""
        context = SimpleNamespace(tree=bytes(32), queue=bytes(32))
        index = SimpleNamespace(prove_by_index=True)
        account = SimpleNamespace(merkle_context=context, root_index=index, leaf_index=1)
        return SimpleNamespace(accounts=[account], compressed_proof=None)


@pytest_asyncio.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    async with await Journal.open(tmp_path / "journal.sqlite") as journal:
        yield World(CompressibleStore(journal))


async def test_work__only_tree_is_replaced_meanwhile__ends_the_round_and_begins_no_other(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def replaced(*_: object) -> bool:
        world.trees.clear()
        return True

    await world.add(range(1, 4))
    monkeypatch.setattr(world, "wait_for_earlier", replaced)
    assert (await world.work()).elements == 3
    await world.add(range(4, 6))
    assert await world.work() == ProcessingResult()


@pytest.mark.parametrize(("program", "code"), [(COMPRESSED_TOKEN, 6090), (REGISTRY, 6020), (None, 6001)])
async def test_round__that_is_all_refused__fails_and_the_next_ones_try_one_batch(
    world: World, program: Pubkey | None, code: int
) -> None:
    await world.add(range(1, 301))
    world.error = TransactionRefused("refused", program=None if program is None else str(program), code=code)
    world.refuses = lambda _: True
    transactions = []
    for later_s in (0, 10, 20):
        done = await world.work(later_s)
        assert done.failure is world.error
        transactions.append(len(world.sent))
    assert transactions == [100 // BATCH + 100, 1 + BATCH, 1 + BATCH]

    world.refuses = lambda _: False
    done = await world.work(40)
    assert (done.elements, done.more, done.failure) == (BATCH, True, None)
    assert (await world.work()).elements == 100


async def test_round__token_accounts_are_refused__skips_them_for_growing_pauses_and_closes_mints(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(World, "validity_proof", World.proof)
    await world.add(range(1, 301))
    world.refuses = lambda number: number <= 300
    assert (await world.work()).failure is world.error
    for number, pause_s in enumerate([10, 20, 40, 80, 160, 300, 300]):
        mint = 500 + number
        await world.add(range(mint, mint + 1), MINT)
        done = await world.work(pause_s - 0.1)
        assert (done.elements, done.more, done.failure, world.sent) == (1, False, None, [1])
        assert await world.work() == ProcessingResult()
        assert (await world.work(0.1)).failure is world.error

    world.refuses = lambda number: number == 1000
    assert (await world.work(300)).elements == BATCH
    # The count begins again after an account was closed.
    await world.store.remove([bytes(key(number)) for number in range(1, 301)])
    await world.add(range(1000, 1001))
    assert (await world.work()).failure is world.error
    await world.add(range(1001, 1011))
    assert (await world.work(9.9)).elements == 0
    assert (await world.work(0.1)).elements == BATCH


async def test_round__program_skips_the_batch_of_an_account_that_is_not_due__closes_the_others(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(TokenAccountCloser, "skips_silently", True)
    await world.add(range(1, 4))
    send = world.send

    async def send_and_close(work: Sequence[Instruction], **options: object) -> Outcome:
        outcome = await send(work, **options)
        named = {meta.pubkey for instruction in work for meta in instruction.accounts} & world.chain.keys()
        if key(2) not in named:
            for address in named:
                del world.chain[address]
        return outcome

    monkeypatch.setattr(world, "send", send_and_close)
    done = await world.work()
    assert (done.elements, done.failure) == (2, None)
    assert world.sent == [3, 1, 1, 1]
    assert (await world.work(1)).elements == 0, "the skipped account waits"
    assert world.sent == []
    monkeypatch.undo()
    world.slot += RENT_EPOCH_SLOTS
    assert (await world.work(3600)).elements == 1


async def test_round__account_is_refused_again_and_scanned_between__waits_longer_each_time(world: World) -> None:
    await world.add(range(1, 4))
    world.refuses = lambda number: number == 2
    attempts, began = [], world.slot
    for _ in range(2000):
        await world.add(range(2, 3))  # as an hourly scan stores it
        await world.work(3600)
        if world.sent:
            attempts.append(world.slot - began)
        world.slot += 750
    assert attempts == [0, 1500, 4500, 10_500, 22_500, 46_500, 94_500, 190_500, *range(382_500, 1_500_000, 192_000)]


async def test_round__one_account_of_many_is_bad__does_not_fail(world: World) -> None:
    await world.add(range(1, 301))
    world.refuses = lambda number: number == 5
    closed = []
    for _ in range(3):
        done = await world.work()
        assert done.failure is None
        closed.append(done.elements)
    assert closed == [99, 100, 100]


async def test_round__after_refusals_of_a_bad_account_alone__closes_the_good_ones(world: World) -> None:
    await world.add(range(1, 2))
    world.refuses = lambda number: number == 1
    assert (await world.work()).failure is world.error
    await world.add(range(2, 302))
    assert [(await world.work(10)).elements for _ in range(3)] == [BATCH, 100, 100]


async def test_round__all_refused_accounts_earn_most__finds_the_good_ones(world: World) -> None:
    await world.add(range(1, 1001))
    await world.store.put([TrackedAccount(bytes(key(number)), TOKEN, DUE, 12_000, 1) for number in range(1, 301)])
    world.refuses = lambda number: number <= 300
    assert (await world.work()).failure is world.error
    # Ten random accounts are all bad in one of 10**7 cases.
    assert (await world.work(10)).elements > 0


async def test_round__thousands_of_refused_accounts_earn_more__closes_mints(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(World, "validity_proof", World.proof)
    await world.add(range(10_000, 16_000))
    world.refuses = lambda number: number >= 10_000
    assert (await world.work()).failure is world.error
    await world.add(range(1, 2), MINT)
    assert (await world.work()).elements == 1, "token accounts are skipped"
    await world.add(range(2, 3), MINT)
    assert (await world.work(10)).elements == 1, "token accounts are tried again"
    assert sorted(world.sent) == [*[1] * (1 + BATCH), BATCH]


async def test_round__without_money__fails_for_lack_of_money(world: World) -> None:
    await world.add(range(1, 301))
    world.refuses, world.error = lambda _: True, InsufficientFunds()
    assert isinstance((await world.work()).failure, InsufficientFunds)
    world.refuses = lambda _: False
    assert (await world.work()).elements == 100


@pytest.mark.parametrize(
    ("program", "code"),
    [*((str(REGISTRY), code) for code in (6000, 6004, 6011, 6017)), *((None, code) for code in (6004, 6011, 6017))],
)
async def test_round__refused_for_the_share_or_the_phase__tries_no_account_alone_and_reports_it(
    world: World, monkeypatch: pytest.MonkeyPatch, program: str | None, code: int
) -> None:
    monkeypatch.setattr(World, "validity_proof", World.proof)
    await world.add(range(1, 301))
    await world.add(range(500, 501), MINT)
    world.refuses = lambda number: number <= 300
    world.error = TransactionRefused("refused", program=program, code=code)
    done = await world.work()
    assert (done.elements, done.failure) == (1, world.error), "also while mints are closed"
    assert sorted(world.sent) == [1, BATCH]
    assert len(await world.store.ready(TOKENS.kinds, world.slot, 400)) == 300, "no account is to blame"
    assert await world.work(9.9) == ProcessingResult(), "each attempt costs fees"


async def test_round__share_is_lost_while_accounts_are_tried_alone__ends(world: World) -> None:
    await world.add(range(1, 11))
    world.refuses = lambda _: True
    world.first_errors = [world.error, world.error]
    world.error = TransactionRefused("refused", program=str(REGISTRY), code=6004)
    assert (await world.work()).failure is world.error
    assert world.sent == [BATCH, 1, 1]


async def test_round__accounts_of_a_refused_batch_are_closed_by_others__tries_only_the_rest(world: World) -> None:
    await world.add(range(1, 11))
    world.refuses = lambda number: number == 1 and world.chain.pop(key(2), None) is not None
    done = await world.work()
    assert (done.elements, done.failure, world.sent) == (9, None, [BATCH, *[1] * 9])
    assert await world.store.ready(TOKENS.kinds, world.slot + 10_000, 10) == []


@pytest.mark.parametrize("error", [None, InsufficientFunds()])
async def test_round__transaction_may_still_land__its_accounts_wait_until_it_cannot(
    world: World, error: InsufficientFunds | None
) -> None:
    await world.add(range(1, 11))
    world.unknown = Outcome(Fate.DEADLINE_PASSED, error=error)
    assert (await world.work()).failure is error
    world.unknown = None
    for later_slots, sent in ((0, []), (199, []), (1, [BATCH])):
        await world.add(range(1, 11))  # as a scan stores them
        world.slot += later_slots
        await world.work()
        assert world.sent == sent


async def test_round__no_place_to_send_before_the_window_ends__leaves_the_accounts_ready(world: World) -> None:
    await world.add(range(1, 11))
    world.unknown = Outcome(Fate.DEADLINE_PASSED, signed=False)
    assert (await world.work()).elements == 0
    world.unknown = None
    assert (await world.work()).elements == 10


async def never(*_: object) -> Any:
    await asyncio.Event().wait()


@pytest.mark.parametrize(
    ("owner", "method"), [(World, "validity_proof"), (World, "compressed_accounts"), (MintCloser, "prepare")]
)
async def test_round__service_of_mints_does_not_answer__closes_token_accounts_and_the_mint_waits_ten_minutes(
    world: World, monkeypatch: pytest.MonkeyPatch, owner: type, method: str
) -> None:
    monkeypatch.setattr(owner, method, never)
    monkeypatch.setattr(closing, "_PREPARING_S", 0.2)
    await world.add(range(1, 11))
    await world.add(range(500, 501), MINT)
    working = asyncio.create_task(world.work())
    await asyncio.sleep(0.1)
    world.slot += 1400  # the round takes long
    began = time.monotonic()
    done = await asyncio.wait_for(working, 20)
    assert time.monotonic() - began < 5
    assert (done.elements, done.failure) == (10, None)
    assert await world.store.ready(MINTS.kinds, world.slot + 1499, 10) == []
    assert await world.store.ready(MINTS.kinds, world.slot + 1500, 10) == [bytes(key(500))]


def proofs_that_take(seconds: Callable[[Hash32], float]) -> Callable[[World, Sequence[Hash32]], Any]:
    async def validity_proof(world: World, hashes: Sequence[Hash32]) -> Any:
        await asyncio.sleep(seconds(hashes[0]))
        return await world.proof(hashes)

    return validity_proof


async def test_round__some_proofs_are_late__closes_the_other_mints(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    late = {address_of_mint(number) for number in (501, 503, 507)}
    monkeypatch.setattr(World, "validity_proof", proofs_that_take(lambda value: 60 if bytes(value) in late else 0))
    monkeypatch.setattr(closing, "_PREPARING_S", 0.5)
    await world.add(range(500, 508), MINT)
    done = await world.work()
    assert (done.elements, done.failure) == (5, None)
    assert await world.store.ready(MINTS.kinds, world.slot + 1499, 10) == []
    assert len(await world.store.ready(MINTS.kinds, world.slot + 1500, 10)) == 3


async def test_round__proofs_queue_for_longer_than_the_limit__leaves_the_untried_mints_ready(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(World, "validity_proof", proofs_that_take(lambda _: 0.5))
    monkeypatch.setattr(closing, "_PREPARING_S", 0.9)
    await world.add(range(500, 510), MINT)
    # The second four begin within the limit and end after it.
    assert (await world.work()).elements == 8
    assert len(await world.store.ready(MINTS.kinds, world.slot, 10)) == 2
    assert (await world.work()).elements == 2


async def test_round__proofs_hang__tries_the_other_mints_after_a_pause(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(World, "validity_proof", never)
    monkeypatch.setattr(closing, "_PREPARING_S", 0.2)
    await world.add(range(500, 510), MINT)
    assert await world.work() == ProcessingResult()
    assert len(await world.store.ready(MINTS.kinds, world.slot, 10)) == 6
    monkeypatch.setattr(World, "validity_proof", World.proof)
    assert await world.work(9.9) == ProcessingResult()
    assert (await world.work(0.1)).elements == 6


async def test_round__indexer_hangs_in_a_short_window__ends_before_it_and_the_mint_waits_ten_minutes(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(World, "compressed_accounts", never)
    await world.add(range(500, 501), MINT)
    window = EligibilityWindow(1, SlotRange(0, DUE + 7), lambda: world.slot)
    within_s = window.sending_seconds()
    assert within_s
    began = time.monotonic()
    assert await world.rounds.work(window) == ProcessingResult()
    assert time.monotonic() - began < 0.9 * within_s
    assert await world.store.ready(MINTS.kinds, world.slot + 1499, 10) == []


async def test_round__node_hangs_until_the_window_ends__logs_it_and_does_not_postpone(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(World, "accounts", never)
    await world.add(range(500, 501), MINT)
    window = EligibilityWindow(1, SlotRange(0, DUE + 5), lambda: world.slot)
    logged: list[tuple[str, dict[str, object]]] = []
    log = SimpleNamespace(warning=lambda event, **facts: logged.append((event, facts)))
    monkeypatch.setattr(closing, "_log", log)
    assert await asyncio.wait_for(world.rounds.work(window), 20) == ProcessingResult()
    assert logged == [("compression_not_prepared", {"of": MINTS.name, "error": "the eligibility window ended"})]
    assert await world.store.ready(MINTS.kinds, world.slot, 10) == [bytes(key(500))]
