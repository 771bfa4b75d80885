"""Positions in a key file whose points are all compressed, for tests that change them."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

VECTORS = Path(__file__).resolve().parents[2] / "vectors" / "gnark"


def vectors(name: str) -> Any:
    """Return a file of golden vectors."""
    return json.loads((VECTORS / name).read_text())


def tiny_key(format_version: str) -> bytes:
    """Return the 11-constraint key of gnark "0.8" or "0.14"."""
    return bytes.fromhex(vectors("tiny.json")[f"key_v{format_version.replace('.', '_')}_hex"])


def proof_bytes(proof: dict[str, Any]) -> bytes:
    """Return 256 bytes from the hexadecimal coordinates of a golden proof."""
    coordinates = [*proof["ar"], *(part for pair in proof["bs"] for part in pair), *proof["krs"]]
    return b"".join(int(value, 16).to_bytes(32, "big") for value in coordinates)


@dataclass(frozen=True)
class Field:
    """Bytes [start, end) of a key file."""

    start: int
    end: int


def layout(data: bytes, wrapper_bytes: int, newer: bool) -> dict[str, Field]:
    """Return the fields of a key file by name; slices as "A" (points) after "A.count", all sizes in bytes."""
    fields: dict[str, Field] = {}
    at = 0

    def take(name: str, size: int) -> Field:
        nonlocal at
        fields[name] = Field(at, at + size)
        at += size
        return fields[name]

    def number(field: Field) -> int:
        return int.from_bytes(data[field.start : field.end], "big")

    def points(name: str, size: int) -> None:
        take(name, size * number(take(f"{name}.count", 4)))

    take("wrapper", wrapper_bytes)
    take("n", 8)
    for name in ("1/n", "w", "1/w", "coset", "1/coset"):
        take(name, 32)
    if newer:
        take("flag", 1)
    for name in ("alpha", "beta", "delta"):
        take(name, 32)
    for name in ("A", "B", "Z", "K"):
        points(name, 32)
    take("beta2", 64)
    take("delta2", 64)
    points("B2", 64)
    wires = number(take("wires", 8))
    take("absent A", 8)
    take("absent B", 8)
    take("map A", wires)
    take("map B", wires)
    if newer:
        take("commitments", 4)
    for name, size in (("alpha", 32), ("beta", 32), ("beta2", 64), ("gamma2", 64), ("delta", 32), ("delta2", 64)):
        take(f"vk.{name}", size)
    points("vk.K", 32)
    if newer:
        take("vk.commitments", 8)
    fields["constraint system"] = Field(at, len(data))
    return fields
