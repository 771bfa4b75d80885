"""Blocking work of a command: in a thread, so that signals arrive; with progress on terminals."""

import signal
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from prover.kernel.cancellation import CancelFlag
from prover.kernel.engine import Engine, LoadedKey
from prover.keys.prepared import prepared_keys

Result = TypeVar("Result")

_MIB = 2**20
_STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_SIGNAL_POLL_S = 0.05


@contextmanager
def progress(what: str) -> Iterator[None]:
    """Show a spinner with the elapsed time while the block runs, on terminals only."""
    if not sys.stderr.isatty():
        yield
        return
    from rich.console import Console
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        bar.add_task(what, total=None)
        yield


def run_cancellable(work: Callable[[CancelFlag], Result]) -> Result:
    """Run work in a thread; a signal raises its flag and, when the work has ended, exits with 128 + signal.

    Nothing is ever raised out of a signal handler: whatever Python code it interrupted could swallow that, or be left
    with a lock held. Signals after the first change nothing, since what is cleaned up must not be interrupted.
    """
    cancel = CancelFlag()
    signals: list[int] = []
    previous = {number: signal.signal(number, lambda number, _: signals.append(number)) for number in _STOP_SIGNALS}
    try:
        with ThreadPoolExecutor(1, "work") as thread:
            outcome = thread.submit(work, cancel)
            while not wait([outcome], _SIGNAL_POLL_S).done:
                if signals and not cancel.is_raised:
                    cancel.raise_flag()
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
    if signals:
        sys.exit(128 + signals[0])
    return outcome.result()


def load_key(engine: Engine, path: Path, cancel: CancelFlag, *, prepared_folder: Path | None = None) -> LoadedKey:
    """Load a key file with progress, from its prepared key if the folder has a valid one."""
    size_mib = path.stat().st_size / _MIB
    with progress(f"loading {path.name} ({size_mib:.1f} MiB)"):
        if prepared_folder is None:
            return prepared_keys.load_source(engine, path, cancel)
        return prepared_keys.load(engine, path, prepared_folder, cancel)
