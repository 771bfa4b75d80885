"""Several ``forester start`` processes on one network: registered, killed, restarted; their logs."""

from __future__ import annotations

import base64
import contextlib
import json
import math
import os
import signal
import sqlite3
import struct
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from localnet_process import Localnet
from solders.keypair import Keypair

from forester.chain.programs import addresses as known

STOP_DEADLINE_S = 60.0
DEFECTS = frozenset({"task_crashed", "unexpected_error"})
"""Events of log lines that have the traceback of a defect."""
_LAMPORTS = 100 * 10**9
_NO_FEE = 0
_AUTHORITY_AT = 8
"""Where a forester's account has its authority; the fee and the weight follow.

Source: forester/docs/reference/accounts.md, "Registry accounts".
"""
_BY_MINUTE = ("samples", "spending")

ProvedLink = tuple[str, bytes, bytes]
"""A proof by what it proves: circuit, old root, new root."""


@dataclass
class Life:
    """A process of a forester: its start, its end by SIGKILL, and the proofs in its journal at that time."""

    began: float
    killed: float | None = None
    kept: frozenset[ProvedLink] = frozenset()


@dataclass
class Member:
    """A forester with its own keys. ``folder`` has its journal and its log."""

    number: int
    weight: int
    folder: Path
    payer: Keypair = field(default_factory=Keypair)
    derivation: Keypair = field(default_factory=Keypair)
    lives: list[Life] = field(default_factory=list)
    process: subprocess.Popen[bytes] | None = None

    @property
    def log(self) -> Path:
        """Return the path of the log of all its processes."""
        return self.folder / "log"

    @property
    def journal(self) -> Path:
        """Return the path of its journal."""
        return self.folder / "journal.sqlite"

    @property
    def pid(self) -> int:
        """Return the process id. Raises RuntimeError if the process has ended."""
        if self.process is None or self.process.poll() is not None:
            raise RuntimeError(f"forester {self.number} has ended: {self.log.read_text()[-2000:]}")
        return self.process.pid

    def start(self, environment: Mapping[str, str]) -> None:
        """Start a process; ``environment`` is that of a forester of the network."""
        self.folder.mkdir(parents=True, exist_ok=True)
        own = {
            "PAYER": json.dumps(list(bytes(self.payer))),
            "DERIVATION_PUBKEY": str(self.derivation.pubkey()),
            "JOURNAL_PATH": str(self.journal),
            "CONFIRMATION_POLL_INTERVAL_MS": "200",
        }
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("COVERAGE")}
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "forester", "start"],
                env={**inherited, **environment, **own},
                cwd=self.folder,
                stderr=log,
            )
        self.lives.append(Life(time.time()))

    def kill(self) -> None:
        """Send SIGKILL, and record the proofs in the journal."""
        process, self.process = self.process, None
        if process is None:
            raise RuntimeError(f"forester {self.number} does not run")
        process.send_signal(signal.SIGKILL)
        process.wait(STOP_DEADLINE_S)
        self.lives[-1].killed = time.time()
        self.lives[-1].kept = self.kept_proofs()

    def stop(self) -> int | None:
        """Send SIGTERM; return the exit status, 0 if no process runs, None if it had to be killed."""
        if self.process is None:
            return 0
        self.process.terminate()
        try:
            return self.process.wait(STOP_DEADLINE_S)
        except subprocess.TimeoutExpired:
            return None
        finally:
            self.process.kill()
            self.process.wait(STOP_DEADLINE_S)

    def kept_proofs(self) -> frozenset[ProvedLink]:
        """Return the proofs in the journal of a process that has ended."""
        with contextlib.suppress(sqlite3.OperationalError), self._opened_journal() as connection:
            rows = connection.execute("SELECT circuit, old_root, new_root FROM proofs").fetchall()
            return frozenset((str(circuit), bytes(old), bytes(new)) for circuit, old, new in rows)
        return frozenset()  # killed before the tables were there

    def journal_rows(self) -> int:
        """Return the number of rows of all tables but those with a row for each minute, which are bounded by time.

        A process may use the journal meanwhile.
        """
        with self._opened_journal() as connection:
            names = [name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
            names = [name for name in names if name not in _BY_MINUTE]
            counts = (connection.execute(f"SELECT count(*) FROM {name}").fetchone()[0] for name in names)  # noqa: S608
            return sum(counts)

    def _opened_journal(self) -> contextlib.closing[sqlite3.Connection]:
        return contextlib.closing(sqlite3.connect(f"file:{self.journal}?mode=ro", uri=True))

    def lines(self, after: int = 0) -> Iterator[dict[str, Any]]:
        """Yield the events of its log from a byte offset; lines that a kill truncated are skipped."""
        for line in self.log.read_bytes()[after:].decode(errors="replace").splitlines():
            if line.startswith("{"):
                try:
                    yield json.loads(line)
                except ValueError:
                    continue

    def recoveries(self) -> list[float]:
        """Return seconds from each start after a kill until the process knew the work of its epoch."""
        return [at - life.began for life, at in self._ready() if life is not self.lives[0]]

    def ready_seconds(self, span: tuple[float, float]) -> float:
        """Return the seconds of a span, Unix seconds, in which a process of it knew its work."""
        ends = [(at, life.killed or math.inf) for life, at in self._ready()]
        return sum(max(0.0, min(killed, span[1]) - max(at, span[0])) for at, killed in ends)

    def _ready(self) -> list[tuple[Life, float]]:
        ready = [moment(line) for line in self.lines() if line["event"] == "epoch_state"]
        found = []
        for life in self.lives:
            after = [at for at in ready if at >= life.began and (life.killed is None or at <= life.killed)]
            found += [(life, min(after))] if after else []
        return found


def moment(line: Mapping[str, Any]) -> float:
    """Return the time of a log line, Unix seconds."""
    return datetime.fromisoformat(line["timestamp"]).timestamp()


def admit(net: Localnet, members: Iterable[Member]) -> None:
    """Register foresters: their accounts are those of the network's own forester, with other authority and weight."""
    own = known.forester_address(net.keys["forester"].pubkey())
    account = net.call("getAccountInfo", str(own), {"encoding": "base64"})["value"]
    for member in members:
        payer, data = member.payer.pubkey(), bytearray(base64.b64decode(account["data"][0]))
        struct.pack_into("<32sQQ", data, _AUTHORITY_AT, bytes(payer), _NO_FEE, member.weight)
        registered = account | {"data": base64.b64encode(data).decode()}
        net.call("localnet_setAccount", str(known.forester_address(member.derivation.pubkey())), registered)
        net.call("localnet_setAccount", str(payer), {"lamports": _LAMPORTS, "owner": str(known.SYSTEM), "data": ""})
