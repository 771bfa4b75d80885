"""The CUDA compiler for tests: that of the PATH, else of packages."""

import os
import subprocess
from pathlib import Path

from skipping import skip_or_fail

WORKSPACE = Path(__file__).resolve().parents[4]


def provide(**variables: str) -> subprocess.CompletedProcess[str]:
    """Return what `provide_nvcc` finds: the compiler's path in the first line, then the folders for its linker."""
    script = '. prover/scripts/cuda_compiler.bash; provide_nvcc; echo "$NVCC"; echo "${LIBRARY_PATH:-}"'
    return subprocess.run(
        ["bash", "-euo", "pipefail", "-c", script],
        cwd=WORKSPACE,
        env=os.environ | variables,
        capture_output=True,
        text=True,
        check=False,
    )


def cuda_compiler() -> str:
    """Return the path of nvcc, which is installed if missing."""
    answer = provide()
    if answer.returncode != 0:
        skip_or_fail(answer.stderr)
    return answer.stdout.splitlines()[0]
