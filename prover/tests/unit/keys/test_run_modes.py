"""Run modes and selections against the tables of both specifications."""

import pytest

from prover.keys.catalogue.circuits import CIRCUIT_GROUPS, PUBLISHED_CIRCUITS, UnknownCircuit
from prover.keys.catalogue.run_modes import KeySet, RunMode, circuits_of
from prover.keys.catalogue.selection import CircuitSelection
from shared.requests.circuit_id import CircuitId, CircuitKind

APPEND = CircuitId(CircuitKind.BATCH_APPEND, 2, (32,), (500,))
APPEND_TEST = CircuitId(CircuitKind.BATCH_APPEND, 2, (32,), (10,))
SMALL = CircuitId(CircuitKind.INCLUSION, 2, (32,), (1,))


def batch_sizes(mode: str, key_set: KeySet) -> set[int]:
    return {circuit.sizes[0] for circuit in circuits_of(RunMode(mode), key_set) if circuit.kind.is_batch}


@pytest.mark.parametrize(
    ("mode", "count"),
    [("rpc", 83), ("forester", 62), ("forester-test", 86), ("full", 86), ("full-test", 86), ("local-rpc", 18)],
)
def test_circuits_of__each_mode_in_the_wider_set__has_as_many_as_the_inventory(mode: str, count: int) -> None:
    circuits = circuits_of(RunMode(mode), KeySet.REFERENCE)
    assert len(circuits) == len(set(circuits)) == count


@pytest.mark.parametrize(("mode", "size"), [("forester", {500, 250}), ("full-test", {10}), ("rpc", set())])
def test_circuits_of__batches_in_the_wider_set__are_those_of_the_network(mode: str, size: set[int]) -> None:
    assert batch_sizes(mode, KeySet.REFERENCE) == size


def test_circuits_of__forester_in_the_wider_set__leaves_combined_out() -> None:
    circuits = circuits_of(RunMode.FORESTER, KeySet.REFERENCE)
    assert not [circuit for circuit in circuits if circuit.kind is CircuitKind.COMBINED]


@pytest.mark.parametrize(
    ("mode", "count", "sizes"),
    [
        ("rpc", 83, set()),
        ("forester", 3, {500, 250}),
        ("forester-test", 3, {10}),
        ("full", 86, {500, 250}),
        ("full-test", 89, {500, 250, 10}),
        ("local-rpc", 21, {10}),
    ],
)
def test_circuits_of__each_mode__is_what_its_role_proves(mode: str, count: int, sizes: set[int]) -> None:
    circuits = circuits_of(RunMode(mode))
    assert len(circuits) == len(set(circuits)) == count
    assert batch_sizes(mode, KeySet.SPECIFICATION) == sizes


def test_circuit_groups__together__are_the_whole_catalogue_once() -> None:
    members = [circuit for group in CIRCUIT_GROUPS.values() for circuit in group]
    assert len(members) == len(PUBLISHED_CIRCUITS)
    assert set(members) == PUBLISHED_CIRCUITS
    assert CIRCUIT_GROUPS["append"] == {APPEND}
    assert CIRCUIT_GROUPS["append-test"] == {APPEND_TEST}


def test_selection__of_nothing__is_everything() -> None:
    selection = CircuitSelection.of()
    assert selection == CircuitSelection.everything()
    assert not selection.is_restricted
    assert set(selection.published()) == PUBLISHED_CIRCUITS


def test_selection__of_names__includes_groups_and_single_keys() -> None:
    selection = CircuitSelection.of(names=("append", "v2_inclusion_32_1"))
    assert selection.published() == [SMALL, APPEND]
    assert not selection.includes(APPEND_TEST)


def test_selection__of_names_that_the_launcher_of_0_27_passes__is_that_of_current_names() -> None:
    assert CircuitSelection.of(names=("append-with-proofs",)).published() == [APPEND]
    assert CircuitSelection.of(names=("append-with-proofs-test",)).published() == [APPEND_TEST]


def test_selection__of_mode_and_names__is_their_union() -> None:
    selection = CircuitSelection.of(RunMode.FORESTER, ("inclusion",))
    assert len(selection.published()) == 3 + 25
    assert selection.is_restricted


@pytest.mark.parametrize("name", ["updates", "", "v2_inclusion_32_21", "batch_append_32_11", "all", "INCLUSION"])
def test_selection__of_an_unknown_name__says_which_there_are(name: str) -> None:
    with pytest.raises(UnknownCircuit, match="address-append-test"):
        CircuitSelection.of(names=(name,))
