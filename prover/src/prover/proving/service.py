"""From a task to a proof that has been verified: key, permit, kernel, self-verification."""

import enum
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from prover.errors import DeviceUnavailable, ProofFailed, SelfVerificationFailed, WitnessRejected
from prover.kernel.cancellation import CancelFlag
from prover.kernel.engine import LoadedKey
from prover.keys.store import KeyStore
from prover.observability.metrics import Metrics
from prover.proving.admission import Admission
from prover.proving.device_health import DeviceHealth
from prover.proving.prechecks.satisfiable import require_satisfiable
from prover.proving.proof_encoding import to_json
from prover.proving.request import ProofTask
from shared.circuit_id import CircuitId
from shared.logs import get_logger
from shared.proof_wire import encode_proof

_log = get_logger(__name__)


@dataclass
class Timings:
    """Seconds spent on one proof; ``stages`` are processor seconds summed over threads."""

    key_s: float = 0.0
    wait_s: float = 0.0
    prove_s: float = 0.0
    verify_s: float = 0.0
    stages: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Proof:
    """A verified proof: its points, its JSON body, and what it cost."""

    circuit: CircuitId
    points: bytes
    body: bytes
    timings: Timings


class Phase(enum.Enum):
    """How far a proof is."""

    CHECKING = enum.auto()
    LOADING = enum.auto()
    WAITING = enum.auto()
    PROVING = enum.auto()


OnPhase = Callable[[Phase], None]


def _unwatched(_: Phase) -> None:
    """Ignore the phases."""


class ProvingService:
    """Proves tasks with the keys of one store. ``prove`` blocks and may be called by several threads."""

    def __init__(self, keys: KeyStore, admission: Admission, metrics: Metrics, health: DeviceHealth) -> None:
        self._keys = keys
        self._admission = admission
        self._metrics = metrics
        self._health = health
        self._peak_bytes: dict[str, int] = {}

    def prove(self, task: ProofTask, cancel: CancelFlag, on_phase: OnPhase = _unwatched) -> Proof:
        """Prove one task; ``on_phase`` is told when a phase begins.

        Raises WitnessRejected, KeyUnavailable, TryAgainLater, Cancelled, or SelfVerificationFailed.
        """
        kind = task.circuit.kind
        require_satisfiable(task, self._keys.find)
        on_phase(Phase.LOADING)
        started = time.perf_counter()
        with self._keys.lease(task.circuit, cancel) as key:
            key_s = time.perf_counter() - started
            on_phase(Phase.WAITING)
            need_bytes = key.scratch_bytes
            with self._admission.permit(kind, cancel, need_bytes) as waited_s:
                on_phase(Phase.PROVING)
                with self._metrics.active_jobs.track_inprogress():
                    proof = self._prove_watched(key, task, cancel)
        proof.timings.key_s, proof.timings.wait_s = key_s, waited_s
        self._account(kind.value, need_bytes, proof.timings)
        return proof

    def _prove_watched(self, key: LoadedKey, task: ProofTask, cancel: CancelFlag) -> Proof:
        try:
            proof = prove_with_key(key, task, cancel)
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


def prove_with_key(key: LoadedKey, task: ProofTask, cancel: CancelFlag) -> Proof:
    """Prove with a given key and verify the proof under that key before anyone sees it."""
    started = time.perf_counter()
    try:
        result = key.prove(task.assignment.inputs, cancel)
    except WitnessRejected as error:
        if task.circuit.kind.is_batch:
            raise WitnessRejected(f"error proving: {error.detail}", constraint=error.constraint) from error
        raise
    proved = time.perf_counter()
    try:
        key.verifying_key.verify(result.points, task.assignment.public_inputs)
    except ProofFailed as error:
        _log.critical("self_verification_failed", circuit=task.circuit.name, error=error.detail)
        raise SelfVerificationFailed from error
    verified = time.perf_counter()
    timings = Timings(prove_s=proved - started, verify_s=verified - proved, stages=dict(result.stage_seconds))
    return Proof(task.circuit, result.points, encode_proof(to_json(result.points)), timings)
