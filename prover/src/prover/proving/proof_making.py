"""Proofs with a given key, verified before they are returned."""

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
    """A proof before its verification, the seconds that it waited, and the number of proofs of the same call."""

    proof: KernelProof
    wait_s: float = 0.0
    batch: int = 1


MakeProof = Callable[[bytes, CancelFlag], UnverifiedProof]
"""Function that makes a proof of input values."""


@dataclass
class Timings:
    """Seconds spent on one proof; ``stages`` but the witness are summed over threads.

    For ``batch`` proofs of one call, ``prove_s`` is the time of the call and ``stages`` are an equal share.
    """

    key_s: float = 0.0
    wait_s: float = 0.0
    prove_s: float = 0.0
    verify_s: float = 0.0
    stages: dict[str, float] = field(default_factory=dict)
    batch: int = 1


@dataclass(frozen=True)
class Proof:
    """A verified proof: its points, its JSON body and its timings."""

    circuit: CircuitId
    points: bytes
    body: bytes
    timings: Timings
    device: str = PROCESSOR
    """Device that made it: ``cpu``, or for example ``cuda:0``."""


def device_facts(proof: Proof) -> dict[str, object]:
    """Return log fields: the device of a proof and, for a GPU, the number of proofs of the same call."""
    return {"device": proof.device} | ({} if proof.device == PROCESSOR else {"batch": proof.timings.batch})


def prove_with_key(
    key: LoadedKey, task: ProofTask, cancel: CancelFlag, make_proof: MakeProof | None = None, device: str = PROCESSOR
) -> Proof:
    """Return a proof made by ``make_proof`` on ``device``, by default on the CPU, and verified under the same key.

    Raises what ``make_proof`` raises, and SelfVerificationFailed.
    """
    started = time.perf_counter()
    try:
        unverified = (
            make_proof(task.assignment.inputs, cancel)
            if make_proof
            else UnverifiedProof(key.prove(task.assignment.inputs, cancel))
        )
    except WitnessRejected as error:
        if task.circuit.kind.is_batch:
            raise WitnessRejected(f"error proving: {error.detail}", constraint=error.constraint) from error
        raise
    proved = time.perf_counter()
    try:
        key.verifying_key.verify(unverified.proof.points, task.assignment.public_inputs)
    except ProofFailed as error:
        _log.critical("self_verification_failed", circuit=task.circuit.name, device=device, error=error.detail)
        raise SelfVerificationFailed from error
    verified = time.perf_counter()
    timings = Timings(
        wait_s=unverified.wait_s,
        prove_s=proved - started - unverified.wait_s,
        verify_s=verified - proved,
        stages=dict(unverified.proof.stage_seconds),
        batch=unverified.batch,
    )
    points = unverified.proof.points
    return Proof(task.circuit, points, encode_proof(to_json(points)), timings, device)
