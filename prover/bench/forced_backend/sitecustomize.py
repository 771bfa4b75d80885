"""Start-up hook for Python processes with this folder on PYTHONPATH: engines use the backend BENCH_BACKEND."""

import os

from prover.kernel.engine import Backend, Engine

Engine.__init__.__defaults__ = (0, Backend[os.environ["BENCH_BACKEND"].upper()])
