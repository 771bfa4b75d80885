"""The stop state of a process."""

import os
import signal

from shared.shutdown import Shutdown, StopReason


async def test_shutdown__on_a_signal__tells_why() -> None:
    shutdown = Shutdown()
    shutdown.install()
    try:
        assert not shutdown.requested
        os.kill(os.getpid(), signal.SIGTERM)
        assert await shutdown.wait() is StopReason.SIGNAL
        assert shutdown.signal_number == signal.SIGTERM
    finally:
        shutdown.uninstall()


async def test_shutdown__asked_twice__keeps_both_reasons() -> None:
    shutdown = Shutdown()
    shutdown.request(StopReason.TASK_DIED)
    shutdown.request(StopReason.DEADLINE)
    assert await shutdown.wait() == StopReason.TASK_DIED | StopReason.DEADLINE
