"""Pages of queues that would be too long: they are cut, and the next page continues there."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from indexer_replay import replay
from indexer_service import Indexer
from indexer_vectors import indexer_vectors

from localnet.indexer.api import queues
from localnet.indexer.database.store import Store

STATE_FLOW, ADDRESS_FLOW = "replay_state_nullify_before_append", "replay_address"
MOST_BYTES = 8_000
STEP = 2
OF_AN_ADDRESS_ANSWER = 40 * 50
"""Bytes of the subtrees, which do not grow with a page."""


@pytest.fixture
async def indexer(tmp_path: Path, flow: str) -> AsyncIterator[Indexer]:
    store = Store(tmp_path / "indexer.sqlite", durable=False)
    replay(store, flow, batches=0)
    started = await Indexer.start(store)
    yield started
    await started.client.close()
    store.close()


async def pages(indexer: Indexer, flow: str, queue: str) -> list[list[Any]]:
    """Return the places of the elements of each page of a queue, asked for one after the other."""
    found: list[list[Any]] = []
    while True:
        part = {"limit": 30_000, "startIndex": sum(map(len, found)), "zkpBatchSize": STEP}
        result = await indexer.call("getQueueElements", {"tree": indexer_vectors(flow)["tree"], queue: part})
        answer = result.get("addressQueue") or result.get("stateQueue", {}).get(queue, {})
        places = answer.get("queueIndices") or answer.get("leafIndices")
        if not places:
            return found
        assert len(json.dumps(result, separators=(",", ":"))) <= queues._MOST_BYTES + OF_AN_ADDRESS_ANSWER
        found.append(places)


@pytest.mark.parametrize(
    ("flow", "queue"), [(STATE_FLOW, "outputQueue"), (STATE_FLOW, "inputQueue"), (ADDRESS_FLOW, "addressQueue")]
)
async def test_queue_elements__answer_too_long__comes_in_pages(
    indexer: Indexer, monkeypatch: pytest.MonkeyPatch, flow: str, queue: str
) -> None:
    [whole] = await pages(indexer, flow, queue)
    monkeypatch.setattr(queues, "_MOST_BYTES", MOST_BYTES)
    monkeypatch.setattr(queues, "_ADDRESS_STEP", STEP)
    parts = await pages(indexer, flow, queue)
    assert len(parts) > 1
    assert all(len(part) % STEP == 0 for part in parts)
    assert [place for part in parts for place in part] == whole


@pytest.mark.parametrize("flow", [STATE_FLOW])
async def test_queue_elements__both_queues_too_long__have_their_first_batches(
    indexer: Indexer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(queues, "_MOST_BYTES", MOST_BYTES)
    part = {"limit": 100, "zkpBatchSize": 1}
    wanted = {"tree": indexer_vectors(STATE_FLOW)["tree"], "outputQueue": part, "inputQueue": part}
    state = (await indexer.call("getQueueElements", wanted))["stateQueue"]
    counts = [len(state[name]["leafIndices"]) for name in ("outputQueue", "inputQueue")]
    assert min(counts) >= 1
    assert abs(counts[0] - counts[1]) <= 1


@pytest.mark.parametrize("flow", [STATE_FLOW])
async def test_queue_elements__one_batch_too_long__is_refused(
    indexer: Indexer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(queues, "_MOST_BYTES", 5_000)
    wanted = {"tree": indexer_vectors(STATE_FLOW)["tree"], "outputQueue": {"limit": 10, "zkpBatchSize": 10}}
    error = await indexer.refusal("getQueueElements", wanted)
    assert error["message"] == "Validation Error: A batch of 10 elements makes an answer of more than 5000 bytes"
