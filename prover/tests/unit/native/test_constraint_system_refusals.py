"""Constraint systems of either gnark version that the kernel refuses.

See prover/docs/reference/gnark-keys.md, "Checks at load".

Each case changes the tiny system in one respect.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from constraint_system_hooks import FORMAT_014, FORMAT_08, Hooks, Refused
from gnark_conversion import encode_cbor
from golden_vectors import SCALAR_MODULUS
from small_systems import montgomery_limbs
from tiny_system import BASE, System, modern, refused, tiny_system


@pytest.fixture(scope="module")
def hooks(testing_library: Path) -> Hooks:
    return Hooks(testing_library)


def _term(system: System, row: int, side: str, term: int) -> dict[str, int]:
    found: dict[str, int] = system["Constraints"][row][side][term]
    return found


def _wire_too_large(system: System) -> None:
    _term(system, 3, "L", 0)["VID"] = 13


def _coefficient_too_large(system: System) -> None:
    _term(system, 4, "R", 1)["CID"] = 10


def _two_unsolved(system: System) -> None:
    system["Constraints"][0]["L"].append({"CID": 1, "VID": 12})


def _unsolved_on_both_sides(system: System) -> None:
    _term(system, 0, "L", 0)["VID"] = 4


def _coefficient_zero(system: System) -> None:
    _term(system, 0, "O", 0)["CID"] = 0


def _never_solved(system: System) -> None:
    _term(system, 9, "L", 0)["VID"] = 2


def _too_many_wires(system: System) -> None:
    system["NbInternalVariables"] = 2**31 - 1


def _wires_beyond_the_limit(system: System) -> None:
    system["NbInternalVariables"] = 2**31


def _fewer_wires(system: System) -> None:
    system["NbInternalVariables"] = 8


def _first_public(system: System) -> None:
    system["Public"][0] = "one"


def _no_public(system: System) -> None:
    system["Public"] = []


def _coefficient_not_reduced(system: System) -> None:
    limbs = SCALAR_MODULUS
    system["Coefficients"][7] = [limbs >> (64 * i) & (2**64 - 1) for i in range(4)]


def _wrong_first_coefficients(system: System) -> None:
    system["Coefficients"][3], system["Coefficients"][4] = system["Coefficients"][4], system["Coefficients"][3]


def _few_coefficients(system: System) -> None:
    system["Coefficients"] = [montgomery_limbs(value) for value in (0, 1, 2, -1)]


def _other_field(system: System) -> None:
    system["ScalarField"] = f"{SCALAR_MODULUS + 2:x}"


SYSTEM_CASES: list[tuple[Callable[[System], None], str, str]] = [
    (_wire_too_large, "malformed_key", "constraint #3: wire 13 does not exist, there are 13"),
    (_coefficient_too_large, "malformed_key", "constraint #4: coefficient 10 does not exist, there are 10"),
    (_two_unsolved, "malformed_key", "constraint #0: 2 of its terms have unsolved wires, wire 4 is one"),
    (_unsolved_on_both_sides, "malformed_key", "constraint #0: 2 of its terms have unsolved wires, wire 4 is one"),
    (_coefficient_zero, "malformed_key", "constraint #0: cannot solve wire 4, its coefficient is zero"),
    (_never_solved, "malformed_key", "wire 11 is never solved"),
    (_too_many_wires, "malformed_key", "2147483647 internal wires are more than the instructions can solve"),
    (_wires_beyond_the_limit, "malformed_key", "NbInternalVariables: 2147483648 is above the limit 2147483647"),
    (_fewer_wires, "malformed_key", "constraint #10: wire 12 does not exist, there are 12"),
    (_first_public, "malformed_key", "Public: the first wire is not the constant 1"),
    (_no_public, "malformed_key", "Public: 0 wires"),
    (_coefficient_not_reduced, "malformed_key", "coefficient 7 is not below the modulus"),
    (_wrong_first_coefficients, "malformed_key", "coefficients 0 to 4 are not 0, 1, 2, -1, -2: entry 3 differs"),
    (_few_coefficients, "malformed_key", "the coefficient table has 4 entries"),
    (_other_field, "unsupported_key", "ScalarField is not the scalar field of BN254"),
]


@pytest.mark.parametrize("format_version", [FORMAT_08, FORMAT_014])
@pytest.mark.parametrize(("change", "status", "message"), SYSTEM_CASES, ids=[case[0].__name__ for case in SYSTEM_CASES])
def test_read__broken_system__is_refused(
    hooks: Hooks, format_version: int, change: Callable[[System], None], status: str, message: str
) -> None:
    system = tiny_system()
    change(system)
    data = encode_cbor(system) if format_version == FORMAT_08 else modern(system).write()
    refusal = refused(hooks, data, format_version)
    assert (refusal.status, refusal.message) == (status, message)


@pytest.mark.parametrize("format_version", [FORMAT_08, FORMAT_014])
def test_read__every_truncation__is_refused(hooks: Hooks, format_version: int) -> None:
    data = encode_cbor(tiny_system()) if format_version == FORMAT_08 else modern().write()
    for size in range(len(data)):
        assert refused(hooks, data[:size], format_version).status in ("malformed_key", "unsupported_key")


def outcome_of(hooks: Hooks, data: bytes, format_version: int) -> str:
    """Return status of reading and solving."""
    try:
        cs = hooks.read(data, format_version, BASE)
        cs.solve([0x81, 11, 0][: cs.counts.public + cs.counts.secret - 1])
    except Refused as refusal:
        return refusal.status
    return "ok"


@pytest.mark.parametrize("format_version", [FORMAT_08, FORMAT_014])
def test_read__one_byte_changed__is_refused_or_still_solvable(hooks: Hooks, format_version: int) -> None:
    data = encode_cbor(tiny_system()) if format_version == FORMAT_08 else modern().write()
    outcomes = Counter(
        outcome_of(hooks, data[:place] + bytes([data[place] ^ change]) + data[place + 1 :], format_version)
        for place in range(len(data))
        for change in (0x01, 0x80, 0xFF)
    )
    assert set(outcomes) <= {"malformed_key", "unsupported_key", "ok", "unsatisfied_constraint"}
    # Names and coefficients may differ, little else.
    assert outcomes["ok"] + outcomes["unsatisfied_constraint"] < len(data)


def test_read__other_format__is_refused(hooks: Hooks) -> None:
    assert refused(hooks, encode_cbor(tiny_system()), FORMAT_014).status == "malformed_key"
    assert refused(hooks, modern().write(), FORMAT_08).status == "malformed_key"
