"""Real redis-server processes for tests: each with a folder of its own and a port that survives its restarts.

A server ends with the thread that started it, so a test run that is killed leaves none behind.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast
from urllib.parse import quote

import redis
from certificates import Certificates
from local_processes import free_port, tied

from prover.queue.connection import RedisConnection

BINARY = "redis-server"
START_SECONDS = 60


def missing() -> str | None:
    """Return what keeps servers from running here; None when nothing does."""
    if shutil.which(BINARY) is None:
        return f"{BINARY} is not installed; `make redis-server` installs it or says how"
    return None


class RedisServer:
    """A redis-server that can be killed, stopped for a while and started again on the same data and port."""

    def __init__(
        self,
        folder: Path,
        *options: str,
        appendonly: bool = False,
        password: str = "",
        certificates: Certificates | None = None,
    ) -> None:
        self.folder = folder
        self.password = password
        self.certificates = certificates
        self.port = free_port()
        self._options = options
        self._appendonly = appendonly
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        """The address as clients take it."""
        scheme = "rediss" if self.certificates else "redis"
        credentials = f":{quote(self.password, safe='')}@" if self.password else ""
        return f"{scheme}://{credentials}127.0.0.1:{self.port}/0"

    @property
    def pid(self) -> int:
        """The process that runs now."""
        assert self._process is not None, "the server does not run"
        return self._process.pid

    @property
    def log(self) -> str:
        """Output of the server since its first start."""
        path = self.folder / "redis.log"
        return path.read_text() if path.exists() else ""

    def start(self) -> RedisServer:
        """Start on the port and the data of before; returns when commands are answered."""
        self.launch()
        self.become_ready()
        return self

    def launch(self) -> None:
        """Start, and return at once."""
        assert self._process is None, "the server runs already"
        command = tied([BINARY, *self._words()])
        with (self.folder / "redis.log").open("ab") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT, cwd=self.folder)

    def become_ready(self) -> None:
        """Wait until commands are answered."""
        assert self._process is not None, "the server does not run"
        deadline = time.monotonic() + START_SECONDS
        while not self._answers():
            assert self._process.poll() is None, self.log
            assert time.monotonic() < deadline, self.log
            time.sleep(0.02)

    def kill(self) -> None:
        """Send SIGKILL: the next start has the content of the append-only file."""
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        """Send SIGTERM, and SIGKILL if that is not enough."""
        self._end(signal.SIGTERM)

    def restart(self) -> None:
        """Send SIGKILL and start."""
        self.kill()
        self.start()

    @contextlib.contextmanager
    def paused(self) -> Iterator[None]:
        """SIGSTOP meanwhile: connections stay open, nothing is answered."""
        os.kill(self.pid, signal.SIGSTOP)
        try:
            yield
        finally:
            os.kill(self.pid, signal.SIGCONT)

    @contextlib.contextmanager
    def client(self, **options: Any) -> Iterator[redis.Redis]:
        """A blocking client."""
        if self.certificates:
            options["ssl_ca_certs"] = str(self.certificates.authority)
        with contextlib.closing(redis.Redis.from_url(self.url, **options)) as client:
            yield client

    def connection(self, timeout_s: float = 5) -> RedisConnection:
        """Return a new connection as the prover has it."""
        return RedisConnection.open(self.url, timeout_s=timeout_s)

    def blocking(self) -> redis.Redis:
        """Return a new blocking client."""
        return redis.Redis.from_url(self.url)

    def info(self, section: str) -> dict[str, Any]:
        """Return a section of INFO."""
        with self.client() as client:
            return cast("dict[str, Any]", client.info(section))

    def flush(self) -> None:
        """Delete all data and the statistics of commands."""
        with self.client() as client:
            client.flushall()
            client.config_resetstat()

    def _words(self) -> list[str]:
        words = ["--bind", "127.0.0.1", "--dir", str(self.folder), "--save", ""]
        if self.certificates:
            words += ["--port", "0", "--tls-port", str(self.port), "--tls-auth-clients", "no"]
            words += ["--tls-cert-file", str(self.certificates.certificate)]
            words += ["--tls-key-file", str(self.certificates.key)]
        else:
            words += ["--port", str(self.port)]
        if self._appendonly:
            words += ["--appendonly", "yes", "--appendfsync", "always"]
        if self.password:
            words += ["--requirepass", self.password]
        return [*words, *self._options]

    def _answers(self) -> bool:
        with self.client(socket_timeout=5) as client:
            try:
                return bool(client.ping())
            except (redis.ConnectionError, redis.TimeoutError):
                return False

    def _end(self, how: signal.Signals) -> None:
        if self._process is None:
            return
        self._process.send_signal(how)
        try:
            self._process.wait(30)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process = None


StartRedis = Callable[..., RedisServer]
"""What the fixture `redis_start` gives; takes what RedisServer takes after the folder."""


@contextlib.contextmanager
def running_redis(folder: Path, *options: str, **settings: Any) -> Iterator[RedisServer]:
    """A server that is there meanwhile."""
    server = RedisServer(folder, *options, **settings).start()
    try:
        yield server
    finally:
        server.kill()
