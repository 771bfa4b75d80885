"""The published launcher starts, restarts and kills our prover in the place of its own.

It kills every process of the machine whose command line has the name of its prover, so it runs in a PID namespace.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from clients import DEADLINE, ROOT, free_pair, installed, node_and_npm, skip_or_fail

from localnet.chain.artefacts import artefacts_folder
from localnet.prover.key_folder import TREE_PROVER

CLI = "@lightprotocol/zk-compression-cli"
REQUEST = ROOT / "prover/tests/vectors/prover/v2_inclusion_32_1.json"
SESSION = """
import json, os, subprocess, sys, urllib.request
node, run, name, request, *ports = sys.argv[1:]
words = json.loads(os.environ["WORDS"])

def provers():
    listed = subprocess.run(["ps", "ax", "-ww", "-o", "pid,args"], capture_output=True, text=True).stdout.splitlines()
    return [line.split(None, 1) for line in listed if name.replace("*", "-") in line]

found = []
for port in ports:
    done = subprocess.run([node, run, "start-prover", "--prover-port", port, *words], capture_output=True, text=True)
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/prove", open(request, "rb").read()) as answer:
        proof = json.load(answer)
    found.append({"output": done.stdout + done.stderr, "provers": provers(), "proof": sorted(proof)})
print(json.dumps(found))
"""


def unshare() -> list[str]:
    """Return the words that give a command processes of its own, which end with it."""
    own_user = [] if os.geteuid() == 0 else ["--user", "--map-root-user"]
    words = ["unshare", *own_user, "--pid", "--fork", "--kill-child", "--mount-proc"]
    if shutil.which("unshare") is None or subprocess.run([*words, "true"], capture_output=True).returncode:
        skip_or_fail("processes of its own cannot be given to the launcher here")
    return words


def package_of(version: str, folder: Path) -> Path:
    """Return a copy of the package whose prover may be replaced; its other files and packages are links."""
    modules = installed({CLI: version}, "command-line")
    copied = folder / "node_modules"
    (copied / "@lightprotocol").mkdir(parents=True)
    for place in (modules, modules / "@lightprotocol"):
        for path in place.iterdir():
            if path.name not in ("@lightprotocol", "zk-compression-cli"):
                (copied / path.relative_to(modules)).symlink_to(path)
    package = copied / CLI
    shutil.copytree(modules / CLI, package, ignore=shutil.ignore_patterns("bin", "accounts"))
    (package / "bin/proving-keys").mkdir(parents=True)
    return package


@pytest.mark.timeout(3 * DEADLINE)
@pytest.mark.parametrize(
    ("version", "name", "words"),
    [
        ("0.27.0", "prover-linux-x64", ["--run-mode", "local-rpc"]),
        ("0.27.0", "prover-linux-x64", ["--circuit", "append-with-proofs-test", "--circuit", "inclusion"]),
        ("0.28.3", "prover-linux-amd64", []),
    ],
)
def test_launcher__starting_our_prover_three_times__has_one_that_proves(
    tmp_path: Path, version: str, name: str, words: list[str]
) -> None:
    package = package_of(version, tmp_path)
    tools = node_and_npm()
    assert tools is not None
    home = tmp_path / "home"
    if version == "0.27.0":
        program, keys = package / "bin" / name, package / "bin/proving-keys"
    else:
        program, keys = home / ".config/light/bin" / name, home / ".config/light/proving-keys"
    keys.mkdir(parents=True, exist_ok=True)
    for key in (artefacts_folder() / "0.27.0" / "proving-keys").glob("*.key"):
        (keys / key.name).symlink_to(key)
    home.mkdir(exist_ok=True)
    subprocess.run([str(TREE_PROVER), "install-for-cli", str(program)], check=True, capture_output=True)
    first, other = free_pair(), free_pair()
    environment = {**os.environ, "HOME": str(home), "WORDS": json.dumps(words)}
    command = [tools[0], str(package / "test_bin/run"), name.replace("-", "*"), str(REQUEST)]
    done = subprocess.run(
        [*unshare(), sys.executable, "-c", SESSION, *command, str(first), str(first), str(other)],
        capture_output=True,
        text=True,
        env=environment,
        cwd=home,
        timeout=2 * DEADLINE,
    )
    assert done.returncode == 0, done.stderr
    starts: list[dict[str, Any]] = json.loads(done.stdout)
    for start, port in zip(starts, (first, first, other), strict=True):
        ((_, arguments),) = start["provers"]
        assert re.search(rf"{name} start .*--prover-address 0\.0\.0\.0:{port}\b", arguments)
        assert "Health check passed!" in start["output"]
        assert start["proof"] == ["ar", "bs", "krs"]
    pids = [start["provers"][0][0] for start in starts]
    assert (pids[0] == pids[1]) is (version == "0.27.0"), "that release leaves a prover with the same words alone"
    assert pids[2] not in pids[:2]
