"""Proofs with a given key, verified before they are returned."""

import time
from collections.abc import Callable
from typing import NamedTuple

from msgspec import Struct, field

from prover.errors import ProofFailed, SelfVerificationFailed, WitnessRejected
from prover.kernel.cancellation import CancelFlag
from prover.kernel.engine import KernelProof, LoadedKey
from prover.observability.metrics import CPU
from prover.proving.proof_encoding import to_json
from prover.proving.request import ProofTask
from shared.process.logs import get_logger
from shared.requests.circuit_id import CircuitId
from shared.requests.proof_wire import encode_proof

_log = get_logger(__name__)


class UnverifiedProof(NamedTuple):
    """A proof before its verification, and the number of proofs of the same call."""

    proof: KernelProof
    batch: int = 1


class Timings(Struct):
    """Seconds spent on one proof; ``stages`` but the witness are summed over threads.

    For ``batch`` proofs of one call, ``prove_s`` is the time of the call and ``stages`` are an equal share.
    """

    key_s: float = 0.0
    wait_s: float = 0.0
    prove_s: float = 0.0
    verify_s: float = 0.0
    stages: dict[str, float] = field(default_factory=dict)
    batch: int = 1


class Proof(Struct, frozen=True):
    """A verified proof: its points, its JSON body and its timings."""

    circuit: CircuitId
    points: bytes
    body: bytes
    timings: Timings
    device: str = CPU
    """Device that made it: ``cpu``, or for example ``cuda:0``."""


def device_facts(proof: Proof) -> dict[str, object]:
    """Return log fields: the device of a proof and, unless it is the CPU, the number of proofs of the same call."""
    return {"device": proof.device} | ({} if proof.device == CPU else {"batch": proof.timings.batch})


def prove_with_key(key: LoadedKey, task: ProofTask, cancel: CancelFlag) -> Proof:
    """Return a proof that the CPU made with a key, verified. Raises what LoadedKey.prove and ``verified`` do."""
    return verified(key, task, CPU, lambda: UnverifiedProof(key.prove(task.assignment.inputs, cancel)))


def verified(key: LoadedKey, task: ProofTask, device: str, make_proof: Callable[[], UnverifiedProof]) -> Proof:
    """Return the proof that ``make_proof`` makes on a device, verified under a key.

    Raises what ``make_proof`` raises, and SelfVerificationFailed.
    """
    started = time.perf_counter()
    try:
        unverified = make_proof()
    except WitnessRejected as error:
        if task.circuit.kind.is_batch:
            raise WitnessRejected(f"error proving: {error.detail}", constraint=error.constraint) from error
        raise
    made = time.perf_counter()
    points = unverified.proof.points
    try:
        key.verifying_key.verify(points, task.assignment.public_inputs)
    except ProofFailed as error:
        _log.critical("self_verification_failed", circuit=task.circuit.name, device=device, error=error.detail)
        raise SelfVerificationFailed from error
    timings = Timings(
        prove_s=made - started,
        verify_s=time.perf_counter() - made,
        stages=dict(unverified.proof.stage_seconds),
        batch=unverified.batch,
    )
    return Proof(task.circuit, points, encode_proof(to_json(points)), timings, device)
