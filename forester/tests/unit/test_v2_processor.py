"""Every decision of the V2 processor, on a small tree whose chain, indexer, prover and sender are played."""

from __future__ import annotations

import asyncio
import contextlib
import copy
import random
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import pytest_asyncio
from msgspec.structs import replace as changed
from v2_models import SLOTS, ZKP, StateModel, number
from v2_world import TREE, World

from forester.epoch.turn import Round
from forester.errors import EndpointUnreachable, InsufficientFunds, TransactionRefused
from forester.indexer.types import StateQueue
from forester.journal.database import Journal
from forester.journal.proofs import ProofStore
from forester.observability.metrics import Metrics
from forester.pipeline_v2.failures import (
    HashChainDiffers,
    HeadOutdated,
    RefusedAgain,
    SnapshotContradicts,
    SnapshotOutdated,
    TransactionLost,
)
from forester.pipeline_v2.processor import V2Processor
from forester.pipeline_v2.services import V2Limits
from forester.settings import Settings
from forester.transactions.confirm import Fate, Outcome
from shared.circuit_id import CircuitKind

APPEND = CircuitKind.BATCH_APPEND


@dataclass
class Bench:
    """A world with a journal; ``start`` gives the processor of a new process on it."""

    path: Path
    stack: contextlib.AsyncExitStack
    world: World = field(default_factory=World)
    metrics: Metrics = field(default_factory=Metrics)
    journal: Journal | None = None
    processor: V2Processor | None = None

    async def start(self, limits: V2Limits | None = None) -> V2Processor:
        await self.stop()
        self.journal = await Journal.open(self.path)
        self.processor = self.world.processor(self.journal, self.metrics, limits)
        return self.processor

    async def stop(self) -> None:
        """End a process; what it had under way is lost, but for what was kept."""
        if self.processor is not None and self.journal is not None:
            await self.processor.close(0.0)
            await self.journal.close()
        self.processor = self.journal = None

    async def kept(self) -> list[int]:
        """Sequence numbers of the proofs in the journal."""
        assert self.journal is not None
        return [proof.sequence for proof in await ProofStore(self.journal).of_tree(bytes(TREE))]

    def processed(self) -> float:
        name = "forester_transactions_processed_total"
        return self.metrics.registry.get_sample_value(name, {"epoch": "7"}) or 0.0


@pytest_asyncio.fixture
async def bench(tmp_path: Path) -> AsyncIterator[Bench]:
    async with contextlib.AsyncExitStack() as stack:
        made = Bench(tmp_path / "journal", stack)
        stack.push_async_callback(made.stop)
        yield made


