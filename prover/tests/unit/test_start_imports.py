"""What a server without a queue does not import: it starts sooner and is smaller."""

import subprocess
import sys

LEFT_OUT = ("numpy", "redis", "arq")


def test_standalone_server__imported__leaves_out_what_only_queues_and_compilers_need() -> None:
    code = f"import sys, prover.cli.serve; sys.exit(', '.join(m for m in {LEFT_OUT!r} if m in sys.modules) or None)"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert result.returncode == 0, f"imported: {result.stderr}"
