#!/usr/bin/env python3
"""Count the instructions of the kernels in which a proof on a GPU spends its time, in their machine code for sm_90.

    gpu_counts.py        print the counts as JSON

The CUDA compiler and the disassembler are packages (prover/scripts/native cuda-counts); no GPU takes part. Times by
these counts: prover/docs/explanation/cuda.md, "Times by instructions".
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

WORKSPACE = Path(__file__).resolve().parents[4]
KERNELS = (
    "product",
    "g1_msm_accumulate",
    "g2_msm_accumulate",
    "g2_msm_accumulate_small",
    "g2_msm_accumulate_halves",
    "ntt_pass",
)
_FUNCTION = re.compile(r"^\s*Function : _Z\d+(\w+?)_kernel\w*\n(.*?)(?=^\s*Function : |\Z)", re.MULTILINE | re.DOTALL)
_INSTRUCTION = re.compile(r"^\s*/\*([0-9a-f]{4,})\*/\s+(?:@!?U?P\w+\s+)?([A-Z][A-Z0-9_.]*)([^;]*);", re.MULTILINE)
_RESOURCES = re.compile(r"Function _Z\d+(\w+?)_kernel\w*:\s+REG:(\d+) STACK:(\d+)")
_INSTRUCTION_BYTES = 16


class CompilerUnavailable(Exception):
    """There is no CUDA compiler, or no disassembler; the message says why."""


@dataclass(frozen=True)
class Instruction:
    """An instruction; ``target`` is the address that a branch jumps to."""

    address: int
    name: str
    target: int | None

    @property
    def is_wide(self) -> bool:
        """True for a wide multiply-add, of which a multiprocessor starts a limited number per clock."""
        return self.name.startswith("IMAD.WIDE")

    @property
    def is_high(self) -> bool:
        """True for the high half of a product, which takes as long as a wide multiply-add."""
        return self.name.startswith("IMAD.HI")

    @property
    def is_low(self) -> bool:
        """True for a multiply-add of 32 bits, of which a multiprocessor starts twice as many per clock."""
        return self.name == "IMAD"

    @property
    def is_local(self) -> bool:
        """True for a load or store of what did not fit into registers."""
        return self.name.startswith(("LDL", "STL"))


@dataclass(frozen=True)
class Counts:
    """Code of a kernel: bytes, registers of a thread, slots of the multipliers, and the longest loop."""

    code_bytes: int
    registers: int
    stack_bytes: int
    slots: float
    loop: int
    loop_wide: int
    loop_slots: float
    loop_local: int


def multiplier_slots(code: Sequence[Instruction]) -> float:
    """Return the time that code takes of the multipliers, in wide multiply-adds."""
    return sum(one.is_wide + one.is_high + one.is_low / 2 for one in code)


def longest_loop(code: Sequence[Instruction]) -> list[Instruction]:
    """Return the longest stretch from the target of a backward branch to the branch; empty without one."""
    longest: list[Instruction] = []
    for last in code:
        if last.target is not None and last.target < last.address:
            loop = [one for one in code if last.target <= one.address <= last.address]
            longest = max(longest, loop, key=len)
    return longest


def read_counts(disassembly: str, resources: str) -> dict[str, Counts]:
    """Return the counts of each kernel, by the output of ``cuobjdump -sass`` and ``cuobjdump -res-usage``."""
    used = {name: (int(registers), int(stack)) for name, registers, stack in _RESOURCES.findall(resources)}
    found = {}
    for kernel, text in _FUNCTION.findall(disassembly):
        code = []
        for address, name, operands in _INSTRUCTION.findall(text):
            jump = re.search(r"0x([0-9a-f]+)\s*$", operands) if name.startswith("BRA") else None
            code.append(Instruction(int(address, 16), name, int(jump[1], 16) if jump else None))
        loop = longest_loop(code)
        found[kernel] = Counts(
            code_bytes=code[-1].address + _INSTRUCTION_BYTES,
            registers=used[kernel][0],
            stack_bytes=used[kernel][1],
            slots=multiplier_slots(code),
            loop=len(loop),
            loop_wide=sum(one.is_wide for one in loop),
            loop_slots=multiplier_slots(loop),
            loop_local=sum(one.is_local for one in loop),
        )
    return found


def counts() -> dict[str, Counts]:
    """Compile the kernels, unless that was done, and count. Raises CompilerUnavailable."""
    answer = subprocess.run(
        ["prover/scripts/native", "cuda-counts"], cwd=WORKSPACE, capture_output=True, text=True, check=False
    )
    if answer.returncode != 0:
        raise CompilerUnavailable(answer.stderr.strip())
    binary, tools = answer.stdout.splitlines()[-1].split()
    environment = os.environ | {"PATH": f"{tools}:{os.environ['PATH']}"}
    sass, resources = (
        subprocess.run(
            [f"{tools}/cuobjdump", option, binary],
            cwd=WORKSPACE,
            env=environment,
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for option in ("-sass", "-res-usage")
    )
    return read_counts(sass, resources)


def main() -> int:
    """Print the counts; return the exit status."""
    try:
        found = counts()
    except CompilerUnavailable as error:
        print(error, file=sys.stderr)
        return 1
    print(json.dumps({name: asdict(found[name]) for name in KERNELS}, indent=2))
    return 0


if __name__ == "__main__":
    sys.exit(main())