async def until(true: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not true():  # noqa: ASYNC110 - what is played has no events
            await asyncio.sleep(0.01)


async def test_work__both_queues_filled__lands_all_in_transactions_that_chain(bench: Bench) -> None:
    bench.world.fill(10, spent=[0, 3])
    processor = await bench.start(V2Limits(round_batches=20, gather_s=1e9))
    assert await processor.work(bench.world.turn()) == Round(elements=6 * ZKP, transactions=2)
    assert (bench.world.sent, bench.world.unit_limits) == ([4, 2], [800_000, 400_000])
    assert (bench.world.model.appended, bench.world.model.nullified) == (10, 2)
    assert bench.processed() == 12
    assert await processor.work(bench.world.turn()) == Round()
    assert bench.world.snapshots == 1, "with nothing to do the indexer is not asked"
    assert await bench.kept() == []


async def test_work__tree_that_remembers_more_roots_than_usual__is_read_as_well(bench: Bench) -> None:
    bench.world.ring = 300
    bench.world.model.sequence = 250
    bench.world.fill(4)
    processor = await bench.start()
    assert await processor.work(bench.world.turn()) == Round(elements=2 * ZKP, transactions=1)


async def test_work__more_than_a_round__says_so_and_goes_on(bench: Bench) -> None:
    bench.world.fill(10)
    processor = await bench.start(V2Limits.of(Settings(max_batches_per_tree=3)))
    assert await processor.work(bench.world.turn()) == Round(elements=3 * ZKP, transactions=1, more=True)
    assert await processor.work(bench.world.turn()) == Round(elements=2 * ZKP, transactions=1)


async def test_work__window_of_one__asks_for_one_proof_after_the_other(bench: Bench) -> None:
    bench.world.fill(6)
    bench.world.gates[0] = asyncio.Event()
    settings = Settings(transaction_max_concurrent_batches=1, ops_cache_ttl_seconds=7)
    assert V2Limits.of(settings) == V2Limits(window=1, done_kept_s=7)
    processor = await bench.start(V2Limits.of(settings))
    working = asyncio.create_task(processor.work(bench.world.turn()))
    await until(lambda: bench.world.begun == [0])
    bench.world.gates[0].set()
    assert (await working).elements == 3 * ZKP
    assert bench.world.begun == [0, 1, 2]


async def test_work__much_time_left__proves_the_next_round_while_it_sends_this_one(bench: Bench) -> None:
    bench.world.fill(20)
    bench.world.gates = {place: asyncio.Event() for place in range(4, 8)}
    processor = await bench.start()
    turn = bench.world.turn(last_slot=1000)
    assert await processor.work(turn) == Round(elements=4 * ZKP, transactions=1, more=True)
    assert bench.world.begun == list(range(8))
    for gate in bench.world.gates.values():
        gate.set()
    assert await processor.work(turn) == Round(elements=4 * ZKP, transactions=1, more=True)
    assert await processor.work(turn) == Round(elements=2 * ZKP, transactions=1)
    assert bench.world.begun == list(range(10))
    assert set(bench.world.proved.values()) == {1}


async def test_work__fewer_compute_units__puts_fewer_into_a_transaction(bench: Bench) -> None:
    bench.world.fill(8)
    processor = await bench.start(V2Limits.of(Settings(cu_limit=400_000)))
    assert (await processor.work(bench.world.turn())).transactions == 2
    assert (bench.world.sent, bench.world.unit_limits) == ([2, 2], [400_000, 400_000])


async def test_work__proofs_come_out_of_order__go_out_in_order(bench: Bench) -> None:
    bench.world.fill(8)
    bench.world.gates[0] = asyncio.Event()
    processor = await bench.start()
    working = asyncio.create_task(processor.work(bench.world.turn()))
    await until(lambda: bench.world.proved.total() == 3)
    assert bench.world.sent == []
    bench.world.gates[0].set()
    assert (await working).elements == 4 * ZKP
    assert bench.world.sent == [4]


async def test_work__middle_proof_fails__what_is_behind_it_is_sent_when_it_was_made(bench: Bench) -> None:
    bench.world.fill(8)
    bench.world.prover_faults[1] = [EndpointUnreachable("the prover is gone") for _ in range(2)]
    processor = await bench.start()
    done = await processor.work(bench.world.turn())
    assert (done.elements, done.more) == (ZKP, True)
    assert isinstance(done.failure, EndpointUnreachable)
    await until(lambda: bench.world.proved.total() == 3)
    again = await processor.work(bench.world.turn())
    assert (again.elements, again.failure) == (0, done.failure), "staging rests after a failure"
    bench.world.now += 60
    assert await processor.work(bench.world.turn()) == Round(elements=3 * ZKP, transactions=1)
    assert sorted(bench.world.begun) == [0, 1, 1, 1, 2, 3]
    assert set(bench.world.proved.values()) == {1}


async def test_work__prover_down_and_back__waits_longer_and_longer(bench: Bench) -> None:
    bench.world.fill(2)
    bench.world.prover_faults[0] = [EndpointUnreachable("the prover is down") for _ in range(8)]
    processor = await bench.start()
    rounds = 0
    while not (await processor.work(bench.world.turn())).elements:
        rounds += 1
        bench.world.now += 0.1
    assert len(bench.world.begun) == 9
    assert rounds >= 16, "after four failures at least 0.2 + 0.4 + 0.8 + 1.6 s have passed"


async def test_work__bug_in_proving__is_raised_and_hangs_nothing(bench: Bench) -> None:
    bench.world.fill(2)
    bench.world.prover_faults[0] = [KeyError("a bug")]
    processor = await bench.start()
    with pytest.raises(KeyError):
        await processor.work(bench.world.turn())
    assert (await processor.work(bench.world.turn())).elements == ZKP


async def test_window_ends__with_a_proof_under_way__it_is_kept_and_sent_in_the_next_window(bench: Bench) -> None:
    bench.world.fill(6)
    bench.world.gates[0] = asyncio.Event()
    processor = await bench.start()
    working = asyncio.create_task(processor.work(bench.world.turn(last_slot=100)))
    await until(lambda: bench.world.proved.total() == 2)
    bench.world.slot_now = 98
    assert await working == Round(more=True), "the last slots are too few, the first proof is missing"
    bench.world.gates[0].set()
    await until(lambda: bench.world.proved.total() == 3)
    assert await processor.work(bench.world.turn(last_slot=200)) == Round(elements=3 * ZKP, transactions=1)
    assert bench.world.snapshots == 1
    assert set(bench.world.proved.values()) == {1}


async def test_window_nears_its_end__proof_would_come_too_late__is_not_begun(bench: Bench) -> None:
    bench.world.fill(2)
    bench.world.gates[0] = asyncio.Event()
    processor = await bench.start()
    working = asyncio.create_task(processor.work(bench.world.turn(last_slot=100)))
    await until(lambda: bench.world.begun == [0])
    bench.world.now += 20.0
    bench.world.gates[0].set()
    assert (await working).elements == ZKP
    bench.world.fill(2)
    bench.world.slot_now = 60
    assert await processor.work(bench.world.turn(last_slot=100)) == Round(), "16 s are left"
    assert await processor.work(bench.world.turn(last_slot=120)) == Round(elements=ZKP, transactions=1)
    bench.world.fill(2)
    bench.world.slot_now = 10
    assert (await processor.work(bench.world.turn(last_slot=30))).elements == ZKP, "no window is long enough"


async def test_window_nears_its_end__no_time_to_stage_and_confirm__no_first_proof_is_begun(bench: Bench) -> None:
    bench.world.fill(2)
    processor = await bench.start()
    bench.world.slot_now = 95
    assert await processor.work(bench.world.turn(last_slot=100)) == Round()
    assert bench.world.begun == []
    assert await processor.work(bench.world.turn(last_slot=110)) == Round(elements=ZKP, transactions=1)


async def test_window__that_ends_while_the_queue_is_read__begins_no_proof(bench: Bench) -> None:
    bench.world.fill(2)

    def read_slowly(snapshot: StateQueue) -> StateQueue:
        bench.world.slot_now = 97
        return snapshot

    bench.world.lie = read_slowly
    processor = await bench.start()
    assert await processor.work(bench.world.turn(last_slot=100)) == Round()
    assert (bench.world.snapshots, bench.world.begun) == (1, [])


async def test_window_nears_its_end__what_is_there_goes_out_alone(bench: Bench) -> None:
    bench.world.fill(6)
    bench.world.gates[2] = asyncio.Event()
    processor = await bench.start()
    working = asyncio.create_task(processor.work(bench.world.turn(last_slot=100)))
    await until(lambda: bench.world.proved.total() == 2)
    bench.world.slot_now = 90
    await until(lambda: sum(bench.world.sent) == 2)
    bench.world.slot_now = 99
    done = await working
    assert (done.elements, done.more) == (2 * ZKP, True)


async def test_proof__that_waits_for_others__waits_no_longer_than_agreed(bench: Bench) -> None:
    bench.world.fill(4)
    bench.world.gates[1] = asyncio.Event()
    processor = await bench.start(V2Limits(gather_s=5.0))
    working = asyncio.create_task(processor.work(bench.world.turn()))
    await until(lambda: bench.world.proved.total() == 1)
    assert bench.world.sent == []

    def sent_as_time_passes() -> bool:
        bench.world.now += 1.0
        return bench.world.sent == [1]

    await until(sent_as_time_passes)
    bench.world.gates[1].set()
    assert (await working).transactions == 2


async def test_prepare__before_the_window__proves_and_keeps_but_sends_nothing(bench: Bench) -> None:
    bench.world.fill(6, spent=[0, 1])
    processor = await bench.start(V2Limits(round_batches=2, gather_s=1e9))
    await processor.prepare(bench.world.turn())
    await processor.prepare(bench.world.turn())
    assert (bench.world.sent, await bench.kept()) == ([], [0, 1])
    assert bench.world.begun == [0, 1], "no more than a round, and once"
    assert (await processor.work(bench.world.turn())).elements == 2 * ZKP


async def prepared(bench: Bench, processor: V2Processor, sequence: int) -> None:
    """Prepare for slot 100 until the tree has been seen at a sequence number and somebody waits."""
    preparing = asyncio.create_task(processor.prepare(bench.world.turn(first_slot=100)))
    reads = bench.world.reads
    await until(lambda: preparing.done() or bench.world.reads > reads)
    assert bench.world.model.sequence == sequence
    preparing.cancel()
    await asyncio.wait([preparing])


async def test_prepare__somebody_else_has_the_tree__proves_only_what_is_left_lying_and_no_sooner_than_needed(
    bench: Bench,
) -> None:
    bench.world.fill(6)
    processor = await bench.start()
    bench.world.now = 100.0
    await prepared(bench, processor, 0)
    bench.world.now = 110.0
    await prepared(bench, processor, 0)
    assert bench.world.begun == [], "36 s are left"
    bench.world.slot_now = 96
    bench.world.model.apply(APPEND)
    await prepared(bench, processor, 1)
    assert bench.world.begun == [], "somebody is at work"
    bench.world.now = 113.0
    await processor.prepare(bench.world.turn(first_slot=100))
    assert bench.world.begun == [1, 2]


async def test_work__before_its_window__sends_nothing(bench: Bench) -> None:
    bench.world.fill(2)
    processor = await bench.start()
    turn = bench.world.turn()
    bench.world.slot_now = -1
    assert await processor.work(turn) == Round(more=True)
    assert (bench.world.sent, bench.world.begun) == ([], [])


async def test_restart__with_a_stored_chain__sends_it_before_anything_else_and_proves_nothing_twice(
    bench: Bench,
) -> None:
    bench.world.fill(6)
    await (await bench.start()).prepare(bench.world.turn())
    bench.world.fill(6, spent=[0, 1])
    sent_before_asking: list[int] = []

    def told(snapshot: StateQueue) -> StateQueue:
        sent_before_asking.extend(bench.world.sent)
        return snapshot

    bench.world.lie = told
    processor = await bench.start()
    assert (await processor.work(bench.world.turn())).elements == 4 * ZKP
    assert sent_before_asking == [3]
    while (await processor.work(bench.world.turn())).more:
        pass
    assert bench.world.model.appended == 12
    assert set(bench.world.proved.values()) == {1}


async def test_restart__proofs_of_another_order_are_kept__staging_follows_them(bench: Bench) -> None:
    bench.world.fill(4)
    await (await bench.start(V2Limits(round_batches=2, gather_s=1e9))).prepare(bench.world.turn())
    # Now a nullification would come between the two appends that are proved.
    bench.world.fill(4, spent=[0, 1])
    processor = await bench.start()
    await processor.prepare(bench.world.turn())
    assert sorted(bench.world.begun) == [0, 1, 2, 3]
    assert (await processor.work(bench.world.turn())).elements == 4 * ZKP
    assert bench.world.sent == [4]


async def test_restart__sent_before_and_not_settled__waits(bench: Bench) -> None:
    bench.world.fill(2)
    bench.world.settled = False
    done = await (await bench.start()).work(bench.world.turn())
    assert isinstance(done.failure, HeadOutdated)
    assert (done.more, bench.world.sent) == (True, [])


async def test_cancelled__with_a_proof_in_flight__it_is_kept_and_used(bench: Bench) -> None:
    bench.world.fill(4)
    bench.world.gates = {0: asyncio.Event(), 1: asyncio.Event()}
    processor = await bench.start()
    working = asyncio.create_task(processor.work(bench.world.turn()))
    await until(lambda: bench.world.begun == [0, 1])
    working.cancel()
    await asyncio.wait([working])
    for gate in bench.world.gates.values():
        gate.set()
    await processor.close(60.0)
    assert await bench.kept() == [0, 1]
    processor = await bench.start()
    assert (await processor.work(bench.world.turn())).elements == 2 * ZKP
    assert bench.world.begun == [0, 1]


async def test_fate_unknown__it_has_landed__is_counted_in_the_next_round(bench: Bench) -> None:
    bench.world.fill(4)
    bench.world.unseen = 1
    processor = await bench.start()
    assert await processor.work(bench.world.turn()) == Round(more=True)
    assert await processor.work(bench.world.turn()) == Round(elements=2 * ZKP, transactions=1)
    assert bench.world.sent == [2]
    assert bench.processed() == 4


async def test_fate_unknown__same_proofs_go_out_in_the_same_company(bench: Bench) -> None:
    bench.world.fill(4)
    bench.world.gates[1] = asyncio.Event()
    bench.world.outcomes = [Outcome(Fate.DEADLINE_PASSED)]
    processor = await bench.start(V2Limits(gather_s=0.0))
    assert (await processor.work(bench.world.turn())).elements == 0
    bench.world.gates[1].set()
    await until(lambda: bench.world.proved.total() == 2)
    assert (await processor.work(bench.world.turn())).elements == 2 * ZKP
    assert bench.world.sent == [1, 1, 1], "the first one again as it was, the other one by itself"


async def test_refused__tree_was_moved_by_somebody_else__proofs_that_may_chain_are_kept(bench: Bench) -> None:
    bench.world.fill(6)

    def overtaken() -> None:
        bench.world.model.apply(APPEND)

    bench.world.outcomes = [overtaken]
    processor = await bench.start()
    assert await processor.work(bench.world.turn()) == Round(more=True)
    assert await processor.work(bench.world.turn()) == Round(elements=2 * ZKP, transactions=1)
    assert bench.world.begun == [0, 1, 2], "two of the three fit behind theirs"


async def test_refused__proof_is_invalid_though_it_fits__is_forgotten_and_made_once_more_at_most(
    bench: Bench,
) -> None:
    bench.world.fill(8)
    bench.world.bad_proofs = {1}
    processor = await bench.start()
    done = await processor.work(bench.world.turn())
    assert isinstance(done.failure, TransactionRefused)
    assert await bench.kept() == [0, 2, 3]
    for _ in range(20):
        bench.world.now += 5.0
        done = await processor.work(bench.world.turn())
    assert bench.world.begun.count(1) == 2
    assert isinstance(done.failure, RefusedAgain)
    assert done.failure.code == 13006
    assert "compare the keys of the prover" in done.failure.detail
    assert bench.world.model.appended == ZKP, "the proof before it has landed"
    bench.world.bad_proofs = set()
    bench.world.now += 180.0
    assert (await processor.work(bench.world.turn())).elements == 3 * ZKP
    assert [bench.world.begun.count(place) for place in range(4)] == [1, 3, 1, 1]


@pytest.mark.parametrize("code", [6004, 6017, 6011, 14301, 14302])
async def test_refused__for_a_reason_that_is_not_the_proofs__is_told_and_they_are_sent_later(
    bench: Bench, code: int
) -> None:
    bench.world.fill(4)
    bench.world.outcomes = [bench.world.refused(code)]
    processor = await bench.start()
    done = await processor.work(bench.world.turn())
    assert isinstance(done.failure, TransactionRefused)
    assert (done.failure.code, done.more, done.elements) == (code, True, 0)
    assert await processor.work(bench.world.turn()) == Round(elements=2 * ZKP, transactions=1)
    assert bench.world.begun == [0, 1]


async def test_refused__payer_has_no_money__is_told(bench: Bench) -> None:
    bench.world.fill(2)
    bench.world.outcomes = [Outcome(Fate.REFUSED, error=InsufficientFunds())]
    processor = await bench.start()
    assert isinstance((await processor.work(bench.world.turn())).failure, InsufficientFunds)
    assert (await processor.work(bench.world.turn())).elements == ZKP


async def test_expired__is_told_and_sent_again(bench: Bench) -> None:
    bench.world.fill(2)
    bench.world.outcomes = [Outcome(Fate.EXPIRED)]
    processor = await bench.start()
    assert isinstance((await processor.work(bench.world.turn())).failure, TransactionLost)
    assert (await processor.work(bench.world.turn())).elements == ZKP
    assert bench.world.begun == [0]


async def test_second_transaction_fails__the_first_one_is_counted(bench: Bench) -> None:
    bench.world.fill(12)
    bench.world.outcomes = [lambda: None, bench.world.refused(6004)]
    processor = await bench.start(V2Limits(round_batches=6, gather_s=1e9))
    done = await processor.work(bench.world.turn())
    assert (done.elements, done.transactions, done.more) == (4 * ZKP, 1, True)
    assert isinstance(done.failure, TransactionRefused)
    assert await processor.work(bench.world.turn()) == Round(elements=2 * ZKP, transactions=1)


def wrong_root(snapshot: StateQueue) -> StateQueue:
    return changed(snapshot, initial_root=number(77))


def wrong_nodes(snapshot: StateQueue) -> StateQueue:
    return changed(snapshot, nodes=tuple(changed(node, hash=number(5)) for node in snapshot.nodes))


def wrong_element(snapshot: StateQueue) -> StateQueue:
    assert snapshot.output_queue is not None
    others = (number(66), *snapshot.output_queue.account_hashes[1:])
    return changed(snapshot, output_queue=changed(snapshot.output_queue, account_hashes=others))


@pytest.mark.parametrize(
    ("lie", "failure"),
    [(wrong_root, SnapshotOutdated), (wrong_nodes, SnapshotContradicts), (wrong_element, HashChainDiffers)],
)
async def test_indexer__lies__costs_no_prover_time_and_is_asked_less_and_less(
    bench: Bench, lie: Callable[[StateQueue], StateQueue], failure: type[Exception]
) -> None:
    bench.world.fill(4, spent=[0, 1])
    bench.world.model.apply(APPEND)
    bench.world.lie = lie
    processor = await bench.start()
    for _ in range(40):
        done = await processor.work(bench.world.turn())
        assert isinstance(done.failure, failure)
        bench.world.now += 0.1
    assert bench.world.begun == []
    assert bench.world.snapshots <= 30
    bench.world.lie = lambda snapshot: snapshot
    bench.world.now += 60
    assert (await processor.work(bench.world.turn())).elements == 2 * ZKP


async def test_indexer__lags__kept_proofs_are_sent_all_the_same(bench: Bench) -> None:
    bench.world.fill(6)
    processor = await bench.start(V2Limits(round_batches=2, gather_s=1e9))
    await processor.prepare(bench.world.turn())
    bench.world.indexed = copy.deepcopy(bench.world.model)
    assert (await processor.work(bench.world.turn())).elements == 2 * ZKP
    done = await processor.work(bench.world.turn())
    assert isinstance(done.failure, SnapshotOutdated)
    bench.world.indexed = None
    bench.world.now += 60
    assert (await processor.work(bench.world.turn())).elements == ZKP


async def test_node__shows_an_older_tree__nothing_is_proved_again_until_it_is_believed(bench: Bench) -> None:
    bench.world.fill(2)
    processor = await bench.start(V2Limits(done_kept_s=30.0))
    before = copy.deepcopy(bench.world.model)
    assert (await processor.work(bench.world.turn())).elements == ZKP
    bench.world.shown = before
    done = await processor.work(bench.world.turn())
    assert isinstance(done.failure, HeadOutdated)
    assert (done.more, bench.world.begun) == (True, [0])
    bench.world.now += 31.0
    bench.world.model, bench.world.shown = before, None
    assert (await processor.work(bench.world.turn())).elements == ZKP, "the chain has gone back"


async def test_snapshot__tree_moves_between_chain_and_indexer__both_are_read_again(bench: Bench) -> None:
    bench.world.fill(4)

    def moved(snapshot: StateQueue) -> StateQueue:
        if bench.world.snapshots == 1:
            bench.world.model.apply(APPEND)
            return bench.world.model.snapshot()
        return snapshot

    bench.world.lie = moved
    processor = await bench.start()
    assert await processor.work(bench.world.turn()) == Round(elements=ZKP, transactions=1)
    assert bench.world.begun == [1]


async def test_metrics__of_a_round__tell_what_was_asked_of_the_indexer(bench: Bench) -> None:
    bench.world.fill(5, spent=[0, 1])
    await (await bench.start()).work(bench.world.turn())
    registry, labels = bench.metrics.registry, {"tree_type": "StateV2", "tree_pubkey": str(TREE)}
    for metric in ("requested", "received"):
        assert registry.get_sample_value("forester_indexer_proof_count", labels | {"metric": metric}) == 6
    asked = {"operation": "getQueueElements", "tree_type": "StateV2"}
    assert registry.get_sample_value("forester_indexer_response_time_seconds_count", asked) == 1


def do_harm(world: World, chance: random.Random) -> None:
    """One of the things that happen."""
    match chance.randrange(9):
        case 0:
            world.unseen = 1
        case 1:
            world.outcomes = [Outcome(chance.choice([Fate.EXPIRED, Fate.DEADLINE_PASSED]))]
        case 2:
            world.outcomes = [world.refused(chance.choice([6004, 14301]))]
        case 3:
            place = world.model.sequence + chance.randrange(3)
            world.prover_faults[place] = [EndpointUnreachable("the prover is gone") for _ in range(chance.randrange(4))]
        case 4:
            world.indexed = copy.deepcopy(world.model)
        case 5 if len(world.model.queued) - world.model.appended >= ZKP:
            world.model.apply(APPEND)  # by somebody else
        case 6 if len(world.model.queued) < SLOTS:
            spent = {account[1] for account in world.model.spent}
            world.fill(1, [index for index in range(len(world.model.queued)) if index not in spent][:1])
        case 7:
            world.slot_now = chance.choice([10, 190, 199])
        case _:
            world.now += chance.randrange(40)


@pytest.mark.parametrize("seed", range(8))
async def test_work__killed_at_random_among_faults__drains_all_and_proves_nothing_twice(
    bench: Bench, seed: int
) -> None:
    world, chance = bench.world, random.Random(seed)
    world.fill(12, spent=[0, 1, 2])
    processor = await bench.start()
    for _ in range(25):
        do_harm(world, chance)
        run = processor.work if chance.random() < 0.8 else processor.prepare
        task = asyncio.ensure_future(run(world.turn()))
        await asyncio.wait([task], timeout=chance.choice([0.0, 0.002, 0.01, 0.05, 5.0]))
        task.cancel()
        await asyncio.wait([task])
        assert task.cancelled() or task.exception() is None
        world.indexed = None
        if chance.random() < 0.3:
            processor = await bench.start()
    world.outcomes, world.unseen, world.slot_now = [], 0, 10
    world.prover_faults.clear()
    world.now += 1000
    async with asyncio.timeout(60):
        while (await processor.work(world.turn())).more:
            world.now += 60
    assert len(world.model.queued) - world.model.appended < ZKP
    assert len(world.model.nullifiers()) < ZKP
    assert world.proved
    assert set(world.proved.values()) == {1}


def test_world__empty_tree__has_the_root_of_the_model() -> None:
    assert World().model.root() == StateModel().root()


async def test_metrics__of_proofs__tell_those_made_and_those_kept_from_before(bench: Bench) -> None:
    def counted(name: str) -> float:
        value = bench.metrics.registry.get_sample_value(name, {"circuit": APPEND.value})
        return value or 0.0

    bench.world.fill(6)
    await (await bench.start()).prepare(bench.world.turn())
    processor = await bench.start()
    kept = len(await bench.kept())
    assert kept > 0
    assert counted("forester_proofs_reused_total") == 0
    for _ in range(2):
        while (await processor.work(bench.world.turn())).more:
            pass
        bench.world.fill(6)
    assert counted("forester_proofs_reused_total") == kept
    assert counted("forester_proofs_made_total") == sum(bench.world.proved.values()) > kept
