"""A proof about random trees, which tests a key."""

from prover.cli.random_requests import RandomRequests
from prover.kernel.cancellation import CancelFlag
from prover.kernel.engine import LoadedKey
from prover.proving.proof_making import prove_with_key
from prover.proving.request import read_envelope, read_task
from shared.circuit_id import CircuitId
from shared.proof_wire import encode_request

_SEED = "key verification"


def make_trial_proof(key: LoadedKey, circuit: CircuitId, cancel: CancelFlag) -> None:
    """Prove a valid request and verify the proof under the same key; raises ProverError."""
    body = encode_request(RandomRequests(_SEED).make(circuit))
    prove_with_key(key, read_task(read_envelope(body), known=None), cancel)
