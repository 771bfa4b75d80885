"""The reference prover loads constraint systems written here and proves with them.

The points of a key stay the reference's own and the constraint system is replaced, in gnark 0.8, which is the one
that the published binary reads. A wrong constraint, wire or order would give a proof that does not hold.
"""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from circuit_inputs import KEY_FILES
from golden_vectors import vector_named
from reference_server import MERKLE_VECTORS, assert_proves, fill_up, reference_server
from replaced_system import replace_constraint_system, verifying_key
from sampling import FULL


@pytest.mark.timeout(1200)
def test_reference__merkle_keys_with_our_constraint_systems__proves(
    reference_prover: Path, reference_keys_dir: Path, tmp_path: Path
) -> None:
    chosen = MERKLE_VECTORS if FULL else [random.choice(MERKLE_VECTORS)]  # by the seed of the run
    vectors = [vector_named(name) for name in chosen]
    for vector in vectors:
        file = KEY_FILES[vector.circuit]
        replace_constraint_system(reference_keys_dir / file, tmp_path / file, vector.circuit, wrapper=16)
    fill_up(tmp_path, KEY_FILES.values(), reference_keys_dir / "inclusion_32_1.key")
    with reference_server(reference_prover, tmp_path, tmp_path / "log", "--run-mode", "local-rpc") as port:
        for vector in vectors:
            key = verifying_key(reference_keys_dir / KEY_FILES[vector.circuit], wrapper=16)
            assert_proves(port, vector, key)
