"""``prover install-for-cli``: what the reference's launcher does to the file and to the process that it starts."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from local_processes import free_port
from service_process import PROVER, environment

PYTHON = str(Path(sys.executable))


def installed(path: Path, python: str = PYTHON) -> Path:
    command = [python, "-c", "from prover.cli.main import cli; cli()", "install-for-cli", str(path)]
    subprocess.run(command, check=True, capture_output=True, env=environment())
    return path


def version(program: Path) -> str:
    """Return the version that the launcher reads from the answer, in the 5 s that it gives it."""
    done = subprocess.run([str(program), "version"], capture_output=True, text=True, timeout=30, check=True)
    found = re.search(r"(\d+\.\d+\.\d+)", done.stdout.strip())
    assert found is not None
    return found[1]


def processes_named(name: str) -> list[int]:
    """Return the processes that the launcher finds: those whose command line contains the name."""
    listed = subprocess.run(["ps", "ax", "-ww", "-o", "pid,args"], capture_output=True, text=True, check=True).stdout
    return [int(line.split()[0]) for line in listed.splitlines()[1:] if name in line]


def start(program: Path, port: int, log: Path) -> subprocess.Popen[bytes]:
    words = ["start", "--keys-dir", f"{log.parent / 'keys'}/", "--prover-address", f"127.0.0.1:{port}"]
    with log.open("ab") as sink:
        command = [str(program), *words, "--auto-download", "true"]
        return subprocess.Popen(command, stdout=sink, stderr=sink, env=environment())


def serves(port: int, log: Path) -> None:
    deadline = time.monotonic() + 60
    while f"127.0.0.1:{port}".encode() not in log.read_bytes():
        assert time.monotonic() < deadline, log.read_text()
        time.sleep(0.05)


def test_installed_program__answers_version_whatever_is_next_to_it(tmp_path: Path) -> None:
    program = installed(tmp_path / "light/bin/prover-linux-amd64")
    program.with_name("click.py").write_text("raise SystemExit('a module next to the program')")
    assert version(program) == "2.0.7"
    assert os.access(program, os.X_OK)
    assert not program.is_symlink()


def test_installed_program__overwritten_by_the_launcher__leaves_this_prover_as_it_is(tmp_path: Path) -> None:
    program, before = tmp_path / "prover-linux-amd64", PROVER.read_bytes()
    program.symlink_to(PROVER)  # the mistake that the command replaces
    installed(program)
    assert not program.is_symlink()
    with program.open("wb") as file:  # as the launcher downloads: into the file that is there
        file.write(b"another program")
    assert PROVER.read_bytes() == before
    assert version(installed(program)) == "2.0.7"


def test_environment__with_a_blank_in_its_path__runs(tmp_path: Path) -> None:
    with_blank = tmp_path / "my environment"
    with_blank.symlink_to(Path(PYTHON).parent.parent)
    program = installed(tmp_path / "prover-linux-x64", f"{with_blank}/bin/python")
    assert version(program) == "2.0.7"
    assert "my environment" in program.read_text()


def test_started_program__is_one_process_that_the_launcher_finds_and_kills(tmp_path: Path) -> None:
    (tmp_path / "keys").mkdir()
    program = installed(tmp_path / f"prover-linux-{os.getpid()}")
    first_port, second_port = free_port(), free_port()
    first = start(program, first_port, tmp_path / "first.log")
    try:
        serves(first_port, tmp_path / "first.log")
        assert processes_named(program.name) == [first.pid]
        again = start(program, first_port, tmp_path / "again.log")
        assert again.wait(60) == 78, "a second start on the address ends"
        assert b"choose another address" in (tmp_path / "again.log").read_bytes()
        assert processes_named(program.name) == [first.pid]
    finally:
        for pid in processes_named(program.name):
            os.kill(pid, signal.SIGKILL)
    assert first.wait(60) == -signal.SIGKILL
    second = start(program, second_port, tmp_path / "second.log")
    try:
        serves(second_port, tmp_path / "second.log")
        assert processes_named(program.name) == [second.pid]
    finally:
        second.kill()
        second.wait()


@pytest.mark.parametrize("name", ["light", "my-prover", "light-prover"])
def test_name__that_the_launcher_would_not_find__is_refused(tmp_path: Path, name: str) -> None:
    done = subprocess.run(
        [str(PROVER), "install-for-cli", str(tmp_path / name)], capture_output=True, text=True, env=environment()
    )
    assert done.returncode == 78
    assert "prover-linux-x64" in done.stderr
    assert not (tmp_path / name).exists()


def test_path__not_given__is_that_of_the_launcher_for_this_user(tmp_path: Path) -> None:
    subprocess.run([str(PROVER), "install-for-cli"], check=True, env=environment() | {"HOME": str(tmp_path)})
    (program,) = (tmp_path / ".config/light/bin").iterdir()
    assert program.name in ("prover-linux-amd64", "prover-linux-arm64")
    assert version(program) == "2.0.7"
