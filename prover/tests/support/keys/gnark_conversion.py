"""Writes proving keys of gnark 0.14 from those of gnark 0.8, for tests.

No key of gnark 0.14 is published, so tests of that format make their own from the published 0.8 keys:
the points stay, the framing changes and the constraint system is written again
(prover/docs/reference/gnark-keys.md, "Conversion between format versions").
The encoders here are independent of the kernel's decoders and serve to test those, too.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Any, Final

Term = tuple[int, int]
"""Coefficient id and wire."""
Expression = list[Term]

HINT_NAMES: Final = {
    2224041163: (4115454955, "github.com/consensys/gnark/std/math/bits.nBits"),
    2162097565: (2534161455, "github.com/consensys/gnark/constraint/solver.InvZeroHint"),
}
"""Hint ids of gnark 0.8 with id and name in gnark 0.14."""


@dataclass(frozen=True)
class Tagged:
    """A CBOR item with a tag."""

    tag: int
    value: object


# ---- CBOR ------------------------------------------------------------------------------------


def decode_cbor(data: bytes, offset: int = 0) -> tuple[Any, int]:
    """Return the item at `offset` and the offset after it. Knows what key files contain."""
    first = data[offset]
    major, argument = first >> 5, first & 31
    offset += 1
    if argument >= 24:
        width = 1 << (argument - 24)
        argument = int.from_bytes(data[offset : offset + width], "big")
        offset += width
    if major == 0:
        return argument, offset
    if major == 3:
        return data[offset : offset + argument].decode(), offset + argument
    if major == 4:
        items = []
        for _ in range(argument):
            item, offset = decode_cbor(data, offset)
            items.append(item)
        return items, offset
    if major == 5:
        pairs = {}
        for _ in range(argument):
            key, offset = decode_cbor(data, offset)
            pairs[key], offset = decode_cbor(data, offset)
        return pairs, offset
    if major == 6:
        value, offset = decode_cbor(data, offset)
        return Tagged(argument, value), offset
    if major == 7 and argument in (20, 21, 22):
        return {20: False, 21: True, 22: None}[argument], offset
    message = f"unexpected CBOR major type {major} before offset {offset}"
    raise ValueError(message)


def _cbor_head(major: int, argument: int) -> bytes:
    if argument < 24:
        return bytes([major << 5 | argument])
    width = next(w for w in (1, 2, 4, 8) if argument < 1 << (8 * w))
    return bytes([major << 5 | 24 + width.bit_length() - 1]) + argument.to_bytes(width, "big")


def encode_cbor(item: object) -> bytes:
    """Return core deterministic encoding: shortest integers, definite lengths, sorted keys."""
    match item:
        case None:
            return b"\xf6"
        case bool():
            return b"\xf5" if item else b"\xf4"
        case int():
            return _cbor_head(0, item)
        case str():
            return _cbor_head(3, len(item.encode())) + item.encode()
        case list():
            return _cbor_head(4, len(item)) + b"".join(map(encode_cbor, item))
        case dict():
            pairs = sorted((encode_cbor(key), encode_cbor(value)) for key, value in item.items())
            return _cbor_head(5, len(pairs)) + b"".join(key + value for key, value in pairs)
        case Tagged():
            return _cbor_head(6, item.tag) + encode_cbor(item.value)
        case _:
            message = f"cannot encode {type(item).__name__}"
            raise TypeError(message)


# ---- integer columns and words ---------------------------------------------------------------


def encode_leb128(words: list[int]) -> bytes:
    """Return seven bits per byte, least significant group first."""
    out = bytearray()
    for word in words:
        rest = word
        while rest > 0x7F:
            out.append(rest & 0x7F | 0x80)
            rest >>= 7
        out.append(rest)
    return bytes(out)


def _packed_block(values: list[int], width: int) -> list[int]:
    mask = (1 << width) - 1
    unit = 4 * width
    words: list[int] = []
    previous = values[0]
    for start in range(0, len(values), unit):
        descriptor = 0
        body: list[int] = []
        for group in range(start, start + unit, width):
            chunk = values[group : group + width]
            differences = []
            for value in chunk:
                differences.append((value - previous) & mask)
                previous = value
            zigzag = [(d << 1 ^ -(d >> (width - 1))) & mask for d in differences]
            negative = any(d >> (width - 1) for d in differences)
            magnitude = 0
            for z in zigzag:
                magnitude |= z & ~1
            bits = (magnitude >> 1).bit_length() + negative
            descriptor = descriptor << 8 | (negative << 7) | bits
            packed = 0
            for i, item in enumerate(chunk if bits == width else zigzag if negative else differences):
                packed |= item << (bits * i)
            body += [packed >> (width * i) & mask for i in range(bits)]
        words += [descriptor, *body]
    return words


def _small_block(values: list[int], width: int) -> list[int]:
    mask = (1 << width) - 1
    differences = [(b - a) & mask for a, b in zip([0, *values], values, strict=False)]
    data = encode_leb128(differences)
    step = width // 8
    data += b"\x80" * (-len(data) % step)
    return [int.from_bytes(data[i : i + step], "big") for i in range(0, len(data), step)]


def column_words(values: list[int], width: int) -> list[int]:
    """Return the words (32 or 64 bits) that the reference's compressor writes for a column."""
    packed_count = len(values) // (4 * width) * (4 * width)
    words: list[int] = []
    length = 0
    for part, packed in ((values[:packed_count], True), (values[packed_count:], False)):
        if not part:
            continue
        body = _packed_block(part, width) if packed else _small_block(part, width)
        extra = [part[0]] if packed else []
        length = len(body) + len(extra) + (2 if width == 32 else 1)
        words += [len(part), length] if width == 32 else [length << 32 | len(part)]
        words += [*extra, *body]
    return [*words, length] if words else []


