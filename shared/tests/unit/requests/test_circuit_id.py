"""Names of circuits and key files, both format versions."""

import pytest

from shared.requests.circuit_id import CircuitId, CircuitKind

KIND = CircuitKind

NAMES = [
    (CircuitId(KIND.INCLUSION, 1, (26,), (2,)), "v1_inclusion_26_2.key", "mainnet_inclusion_26_2.key"),
    (CircuitId(KIND.INCLUSION, 2, (32,), (20,)), "v2_inclusion_32_20.key", "inclusion_32_20.key"),
    (CircuitId(KIND.NON_INCLUSION, 1, (26,), (1,)), "v1_non-inclusion_26_1.key", "non-inclusion_26_1.key"),
    (CircuitId(KIND.NON_INCLUSION, 2, (40,), (32,)), "v2_non-inclusion_40_32.key", "non-inclusion_40_32.key"),
    (CircuitId(KIND.COMBINED, 1, (26, 26), (4, 2)), "v1_combined_26_26_4_2.key", "combined_26_4_2.key"),
    (CircuitId(KIND.COMBINED, 2, (32, 40), (1, 3)), "v2_combined_32_40_1_3.key", "combined_32_40_1_3.key"),
    (CircuitId(KIND.BATCH_APPEND, 2, (32,), (10,)), "batch_append_32_10.key", "append-with-proofs_32_10.key"),
    (CircuitId(KIND.BATCH_UPDATE, 2, (32,), (500,)), "batch_update_32_500.key", "update_32_500.key"),
    (
        CircuitId(KIND.BATCH_ADDRESS_APPEND, 2, (40,), (250,)),
        "batch_address-append_40_250.key",
        "address-append_40_250.key",
    ),
]


@pytest.mark.parametrize(("circuit", "current", "earlier"), NAMES)
def test_key_file__of_a_circuit__has_both_names(circuit: CircuitId, current: str, earlier: str) -> None:
    assert circuit.key_files == (current, earlier)
    assert circuit.name == current.removesuffix(".key")


@pytest.mark.parametrize(("circuit", "current", "earlier"), NAMES)
def test_circuit__from_either_name__is_the_same(circuit: CircuitId, current: str, earlier: str) -> None:
    assert CircuitId.from_key_file(current) == circuit
    assert CircuitId.from_key_file(earlier) == circuit


@pytest.mark.parametrize(
    "name",
    [
        "",
        ".key",
        "v1_inclusion_26_1",
        "v3_inclusion_26_1.key",
        "v1_inclusion_26_01.key",
        "v1_inclusion_26_0.key",
        "v1_inclusion_26.key",
        "batch_append_32_10.key.tmp",
        "V1_INCLUSION_26_1.key",
        "v1_inclusion_26_\u0661.key",
        "combined_26_26_1.key.key",
        "dir/v1_inclusion_26_1.key",
    ],
)
def test_circuit__from_another_name__is_none(name: str) -> None:
    assert CircuitId.from_key_file(name) is None


def test_circuit__with_a_wrong_number_of_heights__is_refused() -> None:
    with pytest.raises(ValueError, match="2 height"):
        CircuitId(KIND.COMBINED, 2, (32,), (1,))
    with pytest.raises(ValueError, match="1 height"):
        CircuitId(KIND.INCLUSION, 2, (32, 40), (1, 1))
