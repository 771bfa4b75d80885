"""Description of a key file from its content; names are only compared with it."""

import hashlib
import struct
from typing import Any

from msgspec import Struct

from prover.kernel.engine import KeyInfo, LoadedKey, Readable
from shared.requests.circuit_id import CircuitId, CircuitKind
from shared.trees.field import FIELD_BYTES, SCALAR_MODULUS

_KINDS = {
    1: CircuitKind.INCLUSION,
    2: CircuitKind.NON_INCLUSION,
    3: CircuitKind.COMBINED,
    4: CircuitKind.BATCH_APPEND,
    5: CircuitKind.BATCH_UPDATE,
    6: CircuitKind.BATCH_ADDRESS_APPEND,
}
_FORMAT_VERSIONS = {1: "0.8", 2: "0.14"}
_LARGEST_DOMAIN = 2**28
# Wrapper lengths of batch and Merkle keys; the domain block follows the wrapper.
_WRAPPER_BYTES = (8, 16)
_DOMAIN_BYTES = 8 + 5 * FIELD_BYTES
WORD_BYTES = 4
"""One number of the wrapper."""
PRELUDE_BYTES = _DOMAIN_BYTES + 1
"""Bytes after the wrapper that identify the format version."""


class KeyDescription(Struct, frozen=True):
    """Circuit, format version and sizes of a loaded key file; ``circuit`` is None for an unknown circuit."""

    circuit: CircuitId | None
    format_version: str
    verifying_key_digest: str
    info: KeyInfo

    def as_json(self) -> dict[str, Any]:
        """Return the members that `prover inspect` prints as JSON; sizes are counts unless the name says bytes."""
        info = self.info
        return {
            "circuit": self.circuit.name if self.circuit else None,
            "kind": self.circuit.kind.value if self.circuit else None,
            "version": self.circuit.version if self.circuit else None,
            "heights": list(self.circuit.heights) if self.circuit else None,
            "sizes": list(self.circuit.sizes) if self.circuit else None,
            "format_version": self.format_version,
            "verifying_key_sha256": self.verifying_key_digest,
            "constraints": info.constraints,
            "wires": info.wires,
            "public_inputs": info.public_inputs,
            "secret_inputs": info.secret_inputs,
            "domain_size": info.domain_size,
            "points": {"a": info.points_a, "b": info.points_b, "k": info.points_k, "z": info.points_z},
            "file_bytes": info.file_bytes,
            "resident_bytes": info.resident_bytes,
        }


def circuit_of(info: KeyInfo) -> CircuitId | None:
    """Return the circuit of a key, None if it is unknown."""
    kind = _KINDS.get(info.kind)
    if kind is None:
        return None
    header = info.header
    if kind is CircuitKind.INCLUSION:
        heights, sizes = header[0:1], header[1:2]
    elif kind is CircuitKind.NON_INCLUSION:
        heights, sizes = header[2:3], header[3:4]
    elif kind is CircuitKind.COMBINED:
        heights, sizes = (header[0], header[2]), (header[1], header[3])
    else:
        heights, sizes = header[0:1], header[1:2]
    return CircuitId(kind, info.version, heights, sizes)


def header_of(circuit: CircuitId) -> tuple[int, ...]:
    """Return the words of the wrapper of a circuit's key file, 2 for batches, 4 for others."""
    pairs = list(zip(circuit.heights, circuit.sizes, strict=True))
    if circuit.kind is CircuitKind.INCLUSION:
        pairs.append((0, 0))
    elif circuit.kind is CircuitKind.NON_INCLUSION:
        pairs.insert(0, (0, 0))
    return tuple(word for pair in pairs for word in pair)


def describe(key: LoadedKey) -> KeyDescription:
    """Describe a loaded key; the digest is SHA-256 of its compressed verifying key."""
    return KeyDescription(
        circuit=circuit_of(key.info),
        format_version=_FORMAT_VERSIONS.get(key.info.format_version, str(key.info.format_version)),
        verifying_key_digest=hashlib.sha256(key.verifying_key.write()).hexdigest(),
        info=key.info,
    )


def looks_like_proving_key(data: Readable) -> bool:
    """Return whether data is a whole key file, not a verifying key alone, by the domain block after the wrapper."""
    with memoryview(data) as view:
        return any(_is_domain(bytes(view[start : start + 8 + FIELD_BYTES])) for start in _WRAPPER_BYTES)


def is_gnark_08_proving_key(data: Readable) -> bool:
    """Return whether gnark 0.8 wrote a proving key: a point follows the domain block, not a byte 0 or 1 as later."""
    with memoryview(data) as view:
        return len(view) > _DOMAIN_BYTES and view[_DOMAIN_BYTES] > 1


def _is_domain(block: bytes) -> bool:
    if len(block) < 8 + FIELD_BYTES:
        return False
    (size,) = struct.unpack_from(">Q", block)
    inverse = int.from_bytes(block[8:], "big")
    power_of_two = 0 < size <= _LARGEST_DOMAIN and size & (size - 1) == 0
    return power_of_two and bool(size * inverse % SCALAR_MODULUS == 1)
