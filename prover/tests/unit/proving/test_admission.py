"""Permits: bounded, fair, cancellable, and always given back."""

import contextlib
import threading
import time

import pytest
from prometheus_client import CollectorRegistry

from prover.errors import Cancelled, MemoryBudgetExceeded, TryAgainLater
from prover.kernel.cancellation import CancelFlag
from prover.observability.metrics import Metrics
from prover.proving.admission import Admission, Demand
from shared.requests.circuit_id import CircuitKind

KIND = CircuitKind.INCLUSION


def admission(permits: int, waiting_limit: int = 100, budget_bytes: int | None = None) -> Admission:
    return Admission(permits, waiting_limit, Metrics(CollectorRegistry()), budget_bytes)


def free_permits(subject: Admission) -> int:
    """Return the number of calls that may begin before another ends."""
    return subject._free


def wait_for_queue(subject: Admission, length: int) -> None:
    deadline = time.monotonic() + 30
    while subject.waiting != length:
        assert time.monotonic() < deadline
        time.sleep(0.001)


def test_permit__with_more_threads_than_permits__is_held_by_no_more() -> None:
    subject = admission(permits=3)
    inside = most = 0
    lock = threading.Lock()

    def work() -> None:
        nonlocal inside, most
        for _ in range(20):
            with subject.permit(KIND, CancelFlag()):
                with lock:
                    inside += 1
                    most = max(most, inside)
                time.sleep(0.0005)
                with lock:
                    inside -= 1

    threads = [threading.Thread(target=work) for _ in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most == 3
    assert free_permits(subject) == 3


def test_permit__asked_by_several__goes_to_the_first() -> None:
    subject = admission(permits=1)
    order: list[int] = []

    def work(number: int) -> None:
        with subject.permit(KIND, CancelFlag()):
            order.append(number)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(5)]
    with subject.permit(KIND, CancelFlag()):
        for number, thread in enumerate(threads):
            thread.start()
            wait_for_queue(subject, number + 1)
    for thread in threads:
        thread.join()
    assert order == [0, 1, 2, 3, 4]


def test_permit__with_too_many_waiting__is_refused_at_once() -> None:
    subject = admission(permits=1, waiting_limit=0)
    with (
        subject.permit(KIND, CancelFlag()),
        pytest.raises(TryAgainLater, match="waiting"),
        subject.permit(KIND, CancelFlag()),
    ):
        pass
    assert free_permits(subject) == 1


def test_permit__cancelled_while_waiting__leaves_the_queue() -> None:
    metrics = Metrics(CollectorRegistry())
    subject = Admission(1, 1, metrics)
    cancel = CancelFlag()
    failures: list[BaseException] = []

    def work() -> None:
        try:
            with subject.permit(KIND, cancel):
                pass
        except Cancelled as error:
            failures.append(error)

    with subject.permit(KIND, CancelFlag()):
        thread = threading.Thread(target=work)
        thread.start()
        wait_for_queue(subject, 1)
        cancel.raise_flag()
        thread.join()
        assert len(failures) == 1
        assert subject.waiting == 0
    assert free_permits(subject) == 1
    [waits] = metrics.admission_wait_seconds.labels(KIND.value).collect()
    assert next(sample.value for sample in waits.samples if sample.name.endswith("_count")) == 2


def test_permit__asked_with_a_raised_flag__is_given_back() -> None:
    subject = admission(permits=1)
    cancel = CancelFlag()
    cancel.raise_flag()
    with pytest.raises(Cancelled), subject.permit(KIND, cancel):
        pass
    assert free_permits(subject) == 1


def test_permit__after_a_failure_inside__is_free_again() -> None:
    subject = admission(permits=1)
    with pytest.raises(ValueError, match="boom"), subject.permit(KIND, CancelFlag()):
        raise ValueError("boom")
    assert free_permits(subject) == 1


def test_permit__for_more_memory_than_there_is__is_refused_with_need_budget_and_remedies() -> None:
    subject = admission(permits=4, budget_bytes=100 * 2**20)
    with (
        pytest.raises(MemoryBudgetExceeded) as caught,
        subject.permit(KIND, CancelFlag(), Demand(100 * 2**20 + 1)),
    ):
        pass
    message = caught.value.detail
    for word in ("101 MiB", "100 MiB", "add memory", "fewer at a time", "smaller batches"):
        assert word in message
    assert not caught.value.retryable
    with subject.permit(KIND, CancelFlag(), Demand(100 * 2**20)):
        pass


