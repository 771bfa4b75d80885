"""Permits: bounded, fair, cancellable, and always given back."""

import threading
import time

import pytest
from prometheus_client import CollectorRegistry

from prover.errors import Cancelled, TryAgainLater
from prover.kernel.cancellation import CancelFlag
from prover.observability.metrics import Metrics
from prover.proving.admission import Admission
from shared.circuit_id import CircuitKind

KIND = CircuitKind.INCLUSION


def admission(permits: int, waiting_limit: int = 100) -> Admission:
    return Admission(permits, waiting_limit, Metrics(CollectorRegistry()))


def wait_for_queue(subject: Admission, length: int) -> None:
    deadline = time.monotonic() + 5
    while len(subject._queue) != length:
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
    assert subject._free == 3


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
    assert subject._free == 1


def test_permit__cancelled_while_waiting__leaves_the_queue() -> None:
    subject = admission(permits=1)
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
        assert not subject._queue
    assert subject._free == 1


def test_permit__asked_with_a_raised_flag__is_given_back() -> None:
    subject = admission(permits=1)
    cancel = CancelFlag()
    cancel.raise_flag()
    with pytest.raises(Cancelled), subject.permit(KIND, cancel):
        pass
    assert subject._free == 1


def test_permit__after_a_failure_inside__is_free_again() -> None:
    subject = admission(permits=1)
    with pytest.raises(ValueError, match="boom"), subject.permit(KIND, CancelFlag()):
        raise ValueError("boom")
    assert subject._free == 1


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
