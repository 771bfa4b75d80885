"""The steps from a task to a verified proof: key, device, permit, kernel, self-verification."""

import enum
import time
from collections.abc import Callable
from functools import partial

from prover.errors import DeviceUnavailable, SelfVerificationFailed
from prover.kernel.cancellation import CancelFlag
from prover.keys.store.key_store import KeyStore
from prover.observability.metrics import Metrics
from prover.proving.admission import Admission, AdmissionRequest
from prover.proving.device_health import DeviceHealth
from prover.proving.devices import Devices, ProofTarget
from prover.proving.prechecks.satisfiable import require_satisfiable
from prover.proving.proof_making import Proof, Timings
from prover.proving.request import ProofTask


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

    def __init__(
        self,
        keys: KeyStore,
        admission: Admission,
        metrics: Metrics,
        health: DeviceHealth,
        devices: Devices | None = None,
    ) -> None:
        """Prove on ``devices``, which the caller closes, by default on the CPU."""
        self._keys = keys
        self._admission = admission
        self._metrics = metrics
        self._health = health
        self._devices = devices or Devices.cpu(metrics)
        self._peak_bytes: dict[str, int] = {}

    def prove(self, task: ProofTask, cancel: CancelFlag, on_phase: OnPhase = _ignore_phase) -> Proof:
        """Return a verified proof of a task; ``on_phase`` is called when a phase begins.

        Raises WitnessRejected, KeyUnavailable, TryAgainLater, Cancelled, or SelfVerificationFailed. A GPU that fails
        counts as TryAgainLater, unless the CPU is the fallback.
        """
        kind = task.circuit.kind
        require_satisfiable(task)
        on_phase(Phase.LOADING)
        started = time.perf_counter()
        with self._keys.lease(task.circuit, cancel) as key, self._devices.target(key, cancel) as target:
            key_s = time.perf_counter() - started
            on_phase(Phase.WAITING)
            need_bytes = target.scratch_bytes
            admission_request = AdmissionRequest(self._admission, kind, partial(on_phase, Phase.PROVING))
            proof = self._prove_and_note_health(target, task, cancel, admission_request)
        proof.timings.key_s = key_s
        self._account(kind.value, need_bytes, proof.timings)
        return proof

    def _prove_and_note_health(
        self, target: ProofTarget, task: ProofTask, cancel: CancelFlag, admission_request: AdmissionRequest
    ) -> Proof:
        try:
            proof = target.prove(task, cancel, admission_request)
        except (SelfVerificationFailed, DeviceUnavailable) as error:
            self._health.note_failure(error.detail)
            raise
        self._health.note_success()
        return proof

    def _account(self, kind: str, need_bytes: int, timings: Timings) -> None:
        self._metrics.generation_seconds.labels(kind).observe(timings.prove_s + timings.verify_s)
        self._metrics.memory_bytes.labels(kind).observe(need_bytes)
        peak = self._peak_bytes[kind] = max(need_bytes, self._peak_bytes.get(kind, 0))
        self._metrics.peak_memory_bytes.labels(kind).set(peak)
        for stage, seconds in timings.stages.items():
            self._metrics.stage_seconds.labels(kind, stage).observe(seconds)