def test_permits__together_beyond_the_memory__wait_for_each_other() -> None:
    subject = admission(permits=8, budget_bytes=10)
    inside = most = 0
    lock = threading.Lock()

    def work(need_bytes: int) -> None:
        nonlocal inside, most
        for _ in range(20):
            with subject.permit(KIND, CancelFlag(), Demand(need_bytes)):
                with lock:
                    inside += need_bytes
                    most = max(most, inside)
                time.sleep(0.0002)
                with lock:
                    inside -= need_bytes

    threads = [threading.Thread(target=work, args=(need,)) for need in (1, 2, 3, 4, 5, 6, 7, 10)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert 7 <= most <= 10
    assert subject.used_bytes == 0
    assert free_permits(subject) == 8


class Waiter:
    """A thread that waits for a permit, and holds it until the test releases it."""

    def __init__(self, subject: Admission, demand: Demand, cancel: CancelFlag | None = None) -> None:
        self.is_granted = threading.Event()
        self._subject, self._demand, self._cancel = subject, demand, cancel or CancelFlag()
        self._may_leave = threading.Event()
        self._thread = threading.Thread(target=self._hold)
        self._thread.start()

    def leave(self) -> None:
        self._may_leave.set()
        self._thread.join()

    def _hold(self) -> None:
        with contextlib.suppress(Cancelled), self._subject.permit(KIND, self._cancel, self._demand):
            self.is_granted.set()
            assert self._may_leave.wait(60)


def test_permit__behind_one_that_lacks_memory__is_granted_within_what_that_leaves_of_the_budget() -> None:
    subject = admission(permits=8, budget_bytes=10)
    with subject.permit(KIND, CancelFlag(), Demand(6)):
        large = Waiter(subject, Demand(7))
        wait_for_queue(subject, 1)
        small = [Waiter(subject, Demand(1)) for _ in range(3)]
        for waiter in small:
            assert waiter.is_granted.wait(30)
        # One more byte is free, but the large proof needs it.
        last = Waiter(subject, Demand(1))
        wait_for_queue(subject, 2)
        assert subject.used_bytes == 9
        small.pop().leave()
        assert last.is_granted.wait(30)
    assert large.is_granted.wait(30)
    assert subject.used_bytes == 10
    for waiter in (*small, last, large):
        waiter.leave()
    assert (subject.used_bytes, free_permits(subject), subject.waiting) == (0, 8, 0)


def test_permit__behind_one_that_needs_the_whole_budget__waits() -> None:
    subject = admission(permits=4, budget_bytes=10)
    with subject.permit(KIND, CancelFlag(), Demand(5)):
        large = Waiter(subject, Demand(10))
        wait_for_queue(subject, 1)
        small = Waiter(subject, Demand(1))
        wait_for_queue(subject, 2)
    assert large.is_granted.wait(30)
    assert not small.is_granted.is_set()
    for waiter in (large, small):
        waiter.leave()
    assert subject.used_bytes == 0


def test_permit__of_a_large_proof_that_leaves__lets_small_ones_pass() -> None:
    subject = admission(permits=4, budget_bytes=10)
    cancel, passed = CancelFlag(), threading.Event()

    def large() -> None:
        with pytest.raises(Cancelled), subject.permit(KIND, cancel, Demand(10)):
            pass

    def small() -> None:
        with subject.permit(KIND, CancelFlag(), Demand(1)):
            passed.set()

    with subject.permit(KIND, CancelFlag(), Demand(5)):
        threads = [threading.Thread(target=large), threading.Thread(target=small)]
        threads[0].start()
        wait_for_queue(subject, 1)
        threads[1].start()
        wait_for_queue(subject, 2)
        cancel.raise_flag()
        assert passed.wait(30)
    for thread in threads:
        thread.join()


class Together(Demand):
    """A proof that one call of a device makes with two others in 10 bytes each; the device makes one call at once."""

    device = "device"
    maximum = 3

    def memory_of(self, proofs: int) -> int:
        return 10 * proofs

    def shares_call_with(self, other: Demand) -> bool:
        return isinstance(other, Together)


class Sharer:
    """A thread that holds or waits for a permit until the test releases it."""

    def __init__(self, subject: Admission, cancel: CancelFlag | None = None) -> None:
        self.begins: bool | None = None
        self._subject = subject
        self._cancel = cancel or CancelFlag()
        self._may_leave = threading.Event()
        self._thread = threading.Thread(target=self._share)
        ahead = subject.waiting
        self._thread.start()
        wait_for_queue(subject, ahead + 1)

    def leave(self) -> None:
        self._may_leave.set()
        self._thread.join()

    def _share(self) -> None:
        with contextlib.suppress(Cancelled), self._subject.permit(KIND, self._cancel, Together()) as permit:
            self.begins = permit.begin_call()
            assert self._may_leave.wait(60)


@pytest.mark.parametrize(("budget_bytes", "first", "second"), [(None, 3, 1), (25, 2, 2)])
def test_permit__of_proofs_that_one_call_makes__is_one_up_to_maximum_and_memory(
    budget_bytes: int | None, first: int, second: int
) -> None:
    metrics = Metrics(CollectorRegistry())
    subject = Admission(1, 4, metrics, budget_bytes)
    with subject.permit(KIND, CancelFlag()):
        sharers = [Sharer(subject) for _ in range(4)]
        with pytest.raises(TryAgainLater, match="4 proofs are waiting already"), subject.permit(KIND, CancelFlag()):
            pass
        assert (subject.waiting, subject.retry_after_s(KIND)) == (4, 2)
    assert (subject.waiting, metrics.active_jobs._value.get(), subject.used_bytes) == (second, first, 10 * first)
    for sharer in sharers[:first]:
        assert subject.waiting == second
        sharer.leave()
    wait_for_queue(subject, 0)
    for sharer in sharers[first:]:
        sharer.leave()
    assert [sharer.begins for sharer in sharers].count(True) == 2
    assert (free_permits(subject), subject.used_bytes, metrics.active_jobs._value.get()) == (1, 0, 0)
    assert metrics.admission_wait_seconds.labels(KIND.value)._sum.get() > 0


def test_permit__of_a_device_that_makes_its_call__does_not_delay_others() -> None:
    subject = admission(permits=3)
    with subject.permit(KIND, CancelFlag(), Together()):
        waiting = Sharer(subject)
        with subject.permit(KIND, CancelFlag()):
            assert subject.waiting == 1
    wait_for_queue(subject, 0)
    waiting.leave()


def test_permit__behind_a_call_that_lacks_memory__does_not_take_the_device_of_that_call() -> None:
    subject = admission(permits=4, budget_bytes=40)
    with subject.permit(KIND, CancelFlag(), Demand(25)):
        with subject.permit(KIND, CancelFlag(), Together()):
            sharers = [Sharer(subject) for _ in range(2)]
        assert (subject.waiting, subject.used_bytes) == (2, 25)
    wait_for_queue(subject, 0)
    for sharer in sharers:
        sharer.leave()


def test_permit__of_a_call_that_was_passed__is_granted_without_sharers_that_would_wait_for_the_other() -> None:
    subject = admission(permits=8, budget_bytes=30)
    with contextlib.ExitStack() as passing:
        with subject.permit(KIND, CancelFlag(), Demand(25)):
            sharers = [Sharer(subject)]
            passing.enter_context(subject.permit(KIND, CancelFlag(), Demand(5)))
            sharers += [Sharer(subject), Sharer(subject)]
            assert (subject.waiting, subject.used_bytes) == (3, 30)
        wait_for_queue(subject, 1)  # three would need all 30 bytes
        assert subject.used_bytes == 25
    for sharer in sharers[:2]:
        sharer.leave()
    wait_for_queue(subject, 0)
    sharers[2].leave()


def test_call__ended_by_one_of_its_sharers__lets_the_next_begin() -> None:
    subject = admission(permits=1)
    with subject.permit(KIND, CancelFlag(), Together()) as permit:
        following = Sharer(subject)
        permit.end_call()
        wait_for_queue(subject, 0)
    assert free_permits(subject) == 0
    following.leave()
    assert free_permits(subject) == 1


def test_permit__of_which_a_sharer_was_cancelled__stays_with_the_others() -> None:
    subject, cancel = admission(permits=1), CancelFlag()
    with subject.permit(KIND, CancelFlag()):
        gone, stays = Sharer(subject, cancel), Sharer(subject)
        cancel.raise_flag()
        wait_for_queue(subject, 1)
    wait_for_queue(subject, 0)
    stays.leave()
    gone.leave()
    assert (gone.begins, stays.begins, free_permits(subject)) == (None, True, 1)


def test_permit__renewed__is_that_of_a_call_alone_and_not_refused_for_the_number_that_wait() -> None:
    subject = admission(permits=1, waiting_limit=1, budget_bytes=30)
    with subject.permit(KIND, CancelFlag(), Together()) as permit:
        following = Sharer(subject)
        released = threading.Timer(0.05, following.leave)
        released.start()
        permit.renew(Demand(30))
        assert (free_permits(subject), subject.used_bytes, permit.demand.memory_of(1)) == (0, 30, 30)
        assert permit.wait_s >= 0.04
    released.join()
    assert (free_permits(subject), subject.used_bytes) == (1, 0)


def test_permit__renewed_with_a_raised_flag__is_released() -> None:
    subject, cancel = admission(permits=1), CancelFlag()
    with subject.permit(KIND, cancel, Together()) as permit:
        following = Sharer(subject)
        cancel.raise_flag()
        with pytest.raises(Cancelled):
            permit.renew(Demand())
    following.leave()
    assert (free_permits(subject), subject.waiting) == (1, 0)


def test_retry_after__of_a_kind__follows_what_was_measured() -> None:
    subject = admission(permits=1)
    assert subject.retry_after_s(CircuitKind.BATCH_UPDATE) == 15
    for _ in range(40):
        with subject.permit(CircuitKind.BATCH_UPDATE, CancelFlag()):
            pass
    assert subject.retry_after_s(CircuitKind.BATCH_UPDATE) == 1


def test_retry_after__grows_with_the_queue_and_is_at_least_a_second() -> None:
    subject = admission(permits=1)
    assert subject.retry_after_s() == 1
    threads = []
    with subject.permit(KIND, CancelFlag()):
        for number in range(5):
            thread = threading.Thread(target=_pass_through, args=(subject,))
            thread.start()
            threads.append(thread)
            wait_for_queue(subject, number + 1)
        assert subject.retry_after_s() == 6
    for thread in threads:
        thread.join()


def _pass_through(subject: Admission) -> None:
    with subject.permit(KIND, CancelFlag()):
        pass
