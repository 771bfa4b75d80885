"""One proof with a given key, verified before anyone sees it."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from prover.errors import ProofFailed, SelfVerificationFailed, WitnessRejected
from prover.kernel.cancellation import CancelFlag
from prover.kernel.engine import KernelProof, LoadedKey
from prover.observability.metrics import PROCESSOR
from prover.proving.proof_encoding import to_json
from prover.proving.request import ProofTask
from shared.circuit_id import CircuitId
from shared.logs import get_logger
from shared.proof_wire import encode_proof

_log = get_logger(__name__)

Make = Callable[[bytes, CancelFlag], KernelProof]
"""Makes a proof of input values that nobody has verified: LoadedKey.prove or DeviceKey.prove."""


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
    device: str = PROCESSOR
    """What made it: ``cpu``, or ``cuda:0`` and the like."""


def prove_with_key(
    key: LoadedKey, task: ProofTask, cancel: CancelFlag, make: Make | None = None, device: str = PROCESSOR
) -> Proof:
    """Prove with a given key, by ``make`` on ``device`` or else on the processor, and verify under that key.

    Raises what ``make`` does, and SelfVerificationFailed.
    """
    started = time.perf_counter()
    try:
        result = (make or key.prove)(task.assignment.inputs, cancel)
    except WitnessRejected as error:
        if task.circuit.kind.is_batch:
            raise WitnessRejected(f"error proving: {error.detail}", constraint=error.constraint) from error
        raise
    proved = time.perf_counter()
    try:
        key.verifying_key.verify(result.points, task.assignment.public_inputs)
    except ProofFailed as error:
        _log.critical("self_verification_failed", circuit=task.circuit.name, device=device, error=error.detail)
        raise SelfVerificationFailed from error
    verified = time.perf_counter()
    timings = Timings(prove_s=proved - started, verify_s=verified - proved, stages=dict(result.stage_seconds))
    return Proof(task.circuit, result.points, encode_proof(to_json(result.points)), timings, device)
