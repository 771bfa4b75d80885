"""Logs as events: a name, then fields.

On a terminal lines are columns; elsewhere each line is one JSON object. Libraries that use the
standard logging module come out in the same form. Fields bound with ``bind`` appear on every line
of the same task or thread. Tracebacks never show the values of variables, which may be secrets.
"""

import io
import logging
import sys
from collections.abc import Callable, Iterator, MutableMapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TextIO, cast

if TYPE_CHECKING:
    from types import ModuleType

    from structlog.stdlib import BoundLogger as Logger
    from structlog.typing import Processor

_LEVELS = {"debug": logging.DEBUG, "info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}

_pending: Callable[[], None] | None = None
"""Configuration that structlog gets on its import, which takes a quarter of a second; many commands log nothing."""


def configure_logs(*, stream: TextIO | None = None, as_json: bool | None = None, level: str = "info") -> None:
    """Send all logs of this process to ``stream`` (standard error if None).

    ``as_json`` None means JSON unless the stream is a terminal. ``level`` is debug, info, warning or error.
    """
    global _pending  # noqa: PLW0603 - logging is global, and so is its configuration
    stream = sys.stderr if stream is None else stream
    terminal = stream.isatty()
    form = _Form(not terminal if as_json is None else as_json, colors=terminal)
    _pending = form.configure_structlog
    if "structlog" in sys.modules:
        _configured()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(form)
    root = logging.getLogger()
    root.handlers = [handler]
    root.setLevel(_LEVELS[level])


def get_logger(name: str) -> "Logger":
    """Return the logger of a module; ``name`` is its ``__name__``."""
    return cast("Logger", _DeferredLogger(name))


@contextmanager
def bind(**fields: object) -> Iterator[None]:
    """Add fields to every log line inside the block."""
    with _import_structlog().contextvars.bound_contextvars(**fields):
        yield


def _import_structlog() -> Any:
    """Return structlog, imported without rich, which it would use to format tracebacks differently.

    Rich costs a server a tenth of its start and some megabytes. Who imported it before keeps it.
    """
    hidden = "structlog" not in sys.modules and "rich" not in sys.modules
    if hidden:
        sys.modules["rich"] = cast("ModuleType", None)  # so importing it fails
    try:
        import structlog
    finally:
        if hidden:
            del sys.modules["rich"]
    return structlog


def _configured() -> None:
    """Apply the pending configuration to structlog."""
    global _pending
    configure, _pending = _pending, None
    if configure is not None:
        configure()


class _DeferredLogger:
    """A logger that imports structlog on first use."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._logger: Any = None

    def __getattr__(self, attribute: str) -> Any:
        structlog = _import_structlog()
        _configured()
        if self._logger is None:
            self._logger = structlog.stdlib.get_logger(self._name)
        return getattr(self._logger, attribute)


class _Form(logging.Formatter):
    """Format of log lines, JSON or columns; structlog renders both."""

    def __init__(self, as_json: bool, *, colors: bool) -> None:
        super().__init__()
        self._as_json = as_json
        self._colors = colors
        self._formatter: logging.Formatter | None = None

    def configure_structlog(self) -> None:
        """Send events of structlog's loggers through the standard library's, in this format."""
        structlog = _import_structlog()
        structlog.configure(
            processors=[*self._first_processors(), structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
            wrapper_class=structlog.stdlib.BoundLogger,
            logger_factory=structlog.stdlib.LoggerFactory(),
            cache_logger_on_first_use=False,
        )

    def format(self, record: logging.LogRecord) -> str:
        """Render an event of structlog, or of any other library."""
        if self._formatter is None:
            self._formatter = self._made()
        return self._formatter.format(record)

    def _made(self) -> logging.Formatter:
        structlog = _import_structlog()
        renderer: list[Processor]
        if self._as_json:
            traces = structlog.tracebacks.ExceptionDictTransformer(show_locals=False)
            renderer = [
                structlog.processors.ExceptionRenderer(traces),
                _event_first,
                structlog.processors.JSONRenderer(),
            ]
        else:
            renderer = [_quote, structlog.dev.ConsoleRenderer(colors=self._colors, exception_formatter=_write_trace)]
        formatter: logging.Formatter = structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=self._first_processors(),
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *renderer],
        )
        return formatter

    def _first_processors(self) -> "list[Processor]":
        structlog = _import_structlog()
        return [
            structlog.contextvars.merge_contextvars,
            structlog.stdlib.add_log_level,
            structlog.stdlib.add_logger_name,
            structlog.processors.TimeStamper(fmt="iso" if self._as_json else "%H:%M:%S", utc=self._as_json),
        ]


def _event_first(_: object, __: str, fields: MutableMapping[str, Any]) -> dict[str, Any]:
    first = ("timestamp", "level", "event")
    return {name: fields[name] for name in first if name in fields} | dict(fields)


class _Quoted:
    """A text that columns show as a literal of Python."""

    def __init__(self, text: str) -> None:
        self._text = text

    def __repr__(self) -> str:
        return repr(self._text)


def _quote(_: object, __: str, fields: MutableMapping[str, Any]) -> dict[str, Any]:
    """Quote texts with control characters: a client may have sent them, and a terminal would obey."""
    quoted = {
        name: _Quoted(value) if isinstance(value, str) and not value.isprintable() else value
        for name, value in fields.items()
    }
    return quoted | {"event": _escaped(str(fields.get("event", "")))}


def _write_trace(file: TextIO, trace: Any) -> None:
    text = io.StringIO()
    _import_structlog().dev.plain_traceback(text, trace)
    file.write(_escaped(text.getvalue()))


def _escaped(text: str) -> str:
    """Escape control characters, except tabs and ends of lines."""
    return "".join(char if char.isprintable() or char in "\t\n" else ascii(char)[1:-1] for char in text)
