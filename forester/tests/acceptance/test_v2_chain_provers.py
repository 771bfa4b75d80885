"""Queues of V2 trees emptied with proofs of the reference's prover and of ours, under keys of its own setup.

The programs of localnet carry those verifying keys: a batch that lands had a proof that holds for the roots, the hash
chain and the start index that the program computed, in the 128 bytes that it reads.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import reference_batch_keys
import reference_fixtures
from localnet_pipeline import ADDRESS_TREE, STATE_TREE, Forestry, failures, forestry
from localnet_process import running_localnet
from reference_prover import earlier_names, running_reference
from service_process import running_service
from skipping import skip_or_fail
from solders.pubkey import Pubkey

CIRCUITS = {
    "append-with-proofs_32_10": "append-with-proofs-test",
    "update_32_10": "update-test",
    "address-append_40_10": "address-append-test",
}
"""Stems of the key files, and what the reference calls the circuits when it is to load them."""

USERS_KEY = "non-inclusion_40_1.key"
"""What users need to have addresses queued."""

SEED = {"compress": 10, "spend": 10, "addresses": 10}


@contextlib.contextmanager
def our_prover(keys: Path, log: Path) -> Iterator[str]:
    """`prover start` over a folder of keys; gives its URL."""
    ports = ("--prover-address", "127.0.0.1:0", "--metrics-address", "127.0.0.1:0")
    with running_service(log, "--keys-dir", str(keys), *ports) as service:
        yield f"http://127.0.0.1:{service.api_port}"


@contextlib.asynccontextmanager
async def prover(name: str, keys: Path, folder: Path) -> AsyncIterator[str]:
    """One of the two over a folder of keys; gives its URL."""
    with contextlib.ExitStack() as stack:
        if name == "ours":
            yield await asyncio.to_thread(stack.enter_context, our_prover(keys, folder / "prover.log"))
            return
        circuits = CIRCUITS.values()
        reference = running_reference(reference_fixtures.prover_binary(), keys, folder / "prover.log", *circuits)
        async with earlier_names(await asyncio.to_thread(stack.enter_context, reference)) as url:
            yield url


@pytest.fixture(scope="module")
def batch_keys(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The keys of the three circuits, and the users'; skips, or fails where the reference is required."""
    try:
        source = reference_batch_keys.batch_keys_dir()
    except reference_fixtures.ReferenceUnavailable as error:
        skip_or_fail(str(error))
    folder = tmp_path_factory.mktemp("keys")
    for path in (source / f"{stem}{suffix}" for stem in CIRCUITS for suffix in (".key", ".vkey")):
        (folder / path.name).symlink_to(path)
    (folder / USERS_KEY).symlink_to(reference_fixtures.proving_keys_dir() / USERS_KEY)
    return folder


@pytest.mark.reference_batch_keys
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("name", ["reference", "ours"])
async def test_pipeline__proofs_of_a_prover_under_its_keys__move_the_trees_on_chain(
    name: str, batch_keys: Path, tmp_path: Path
) -> None:
    proved: Counter[str] = Counter()
    users = tmp_path / "users"
    users.mkdir()
    (users / USERS_KEY).symlink_to(batch_keys / USERS_KEY)
    with our_prover(users, tmp_path / "users.log") as users_prover, contextlib.ExitStack() as stack:
        net = stack.enter_context(running_localnet("--keys-dir", str(batch_keys), "--prover-url", users_prover))
        await asyncio.to_thread(net.call, "localnet_seed", SEED)
        async with prover(name, batch_keys, tmp_path) as url, forestry(net, tmp_path, proved, url) as work:
            await work.kit.register()
            batches = await emptied(work, STATE_TREE)
            assert batches >= 2, "an append and a nullification at least"
            batches += await emptied(work, ADDRESS_TREE)
    assert proved.total() == batches
    assert set(proved.values()) == {1}, "no proof is computed twice"


async def emptied(work: Forestry, tree: Pubkey) -> int:
    """Work until the queues of a tree are empty; the number of batches."""
    before = await work.head(tree)
    batches = len(before.append_chains) + len(before.input_chains)
    assert len(before.input_chains) == 1
    processor = await work.processor(tree)
    rounds = await work.drain(processor, within_s=1200)
    await processor.close(0.0)
    assert failures(rounds) == []
    assert sum(done.elements for done in rounds) == 10 * batches
    after = await work.head(tree)
    assert (after.append_chains, after.input_chains) == ((), ())
    assert after.sequence == before.sequence + batches
    assert after.root != before.root
    return batches
