"""The V2 tree processor under refusals, lies of an indexer, lagging nodes and kills, in a simulated environment."""

from __future__ import annotations

import asyncio
import copy
import random
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from msgspec.structs import replace as changed
from v2_bench import Bench, running_bench, until
from v2_models import SLOTS, ZKP, StateModel, number
from v2_world import TREE, World

from forester.errors import EndpointUnreachable, InsufficientFunds, TransactionRefused, UnexpectedFailure
from forester.indexer.types import StateQueue
from forester.pipeline_v2.failures import (
    HashChainDiffers,
    HeadOutdated,
    RefusedAgain,
    SnapshotContradicts,
    SnapshotOutdated,
    StagingRefused,
    TransactionLost,
)
from forester.pipeline_v2.services import V2Limits
from forester.scheduling.eligibility_window import ProcessingResult
from forester.transactions.builder import TransactionTooLarge
from forester.transactions.confirm import Fate, Outcome
from forester.transactions.spending import BudgetExceeded
from shared.requests.circuit_id import CircuitKind

APPEND = CircuitKind.BATCH_APPEND


@pytest_asyncio.fixture
async def bench(tmp_path: Path) -> AsyncIterator[Bench]:
    async with running_bench(tmp_path) as made:
        yield made


async def test_refused__tree_was_moved_by_somebody_else__proofs_that_may_chain_are_kept(bench: Bench) -> None:
    bench.world.fill(6)

    def overtaken() -> None:
        bench.world.model.apply(APPEND)

    bench.world.outcomes = [overtaken]
    processor = await bench.start()
    assert await processor.work(bench.world.window()) == ProcessingResult(more=True)
    assert await processor.work(bench.world.window()) == ProcessingResult(elements=2 * ZKP, transactions=1)
    assert bench.world.begun == [0, 1, 2], "two of the three fit behind theirs"


async def test_refused__proof_is_invalid_though_it_fits__is_forgotten_and_made_once_more_at_most(
    bench: Bench,
) -> None:
    bench.world.fill(8)
    bench.world.bad_proofs = {1}
    processor = await bench.start()
    done = await processor.work(bench.world.window())
    assert isinstance(done.failure, TransactionRefused)
    assert await bench.kept() == [0, 2, 3]
    for _ in range(20):
        bench.world.now += 5.0
        done = await processor.work(bench.world.window())
    assert bench.world.begun.count(1) == 2
    assert isinstance(done.failure, RefusedAgain)
    assert done.failure.code == 13006
    assert "compare the keys of the prover" in done.failure.detail
    assert bench.world.model.appended == ZKP, "the proof before it has landed"
    bench.world.bad_proofs = set()
    bench.world.now += 180.0
    assert (await processor.work(bench.world.window())).elements == 3 * ZKP
    assert [bench.world.begun.count(place) for place in range(4)] == [1, 3, 1, 1]


@pytest.mark.parametrize("code", [6004, 6017, 6011])
async def test_refused__for_a_reason_that_is_not_the_proofs__is_reported_and_they_are_sent_later(
    bench: Bench, code: int
) -> None:
    bench.world.fill(4)
    bench.world.outcomes = [bench.world.refused(code)]
    processor = await bench.start()
    done = await processor.work(bench.world.window())
    assert isinstance(done.failure, TransactionRefused)
    assert (done.failure.code, done.more, done.elements) == (code, True, 0)
    assert await processor.work(bench.world.window()) == ProcessingResult(elements=2 * ZKP, transactions=1)
    assert bench.world.begun == [0, 1]


@pytest.mark.parametrize("code", [14301, 14302])
async def test_refused__no_such_batch_in_an_unchanged_tree__proof_is_dropped_and_the_queue_is_read_again(
    bench: Bench, code: int
) -> None:
    bench.world.fill(4)
    bench.world.outcomes = [bench.world.refused(code)]
    processor = await bench.start()
    done = await processor.work(bench.world.window())
    assert isinstance(done.failure, TransactionRefused)
    assert (done.failure.code, done.more, await bench.kept()) == (code, True, [1])
    assert await processor.work(bench.world.window()) == ProcessingResult(elements=2 * ZKP, transactions=1)
    assert bench.world.begun == [0, 1, 0]


async def test_refused__batch_was_inserted_by_somebody_else__proofs_are_kept(bench: Bench) -> None:
    def overtaken() -> Outcome:
        bench.world.model.apply(APPEND)
        return bench.world.refused(14302)

    bench.world.fill(4)
    bench.world.outcomes = [overtaken]
    processor = await bench.start()
    assert (await processor.work(bench.world.window())).failure is None
    assert (await processor.work(bench.world.window())).elements == ZKP
    assert bench.world.begun == [0, 1]


