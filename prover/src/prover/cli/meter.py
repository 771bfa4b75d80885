"""Progress of long work: a bar on terminals, periodic log lines elsewhere."""

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from shared.process.logs import get_logger

_log = get_logger(__name__)

LOG_INTERVAL_S = 10.0
_REDRAW_INTERVAL_S = 0.2


@contextmanager
def meter(what: str, permille: Callable[[], int]) -> Iterator[None]:
    """Report the progress during the block; ``permille`` returns it in thousandths."""
    done = threading.Event()
    report = _draw if sys.stderr.isatty() else _log_lines
    reporter = threading.Thread(target=report, args=(what, permille, done), name="meter", daemon=True)
    reporter.start()
    try:
        yield
    finally:
        done.set()
        reporter.join()


def _draw(what: str, permille: Callable[[], int], done: threading.Event) -> None:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(what, total=1000)
        while not done.wait(_REDRAW_INTERVAL_S):
            bar.update(task, completed=permille())


def _log_lines(what: str, permille: Callable[[], int], done: threading.Event) -> None:
    while not done.wait(LOG_INTERVAL_S):
        _log.info("progress", what=what, percent=round(permille() / 10, 1))
