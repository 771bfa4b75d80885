"""Readiness of trees for a rollover, its payer, and the keys that are stored meanwhile."""

from __future__ import annotations

import contextlib
import sqlite3
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from onchain_vectors import published_account, recorded
from solders.keypair import Keypair
from solders.pubkey import Pubkey

from forester.chain.tree_metadata import Metadata, TreeKind, TreeMetadata, decode_metadata
from forester.journal import database
from forester.journal.database import Journal
from forester.journal.rollovers import BegunRollover, RolloverStore
from forester.journal.signatures import SentTransaction, SignatureStore
from forester.rollover.readiness import Rents, TreeHead, decode_head, lacking_lamports
from forester.rollover.successor import new_keys
from forester.settings import SigningKey

NEVER = 2**64 - 1
KEY = Pubkey(bytes([1]) * 32)
METADATA = Metadata(KEY, KEY, KEY, 0, 300, 95, 5000, None, NEVER, 0, KEY, Pubkey.default())
PUBLISHED = recorded("fixtures_0.28.3")
FIRST_FULL = {26: 63_753_420, 32: 4_080_218_931, 40: 1_044_536_046_387}
"""95 percent of the capacity of the published heights, rounded down."""


def head(kind: TreeKind, next_index: int, height: int, **changes: Any) -> TreeHead:
    return TreeHead(kind, replace(METADATA, **changes), next_index, height)


@pytest.mark.parametrize(
    ("kind", "height"),
    [(TreeKind.STATE_V1, 26), (TreeKind.ADDRESS_V1, 26), (TreeKind.STATE_V2, 32), (TreeKind.ADDRESS_V2, 40)],
)
def test_tree__at_its_threshold__is_due_unless_it_has_a_successor(kind: TreeKind, height: int) -> None:
    full = FIRST_FULL[height]
    assert not head(kind, full - 1, height).is_due
    assert head(kind, full, height).is_due
    assert head(kind, 2**height, height).is_due
    assert not head(kind, 2**height, height, rolledover_slot=7).is_due
    assert not head(kind, 2**height, height, rollover_threshold=NEVER).is_due


@pytest.mark.parametrize("kind", TreeKind)
def test_tree__with_threshold_zero_as_anybody_may_create__is_never_due(kind: TreeKind) -> None:
    for next_index in (0, 10, 2**kind.height):
        assert not head(kind, next_index, kind.height, rollover_threshold=0).is_due


@given(st.integers(0, 100), st.integers(1, 64), st.integers(0, 2**64 - 1))
def test_tree__any_numbers__is_due_exactly_at_its_share(threshold: int, height: int, next_index: int) -> None:
    due = head(TreeKind.STATE_V2, next_index, height, rollover_threshold=threshold).is_due
    assert due == (next_index >= 2**height * threshold // 100 > 0)


@pytest.mark.parametrize(
    ("name", "kind", "height"),
    [
        ("smt1NamzXdq4AMqS2fS2F1i5KTYPZRhoHgWx38d8WsT", TreeKind.STATE_V1, 26),
        ("amt1Ayt45jfbdw5YSo7iz6WZxUmnZsQTYXy82hVwyC2", TreeKind.ADDRESS_V1, 26),
        ("bmt1LryLZUMmF7ZtqESaw7wifBXLfXHQYoE4GAmrahU", TreeKind.STATE_V2, 32),
        ("amt2kaJA14v3urZbZvnc5v2np8jqvc4Z8zDep5wbtzx", TreeKind.ADDRESS_V2, 40),
    ],
)
def test_head__of_published_accounts__is_read_from_a_slice(name: str, kind: TreeKind, height: int) -> None:
    data = published_account(next(entry["file"] for entry in PUBLISHED if entry["pubkey"] == name))
    read = decode_head(data[:704])
    assert (read.kind, read.height, read.metadata.rollover_threshold, read.is_due) == (kind, height, 95, False)
    assert read.metadata == decode_metadata(data, 16 if kind.is_batched else 8)


@pytest.mark.parametrize(
    ("kind", "rents", "needed"),
    [
        # Measured on the published programs: with one lamport less they refuse.
        (TreeKind.STATE_V1, Rents(9_496_335_360, 9_626_515_200, 143_487_360), 28_619_185_920),
        (TreeKind.ADDRESS_V1, Rents(15_342_958_080, 9_626_515_200), 34_595_988_480),
        (TreeKind.STATE_V2, Rents(331_184_640, 29_677_440, 143_487_360, 98_470_080), 489_009_600),
        (TreeKind.ADDRESS_V2, Rents(331_184_640), 662_369_280),
    ],
)
def test_lamports__of_the_account_that_pays__are_exact_to_the_lamport(
    kind: TreeKind, rents: Rents, needed: int
) -> None:
    assert lacking_lamports(kind, rents, needed) == 0
    assert lacking_lamports(kind, rents, needed - 1) == 1
    assert lacking_lamports(kind, rents, 0) == needed
    assert lacking_lamports(kind, rents, 10 * needed) == 0


@pytest.mark.parametrize(
    ("kind", "keys"),
    [(TreeKind.STATE_V1, 3), (TreeKind.ADDRESS_V1, 2), (TreeKind.STATE_V2, 3), (TreeKind.ADDRESS_V2, 1)],
)
async def test_keys__begun_and_read_by_the_next_process__are_the_same_and_stay(
    tmp_path: Path, kind: TreeKind, keys: int
) -> None:
    tree = TreeMetadata(KEY, kind, METADATA)
    async with await Journal.open(tmp_path / "journal.sqlite") as journal:
        first = await RolloverStore(journal).begin(new_keys(tree))
        again = await RolloverStore(journal).begin(new_keys(tree))
        assert secrets(again) == secrets(first), "who began first has chosen"
    async with await Journal.open(tmp_path / "journal.sqlite") as journal:
        store = RolloverStore(journal)
        read = await store.of_tree(bytes(KEY))
        assert read is not None
        assert secrets(read) == secrets(first)
        assert len(read.keys) == keys
        assert await store.trees() == [bytes(KEY)]
        await store.forget(bytes(KEY))
        assert (await store.trees(), await store.of_tree(bytes(KEY))) == ([], None)


def secrets(begun: BegunRollover) -> list[bytes]:
    return [bytes(key.keypair) for key in begun.keys]


def test_begun_rollover__shown__keeps_its_secrets() -> None:
    key = Keypair()
    begun = BegunRollover(b"tree", SigningKey(key))
    assert str(key) not in repr(begun)
    assert str(key.pubkey()) in repr(begun)


async def test_journal__of_the_release_before__gets_the_table_and_keeps_its_rows(tmp_path: Path) -> None:
    path = tmp_path / "journal.sqlite"
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.executescript(database._MIGRATIONS[0])
        connection.execute("INSERT INTO signatures VALUES ('s', 'nullify', x'01', 9, 1.5)")
        connection.execute("PRAGMA user_version = 1")
        connection.commit()
    async with await Journal.open(path) as journal:
        assert await SignatureStore(journal).pending() == [SentTransaction("s", "nullify", b"\x01", 9)]
        assert await RolloverStore(journal).trees() == []
