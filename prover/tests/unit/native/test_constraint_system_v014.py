"""Constraint systems of gnark 0.14 that the kernel refuses: framed sections.

See prover/docs/reference/gnark-keys.md, "Constraint system 0.14" and "Checks at load".
"""

from __future__ import annotations

import resource
import struct
from collections.abc import Callable
from pathlib import Path

import pytest
from constraint_system_hooks import FORMAT_014, Hooks
from gnark_conversion import Tagged, key_sections
from golden_vectors import load
from tiny_system import Modern, modern, refused


@pytest.fixture(scope="module")
def hooks(testing_library: Path) -> Hooks:
    return Hooks(testing_library)


def test_modern_parts__unchanged__are_the_golden_file(hooks: Hooks) -> None:
    key = bytes.fromhex(load("gnark/tiny.json")["key_v0_14_hex"])
    data = modern().write()
    assert data == key[key_sections(key, format_014=True).verifying_key_end :]
    assert hooks.read(data, FORMAT_014).counts.constraints == 11


def _words(first: int, values: list[int]) -> Callable[[Modern], None]:
    def change(parts: Modern) -> None:
        parts.instructions.words[first : first + len(values)] = values

    change.__name__ = f"words[{first}]={values}"
    return change


def _body(key: str, value: object) -> Callable[[Modern], None]:
    def change(parts: Modern) -> None:
        parts.body[key] = value

    change.__name__ = f"{key}={str(value)[:24]}"
    return change


def _no_body(key: str) -> Callable[[Modern], None]:
    def change(parts: Modern) -> None:
        del parts.body[key]

    change.__name__ = f"without {key}"
    return change


def _column(name: str, place: int, value: int) -> Callable[[Modern], None]:
    def change(parts: Modern) -> None:
        getattr(parts.instructions, name)[place] = value

    change.__name__ = f"{name}[{place}]={value}"
    return change


def _short_column(name: str) -> Callable[[Modern], None]:
    def change(parts: Modern) -> None:
        getattr(parts.instructions, name).pop()

    change.__name__ = f"short {name}"
    return change


def _one_level_less(parts: Modern) -> None:
    parts.levels[0].remove(9 if 9 in parts.levels[0] else parts.levels[0][-1])


def _level_entry_twice(parts: Modern) -> None:
    parts.levels[0][1] = parts.levels[0][0]


def _level_entry_too_large(parts: Modern) -> None:
    parts.levels[0][0] = 13


def _extra_words(parts: Modern) -> None:
    parts.instructions.words += [4, 0, 0, 0]


def _more_instructions_than_words(parts: Modern) -> None:
    out = parts.instructions
    for column in (out.blueprint, out.row_offset, out.wire_offset, out.start, out.level):
        column.extend(column[-1:] * 40)


GKR = {"Prints": None, "Circuit": [1]}

CASES_014: list[tuple[Callable[[Modern], None], str, str]] = [
    (_words(0, [11]), "malformed_key", "instruction 0: it says 11 words, but has 10"),
    (_words(10, [9]), "malformed_key", "instruction 1: it says 9 words, but has 8"),
    (_words(1, [2**31]), "malformed_key", "instruction 0: it says 10 words, but has 4294967304"),
    (_words(1, [2**32]), "malformed_key", "instruction 0: its calldata is cut off or has a word of 2^32 or more"),
    (_words(11, [2224041163]), "unsupported_key", "hint #0: unknown hint id 2224041163"),
    (_words(11, [12345]), "unsupported_key", "hint #0: unknown hint id 12345"),
    (_words(16, [9, 9]), "malformed_key", "hint #0: 1 inputs and 0 outputs from wire 9 on do not suit the hint"),
    (_words(16, [9, 5]), "malformed_key", "hint #0: 1 inputs and 0 outputs from wire 9 on do not suit the hint"),
    (_words(16, [3, 7]), "malformed_key", "hint #0: its outputs 3 to 6 are not internal wires"),
    (_words(16, [4, 8]), "malformed_key", "hint #0: its output wire 4 is solved twice"),
    (_words(16, [10, 14]), "malformed_key", "hint #0: its outputs 10 to 13 are not internal wires"),
    (_words(16, [5, 600]), "malformed_key", "hint #0: 1 inputs and 595 outputs from wire 5 on do not suit the hint"),
    (_words(5, [2**32 - 1]), "malformed_key", "constraint #0: wire 4294967295 does not exist, there are 13"),
    (_words(15, [6]), "malformed_key", "hint #0: reads wire 6 before it is solved"),
    (_extra_words, "malformed_key", "the instructions end at word 154 of 158 of the calldata"),
    (_column("start", 3, 31), "malformed_key", "instruction 3: its calldata starts at word 30, not 31"),
    (_column("row_offset", 4, 4), "malformed_key", "instruction 4: its constraint offset is 4, not 3"),
    (_column("wire_offset", 4, 14), "malformed_key", "instruction 4: its wire offset 14 is above the number of wires"),
    (_column("blueprint", 2, 2), "malformed_key", "instruction 2: blueprint 2 does not exist"),
    (_column("blueprint", 2, 0), "malformed_key", "NbConstraints is 11, but 10 instructions are constraints"),
    (_short_column("blueprint"), "malformed_key", "NbConstraints is 11, but 10 instructions are constraints"),
    (_short_column("row_offset"), "malformed_key", "constraint offset column: 12 entries, expected 13"),
    (_short_column("wire_offset"), "malformed_key", "wire offset column: 12 entries, expected 13"),
    (_short_column("start"), "malformed_key", "calldata start column: 12 entries, expected 13"),
    (_more_instructions_than_words, "malformed_key", "blueprint column: there are more values than expected"),
    (_one_level_less, "malformed_key", "instruction 7 is missing from the levels"),
    (_level_entry_twice, "malformed_key", "level 0: instruction 0 occurs twice in the levels"),
    (_level_entry_too_large, "malformed_key", "level 0: instruction 13 does not exist"),
    (_body("NbConstraints", 12), "malformed_key", "NbConstraints is 12, but 11 instructions are constraints"),
    (_body("Type", 2), "unsupported_key", "constraint system type 2 is not R1CS"),
    (_body("GnarkVersion", "0.14.1"), "unsupported_key", "GnarkVersion is not 0.14.0"),
    (
        _body("Blueprints", [Tagged(5309735, {}), Tagged(5309739, {})]),
        "unsupported_key",
        "blueprint tag 5309739 is unknown",
    ),
    (_body("Blueprints", [Tagged(5309736, {})] * 9), "unsupported_key", "there are more than 8 blueprints"),
    (_body("CommitmentInfo", None), "malformed_key", "CommitmentInfo: expected a tag, found a simple value"),
    (_body("CommitmentInfo", Tagged(5309738, [])), "unsupported_key", "CommitmentInfo has tag 5309738"),
    (_body("CommitmentInfo", Tagged(5309737, [1])), "unsupported_key", "CommitmentInfo is not empty"),
    (_body("GkrInfo", GKR), "unsupported_key", "GkrInfo is not empty"),
    (
        _body("MHintsDependencies", {1: "x"}),
        "unsupported_key",
        "MHintsDependencies: hint id 1 with its name is unknown",
    ),
    (_no_body("Blueprints"), "malformed_key", "key Blueprints is missing"),
    (_no_body("CommitmentInfo"), "malformed_key", "key CommitmentInfo is missing"),
]