async def test_indexer__adds_batches_that_the_chain_does_not_have__none_is_proved(bench: Bench) -> None:
    world = bench.world
    world.fill(4)
    for _ in range(2):
        world.model.apply(APPEND)
    world.model.spent = [(world.model.queued[index], index, number(5000 + index)) for index in (0, 1)]
    world.indexed = copy.deepcopy(world.model)
    world.indexed.queued += [number(1000 + index) for index in range(4, 8)]
    processor = await bench.start()
    assert await processor.work(world.window()) == ProcessingResult(elements=ZKP, transactions=1)
    assert (world.begun, world.model.nullified) == ([2], ZKP)


async def test_refused__payer_has_no_money__is_reported(bench: Bench) -> None:
    bench.world.fill(2)
    bench.world.outcomes = [Outcome(Fate.REFUSED, error=InsufficientFunds())]
    processor = await bench.start()
    assert isinstance((await processor.work(bench.world.window())).failure, InsufficientFunds)
    assert (await processor.work(bench.world.window())).elements == ZKP


async def test_funds_run_out__while_the_fate_is_unknown__is_reported_and_the_same_proof_is_sent_again(
    bench: Bench,
) -> None:
    bench.world.fill(2)
    bench.world.outcomes = [Outcome(Fate.DEADLINE_PASSED, error=InsufficientFunds())]
    processor = await bench.start()
    assert isinstance((await processor.work(bench.world.window())).failure, InsufficientFunds)
    assert (await processor.work(bench.world.window())).elements == ZKP
    assert bench.world.begun == [0]


async def test_expired__is_reported_and_sent_again(bench: Bench) -> None:
    bench.world.fill(2)
    bench.world.outcomes = [Outcome(Fate.EXPIRED)]
    processor = await bench.start()
    assert isinstance((await processor.work(bench.world.window())).failure, TransactionLost)
    assert (await processor.work(bench.world.window())).elements == ZKP
    assert bench.world.begun == [0]


