"""A program that owns compressed accounts: it hands its instruction on to the Light system program, signed by its PDA.

Only a program can make V2 addresses and hold accounts with data. This one is assembled here, since nothing else in
these tests needs a compiler of sBPF (the instruction set of the Solana virtual machine, version 0; ELF of 64 bits).

Its accounts: the Light system program, then the accounts of the call, the second of which is the PDA
``["cpi_authority", bump]``. Its data: the bump, then the data of the call.
"""

from __future__ import annotations

import struct

from solders.instruction import AccountMeta, Instruction
from solders.keypair import Keypair
from solders.pubkey import Pubkey
from virtual_machine_program import elf

from localnet.chain import addresses

PROGRAM = Keypair.from_seed(b"invoking program".ljust(32, b".")).pubkey()
SEED = b"cpi_authority"
AUTHORITY, BUMP = Pubkey.find_program_address([SEED], PROGRAM)
_SYSCALL = "sol_invoke_signed_c"

_HEAP = 0x3_0000_0000
_INFO, _META = 56, 16  # SolAccountInfo and SolAccountMeta of the C interface
_METAS = 64 * _INFO
_REALLOCATION = 10_240  # bytes behind the data of an account in the input


def _op(code: int, to: int = 0, source: int = 0, offset: int = 0, value: int = 0) -> bytes:
    return struct.pack("<BBhi", code, source << 4 | to, offset, value)


def _load64(to: int, value: int) -> bytes:
    return struct.pack("<BBhI", 0x18, to, 0, value & 0xFFFF_FFFF) + struct.pack("<BBhI", 0, 0, 0, value >> 32)


def _address(to: int, base: int, value: int) -> bytes:
    """Return to = base + value."""
    return _op(0xBF, to, base) + _op(0x07, to, value=value)


def _copy(to: int, to_offset: int, source: int, offset: int, *, byte: bool = False) -> bytes:
    """Return a field of 1 or 8 bytes, through register 0."""
    load, store = (0x71, 0x73) if byte else (0x79, 0x7B)
    return _op(load, 0, source, offset) + _op(store, to, 0, to_offset)


def _store_address(to: int, offset: int, base: int, value: int) -> bytes:
    return _address(0, base, value) + _op(0x7B, to, 0, offset)


def _account() -> bytes:
    """Assemble one account at register 6 of the input: its info at register 4; register 6 is moved after it."""
    code = b"".join(_store_address(4, at, 6, value) for at, value in ((0, 8), (8, 72), (24, 88), (32, 40)))
    code += _copy(4, 16, 6, 80)  # size of the data
    code += b"".join(_copy(4, at, 6, value, byte=True) for at, value in ((48, 1), (49, 2), (50, 3)))
    code += _op(0x79, 0, 6, 80) + _op(0x0F, 6, 0) + _op(0x07, 6, value=88 + _REALLOCATION + 7)
    code += _op(0x57, 6, value=-8)  # up to a multiple of 8
    return code + _copy(4, 40, 6, 0) + _op(0x07, 6, value=8)  # rent epoch


def _repeated() -> bytes:
    """Return an account that was there before, as register 0 says: its info is copied."""
    code = _op(0x27, 0, value=_INFO) + _op(0xBF, 3, 8) + _op(0x0F, 3, 0)
    code += b"".join(_copy(4, at, 3, at) for at in range(0, _INFO, 8))
    return code + _op(0x07, 6, value=8)


def _meta() -> bytes:
    """Return the meta at register 5 from the info at register 4."""
    return _copy(5, 0, 4, 0) + _copy(5, 8, 4, 49, byte=True) + _copy(5, 9, 4, 48, byte=True)


def _text() -> bytes:
    """Return the code; registers: 6 position in input, 7 accounts left, 8 infos, 4 and 5 info and meta, 9 accounts."""
    once, again = _account(), _repeated()
    first = _op(0x71, 0, 6) + _op(0x55, 0, 0, len(once) // 8 + 1, 255)
    body = first + once + _op(0x05, 0, 0, len(again) // 8) + again + _meta()
    body += _op(0x07, 4, value=_INFO) + _op(0x07, 5, value=_META) + _op(0x07, 7, value=-1)
    code = _op(0xBF, 6, 1) + _op(0x79, 7, 6) + _op(0xBF, 9, 7) + _op(0x07, 6, value=8)
    code += _load64(8, _HEAP) + _op(0xBF, 4, 8) + _address(5, 8, _METAS)
    code += body + _op(0x55, 7, 0, -(len(body) // 8) - 1)
    code += _op(0x72, 8, 0, _METAS + 2 * _META + 9, 1)  # the PDA signs
    # The call, at -40: program, accounts, their number, data, its size.
    code += _copy(10, -40, 8, 0) + _store_address(10, -32, 8, _METAS + _META)
    code += _address(0, 9, -1) + _op(0x7B, 10, 0, -24) + _store_address(10, -16, 6, 9)
    code += _op(0x79, 0, 6) + _op(0x07, 0, value=-1) + _op(0x7B, 10, 0, -8)
    # The seeds, at -72, and the one list of seeds, at -88; the text of the first at -104.
    words = SEED.ljust(16, b"\0")
    for at, word in ((-104, words[:8]), (-96, words[8:])):
        code += _load64(0, int.from_bytes(word, "little")) + _op(0x7B, 10, 0, at)
    code += _store_address(10, -72, 10, -104) + _op(0x7A, 10, 0, -64, len(SEED))
    code += _store_address(10, -56, 6, 8) + _op(0x7A, 10, 0, -48, 1)
    code += _store_address(10, -88, 10, -72) + _op(0x7A, 10, 0, -80, 2)
    code += _address(1, 10, -40) + _op(0xBF, 2, 8) + _op(0xBF, 3, 9) + _address(4, 10, -88) + _op(0xB7, 5, value=1)
    return code + _op(0x85, 0, 1, 0, -1) + _op(0xB7, 0) + _op(0x95)


def program() -> bytes:
    """Return the program as an ELF file; the one call of a syscall is resolved when it is loaded."""
    text = _text()
    return elf(text, {text.rindex(_op(0x85, 0, 1, 0, -1)): _SYSCALL})


def invoke_light_system(data: bytes, metas: list[AccountMeta]) -> Instruction:
    """Let the program make a call; the second account is its PDA, which cannot sign outside."""
    accounts = [AccountMeta(addresses.LIGHT_SYSTEM, False, False), *metas]
    return Instruction(PROGRAM, bytes([BUMP]) + data, accounts)
