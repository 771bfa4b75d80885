"""Launches of one GPU: an idle GPU starts a proof at once, and a busy one collects proofs for its next launch.

The next launch takes the oldest waiting proof and all others of the same key, up to the maximum of one call. So no key
starves, and no proof is delayed to fill a launch. Keys of which one proof fills the GPU are not collected: permits
bound their proofs. If GPU memory is short, the library splits the proofs of a call into smaller parts.
"""

import threading
import time
from functools import partial
from itertools import islice

from prover.errors import Cancelled
from prover.kernel.cancellation import CancelFlag
from prover.kernel.device import DeviceKey
from prover.kernel.engine import KernelProof
from prover.observability.metrics import Metrics
from prover.proving.admission import AdmissionRequest
from prover.proving.gpu.driver_calls import GpuCalls
from prover.proving.proof_making import UnverifiedProof

LAUNCHES_AT_ONCE = 2
"""Concurrent launches of several proofs: the CPU solves witnesses for one while the GPU computes the other."""


class _PendingProof:
    """A proof that a request waits for. The lock of its Launches protects it."""

    def __init__(self, key: DeviceKey, inputs: bytes, admission_request: AdmissionRequest, maximum: int) -> None:
        self.key = key
        self.inputs = inputs
        self.admission_request = admission_request
        self.maximum = maximum
        """Maximum proofs of a call that makes this one."""
        self.requested_at = time.perf_counter()
        self.wait_s = 0.0
        self.launch: _Launch | None = None
        self.ended = threading.Event()
        self._outcome: UnverifiedProof | BaseException = Cancelled()

    def fits_launch_of(self, other: "_PendingProof") -> bool:
        """Return True if one call can make both proofs."""
        return self.key is other.key and len(self.inputs) == len(other.inputs)

    def end(self, outcome: UnverifiedProof | BaseException) -> None:
        """Set the outcome and wake the waiting thread. Only the first outcome counts."""
        if not self.ended.is_set():
            self._outcome = outcome
            self.ended.set()

    def result(self) -> UnverifiedProof:
        """Return the proof, or raise the error of it."""
        if isinstance(self._outcome, BaseException):
            raise self._outcome
        return self._outcome


class _Launch:
    """Proofs of one call. Its flag is raised when all of their requests are cancelled."""

    def __init__(self, proofs: list[_PendingProof], *, has_waited: bool) -> None:
        self.proofs = proofs
        self.has_waited = has_waited
        """True if its proofs were counted by ``begin_waiting``."""
        self.is_counted = proofs[0].maximum > 1
        """True if it counts towards LAUNCHES_AT_ONCE."""
        self.wanted = set(proofs)
        self.is_begun = False
        self.cancel = CancelFlag()


