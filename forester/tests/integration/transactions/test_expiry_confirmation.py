"""Expiry with a second node: the first one's word alone ends no transaction."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from scripted_node import ScriptedNode, failure, serving, status
from solders.instruction import Instruction
from solders.pubkey import Pubkey
from start_options import NEEDED, NOWHERE, Network, chosen

from forester.daemon.services import Services, open_services
from forester.journal.signatures import SentTransaction, SignatureStore
from forester.observability.metrics import Metrics
from forester.transactions.confirm import Fate, Outcome

LAST_VALID = 100
"""Of every blockhash of such a network."""

TREE = bytes([5]) * 32


def lying() -> Network:
    """Answer that every transaction has expired and has no status."""
    return Network(lands=False, height=LAST_VALID + 1)


def second(*, height: int, valid: bool, lands: bool = False) -> Network:
    return Network(lands=lands, height=height, answers={"isBlockhashValid": {"value": valid}})


@contextlib.asynccontextmanager
async def between(folder: Path, first: Network, fallback: ScriptedNode) -> AsyncIterator[Services]:
    async with serving(first, fallback):
        words = ("--rpc-url", first.url, "--fallback-rpc-url", fallback.url, "--indexer-url", NOWHERE)
        patience = ("--confirmation-poll-interval-ms", "1", "--confirmation-max-attempts", "1000")
        settings = chosen(*words, *patience, "--journal", str(folder / "journal"), *NEEDED)
        async with open_services(settings, Metrics()) as services:
            yield services


async def send(services: Services, within_s: float = 60.0) -> Outcome:
    work = Instruction(Pubkey(bytes([9]) * 32), b"\1", [])
    return await services.sender.send([work], purpose="test", subject=TREE, within_s=within_s)


async def fate_with(folder: Path, fallback: ScriptedNode, within_s: float = 0.3) -> Fate:
    first = lying()
    async with between(folder, first, fallback) as services:
        fates = [(await send(services, within_s)).fate for _ in range(2)]
        assert len(first.times_sent) == 1 or Fate.EXPIRED in fates, "its work is not signed again"
        return fates[0]


async def test_expiry__that_the_second_node_confirms__ends_a_transaction(tmp_path: Path) -> None:
    assert await fate_with(tmp_path, second(height=LAST_VALID + 1, valid=False), 30) is Fate.EXPIRED


async def test_expiry__at_a_height_that_the_second_node_has_not_reached__ends_nothing(tmp_path: Path) -> None:
    assert await fate_with(tmp_path, second(height=LAST_VALID, valid=True)) is Fate.DEADLINE_PASSED


async def test_expiry__of_a_blockhash_that_the_second_node_still_accepts__ends_nothing(tmp_path: Path) -> None:
    """The last height of a blockhash is the first node's word, too: it may say one that has passed."""
    assert await fate_with(tmp_path, second(height=10**6, valid=True)) is Fate.DEADLINE_PASSED


async def test_expiry__of_a_transaction_that_the_second_node_saw_land__ends_nothing(tmp_path: Path) -> None:
    node = second(height=LAST_VALID + 1, valid=False, lands=True)
    assert await fate_with(tmp_path, node) is Fate.DEADLINE_PASSED


async def test_expiry__second_node_away_or_without_the_method__ends_nothing(tmp_path: Path) -> None:
    for number, answer in enumerate((status(503), failure(-32601, "Method not found"))):
        folder = tmp_path / str(number)
        assert await fate_with(folder, ScriptedNode(usual=answer)) is Fate.DEADLINE_PASSED


async def test_journal__of_an_earlier_process__forgets_what_both_nodes_say_has_expired(tmp_path: Path) -> None:
    left: Any = None
    async with between(tmp_path, lying(), second(height=LAST_VALID, valid=True)) as services:
        await send(services, 0.3)
        (left,) = await SignatureStore(services.journal).pending()
    assert isinstance(left, SentTransaction)
    for node, pending in ((second(height=LAST_VALID, valid=True), 1), (second(height=LAST_VALID + 1, valid=False), 0)):
        async with between(tmp_path, lying(), node) as services:
            assert await services.sender.settle_pending() == pending
            assert len(await SignatureStore(services.journal).pending()) == pending
