"""Queues of a V2 state tree emptied with proofs of the reference's prover and of ours, under keys of its own setup.

The programs of localnet carry those verifying keys: a batch that lands had a proof that holds for the roots, the hash
chain and the start index that the program computed, in the 128 bytes that it reads.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import reference_batch_keys
import reference_fixtures
from localnet_pipeline import STATE_TREE, failures, forestry
from localnet_process import running_localnet
from reference_prover import earlier_names, running_reference
from service_process import running_service

KEYS = ("append-with-proofs_32_10", "update_32_10")
SEED = {"compress": 10, "spend": 10}


@contextlib.asynccontextmanager
async def prover(name: str, keys: Path, folder: Path) -> AsyncIterator[str]:
    """One of the two over a folder of keys; gives its URL."""
    with contextlib.ExitStack() as stack:
        if name == "ours":
            ports = ("--prover-address", "127.0.0.1:0", "--metrics-address", "127.0.0.1:0")
            service = running_service(folder / "prover.log", "--keys-dir", str(keys), *ports)
            ours = await asyncio.to_thread(stack.enter_context, service)
            yield f"http://127.0.0.1:{ours.api_port}"
            return
        circuits = ("append-with-proofs-test", "update-test")
        reference = running_reference(reference_fixtures.prover_binary(), keys, folder / "prover.log", *circuits)
        async with earlier_names(await asyncio.to_thread(stack.enter_context, reference)) as url:
            yield url


@pytest.fixture(scope="module")
def batch_keys(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The keys of the state circuits; skips, or fails where the reference is required."""
    try:
        source = reference_batch_keys.batch_keys_dir()
    except reference_fixtures.ReferenceUnavailable as error:
        if os.environ.get("ZKC_REQUIRE_REFERENCE") == "1":
            pytest.fail(str(error), pytrace=False)
        pytest.skip(str(error))
    folder = tmp_path_factory.mktemp("keys")
    for path in (source / f"{stem}{suffix}" for stem in KEYS for suffix in (".key", ".vkey")):
        (folder / path.name).symlink_to(path)
    return folder


@pytest.mark.reference_batch_keys
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("name", ["reference", "ours"])
async def test_pipeline__proofs_of_a_prover_under_its_keys__move_the_tree_on_chain(
    name: str, batch_keys: Path, tmp_path: Path
) -> None:
    proved: Counter[str] = Counter()
    with running_localnet("--keys-dir", str(batch_keys)) as net:
        await asyncio.to_thread(net.call, "localnet_seed", SEED)
        async with prover(name, batch_keys, tmp_path) as url, forestry(net, tmp_path, proved, url) as work:
            await work.kit.register()
            before = await work.head(STATE_TREE)
            appends, nullifies = len(before.append_chains), len(before.input_chains)
            assert appends >= 1
            assert nullifies == 1
            processor = await work.processor(STATE_TREE)
            rounds = await work.drain(processor, within_s=1200)
            await processor.close(0.0)
            assert failures(rounds) == []
            assert sum(done.elements for done in rounds) == 10 * (appends + nullifies)
            after = await work.head(STATE_TREE)
            assert (after.append_chains, after.input_chains) == ((), ())
            assert after.sequence == before.sequence + appends + nullifies
            assert after.root != before.root
    assert proved.total() == appends + nullifies
    assert set(proved.values()) == {1}, "no proof is computed twice"
