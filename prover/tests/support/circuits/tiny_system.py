"""The constraint system of tiny.json in parts, for tests that change one of them."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Any

import pytest
from constraint_system_hooks import Hooks, Refused
from gnark_conversion import (
    Instructions,
    decode_cbor,
    encode_cbor,
    encode_column,
    encode_leb128,
    frame,
    instructions_of,
    key_sections,
    levels_of,
    sections_014,
)
from golden_vectors import load

BASE = 5000
"""Position of the section in its key file."""
System = dict[str, Any]


def tiny_system() -> System:
    """Return the decoded 0.8 form of the system in tiny.json."""
    key = bytes.fromhex(load("gnark/tiny.json")["key_v0_8_hex"])
    system, _ = decode_cbor(key, key_sections(key).verifying_key_end)
    return dict(system)


@dataclass
class Modern:
    """The parts of a 0.14 constraint system, for a case to change before they are written."""

    system: System
    instructions: Instructions
    levels: list[list[int]]
    body: System

    def write(self) -> bytes:
        """Return the bytes of the constraint system."""
        out = self.instructions
        sections, table = sections_014(self.system)
        sections[0] = struct.pack("<Q", len(self.levels)) + b"".join(encode_column(ids, 32) for ids in self.levels)
        columns = (out.blueprint, out.row_offset, out.wire_offset)
        sections[1] = b"".join(encode_column(column, 32) for column in columns) + encode_column(out.start, 64)
        sections[2] = struct.pack("<Q", len(out.words)) + encode_leb128(out.words)
        sections[3] = encode_cbor(self.body)
        return frame(sections, table)


def modern(system: System | None = None) -> Modern:
    """Return the parts of the tiny system, or of another decoded one."""
    system = system or tiny_system()
    instructions = instructions_of(system)
    wires = len(system["Public"]) + len(system["Secret"]) + system["NbInternalVariables"]
    instructions.wire_offset = [min(offset, wires) for offset in instructions.wire_offset]
    body, _ = decode_cbor(sections_014(system)[0][3])
    return Modern(system, instructions, levels_of(instructions), body)


def refused(hooks: Hooks, data: bytes, format_version: int) -> Refused:
    """Return how the kernel refuses these bytes."""
    with pytest.raises(Refused) as refusal:
        hooks.read(data, format_version, BASE)
    assert BASE <= refusal.value.offset <= BASE + len(data)
    return refusal.value