def encode_column(values: list[int], width: int) -> bytes:
    """Return a column with its word count, as in the file."""
    words = column_words(values, width)
    return struct.pack(f"<Q{len(words)}{'I' if width == 32 else 'Q'}", len(words), *words)


# ---- constraint system -----------------------------------------------------------------------


@dataclass
class Instructions:
    """Columns of gnark 0.14, one entry per instruction."""

    blueprint: list[int]
    row_offset: list[int]
    wire_offset: list[int]
    start: list[int]
    level: list[int]
    words: list[int]


def _terms(raw: list[dict[str, int]] | None) -> Expression:
    return [(term["CID"], term["VID"]) for term in raw or []]


class _Emitter:
    """Appends instructions in the order of constraints, each hint just before the first that needs it."""

    def __init__(self, system: dict[str, Any]) -> None:
        self.inputs = len(system["Public"]) + len(system["Secret"])
        self.hints: dict[int, dict[str, Any]] = system["MHints"]
        self.wires = self.inputs
        self.rows = 0
        self.level_of_wire: dict[int, int] = {}
        self.out = Instructions([], [], [], [], [], [])

    def _append(self, blueprint: int, words: list[int], reads: list[Expression], outputs: range) -> None:
        internal = [wire for terms in reads for _, wire in terms if wire >= self.inputs]
        known = [self.level_of_wire[wire] for wire in internal if wire in self.level_of_wire]
        level = 1 + max(known) if known else 0
        for wire in (*internal, *outputs):
            self.level_of_wire.setdefault(wire, level)
        self.wires = max(self.wires, *(wire + 1 for wire in (*internal, *outputs)), 0)
        out = self.out
        out.blueprint.append(blueprint)
        out.row_offset.append(self.rows)
        out.wire_offset.append(self.wires)
        out.start.append(len(out.words))
        out.level.append(level)
        out.words += words

    def hint(self, wire: int) -> None:
        hint = self.hints[wire]
        inputs = [_terms(raw) for raw in hint["Inputs"]]
        for _, read in (term for terms in inputs for term in terms):
            self._place_hint(read)
        words = [HINT_NAMES[hint["ID"]][0], len(inputs)]
        for terms in inputs:
            words += [len(terms), *(value for term in terms for value in term)]
        outputs = range(hint["Wires"][0], hint["Wires"][-1] + 1)
        words += [outputs.start, outputs.stop]
        self._append(0, [len(words) + 1, *words], inputs, outputs)

    def _place_hint(self, wire: int) -> None:
        if wire in self.hints and wire not in self.level_of_wire:
            self.hint(wire)

    def row(self, raw: dict[str, Any]) -> None:
        sides = [_terms(raw[side]) for side in "LRO"]
        for _, wire in (term for terms in sides for term in terms):
            self._place_hint(wire)
        words = [*map(len, sides), *(value for terms in sides for term in terms for value in term)]
        self._append(1, [len(words) + 1, *words], sides, range(0))
        self.rows += 1


def instructions_of(system: dict[str, Any]) -> Instructions:
    """Return the instructions of gnark 0.14 for a decoded 0.8 constraint system."""
    emitter = _Emitter(system)
    for raw in system["Constraints"]:
        emitter.row(raw)
    return emitter.out


