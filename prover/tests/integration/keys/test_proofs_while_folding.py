"""A key that is folded while a server proves with it: proofs meanwhile and after, and who takes the folded form."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from golden_vectors import vector_named
from in_process_service import Client, Serve, circuit, open_store, scalars

from prover.kernel.cancellation import CancelFlag
from prover.kernel.engine import Engine
from prover.keys.prepared import prepared_keys
from prover.keys.prepared.preparation import PreparedKeys
from prover.keys.store.key_store import KeyStore
from prover.proving.proof_encoding import read_proof

PROVER = Path(sys.executable).with_name("prover")
VECTOR = vector_named("prover/v2_inclusion_32_1")
CIRCUIT = circuit(VECTOR.circuit)
DEADLINE_S = 300


@contextmanager
def folding_held(source: Path, folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    """`prover keys prepare --fold`, which a signal holds once it has begun to write the folded form."""
    words = [str(PROVER), "keys", "prepare", "--fold", "--threads", "1", str(source), "--prepared-dir", str(folder)]
    deadline = time.monotonic() + DEADLINE_S
    with subprocess.Popen(words) as process:
        try:
            while not (list(folder.glob("*.prepared")) and list(folder.glob(".*.partial"))):
                assert process.poll() is None
                assert time.monotonic() < deadline
                time.sleep(0.005)
            process.send_signal(signal.SIGSTOP)
            yield process
        except BaseException:
            process.kill()
            raise


async def prove(client: Client, store: KeyStore, engine: Engine) -> bool:
    """Request a proof and verify it; return whether the key is folded."""
    response = await client.post("/prove", data=VECTOR.body)
    body = await response.read()
    assert response.status == 200, body
    key = store.get(CIRCUIT, CancelFlag())
    with engine.load_verifying_key(key.verifying_key.write()) as alone:
        alone.verify(read_proof(body), scalars(VECTOR.public_inputs))
    return key.info.fold_bytes > 0


@pytest.mark.parametrize("prepared_before", [False, True])
async def test_server__whose_key_is_folded_meanwhile__proves_and_the_next_one_takes_the_folded_key(
    serve: Serve, engine: Engine, reference_keys_dir: Path, tmp_path: Path, prepared_before: bool
) -> None:
    source = Path(shutil.copy(reference_keys_dir / CIRCUIT.earlier_key_file, tmp_path))
    folder = tmp_path / prepared_keys.FOLDER
    if prepared_before:
        prepared_keys.prepare(engine, source, folder)
    folder.mkdir(exist_ok=True)
    store = open_store(tmp_path, engine, PreparedKeys(folder))
    client = await serve(store)
    with folding_held(source, folder) as folding:
        for _ in range(3):
            assert not await prove(client, store, engine)
        assert folding.poll() is None
        assert store.get(CIRCUIT, CancelFlag()).info.mapped_bytes, (
            "the plain form, which is written first where none is"
        )
        folding.send_signal(signal.SIGCONT)
        while folding.poll() is None:
            assert not await prove(client, store, engine)
        assert folding.returncode == 0
    assert not await prove(client, store, engine), "a running server keeps the form that it has loaded"
    again = open_store(tmp_path, engine, PreparedKeys(folder))
    assert await prove(await serve(again), again, engine)
    for one in (store, again):
        one.close()