class Launches:
    """Launches of one GPU. ``prove`` blocks and may be called by several threads."""

    def __init__(self, name: str, calls: GpuCalls, metrics: Metrics, maximum: int) -> None:
        """Make at most ``maximum`` proofs in one call."""
        self.launch_capacity = maximum * LAUNCHES_AT_ONCE if maximum > 1 else 0
        """Maximum requests in launches of several proofs, not counting those that wait."""
        self._name = name
        self._calls = calls
        self._metrics = metrics
        self._maximum = maximum
        self._lock = threading.Lock()
        self._running = 0
        self._waiting: list[_PendingProof] = []

    def prove(
        self, key: DeviceKey, inputs: bytes, cancel: CancelFlag, admission_request: AdmissionRequest
    ) -> UnverifiedProof:
        """Return an unverified proof, made alone or with others.

        A raised flag ends the wait for a launch. A launch that has begun continues for its other requests, and the
        call returns only after it, since the launch uses the key. Raises what DeviceKey.prove and Admission.permit do.
        """
        proof = _PendingProof(key, inputs, admission_request, self._launch_size(key, admission_request))
        with cancel.watch(partial(self._leave, proof)):
            launch = self._enter(proof, cancel)
            if launch is not None:
                self._run(launch)
            proof.ended.wait()
        return proof.result()

    # ---- composition of launches -----------------------------------------------------------------

    def _launch_size(self, key: DeviceKey, admission_request: AdmissionRequest) -> int:
        """Return the maximum proofs of a key in one call, whose working memory must also fit the budget."""
        maximum = min(self._maximum, key.batch_limit)
        while maximum > 1 and not admission_request.admission.can_lend(key.scratch_bytes_of(maximum)):
            maximum //= 2
        return maximum

    def _enter(self, proof: _PendingProof, cancel: CancelFlag) -> _Launch | None:
        """Return the launch that the caller must run; None if another thread will run it."""
        with self._lock:
            cancel.check()
            if proof.maximum == 1 or self._running < LAUNCHES_AT_ONCE:
                return self._launch([proof], has_waited=False)
            proof.admission_request.admission.begin_waiting(proof.admission_request.kind)
            self._waiting.append(proof)
            return None

    def _leave(self, proof: _PendingProof) -> None:
        """Remove a proof whose flag was raised."""
        with self._lock:
            launch = proof.launch
            if launch is None:
                if proof in self._waiting:
                    self._stop_waiting([proof])
                    proof.end(Cancelled())
                return
            launch.wanted.discard(proof)
            if not launch.is_begun:
                proof.end(Cancelled())
            is_wanted = bool(launch.wanted)
        if not is_wanted:
            launch.cancel.raise_flag()

    def _launch(self, proofs: list[_PendingProof], *, has_waited: bool) -> _Launch:
        """Return a new launch. The caller holds the lock."""
        launch = _Launch(proofs, has_waited=has_waited)
        for proof in proofs:
            proof.launch = launch
        self._running += launch.is_counted
        return launch

    def _gather(self) -> list[_Launch]:
        """Return the launches that may begin now. The caller holds the lock."""
        launches = []
        while self._waiting and self._running < LAUNCHES_AT_ONCE:
            first = self._waiting[0]
            proofs = list(islice(filter(first.fits_launch_of, self._waiting), first.maximum))
            self._stop_waiting(proofs)
            launches.append(self._launch(proofs, has_waited=True))
        return launches

    def _stop_waiting(self, proofs: list[_PendingProof]) -> None:
        """Remove proofs from the waiting ones. The caller holds the lock."""
        self._waiting = [proof for proof in self._waiting if proof not in proofs]
        for proof in proofs:
            proof.admission_request.admission.end_waiting(proof.admission_request.kind)

    # ---- a launch --------------------------------------------------------------------------------

    def _run(self, launch: _Launch) -> None:
        """Make the proofs of a launch, then begin the launches that may run after it."""
        try:
            self._prove(launch)
        except BaseException as error:  # noqa: BLE001 - passed to all proofs of the launch
            with self._lock:
                for proof in launch.proofs:
                    proof.end(error)
        with self._lock:
            self._running -= launch.is_counted
            launches = self._gather()
        for following in launches:
            try:
                threading.Thread(target=self._run, args=(following,), name=f"{self._name} launch", daemon=True).start()
            except RuntimeError:  # the system can start no thread
                self._run(following)

    def _prove(self, launch: _Launch) -> None:
        key, admission_request = launch.proofs[0].key, launch.proofs[0].admission_request
        need_bytes = key.scratch_bytes_of(len(launch.proofs))
        since = [proof.requested_at for proof in launch.proofs] if launch.has_waited else []
        with admission_request.admission.permit(admission_request.kind, launch.cancel, need_bytes, since):
            proofs = self._begin(launch)
            if proofs:
                self._call(key, proofs, launch.cancel)

    def _begin(self, launch: _Launch) -> list[_PendingProof]:
        """Mark the launch as begun and return its proofs that are not cancelled."""
        now = time.perf_counter()
        with self._lock:
            launch.is_begun = True
            proofs = [proof for proof in launch.proofs if not proof.ended.is_set()]
        for proof in proofs:
            proof.wait_s = now - proof.requested_at
            proof.admission_request.begin()
        return proofs

    def _call(self, key: DeviceKey, proofs: list[_PendingProof], cancel: CancelFlag) -> None:
        """Make proofs in one call."""
        with self._calls.proof(cancel):
            outcomes = key.prove_many([proof.inputs for proof in proofs], cancel)
        self._metrics.device_launch_proofs.labels(self._name).observe(len(proofs))
        with self._lock:
            for proof, outcome in zip(proofs, outcomes, strict=True):
                proof.end(
                    UnverifiedProof(outcome, proof.wait_s, len(proofs)) if isinstance(outcome, KernelProof) else outcome
                )