def _body(system: dict[str, Any]) -> dict[str, object]:
    gkr = dict.fromkeys(("Prints", "Circuit", "Dependencies")) | {"HashName": ""}
    return {
        "Logs": None,
        "Type": 1,
        "MDebug": {},
        "Public": system["Public"],
        "Secret": system["Secret"],
        "GkrInfo": gkr | dict.fromkeys(("NbInstances", "ProveHintID", "SolveHintID"), 0),
        "DebugInfo": None,
        "Blueprints": [Tagged(5309735, {}), Tagged(5309736, {})],
        "ScalarField": system["ScalarField"],
        "SymbolTable": {"Functions": None, "Locations": None},
        "GnarkVersion": "0.14.0",
        "NbConstraints": len(system["Constraints"]),
        "CommitmentInfo": Tagged(5309737, []),
        "MHintsDependencies": dict(HINT_NAMES[hint_id] for hint_id in system["MHintsDependencies"]),
        "NbInternalVariables": system["NbInternalVariables"],
    }


def levels_of(instructions: Instructions) -> list[list[int]]:
    """Return instruction ids per level, ascending."""
    levels: list[list[int]] = [[] for _ in range(max(instructions.level) + 1)]
    for instruction, level in enumerate(instructions.level):
        levels[level].append(instruction)
    return levels


def frame(sections: list[bytes], table: bytes, version: tuple[int, int, int] = (0, 14, 0)) -> bytes:
    """Return head, lengths of the four sections (levels, instructions, calldata, body), sections, coefficient table."""
    payload = struct.pack("<4Q", *map(len, sections)) + b"".join(sections) + table
    return struct.pack("<4Q", len(payload), *version) + payload


def sections_014(system: dict[str, Any]) -> tuple[list[bytes], bytes]:
    """Return the four sections and the coefficient table of gnark 0.14 for a decoded 0.8 system."""
    out = instructions_of(system)
    levels = levels_of(out)
    sections = [
        struct.pack("<Q", len(levels)) + b"".join(encode_column(ids, 32) for ids in levels),
        encode_column(out.blueprint, 32)
        + encode_column(out.row_offset, 32)
        + encode_column(out.wire_offset, 32)
        + encode_column(out.start, 64),
        struct.pack("<Q", len(out.words)) + encode_leb128(out.words),
        encode_cbor(_body(system)),
    ]
    table = struct.pack("<Q", len(system["Coefficients"]))
    return sections, table + b"".join(struct.pack("<4Q", *limbs) for limbs in system["Coefficients"])


def convert_constraint_system(data: bytes) -> bytes:
    """Return a constraint system of gnark 0.8 in the format of gnark 0.14."""
    system, end = decode_cbor(data)
    if end != len(data):
        message = f"{len(data) - end} bytes follow the constraint system"
        raise ValueError(message)
    return frame(*sections_014(system))


# ---- whole keys ------------------------------------------------------------------------------


@dataclass(frozen=True)
class KeySections:
    """Byte offsets inside a key file of gnark 0.8 or 0.14."""

    domain_end: int
    z_count: int
    z_end: int
    proving_key_end: int
    verifying_key_end: int


def _skip_points(data: bytes, offset: int, size: int) -> int:
    return offset + 4 + size * int.from_bytes(data[offset : offset + 4], "big")


def key_sections(data: bytes, *, format_014: bool = False, wrapper: int = 16) -> KeySections:
    """Return the positions of the parts of a key; points must be compressed. Batch keys have an eight-byte wrapper."""
    domain_end = wrapper + 168 + format_014
    z_count = _skip_points(data, _skip_points(data, domain_end + 3 * 32, 32), 32)
    z_end = _skip_points(data, z_count, 32)
    at = _skip_points(data, z_end, 32)  # K
    at = _skip_points(data, at + 2 * 64, 64)  # beta2, delta2, B2
    wires = int.from_bytes(data[at : at + 8], "big")
    proving_key_end = at + 24 + 2 * wires
    verifying_key = proving_key_end + 4 * format_014
    verifying_key_end = _skip_points(data, verifying_key + 3 * 32 + 3 * 64, 32) + 8 * format_014
    return KeySections(domain_end, z_count, z_end, verifying_key, verifying_key_end)


def convert_key(data: bytes, *, wrapper: int = 16) -> bytes:
    """Return a key of gnark 0.8 in the bytes of gnark 0.14."""
    at = key_sections(data, wrapper=wrapper)
    z_points = int.from_bytes(data[at.z_count : at.z_count + 4], "big")
    return b"".join(
        (
            data[: at.domain_end],
            b"\x01",  # tables are precomputed by the reader
            data[at.domain_end : at.z_count],
            (z_points - 1).to_bytes(4, "big"),
            data[at.z_count + 4 : at.z_end - 32],  # without the point of the coefficient that is always zero
            data[at.z_end : at.proving_key_end],
            bytes(4),
            data[at.proving_key_end : at.verifying_key_end],
            bytes(8),
            convert_constraint_system(data[at.verifying_key_end :]),
        )
    )
