"""Logs of the forester: those of the shared package, with every line masked last."""

import logging

from forester.redaction import mask
from shared.process import logs


class _Masking(logging.Formatter):
    def __init__(self, inner: logging.Formatter) -> None:
        super().__init__()
        self._inner = inner

    def format(self, record: logging.LogRecord) -> str:
        return mask(self._inner.format(record))


def configure_logs(*, level: str = "info", as_json: bool | None = None) -> None:
    """Send all logs to standard error; every line, including tracebacks, passes through ``redaction.mask``."""
    logs.configure_logs(level=level, as_json=as_json)
    for handler in logging.getLogger().handlers:
        if handler.formatter is not None and not isinstance(handler.formatter, _Masking):
            handler.setFormatter(_Masking(handler.formatter))
