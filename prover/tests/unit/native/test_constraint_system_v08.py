"""Constraint systems of gnark 0.8 that the kernel refuses: one CBOR map.

See prover/docs/reference/gnark-keys.md, "Constraint system 0.8" and "Checks at load".
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from constraint_system_hooks import FORMAT_08, Hooks
from gnark_conversion import encode_cbor
from tiny_system import System, refused, tiny_system


@pytest.fixture(scope="module")
def hooks(testing_library: Path) -> Hooks:
    return Hooks(testing_library)


def _set(key: str, value: object) -> Callable[[System], None]:
    def change(system: System) -> None:
        system[key] = value

    change.__name__ = f"{key}={str(value)[:24]}"
    return change


def _without(key: str) -> Callable[[System], None]:
    def change(system: System) -> None:
        del system[key]

    change.__name__ = f"without {key}"
    return change


def _hint_id(system: System) -> None:
    for wire in (5, 6, 7, 8):
        system["MHints"][wire] = system["MHints"][wire] | {"ID": 4115454955}  # the name of gnark 0.14


def _hint_copy_differs(system: System) -> None:
    system["MHints"][7] = system["MHints"][7] | {"ID": 1}


def _hint_copy_missing(system: System) -> None:
    del system["MHints"][7]


def _last_hint_copy_missing(system: System) -> None:
    del system["MHints"][9]
    del system["MHints"][8]


def _hint_wires_scattered(system: System) -> None:
    for wire in (5, 6, 7, 8):
        system["MHints"][wire] = system["MHints"][wire] | {"Wires": [5, 6, 8, 7]}


def _hint_of_two_inputs(system: System) -> None:
    hint = system["MHints"][9]
    system["MHints"][9] = hint | {"Inputs": hint["Inputs"] * 2}


def _inverse_with_two_outputs(system: System) -> None:
    for wire in (9, 10):
        system["MHints"][wire] = system["MHints"][9] | {"Wires": [9, 10]}


def _hint_reads_its_output(system: System) -> None:
    system["MHints"][9] = system["MHints"][9] | {"Inputs": [[{"CID": 1, "VID": 9}]]}


def _hint_reads_later_wire(system: System) -> None:
    system["MHints"][9] = system["MHints"][9] | {"Inputs": [[{"CID": 1, "VID": 11}]]}


def _level_twice(system: System) -> None:
    system["Levels"][2][0] = 8


def _level_missing(system: System) -> None:
    system["Levels"][2].pop()


def _level_too_large(system: System) -> None:
    system["Levels"][2][0] = 11


def _hint_name(system: System) -> None:
    system["MHintsDependencies"][2224041163] = "math/bits.NBits"


def _commitment(system: System) -> None:
    system["CommitmentInfo"]["Committed"] = [1]


def _deep(system: System) -> None:
    system["DebugInfo"] = [[[[[[[[1]]]]]]]]


def _three_limbs(system: System) -> None:
    system["Coefficients"][6] = system["Coefficients"][6][:3]


def _hint_outputs_are_inputs(system: System) -> None:
    for wire in (5, 6, 7, 8):
        del system["MHints"][wire]
    system["MHints"] = {3: system["MHints"][9] | {"Wires": [3]}, 9: system["MHints"][9]}


CASES_08: list[tuple[Callable[[System], None], str, str]] = [
    (_hint_id, "unsupported_key", "hint #0: unknown hint id 4115454955"),
    (_hint_copy_differs, "malformed_key", "MHints: the record of wire 7 differs from that of wire 6"),
    (_hint_copy_missing, "malformed_key", "MHints: found wire 8 where wire 7 should be"),
    (_last_hint_copy_missing, "malformed_key", "MHints: 1 outputs of the last hint have no record"),
    (_hint_wires_scattered, "unsupported_key", "hint #0: its outputs are not consecutive wires"),
    (_hint_of_two_inputs, "malformed_key", "hint #1: 2 inputs and 1 outputs from wire 9 on do not suit the hint"),
    (_inverse_with_two_outputs, "malformed_key", "hint #1: 1 inputs and 2 outputs from wire 9 on do not suit the hint"),
    (_hint_outputs_are_inputs, "malformed_key", "hint #0: its outputs 3 to 3 are not internal wires"),
    (_hint_reads_its_output, "malformed_key", "hint #1: needs its own output"),
    (_hint_reads_later_wire, "malformed_key", "hint #1: reads wire 11 before it is solved"),
    (_level_twice, "malformed_key", "Levels: constraint #8 occurs twice"),
    (_level_missing, "malformed_key", "Levels: constraint #8 is missing"),
    (_level_too_large, "malformed_key", "Levels: constraint #11 does not exist"),
    (_hint_name, "unsupported_key", "MHintsDependencies: hint id 2224041163 with its name is unknown"),
    (_commitment, "unsupported_key", "CommitmentInfo is not empty"),
    (_set("CommitmentInfo", None), "malformed_key", "CommitmentInfo: expected a map, found a simple value"),
    (_set("GnarkVersion", "0.9.0"), "unsupported_key", "GnarkVersion is not 0.8.0"),
    (_set("Constraints", []), "malformed_key", "the constraint system has no constraints"),
    (_set("Constraints", None), "malformed_key", "Constraints: expected an array, found a simple value"),
    (_set("Coefficients", "x"), "malformed_key", "Coefficients: expected an array, found a text"),
    (_three_limbs, "malformed_key", "coefficient 6 has 3 limbs"),
    (_deep, "malformed_key", "DebugInfo: nested deeper than 8"),
    (_without("Levels"), "malformed_key", "key Levels is missing"),
    (_without("MHints"), "malformed_key", "key MHints is missing"),
    (_without("CommitmentInfo"), "malformed_key", "key CommitmentInfo is missing"),
    (_without("NbInternalVariables"), "malformed_key", "key NbInternalVariables is missing"),
]


@pytest.mark.parametrize(("change", "status", "message"), CASES_08, ids=[case[0].__name__ for case in CASES_08])
def test_read_08__broken_map__is_refused(
    hooks: Hooks, change: Callable[[System], None], status: str, message: str
) -> None:
    system = tiny_system()
    change(system)
    refusal = refused(hooks, encode_cbor(system), FORMAT_08)
    assert (refusal.status, refusal.message) == (status, message)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (b"\x6bConstraints\x8b", b"\x6bConstraints\x9b" + b"\x7f" * 8, "items do not fit the bytes that remain"),
        (b"\x6bConstraints\x8b", b"\x6bConstraints\x9f", "indefinite or reserved CBOR length"),
        (b"\x66MHints\xa5", b"\x66MHints\xba\x7f\xff\xff\xff", "items do not fit the bytes that remain"),
        (b"\xa2\x63CID\x01\x63VID\x02", b"\xa2\x63VID\x01\x63CID\x02", "Constraints: unexpected bytes"),
        (b"\xa2\x63CID\x01\x63VID\x02", b"\xa2\x63CID\x18\x01\x63VID\x02", "not in its shortest form"),
        (b"\xa2\x63CID\x01\x63VID\x02", b"\xa2\x63CID\x1b\0\0\0\1\0\0\0\0\x63VID\x02", "is above the limit 4294967295"),
        (b"\x66MDebug\xa0", b"\x64Logs\xf6", "key Logs occurs twice"),
        (b"\x64Logs\xf6", b"\x64Logs\xfb\x40\x09\x21\xfb\x54\x44\x2d\x18", "unexpected CBOR simple value or float"),
        (b"\x64Logs\xf6", b"\x64Logs\x7a\xff\xff\xff\xff", "the file ends inside a string"),
        (b"\x64Logs\xf6", b"\x64Logs\x9a\xff\xff\xff\xff", "items do not fit the bytes that remain"),
        (b"\x64Logs", b"\x44Logs", "expected a text, found a byte string"),
    ],
)
def test_read_08__broken_cbor__is_refused(hooks: Hooks, old: bytes, new: bytes, message: str) -> None:
    data = encode_cbor(tiny_system())
    start = data.index(b"\x6bConstraints") if message.startswith("Constraints") else 0
    place = data.index(old, start)
    changed = data[:place] + new + data[place + len(old) :]
    refusal = refused(hooks, changed, FORMAT_08)
    assert refusal.status == "malformed_key"
    assert message in refusal.message


def test_read_08__bytes_after_the_map__are_refused(hooks: Hooks) -> None:
    refusal = refused(hooks, encode_cbor(tiny_system()) + b"\0", FORMAT_08)
    assert (refusal.status, refusal.message) == ("malformed_key", "1 bytes follow the constraint system")


def test_read_08__unknown_key_and_debug_data__are_skipped(hooks: Hooks) -> None:
    system = tiny_system()
    system["SymbolTable"] = {"Functions": ["f", [1, 2, {"x": True}]], "Locations": []}
    system["Stranger"] = [1, -1 % 7, "text", None]
    assert hooks.read(encode_cbor(system), FORMAT_08).counts.constraints == 11
