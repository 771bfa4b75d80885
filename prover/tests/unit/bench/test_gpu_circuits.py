"""Lists of numbers in few bytes, read back by the rule in gpu/circuits.py."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.requests.circuit_id import CircuitId, CircuitKind

BENCH = Path(__file__).resolve().parents[3] / "bench"


@pytest.fixture(scope="module")
def circuits() -> Any:
    """The module of the bench folder."""
    sys.path.append(str(BENCH))
    try:
        return importlib.import_module("gpu.circuits")
    finally:
        sys.path.remove(str(BENCH))


def read_back(data: bytes) -> list[int]:
    place = 0

    def number() -> int:
        nonlocal place
        value = shift = 0
        while True:
            byte = data[place]
            place += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    length, lags = number(), [number() for _ in range(number())]
    values: list[int] = []
    while len(values) < length:
        position, count = number(), number()
        for _ in range(count):
            lag = lags[position - 1]
            values.append(number() if not position else (2 * values[-lag] - values[-2 * lag]) % 2**32)
    assert place == len(data)
    return values


@given(
    pattern=st.lists(st.integers(0, 2**32 - 1), min_size=1, max_size=9),
    steps=st.lists(st.integers(0, 2**32 - 1), min_size=9, max_size=9),
    copies=st.integers(1, 200),
    lags=st.lists(st.integers(1, 30), max_size=3),
)
def test_list__of_copies_that_grow__is_read_back(
    circuits: Any, pattern: list[int], steps: list[int], copies: int, lags: list[int]
) -> None:
    values = [
        (value + copy * step) % 2**32 for copy in range(copies) for value, step in zip(pattern, steps, strict=False)
    ]
    data = b"".join(circuits.list_bytes(np.array(values, np.uint32), [len(pattern), *lags]))
    assert read_back(data) == values
    if len(values) > 1000:
        assert len(data) < 5 * 300


def test_circuit__of_a_larger_batch__takes_few_more_bytes(circuits: Any) -> None:
    def length(size: int) -> int:
        return sum(map(len, circuits.circuit_bytes(CircuitId(CircuitKind.BATCH_APPEND, 2, (4,), (size,)))))

    assert length(80) < 1.5 * length(20)
