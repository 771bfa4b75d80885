"""The stop state of a process."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from shared.process.shutdown import Shutdown

FIRST_PROCESS = ("unshare", "--user", "--map-root-user", "--pid", "--fork", "--kill-child")


async def test_shutdown__on_a_signal__is_requested() -> None:
    shutdown = Shutdown()
    shutdown.install()
    try:
        assert not shutdown.requested
        os.kill(os.getpid(), signal.SIGTERM)
        await shutdown.wait()
        assert shutdown.requested
        assert shutdown.signal_number == signal.SIGTERM
    finally:
        shutdown.uninstall()


@pytest.mark.parametrize(("prepare", "status"), [("end_by_sigterm()", 128 + signal.SIGTERM), ("pass", 0)])
def test_end_by_sigterm__in_the_first_process__has_the_effect_it_lacks(prepare: str, status: int) -> None:
    if subprocess.run([*FIRST_PROCESS, "true"], capture_output=True).returncode != 0:
        pytest.skip("unshare may not make namespaces here")
    # Without it the signal has no effect, and the line on standard input ends the process.
    wait = "print(os.getpid(), flush=True); sys.stdin.readline()"
    code = f"import os, sys; from shared.process.shutdown import end_by_sigterm; {prepare}; {wait}"
    with subprocess.Popen(
        [*FIRST_PROCESS, sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as unshare:
        assert unshare.stdin is not None
        assert unshare.stdout is not None
        assert unshare.stdout.readline() == "1\n"
        [child] = Path(f"/proc/{unshare.pid}/task/{unshare.pid}/children").read_text().split()
        os.kill(int(child), signal.SIGTERM)
        if status == 0:
            time.sleep(0.3)
            assert unshare.poll() is None
        unshare.stdin.close()
        assert unshare.wait(20) == status
