"""The memory of commands that read keys: no other process of the same user reads it, and no core file is written."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from solders.keypair import Keypair

NOBODY = 65_534
KEY = Keypair.from_seed(bytes(range(32)))
PR_GET_DUMPABLE, PR_SET_DUMPABLE = 3, 4

AS_NOBODY = f"""
import ctypes, os, sys
if os.geteuid() == 0:
    os.setgroups([])
    os.setgid({NOBODY})
    os.setuid({NOBODY})
"""
HOLDER = f"""
from forester.memory_protection import protect_memory
{AS_NOBODY}
ctypes.CDLL(None).prctl({PR_SET_DUMPABLE}, 1, 0, 0, 0)  # as after execve: a change of the user has cleared it
print("ready", flush=True)
sys.stdin.readline()
assert protect_memory() is None
print("protected", flush=True)
sys.stdin.readline()
"""
READER = f"""{AS_NOBODY}
try:
    print(len(open(f"/proc/{{sys.argv[1]}}/environ", "rb").read()) > 0)
except PermissionError:
    print("refused")
"""
COMMANDS = (("start",), ("start", "--dry-run"), ("health",), ("check",), ("config", "show"), ("status", "--full"))


def spoken(script: str, *arguments: str) -> str:
    done = subprocess.run([sys.executable, "-c", script, *arguments], capture_output=True, text=True, check=True)
    return done.stdout.strip()


def test_process_of_the_same_user__reads_the_memory_of_another__is_refused_once_that_is_protected() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as holder:
        assert holder.stdin is not None
        assert holder.stdout is not None
        for word, answer in (("ready", "True"), ("protected", "refused")):
            assert holder.stdout.readline().strip() == word
            assert spoken(READER, str(holder.pid)) == answer
            holder.stdin.write("\n")
            holder.stdin.flush()


@pytest.mark.parametrize("words", COMMANDS)
def test_command__while_it_opens_the_key_file__cannot_leave_a_core_file(words: Sequence[str], tmp_path: Path) -> None:
    pipe = tmp_path / "payer"
    os.mkfifo(pipe, 0o600)
    settings = {"PAYER_FILE": str(pipe), "RPC_URL": "http://127.0.0.1:1", "HOME": str(tmp_path)}
    began = (
        "import resource; resource.setrlimit(resource.RLIMIT_CORE, (resource.getrlimit(resource.RLIMIT_CORE)[1],) * 2)"
    )
    script = f"{began}\nfrom forester.cli.main import cli\ncli()"
    environment = {name: value for name, value in os.environ.items() if name == "PATH"} | settings
    with subprocess.Popen(
        [sys.executable, "-c", script, *words], env=environment, cwd=tmp_path, stdout=-3, stderr=-3
    ) as command:
        # The other end of the pipe opens once the command opens it to read the key.
        with pipe.open("w") as end:
            limits = Path(f"/proc/{command.pid}/limits").read_text()
            owner = Path(f"/proc/{command.pid}/environ").stat().st_uid
            end.write(json.dumps(list(bytes(KEY))))
        command.terminate()
    assert re.search(r"Max core file size +0 +0 ", limits)
    assert owner == 0  # for every user: files of a process that is not dumpable belong to root


@pytest.mark.parametrize("words", [("config", "show"), ("health",)])
def test_command__when_it_ends__was_not_dumpable(words: Sequence[str], tmp_path: Path) -> None:
    script = f"""
import ctypes, sys
from forester.cli.main import cli
library = ctypes.CDLL(None)
before = library.prctl({PR_GET_DUMPABLE}, 0, 0, 0, 0)
try:
    cli()
except SystemExit:
    print("dumpable", before, library.prctl({PR_GET_DUMPABLE}, 0, 0, 0, 0))
"""
    done = subprocess.run(
        [sys.executable, "-c", script, *words], capture_output=True, text=True, check=True, cwd=tmp_path
    )
    assert done.stdout.strip().endswith("dumpable 1 0")
