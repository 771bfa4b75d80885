"""Tutorials as tests: the commands of a page run in one shell, and the output that the page shows must appear.

In a block that begins with ```console, lines after ``$ `` are commands, which a backslash or a here-document continues.
The lines below a command are its output, in which ``…`` matches any text. ``<!-- not run: reason -->`` before a block
keeps it from being run, ``<!-- long: reason -->`` leaves it to acceptance tests. The shell has a network of its own, so
that ports are free and no other host can be reached.
"""

import contextlib
import os
import re
import select
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from promtool import required_promtool

WORKSPACE = Path(__file__).resolve().parents[3]
_BLOCK = re.compile(
    r"(?:^<!-- (?P<mark>not run|long): [^\n]+ -->\n+)?^```console\n(?P<text>.*?)^```", re.MULTILINE | re.DOTALL
)
_HERE_DOCUMENT = re.compile(r"<<'(?P<end>\w+)'$")
_NETWORK = ("unshare", "--user", "--map-root-user", "--net")
_LOOPBACK_UP = (
    "python3 -c 'import fcntl,socket,struct; "
    'fcntl.ioctl(socket.socket(), 0x8914, struct.pack("16sH22x", b"lo", 0x41))\''
)
"""SIOCSIFFLAGS with IFF_UP and IFF_RUNNING: as `ip link set lo up`, without that program."""


@dataclass(frozen=True)
class Step:
    """A command of a page and the output that the page shows; the line number is that of the command."""

    line: int
    command: str
    output: tuple[str, ...]


def steps(page: Path, *, long: bool = False) -> list[Step]:
    """Return the commands of a page that are to be run, with ``long`` those of long blocks, too."""
    text = page.read_text()
    found: list[Step] = []
    for block in _BLOCK.finditer(text):
        if block["mark"] == "not run" or (block["mark"] == "long" and not long):
            continue
        first = text.count("\n", 0, block.start("text")) + 1
        found += _steps_of(block["text"], first)
    return found


def _steps_of(block: str, first: int) -> Iterator[Step]:
    command: list[str] = []
    output: list[str] = []
    at, continues, end = first, False, ""
    for number, line in enumerate(block.splitlines(), start=first):
        if end:
            command.append(line)
            end = "" if line == end else end
            continue
        if continues:
            command.append(line)
        elif line.startswith("$ "):
            if command:
                yield Step(at, "\n".join(command), tuple(output))
            command, output, at = [line[2:]], [], number
        else:
            output.append(line)
            continue
        continues = line.endswith("\\")
        document = _HERE_DOCUMENT.search(line)
        end = document["end"] if document else ""
    if command:
        yield Step(at, "\n".join(command), tuple(output))


class TutorialFailed(AssertionError):
    """A command failed, took too long, or printed something else than the page shows."""


class Shell:
    """A shell that keeps its state between commands. Closing it ends what it started."""

    def __init__(self, home: Path, variables: Mapping[str, str]) -> None:
        self._process = subprocess.Popen(
            [*_NETWORK, "bash", "--noprofile", "--norc"],
            cwd=WORKSPACE,
            env={**_environment(), **variables, "HOME": str(home), "XDG_STATE_HOME": str(home / "state")},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        self.run(_LOOPBACK_UP, 10)

    def run(self, command: str, limit_s: float) -> tuple[str, int]:
        """Run a command; return its output and exit status. Raises TutorialFailed after the limit."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        mark = f"end-of-command-{time.monotonic_ns()}"
        self._process.stdin.write(f"{command}\nprintf '\\n%s %s\\n' {mark} $?\n".encode())
        self._process.stdin.flush()
        text, ends = "", time.monotonic() + limit_s
        pattern = re.compile(rf"^{mark} (\d+)$", re.MULTILINE)
        while not (ended := pattern.search(text)):
            ready, _, _ = select.select([self._process.stdout], [], [], max(0.0, ends - time.monotonic()))
            part = os.read(self._process.stdout.fileno(), 1 << 16) if ready else b""
            if not part:
                raise TutorialFailed(f"no end within {limit_s:.0f} s, or the shell ended: {command}\n{text[-3000:]}")
            text += part.decode(errors="replace")
        return text[: ended.start()], int(ended[1])

    def close(self) -> None:
        """End the shell and all that it started."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.communicate()


def _environment() -> dict[str, str]:
    kept = ("PATH", "LANG", "TERM")
    return {name: os.environ[name] for name in kept if name in os.environ}


def _path_with_prometheus(page: Path) -> dict[str, str]:
    """Return PATH with Prometheus for a page that runs it; without Prometheus the test is skipped, or fails."""
    if not any(step.command.startswith("prometheus ") for step in steps(page)):
        return {}
    # Where it is not installed, it is unpacked for the tests of rules.
    return {"PATH": f"{os.environ['PATH']}:{required_promtool().parent}"}


def can_isolate() -> bool:
    """Return whether this machine lets a process have a network of its own."""
    try:
        return subprocess.run([*_NETWORK, "true"], capture_output=True, check=False).returncode == 0
    except FileNotFoundError:
        return False


def play(
    page: Path, home: Path, *, limit_s: float = 120, long: bool = False, variables: Mapping[str, str] | None = None
) -> int:
    """Run all commands of a page; return their number. Raises TutorialFailed at the first that does not do as shown."""
    shell = Shell(home, _path_with_prometheus(page) | dict(variables or {}))
    try:
        todo = steps(page, long=long)
        for step in todo:
            printed, status = shell.run(step.command, limit_s)
            at = f"{page.name}:{step.line}: {step.command}\n{printed[-3000:]}"
            if status != 0:
                raise TutorialFailed(f"exit status {status} at {at}")
            position = 0
            for line in step.output:
                pattern = ".*".join(re.escape(part) for part in line.split("…"))
                match = re.compile(pattern).search(printed, position)
                if match is None:
                    raise TutorialFailed(f"does not print {line!r} at {at}")
                position = match.end()
        return len(todo)
    finally:
        shell.close()
