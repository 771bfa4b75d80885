"""A journal with damaged bytes: one entry costs that entry, a damaged file is an error that names file and remedy."""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from hypothesis import given, settings
from hypothesis import strategies as st
from sender_bench import LAST_VALID, TREE, Bench, send
from solders.hash import Hash
from solders.keypair import Keypair
from solders.message import MessageV0
from solders.signature import Signature
from solders.transaction import VersionedTransaction

from forester.journal import database
from forester.journal.compressible import CompressibleStore
from forester.journal.database import Journal, JournalError
from forester.journal.proofs import ProofStore, StoredProof
from forester.journal.rollovers import BegunRollover, KeysUnreadable, RolloverStore
from forester.journal.samples import SampleStore
from forester.journal.signatures import SentTransaction, SignatureStore
from forester.journal.spending import SpendingStore
from forester.settings import SigningKey
from forester.transactions.confirm import Fate

KEY = Keypair.from_seed(bytes([7]) * 32)
SIGNED = VersionedTransaction(MessageV0.try_compile(KEY.pubkey(), [], [], Hash.default()), [KEY])
SENT = SentTransaction(str(SIGNED.signatures[0]), "test", TREE, LAST_VALID, bytes(SIGNED))
PROOF = StoredProof(TREE, 4, "append", bytes(32), bytes([1]) * 32, 40, 10, bytes(128))
BEGUN = BegunRollover(TREE, *[SigningKey(Keypair.from_seed(bytes([number]) * 32)) for number in (1, 2, 3)])


@pytest_asyncio.fixture
async def journal(tmp_path: Path) -> AsyncIterator[Journal]:
    async with await Journal.open(tmp_path / "journal.sqlite") as opened:
        yield opened


@pytest.fixture
def logged(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, str]]:
    found: list[dict[str, str]] = []
    monkeypatch.setattr(database._log, "error", lambda event, **fields: found.append({"event": event, **fields}))
    return found


async def damage(journal: Journal, table: str, column: str, value: str) -> None:
    """Set a column to the value of an SQL expression."""
    await journal.change(f"UPDATE {table} SET {column} = {value}", ())  # noqa: S608 - of this file


def text(value: bytes) -> str:
    return f"CAST(x'{value.hex()}' AS TEXT)"


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("signature", "'no signature'"),
        ("signature", text(b"5" * 40 + b"\xff" * 40)),
        ("signature", f"'{Signature(bytes([9]) * 64)}'"),
        ("signed", "x'00'"),
        ("signed", "'text'"),
        ("last_valid_block_height", "'never'"),
    ],
)
async def test_signature__damaged__is_logged_once_and_its_work_waits_until_it_has_expired(
    journal: Journal, logged: list[dict[str, str]], column: str, value: str
) -> None:
    bench = Bench(journal)
    await bench.signatures.add(SENT)
    await damage(journal, "signatures", column, value)
    other = Signature(bytes([1]) * 64)
    await bench.signatures.add(SentTransaction(str(other), "other", TREE, LAST_VALID))
    bench.chain.landed[other] = None
    async with bench.sender() as sender:
        assert not await sender.wait_for_earlier("test", TREE, 0.05)
        assert (await send(sender, within_s=0.5)).fate is Fate.DEADLINE_PASSED
        assert bench.chain.sent == []
        assert await sender.wait_for_earlier("other", TREE, 60.0), "it has landed"
        assert await sender.settle_pending() == 1, "the damaged one stays unknown"
        (line,) = logged
        assert (line["event"], line["journal"]) == ("journal_entry_unreadable", str(journal.path))
        assert line["table"] == "signatures"
        assert "waits 180 s" in line["remedy"]
        bench.now = 181.0
        assert await sender.wait_for_earlier("test", TREE, 0.05)
        assert (await send(sender)).fate is Fate.CONFIRMED
        assert len(logged) == 1


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("circuit", "'appenc'"),
        ("circuit", text(b"\xffppend")),
        ("proof", "x'00'"),
        ("new_root", "'text'"),
        ("start_index", "'none'"),
    ],
)
async def test_proof__damaged__is_skipped_and_the_others_stay(
    journal: Journal, logged: list[dict[str, str]], column: str, value: str
) -> None:
    store = ProofStore(journal)
    await store.add([PROOF])
    await damage(journal, "proofs", column, value)
    intact = StoredProof(TREE, 5, "update", bytes(32), bytes([1]) * 32, 40, 10, bytes(128))
    await store.add([intact])
    assert await store.of_tree(TREE) == [intact]
    (line,) = logged
    assert (line["table"], line["journal"]) == ("proofs", str(journal.path))


