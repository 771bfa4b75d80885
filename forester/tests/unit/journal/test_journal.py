"""The journal on a real file system, with processes that are killed."""

import asyncio
import contextlib
import os
import random
import signal
import sqlite3
import stat
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import pytest_asyncio

from forester.journal import database
from forester.journal.database import Journal, JournalError, JournalLocked, JournalNewer
from forester.journal.proofs import MAXIMUM_PER_TREE, ProofStore, StoredProof
from forester.journal.signatures import SentTransaction, SignatureStore

TREE, OTHER = b"\x01" * 32, b"\x02" * 32


def proof(sequence: int, tree: bytes = TREE, circuit: str = "append") -> StoredProof:
    old, new = (number.to_bytes(32, "big") for number in (sequence, sequence + 1))
    return StoredProof(tree, sequence, circuit, old, new, 10 * sequence, 10, bytes([sequence % 256]) * 128)


@pytest_asyncio.fixture
async def journal(tmp_path: Path) -> AsyncIterator[Journal]:
    async with await Journal.open(tmp_path / "state" / "journal.sqlite") as opened:
        yield opened


async def test_proofs__kept_and_read_again__are_the_same_in_order(journal: Journal) -> None:
    store = ProofStore(journal)
    await store.add([proof(9), proof(3), proof(3, circuit="update"), proof(5, OTHER)])
    await store.add([proof(3), proof(4)])
    assert await store.of_tree(TREE) == [proof(3), proof(3, circuit="update"), proof(4), proof(9)]
    assert await store.counts() == {TREE: 4, OTHER: 1}
    await store.forget([proof(3), proof(77)])
    assert await store.forget_before(TREE, 9) == 2
    assert await store.of_tree(TREE) == [proof(9)]
    assert await store.of_tree(OTHER) == [proof(5, OTHER)]


async def test_proofs__more_than_the_limit__lose_those_furthest_ahead(journal: Journal) -> None:
    store = ProofStore(journal)
    await store.add([proof(sequence) for sequence in range(MAXIMUM_PER_TREE + 10, 0, -1)])
    await store.add([proof(1, OTHER)])
    kept = await store.of_tree(TREE)
    assert [stored.sequence for stored in kept] == list(range(1, MAXIMUM_PER_TREE + 1))
    assert await store.counts() == {TREE: MAXIMUM_PER_TREE, OTHER: 1}


async def test_signatures__sent_settled_and_expired__are_remembered_meanwhile(journal: Journal) -> None:
    store = SignatureStore(journal)
    sent = [SentTransaction(f"signature {number}", "append", TREE, 100 * number) for number in range(1, 4)]
    for transaction in sent:
        await store.add(transaction)
    assert await store.pending() == sent
    await store.settle("signature 2")
    assert await store.expire(100, age_s=-1) == 0, "it can still land at its last height"
    assert await store.expire(10**9, age_s=600) == 0, "it is younger than any blockhash lives, whatever the height"
    assert await store.expire(101, age_s=-1) == 1
    assert await store.pending() == [sent[2]]


