"""Constraint systems in few bytes, for machines without Python: prover/bench/gpu/gpu_setup.c makes keys of them.

The systems of batches repeat: most numbers differ from those of the copy before by what those differ from the copy
before them. A file has the magic, the words of the key's header, the body and the coefficients as gnark writes them,
and four lists of 32-bit numbers: the words of all instructions, and for each instruction whether it is a hint, the
wires after it, and its level. A list is its length, its lags, and runs until it is complete: 0, a length and numbers,
or the position of a lag from 1 and a length. A run with lag d continues x[i] = 2 x[i - d] - x[i - 2d] mod 2^32.
Numbers of lists are LEB128.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt

from prover.circuits.catalogue import compile_circuit
from prover.circuits.frontend.compiled import CompiledCircuit
from prover.circuits.output.gnark_014 import body_bytes, coefficient_table
from prover.circuits.output.integer_columns import varints
from prover.keys.files.key_description import header_of
from shared.requests.circuit_id import CircuitId

U32 = npt.NDArray[np.uint32]
Run = tuple[int, int]

MAGIC: Final = b"g16circ1"
_SHORTEST_RUN: Final = 256
_WINDOWS: Final = (40_000, 10_000, 300)
"""Lengths that must repeat, in instructions: paths of a batch, hashes of a chain, levels of a path."""
_PROBES: Final = (0.01, 0.02, 0.05, 0.2, 0.5)


def circuit_bytes(circuit: CircuitId) -> Iterator[bytes]:
    """Yield the file of a circuit."""
    compiled = compile_circuit(circuit)
    header, body, table = header_of(circuit), body_bytes(compiled), coefficient_table(compiled)
    yield MAGIC + struct.pack(f"<I{len(header)}I", len(header), *header)
    for part in (body, table):
        yield struct.pack("<I", len(part)) + part
    lengths = np.diff(compiled.starts, append=np.uint64(len(compiled.words)))
    lags = _lags(lengths)
    yield from list_bytes(compiled.words, [_in_words(compiled, lag) for lag in lags])
    for numbers in (compiled.is_hint, compiled.wire_counts, compiled.levels):
        yield from list_bytes(numbers.astype(np.uint32), [lag for _, lag in lags])


def write_circuit(circuit: CircuitId, path: Path) -> None:
    """Write the file of a circuit, complete or not at all."""
    part = path.with_suffix(".part")
    with part.open("wb") as file:
        file.writelines(circuit_bytes(circuit))
    part.rename(path)


def list_bytes(numbers: U32, lags: Iterable[int]) -> Iterator[bytes]:
    """Yield a list of numbers; the lags are those that may occur."""
    lags = sorted(set(lags), reverse=True)
    yield _leb(len(numbers), len(lags), *lags)
    runs: list[tuple[Run, int]] = [((0, len(numbers)), 0)]
    for position, lag in enumerate(lags, 1):
        runs = [
            part for run, known in runs for part in ([(run, known)] if known else _parts(numbers, run, lag, position))
        ]
    for (start, end), position in runs:
        yield _leb(position, end - start)
        if not position:
            yield from (piece.tobytes() for piece in varints(numbers[start:end]))


def _parts(numbers: U32, run: Run, lag: int, position: int) -> list[tuple[Run, int]]:
    """Divide a run into those that a lag continues, and others."""
    start, end = max(run[0], min(2 * lag, run[1])), run[1]
    found, at = [], run[0]
    for first, last in _continued(numbers, start, end, lag):
        if first > at:
            found.append(((at, first), 0))
        found.append(((first, last), position))
        at = last
    if end > at:
        found.append(((at, end), 0))
    return found


def _continued(numbers: U32, start: int, end: int, lag: int) -> Iterator[Run]:
    """Yield the long runs in which every number continues those a lag and two lags before it."""
    breaks = [np.array([start - 1])]
    for first in range(start, end, 1 << 22):
        last = min(end, first + (1 << 22))
        now, before, earlier = (numbers[first - back : last - back] for back in (0, lag, 2 * lag))
        breaks.append(first + np.flatnonzero(now - before != before - earlier))
    bounds = np.concatenate([*breaks, [end]])
    for place in np.flatnonzero(np.diff(bounds) > _SHORTEST_RUN).tolist():
        yield int(bounds[place]) + 1, int(bounds[place + 1])


def _lags(lengths: npt.NDArray[np.uint64]) -> list[Run]:
    """Return pairs of an instruction, and the distance at which the lengths of those before it repeat."""
    found = {}
    for window in _WINDOWS:
        for probe in _PROBES:
            end = int(probe * len(lengths))
            lag = _repetition(lengths[max(0, end - 4 * window) : end], window)
            if lag:
                found[lag] = (end, lag)
    return list(found.values())


def _repetition(lengths: npt.NDArray[np.uint64], window: int) -> int:
    """Return the shortest distance at which the last `window` lengths occur before, or 0."""
    pattern = lengths[-window:]
    if len(lengths) <= window:
        return 0
    candidates = np.flatnonzero(lengths[: len(lengths) - window] == pattern[0])[::-1]
    for check in (7, 31, 127, window - 1):
        candidates = candidates[lengths[candidates + check] == pattern[check]]
    for start in candidates[:2000].tolist():
        if np.array_equal(lengths[start : start + window], pattern):
            return len(lengths) - window - int(start)
    return 0


def _in_words(compiled: CompiledCircuit, lag: Run) -> int:
    end, distance = lag
    return int(compiled.starts[end] - compiled.starts[end - distance])


def _leb(*numbers: int) -> bytes:
    return b"".join(piece.tobytes() for piece in varints(np.array(numbers, np.uint32)))