@pytest.mark.parametrize(("change", "status", "message"), CASES_014, ids=[case[0].__name__ for case in CASES_014])
def test_read_014__broken_part__is_refused(
    hooks: Hooks, change: Callable[[Modern], None], status: str, message: str
) -> None:
    parts = modern()
    change(parts)
    refusal = refused(hooks, parts.write(), FORMAT_014)
    assert (refusal.status, refusal.message) == (status, message)


@pytest.mark.parametrize("name", ["Logs", "MDebug", "GkrInfo", "DebugInfo", "SymbolTable"])
def test_read_014__optional_key_missing__is_read(hooks: Hooks, name: str) -> None:
    parts = modern()
    del parts.body[name]
    parts.body["MHintsDependencies"] = {}
    assert hooks.read(parts.write(), FORMAT_014).counts.constraints == 11


@pytest.mark.parametrize(
    ("place", "value", "status", "message"),
    [
        (0, 1266, "malformed_key", "the constraint system says that 1266 bytes follow its head"),
        (0, 2**64 - 1, "malformed_key", "the constraint system says that 18446744073709551615 bytes follow its head"),
        (8, 1, "unsupported_key", "constraint system version is not 0.14.0"),
        (16, 13, "unsupported_key", "constraint system version is not 0.14.0"),
        (24, 1, "unsupported_key", "constraint system version is not 0.14.0"),
        (32, 2**63, "malformed_key", "the section of levels is longer than the file"),
        (40, 1200, "malformed_key", "the section of instructions is longer than the file"),
        (56, 1000, "malformed_key", "the section of body is longer than the file"),
        (56, 494, "malformed_key", "the file ends early"),
        (64, 2**60, "malformed_key", "levels do not fit the bytes that remain"),
        (64, 4, "malformed_key", "level column"),
        (72, 2**61, "malformed_key", "level column: there are fewer bytes than the word count says"),
        (64 + 84, 2**40, "malformed_key", "blueprint column: there are fewer bytes than the word count says"),
        (64 + 84 + 156, 2**50, "malformed_key", "words of calldata do not fit the bytes that remain"),
    ],
)
def test_read_014__broken_framing__is_refused(hooks: Hooks, place: int, value: int, status: str, message: str) -> None:
    data = bytearray(modern().write())
    data[place : place + 8] = struct.pack("<Q", value)
    refusal = refused(hooks, bytes(data), FORMAT_014)
    assert refusal.status == status
    assert message in refusal.message


def test_read_014__bytes_after_the_table__are_refused(hooks: Hooks) -> None:
    data = modern().write()
    longer = struct.pack("<Q", len(data) - 32 + 1) + data[8:] + b"\0"
    for changed in (data + b"\0", longer):
        assert refused(hooks, changed, FORMAT_014).status == "malformed_key"


def _with_hints(parts: Modern, hints: int) -> None:
    """Add hints that solve 256 new wires each, which nothing uses."""
    out, wires = parts.instructions, 13
    parts.levels[-1].extend(range(len(out.blueprint), len(out.blueprint) + hints))
    for first in range(wires, wires + 256 * hints, 256):
        out.blueprint.append(out.blueprint[1])
        out.row_offset.append(11)
        out.wire_offset.append(wires)
        out.start.append(len(out.words))
        out.words += [6, out.words[11], 1, 0, first, first + 256]
    parts.body["NbInternalVariables"] += 256 * hints


def test_read_014__small_file_of_hints_with_many_wires__is_refused_without_memory_for_them(hooks: Hooks) -> None:
    """A hint takes twenty bytes of the file, and a kilobyte if memory for its wires is allocated."""
    hints, parts = 100_000, modern()
    _with_hints(parts, hints)
    data = parts.write()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    refusal = refused(hooks, data, FORMAT_014)
    grown = 1024 * (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
    assert (refusal.status, refusal.message) == (
        "malformed_key",
        f"{9 + 256 * hints} internal wires are more than the bytes of the constraint system",
    )
    assert grown < 512 * hints
