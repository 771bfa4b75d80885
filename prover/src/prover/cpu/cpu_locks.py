"""Sharing of the host's CPUs between provers, by locks on a file.

An active prover locks a row of the file: at its start one byte per thread, and further on one byte for each CPU that it
may use. Nothing is written: the system releases the locks of a process when it ends. A lock belongs to an open file
description (F_OFD_SETLK, Linux), so holders in one process see each other.
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
    """An active prover: its maximum threads, and the CPUs that they may run on."""

    threads: int
    cpus: frozenset[int]


def share_of(row: int, provers: Mapping[int, Prover]) -> int:
    """Return the threads of the prover of a row while all of ``provers`` are active; at least 1.

    Provers that may use the same CPUs get them alternately, lower rows first, each up to its threads. So a CPU belongs
    to one of them, and all that see the same provers agree. The shares of K provers on P common CPUs sum to at most
    P + K - 1, and to at most max(P, K) if all may use the same ones. A prover without rivals has all its threads.
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


def _deal(count: int, maximums: list[int], index: int) -> int:
    """Deal ``count`` CPUs alternately, up to the maximum of each prover; return the number for one of them."""
    taken = [0] * len(maximums)
    while count and taken != maximums:
        for number, limit in enumerate(maximums):
            if count and taken[number] < limit:
                taken[number] += 1
                count -= 1
    return taken[index]


class CpuLocks:
    """Locks of one engine, for one thread at a time. Close it."""

    def __init__(self, parent: Path) -> None:
        """Open the lock file of this user in a folder below ``parent``; raises OSError if it is unsafe."""
        self._parent = parent
        self._name, self._cpus = cpu_pool()
        self._runs = list(_runs(self._cpus))
        self._row = 0
        self._threads = 0
        self._file = _open_file(parent, self._name)

    def take(self, threads: int) -> None:
        """Lock a row with at most ``threads`` threads. Raises OSError when all are held or there are no such locks."""
        if os.fstat(self._file).st_nlink == 0:  # the file was removed
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
        """Unlock the row."""
        self._lock(fcntl.F_UNLCK, self._row * _ROW_BYTES, _ROW_BYTES)

    def share(self) -> int | None:
        """Return the threads for the holder of the row, None while no other process proves on its CPUs."""
        rivals = {row: prover for row, prover in self._others().items() if prover.cpus & self._cpus}
        if not rivals:
            return None
        return share_of(self._row, rivals | {self._row: Prover(self._threads, self._cpus)})

    def close(self) -> None:
        """Release all locks. Idempotent."""
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
        """Yield ranges that others hold. A query returns one; the ranges before and after it are queried next."""
        pending = [(0, _FILE_BYTES)]
        while pending:
            start, end = pending.pop()
            query = _FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, start, end - start, 0)
            kind, _, first, length, _ = _FLOCK.unpack(fcntl.fcntl(self._file, fcntl.F_OFD_GETLK, query))
            if kind == fcntl.F_UNLCK:
                continue
            last = min(first + length, end) if length else end
            first = max(first, start)
            yield first, last
            pending += [(left, right) for left, right in ((start, first), (last, end)) if left < right]

    def _lock(self, kind: int, start: int, length: int) -> None:
        fcntl.fcntl(self._file, fcntl.F_OFD_SETLK, _FLOCK.pack(kind, os.SEEK_SET, start, length, 0))


def _runs(numbers: frozenset[int]) -> Iterator[tuple[int, int]]:
    """Yield first number and length of each run of numbers."""
    for number in sorted(numbers):
        if number - 1 not in numbers:
            length = 1
            while number + length in numbers:
                length += 1
            yield number, length


def _open_file(parent: Path, name: str) -> int:
    """Open the lock file, in a folder of this user only: other users could hold locks forever."""
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
