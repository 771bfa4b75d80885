"""The machine of a measurement, and files of JSON lines that record results with it."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path

from prover.kernel.engine import Engine

_ROOT = Path(__file__).resolve().parents[2]


def machine_facts() -> dict[str, object]:
    """Return time (UTC), CPU, kernel backend, load average of the last minute, and commit."""
    with Engine(1) as engine:
        backend = engine.backend
    return {
        "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "machine": platform.machine(),
        "system": platform.system(),
        "processor": _processor(),
        "processors": os.cpu_count(),
        "backend": backend,
        "load_average": round(os.getloadavg()[0], 2),
        "commit": _commit(),
    }


def keep(history: Path, record: Mapping[str, object]) -> None:
    """Append one run to a history."""
    with history.open("a") as out:
        out.write(json.dumps(record) + "\n")


def _processor() -> str:
    """Return the CPU's name with family and model: virtual machines give several generations one name."""
    cpuinfo = Path("/proc/cpuinfo")
    lines = cpuinfo.read_text().splitlines() if cpuinfo.exists() else []
    facts = {name.strip(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    numbers = [f"{name} {facts[name]}" for name in ("cpu family", "model") if name in facts]
    return ", ".join([facts.get("model name", "unknown"), *numbers])


def _commit() -> str:
    answer = subprocess.run(
        ["git", "-C", str(_ROOT), "describe", "--always", "--dirty"], capture_output=True, text=True, check=False
    )
    return answer.stdout.strip() or "unknown"
