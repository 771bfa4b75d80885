"""A proof about random trees, which tests a key."""

from prover.cli.random_requests import RandomRequests
from prover.kernel.cancellation import CancelFlag
from prover.kernel.engine import LoadedKey
from prover.proving.proof_making import prove_with_key
from prover.proving.request import ProofTask, read_envelope, read_task
from shared.requests.circuit_id import CircuitId
from shared.requests.proof_wire import encode_request

_SEED = "key verification"


def make_trial_proof(key: LoadedKey, circuit: CircuitId, cancel: CancelFlag) -> None:
    """Prove a valid request and verify the proof under the same key; raises ProverError."""
    prove_with_key(key, trial_task(circuit), cancel)


def trial_task(circuit: CircuitId) -> ProofTask:
    """Return a valid request of a circuit, the same in every call."""
    return read_task(read_envelope(encode_request(RandomRequests(_SEED).make(circuit))), known=None)
