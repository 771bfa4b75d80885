"""The assembly of the device's field, interpreted as its manual (PTX ISA 9.0) defines it, against Python's integers.

Other tests run the C code next to each chain of instructions; this runs the chains themselves, without a GPU.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from cuda_compiler import cuda_compiler
from hypothesis import given, settings
from hypothesis import strategies as st
from kernel_library import P, R

ROOT = Path(__file__).resolve().parents[4]
NATIVE = ROOT / "prover/native"
MODULI = {"fp": P, "fr": R}
RESULTS = ("add", "sub", "mul", "sqr", "neg")
MASK = (1 << 32) - 1
MONTGOMERY = 1 << 256


class Machine:
    """Registers, the carry flag, and memory in words of 32 bits, of one thread."""

    def __init__(self, parameters: dict[str, int], memory: dict[int, int]) -> None:
        self.registers: dict[str, int] = {}
        self.parameters, self.memory, self.carry = parameters, memory, 0

    def run(self, statements: list[str]) -> None:
        """Execute straight-line code."""
        for statement in statements:
            operation, _, rest = statement.partition(" ")
            name = operation.split(".")
            operands = re.findall(r"\{[^}]*\}|\[[^]]*\]|[^,\s]+", rest)
            if name[0] in ("ld", "st"):
                self._move(name, operands)
            elif name[0] != "ret":
                self._compute(name, operands)

    def _value(self, operand: str) -> int:
        return self.registers[operand] if operand.startswith("%") else int(operand, 0) & MASK

    def _move(self, name: list[str], operands: list[str]) -> None:
        stores = name[0] == "st"
        place, _, offset = operands[0 if stores else 1].strip("[]").partition("+")
        registers = re.findall(r"%\w+", operands[1 if stores else 0])
        if name[1] == "param":
            self.registers[registers[0]] = self.parameters[place]
            return
        first = self.registers[place] + int(offset or 0)
        for i, register in enumerate(registers):
            if stores:
                self.memory[first + 4 * i] = self.registers[register]
            else:
                self.registers[register] = self.memory[first + 4 * i]

    def _compute(self, name: list[str], operands: list[str]) -> None:
        values = [self._value(operand) for operand in operands[1:]]
        carry_in = self.carry if name[0] in ("addc", "madc", "subc") else 0
        if name[0] in ("mad", "madc", "mul"):
            product = values[0] * values[1]
            half = product & MASK if name[1] == "lo" else product >> 32
            answer = half if name[0] == "mul" else half + values[2] + carry_in
        else:
            plain: dict[str, Callable[[], int]] = {
                "add": lambda: values[0] + values[1],
                "addc": lambda: values[0] + values[1] + carry_in,
                "sub": lambda: values[0] - values[1],
                "subc": lambda: values[0] - values[1] - carry_in,
                "and": lambda: values[0] & values[1],
                "or": lambda: values[0] | values[1],
                "xor": lambda: values[0] ^ values[1],
                "mov": lambda: values[0],
                "cvta": lambda: values[0],
                "selp": lambda: values[0] if values[2] else values[1],
                "setp": lambda: int((values[0] == values[1]) == (name[1] == "eq")),
            }
            answer = plain[name[0]]()
        if "cc" in name:
            self.carry = int(answer > MASK or answer < 0)
        self.registers[operands[0]] = answer if name[0] == "cvta" else answer & MASK


@pytest.fixture(scope="module")
def entries(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    """The statements of each kernel."""
    out = tmp_path_factory.mktemp("ptx") / "operations.ptx"
    command = [cuda_compiler(), "-arch=sm_90", "-std=c++17", "-O3", "-ptx", "-o", str(out)]
    command += ["-I", str(NATIVE), "-I", str(NATIVE / "src"), "-I", str(ROOT / "shared/native")]
    subprocess.run([*command, str(NATIVE / "tests/ptx_operations.cu")], check=True)
    text = re.sub(r"//.*", "", out.read_text())
    found = re.findall(r"\.entry (\w+)\([^)]*\)\s*\{(.*?\bret;)", text, re.DOTALL)
    statements = {name: [" ".join(part.split()) for part in body.split(";")] for name, body in found}
    return {name: [s for s in parts if s and not s.startswith(".")] for name, parts in statements.items()}


def values(modulus: int) -> st.SearchStrategy[int]:
    """Return numbers below the modulus, with those whose limbs stress carries."""
    limbs = st.lists(st.sampled_from([0, 1, 2**31, MASK - 1, MASK]), min_size=8, max_size=8)
    packed = limbs.map(lambda parts: sum(limb << 32 * i for i, limb in enumerate(parts)) % modulus)
    return st.one_of(st.sampled_from([0, 1, modulus - 1]), packed, st.integers(0, modulus - 1))


@pytest.mark.parametrize("field", ["fp", "fr"])
@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_ptx__of_field_operations__equals_integers(
    entries: dict[str, list[str]], field: str, data: st.DataObject
) -> None:
    modulus = MODULI[field]
    a, b = data.draw(values(modulus)), data.draw(values(modulus))
    kernel = f"{field}_operations"
    given_words = [value >> 32 * i & MASK for value in (a, b) for i in range(8)]
    out = 4 * len(given_words)
    machine = Machine(
        {f"{kernel}_param_0": 0, f"{kernel}_param_1": out}, {4 * i: word for i, word in enumerate(given_words)}
    )
    machine.run(entries[kernel])
    back = pow(MONTGOMERY, -1, modulus)
    expected = [(a + b), (a - b), a * b * back, a * a * back, -a]
    for i, name in enumerate(RESULTS):
        words = [machine.memory[out + 32 * i + 4 * j] for j in range(8)]
        assert sum(word << 32 * j for j, word in enumerate(words)) == expected[i] % modulus, name
