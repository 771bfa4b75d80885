"""Commands whose RPC node cannot be reached."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from command_line import run
from solders.keypair import Keypair

PAYER = Keypair.from_seed(bytes([9]) * 32)
PAYER_JSON = json.dumps(list(bytes(PAYER)))


def test_health__node_unreachable__fails_without_showing_credentials(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # where no .env file is
    code, text = run(
        *("health", "--timeout", "2", "--check-balance"),
        RPC_URL="http://u:passw0rd@127.0.0.1:1/?api-key=s3cr3t",
        PAYER=PAYER_JSON,
    )
    assert code == 1
    refused = "RPC node 127.0.0.1:1 cannot be reached for getBalance: Connection refused: check the address"
    assert refused in text or "no result within 2 s" in text
    assert "passw0rd" not in text
    assert "s3cr3t" not in text


def test_health__node_unreachable__has_a_code_of_its_own_and_no_cause_to_top_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    words = ("health", "--timeout", "9", "--check-balance", "--output", "json", "--exit-code-by-cause")
    code, text = run(*words, RPC_URL="http://127.0.0.1:1", PAYER=PAYER_JSON)
    assert (code, json.loads(text)["balance"]) == (69, {"healthy": False, "code": "unreachable"})


def test_health__node_silent__ends_within_the_limit_counted_from_the_start_of_the_process(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        program = "import time; time.sleep(3); from forester.cli.main import cli; cli()"
        words = ("health", "--timeout", "4", "--check-balance", "--output", "json", "--exit-code-by-cause")
        answer = subprocess.run(
            [sys.executable, "-c", program, *words],
            env={**os.environ, "RPC_URL": url, "PAYER": PAYER_JSON},
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=200,
            check=False,
        )
    assert answer.returncode == 75, answer.stderr
    [check] = json.loads(answer.stdout)["checks"]
    assert check["code"] == "timeout"
    assert check["duration_ms"] < 1500, "three of the four seconds had passed before the command began"


@pytest.mark.parametrize("status", [202, 500])
def test_health__push_gateway__gets_the_findings(status: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    got: list[bytes] = []

    class Gateway(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            got.append(self.rfile.read(int(self.headers["Content-Length"])))
            self.send_response(status)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Gateway) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_address[1]}/metrics/job/forester_health"
        code, text = run("health", "--output", "json", "--push-gateway-url", url)
        server.shutdown()
    names = [item["name"] for item in json.loads(text)["checks"]]
    assert code == 1
    assert names == ["balance", "registration", *(["push_gateway"] if status == 500 else [])]
    assert b'forester_health_check{check="balance"} 0.0' in got[0]
    assert b"forester_health_timestamp" in got[0]
    assert b"forester_last_run_timestamp" not in got[0]
