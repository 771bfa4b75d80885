"""The steps from a task to a verified proof: key, target, permit, proof."""

import enum
import time
from collections.abc import Callable

from prover.errors import WitnessRejected
from prover.kernel.cancellation import CancelFlag
from prover.keys.store.key_store import KeyStore
from prover.observability.metrics import Metrics
from prover.proving.admission import Admission
from prover.proving.devices import Devices
from prover.proving.prechecks.satisfiable import require_satisfiable
from prover.proving.proof_making import Proof
from prover.proving.request import ProofTask
from shared.requests.circuit_id import CircuitId


class Phase(enum.Enum):
    """Progress of a proof."""

    CHECKING = enum.auto()
    LOADING = enum.auto()
    WAITING = enum.auto()
    PROVING = enum.auto()


OnPhase = Callable[[Phase], None]
"""Function that is called when a phase begins."""


def _ignore_phase(_: Phase) -> None:
    """Ignore the phases."""


class ProvingService:
    """Proves tasks with the keys of one store. ``prove`` blocks and may be called by several threads."""

    def __init__(self, keys: KeyStore, admission: Admission, metrics: Metrics, devices: Devices | None = None) -> None:
        """Prove on ``devices``, which the caller closes, by default on the CPU."""
        self._keys = keys
        self._admission = admission
        self._metrics = metrics
        self._devices = devices or Devices(metrics)
        self._peak_bytes: dict[str, int] = {}

    def is_ready(self, circuit: CircuitId) -> bool:
        """Return whether a proof would not wait for its key: it is in memory, and on the device that needs a copy."""
        key = self._keys.loaded(circuit)
        return key is not None and self._devices.is_ready(key)

    def prove(self, task: ProofTask, cancel: CancelFlag, on_phase: OnPhase = _ignore_phase) -> Proof:
        """Return a verified proof of a task; ``on_phase`` is called when a phase begins.

        A request that has to wait for its key or a permit is checked first. Otherwise the witness solver decides, and
        the checks only name the member that it refused.
        Raises WitnessRejected, KeyUnavailable, TryAgainLater, Cancelled, or SelfVerificationFailed.
        """
        if not (self.is_ready(task.circuit) and self._admission.has_free_permit):
            require_satisfiable(task)
        on_phase(Phase.LOADING)
        try:
            return self._prove_when_permitted(task, cancel, on_phase)
        except WitnessRejected:
            require_satisfiable(task)
            raise

    def _prove_when_permitted(self, task: ProofTask, cancel: CancelFlag, on_phase: OnPhase) -> Proof:
        started = time.perf_counter()
        with self._keys.lease(task.circuit, cancel) as key, self._devices.target(key, cancel) as target:
            key_s = time.perf_counter() - started
            on_phase(Phase.WAITING)
            with self._admission.permit(task.circuit.kind, cancel, target.demand(task)) as permit:
                on_phase(Phase.PROVING)
                proof = target.prove(permit, task)
                memory_bytes = permit.demand.memory_of(1)
        proof.timings.key_s, proof.timings.wait_s = key_s, permit.wait_s
        self._count(proof, memory_bytes)
        return proof

    def _count(self, proof: Proof, memory_bytes: int) -> None:
        kind, timings = proof.circuit.kind.value, proof.timings
        self._metrics.device_proofs.labels(proof.device).inc()
        self._metrics.generation_seconds.labels(kind).observe(timings.prove_s + timings.verify_s)
        self._metrics.memory_bytes.labels(kind).observe(memory_bytes)
        peak = self._peak_bytes[kind] = max(memory_bytes, self._peak_bytes.get(kind, 0))
        self._metrics.peak_memory_bytes.labels(kind).set(peak)
        for stage, seconds in timings.stages.items():
            self._metrics.stage_seconds.labels(kind, stage).observe(seconds)
