"""The reference prover loads its batch keys with our constraint systems in them, and proves."""

from __future__ import annotations

from pathlib import Path

import pytest
from golden_vectors import vector_named
from reference_server import BATCH_VECTORS, assert_proves, reference_server
from replaced_system import replace_constraint_system, verifying_key


@pytest.mark.timeout(1200)
@pytest.mark.reference_batch_keys
@pytest.mark.parametrize("name", BATCH_VECTORS)
def test_reference__batch_key_with_our_constraint_system__proves(
    name: str, reference_prover: Path, reference_batch_keys_dir: Path, tmp_path: Path
) -> None:
    vector = vector_named(name)
    file, circuit = BATCH_VECTORS[name]
    replace_constraint_system(reference_batch_keys_dir / file, tmp_path / file, vector.circuit, wrapper=8)
    with reference_server(reference_prover, tmp_path, tmp_path / "log", "--circuit", circuit) as port:
        assert_proves(port, vector, verifying_key(reference_batch_keys_dir / file, wrapper=8))
    (tmp_path / file).unlink()
