"""Conversion of key files from gnark 0.14 to gnark 0.8.

See prover/docs/reference/gnark-keys.md, "Conversion between format versions".
"""

import mmap
import struct

from prover.kernel.engine import Readable

_DOMAIN_BYTES = 8 + 5 * 32
_G1_BYTES = 32
_COUNT_BYTES = 4
_VERIFYING_KEY_COUNTS_BYTES = 8
_STEP_BYTES = 2**24


def gnark_08_key_bytes(system_offset: int, system: Readable) -> int:
    """Return the size of the converted file in bytes; ``system`` replaces that at ``system_offset``."""
    added = _G1_BYTES - 1 - _COUNT_BYTES - _VERIFYING_KEY_COUNTS_BYTES
    return system_offset + added + len(system)


def write_gnark_08_key(
    target: mmap.mmap,
    key: mmap.mmap,
    header_bytes: int,
    verifying_key_offset: int,
    system_offset: int,
    system: Readable,
) -> bytes:
    """Write the converted file and return its verifying key, compressed.

    gnark 0.8 stores one more point of Z, for the coefficient of X^(n-1), which is always zero: any point is valid.
    """
    domain_end = header_bytes + _DOMAIN_BYTES
    _copy(target, key, 0, domain_end)
    start = domain_end + 1  # after a flag of gnark 0.14 for tables that readers compute
    slice_a = start + 3 * _G1_BYTES
    slice_z = _slice_end(key, _slice_end(key, slice_a))
    end_z = _slice_end(key, slice_z)
    _copy(target, key, start, slice_z)
    target.write(struct.pack(">I", _count(key, slice_z) + 1))
    _copy(target, key, slice_z + _COUNT_BYTES, end_z)
    target.write(key[end_z - _G1_BYTES : end_z])
    _copy(target, key, end_z, verifying_key_offset - _COUNT_BYTES)
    verifying_key = key[verifying_key_offset : system_offset - _VERIFYING_KEY_COUNTS_BYTES]
    target.write(verifying_key)
    target.write(system)
    return verifying_key


def _count(key: mmap.mmap, at: int) -> int:
    return int.from_bytes(key[at : at + _COUNT_BYTES], "big")


def _slice_end(key: mmap.mmap, at: int) -> int:
    return at + _COUNT_BYTES + _count(key, at) * _G1_BYTES


def _copy(target: mmap.mmap, source: mmap.mmap, start: int, end: int) -> None:
    for at in range(start, end, _STEP_BYTES):
        target.write(source[at : min(end, at + _STEP_BYTES)])
