"""Blocking work of a command: in a thread, so that signals arrive; with progress, when somebody watches."""

import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import NoReturn, TypeVar

from prover.kernel.cancellation import CancelFlag
from prover.kernel.engine import Engine, LoadedKey
from prover.keys.store import load_key_file

Result = TypeVar("Result")

_MIB = 2**20
_STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM)


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
    """Run work in a thread; a signal raises its flag and ends the process with 128 + signal."""
    cancel = CancelFlag()
    outcome: list[Result] = []
    failure: list[BaseException] = []
    ended = threading.Event()  # a join that a signal interrupts takes the thread for ended (Python 3.11)

    def run() -> None:
        try:
            outcome.append(work(cancel))
        except BaseException as error:  # noqa: BLE001 - handed to the main thread as it is
            failure.append(error)
        finally:
            ended.set()

    thread = threading.Thread(target=run, name="work")
    previous = {number: signal.signal(number, _stop) for number in _STOP_SIGNALS}
    try:
        thread.start()
        ended.wait()
    except _Stopped as stopped:
        cancel.raise_flag()
        ended.wait()
        sys.exit(128 + stopped.number)
    finally:
        thread.join()
        for number, handler in previous.items():
            signal.signal(number, handler)
    if failure:
        raise failure[0]
    return outcome[0]


@contextmanager
def exiting_on_signals() -> Iterator[None]:
    """Let a signal end Python code of the block, and the process, with 128 + signal; files are cleaned up."""
    previous = {number: signal.signal(number, _stop) for number in _STOP_SIGNALS}
    try:
        yield
    except _Stopped as stopped:
        sys.exit(128 + stopped.number)
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)


def load_key(engine: Engine, path: Path, cancel: CancelFlag) -> LoadedKey:
    """Load a key file with progress."""
    size_mib = path.stat().st_size / _MIB
    with progress(f"loading {path.name} ({size_mib:.1f} MiB)"):
        return load_key_file(engine, path, cancel)


class _Stopped(BaseException):
    """A signal asked the process to stop."""

    def __init__(self, number: int) -> None:
        self.number = number


def _stop(number: int, _: FrameType | None) -> NoReturn:
    for other in _STOP_SIGNALS:  # what is cleaned up now must not be interrupted again
        signal.signal(other, lambda *_: None)
    raise _Stopped(number)
