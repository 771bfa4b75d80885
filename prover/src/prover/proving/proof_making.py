"""One proof with a given key, verified before anyone sees it."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

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


class UnverifiedProof(NamedTuple):
    """A proof that nobody has verified: the seconds that it waited, and how many proofs were made in the same call."""

    proof: KernelProof
    wait_s: float = 0.0
    batch: int = 1


Make = Callable[[bytes, CancelFlag], UnverifiedProof]
"""Makes a proof of input values."""


@dataclass
class Timings:
    """Seconds spent on one proof; ``stages`` but the witness are summed over threads.

    Of a proof made with others, ``batch`` in all, ``prove_s`` is the time of all, ``stages`` are its share.
    """

    key_s: float = 0.0
    wait_s: float = 0.0
    prove_s: float = 0.0
    verify_s: float = 0.0
    stages: dict[str, float] = field(default_factory=dict)
    batch: int = 1


@dataclass(frozen=True)
class Proof:
    """A verified proof: its points, its JSON body, and what it cost."""

    circuit: CircuitId
    points: bytes
    body: bytes
    timings: Timings
    device: str = PROCESSOR
    """What made it: ``cpu``, or ``cuda:0`` and the like."""


def device_facts(proof: Proof) -> dict[str, object]:
    """Say for the log what made a proof, and how many a GPU made in the same call."""
    return {"device": proof.device} | ({} if proof.device == PROCESSOR else {"batch": proof.timings.batch})


def prove_with_key(
    key: LoadedKey, task: ProofTask, cancel: CancelFlag, make: Make | None = None, device: str = PROCESSOR
) -> Proof:
    """Prove with a given key, by ``make`` on ``device`` or else on the processor, and verify under that key.

    Raises what ``make`` does, and SelfVerificationFailed.
    """
    started = time.perf_counter()
    try:
        made = (
            make(task.assignment.inputs, cancel) if make else UnverifiedProof(key.prove(task.assignment.inputs, cancel))
        )
    except WitnessRejected as error:
        if task.circuit.kind.is_batch:
            raise WitnessRejected(f"error proving: {error.detail}", constraint=error.constraint) from error
        raise
    proved = time.perf_counter()
    try:
        key.verifying_key.verify(made.proof.points, task.assignment.public_inputs)
    except ProofFailed as error:
        _log.critical("self_verification_failed", circuit=task.circuit.name, device=device, error=error.detail)
        raise SelfVerificationFailed from error
    verified = time.perf_counter()
    timings = Timings(
        wait_s=made.wait_s,
        prove_s=proved - started - made.wait_s,
        verify_s=verified - proved,
        stages=dict(made.proof.stage_seconds),
        batch=made.batch,
    )
    points = made.proof.points
    return Proof(task.circuit, points, encode_proof(to_json(points)), timings, device)
