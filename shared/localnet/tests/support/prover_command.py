"""Our prover as a command: its own process, as an operator would run it."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from localnet.prover.key_folder import TREE_PROVER
from shared.requests.proof_compression import compress_proof
from shared.requests.proof_wire import ProofRequest, decode_proof, encode_request

DEADLINE = 280


def run_prover(*arguments: str, stdin: bytes = b"") -> bytes:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("COVERAGE")}
    done = subprocess.run(
        [str(TREE_PROVER), *arguments], input=stdin, capture_output=True, env=environment, timeout=DEADLINE
    )
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout


def proof_under(key: Path, request: ProofRequest) -> bytes:
    """Return a proof as instructions carry it."""
    return compress_proof(decode_proof(run_prover("prove", "--key", str(key), stdin=encode_request(request)))).data
