"""Progress of a download: bars on terminals, periodic log lines elsewhere."""

import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from prover.keys.download.source import DownloadWatcher
from prover.units import gibibytes
from shared.process.logs import get_logger

_log = get_logger(__name__)

LOG_INTERVAL_S = 10.0


@contextmanager
def download_display() -> Iterator[DownloadWatcher]:
    """Yield a watcher that displays the progress during the block."""
    if sys.stderr.isatty():
        with _bars() as bars:
            yield bars
    else:
        yield LogLines()


class LogLines(DownloadWatcher):
    """A watcher that logs the planned files, and the progress at most every ``interval_s`` seconds."""

    def __init__(self, interval_s: float = LOG_INTERVAL_S) -> None:
        self._interval_s = interval_s
        self._lock = threading.Lock()
        self._done: dict[str, int] = {}
        self._first: dict[str, int] = {}
        self._files = self._finished = 0
        self._size: int | None = None
        self._started = self._last = time.monotonic()

    def planned(self, files: int, size: int | None) -> None:
        """Log the number and the size of the planned files."""
        self._files, self._size = files, size
        _log.info("download_started", files=files, size=gibibytes(size) if size is not None else "unknown")

    def advanced(self, name: str, done: int, total: int | None) -> None:  # noqa: ARG002 - signature of a watcher
        """Count bytes, and log a line if one is due."""
        with self._lock:
            self._first.setdefault(name, done)
            self._done[name] = done
            now = time.monotonic()
            if now - self._last < self._interval_s:
                return
            self._last = now
            came, there = sum(self._done.values()) - sum(self._first.values()), sum(self._done.values())
        _log.info(
            "download_progress",
            files=f"{self._finished}/{self._files}",
            percent=round(100 * there / self._size, 1) if self._size else None,
            per_second=gibibytes(came / max(now - self._started, 0.001)),
        )

    def finished(self, name: str) -> None:
        """Count a finished file."""
        self._finished += 1
        _log.info("key_downloaded", file=name, bytes=self._done.get(name), files=f"{self._finished}/{self._files}")


@contextmanager
def _bars() -> Iterator[DownloadWatcher]:
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn, TransferSpeedColumn

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        DownloadColumn(binary_units=True),
        TransferSpeedColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        tasks = {"": progress.add_task("all", total=None)}
        done: dict[str, int] = {}

        class Bars(DownloadWatcher):
            """A watcher with one bar per file in progress, and one for all."""

            def planned(self, files: int, size: int | None) -> None:
                """Set the length of the bar for all files."""
                progress.update(tasks[""], total=size, description=f"{files} keys")

            def advanced(self, name: str, count: int, total: int | None) -> None:
                """Advance the bars of a file and of all files."""
                if name not in tasks:
                    tasks[name] = progress.add_task(name, total=total)
                progress.update(tasks[name], completed=count, total=total)
                done[name] = count
                progress.update(tasks[""], completed=sum(done.values()))

            def finished(self, name: str) -> None:
                """Remove the bar of a file."""
                if name in tasks:
                    progress.remove_task(tasks.pop(name))

        yield Bars()
