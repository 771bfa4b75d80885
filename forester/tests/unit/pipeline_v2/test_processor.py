"""Every decision of the V2 tree processor without faults: windows, order, restarts, in a simulated environment."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
from v2_bench import Bench, running_bench, until
from v2_models import ZKP, number

from forester.epoch.phases import ProtocolTimes
from forester.errors import EndpointUnreachable
from forester.indexer.types import StateQueue
from forester.pipeline_v2 import round_decisions
from forester.pipeline_v2.failures import HeadOutdated
from forester.pipeline_v2.services import V2Limits
from forester.prover_client.client import FinishedProof
from forester.scheduling.eligibility_window import EligibilityWindow, ProcessingResult
from forester.scheduling.scheduling_terms import MINIMUM_TERM_SLOTS
from forester.scheduling.tree_schedule import TreeSchedule
from forester.settings import Settings
from forester.transactions.confirm import Fate, Outcome
from shared.requests.circuit_id import CircuitKind
from shared.requests.proof_wire import BatchRequest, BatchUpdateRequest

APPEND = CircuitKind.BATCH_APPEND


@pytest_asyncio.fixture
async def bench(tmp_path: Path) -> AsyncIterator[Bench]:
    async with running_bench(tmp_path) as made:
        yield made


async def test_work__both_queues_filled__lands_all_in_transactions_that_chain(bench: Bench) -> None:
    bench.world.fill(10, spent=[0, 3])
    processor = await bench.start(V2Limits(round_batches=20, gather_s=1e9))
    assert await processor.work(bench.world.window()) == ProcessingResult(elements=6 * ZKP, transactions=2)
    assert (bench.world.sent, bench.world.unit_limits) == ([4, 2], [800_000, 400_000])
    assert (bench.world.model.appended, bench.world.model.nullified) == (10, 2)
    assert bench.processed() == 12
    assert await processor.work(bench.world.window()) == ProcessingResult()
    assert bench.world.snapshots == 1, "with nothing to do the indexer is not asked"
    assert await bench.kept() == []


async def test_work__tree_that_remembers_more_roots_than_usual__is_read_as_well(bench: Bench) -> None:
    bench.world.ring = 300
    bench.world.model.sequence = 250
    bench.world.fill(4)
    processor = await bench.start()
    assert await processor.work(bench.world.window()) == ProcessingResult(elements=2 * ZKP, transactions=1)


async def test_work__more_than_a_round__reports_it_and_continues(bench: Bench) -> None:
    bench.world.fill(10)
    processor = await bench.start(V2Limits.of(Settings(max_batches_per_tree=3)))
    assert await processor.work(bench.world.window()) == ProcessingResult(elements=3 * ZKP, transactions=1, more=True)
    assert await processor.work(bench.world.window()) == ProcessingResult(elements=2 * ZKP, transactions=1)


async def test_work__window_of_one__asks_for_one_proof_after_the_other(bench: Bench) -> None:
    bench.world.fill(6)
    bench.world.gates[0] = asyncio.Event()
    settings = Settings(transaction_max_concurrent_batches=1, ops_cache_ttl_seconds=7)
    assert V2Limits.of(settings) == V2Limits(window=1, done_kept_s=7)
    processor = await bench.start(V2Limits.of(settings))
    working = asyncio.create_task(processor.work(bench.world.window()))
    await until(lambda: bench.world.begun == [0])
    bench.world.gates[0].set()
    assert (await working).elements == 3 * ZKP
    assert bench.world.begun == [0, 1, 2]


async def test_work__much_time_left__proves_the_next_round_while_it_sends_this_one(bench: Bench) -> None:
    bench.world.fill(20)
    bench.world.gates = {place: asyncio.Event() for place in range(4, 10)}
    processor = await bench.start()
    eligibility = bench.world.window(last_slot=1000)
    assert await processor.work(eligibility) == ProcessingResult(elements=4 * ZKP, transactions=1, more=True)
    assert bench.world.begun == list(range(8))
    for place in range(4, 8):
        bench.world.gates[place].set()
    assert await processor.work(eligibility) == ProcessingResult(elements=4 * ZKP, transactions=1, more=True)
    for place in (8, 9):  # later, because what is proved in time is sent in the same round
        bench.world.gates[place].set()
    assert await processor.work(eligibility) == ProcessingResult(elements=2 * ZKP, transactions=1)
    assert bench.world.begun == list(range(10))
    assert set(bench.world.proved.values()) == {1}


async def test_work__fewer_compute_units__puts_fewer_into_a_transaction(bench: Bench) -> None:
    bench.world.fill(8)
    processor = await bench.start(V2Limits.of(Settings(cu_limit=400_000)))
    assert (await processor.work(bench.world.window())).transactions == 2
    assert (bench.world.sent, bench.world.unit_limits) == ([2, 2], [400_000, 400_000])


async def test_work__proofs_come_out_of_order__go_out_in_order(bench: Bench) -> None:
    bench.world.fill(8)
    bench.world.gates[0] = asyncio.Event()
    processor = await bench.start()
    working = asyncio.create_task(processor.work(bench.world.window()))
    await until(lambda: bench.world.proved.total() == 3)
    assert bench.world.sent == []
    bench.world.gates[0].set()
    assert (await working).elements == 4 * ZKP
    assert bench.world.sent == [4]


async def test_work__middle_proof_fails__what_is_behind_it_is_sent_when_it_was_made(bench: Bench) -> None:
    bench.world.fill(8)
    bench.world.prover_faults[1] = [EndpointUnreachable("the prover is gone") for _ in range(2)]
    processor = await bench.start()
    done = await processor.work(bench.world.window())
    assert (done.elements, done.more) == (ZKP, True)
    assert isinstance(done.failure, EndpointUnreachable)
    await until(lambda: bench.world.proved.total() == 3)
    again = await processor.work(bench.world.window())
    assert (again.elements, again.failure) == (0, done.failure), "staging rests after a failure"
    bench.world.now += 60
    assert await processor.work(bench.world.window()) == ProcessingResult(elements=3 * ZKP, transactions=1)
    assert sorted(bench.world.begun) == [0, 1, 1, 1, 2, 3]
    assert set(bench.world.proved.values()) == {1}


async def test_work__proof_fails_in_a_mixed_order__those_behind_it_are_not_made_again(bench: Bench) -> None:
    world = bench.world
    world.fill(8)
    for _ in range(2):
        world.model.apply(APPEND)
    world.model.spent = [(world.model.queued[index], index, number(5000 + index)) for index in range(4)]
    world.prover_faults[3] = [EndpointUnreachable("the prover is gone") for _ in range(2)]
    processor = await bench.start()
    await processor.work(world.window())
    await until(lambda: world.proved.total() == 3)
    world.now += 60
    assert await processor.work(world.window()) == ProcessingResult(elements=3 * ZKP, transactions=1)
    assert sorted(world.begun) == [2, 3, 3, 3, 4, 5]


async def test_work__proof_of_one_circuit_fails_again__those_of_the_other_are_made_first(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    world, prove = bench.world, bench.world.prove

    async def only_appends(request: BatchRequest, *, tree_id: str, batch_index: int) -> FinishedProof:
        if isinstance(request, BatchUpdateRequest):
            raise EndpointUnreachable("the prover of this circuit is gone")
        return await prove(request, tree_id=tree_id, batch_index=batch_index)

    monkeypatch.setattr(world, "prove", only_appends)
    world.fill(8)
    for _ in range(2):
        world.model.apply(APPEND)
    world.model.spent = [(world.model.queued[index], index, number(5000 + index)) for index in range(2)]
    processor = await bench.start()
    for _ in range(6):
        await processor.work(world.window())
        world.now += 60
    assert world.model.appended == 8, "the second append does not wait for the nullification"


async def test_work__all_requests_under_way__finished_proofs_are_sent(bench: Bench) -> None:
    bench.world.fill(8)
    bench.world.gates = {place: asyncio.Event() for place in (1, 2)}
    processor = await bench.start(V2Limits(window=2, gather_s=0.0))
    working = asyncio.create_task(processor.work(bench.world.window()))
    await until(lambda: bench.world.sent == [1])
    await until(lambda: bench.world.begun == [0, 1, 2])  # its room may become free after it was sent
    for gate in bench.world.gates.values():
        gate.set()
    assert (await working).elements == 4 * ZKP
    assert bench.world.snapshots == 1


async def test_work__no_room_for_a_request__does_not_read_the_queue(bench: Bench) -> None:
    bench.world.fill(4)
    bench.world.gates[0] = asyncio.Event()
    processor = await bench.start(V2Limits(window=1, gather_s=0.0))
    preparing = asyncio.create_task(processor.prepare(bench.world.window()))
    await until(lambda: bench.world.begun == [0])
    preparing.cancel()
    await asyncio.wait([preparing])
    working = asyncio.create_task(processor.work(bench.world.window(last_slot=100)))
    await asyncio.sleep(0.05)
    assert bench.world.snapshots == 1
    bench.world.gates[0].set()
    assert (await working).elements == 2 * ZKP


async def test_work__proofs_of_a_left_root_take_all_room__the_round_ends_after_a_moment(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    world, loop = bench.world, asyncio.get_running_loop()
    monkeypatch.setattr(round_decisions, "LOOK_S", 0.3)
    world.fill(8)
    for _ in range(2):
        world.model.apply(APPEND)
    world.model.spent = [(world.model.queued[index], index, number(5000 + index)) for index in range(2)]
    world.gates = {3: asyncio.Event()}
    processor = await bench.start(V2Limits(window=1))
    preparing = asyncio.create_task(processor.prepare(world.window()))
    await until(lambda: world.begun == [2, 3])
    preparing.cancel()
    await asyncio.wait([preparing])
    world.model.apply(CircuitKind.BATCH_UPDATE)  # by another forester, which begins with the other queue
    began = loop.time()
    assert (await processor.work(world.window())).elements == 0
    assert loop.time() - began >= 0.3
    world.gates[3].set()


async def test_work__chain_has_passed_proofs_under_way__they_are_cancelled(bench: Bench) -> None:
    bench.world.fill(12)
    bench.world.gates = {place: asyncio.Event() for place in range(4)}
    processor = await bench.start(V2Limits(window=4, gather_s=1e9))
    preparing = asyncio.create_task(processor.prepare(bench.world.window()))
    await until(lambda: bench.world.begun == [0, 1, 2, 3])
    preparing.cancel()
    await asyncio.wait([preparing])
    for _ in range(4):
        bench.world.model.apply(APPEND)  # by another forester
    assert (await processor.work(bench.world.window())).more
    await asyncio.sleep(0.05)
    assert await processor.work(bench.world.window()) == ProcessingResult(elements=2 * ZKP, transactions=1)
    assert bench.world.begun == [0, 1, 2, 3, 4, 5]
    assert bench.world.proved.total() == 2


async def test_work__prover_down_and_back__waits_longer_and_longer(bench: Bench) -> None:
    bench.world.fill(2)
    bench.world.prover_faults[0] = [EndpointUnreachable("the prover is down") for _ in range(8)]
    processor = await bench.start()
    rounds = 0
    while not (await processor.work(bench.world.window())).elements:
        rounds += 1
        bench.world.now += 0.1
    assert len(bench.world.begun) == 9
    assert rounds >= 16, "after four failures at least 0.2 + 0.4 + 0.8 + 1.6 s have passed"


async def test_window_ends__with_a_proof_under_way__it_is_kept_and_sent_in_the_next_window(bench: Bench) -> None:
    bench.world.fill(6)
    bench.world.gates[0] = asyncio.Event()
    processor = await bench.start()
    working = asyncio.create_task(processor.work(bench.world.window(last_slot=100)))
    await until(lambda: bench.world.proved.total() == 2)
    bench.world.slot_now = 98
    assert await working == ProcessingResult(more=True), "the last slots are too few, the first proof is missing"
    bench.world.gates[0].set()
    await until(lambda: bench.world.proved.total() == 3)
    assert await processor.work(bench.world.window(last_slot=200)) == ProcessingResult(elements=3 * ZKP, transactions=1)
    assert bench.world.snapshots == 1
    assert set(bench.world.proved.values()) == {1}


async def test_window_nears_its_end__proof_would_come_too_late__is_not_begun(bench: Bench) -> None:
    bench.world.fill(2)
    bench.world.gates[0] = asyncio.Event()
    processor = await bench.start()
    working = asyncio.create_task(processor.work(bench.world.window(last_slot=100)))
    await until(lambda: bench.world.begun == [0])
    bench.world.now += 20.0
    bench.world.gates[0].set()
    assert (await working).elements == ZKP
    bench.world.fill(2)
    bench.world.slot_now = 60
    assert await processor.work(bench.world.window(last_slot=100)) == ProcessingResult(), "16 s are left"
    assert await processor.work(bench.world.window(last_slot=140)) == ProcessingResult(elements=ZKP, transactions=1)
    bench.world.fill(2)
    bench.world.slot_now = 10
    assert (await processor.work(bench.world.window(last_slot=30))).elements == ZKP, "no window is long enough"


async def test_window_nears_its_end__no_time_to_stage_and_confirm__no_first_proof_is_begun(bench: Bench) -> None:
    bench.world.fill(2)
    processor = await bench.start()
    bench.world.slot_now = 95
    assert await processor.work(bench.world.window(last_slot=100)) == ProcessingResult()
    assert bench.world.begun == []
    assert await processor.work(bench.world.window(last_slot=140)) == ProcessingResult(elements=ZKP, transactions=1)


async def test_window__that_ends_while_the_queue_is_read__begins_no_proof(bench: Bench) -> None:
    bench.world.fill(2)

    def read_slowly(snapshot: StateQueue) -> StateQueue:
        bench.world.slot_now = 97
        return snapshot

    bench.world.lie = read_slowly
    processor = await bench.start()
    assert await processor.work(bench.world.window(last_slot=100)) == ProcessingResult()
    assert (bench.world.snapshots, bench.world.begun) == (1, [])


async def test_window_nears_its_end__what_is_there_goes_out_alone(bench: Bench) -> None:
    bench.world.fill(6)
    bench.world.gates[2] = asyncio.Event()
    processor = await bench.start()
    working = asyncio.create_task(processor.work(bench.world.window(last_slot=100)))
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
    working = asyncio.create_task(processor.work(bench.world.window()))
    await until(lambda: bench.world.proved.total() == 1)
    await asyncio.sleep(0.1)
    assert bench.world.sent == []

    def sent_as_time_passes() -> bool:
        bench.world.now += 1.0
        return bench.world.sent == [1]

    await until(sent_as_time_passes)
    bench.world.gates[1].set()
    assert (await working).transactions == 2
    elapsed = bench.world.now - 1000.0
    rate = bench.metrics.registry.get_sample_value("forester_transaction_rate", {"epoch": "7"})
    assert rate == pytest.approx(ZKP / elapsed)


async def test_prepare__before_the_window__proves_and_keeps_but_sends_nothing(bench: Bench) -> None:
    bench.world.fill(6, spent=[0, 1])
    processor = await bench.start(V2Limits(round_batches=2, gather_s=1e9))
    await processor.prepare(bench.world.window())
    await processor.prepare(bench.world.window())
    assert (bench.world.sent, await bench.kept()) == ([], [0, 1])
    assert bench.world.begun == [0, 1], "no more than a round, and once"
    assert (await processor.work(bench.world.window())).elements == 2 * ZKP


def shared_turn(bench: Bench, owned: tuple[int, ...], window: int) -> EligibilityWindow:
    """Return a window in an epoch of 60 light slots of 10 slots, with scheduling terms of 23 light slots."""
    schedule = TreeSchedule(ProtocolTimes(0, 10, 0, 600, 0).phases(0), owned)
    slots = schedule.phases.light_slot_range(window)
    return EligibilityWindow(0, slots, lambda: bench.world.slot_now, schedule)


async def test_prepare__somebody_else_holds_the_tree__nothing_is_proved_until_the_term_is_ours(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(round_decisions, "LOOK_S", 0.01)
    monkeypatch.setattr(round_decisions, "FAR_LOOK_S", 0.01)
    bench.world.fill(6)
    bench.world.slot_now = 100
    processor = await bench.start()
    preparing = asyncio.create_task(processor.prepare(shared_turn(bench, (30, 59), 30)))
    await until(lambda: bench.world.reads > 3)
    assert bench.world.begun == [], "the term ends with a light slot of somebody else"
    bench.world.model.apply(APPEND)
    bench.world.slot_now = 240
    await preparing
    assert (bench.world.begun, bench.world.sent) == ([1, 2], [])


async def test_prepare__holder_never_moves_the_tree__takes_the_work_over(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(round_decisions, "LOOK_S", 0.001)
    monkeypatch.setattr(round_decisions, "FAR_LOOK_S", 0.001)
    bench.world.fill(6)
    schedule = TreeSchedule(ProtocolTimes(0, 10, 0, 60_000, 0).phases(0), (5999,))
    window = EligibilityWindow(0, schedule.phases.light_slot_range(5999), lambda: bench.world.slot_now, schedule)
    processor = await bench.start()
    preparing = asyncio.create_task(processor.prepare(window))
    seen = bench.world.reads

    def begun_as_slots_pass() -> bool:
        nonlocal seen
        if bench.world.reads > seen:
            seen, bench.world.slot_now = bench.world.reads, bench.world.slot_now + 70
        return bool(bench.world.begun)

    await until(begun_as_slots_pass)
    assert 4 * MINIMUM_TERM_SLOTS < bench.world.slot_now < 18 * MINIMUM_TERM_SLOTS
    await preparing
    assert bench.world.begun == [0, 1, 2]


async def test_prepare__held_term__proves_rounds_ahead_of_the_window(bench: Bench) -> None:
    bench.world.fill(10)
    processor = await bench.start(V2Limits(round_batches=1))
    bench.world.slot_now = 240
    await processor.prepare(shared_turn(bench, (59,), 59))
    assert bench.world.begun == [0, 1, 2, 3]


async def test_work__own_window_in_the_term_of_another__sends_what_is_kept_and_begins_nothing(bench: Bench) -> None:
    bench.world.fill(4)
    processor = await bench.start(V2Limits(gather_s=0.0))
    bench.world.slot_now = 10
    await processor.prepare(shared_turn(bench, (22, 30), 22))
    bench.world.fill(4)
    bench.world.slot_now = 300
    done = await processor.work(shared_turn(bench, (22, 30), 30))
    assert (done.elements, done.more) == (2 * ZKP, False)
    assert bench.world.begun == [0, 1], "later elements are for the holder of the term"


async def test_work__before_its_window__sends_nothing(bench: Bench) -> None:
    bench.world.fill(2)
    processor = await bench.start()
    eligibility = bench.world.window()
    bench.world.slot_now = -1
    assert await processor.work(eligibility) == ProcessingResult(more=True)
    assert (bench.world.sent, bench.world.begun) == ([], [])


async def test_restart__with_a_stored_chain__sends_it_before_anything_else_and_proves_nothing_twice(
    bench: Bench,
) -> None:
    bench.world.fill(6)
    await (await bench.start()).prepare(bench.world.window())
    bench.world.fill(6, spent=[0, 1])
    sent_before_asking: list[int] = []

    def reported(snapshot: StateQueue) -> StateQueue:
        sent_before_asking.extend(bench.world.sent)
        return snapshot

    bench.world.lie = reported
    processor = await bench.start()
    assert (await processor.work(bench.world.window())).elements == 4 * ZKP
    assert sent_before_asking == [3]
    while (await processor.work(bench.world.window())).more:
        pass
    assert bench.world.model.appended == 12
    assert set(bench.world.proved.values()) == {1}


async def test_restart__proofs_of_another_order_are_kept__staging_follows_them(bench: Bench) -> None:
    bench.world.fill(4)
    await (await bench.start(V2Limits(round_batches=2, gather_s=1e9))).prepare(bench.world.window())
    # Now a nullification would come between the two appends that are proved.
    bench.world.fill(4, spent=[0, 1])
    processor = await bench.start()
    await processor.prepare(bench.world.window())
    assert sorted(bench.world.begun) == [0, 1, 2, 3]
    assert (await processor.work(bench.world.window())).elements == 4 * ZKP
    assert bench.world.sent == [4]


async def test_restart__sent_before_and_not_settled__waits(bench: Bench) -> None:
    bench.world.fill(2)
    bench.world.settled = False
    done = await (await bench.start()).work(bench.world.window())
    assert isinstance(done.failure, HeadOutdated)
    assert (done.more, bench.world.sent) == (True, [])


async def test_cancelled__with_a_proof_in_flight__it_is_kept_and_used(bench: Bench) -> None:
    bench.world.fill(4)
    bench.world.gates = {0: asyncio.Event(), 1: asyncio.Event()}
    processor = await bench.start()
    working = asyncio.create_task(processor.work(bench.world.window()))
    await until(lambda: bench.world.begun == [0, 1])
    working.cancel()
    await asyncio.wait([working])
    for gate in bench.world.gates.values():
        gate.set()
    await processor.close(60.0)
    assert await bench.kept() == [0, 1]
    processor = await bench.start()
    assert (await processor.work(bench.world.window())).elements == 2 * ZKP
    assert bench.world.begun == [0, 1]


async def test_fate_unknown__it_has_landed__is_counted_in_the_next_round(bench: Bench) -> None:
    bench.world.fill(4)
    bench.world.unseen = 1
    processor = await bench.start()
    assert await processor.work(bench.world.window()) == ProcessingResult(more=True)
    assert await processor.work(bench.world.window()) == ProcessingResult(elements=2 * ZKP, transactions=1)
    assert bench.world.sent == [2]
    assert bench.processed() == 4


async def test_fate_unknown__same_proofs_go_out_in_the_same_company(bench: Bench) -> None:
    bench.world.fill(4)
    bench.world.gates[1] = asyncio.Event()
    bench.world.outcomes = [Outcome(Fate.DEADLINE_PASSED)]
    processor = await bench.start(V2Limits(gather_s=0.0))
    assert (await processor.work(bench.world.window())).elements == 0
    bench.world.gates[1].set()
    await until(lambda: bench.world.proved.total() == 2)
    assert (await processor.work(bench.world.window())).elements == 2 * ZKP
    assert bench.world.sent == [1, 1, 1], "the first one again unchanged, the other one separately"
