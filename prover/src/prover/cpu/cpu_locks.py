"""Which provers prove on this host's processors now, told by locks on a file, and which part falls to one of them.

A prover that proves holds a row of the file: of its first bytes as many as it has threads at most, and further on a
byte for each processor that it may use. Nothing is written: the system drops the locks of a process that ends, however
it does. A lock belongs to an open file description (F_OFD_SETLK, Linux), so holders of one process count each other.
"""

import fcntl
import os
import struct
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import suppress
from itertools import chain
from pathlib import Path
from typing import NamedTuple

from prover.cpu.cpu_count import cpu_pool

_FLOCK = struct.Struct("hhqqi0q")
"""Type, origin, start, length, process: ``struct flock`` of 64-bit Linux."""
_ROWS = 4096
_ROW_BYTES = 2**16
_THREADS_MAX = 2**10
_FIRST_CPU = 2**11
_FILE_BYTES = _ROWS * _ROW_BYTES


class Prover(NamedTuple):
    """What a prover that proves has: threads at most, and the processors that they may run on."""

    threads: int
    cpus: frozenset[int]


def share_of(row: int, provers: Mapping[int, Prover]) -> int:
    """Return the threads of the prover in a row while all these prove; at least 1.

    Provers that may use the same processors are dealt them in turns, lower rows first, each up to its threads; so a
    processor falls to one of them, and all who see the same provers agree to whom. The shares of K provers that meet on
    P processors sum to P + K - 1 at most and, where all may use the same ones, to max(P, K) at most. Alone on its
    processors a prover has all its threads.
    """
    own = provers[row]
    rivals = sorted(number for number, prover in provers.items() if prover.cpus & own.cpus)
    if rivals == [row]:
        return own.threads
    groups = Counter(tuple(number for number in rivals if cpu in provers[number].cpus) for cpu in own.cpus)
    share = sum(
        _deal(count, [provers[number].threads for number in group], group.index(row)) for group, count in groups.items()
    )
    return max(1, min(share, own.threads))


def _deal(count: int, most: list[int], place: int) -> int:
    """Return what falls to one of several who take turns until ``count`` are gone or all have their ``most``."""
    taken = [0] * len(most)
    while count and taken != most:
        for number, limit in enumerate(most):
            if count and taken[number] < limit:
                taken[number] += 1
                count -= 1
    return taken[place]


class CpuLocks:
    """The locks of one engine. Not for several threads at once; close it."""

    def __init__(self, parent: Path) -> None:
        """Open the lock file of this user in a folder below ``parent``; raises OSError if it is unsafe."""
        self._parent = parent
        self._name, self._cpus = cpu_pool()
        self._runs = list(_runs(self._cpus))
        self._row = 0
        self._threads = 0
        self._file = _open_file(parent, self._name)

    def take(self, threads: int) -> None:
        """Hold a row, with so many threads at most; raises OSError when all are held or there are no such locks."""
        if os.fstat(self._file).st_nlink == 0:  # somebody has cleaned up
            removed, self._file = self._file, _open_file(self._parent, self._name)
            os.close(removed)
        threads = min(threads, _THREADS_MAX)
        for row in chain((self._row,), range(_ROWS)):
            with suppress(BlockingIOError, PermissionError):
                self._lock(fcntl.F_WRLCK, row * _ROW_BYTES, threads)
                break
        else:
            raise OSError(f"all {_ROWS} rows of the lock file are held")
        self._row, self._threads = row, threads
        for first, count in self._runs:
            self._lock(fcntl.F_WRLCK, row * _ROW_BYTES + _FIRST_CPU + first, count)

    def give_back(self) -> None:
        """Let go of the row."""
        self._lock(fcntl.F_UNLCK, self._row * _ROW_BYTES, _ROW_BYTES)

    def share(self) -> int | None:
        """Return the threads for the holder of the row, None while nobody else proves on its processors."""
        rivals = {row: prover for row, prover in self._others().items() if prover.cpus & self._cpus}
        if not rivals:
            return None
        return share_of(self._row, rivals | {self._row: Prover(self._threads, self._cpus)})

    def close(self) -> None:
        """Let go of everything. Idempotent."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    def _others(self) -> dict[int, Prover]:
        threads: dict[int, int] = {}
        cpus: dict[int, set[int]] = {}
        for start, end in self._held():
            row, first = divmod(start, _ROW_BYTES)
            last = min(end - row * _ROW_BYTES, _ROW_BYTES)
            if first < _FIRST_CPU:
                threads[row] = last - first
            else:
                numbers = range(first - _FIRST_CPU, last - _FIRST_CPU)
                cpus.setdefault(row, set()).update(numbers)
        return {row: Prover(threads.get(row, 1), frozenset(numbers)) for row, numbers in cpus.items()}

    def _held(self) -> Iterator[tuple[int, int]]:
        """Ranges that others hold: a query tells of one of them, so what is left and right of it is asked for next."""
        asked = [(0, _FILE_BYTES)]
        while asked:
            start, end = asked.pop()
            query = _FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, start, end - start, 0)
            kind, _, first, length, _ = _FLOCK.unpack(fcntl.fcntl(self._file, fcntl.F_OFD_GETLK, query))
            if kind == fcntl.F_UNLCK:
                continue
            last = min(first + length, end) if length else end
            first = max(first, start)
            yield first, last
            asked += [(left, right) for left, right in ((start, first), (last, end)) if left < right]

    def _lock(self, kind: int, start: int, length: int) -> None:
        fcntl.fcntl(self._file, fcntl.F_OFD_SETLK, _FLOCK.pack(kind, os.SEEK_SET, start, length, 0))


def _runs(numbers: frozenset[int]) -> Iterator[tuple[int, int]]:
    """First number and length of each run of numbers."""
    for number in sorted(numbers):
        if number - 1 not in numbers:
            length = 1
            while number + length in numbers:
                length += 1
            yield number, length


def _open_file(parent: Path, name: str) -> int:
    """Open the lock file, in a folder that is nobody else's: others could hold locks for us for ever."""
    path = parent / f"prover-processors-{os.geteuid()}"
    with suppress(FileExistsError):
        path.mkdir(mode=0o700)
    folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        facts = os.fstat(folder)
        if facts.st_uid != os.geteuid() or facts.st_mode & 0o077:
            raise PermissionError(f"{path} belongs to another user or is open to others")
        return os.open(name, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600, dir_fd=folder)
    finally:
        os.close(folder)
