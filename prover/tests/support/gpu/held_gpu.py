"""A GPU whose calls return when a test lets them, and requests for it from many threads."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

from fake_gpu import KIND, FakeDevice, FakeGpus, prove_tiny, tiny_task

from prover.kernel.cancellation import CancelFlag
from prover.kernel.engine import LoadedKey
from prover.proving.admission import Admission
from prover.proving.devices import Devices
from prover.proving.gpu.launches import LAUNCHES_AT_ONCE
from prover.proving.proof_making import Proof, UnverifiedProof

Result = TypeVar("Result")

INPUTS = tiny_task().assignment.inputs


def until(holds: Callable[[], bool]) -> None:
    """Wait until something is the case."""
    deadline = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < deadline
        threading.Event().wait(0.002)


class HeldGpu:
    """A GPU whose calls return when the test lets them."""

    def __init__(
        self,
        pool: ThreadPoolExecutor,
        *devices: FakeDevice,
        maximum_proofs: int = 64,
        permits: int = 8,
        waiting_limit: int = 64,
        memory: int | None = None,
    ) -> None:
        gpus = FakeGpus(*devices)
        self.metrics = gpus.metrics
        self.admission = Admission(permits, waiting_limit, gpus.metrics, memory)
        self.device = devices[0]
        self.gpu = gpus.make(maximum_proofs=maximum_proofs)
        self._pool = pool
        self._lock = threading.Lock()
        self.may_end = threading.Semaphore(0)
        self._requests = 0
        self._granted = 0
        self.device.on_launch = self._hold

    def _hold(self) -> None:
        assert self.may_end.acquire(timeout=60)

    def submit(
        self, key: LoadedKey, inputs: bytes = INPUTS, cancel: CancelFlag | None = None
    ) -> Future[UnverifiedProof]:
        """Request a proof; it is in a call, or waits, when this returns."""
        flag = cancel or CancelFlag()
        return self._submitted(lambda: self.prove(key, inputs, flag))

    def prove(self, key: LoadedKey, inputs: bytes, cancel: CancelFlag) -> UnverifiedProof:
        """Make a proof as a target of this GPU does, unverified."""
        with (
            self.gpu.lease(key, cancel, wait=True) as copy,
            self.admission.permit(KIND, cancel, self.gpu.launches.demand(copy, inputs)) as permit,
        ):
            with self._lock:
                self._granted += 1
            return self.gpu.launches.prove(permit)

    def submit_by(self, devices: Devices, key: LoadedKey) -> Future[Proof]:
        """Request a proof of devices to which this GPU belongs."""
        return self._submitted(lambda: prove_tiny(devices, key, self.admission))

    def _submitted(self, ask: Callable[[], Result]) -> Future[Result]:
        self._requests += 1
        asked = self._pool.submit(ask)
        until(lambda: asked.done() or sum(self.sizes()) + self.admission.waiting >= self._requests)
        return asked

    def occupy(self, key: LoadedKey) -> list[Future[UnverifiedProof]]:
        """Begin as many launches as there may be at once."""
        return [self.submit(key) for _ in range(LAUNCHES_AT_ONCE)]

    def end_one(self) -> None:
        """Let one call return, of those in progress or later ones; wait for the next call and its requests."""
        calls = len(self.device.launches)
        self.may_end.release()
        until(lambda: len(self.device.launches) > calls and self._granted >= sum(self.sizes()))

    def end_all(self) -> None:
        """Let all calls return, from now on."""
        self.may_end.release(1000)

    def sizes(self) -> list[int]:
        """Return how many proofs each call was to make."""
        return [len(launch.inputs) for launch in self.device.launches]


def batches(limit: int = 64, **sizes: int) -> FakeDevice:
    """Return a device with this maximum of proofs in one call."""
    return FakeDevice(batch_limit=limit, **sizes)


def proved(asked: list[Future[UnverifiedProof]], key: LoadedKey) -> list[int]:
    """Demand valid proofs; return for each how many were made in its call."""
    made = [one.result(120) for one in asked]
    for one in made:
        key.verifying_key.verify(one.proof.points, tiny_task().assignment.public_inputs)
    return [one.batch for one in made]
