"""Fuzz target of the request parser and the prechecks, guided by coverage; ``make fuzz`` runs it.

An input is a body. A new one is made from another by libFuzzer, or is a golden request with changes.
Arguments are those of libFuzzer.
"""

from __future__ import annotations

import inspect
import random
import sys
from types import ModuleType

import atheris
import structlog
from request_fuzzing import judge, mutated

_FROM_GOLDEN = 0.3
"""Share of the inputs that are made from a golden request."""


def mutate(data: bytes, longest: int, seed: int) -> bytes:
    """Return the next input."""
    choose = random.Random(seed)
    if choose.random() < _FROM_GOLDEN:
        return mutated(choose)[:longest]
    changed: bytes = atheris.Mutate(data, longest)
    return changed


def judge_input(data: bytes) -> None:
    """Run once; any exception is a finding."""
    judge(data)


def instrument(module: ModuleType) -> None:
    """Let libFuzzer see the branches of a module. Editable installs bring loaders that atheris does not know."""
    owners = [module, *(cls for _, cls in inspect.getmembers(module, inspect.isclass))]
    for owner in owners:
        for function in vars(owner).values():
            if inspect.isfunction(function) and function.__module__ == module.__name__:
                atheris.instrument_func(function)


if __name__ == "__main__":
    structlog.configure(processors=[], logger_factory=structlog.ReturnLoggerFactory())
    for name, module in list(sys.modules.items()):
        if name.startswith(("shared.requests.proof_wire", "shared.trees.field", "prover.proving")):
            instrument(module)
    atheris.Setup(sys.argv, judge_input, custom_mutator=mutate)
    atheris.Fuzz()
