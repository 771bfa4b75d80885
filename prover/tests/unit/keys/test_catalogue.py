"""The published circuits, counted by the table of the service specification."""

from collections import Counter

from prover.keys.catalogue.circuits import PUBLISHED_CIRCUITS
from shared.requests.circuit_id import CircuitId, CircuitKind


def test_catalogue__by_kind__has_the_published_numbers() -> None:
    numbers = Counter((circuit.kind, circuit.version) for circuit in PUBLISHED_CIRCUITS)
    assert numbers == {
        (CircuitKind.INCLUSION, 1): 5,
        (CircuitKind.INCLUSION, 2): 20,
        (CircuitKind.NON_INCLUSION, 1): 2,
        (CircuitKind.NON_INCLUSION, 2): 32,
        (CircuitKind.COMBINED, 1): 8,
        (CircuitKind.COMBINED, 2): 16,
        (CircuitKind.BATCH_APPEND, 2): 2,
        (CircuitKind.BATCH_UPDATE, 2): 2,
        (CircuitKind.BATCH_ADDRESS_APPEND, 2): 2,
    }
    assert len(PUBLISHED_CIRCUITS) == 89


def test_catalogue__every_circuit__is_found_again_by_both_file_names() -> None:
    for circuit in PUBLISHED_CIRCUITS:
        for name in circuit.key_files:
            assert CircuitId.from_key_file(name) == circuit
