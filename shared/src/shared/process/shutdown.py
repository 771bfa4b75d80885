"""Shutdown of a process: the first signal requests draining, the second ends the process at once."""

import asyncio
import os
import signal

from shared.process.logs import get_logger

_log = get_logger(__name__)
_SIGNALS = (signal.SIGTERM, signal.SIGINT)


def end_by_sigterm() -> None:
    """Let SIGTERM end this process with 143 until another handler is installed.

    That is its default effect, but the first process of a container gets no default effects: it would continue until it
    is killed.
    """
    if signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
        signal.signal(signal.SIGTERM, lambda number, _: os._exit(128 + number))


class Shutdown:
    """Shutdown state of one process, used in one event loop."""

    def __init__(self) -> None:
        self._requested = asyncio.Event()
        self.signal_number = 0

    def install(self) -> None:
        """Handle SIGTERM and SIGINT in the running loop."""
        loop = asyncio.get_running_loop()
        for number in _SIGNALS:
            loop.add_signal_handler(number, self._on_signal, number)

    def uninstall(self) -> None:
        """Remove the handlers; the signals have their default effect again."""
        loop = asyncio.get_running_loop()
        for number in _SIGNALS:
            loop.remove_signal_handler(number)

    @property
    def requested(self) -> bool:
        """True once a stop was requested."""
        return self._requested.is_set()

    def request(self) -> None:
        """Request a stop."""
        self._requested.set()

    async def wait(self) -> None:
        """Wait for a request to stop."""
        await self._requested.wait()

    def _on_signal(self, number: int) -> None:
        name = signal.Signals(number).name
        if self.requested:
            _log.warning("second_signal", signal=name)
            os._exit(128 + number)
        self.signal_number = number
        _log.info("draining", signal=name)
        self.request()
