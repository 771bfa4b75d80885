"""Constraint systems as the kernel reads them: counts, digests, hints and the plan of execution."""

from __future__ import annotations

import hashlib
import struct
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from circuit_inputs import KEY_FILES
from constraint_system_hooks import FORMAT_014, FORMAT_08, IS_HINT, ConstraintSystem, Hooks, Refused, Row
from gnark_conversion import key_sections
from golden_vectors import load
from sampling import FULL
from small_systems import BITS, INVERSE_OR_ZERO, ONE, ZERO, System

BATCH_KEYS = {
    "batch_append_32_10": ("append-with-proofs_32_10.key", 4),
    "batch_update_32_10": ("update_32_10.key", 5),
    "batch_address-append_40_10": ("address-append_40_10.key", 6),
}
HINT_NAMES = {1: "github.com/consensys/gnark/std/math/bits.NBits", 2: "github.com/consensys/gnark/backend/hint.InvZero"}
any_format = pytest.mark.parametrize("format_version", [FORMAT_08, FORMAT_014])


@pytest.fixture(scope="module")
def hooks(testing_library: Path) -> Hooks:
    return Hooks(testing_library)


def tiny(format_version: int) -> bytes:
    """Return the constraint system of the hand-made circuit in tiny.json."""
    modern = format_version == FORMAT_014
    key = bytes.fromhex(load("gnark/tiny.json")["key_v0_14_hex" if modern else "key_v0_8_hex"])
    return key[key_sections(key, format_014=modern).verifying_key_end :]


def assert_plan_is_executable(cs: ConstraintSystem) -> None:
    """Require every instruction once, checks last, and components that do not depend on each other.

    What an instruction reads is solved before it: in an earlier slice, or by its own component.
    """
    program, components, slices = cs.program()
    counts = cs.counts
    assert sorted(program) == [*range(counts.constraints), *(IS_HINT | h for h in range(counts.hints))]
    assert (components[0], slices[0]) == (0, 0)
    assert (components[-1], slices[-1]) == (counts.checks_start, counts.components)
    inputs = counts.public + counts.secret
    solved: dict[int, tuple[int, int]] = {}  # wire: slice and component
    for part, (first, last) in enumerate(pairwise(slices)):
        for component in range(first, last):
            for instruction in program[components[component] : components[component + 1]]:
                if instruction & IS_HINT:
                    hint = cs.hint(instruction & ~IS_HINT)
                    expressions = [hint.input]
                    outputs = range(hint.first_output, hint.first_output + hint.outputs)
                else:
                    row = cs.row(instruction)
                    expressions = [row.left, row.right, row.out]
                    outputs = range(row.solved_wire, row.solved_wire + 1)
                    assert row.solves
                for wire in (wire for number in expressions for _, wire in cs.expression(number)):
                    if wire >= inputs and wire not in outputs:
                        origin = solved[wire]
                        assert origin[0] < part or origin == (part, component)
                for wire in outputs:
                    assert wire not in solved
                    solved[wire] = (part, component)
    assert set(solved) == set(range(inputs, counts.wires))
    assert all(cs.row(number).solves == 0 for number in program[counts.checks_start :])


@any_format
def test_read__tiny_system__has_its_rows_hints_and_levels(hooks: Hooks, format_version: int) -> None:
    cs = hooks.read(tiny(format_version), format_version)
    counts = cs.counts
    assert (counts.public, counts.secret, counts.internal, counts.wires) == (2, 2, 9, 13)
    assert (counts.constraints, counts.hints, counts.instructions, counts.coefficients) == (11, 2, 13, 10)
    assert counts.file_terms == 47
    assert counts.batch_kind == 0
    bits, inverse = (cs.hint(number) for number in range(2))
    assert (bits.kind, bits.first_output, bits.outputs) == (1, 5, 4)
    assert (inverse.kind, inverse.first_output, inverse.outputs) == (2, 9, 1)
    assert cs.expression(bits.input) == [(1, 2)]
    solved = {
        number: (cs.row(number).solves, cs.row(number).solved_wire) for number in range(11) if cs.row(number).solves
    }
    assert solved == {0: (3, 4), 6: (3, 10), 9: (1, 11), 10: (2, 12)}
    assert cs.row(10).solved_coefficient == 3
    levels = [cs.row(number).level for number in range(11)]
    assert levels == [0, 1, 1, 1, 1, 1, 1, 2, 2, 1, 1]
    assert cs.expression(cs.row(8).left) == [(1, 4), (5, 10), (6, 0)]
    assert_plan_is_executable(cs)


