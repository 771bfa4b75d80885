"""The command as a process of its own, and calls of the network that it runs."""

from __future__ import annotations

import json
import subprocess
import sys
import urllib.request
from pathlib import Path
from typing import Any

from click.testing import CliRunner

from localnet.cli.main import cli

FREE = ("--rpc-port", "0", "--prover-port", "0", "--indexer-port", "0", "--slot-ms", "0")
COMMAND = [str(Path(sys.executable).with_name("localnet"))]
DEADLINE = 120


def start(*arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [*COMMAND, "up", "--json", *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def invoke(*arguments: str) -> str:
    done = CliRunner().invoke(cli, arguments)
    assert done.exit_code == 0, done.output
    return done.output.strip()


def post(url: str, body: object) -> Any:
    data, headers = json.dumps(body).encode(), {"Content-Type": "application/json"}
    request = urllib.request.Request(url, data, headers)  # noqa: S310 - our own server
    with urllib.request.urlopen(request, timeout=DEADLINE) as response:  # noqa: S310
        return json.loads(response.read())


def call(report: dict[str, Any], method: str, *params: Any) -> Any:
    return post(report["rpcUrl"], {"jsonrpc": "2.0", "id": 1, "method": method, "params": params})["result"]
