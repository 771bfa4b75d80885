"""Memory, CPU time and open files of a process."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

MIB = 2**20


@dataclass(frozen=True)
class ProcessFigures:
    """A running process; each figure is read when it is asked for."""

    pid: int

    @property
    def resident_bytes(self) -> int:
        """Return the resident memory."""
        return self._status("VmRSS") * 1024

    @property
    def peak_resident_bytes(self) -> int:
        """Return the peak resident memory."""
        return self._status("VmHWM") * 1024

    @property
    def threads(self) -> int:
        """Return the number of threads."""
        return self._status("Threads")

    @property
    def cpu_s(self) -> float:
        """Return the CPU time so far, in seconds."""
        user, system = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()[11:13]
        return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")

    @property
    def open_files(self) -> int:
        """Return the number of open descriptors."""
        return len(list(Path(f"/proc/{self.pid}/fd").iterdir()))

    @property
    def maps(self) -> str:
        """Return the memory mappings, a line each."""
        return Path(f"/proc/{self.pid}/maps").read_text()

    def _status(self, name: str) -> int:
        lines = Path(f"/proc/{self.pid}/status").read_text().splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith(f"{name}:"))
