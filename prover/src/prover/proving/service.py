"""From a task to a proof that has been verified: key, permit, kernel, self-verification."""

import time
from dataclasses import dataclass, field

from prover.errors import ProofFailed, SelfVerificationFailed, WitnessRejected
from prover.kernel.cancellation import CancelFlag
from prover.kernel.engine import LoadedKey
from prover.keys.store import KeyStore
from prover.observability.metrics import Metrics
from prover.proving.admission import Admission
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


class ProvingService:
    """Proves tasks with the keys of one store. ``prove`` blocks and may be called by several threads."""

    def __init__(self, keys: KeyStore, admission: Admission, metrics: Metrics) -> None:
        self._keys = keys
        self._admission = admission
        self._metrics = metrics

    def prove(self, task: ProofTask, cancel: CancelFlag) -> Proof:
        """Prove one task.

        Raises WitnessRejected, KeyUnavailable, TryAgainLater, Cancelled, or SelfVerificationFailed.
        """
        kind = task.circuit.kind
        started = time.perf_counter()
        key = self._keys.get(task.circuit, cancel)
        key_s = time.perf_counter() - started
        with self._admission.permit(kind, cancel) as waited_s, self._metrics.active_jobs.track_inprogress():
            proof = prove_with_key(key, task, cancel)
        timings = proof.timings
        timings.key_s, timings.wait_s = key_s, waited_s
        self._metrics.generation_seconds.labels(kind.value).observe(timings.prove_s + timings.verify_s)
        self._metrics.memory_bytes.labels(kind.value).observe(key.scratch_bytes)
        for stage, seconds in timings.stages.items():
            self._metrics.stage_seconds.labels(kind.value, stage).observe(seconds)
        return proof


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