async def test_lookup_table_gone__while_a_group_waits_for_its_signature__as_many_as_fit_are_sent(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    def too_large() -> None:
        monkeypatch.setattr(bench.world, "fitting", lambda work: min(2, len(work)))
        raise TransactionTooLarge("a transaction of 4 instructions has 1500 bytes, over 1232")

    bench.world.fill(8)
    bench.world.outcomes = [too_large]
    processor = await bench.start()
    assert isinstance((await processor.work(bench.world.window())).failure, TransactionTooLarge)
    assert (await processor.work(bench.world.window())).elements == 4 * ZKP
    assert bench.world.sent == [4, 2, 2]
    assert bench.world.begun == [0, 1, 2, 3]


def over_budget() -> Outcome:
    raise BudgetExceeded("spending budget exceeded")


def without_node() -> Outcome:
    raise EndpointUnreachable("no answer")


@pytest.mark.parametrize("reason", [lambda: Outcome(Fate.DEADLINE_PASSED, signed=False), over_budget, without_node])
async def test_not_signed__proofs_share_a_transaction_with_those_made_meanwhile(
    bench: Bench, reason: Callable[[], Outcome]
) -> None:
    bench.world.fill(4)
    bench.world.gates[1] = asyncio.Event()
    bench.world.outcomes = [reason]
    processor = await bench.start(V2Limits(gather_s=0.0))
    assert (await processor.work(bench.world.window())).elements == 0
    bench.world.gates[1].set()
    await until(lambda: bench.world.proved.total() == 2)
    assert (await processor.work(bench.world.window())).elements == 2 * ZKP
    assert bench.world.sent == [1, 2]


async def test_second_transaction_fails__the_first_one_is_counted(bench: Bench) -> None:
    bench.world.fill(12)
    bench.world.outcomes = [lambda: None, bench.world.refused(6004)]
    processor = await bench.start(V2Limits(round_batches=6, gather_s=1e9))
    done = await processor.work(bench.world.window())
    assert (done.elements, done.transactions, done.more) == (4 * ZKP, 1, True)
    assert isinstance(done.failure, TransactionRefused)
    assert await processor.work(bench.world.window()) == ProcessingResult(elements=2 * ZKP, transactions=1)


def wrong_root(snapshot: StateQueue) -> StateQueue:
    return changed(snapshot, initial_root=number(77))


def wrong_nodes(snapshot: StateQueue) -> StateQueue:
    return changed(snapshot, nodes=tuple(changed(node, hash=number(5)) for node in snapshot.nodes))


def wrong_element(snapshot: StateQueue) -> StateQueue:
    assert snapshot.output_queue is not None
    others = (number(66), *snapshot.output_queue.account_hashes[1:])
    return changed(snapshot, output_queue=changed(snapshot.output_queue, account_hashes=others))


def empty_queues(snapshot: StateQueue) -> StateQueue:
    return changed(snapshot, output_queue=None, input_queue=None, nodes=())


def no_queues(snapshot: StateQueue) -> Any:
    return None


@pytest.mark.parametrize(
    ("lie", "failure"),
    [
        (wrong_root, SnapshotOutdated),
        (wrong_nodes, SnapshotContradicts),
        (wrong_element, HashChainDiffers),
        (empty_queues, StagingRefused),
        (no_queues, StagingRefused),
    ],
)
async def test_indexer__lies__costs_no_prover_time_and_is_asked_less_and_less(
    bench: Bench, lie: Callable[[StateQueue], StateQueue], failure: type[Exception]
) -> None:
    bench.world.fill(4, spent=[0, 1])
    bench.world.model.apply(APPEND)
    bench.world.lie = lie
    processor = await bench.start()
    for _ in range(40):
        done = await processor.work(bench.world.window())
        assert isinstance(done.failure, failure)
        bench.world.now += 0.1
    assert bench.world.begun == []
    assert bench.world.snapshots <= 30
    assert bench.world.contradictions
    bench.world.lie = lambda snapshot: snapshot
    bench.world.now += 60
    assert (await processor.work(bench.world.window())).elements == 2 * ZKP


async def test_bug__in_one_proof__leaves_the_others(bench: Bench) -> None:
    bench.world.fill(6)
    bench.world.gates = {0: asyncio.Event()}
    bench.world.prover_faults = {2: [KeyError("a bug")]}
    processor = await bench.start()
    work = asyncio.create_task(processor.work(bench.world.window()))
    await until(lambda: 2 in bench.world.begun and not bench.world.prover_faults[2])
    await asyncio.sleep(0.05)
    bench.world.gates[0].set()
    done = await work
    assert (done.elements, bench.world.begun) == (2 * ZKP, [0, 1, 2])
    assert isinstance(done.failure, UnexpectedFailure)
    assert "unexpected KeyError: 'a bug'" in done.failure.detail
    bench.world.now += 60
    assert (await processor.work(bench.world.window())).elements == ZKP


@pytest.mark.parametrize("method", ["work", "prepare"])
async def test_bug__while_a_snapshot_is_read__leaves_proofs_under_way(bench: Bench, method: str) -> None:
    def broken(snapshot: StateQueue) -> StateQueue:
        raise OverflowError("int too big to convert")

    bench.world.fill(2)
    bench.world.gates = {0: asyncio.Event()}
    processor = await bench.start()
    first = asyncio.create_task(processor.prepare(bench.world.window()))
    await until(lambda: bench.world.begun == [0])
    first.cancel()
    await asyncio.wait([first])
    bench.world.fill(2)
    bench.world.lie = broken
    done = asyncio.create_task(getattr(processor, method)(bench.world.window()))
    await until(lambda: bench.world.snapshots == 2)
    bench.world.gates[0].set()
    result = await done
    assert method == "prepare" or (result.elements, type(result.failure)) == (ZKP, UnexpectedFailure)
    assert bench.world.proved.total() == 1


async def test_bug__while_proofs_are_sent__is_a_failure_and_they_are_sent_again(bench: Bench) -> None:
    def broken() -> Outcome:
        raise KeyError("a bug")

    bench.world.fill(4)
    bench.world.outcomes = [broken]
    processor = await bench.start()
    done = await processor.work(bench.world.window())
    assert (done.elements, done.more, type(done.failure)) == (0, True, UnexpectedFailure)
    assert (await processor.work(bench.world.window())).elements == 2 * ZKP
    assert bench.world.begun == [0, 1]


async def test_bug__while_the_tree_is_read__is_a_failure(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    async def broken(*_: object, **__: object) -> None:
        raise OverflowError("int too big to convert")

    bench.world.fill(2)
    processor = await bench.start()
    with monkeypatch.context() as patched:
        patched.setattr(bench.world, "accounts", broken)
        done = await processor.work(bench.world.window())
        await processor.prepare(bench.world.window())
    assert done.more
    assert isinstance(done.failure, UnexpectedFailure)
    assert (await processor.work(bench.world.window())).elements == ZKP


async def test_indexer__lags__kept_proofs_are_sent_anyway(bench: Bench) -> None:
    bench.world.fill(6)
    processor = await bench.start(V2Limits(round_batches=2, gather_s=1e9))
    await processor.prepare(bench.world.window())
    bench.world.indexed = copy.deepcopy(bench.world.model)
    assert (await processor.work(bench.world.window())).elements == 2 * ZKP
    done = await processor.work(bench.world.window())
    assert isinstance(done.failure, SnapshotOutdated)
    bench.world.indexed = None
    bench.world.now += 60
    assert (await processor.work(bench.world.window())).elements == ZKP


async def test_node__shows_an_older_tree__nothing_is_proved_again_until_it_is_believed(bench: Bench) -> None:
    bench.world.fill(2)
    processor = await bench.start(V2Limits(done_kept_s=30.0))
    before = copy.deepcopy(bench.world.model)
    assert (await processor.work(bench.world.window())).elements == ZKP
    bench.world.shown = before
    done = await processor.work(bench.world.window())
    assert isinstance(done.failure, HeadOutdated)
    assert (done.more, bench.world.begun) == (True, [0])
    bench.world.now += 31.0
    bench.world.model, bench.world.shown = before, None
    assert (await processor.work(bench.world.window())).elements == ZKP, "the chain has gone back"


async def test_snapshot__tree_moves_between_chain_and_indexer__both_are_read_again(bench: Bench) -> None:
    bench.world.fill(4)

    def moved(snapshot: StateQueue) -> StateQueue:
        if bench.world.snapshots == 1:
            bench.world.model.apply(APPEND)
            return bench.world.model.snapshot()
        return snapshot

    bench.world.lie = moved
    processor = await bench.start()
    assert await processor.work(bench.world.window()) == ProcessingResult(elements=ZKP, transactions=1)
    assert bench.world.begun == [1]


async def test_metrics__of_a_round__report_what_was_asked_of_the_indexer(bench: Bench) -> None:
    bench.world.fill(5, spent=[0, 1])
    await (await bench.start()).work(bench.world.window())
    registry, labels = bench.metrics.registry, {"tree_type": "StateV2", "tree_pubkey": str(TREE)}
    for metric in ("requested", "received"):
        assert registry.get_sample_value("forester_indexer_proof_count", labels | {"metric": metric}) == 6
    asked = {"operation": "getQueueElements", "tree_type": "StateV2"}
    assert registry.get_sample_value("forester_indexer_response_time_seconds_count", asked) == 1


def do_harm(world: World, chance: random.Random) -> None:
    """Inject one fault at random."""
    match chance.randrange(9):
        case 0:
            world.unseen = 1
        case 1:
            world.outcomes = [Outcome(chance.choice([Fate.EXPIRED, Fate.DEADLINE_PASSED]))]
        case 2:
            world.outcomes = [world.refused(chance.choice([6004, 6017]))]
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
async def test_work__killed_at_random_under_faults__drains_all_and_proves_nothing_twice(
    bench: Bench, seed: int
) -> None:
    world, chance = bench.world, random.Random(seed)
    world.fill(12, spent=[0, 1, 2])
    processor = await bench.start()
    for _ in range(25):
        do_harm(world, chance)
        run = processor.work if chance.random() < 0.8 else processor.prepare
        task = asyncio.ensure_future(run(world.window()))
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
        while (await processor.work(world.window())).more:
            world.now += 60
    assert len(world.model.queued) - world.model.appended < ZKP
    assert len(world.model.nullifiers()) < ZKP
    assert world.proved
    assert set(world.proved.values()) == {1}


def test_world__empty_tree__has_the_root_of_the_model() -> None:
    assert World().model.root() == StateModel().root()


async def test_metrics__of_proofs__report_those_made_and_those_kept_from_before(bench: Bench) -> None:
    def counted(name: str) -> float:
        value = bench.metrics.registry.get_sample_value(name, {"circuit": APPEND.value})
        return value or 0.0

    bench.world.fill(6)
    await (await bench.start()).prepare(bench.world.window())
    processor = await bench.start()
    kept = len(await bench.kept())
    assert kept > 0
    assert counted("forester_proofs_reused_total") == 0
    for _ in range(2):
        while (await processor.work(bench.world.window())).more:
            pass
        bench.world.fill(6)
    assert counted("forester_proofs_reused_total") == kept
    assert counted("forester_proofs_made_total") == sum(bench.world.proved.values()) > kept
