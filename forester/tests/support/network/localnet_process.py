"""A local network in a process, with the published programs, whose clock the tests move."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from solders.keypair import Keypair

WORKSPACE = Path(__file__).resolve().parents[4]
LOCALNET = WORKSPACE / "shared" / "localnet" / ".venv" / "bin" / "localnet"
PROGRAMS = WORKSPACE / "keys-cache" / "reference" / "0.28.3" / "programs"


@dataclass(frozen=True)
class Localnet:
    environment: dict[str, str]
    keys: dict[str, Keypair]

    @property
    def url(self) -> str:
        return self.environment["RPC_URL"]

    def call(self, method: str, *params: Any) -> Any:
        """Return the result of an RPC call, also of localnet's own methods; an error answer fails the test."""
        return _answer(self.url, method, params)

    def indexed(self, method: str, params: Any) -> Any:
        """Return the value that the indexer answers; an error answer fails the test."""
        return _answer(self.environment["INDEXER_URL"], method, params)["value"]


def _answer(url: str, method: str, params: Any) -> Any:
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).encode()
    request = urllib.request.Request(url, body, {"Content-Type": "application/json"})  # noqa: S310
    with urllib.request.urlopen(request, timeout=120) as response:  # noqa: S310
        answer = json.load(response)
    assert "error" not in answer, answer
    return answer["result"]


@contextlib.contextmanager
def running_localnet(*options: str) -> Iterator[Localnet]:
    """A fresh network with a stopped clock; the test is skipped if localnet or its programs are missing."""
    if not LOCALNET.is_file() or not PROGRAMS.is_dir():
        pytest.skip("localnet is not installed: make setup reference-fixtures")
    ports = [word for name in ("rpc", "prover", "indexer") for word in (f"--{name}-port", "0")]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("COVERAGE")}
    process = subprocess.Popen(
        [str(LOCALNET), "up", "--json", "--slot-ms", "0", *ports, *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=environment,
        text=True,
    )
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line, "localnet ended before it was ready"
        report = json.loads(line)
        keys = {name: Keypair.from_bytes(bytes(value)) for name, value in report["keys"].items()}
        yield Localnet(report["environment"], keys)
    finally:
        process.terminate()
        process.wait(timeout=60)
        if process.stdout is not None:
            process.stdout.close()
