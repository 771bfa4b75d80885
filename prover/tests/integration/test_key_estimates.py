"""Estimates of keys that are not here, against the published ones."""

from __future__ import annotations

from pathlib import Path

from in_process_service import circuit

from prover.kernel.cancellation import CancelFlag
from prover.keys.key_estimates import constraints_of, file_bytes, resident_bytes, scratch_bytes
from prover.keys.key_files import find_key
from prover.keys.store import KeyStore

SOME = (
    "v1_inclusion_26_2",
    "v1_non-inclusion_26_1",
    "v1_combined_26_26_1_1",
    "v2_inclusion_32_1",
    "v2_non-inclusion_40_2",
    "v2_combined_32_40_1_2",
)


def test_estimates__of_published_keys__are_exact_in_constraints_and_no_less_than_what_they_take(
    published_keys: KeyStore, reference_keys_dir: Path
) -> None:
    for wanted in map(circuit, SOME):
        with published_keys.lease(wanted, CancelFlag()) as key:
            assert constraints_of(wanted) == key.info.constraints
            size = find_key(reference_keys_dir, wanted).stat().st_size
            assert size <= file_bytes(wanted) <= 1.3 * size
            assert key.info.resident_bytes <= resident_bytes(wanted) <= 1.3 * key.info.resident_bytes
            assert key.scratch_bytes <= scratch_bytes(wanted) <= 3 * key.scratch_bytes


def test_estimates__of_batches__grow_with_their_size() -> None:
    """Sizes of the keys that the reference's own setup makes: 158,143, 160,473 and 403,103 constraints."""
    expected = {"batch_append_32_10": 158_143, "batch_update_32_10": 160_473, "batch_address-append_40_10": 403_103}
    for name, count in expected.items():
        assert 0 <= constraints_of(circuit(name)) - count < 100
    assert constraints_of(circuit("batch_append_32_500")) == 50 * constraints_of(circuit("batch_append_32_10"))
