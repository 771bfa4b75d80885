"""Proofs that a GPU makes together, their order, and the others when one fails or leaves."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import pytest
from fake_gpu import KIND, FakeDevice, tiny_key
from held_gpu import INPUTS, HeldGpu, batches, proved, until

from prover.errors import (
    Cancelled,
    DeviceLost,
    KernelMisused,
    TryAgainLater,
    WitnessRejected,
)
from prover.kernel.cancellation import CancelFlag
from prover.kernel.device import DeviceKey
from prover.kernel.engine import Engine, LoadedKey
from prover.proving.gpu.launches import LAUNCHES_AT_ONCE
from prover.proving.proof_making import UnverifiedProof
from shared.requests.circuit_id import CircuitKind

UNSATISFIED = INPUTS[:-1] + bytes([INPUTS[-1] ^ 1])


@pytest.fixture
def keys(engine: Engine) -> Iterator[list[LoadedKey]]:
    """Two keys, which count as different."""
    with ExitStack() as stack:
        yield [stack.enter_context(tiny_key(engine)) for _ in range(2)]


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    """Threads of requests."""
    with ThreadPoolExecutor(32) as pool:
        yield pool


def test_requests__that_find_the_gpu_free__go_at_once_and_alone(
    keys: list[LoadedKey], pool: ThreadPoolExecutor
) -> None:
    held = HeldGpu(pool, batches())
    asked = held.occupy(keys[0])
    assert held.sizes() == [1] * LAUNCHES_AT_ONCE
    held.end_all()
    assert proved(asked, keys[0]) == [1] * LAUNCHES_AT_ONCE


def test_requests__that_come_meanwhile__go_together_in_the_next_launch(
    keys: list[LoadedKey], pool: ThreadPoolExecutor
) -> None:
    held = HeldGpu(pool, batches())
    first = held.occupy(keys[0])
    later = [held.submit(keys[0]) for _ in range(5)]
    assert held.admission.waiting == 5
    held.end_all()
    assert proved(first, keys[0]) == [1, 1]
    assert proved(later, keys[0]) == [5] * 5
    assert held.sizes() == [1, 1, 5]
    assert held.metrics.device_launch_proofs.labels("cuda:0")._sum.get() == 7
    until(lambda: held.metrics.active_jobs._value.get() == 0)
    assert held.metrics.waiting._value.get() == 0
    assert held.metrics.admission_wait_seconds.labels("inclusion")._sum.get() > 0


@pytest.mark.parametrize(
    ("device", "options", "most"),
    [
        (batches(4), {}, 4),
        (batches(64), {"maximum_proofs": 3}, 3),
        (batches(64), {"memory": 5 * 64}, 5),
    ],
    ids=["of the library", "of the setting", "of working memory"],
)
def test_launch__at_a_limit__takes_the_oldest_and_leaves_the_rest_in_order(
    keys: list[LoadedKey], pool: ThreadPoolExecutor, device: FakeDevice, options: dict[str, int], most: int
) -> None:
    held = HeldGpu(pool, device, **options)
    asked = held.occupy(keys[0]) + [held.submit(keys[0]) for _ in range(2 * most + 1)]
    held.end_all()
    assert proved(asked, keys[0]) == [1, 1, *[most] * 2 * most, 1]
    assert sorted(held.sizes()) == [1, 1, 1, most, most]


@pytest.mark.parametrize(
    ("device", "maximum_proofs"), [(batches(1), 64), (batches(64), 1)], ids=["by its key", "by the setting"]
)
def test_proofs__that_are_made_one_at_a_time__wait_for_permits_alone(
    keys: list[LoadedKey], pool: ThreadPoolExecutor, device: FakeDevice, maximum_proofs: int
) -> None:
    held = HeldGpu(pool, device, maximum_proofs=maximum_proofs, permits=5)
    asked = [held.submit(keys[0]) for _ in range(7)]
    assert held.sizes() == [1] * 5
    assert held.admission.waiting == 2
    assert held.gpu.launches.capacity == (128 if maximum_proofs > 1 else 0)
    held.end_all()
    assert proved(asked, keys[0]) == [1] * 7


def test_keys__with_many_requests__keep_no_older_request_of_another_waiting(
    keys: list[LoadedKey], pool: ThreadPoolExecutor
) -> None:
    many, few = keys
    held = HeldGpu(pool, batches(4))
    asked = held.occupy(many)
    asked += [held.submit(key) for key in (many, few, many, many, few, many, many)]
    for _ in range(3):
        held.end_one()
    assert [(launch.key, len(launch.inputs)) for launch in held.device.launches[2:]] == [(many, 4), (few, 2), (many, 1)]
    held.end_all()
    for one in asked:
        one.result(120)


def test_request__cancelled_while_it_waits__leaves_at_once_and_the_others_continue(
    keys: list[LoadedKey], pool: ThreadPoolExecutor
) -> None:
    held = HeldGpu(pool, batches())
    first, cancel = held.occupy(keys[0]), CancelFlag()
    gone, stays = held.submit(keys[0], cancel=cancel), held.submit(keys[0])
    cancel.raise_flag()
    with pytest.raises(Cancelled):
        gone.result(120)
    assert held.admission.waiting == 1
    held.end_all()
    proved(first, keys[0])
    assert proved([stays], keys[0]) == [1]


def test_request__cancelled_before_it_asks__is_not_proved(keys: list[LoadedKey], pool: ThreadPoolExecutor) -> None:
    held, cancel = HeldGpu(pool, batches()), CancelFlag()
    cancel.raise_flag()
    held.end_all()
    with held.gpu.lease(keys[0], CancelFlag(), wait=False) as copy:
        demand = held.gpu.launches.demand(copy, INPUTS)
        with pytest.raises(Cancelled), held.admission.permit(KIND, cancel, demand):
            pass
    assert not held.device.launches


def test_request__cancelled_in_a_launch__takes_nobody_with_it(keys: list[LoadedKey], pool: ThreadPoolExecutor) -> None:
    held = HeldGpu(pool, batches())
    first, cancel = held.occupy(keys[0]), CancelFlag()
    gone, stays = held.submit(keys[0], cancel=cancel), held.submit(keys[0])
    held.end_one()
    assert held.sizes() == [1, 1, 2]
    cancel.raise_flag()
    launch = held.device.launches[2]
    assert not launch.cancel.is_raised
    assert not gone.done()  # its key is in use
    held.end_all()
    assert proved([*first, stays, gone], keys[0]) == [1, 1, 2, 2]
    assert not launch.cancel.is_raised


def test_launch__of_which_all_requests_were_cancelled__is_stopped(
    keys: list[LoadedKey], pool: ThreadPoolExecutor
) -> None:
    held = HeldGpu(pool, batches())
    first, flags = held.occupy(keys[0]), [CancelFlag() for _ in range(3)]
    gone = [held.submit(keys[0], cancel=flag) for flag in flags]
    held.end_one()
    assert held.sizes() == [1, 1, 3]
    for flag in flags:
        assert not held.device.launches[2].cancel.is_raised
        flag.raise_flag()
    assert held.device.launches[2].cancel.is_raised
    held.end_all()
    for one in gone:
        with pytest.raises(Cancelled):
            one.result(120)
    proved(first, keys[0])


def test_request__cancelled_before_its_launch_begins__is_omitted(
    keys: list[LoadedKey], pool: ThreadPoolExecutor
) -> None:
    held, flags = HeldGpu(pool, batches(), permits=1), [CancelFlag(), CancelFlag()]
    granted, may_prove = threading.Semaphore(0), threading.Event()

    def ask(copy: DeviceKey, cancel: CancelFlag) -> UnverifiedProof:
        with held.admission.permit(KIND, cancel, held.gpu.launches.demand(copy, INPUTS)) as permit:
            granted.release()
            assert may_prove.wait(60)
            return held.gpu.launches.prove(permit)

    with held.gpu.lease(keys[0], CancelFlag(), wait=False) as copy:
        with held.admission.permit(CircuitKind.BATCH_UPDATE, CancelFlag()):
            gone, stays = [pool.submit(ask, copy, flag) for flag in flags]
            until(lambda: held.admission.waiting == 2)
        for _ in flags:
            assert granted.acquire(timeout=60)
        flags[0].raise_flag()
        may_prove.set()
        held.end_all()
        with pytest.raises(Cancelled):
            gone.result(120)
        assert proved([stays], keys[0]) == [1]
    assert held.sizes() == [1]
    assert held.admission._free == 1


def test_request__whose_witness_is_not_satisfied__fails_alone(keys: list[LoadedKey], pool: ThreadPoolExecutor) -> None:
    held = HeldGpu(pool, batches())
    asked = held.occupy(keys[0])
    asked.append(held.submit(keys[0]))
    false = held.submit(keys[0], UNSATISFIED)
    asked.append(held.submit(keys[0]))
    held.end_all()
    with pytest.raises(WitnessRejected):
        false.result(120)
    assert proved(asked, keys[0]) == [1, 1, 3, 3]


def test_request__with_too_few_inputs__goes_with_nobody(keys: list[LoadedKey], pool: ThreadPoolExecutor) -> None:
    held = HeldGpu(pool, batches())
    asked = [*held.occupy(keys[0]), held.submit(keys[0])]
    short = held.submit(keys[0], INPUTS[:-32])
    asked.append(held.submit(keys[0]))
    held.end_all()
    with pytest.raises((KernelMisused, WitnessRejected)):
        short.result(120)
    assert proved(asked, keys[0]) == [1, 1, 2, 2]


def test_fault__of_a_launch__is_what_all_its_requests_get(keys: list[LoadedKey], pool: ThreadPoolExecutor) -> None:
    held = HeldGpu(pool, batches())
    held.device.proof_faults = [lambda proof: proof] * 2 + [DeviceLost("gone")]
    first, lost = held.occupy(keys[0]), [held.submit(keys[0]) for _ in range(3)]
    held.end_all()
    for one in lost:
        with pytest.raises(DeviceLost, match="gone"):
            one.result(120)
    proved(first, keys[0])
    assert proved([held.submit(keys[0])], keys[0]) == [1]


def test_defect__in_a_launch__reaches_all_its_requests_and_stops_nothing(
    keys: list[LoadedKey], pool: ThreadPoolExecutor
) -> None:
    held = HeldGpu(pool, batches())
    held.device.proof_faults = [lambda proof: proof] * 2 + [ValueError("a defect")]
    first, failed = held.occupy(keys[0]), [held.submit(keys[0]) for _ in range(3)]
    held.end_all()
    for one in failed:
        with pytest.raises(ValueError, match="a defect"):
            one.result(120)
    proved(first, keys[0])
    assert proved([held.submit(keys[0])], keys[0]) == [1]


def test_requests__more_than_may_wait__are_refused_and_those_that_wait_are_not(
    keys: list[LoadedKey], pool: ThreadPoolExecutor
) -> None:
    held = HeldGpu(pool, batches(), permits=2, waiting_limit=2)
    asked = held.occupy(keys[0]) + [held.submit(keys[0]) for _ in range(2)]
    with pytest.raises(TryAgainLater, match="2 proofs are waiting already"):
        held.submit(keys[0]).result(120)
    assert held.admission.retry_after_s(KIND) == 1
    held.end_all()
    assert proved(asked, keys[0]) == [1, 1, 2, 2]


def test_requests__of_many_threads_and_two_keys__are_all_proved_and_leave_nothing_behind(
    keys: list[LoadedKey], pool: ThreadPoolExecutor
) -> None:
    held = HeldGpu(pool, batches(5), permits=3, waiting_limit=200)
    held.end_all()

    def ask(number: int) -> UnverifiedProof | None:
        flag = CancelFlag()
        if number % 7 == 0:
            threading.Timer(0.001 * (number % 5), flag.raise_flag).start()
        inputs = UNSATISFIED if number % 11 == 0 else INPUTS
        try:
            return held.prove(keys[number % 2], inputs, flag)
        except (Cancelled, WitnessRejected):
            return None

    made = list(pool.map(ask, range(300)))
    assert all(made[number] for number in range(300) if number % 7 and number % 11)
    assert not any(made[number] for number in range(0, 300, 11))
    assert held.admission._free == 3
    assert (held.metrics.active_jobs._value.get(), held.admission.waiting, held.gpu.leases) == (0, 0, 0)
