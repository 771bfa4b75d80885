"""Estimates of keys that are not here, against the published ones."""

from __future__ import annotations

from pathlib import Path

import pytest
from in_process_service import circuit

from prover.errors import MemoryBudgetExceeded
from prover.kernel.engine import Engine
from prover.keys.catalogue.key_estimates import constraints_of, file_bytes, resident_bytes, scratch_bytes
from prover.keys.files.key_folder import find_key
from prover.keys.files.memory_budget import folding_bytes
from prover.keys.prepared import prepared_keys

SOME = (
    "v1_inclusion_26_2",
    "v1_non-inclusion_26_1",
    "v1_combined_26_26_1_1",
    "v2_inclusion_32_1",
    "v2_non-inclusion_40_2",
    "v2_combined_32_40_1_2",
)


def test_estimates__of_published_keys__are_exact_in_constraints_and_no_less_than_what_they_take(
    reference_keys_dir: Path,
) -> None:
    for wanted in map(circuit, SOME):
        source = find_key(reference_keys_dir, wanted)
        for threads in (1, 2, 5, 16, 48):
            with Engine(threads) as engine, prepared_keys.load_source(engine, source) as key:
                assert constraints_of(wanted) == key.info.constraints
                size = source.stat().st_size
                assert size <= file_bytes(wanted) <= 1.3 * size
                assert key.info.resident_bytes <= resident_bytes(wanted) <= 1.3 * key.info.resident_bytes
                assert key.scratch_bytes <= scratch_bytes(wanted, threads) <= 3 * key.scratch_bytes


def test_estimates__of_batches__grow_with_their_size() -> None:
    """Sizes of the keys that the reference's own setup makes: 158,143, 160,473 and 403,103 constraints."""
    expected = {"batch_append_32_10": 158_143, "batch_update_32_10": 160_473, "batch_address-append_40_10": 403_103}
    for name, count in expected.items():
        assert 0 <= constraints_of(circuit(name)) - count < 100
    assert constraints_of(circuit("batch_append_32_500")) == 50 * constraints_of(circuit("batch_append_32_10"))


def test_estimates__of_the_largest_published_batches__fit_the_memory_that_the_reference_asks_for() -> None:
    """All three keys in half of 32 GiB, and a proof of each on 16 threads in the other half.

    See prover/docs/performance.md, "Memory".
    """
    production = [circuit(f"batch_{name}") for name in ("append_32_500", "update_32_500", "address-append_40_250")]
    half = 16 * 2**30
    assert sum(map(resident_bytes, production)) <= half
    assert sum(scratch_bytes(circuit_id, 16) for circuit_id in production) <= half


def test_prepare__folding_needs_more_memory_than_there_is__reports_it_and_leaves_the_prepared_key_alone(
    reference_keys_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = reference_keys_dir / "mainnet_inclusion_26_1.key"
    with Engine() as engine:
        assert prepared_keys.prepare(engine, source, tmp_path)
        with prepared_keys.load_source(engine, source) as key:
            need = key.info.resident_bytes + folding_bytes(key.info)
        monkeypatch.setattr(prepared_keys, "memory_limit_bytes", lambda: need - 1)
        with pytest.raises(MemoryBudgetExceeded, match="prepare the key with --no-fold"):
            prepared_keys.prepare(engine, source, tmp_path, fold=True)
        with prepared_keys.load(engine, source, tmp_path) as key:
            assert key.info.mapped_bytes
            assert key.info.fold_bytes == 0
        monkeypatch.setattr(prepared_keys, "memory_limit_bytes", lambda: need)
        assert prepared_keys.prepare(engine, source, tmp_path, fold=True)
