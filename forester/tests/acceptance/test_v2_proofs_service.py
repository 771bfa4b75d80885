"""The V2 pipeline up to durable proofs with `prover start`, its queue and batch keys of size 10 (a minute or two)."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

import pytest
import redis_server
import reference_batch_keys
import reference_fixtures
from service_process import Service, running_service
from skipping import skip_or_fail
from v2_flow import FINAL_ROOT, TREE, head, run_pipeline

from forester.journal.database import Journal
from forester.journal.proofs import ProofStore
from forester.pipeline_v2.proof_ledger import longest_chain

_T = TypeVar("_T")


def obtain(fetch: Callable[[], _T]) -> _T:
    """Return the result of `fetch`; skip the test, or fail if the reference is required."""
    try:
        if missing := redis_server.missing():
            raise reference_fixtures.ReferenceUnavailable(missing)
        return fetch()
    except reference_fixtures.ReferenceUnavailable as error:
        skip_or_fail(str(error))


@pytest.fixture(scope="module")
def prover(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """A prover with a queue and the keys of batches of ten."""
    keys = obtain(reference_batch_keys.batch_keys_dir)
    folder = tmp_path_factory.mktemp("prover")
    with redis_server.running_redis(folder) as redis:
        addresses = ("--prover-address", "127.0.0.1:0", "--metrics-address", "127.0.0.1:0")
        words = ("--keys-dir", str(keys), *addresses, "--redis-url", redis.url)
        with running_service(folder / "log", *words) as service:
            yield service


@pytest.mark.reference_batch_keys
async def test_pipeline__recorded_queues_and_a_real_prover__become_durable_proofs_that_chain(
    prover: Service, tmp_path: Path
) -> None:
    async with await Journal.open(tmp_path / "journal") as journal:
        finished, failure = await run_pipeline(f"http://127.0.0.1:{prover.api_port}", ProofStore(journal))
        assert failure is None
        assert [proof.duration_ms > 0 for proof in finished] == [True, True]
        proofs = await ProofStore(journal).of_tree(TREE)
    chain = longest_chain(proofs, head().root, head().sequence)
    assert [proof.circuit for proof in chain] == ["append", "update"]
    assert chain[-1].new_root == FINAL_ROOT
    assert all(len(proof.proof) == 128 for proof in chain)
