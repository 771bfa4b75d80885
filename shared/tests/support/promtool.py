"""The program that checks and tests rules of Prometheus: an installed one, or that of Debian's package."""

from __future__ import annotations

import fcntl
import shutil
import subprocess
from pathlib import Path

from deployment_tools import FOLDER, ToolsUnavailable
from skipping import skip_or_fail


def promtool() -> Path:
    """Return the program that checks and tests rules of Prometheus. Raises ToolsUnavailable."""
    installed, extracted = shutil.which("promtool"), FOLDER / "prometheus/usr/bin/promtool"
    if installed:
        return Path(installed)
    FOLDER.mkdir(parents=True, exist_ok=True)
    with (FOLDER / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not extracted.exists():
            _extract_prometheus()
    return extracted


def required_promtool() -> Path:
    """Return that program; where it cannot be had the test is skipped, or fails in the gate."""
    try:
        return promtool()
    except ToolsUnavailable as error:
        skip_or_fail(str(error))


def _extract_prometheus() -> None:
    """Download the package and unpack it, without installing its server."""
    target, incoming = FOLDER / "prometheus", FOLDER / "prometheus.incoming"
    shutil.rmtree(incoming, ignore_errors=True)
    incoming.mkdir()
    try:
        for command in (["apt-get", "download", "prometheus"], ["sh", "-c", "dpkg-deb --extract prometheus_*.deb ."]):
            subprocess.run(command, cwd=incoming, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError) as error:
        reason = error.stderr.strip() if isinstance(error, subprocess.CalledProcessError) else str(error)
        raise ToolsUnavailable(f"promtool is not installed, and apt-get cannot download prometheus: {reason}") from None
    incoming.replace(target)
