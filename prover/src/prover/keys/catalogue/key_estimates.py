"""Estimates for a key that is not installed: disk, memory, and working memory of a proof.

Constraint counts are those of the published circuits; they are exact except for batches, which grow with their size.
Bytes per constraint were measured on published keys of gnark 0.8, whose files are larger than those of gnark 0.14.
"""

import math
from typing import Final

from shared.requests.circuit_id import CircuitId, CircuitKind

_LEGACY_STATE: Final = 6320
_LEGACY_ADDRESS: Final = 7079
_STATE: Final = 7778
_ADDRESS: Final = 10460
_LINK: Final = 261
_HEAD: Final = 241
_JOIN: Final = 239
_ELEMENT: Final = {
    CircuitKind.BATCH_APPEND: 15_815,
    CircuitKind.BATCH_UPDATE: 16_048,
    CircuitKind.BATCH_ADDRESS_APPEND: 40_311,
}

_FILE_BYTES: Final = 660
_RESIDENT_BYTES: Final = 590
_SCRATCH_BYTES_PER_ROW: Final = 272
_SCRATCH_BYTES: Final = 2 * 2**20
# Buckets of a thread: about the square root of the rows, with a minimum.
_THREAD_BYTES_PER_ROOT: Final = 17 * 2**10
_THREAD_BYTES: Final = 3 * 2**19


def constraints_of(circuit: CircuitId) -> int:
    """Return the approximate number of constraints of a published circuit."""
    sizes = circuit.sizes
    if circuit.kind.is_batch:
        return _ELEMENT[circuit.kind] * sizes[0]
    legacy = circuit.version == 1
    state = _LEGACY_STATE * sizes[0] if legacy else _hashed(_STATE, sizes[0])
    address = _LEGACY_ADDRESS * sizes[-1] if legacy else _hashed(_ADDRESS, sizes[-1])
    match circuit.kind:
        case CircuitKind.INCLUSION:
            return state
        case CircuitKind.NON_INCLUSION:
            return address
        case _:
            return state + address + (0 if legacy else _JOIN)


def file_bytes(circuit: CircuitId) -> int:
    """Return the approximate maximum size of a key file in bytes."""
    return constraints_of(circuit) * _FILE_BYTES


def resident_bytes(circuit: CircuitId) -> int:
    """Return the approximate maximum memory of a loaded key in bytes; its prepared key takes as much disk."""
    return constraints_of(circuit) * _RESIDENT_BYTES


def scratch_bytes(circuit: CircuitId, threads: int) -> int:
    """Return the approximate maximum working memory of one proof in bytes, by an engine with ``threads`` threads."""
    domain_size = 1 << (constraints_of(circuit) - 1).bit_length()
    thread_bytes = _THREAD_BYTES + math.isqrt(domain_size) * _THREAD_BYTES_PER_ROOT
    return _SCRATCH_BYTES + domain_size * _SCRATCH_BYTES_PER_ROW + threads * thread_bytes


def _hashed(per_member: int, members: int) -> int:
    return per_member * members + _HEAD + _LINK * (members - 1)