def test_read__tiny_system__is_the_same_in_both_formats(hooks: Hooks) -> None:
    first, second = (hooks.read(tiny(format_version), format_version) for format_version in (FORMAT_08, FORMAT_014))
    assert first.digest() == second.digest()
    assert first.coefficients() == second.coefficients()
    for number in range(11):  # expressions are numbered in the order of the file, which differs
        rows = [replace(cs.row(number), left=0, right=0, out=0) for cs in (first, second)]
        assert rows[0] == rows[1]
    assert first.program() == second.program()


def test_read__equal_expressions_near_each_other__are_stored_once(hooks: Hooks) -> None:
    system = System()
    x = 2
    square, fourth, fifth = (system.new_wire() for _ in range(3))
    base = [(1, x), (2, 0), (4, 1)]
    system.row(base, base, [(1, square)])
    system.row([(1, square)], [(1, square)], [(1, fourth)])
    system.row([(1, fourth)], base, [(1, fifth)])
    cs = hooks.read(system.encode(FORMAT_014), FORMAT_014)
    rows = [cs.row(number) for number in range(3)]
    assert rows[0].left == rows[0].right == rows[2].right
    assert rows[0].out == rows[1].left == rows[1].right
    assert cs.counts.file_terms == 3 + 3 + 1 + 3 + 1 + 3 + 1
    assert cs.counts.terms == 3 + 1 + 1 + 1


@any_format
def test_read__independent_chains__become_components(hooks: Hooks, format_version: int) -> None:
    system = System(secret=8)
    for chain in range(8):
        wire = 2 + chain
        for _ in range(300):
            following = system.new_wire()
            system.row([(1, wire)], [(1, wire)], [(1, following)])
            wire = following
    cs = hooks.read(system.encode(format_version), format_version)
    assert (cs.counts.components, cs.counts.slices) == (8, 1)
    assert_plan_is_executable(cs)


@any_format
def test_read__chains_that_one_sum_ties_together__run_in_slices(hooks: Hooks, format_version: int) -> None:
    # As in batch update: each path starts with a value that a common chain reads as well.
    system = System(secret=16)
    starts = [system.new_wire() for _ in range(16)]
    for i, start in enumerate(starts):
        system.row([(1, 2 + i)], [(1, 2 + i)], [(1, start)])
    for start in starts:
        wire = start
        for _ in range(400):
            following = system.new_wire()
            system.row([(1, wire)], [(1, wire)], [(1, following)])
            wire = following
    chain = starts[0]
    for start in starts[1:]:
        following = system.new_wire()
        system.row([(1, chain)], [(1, start)], [(1, following)])
        chain = following
    cs = hooks.read(system.encode(format_version), format_version)
    assert cs.counts.slices > 1
    _, components, slices = cs.program()
    sizes = [end - start for start, end in pairwise(components)]
    longest = sum(max(sizes[a:b]) for a, b in pairwise(slices))
    assert longest < cs.counts.checks_start / 4
    assert_plan_is_executable(cs)


def test_read__hint_that_needs_another_hint__runs_after_it(hooks: Hooks) -> None:
    system = System()
    inner = system.hint(INVERSE_OR_ZERO, [(1, 2)])
    middle = system.hint(INVERSE_OR_ZERO, [(1, inner), (1, 0)])
    outer = system.hint(BITS, [(2, middle), (1, inner)], 3)
    system.row([(1, outer + 1)], ONE, [(1, outer)])
    system.row([(1, outer + 2)], ONE, ZERO)
    cs = hooks.read(system.encode(FORMAT_08), FORMAT_08)
    program, _, _ = cs.program()
    assert program == [IS_HINT | 0, IS_HINT | 1, IS_HINT | 2, 0, 1]
    assert_plan_is_executable(cs)


