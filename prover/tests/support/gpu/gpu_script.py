"""The stages of prover/bench/gpu.sh on a library that simulates a GPU."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

SCRIPT = Path(__file__).resolve().parents[3] / "bench" / "gpu.sh"
STAGE_S = 3600


class GpuScript:
    """A folder of builds and results, and the library that simulates a GPU."""

    def __init__(self, folder: Path, library: Path) -> None:
        self.results, self.keys = folder / "results", folder / "keys"
        self.library = Path(shutil.copy(library, folder / "library.so"))
        self._variables = {"GPU_BUILD": str(folder), "GPU_LIBRARY": str(self.library)}

    def run(self, *words: str, **variables: str) -> str:
        """Return the standard error of a stage, which must pass."""
        return self.outputs(*words, **variables)[1]

    def outputs(self, *words: str, **variables: str) -> tuple[str, str]:
        """Return the standard output and error of a stage, which must pass."""
        environment = {name: value for name, value in os.environ.items() if name not in ("AGAIN", "PEER")}
        environment |= self._variables | variables
        answer = subprocess.run([SCRIPT, *words], env=environment, capture_output=True, text=True, timeout=STAGE_S)
        assert answer.returncode == 0, answer.stdout + answer.stderr
        return answer.stdout, answer.stderr

    def replace_library(self) -> None:
        """Replace the library by another build, with other bytes."""
        with self.library.open("ab") as file:
            file.write(b"\0")

    def lines(self, pattern: str) -> list[dict[str, Any]]:
        """Return the JSON lines of results."""
        files = sorted(self.results.glob(pattern))
        return [json.loads(line) for file in files for line in file.read_text().splitlines()]
