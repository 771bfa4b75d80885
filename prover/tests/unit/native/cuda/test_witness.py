"""Witnesses by the device code, which the host runs, compared with the CPU's: wires, a, b and the verdict."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from circuit_inputs import KEY_FILES, circuit_inputs
from constraint_system_hooks import FORMAT_014, FORMAT_08, Chains, ConstraintSystem, Difference, Hooks
from golden_vectors import BATCH, PUBLISHED, SCALAR_MODULUS, RequestVector, provable_with
from hypothesis import given, settings
from kernel_library import BACKENDS
from random_systems import solvable_systems
from sampling import examples
from small_systems import BITS, ONE, System

BATCH_FILES = {
    "batch_append_32_10": "append-with-proofs_32_10.key",
    "batch_update_32_10": "update_32_10.key",
    "batch_address-append_40_10": "address-append_40_10.key",
}
ROWS_OF_PATH = {"batch_append_32_10": 32 * 242, "batch_update_32_10": 32 * 242, "batch_address-append_40_10": 40 * 242}
SAME = Difference(0, 0, 0, on_cpu=False, in_parts=False, on_device=False)
FAILED = Difference(0, 0, 0, on_cpu=True, in_parts=False, on_device=True)


@pytest.fixture(scope="module")
def hooks(testing_library: Path) -> Hooks:
    return Hooks(testing_library)


@pytest.fixture(scope="module")
def keys() -> dict[Path, ConstraintSystem]:
    """Keys that were read already."""
    return {}


def cut(cs: ConstraintSystem) -> Chains:
    chains = cs.chains()
    assert isinstance(chains, Chains), chains
    return chains


def samples(cs: ConstraintSystem) -> list[list[int]]:
    """Return inputs that satisfy nothing in particular."""
    count = cs.counts.public - 1 + cs.counts.secret
    draw = random.Random(count)
    return [
        [draw.randrange(SCALAR_MODULUS) for _ in range(count)],
        [draw.choice((0, 1, SCALAR_MODULUS - 1)) for _ in range(count)],
    ]


# ---- systems made for it -------------------------------------------------------------------------------


@settings(max_examples=examples(150), deadline=None)
@given(case=solvable_systems())
def test_chains__random_systems__are_solved_as_by_the_cpu(hooks: Hooks, case: tuple[System, list[int]]) -> None:
    system, inputs = case
    for format_version in (FORMAT_08, FORMAT_014):
        chains = hooks.read(system.encode(format_version), format_version).chains()
        if isinstance(chains, str):
            assert chains in ("no row can be solved on a GPU", "the CPU would have to solve too many rows")
            continue
        for backwards in (False, True):
            found = chains.compare(inputs, backwards=backwards)
            assert (found.wires, found.a, found.b) == (0, 0, 0)
            assert found.on_cpu == (found.in_parts or found.on_device)


def powers(system: System, wire: int, length: int) -> int:
    """Return rows that square a wire and add a constant again and again; the last wire."""
    for _ in range(length):
        following = system.new_wire()
        side = [(1, wire), (system.coefficient(5), 0)]
        system.row(side, side, [(1, following)])
        wire = following
    return wire


def test_chains__many_of_one_kind_and_a_long_one__the_long_one_stays(hooks: Hooks) -> None:
    """120 chains over every other input, each with a bit of its own, and one that ties them all together."""
    count = 120
    system = System(secret=2 * count + 1)
    ends = []
    for number in range(count):
        bit = system.hint(BITS, [(1, 2 + 2 * number)], 1)
        start = system.new_wire()
        system.row([(1, bit)], [(1, 3 + 2 * number)], [(1, start)])
        ends.append(powers(system, start, 50))
    tie = 1
    for number in range(count):
        following = system.new_wire()
        system.row([(1, tie), (1, 3 + 2 * number)], [(1, tie)], [(1, following)])
        tie = powers(system, following, 4)
    for end in ends:
        system.row([(1, end)], ONE, [(1, end)])
    cs = hooks.read(system.encode(FORMAT_014), FORMAT_014)
    chains = cut(cs)
    assert (chains.counts.chains, chains.counts.shapes) == (count, 1)
    assert chains.counts.device_rows == count * 51
    assert (chains.counts.first_wires, chains.counts.second_rows) == (count, 5 * count)
    assert isinstance(cs.chains(forced=False), Chains), "this gains"
    inputs = 2 * count + 2
    for values in ([7] * inputs, list(range(inputs)), [SCALAR_MODULUS - 1 - i for i in range(inputs)]):
        for backwards in (False, True):
            assert chains.compare(values, backwards=backwards) == SAME


def test_chains__wires_in_no_order__get_shapes_of_their_own(hooks: Hooks) -> None:
    """Chains of the same code whose inputs lie anywhere: more shifts than a shape may have are refused one by one."""
    draw = random.Random(5)
    system = System(secret=200)
    for _ in range(20):
        wire = 2
        for _ in range(60):
            following = system.new_wire()
            system.row([(1, wire)], [(1, 2 + draw.randrange(200))], [(1, following)])
            wire = following
    chains = cut(hooks.read(system.encode(FORMAT_014), FORMAT_014))
    assert chains.counts.chains == 20
    assert 1 < chains.counts.shapes <= 20
    assert chains.compare([draw.randrange(SCALAR_MODULUS) for _ in range(201)]) == SAME


# ---- published circuits --------------------------------------------------------------------------------

CHECKED = ("inclusion_32_1.key", "mainnet_inclusion_26_1.key", "non-inclusion_40_1.key", "combined_26_1_1.key")


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=() if name in CHECKED else pytest.mark.unchecked) for name in sorted(KEY_FILES.values())],
)
@pytest.mark.sampled(6, checked=2)
def test_chains__published_key_and_any_inputs__are_solved_as_by_the_cpu(
    hooks: Hooks, reference_keys_dir: Path, name: str
) -> None:
    cs = hooks.read_key(reference_keys_dir / name)
    chains = cut(cs)
    for backwards, inputs in enumerate(samples(cs)):
        assert chains.compare(inputs, BACKENDS[-1], threads=2, backwards=bool(backwards)) == FAILED


def test_chains__small_circuit__gain_nothing_and_say_why(hooks: Hooks, reference_keys_dir: Path) -> None:
    reason = hooks.read_key(reference_keys_dir / "inclusion_32_1.key").chains(forced=False)
    assert isinstance(reason, str)
    assert "ms on the device" in reason


@pytest.mark.parametrize("vector", provable_with(PUBLISHED)[:3], ids=lambda vector: vector.name)
def test_chains__golden_request__satisfies_every_row(
    hooks: Hooks, keys: dict[Path, ConstraintSystem], reference_keys_dir: Path, vector: RequestVector
) -> None:
    path = reference_keys_dir / KEY_FILES[vector.circuit]
    cs = keys.get(path) or keys.setdefault(path, hooks.read_key(path))
    assert cut(cs).compare(circuit_inputs(vector.request)) == SAME


# ---- batches -------------------------------------------------------------------------------------------


ONE_OF_EACH = tuple({vector.circuit: vector for vector in provable_with(BATCH)}.values())


def spoiled(inputs: list[int], place: int) -> list[int]:
    """Return the inputs with one of them changed."""
    return [*inputs[:place], (inputs[place] + 1) % SCALAR_MODULUS, *inputs[place + 1 :]]


@pytest.mark.unchecked
@pytest.mark.reference_batch_keys
@pytest.mark.parametrize("vector", ONE_OF_EACH, ids=lambda vector: vector.name)
@pytest.mark.sampled(1)
def test_chains__batch_request__one_chain_per_path_and_the_cpus_verdict(
    hooks: Hooks, keys: dict[Path, ConstraintSystem], reference_batch_keys_dir: Path, vector: RequestVector
) -> None:
    path = reference_batch_keys_dir / BATCH_FILES[vector.circuit]
    cs = keys.get(path) or keys.setdefault(path, hooks.read_key(path))
    chains = cut(cs)
    inputs = circuit_inputs(vector.request)
    paths = 40 if "address" in vector.circuit else 20
    assert chains.counts.chains == paths
    assert chains.counts.device_rows >= paths * ROWS_OF_PATH[vector.circuit]
    assert chains.counts.shapes <= 4
    assert chains.counts.values * 32 < 0.2 * 96 * cs.counts.constraints
    assert chains.compare(inputs, BACKENDS[-1], threads=2) == SAME
    assert chains.compare(inputs, BACKENDS[0], backwards=True) == SAME
    # The public hash, the root before, a leaf, a sibling.
    for place in (0, 1, cs.counts.public + 8, len(inputs) - 30):
        assert chains.compare(spoiled(inputs, place), BACKENDS[-1], threads=2) == FAILED
    assert chains.compare(samples(cs)[0], BACKENDS[-1], backwards=True) == FAILED
