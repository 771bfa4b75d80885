"""The assembly of the device's field, interpreted as its manual (PTX ISA 9.0) defines it, against Python's integers.

Other tests run the C code next to each chain of instructions; this runs the chains themselves, without a GPU.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable, Generator
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
_STATEMENT = re.compile(r"(?:(?P<label>\$\w+): )?(?:@(?P<unless>!?)(?P<flag>%p\d+) )?(?P<operation>\S+)(?P<rest>.*)")


class Machine:
    """Registers, the carry flag, and memory in words of 32 bits, of one thread."""

    def __init__(self, parameters: dict[str, int], memory: dict[int, int], thread: int = 0) -> None:
        self.registers: dict[str, int] = {"%tid.x": thread}
        self.parameters, self.memory, self.carry = parameters, memory, 0

    def run(self, statements: list[str]) -> Generator[int, int, None]:
        """Execute code; yields a word for the thread next to this one, and receives that thread's."""
        parts = [_STATEMENT.fullmatch(statement) for statement in statements]
        labels = {part["label"]: i for i, part in enumerate(parts) if part and part["label"]}
        at = 0
        while at < len(parts):
            part = parts[at]
            assert part, statements[at]
            at += 1
            name = part["operation"].split(".")
            operands = re.findall(r"\{[^}]*\}|\[[^]]*\]|[^,\s]+", part["rest"])
            if name[0] == "bra":
                if part["unless"] is None or bool(self.registers[part["flag"]]) != bool(part["unless"]):
                    at = labels[operands[0]]
            elif name[0] == "shfl":
                assert name[2] == "bfly"
                assert [self._value(operand) for operand in operands[2:]] == [1, 31, MASK]
                self.registers[operands[0].split("|")[0]] = yield self._value(operands[1])
            elif name[0] in ("ld", "st"):
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
                "not": lambda: ~values[0],
                "shl": lambda: values[0] << values[1],
                "mov": lambda: values[0],
                "cvt": lambda: values[0],
                "cvta": lambda: values[0],
                "selp": lambda: values[0] if values[2] else values[1],
                "setp": lambda: int((values[0] == values[1]) == (name[1] == "eq")),
            }
            answer = plain[name[0]]()
        if "cc" in name:
            self.carry = int(answer > MASK or answer < 0)
        self.registers[operands[0]] = answer if name[0] == "cvta" else answer & MASK


def run_pair(statements: list[str], parameters: dict[str, int], memory: dict[int, int]) -> None:
    """Execute code in two threads that exchange words."""
    threads = [Machine(parameters, memory, thread).run(statements) for thread in (0, 1)]
    words = [next(thread) for thread in threads]
    while words:
        words = [word for thread, other in zip(threads, reversed(words), strict=True) for word in _send(thread, other)]
        assert len(words) in (0, 2), "a thread waits for one that has ended"


def _send(thread: Generator[int, int, None], word: int) -> list[int]:
    try:
        return [thread.send(word)]
    except StopIteration:
        return []


@pytest.fixture(scope="module")
def entries(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    """The statements of each kernel."""
    out = tmp_path_factory.mktemp("ptx") / "operations.ptx"
    command = [cuda_compiler(), "-arch=sm_90", "-std=c++17", "-O3", "-ptx", "-o", str(out)]
    command += ["-I", str(NATIVE), "-I", str(NATIVE / "src"), "-I", str(ROOT / "shared/native")]
    subprocess.run([*command, str(NATIVE / "tests/gpu/ptx_operations.cu")], check=True)
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
    assert list(machine.run(entries[kernel])) == [], "these operations need no other thread"
    back = pow(MONTGOMERY, -1, modulus)
    expected = [(a + b), (a - b), a * b * back, a * a * back, -a]
    for i, name in enumerate(RESULTS):
        words = [machine.memory[out + 32 * i + 4 * j] for j in range(8)]
        assert sum(word << 32 * j for j, word in enumerate(words)) == expected[i] % modulus, name


@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_ptx__of_products_by_two_threads__equals_integers(entries: dict[str, list[str]], data: st.DataObject) -> None:
    a0, a1, b0, b1 = (data.draw(values(P)) for _ in range(4))
    given_words = [value >> 32 * i & MASK for value in (a0, a1, b0, b1) for i in range(8)]
    out, kernel = 4 * len(given_words), "fp2_half_operations"
    memory = {4 * i: word for i, word in enumerate(given_words)}
    run_pair(entries[kernel], {f"{kernel}_param_0": 0, f"{kernel}_param_1": out}, memory)
    back = pow(MONTGOMERY, -1, P)
    expected = [a0 * b0 - a1 * b1, a0 * b1 + a1 * b0, a0 * a0 - a1 * a1, 2 * a0 * a1]
    for i, value in enumerate(expected):
        words = [memory[out + 32 * i + 4 * j] for j in range(8)]
        assert sum(word << 32 * j for j, word in enumerate(words)) == value * back % P, i
