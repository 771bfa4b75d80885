"""Requests of proofs: bounds, retries, and what becomes of them at the end."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, cast

import pytest
from solders.pubkey import Pubkey

from forester import errors
from forester.errors import EndpointUnreachable, ForesterError
from forester.journal.database import JournalError
from forester.journal.proofs import StoredProof
from forester.observability.metrics import Metrics
from forester.pipeline_v2.proof_ledger import ProofLedger, ProofState, link_of_batch
from forester.pipeline_v2.proof_requests import ProofRequests
from forester.pipeline_v2.services import V2Services, proof_permits
from forester.pipeline_v2.staging.staged_batches import StagedBatch
from forester.prover_client.client import PROOF_OBSOLETE, FinishedProof
from forester.prover_client.failures import ProofFailed
from shared.requests.circuit_id import CircuitKind
from shared.requests.proof_compression import CompressedProof
from shared.requests.proof_wire import BatchAppendRequest

PROOF = FinishedProof(CompressedProof(bytes(32), bytes(64), bytes(32)), 5)


def batch(sequence: int, kind: CircuitKind = CircuitKind.BATCH_APPEND) -> StagedBatch:
    roots = bytes([sequence]), bytes([sequence + 1])
    return StagedBatch(kind, sequence, sequence * 10, 10, *roots, BatchAppendRequest())


@dataclass
class Services:
    """A prover that finishes a batch on demand of the test, and a journal."""

    gates: dict[int, asyncio.Event] = field(default_factory=dict)
    failures: dict[int, list[Exception]] = field(default_factory=dict)
    """Raised first, one for each attempt."""
    begun: list[int] = field(default_factory=list)
    stored: list[int] = field(default_factory=list)
    running: int = 0
    maximum: int = 0
    store_failure: ForesterError | None = None
    store_gate: asyncio.Event | None = None
    cancelled: list[tuple[object, ...]] = field(default_factory=list)

    async def prove(self, request: object, *, tree_id: str, batch_index: int) -> FinishedProof:
        assert tree_id == str(Pubkey.default())
        self.begun.append(batch_index)
        self.running += 1
        self.maximum = max(self.maximum, self.running)
        try:
            if gate := self.gates.get(batch_index):
                await gate.wait()
            else:
                await asyncio.sleep(0)
            if waiting := self.failures.get(batch_index):
                raise waiting.pop(0)
        except asyncio.CancelledError as error:
            self.cancelled.append(error.args)
            raise
        finally:
            self.running -= 1
        return PROOF

    async def add(self, proofs: list[StoredProof]) -> None:
        if self.store_gate is not None:
            await self.store_gate.wait()
        if self.store_failure is not None:
            raise self.store_failure
        self.stored += [proof.sequence for proof in proofs]


class Tree:
    """The requests of one tree and their ledger."""

    def __init__(
        self, services: Services, permits: dict[CircuitKind, asyncio.Semaphore] | None = None, window: int = 8
    ) -> None:
        self.ledger = ProofLedger("tree", 60.0, time.monotonic)
        parts: Any = SimpleNamespace(
            proofs=services, prover=services, permits=permits or proof_permits(64), metrics=Metrics()
        )
        self.work = parts.metrics.work
        self.requests = ProofRequests(Pubkey.default(), self.ledger, cast("V2Services", parts), window=window)

    async def request(self, *batches: StagedBatch) -> None:
        for item in batches:
            await self.requests.request(item, None)

    async def finish(self) -> None:
        async with asyncio.timeout(60):
            while self.ledger.under_way:
                await self.requests.changed(1.0)

    def recorded(self, sequence: int) -> tuple[str, str | None]:
        """Return state and detail of a batch, as the dashboard shows them."""
        return next((item.state, item.detail) for item in self.work.batches if item.sequence == sequence)

    def states(self, count: int) -> list[ProofState | None]:
        return [self.ledger.state_of(link_of_batch(batch(sequence))) for sequence in range(count)]


async def settled() -> None:
    """Let everything run that can."""
    for _ in range(20):
        await asyncio.sleep(0)


async def test_requests__proofs_out_of_order__are_stored_at_once() -> None:
    services = Services({sequence: asyncio.Event() for sequence in range(3)})
    tree = Tree(services)
    await tree.request(*map(batch, range(3)))
    assert tree.states(3) == [ProofState.REQUESTED] * 3
    for sequence in (2, 0, 1):
        services.gates[sequence].set()
        await settled()
    assert services.stored == [2, 0, 1]
    assert tree.states(3) == [ProofState.READY] * 3
    assert tree.requests.take_failure() is None


async def test_requests__failed_middle_proof__leaves_the_others() -> None:
    refused = ProofFailed("job", "constraint", retryable=False)
    services = Services(failures={1: [refused]})
    tree = Tree(services)
    await tree.request(*map(batch, range(3)))
    await tree.finish()
    await settled()
    assert (tree.requests.take_failure(), tree.requests.take_failure()) == (refused, None)
    assert tree.states(3) == [ProofState.READY, None, ProofState.READY]
    assert tree.recorded(1) == ("failed", refused.detail)
    assert (services.stored, services.begun.count(1)) == ([0, 2], 1)


async def test_requests__failures_that_may_pass__are_tried_twice() -> None:
    gone: list[Exception] = [EndpointUnreachable("gone") for _ in range(9)]
    services = Services(failures={0: gone[:1], 1: gone[1:]})
    tree = Tree(services)
    await tree.request(*map(batch, range(2)))
    await tree.finish()
    await settled()
    assert isinstance(tree.requests.take_failure(), EndpointUnreachable)
    assert tree.states(2) == [ProofState.READY, None]
    assert (services.begun.count(0), services.begun.count(1)) == (2, 2)


async def test_requests__bug__is_a_failure_and_logged_with_its_trace(monkeypatch: pytest.MonkeyPatch) -> None:
    logged: list[tuple[str, dict[str, Any]]] = []
    monkeypatch.setattr(errors._log, "error", lambda event, **facts: logged.append((event, facts)), raising=False)
    bug = KeyError("a bug")
    tree = Tree(Services(failures={0: [bug]}))
    await tree.request(*map(batch, range(2)))
    await tree.finish()
    await settled()
    failure = tree.requests.take_failure()
    assert failure is not None
    assert failure.detail == "unexpected KeyError: 'a bug'; search the log for its trace"
    assert tree.states(2) == [None, ProofState.READY]
    assert logged == [("unexpected_error", {"exc_info": bug, "circuit": "append", "sequence": 0})]


async def test_requests__many_batches_of_two_trees__stay_within_the_permits() -> None:
    services, permits = Services(), proof_permits(3)
    trees = [Tree(services, permits, window=50) for _ in range(2)]
    for tree in trees:
        await tree.request(*map(batch, range(20)))
    for tree in trees:
        await tree.finish()
    assert (services.maximum, len(services.stored)) == (3, 40)


async def test_requests__prover_of_one_circuit_hangs__do_not_stop_those_of_another() -> None:
    services = Services(gates={0: asyncio.Event()})
    tree = Tree(services, proof_permits(1))
    await tree.request(batch(0), batch(1, CircuitKind.BATCH_UPDATE), batch(2))
    await settled()
    assert services.begun == [0, 1]
    services.gates[0].set()
    await tree.finish()
    assert services.stored == [1, 0, 2]


async def test_request__full_window__waits_until_a_proof_has_ended() -> None:
    services = Services({1: asyncio.Event()})
    tree = Tree(services, window=1)
    await tree.request(batch(0))
    second = asyncio.create_task(tree.request(batch(1)))
    await asyncio.sleep(0)
    assert not second.done()
    await second
    assert services.stored == [0]
    third = asyncio.create_task(tree.request(batch(2)))
    await settled()
    assert not third.done()
    third.cancel()
    await asyncio.wait([third])
    assert tree.states(3) == [ProofState.READY, ProofState.REQUESTED, None], "a cancelled caller has requested nothing"
    services.gates[1].set()
    await tree.request(batch(3))
    await tree.finish()


async def test_cancel_before__proofs_that_the_chain_has_passed__leave_their_permits_to_others() -> None:
    services = Services({sequence: asyncio.Event() for sequence in range(3)}, store_gate=asyncio.Event())
    tree = Tree(services, proof_permits(3), window=3)
    await tree.request(*map(batch, range(3)))
    await settled()
    services.gates[1].set()
    await settled()
    assert not tree.requests.has_room
    tree.requests.cancel_before(2)
    tree.requests.cancel_before(2)
    await settled()
    assert tree.states(3) == [None, ProofState.PROVED, ProofState.REQUESTED], "a finished proof is stored first"
    assert services.cancelled == [(PROOF_OBSOLETE,)]
    assert tree.recorded(0) == ("cancelled", None), "it has not failed"
    assert tree.requests.has_room
    assert tree.requests.take_failure() is None
    assert services.store_gate is not None
    services.store_gate.set()
    services.gates[2].set()
    await tree.request(batch(3))
    await tree.finish()
    assert services.stored == [1, 2, 3]


async def test_close__requests_under_way__get_the_time_that_is_given() -> None:
    services = Services({0: asyncio.Event(), 1: asyncio.Event()})
    tree = Tree(services)
    await tree.request(*map(batch, range(2)))
    await settled()
    closing = asyncio.create_task(tree.requests.close(0.2))
    await settled()
    services.gates[0].set()
    await closing
    await settled()
    assert (services.stored, services.running) == ([0], 0)
    assert services.cancelled == [()], "another process may use the job"
    assert tree.states(2) == [ProofState.READY, None]
    assert tree.requests.take_failure() is None


async def test_close__proof_is_being_stored__waits_for_it() -> None:
    services = Services({1: asyncio.Event()}, store_gate=asyncio.Event())
    tree = Tree(services)
    await tree.request(*map(batch, range(2)))
    await settled()
    assert tree.states(2) == [ProofState.PROVED, ProofState.REQUESTED]
    closing = asyncio.create_task(tree.requests.close(0.0))
    await settled()
    await asyncio.sleep(0.01)
    assert not closing.done()
    assert services.store_gate is not None
    services.store_gate.set()
    await closing
    assert (services.stored, services.running) == ([0], 0)


async def test_requests__proof_that_cannot_be_stored__is_sent_by_this_process() -> None:
    services = Services(store_failure=JournalError("the disk is full"))
    tree = Tree(services)
    await tree.request(batch(0))
    await tree.finish()
    assert tree.states(1) == [ProofState.READY]
    assert services.begun == [0], "it is not proved again"


async def test_usual_seconds__of_proofs_that_waited__follow_from_those_before() -> None:
    services = Services()
    tree = Tree(services)
    guess = tree.requests.usual_seconds
    await tree.request(batch(0))
    assert tree.requests.usual_seconds == 2 * guess, "another one waits for it"
    await tree.finish()
    assert tree.requests.usual_seconds < guess
