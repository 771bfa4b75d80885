"""Prepared key files taken apart and sealed again, written only from their reference page.

See prover/docs/reference/prepared-key-format.md, "Layout".
"""

from __future__ import annotations

import mmap
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HEADER = struct.Struct("<8sIIQIIQQIIQ32s3QQ")
SECTION = struct.Struct("<IIIIQQQ3Q")
HEADER_FIELDS = (
    "magic",
    "version",
    "byte_order",
    "file_bytes",
    "header_bytes",
    "section_count",
    "directory_offset",
    "directory_checksum",
    "point_format",
    "reserved0",
    "source_bytes",
    "source_sha256",
    "reserved1",
    "reserved2",
    "reserved3",
    "checksum",
)
SECTION_FIELDS = (
    "type",
    "version",
    "flags",
    "element_bytes",
    "offset",
    "count",
    "checksum",
    "parameter0",
    "parameter1",
    "parameter2",
)
REQUIRED = 1
WORD = 2**64
PRIMES = (0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9, 0x85EBCA77C2B2AE63, 0x27D4EB2F165667C5)

TYPES = {
    "info": 0x01,
    "constants": 0x02,
    "verifying_key": 0x03,
    "verifying_k": 0x04,
    "points_a": 0x10,
    "points_b1": 0x11,
    "points_k": 0x12,
    "points_z": 0x13,
    "points_b2": 0x14,
    "wires_a": 0x18,
    "wires_b": 0x19,
    "twiddles": 0x20,
    "coefficients": 0x30,
    "terms": 0x31,
    "expression_start": 0x32,
    "rows": 0x33,
    "hints": 0x34,
    "program": 0x35,
    "component_start": 0x36,
    "slice_start": 0x37,
}
TABLES = {"table_a": 0x40, "table_kz": 0x41, "table_b2": 0x42}
FOLDS = {"fold_k": 0x50, "fold_t": 0x51, "fold_wires": 0x52}
"""Sections that a file may lack."""
UNCHECKED = ("points_a", "points_b1", "points_k", "points_z", "points_b2", "twiddles")
"""Sections whose checksums a load need not compare."""
SPARE = ("points_b1", "twiddles")
"""What no proof of a service reads under a key of a small domain, and so no load of one compares."""
INFO_WORDS = (
    "format_version",
    "header_words",
    "reserved0",
    "reserved1",
    "header0",
    "header1",
    "header2",
    "header3",
    "wires",
    "public_wires",
    "secret_wires",
    "internal_wires",
    "constraints",
    "coefficients",
    "expressions",
    "hints",
    "instructions",
    "components",
    "slices",
    "checks_start",
    "levels",
    "batch_kind",
    "domain_log2",
    "verifying_k",
    "a_count",
    "b_count",
    "k_count",
    "z_count",
)


def rotate(value: int, bits: int) -> int:
    """Rotate 64 bits to the left."""
    return (value << bits | value >> (64 - bits)) % WORD


def xxh64(data: bytes) -> int:
    """Return XXH64 with seed 0, from its specification."""
    p1, p2, p3, p4, p5 = PRIMES

    def mix(lane: int, word: int) -> int:
        return rotate((lane + word * p2) % WORD, 31) * p1 % WORD

    at = 0
    if len(data) >= 32:
        lanes = [(p1 + p2) % WORD, p2, 0, -p1 % WORD]
        while at + 32 <= len(data):
            words = struct.unpack_from("<4Q", data, at)
            lanes = [mix(lane, word) for lane, word in zip(lanes, words, strict=True)]
            at += 32
        value = sum(rotate(lane, bits) for lane, bits in zip(lanes, (1, 7, 12, 18), strict=True)) % WORD
        for lane in lanes:
            value = ((value ^ mix(0, lane)) * p1 + p4) % WORD
    else:
        value = p5
    value = (value + len(data)) % WORD
    while at + 8 <= len(data):
        value = (rotate(value ^ mix(0, struct.unpack_from("<Q", data, at)[0]), 27) * p1 + p4) % WORD
        at += 8
    if at + 4 <= len(data):
        value = (rotate(value ^ struct.unpack_from("<I", data, at)[0] * p1 % WORD, 23) * p2 + p3) % WORD
        at += 4
    for byte in data[at:]:
        value = rotate(value ^ byte * p5 % WORD, 11) * p1 % WORD
    value = (value ^ value >> 33) * p2 % WORD
    value = (value ^ value >> 29) * p3 % WORD
    return value ^ value >> 32


@dataclass
class Section:
    """An entry of the directory and its bytes."""

    fields: dict[str, int]
    data: bytearray

    @property
    def type(self) -> int:
        """Its number."""
        return self.fields["type"]

    def word(self, index: int, value: int | None = None) -> int:
        """Read a 32-bit word, or write one."""
        if value is not None:
            struct.pack_into("<I", self.data, 4 * index, value)
        return int(struct.unpack_from("<I", self.data, 4 * index)[0])


@dataclass
class PreparedFile:
    """A prepared file in parts. ``write`` corrects offsets, counts and all checksums by default."""

    header: dict[str, Any]
    sections: list[Section]

    @classmethod
    def read(cls, data: bytes) -> PreparedFile:
        """Take a file apart."""
        header = dict(zip(HEADER_FIELDS, HEADER.unpack_from(data), strict=True))
        sections = []
        for i in range(header["section_count"]):
            entry = SECTION.unpack_from(data, header["directory_offset"] + i * SECTION.size)
            fields = dict(zip(SECTION_FIELDS, entry, strict=True))
            start = fields["offset"]
            size = fields["element_bytes"] * fields["count"]
            sections.append(Section(fields, bytearray(data[start : start + size])))
        return cls(header, sections)

    def section(self, name: str) -> Section:
        """Return the section of a type."""
        return next(section for section in self.sections if section.type == {**TYPES, **TABLES, **FOLDS}[name])

    def write(self, **entries: int) -> bytes:
        """Return the whole file, with new offsets and checksums.

        ``entries`` then overwrite header fields, under a right checksum.
        """
        body = bytearray()
        start = HEADER.size + SECTION.size * len(self.sections)
        for section in self.sections:
            fields = section.fields
            body += bytes(-(start + len(body)) % (4096 if len(section.data) >= 4096 else 64))
            fields["offset"] = start + len(body)
            fields["count"] = len(section.data) // fields["element_bytes"]
            fields["checksum"] = xxh64(bytes(section.data))
            body += section.data
        return self.seal(bytes(body), **entries)

    def seal(self, body: bytes, **entries: int) -> bytes:
        """Return header and directory as they are, with right checksums, in front of ``body``."""
        directory = b"".join(SECTION.pack(*section.fields.values()) for section in self.sections)
        self.header["section_count"] = len(self.sections)
        self.header["file_bytes"] = HEADER.size + len(directory) + len(body)
        self.header["directory_checksum"] = xxh64(directory)
        self.header.update(entries)
        header = HEADER.pack(*self.header.values())
        header = header[:-8] + struct.pack("<Q", xxh64(header[:-8]))
        return header + directory + body


def in_memory(data: bytes) -> mmap.mmap:
    """Return the bytes at the start of a page, as a mapped file has them."""
    memory = mmap.mmap(-1, max(len(data), 1))
    memory[: len(data)] = data
    return memory


def all_but_notes(folder: Path) -> list[Path]:
    """Return what there is in a folder of prepared keys, without the notes of what belongs to which source."""
    return sorted(path for path in folder.iterdir() if path.suffix != ".mark")