@pytest.mark.parametrize(
    ("names", "kind"),
    [
        (["a", "b", "c", "TxHashes_0"], 5),
        (["a", "b", "c", "StartIndex", "OldLeaves_0"], 4),
        (["a", "b", "c", "StartIndex", "LowElementValues_0"], 6),
        (["a", "b", "c", "StartIndex", "Other"], 0),
        (["a", "b", "c", "StartIndex"], 0),
        (["a", "b", "TxHashes_0"], 0),
        (["StartIndex", "OldLeaves_0"], 0),
        ([], 0),
    ],
)
@any_format
def test_read__names_of_secret_inputs__report_the_batch_circuit(
    hooks: Hooks, format_version: int, names: list[str], kind: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    system = System(secret=len(names))
    system.row([(1, 1)], ONE, [(1, system.new_wire())])
    decoded = system.decoded() | {"Secret": names}
    monkeypatch.setattr(system, "decoded", lambda: decoded)
    assert hooks.read(system.encode(format_version), format_version).counts.batch_kind == kind


def test_read__cancelled__reports_it(hooks: Hooks) -> None:
    with pytest.raises(Refused) as refusal:
        hooks.read(tiny(FORMAT_08), FORMAT_08, cancelled=True)
    assert (refusal.value.status, refusal.value.offset) == ("cancelled", 0)


def key_row(name: str, version: str) -> dict[str, Any]:
    rows = [row for row in load("gnark/keys.json")["rows"] if row["file"] == name and row["gnark"] == version]
    return dict(rows[0])


def assert_counts(cs: ConstraintSystem, expected: dict[str, Any]) -> None:
    counts = cs.counts
    assert counts.constraints == expected["nbConstraints"]
    assert (counts.public, counts.secret, counts.internal) == (
        expected["nbPublic"],
        expected["nbSecret"],
        expected["nbInternal"],
    )
    assert (counts.wires, counts.coefficients) == (expected["nbWires"], expected["nb_coefficients"])
    assert counts.levels == expected["nbLevels"]
    assert counts.file_terms == expected["termsL"] + expected["termsR"] + expected["termsO"]
    hints = [cs.hint(number) for number in range(counts.hints)]
    calls: dict[str, int] = {}
    for hint in hints:
        calls[HINT_NAMES[hint.kind]] = calls.get(HINT_NAMES[hint.kind], 0) + 1
    assert calls == expected["hints"]
    assert sum(hint.outputs for hint in hints) == expected["hintOutputs"]


@pytest.mark.unchecked
@pytest.mark.parametrize("circuit", sorted(KEY_FILES))
def test_read__published_key__has_the_known_counts_and_digests(
    hooks: Hooks, reference_keys_dir: Path, circuit: str
) -> None:
    cs = hooks.read_key(reference_keys_dir / KEY_FILES[circuit])
    assert_counts(cs, key_row(KEY_FILES[circuit], "0.8.0"))
    stats = load("circuits/r1cs_stats.json")["circuits"][circuit]
    counts = cs.counts
    prefix = struct.pack("<4I", counts.public, counts.secret, counts.internal, counts.constraints)
    assert cs.digest(prefix) == stats["r1csSha256"]
    assert hashlib.sha256(cs.coefficients()).hexdigest() == stats["coeffSha256"]
    assert counts.terms < 0.36 * counts.file_terms  # most expressions return at once


@pytest.mark.parametrize("name", ["inclusion_32_1", "mainnet_inclusion_26_1", "non-inclusion_40_1"])
def test_read__published_key__has_the_golden_hints_and_first_rows(
    hooks: Hooks, reference_keys_dir: Path, name: str
) -> None:
    expected = load(f"gnark/{name}.json")["r1cs"]
    cs = hooks.read_key(reference_keys_dir / f"{name}.key")
    assert cs.digest() == expected["r1cs_digest"]
    for number, hint in enumerate(expected["hints"]):
        found = cs.hint(number)
        assert HINT_NAMES[found.kind] == hint["name"]
        assert [[list(term) for term in cs.expression(found.input)]] == hint["inputs"]
        assert [found.first_output, found.first_output + found.outputs] == hint["outputs"]
    for number, sides in enumerate(expected["first_constraints"]):
        row: Row = cs.row(number)
        assert [[list(t) for t in cs.expression(side)] for side in (row.left, row.right, row.out)] == sides


def test_read__published_key__has_an_executable_plan(hooks: Hooks, reference_keys_dir: Path) -> None:
    assert_plan_is_executable(hooks.read_key(reference_keys_dir / "inclusion_32_2.key"))


@pytest.mark.reference_batch_keys
@pytest.mark.parametrize("circuit", sorted(BATCH_KEYS) if FULL else ["batch_update_32_10"])
def test_read__batch_key__has_the_known_counts_and_digest(
    hooks: Hooks, reference_batch_keys_dir: Path, circuit: str
) -> None:
    file, kind = BATCH_KEYS[circuit]
    cs = hooks.read_key(reference_batch_keys_dir / file)
    assert_counts(cs, key_row(f"{circuit}.key", "0.8.0"))
    assert cs.counts.batch_kind == kind
    golden = {entry["name"]: entry["r1cs_digest"] for entry in load("gnark/circuits.json")["circuits"]}
    # gnark 0.14 compiles append without one row per element.
    assert (cs.digest() == golden[circuit]) == (circuit != "batch_append_32_10")
