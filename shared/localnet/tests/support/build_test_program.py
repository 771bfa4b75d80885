#!/usr/bin/env python3
"""Compile the compressible program of the tests into forester/tests/vectors/compressible_program.hex.

Needs gcc for BPF (Debian: gcc-bpf). Its machine code becomes a program of the Solana virtual machine: system calls,
which the source names by the hash of their name, become relocations.
"""

from __future__ import annotations

import struct
import subprocess
import tempfile
from pathlib import Path

from virtual_machine_program import elf

SOURCE = Path(__file__).with_name("compressible_program.c")
OUTPUT = Path(__file__).resolve().parents[4] / "forester" / "tests" / "vectors" / "compressible_program.hex"
# Without the jumps of v2 gcc 12 compiles an unsigned "less" into "less or equal"; those of v3 the machine lacks.
FLAGS = (
    "-Os -mcpu=v2 -mframe-limit=4000 -Wall -Wextra -Werror "
    "-ffreestanding -fno-builtin -fno-tree-loop-distribute-patterns"
)
CALLS = {
    0xA22B9C85: "sol_invoke_signed_c",
    0x11F49D86: "sol_sha256",
    0xD7793ABB: "sol_keccak256",
    0xD56B5FE9: "sol_get_clock_sysvar",
    0xBF7188F6: "sol_get_rent_sysvar",
    0x48504A38: "sol_try_find_program_address",
}
_CALL, _UNRESOLVED = 0x85, struct.pack("<BBhi", 0x85, 0x10, 0, -1)


def resolved(text: bytes) -> tuple[bytes, dict[int, str]]:
    """Return machine code whose system calls are unresolved, and these calls by offset."""
    code, calls = bytearray(text), {}
    for offset in range(0, len(code), 8):
        operation, *_, value = struct.unpack_from("<BBhI", code, offset)
        if operation == _CALL:
            calls[offset] = CALLS[value]
            code[offset : offset + 8] = _UNRESOLVED
    return bytes(code), calls


def built() -> str:
    """Return the program as hexadecimal lines."""
    with tempfile.TemporaryDirectory() as folder:
        compiled, text = Path(folder) / "program.o", Path(folder) / "text"
        subprocess.run(["bpf-gcc", *FLAGS.split(), "-c", str(SOURCE), "-o", str(compiled)], check=True)
        subprocess.run(["bpf-objcopy", "-O", "binary", "-j", ".text", str(compiled), str(text)], check=True)
        program = elf(*resolved(text.read_bytes())).hex()
    lines = [program[begin : begin + 120] for begin in range(0, len(program), 120)]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    OUTPUT.write_text(built())