def changed(secret: bytes, position: int) -> bytes:
    return secret[:position] + bytes([secret[position] ^ 1]) + secret[position + 1 :]


@pytest.mark.parametrize("position", [0, 63])
async def test_rollover_keys__damaged__are_an_error_with_the_addresses_of_both_halves(
    journal: Journal, position: int
) -> None:
    store = RolloverStore(journal)
    await store.begin(BEGUN)
    assert BEGUN.new_queue is not None
    damaged = changed(bytes(BEGUN.new_queue.keypair), position)
    await damage(journal, "rollovers", "new_queue", f"x'{damaged.hex()}'")
    with pytest.raises(KeysUnreadable) as caught:
        await store.of_tree(TREE)
    assert {key.pubkey for key in BEGUN.keys} < set(caught.value.addresses)
    assert damaged[:32].hex() not in caught.value.detail


async def read_all(journal: Journal) -> tuple[Any, ...]:
    """Read all tables as the daemon does, and decode what is read."""
    pending = await SignatureStore(journal).pending()
    proofs = await ProofStore(journal).of_tree(TREE)
    begun = None
    with contextlib.suppress(KeysUnreadable):
        begun = await RolloverStore(journal).of_tree(TREE)
    await CompressibleStore(journal).ready([0, 1], 10, 10)
    await SampleStore(journal).recent(10)
    await SpendingStore(journal).within_window(0.0)
    for item in pending:
        if item.is_readable:
            Signature.from_string(item.signature)
            assert not item.signed or VersionedTransaction.from_bytes(item.signed).signatures
    return pending, proofs, begun


async def filled(path: Path) -> None:
    async with await Journal.open(path) as journal:
        await SignatureStore(journal).add(SENT)
        await ProofStore(journal).add([PROOF])
        await RolloverStore(journal).begin(BEGUN)
        await SpendingStore(journal).reserve(1, maximum=10, now=0.0, purpose="test")


VALUES = st.one_of(
    st.binary(max_size=200).map(lambda value: f"x'{value.hex()}'"),
    st.binary(max_size=100).map(text),
    st.integers(-(2**63) + 1, 2**63 - 1).map(str),
    st.floats(allow_nan=False, allow_infinity=False).map(repr),
)
COLUMNS = st.sampled_from(
    [("signatures", name) for name in ("signature", "purpose", "subject", "last_valid_block_height", "signed")]
    + [("proofs", name) for name in ("sequence", "circuit", "old_root", "new_root", "start_index", "proof")]
    + [("rollovers", name) for name in ("new_tree", "new_queue", "cpi_context")]
    + [("spending", name) for name in ("minute", "purpose", "lamports")]
)


@settings(max_examples=60, deadline=None)
@given(COLUMNS, VALUES)
def test_journal__any_value_in_any_column__costs_at_most_that_entry(column: tuple[str, str], value: str) -> None:
    async def check() -> None:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "journal.sqlite"
            await filled(path)
            async with await Journal.open(path) as journal:
                with contextlib.suppress(JournalError):  # a value that the column refuses
                    await damage(journal, *column, value)
                pending, proofs, begun = await read_all(journal)
            assert len(pending) == 1, "an unreadable transaction is awaited"
            if column[0] != "signatures":
                assert pending == [SENT]
            if column[0] != "proofs":
                assert proofs == [PROOF]
            if column[0] != "rollovers":
                assert begun is not None
                assert [key.pubkey for key in begun.keys] == [key.pubkey for key in BEGUN.keys]

    asyncio.run(check())


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_journal__any_bytes_overwritten__is_read_or_an_error_with_file_and_remedy(data: st.DataObject) -> None:
    async def check() -> None:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "journal.sqlite"
            await filled(path)
            content = bytearray(path.read_bytes())
            start = data.draw(st.integers(0, len(content) - 1))
            noise = data.draw(st.binary(min_size=1, max_size=64))[: len(content) - start]
            content[start : start + len(noise)] = noise
            path.write_bytes(content)
            failures: list[str] = []
            try:
                async with await Journal.open(path) as journal:
                    await read_all(journal)
            except JournalError as error:
                failures.append(error.detail)
            for detail in failures:
                assert str(path) in detail
                assert "the next" in detail or "move it away" in detail or "newer release" in detail

    asyncio.run(check())


async def test_journal__file_damaged_while_it_is_open__is_an_error_with_file_and_remedy(journal: Journal) -> None:
    def work(_: sqlite3.Connection) -> None:
        raise sqlite3.DatabaseError("database disk image is malformed")

    with pytest.raises(JournalError, match=rf"{journal.path} .* malformed; .* move the journal away"):
        await journal.run(work)
