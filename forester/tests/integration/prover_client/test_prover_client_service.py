"""The prover client against `prover start` on a published key."""

from collections.abc import Iterator

import aiohttp
import pytest
import reference_fixtures
from service_process import Service, running_service
from skipping import skip_or_fail

from forester.prover_client.client import ProverClient, ProverTimes
from forester.prover_client.endpoints import ProverEndpoints
from forester.prover_client.failures import ProverRefused
from shared.requests.circuit_id import CircuitKind
from shared.requests.proof_wire import BatchAppendRequest, InclusionRequest
from shared.requests.witness_inputs import inclusion_request, membership
from shared.trees.field import ZERO, format_number
from shared.trees.merkle_tree import MerkleTree

KEY = "a-key-of-this-test"


@pytest.fixture(scope="module")
def prover(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """A prover with the published keys that wants an API key."""
    try:
        keys = reference_fixtures.proving_keys_dir()
    except reference_fixtures.ReferenceUnavailable as error:
        skip_or_fail(str(error))
    addresses = ("--prover-address", "127.0.0.1:0", "--metrics-address", "127.0.0.1:0")
    log = tmp_path_factory.mktemp("prover") / "log"
    with running_service(log, "--keys-dir", str(keys), *addresses, PROVER_API_KEY=KEY) as service:
        yield service


def request() -> InclusionRequest:
    tree = MerkleTree(32)
    tree.set_many({5: b"\x07".rjust(32, b"\0")})
    return inclusion_request([membership(tree, 5)], version=2)


async def test_prove__real_service__gives_a_proof_that_compresses(prover: Service) -> None:
    async with aiohttp.ClientSession() as session:
        endpoints = ProverEndpoints(dict.fromkeys(CircuitKind, f"http://127.0.0.1:{prover.api_port}"))
        finished = await ProverClient(session, endpoints, api_key=KEY).prove(request(), tree_id="tree", batch_index=0)
        assert len(finished.proof.data) == 128
        again = await ProverClient(session, endpoints, api_key=KEY).prove(request(), tree_id="tree", batch_index=0)
        assert again.proof == finished.proof, "the Idempotency-Key finds the proof that was made"


async def test_prove__real_service__refuses_with_its_codes(prover: Service) -> None:
    async with aiohttp.ClientSession() as session:
        endpoints = ProverEndpoints(dict.fromkeys(CircuitKind, f"http://127.0.0.1:{prover.api_port}"))
        times = ProverTimes(max_wait_s=60)
        with pytest.raises(ProverRefused) as raised:
            await ProverClient(session, endpoints, api_key="wrong", times=times).prove(request())
        assert (raised.value.status, raised.value.code, raised.value.retryable) == (401, "unauthorized", False)
        client = ProverClient(session, endpoints, api_key=KEY, times=times)
        with pytest.raises(ProverRefused) as raised:
            await client.prove(BatchAppendRequest(height=32, batch_size=10, public_input_hash=format_number(ZERO)))
        assert (raised.value.status, raised.value.retryable) == (400, False)
