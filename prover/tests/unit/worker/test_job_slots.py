"""Slots of an instance: bounds, and turns of the queues."""

from __future__ import annotations

from prover.queue.circuit_queues import CircuitQueue
from prover.worker.job_slots import JobSlots

UPDATE, APPEND, ADDRESS = THREE = CircuitQueue.UPDATE, CircuitQueue.APPEND, CircuitQueue.ADDRESS_APPEND


def test_slots__of_one_queue_and_in_all__are_bounded() -> None:
    slots = JobSlots(THREE, per_circuit=2, total=3)
    assert [slots.acquire(UPDATE) for _ in range(3)] == [True, True, False]
    assert slots.is_free(APPEND)
    assert slots.acquire(APPEND)
    assert not slots.is_free(APPEND)
    assert slots.acquire_next(()) is None
    slots.release(UPDATE)
    assert slots.is_free(APPEND)


def test_next_slot__of_several_queues__goes_to_the_one_served_longest_ago() -> None:
    slots = JobSlots(THREE, per_circuit=1, total=1)
    served = []
    for _ in range(4):
        served.append(queue := slots.acquire_next(()))
        assert queue
        slots.release(queue)
    assert served == [UPDATE, APPEND, ADDRESS, UPDATE]
    assert slots.acquire_next({APPEND}) is ADDRESS


def test_slots__of_a_circuit__are_shared_by_its_networks_which_take_turns() -> None:
    flooded, other = CircuitQueue.UPDATE_DEVNET, CircuitQueue.UPDATE_MAINNET
    slots = JobSlots(CircuitQueue, per_circuit=1, total=2)
    assert slots.acquire(flooded)
    assert not slots.is_free(other)
    assert not slots.is_free(UPDATE)
    assert slots.is_free(CircuitQueue.APPEND_DEVNET)
    slots.release(flooded)
    idle = set(CircuitQueue) - {flooded, other}
    assert slots.acquire_next(idle) is other


def test_watcher__of_slots__learns_of_every_change() -> None:
    slots = JobSlots(THREE, per_circuit=1, total=1)
    seen: list[bool] = []
    slots.watch(lambda: seen.append(slots.is_free(APPEND)))
    slots.acquire(UPDATE)
    slots.release(UPDATE)
    assert seen == [False, True]