async def test_signatures__of_the_day_before__are_forgotten_whatever_their_height(
    journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = SignatureStore(journal)
    now = time.time()
    for age_s in (86_500.0, 86_300.0):
        monkeypatch.setattr(time, "time", lambda age_s=age_s: now - age_s)
        await store.add(SentTransaction(f"sent {age_s} s ago", "append", TREE, 2**48))
    monkeypatch.setattr(time, "time", lambda: now)
    assert await store.expire(0, age_s=600) == 1
    assert [item.signature for item in await store.pending()] == ["sent 86300.0 s ago"]


async def test_journal__opened_again__has_what_was_kept(tmp_path: Path) -> None:
    path = tmp_path / "journal.sqlite"
    async with await Journal.open(path) as journal:
        await ProofStore(journal).add([proof(1)])
    async with await Journal.open(path) as journal:
        assert await ProofStore(journal).of_tree(TREE) == [proof(1)]


async def test_journal__in_use__is_refused_to_a_second_forester_with_the_strategy_of_updates(tmp_path: Path) -> None:
    path = tmp_path / "journal.sqlite"
    async with await Journal.open(path):
        with pytest.raises(JournalLocked, match=r"another forester uses the journal .* strategy Recreate"):
            await Journal.open(path)
    async with await Journal.open(path):
        pass


async def test_journal__of_a_newer_release__is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "journal.sqlite"
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA user_version = 99")
    with pytest.raises(JournalNewer, match="schema 99"):
        await Journal.open(path)
    (tmp_path / "other").write_text("not a data base at all, but long enough to look like one" * 20)
    with pytest.raises(JournalError, match="move it away to create another"):
        await Journal.open(tmp_path / "other")
    with pytest.raises(JournalError, match="cannot be opened"):
        await Journal.open(tmp_path / "other" / "journal.sqlite")
    async with await Journal.open(tmp_path / "good"):
        pass


async def test_journal__schema_of_each_release__is_brought_up_to_date(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "journal.sqlite"
    async with await Journal.open(path) as journal:
        await ProofStore(journal).add([proof(1)])
    longer = (*database._MIGRATIONS, "CREATE TABLE later (x INTEGER); INSERT INTO later VALUES (7)")
    monkeypatch.setattr(database, "_MIGRATIONS", longer)
    for _ in range(2):
        async with await Journal.open(path) as journal:
            rows = await journal.run(lambda connection: connection.execute("SELECT x FROM later").fetchall())
            assert rows == [(7,)]
            assert await ProofStore(journal).of_tree(TREE) == [proof(1)]


@pytest.fixture
def usual_umask() -> Iterator[None]:
    before = os.umask(0o022)
    yield
    os.umask(before)


def modes(folder: Path) -> dict[str, str]:
    return {path.name: oct(stat.S_IMODE(path.stat().st_mode)) for path in folder.iterdir()}


FILES = ("journal.sqlite", "journal.sqlite-wal", "journal.sqlite-shm", "journal.sqlite.lock")


@pytest.mark.usefixtures("usual_umask")
async def test_journal__made_under_the_usual_umask__is_for_its_owner_alone(tmp_path: Path) -> None:
    folder = tmp_path / "state" / "forester"
    async with await Journal.open(folder / "journal.sqlite") as journal:
        await ProofStore(journal).add([proof(1)])
        assert modes(folder) == dict.fromkeys(FILES, "0o600")
        assert modes(folder.parent) == {"forester": "0o700"}


@pytest.mark.usefixtures("usual_umask")
async def test_journal__of_an_older_release__becomes_its_owners_and_the_folder_stays(tmp_path: Path) -> None:
    path = tmp_path / "journal.sqlite"
    assert await asyncio.to_thread(killed_writer, path, 0, 3), "a killed process leaves the file written ahead"
    for name in FILES[:3]:
        (tmp_path / name).chmod(0o644)
    folder = modes(tmp_path.parent)[tmp_path.name]
    (tmp_path / "link").symlink_to(path)
    async with await Journal.open(tmp_path / "link") as journal:
        assert len(await ProofStore(journal).of_tree(b"t" * 32)) >= 3
        assert {modes(tmp_path)[name] for name in FILES} == {"0o600"}
    assert modes(tmp_path.parent)[tmp_path.name] == folder


async def test_journal__of_another_owner__is_used_and_the_log_reports_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    path, found = tmp_path / "journal.sqlite", list[str]()
    path.touch(0o644)
    monkeypatch.setattr(Path, "chmod", refuse)
    monkeypatch.setattr(database._log, "warning", lambda event, **_: found.append(event))
    async with await Journal.open(path) as journal:
        await ProofStore(journal).add([proof(1)])
    assert found == ["journal_readable_by_others"]


async def test_run__work_that_fails__leaves_nothing_behind(journal: Journal) -> None:
    def work(connection: sqlite3.Connection) -> None:
        connection.execute("INSERT INTO signatures VALUES ('s', 'p', x'00', 1, 1, x'')")
        raise ValueError("in the middle")

    with pytest.raises(ValueError, match="in the middle"):
        await journal.run(work)
    assert await SignatureStore(journal).pending() == []
    with pytest.raises(JournalError, match="no such table"):
        await journal.run(lambda connection: connection.execute("SELECT * FROM nowhere").fetchall())
    await ProofStore(journal).add([proof(1)])


async def test_journal__many_writers_at_once__lose_nothing(journal: Journal) -> None:
    store = ProofStore(journal)
    await asyncio.gather(*(store.add([proof(sequence)]) for sequence in range(50)))
    assert len(await store.of_tree(TREE)) == 50


WRITER = """
import asyncio, sys
from pathlib import Path
from forester.journal.database import Journal
from forester.journal.proofs import ProofStore, StoredProof

def proofs(sequence: int) -> list[StoredProof]:
    circuits = ("append", "update")[: 1 + sequence % 2]
    return [StoredProof(b"t" * 32, sequence, circuit, b"o" * 32, b"n" * 32, 0, 10, b"p" * 128) for circuit in circuits]

async def main() -> None:
    async with await Journal.open(Path(sys.argv[1])) as journal:
        for line in sys.stdin:
            await ProofStore(journal).add(proofs(int(line)))
            print(int(line), flush=True)

asyncio.run(main())
"""
BATCHES = 40


def killed_writer(path: Path, first: int, kill_after: int) -> list[int]:
    """Let a process add batches, kill it at some point, and return what it had reported as kept."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("COVERAGE")}
    command = [sys.executable, "-c", WRITER, str(path)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment, text=True
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write("".join(f"{sequence}\n" for sequence in range(first, first + BATCHES)))
        process.stdin.flush()
        lines = [process.stdout.readline() for _ in range(kill_after)]
        process.send_signal(signal.SIGKILL)
        lines += process.stdout.read().splitlines()
    return [int(line) for line in lines]


async def examine(path: Path) -> list[StoredProof]:
    async with await Journal.open(path) as journal:
        (verdict,) = await journal.run(lambda connection: connection.execute("PRAGMA integrity_check").fetchone())
        assert verdict == "ok"
        return await ProofStore(journal).of_tree(b"t" * 32)


def test_journal__process_killed_at_random__keeps_all_that_was_reported_and_no_half_of_anything(tmp_path: Path) -> None:
    path, reported = tmp_path / "journal.sqlite", set[int]()
    for run in range(3):
        found = killed_writer(path, run * BATCHES, random.randint(1, BATCHES - 5))
        reported.update(found)
        stored = asyncio.run(examine(path))
        assert reported <= {proof.sequence for proof in stored}
        for sequence in {proof.sequence for proof in stored}:
            assert sum(proof.sequence == sequence for proof in stored) == 1 + sequence % 2, "batches are whole"
        in_flight = [proof.sequence for proof in stored if proof.sequence > max(found)]
        assert set(in_flight) <= {max(found) + 1}, "at most one was kept and not reported"
