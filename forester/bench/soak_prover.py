"""A prover with the keys of a folder, as a process."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

PROVER = Path(sys.executable).with_name("prover")
START_DEADLINE_S = 300.0
STOP_DEADLINE_S = 60.0


class ProverUnusable(Exception):
    """The prover did not start; the message has the end of its log."""


@contextlib.contextmanager
def running_prover(folder: Path, keys: Path) -> Iterator[str]:
    """Run `prover start` on free ports; yield its URL."""
    log = folder / "prover.log"
    ports = ["--prover-address", "127.0.0.1:0", "--metrics-address", "127.0.0.1:0"]
    with log.open("wb") as sink:
        process = subprocess.Popen([PROVER, "start", "--keys-dir", str(keys), *ports], stderr=sink)
    try:
        yield f"http://{_listening(process, log)}"
    finally:
        process.terminate()
        try:
            process.wait(STOP_DEADLINE_S)
        finally:
            process.kill()
            process.wait()


def _listening(process: subprocess.Popen[bytes], log: Path) -> str:
    ends = time.monotonic() + START_DEADLINE_S
    while process.poll() is None and time.monotonic() < ends:
        for line in log.read_text(errors="replace").splitlines():
            with contextlib.suppress(ValueError):
                event = json.loads(line)
                if event.get("event") == "listening":
                    return str(event["api"])
        time.sleep(0.1)
    raise ProverUnusable(f"the prover does not listen: {log.read_text(errors='replace')[-2000:].strip()}")
