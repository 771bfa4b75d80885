"""Logs as events: a name, then fields.

On a terminal lines are columns; elsewhere each line is one JSON object. Libraries that use the
standard logging module come out in the same form. Fields bound with ``bind`` appear on every line
of the same task or thread. Tracebacks never show the values of variables, which may be secrets.
"""

import logging
import sys
from collections.abc import Iterator, MutableMapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TextIO

import structlog

if TYPE_CHECKING:
    from structlog.typing import Processor

_LEVELS = {"debug": logging.DEBUG, "info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}
LEVEL_NAMES: Sequence[str] = tuple(_LEVELS)

Logger = structlog.stdlib.BoundLogger


def configure_logs(*, stream: TextIO | None = None, as_json: bool | None = None, level: str = "info") -> None:
    """Send all logs of this process to ``stream`` (standard error if None).

    ``as_json`` None means JSON unless the stream is a terminal. ``level`` is one of LEVEL_NAMES.
    """
    stream = sys.stderr if stream is None else stream
    terminal = stream.isatty()
    as_json = not terminal if as_json is None else as_json
    shared: list[Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.processors.TimeStamper(fmt="iso" if as_json else "%H:%M:%S", utc=as_json),
    ]
    renderer: list[Processor]
    if as_json:
        renderer = [
            structlog.processors.ExceptionRenderer(structlog.tracebacks.ExceptionDictTransformer(show_locals=False)),
            _event_first,
            structlog.processors.JSONRenderer(),
        ]
    else:
        renderer = [structlog.dev.ConsoleRenderer(colors=terminal, exception_formatter=structlog.dev.plain_traceback)]
    structlog.configure(
        processors=[*shared, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        wrapper_class=Logger,
        logger_factory=structlog.stdlib.LoggerFactory(),
        cache_logger_on_first_use=False,
    )
    handler = logging.StreamHandler(stream)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared,
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *renderer],
        )
    )
    root = logging.getLogger()
    root.handlers = [handler]
    root.setLevel(_LEVELS[level])


def get_logger(name: str) -> Logger:
    """Return the logger of a module; ``name`` is its ``__name__``."""
    logger: Logger = structlog.stdlib.get_logger(name)
    return logger


def _event_first(_: object, __: str, fields: MutableMapping[str, Any]) -> dict[str, Any]:
    first = ("timestamp", "level", "event")
    return {name: fields[name] for name in first if name in fields} | dict(fields)


@contextmanager
def bind(**fields: object) -> Iterator[None]:
    """Put fields on every log line inside the block."""
    with structlog.contextvars.bound_contextvars(**fields):
        yield
