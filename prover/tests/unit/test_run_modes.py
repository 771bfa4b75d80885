"""Run modes against the key inventory of the service specification."""

import pytest

from prover.keys.run_modes import RunMode, circuits_of
from shared.circuit_id import CircuitKind


@pytest.mark.parametrize(
    ("mode", "count"),
    [("rpc", 83), ("forester", 62), ("forester-test", 86), ("full", 86), ("full-test", 86), ("local-rpc", 18)],
)
def test_circuits_of__each_mode__has_as_many_as_the_inventory(mode: str, count: int) -> None:
    circuits = circuits_of(RunMode(mode))
    assert len(circuits) == len(set(circuits)) == count


@pytest.mark.parametrize(("mode", "size"), [("forester", {500, 250}), ("full-test", {10}), ("rpc", set())])
def test_circuits_of__batches__are_those_of_the_network(mode: str, size: set[int]) -> None:
    assert {circuit.sizes[0] for circuit in circuits_of(RunMode(mode)) if circuit.kind.is_batch} == size


def test_circuits_of__forester__leaves_combined_out() -> None:
    assert not [circuit for circuit in circuits_of(RunMode.FORESTER) if circuit.kind is CircuitKind.COMBINED]
