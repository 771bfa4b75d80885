"""Stopping as a state: the first signal asks to drain, the second ends the process at once."""

import asyncio
import enum
import os
import signal

from shared.logs import get_logger

_log = get_logger(__name__)
_SIGNALS = (signal.SIGTERM, signal.SIGINT)


def end_by_sigterm() -> None:
    """Let SIGTERM end this process with 143 until something better is installed.

    That is its default effect, but the kernel spares the first process of a container all default effects: it would go
    on until somebody kills it.
    """
    if signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
        signal.signal(signal.SIGTERM, lambda number, _: os._exit(128 + number))


class StopReason(enum.Flag):
    """Why a process stops; several may hold."""

    NONE = 0
    SIGNAL = enum.auto()
    TASK_DIED = enum.auto()
    DEADLINE = enum.auto()


class Shutdown:
    """The stop state of one process; belongs to one event loop."""

    def __init__(self) -> None:
        self._requested = asyncio.Event()
        self.reason = StopReason.NONE
        self.signal_number = 0

    def install(self) -> None:
        """Listen to SIGTERM and SIGINT on the running loop."""
        loop = asyncio.get_running_loop()
        for number in _SIGNALS:
            loop.add_signal_handler(number, self._on_signal, number)

    def uninstall(self) -> None:
        """Stop listening; the default effect of the signals returns."""
        loop = asyncio.get_running_loop()
        for number in _SIGNALS:
            loop.remove_signal_handler(number)

    @property
    def requested(self) -> bool:
        """Whether somebody asked to stop."""
        return self._requested.is_set()

    def request(self, reason: StopReason) -> None:
        """Ask to stop; may be called again with further reasons."""
        self.reason |= reason
        self._requested.set()

    async def wait(self) -> StopReason:
        """Wait until somebody asks to stop; returns why."""
        await self._requested.wait()
        return self.reason

    def _on_signal(self, number: int) -> None:
        name = signal.Signals(number).name
        if self.requested:
            _log.warning("second_signal", signal=name)
            os._exit(128 + number)
        self.signal_number = number
        _log.info("draining", signal=name)
        self.request(StopReason.SIGNAL)
