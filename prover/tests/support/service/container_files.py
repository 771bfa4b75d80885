"""compose.yaml and the Dockerfiles as tests read them, and their commands as processes of this machine.

Names that mean something only inside a container (addresses, hosts, mounted folders) are replaced in each word.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml  # type: ignore[import-untyped]

WORKSPACE = Path(__file__).resolve().parents[4]
PATIENCE_S = 180
FIRST_PROCESS = ["tini", "-s", "--"]
"""Forwards signals; it does not mind a first process of the engine before it."""


@dataclass
class Stage:
    """A stage, which one FROM begins."""

    base: str
    name: str
    instructions: list[tuple[str, str]] = field(default_factory=list)

    def all(self, name: str) -> list[str]:
        """Return the arguments of every such instruction."""
        return [arguments for instruction, arguments in self.instructions if instruction == name]

    def words(self, name: str) -> list[str]:
        """Return the words of the last such instruction in its JSON form."""
        words: list[str] = json.loads(self.all(name)[-1])
        return words

    @property
    def program(self) -> list[str]:
        """The words that the image starts, without those of its first process."""
        words = self.words("ENTRYPOINT")
        assert words[: len(FIRST_PROCESS)] == FIRST_PROCESS, words
        return words[len(FIRST_PROCESS) :]

    @property
    def health_check(self) -> list[str]:
        """The words of the health check's command."""
        [text] = self.all("HEALTHCHECK")
        words: list[str] = json.loads(text[text.index("CMD") + len("CMD") :])
        return words


def stages(dockerfile: Path) -> list[Stage]:
    """Return the stages of a Dockerfile."""
    lines = [line for line in dockerfile.read_text().splitlines() if not line.lstrip().startswith("#")]
    text = re.sub(r"\\\n\s*", " ", "\n".join(lines))
    found: list[Stage] = []
    for line in filter(None, map(str.strip, text.splitlines())):
        name, _, arguments = line.partition(" ")
        if name == "FROM":
            base, _, alias = arguments.partition(" AS ")
            found.append(Stage(base, alias))
        else:
            found[-1].instructions.append((name, arguments.strip()))
    return found


def in_context(path: str) -> bool:
    """Return whether builds are sent a path, relative to the workspace.

    The last line of .dockerignore that names it, or a folder that it is in, decides.
    """
    kept = True
    for line in (WORKSPACE / ".dockerignore").read_text().splitlines():
        if line and not line.startswith("#"):
            pattern = re.escape(line.removeprefix("!")).replace(r"\*\*/", "(?:.*/)?").replace(r"\*", "[^/]*")
            if re.fullmatch(f"{pattern}(?:/.*)?", path):
                kept = line.startswith("!")
    return kept


def copied_into(stage: Stage) -> list[str]:
    """Return the paths that a stage copies from the workspace: files, and folders without the slash."""
    return [
        source.rstrip("/")
        for copied in stage.all("COPY")
        if not copied.startswith("--from=")
        for source in copied.split()[:-1]
    ]


def compose() -> dict[str, Any]:
    """Return compose.yaml with resolved anchors."""
    everything: dict[str, Any] = yaml.safe_load((WORKSPACE / "compose.yaml").read_text())
    return everything


def services(profile: str) -> dict[str, dict[str, Any]]:
    """Return the services of a profile."""
    return {name: service for name, service in compose()["services"].items() if profile in service["profiles"]}


def command_of(service: Mapping[str, Any]) -> list[str]:
    """Return the words of a service's container: the entry point of our image, if it is one, and the command."""
    entry: list[str] = service.get("entrypoint", [])
    if "build" in service:
        entry = stages(WORKSPACE / service["build"]["dockerfile"])[-1].program
    return [*entry, *service["command"]]


def health_check_of(service: Mapping[str, Any]) -> list[str]:
    """Return the words of a service's health check, or of that of its image."""
    if "healthcheck" in service:
        kind: str
        words: list[str]
        kind, *words = service["healthcheck"]["test"]
        assert kind == "CMD"
        return words
    return stages(WORKSPACE / service["build"]["dockerfile"])[-1].health_check


def here(words: list[str], places: Mapping[str, str]) -> list[str]:
    """Return a container's command for this machine; ``places`` maps its paths to paths here."""
    ours = {name: str(Path(sys.executable).with_name(name)) for name in ("prover", "forester")}
    program = {**ours, "python": sys.executable, "python3": sys.executable}
    localised = [program.get(words[0], words[0]), *words[1:]]
    for inside, outside in places.items():
        localised = [word.replace(inside, outside) for word in localised]
    return localised


def environment(variables: Mapping[str, str]) -> dict[str, str]:
    """Return the variables of a container, as far as processes of this machine need them."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PROVER_", "COVERAGE", "REDIS_"))}
    return kept | {name: str(value) for name, value in variables.items()}


class Container:
    """The process of a service."""

    stop_signal = signal.SIGTERM

    def __init__(self, name: str, command: list[str], health_check: list[str], log: Path, **options: Any) -> None:
        self.name = name
        self.log = log
        self._health_check = health_check
        with log.open("wb") as sink:
            self.process = subprocess.Popen(command, stdout=sink, stderr=subprocess.STDOUT, **options)

    def healthy(self) -> bool:
        """Return whether the health check succeeds."""
        check = subprocess.run(self._health_check, capture_output=True, env=environment({}), timeout=60)
        return check.returncode == 0

    def become_healthy(self) -> None:
        """Wait for that."""
        deadline = time.monotonic() + PATIENCE_S
        while not self.healthy():
            assert self.process.poll() is None, f"{self.name}: {self.log.read_text()}"
            assert time.monotonic() < deadline, f"{self.name}: {self.log.read_text()}"
            time.sleep(0.2)

    def stop(self) -> int:
        """Stop as `compose down` does; return the exit status."""
        self.process.send_signal(self.stop_signal)
        try:
            return self.process.wait(PATIENCE_S)
        finally:
            if self.process.poll() is None:
                self.process.kill()
                self.process.wait()


@contextlib.contextmanager
def running_container(
    name: str, service: Mapping[str, Any], places: Mapping[str, str], folder: Path
) -> Iterator[Container]:
    """A service as a process in ``folder``."""
    given = {key: value for key, value in service.get("environment", {}).items() if value is not None}
    variables = {key: here(["", str(value)], places)[1] for key, value in given.items()}
    container = Container(
        name,
        here(command_of(service), places),
        here(health_check_of(service), places),
        folder / f"{name}.log",
        env=environment(variables),
        cwd=folder,
    )
    container.stop_signal = signal.Signals[service.get("stop_signal", "SIGTERM")]
    try:
        yield container
    finally:
        if container.process.poll() is None:
            container.stop()
