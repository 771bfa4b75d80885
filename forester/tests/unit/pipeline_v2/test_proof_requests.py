import asyncio
from dataclasses import dataclass, field, replace

import pytest

from forester.errors import EndpointUnreachable, ForesterError
from forester.journal.database import JournalError
from forester.pipeline_v2.proof_requests import ProofPermits, ProofRequests, ProofResult
from forester.pipeline_v2.staging import StagedBatch
from forester.prover_client.client import FinishedProof
from forester.prover_client.failures import ProofFailed
from shared.circuit_id import CircuitKind
from shared.proof_compression import CompressedProof
from shared.proof_wire import BatchAppendRequest

PROOF = FinishedProof(CompressedProof(bytes(32), bytes(64), bytes(32)), 5)


def batch(sequence: int) -> StagedBatch:
    return StagedBatch(
        CircuitKind.BATCH_APPEND,
        sequence,
        sequence * 10,
        10,
        bytes([sequence]),
        bytes([sequence + 1]),
        BatchAppendRequest(),
    )


@dataclass
class Prover:
    """Finishes a batch when the test says so; ``failures`` are raised first, one per attempt."""

    gates: dict[int, asyncio.Event] = field(default_factory=dict)
    failures: dict[int, list[ForesterError]] = field(default_factory=dict)
    begun: list[int] = field(default_factory=list)
    kept: list[int] = field(default_factory=list)
    running: int = 0
    most: int = 0
    keep_failure: ForesterError | None = None
    keep_gate: asyncio.Event | None = None

    async def prove(self, staged: StagedBatch) -> FinishedProof:
        self.begun.append(staged.sequence)
        self.running += 1
        self.most = max(self.most, self.running)
        try:
            if gate := self.gates.get(staged.sequence):
                await gate.wait()
            else:
                await asyncio.sleep(0)
            if waiting := self.failures.get(staged.sequence):
                raise waiting.pop(0)
        finally:
            self.running -= 1
        return PROOF

    async def keep(self, staged: StagedBatch, proof: FinishedProof) -> None:
        assert proof is PROOF
        if self.keep_gate is not None:
            await self.keep_gate.wait()
        if self.keep_failure is not None:
            raise self.keep_failure
        self.kept.append(staged.sequence)

    def requests(self, permits: int = 64, window: int = 8, attempts: int = 2) -> ProofRequests:
        return ProofRequests(self.prove, self.keep, permits=ProofPermits(permits), window=window, attempts=attempts)


async def settled() -> None:
    """Let everything run that can."""
    for _ in range(20):
        await asyncio.sleep(0)


async def collect(requests: ProofRequests) -> list[ProofResult]:
    return [result async for result in requests.results()]


async def test_results__proofs_out_of_order__come_in_order_and_are_kept_at_once() -> None:
    prover = Prover({sequence: asyncio.Event() for sequence in range(4)})
    async with prover.requests() as requests:
        for sequence in range(4):
            await requests.submit(batch(sequence))
        for sequence in (3, 1, 0, 2):
            prover.gates[sequence].set()
            await settled()
        results = await collect(requests)
    assert [result.batch.sequence for result in results] == [0, 1, 2, 3]
    assert all(result.proof is PROOF and result.failure is None for result in results)
    assert prover.kept == [3, 1, 0, 2]


async def test_results__failed_middle_proof__leaves_those_around_it() -> None:
    refused = ProofFailed("job", "constraint", retryable=False)
    prover = Prover(failures={1: [refused]})
    async with prover.requests() as requests:
        for sequence in range(3):
            await requests.submit(batch(sequence))
        results = await collect(requests)
    assert [result.failure for result in results] == [None, refused, None]
    assert results[1].proof is None
    assert prover.kept == [0, 2]
    assert prover.begun.count(1) == 1


async def test_results__failures_that_may_pass__are_tried_so_many_times() -> None:
    prover = Prover(failures={0: [EndpointUnreachable("gone")], 1: [EndpointUnreachable("gone") for _ in range(9)]})
    async with prover.requests(attempts=3) as requests:
        for sequence in range(2):
            await requests.submit(batch(sequence))
        results = await collect(requests)
    assert results[0].proof is PROOF
    assert isinstance(results[1].failure, EndpointUnreachable)
    assert (prover.begun.count(0), prover.begun.count(1)) == (2, 3)


async def test_requests__many_batches_of_two_trees__stay_within_the_permits() -> None:
    prover, permits = Prover(), ProofPermits(3)
    trees = [ProofRequests(prover.prove, prover.keep, permits=permits, window=50) for _ in range(2)]
    for requests in trees:
        for sequence in range(20):
            await requests.submit(batch(sequence))
    for requests in trees:
        assert len(await collect(requests)) == 20
    assert prover.most == 3


async def test_requests__prover_of_one_circuit_hangs__do_not_stop_those_of_another() -> None:
    prover, permits = Prover(gates={0: asyncio.Event()}), ProofPermits(1)
    async with ProofRequests(prover.prove, prover.keep, permits=permits) as requests:
        for sequence, kind in (
            (0, CircuitKind.BATCH_APPEND),
            (1, CircuitKind.BATCH_UPDATE),
            (2, CircuitKind.BATCH_APPEND),
        ):
            await requests.submit(replace(batch(sequence), kind=kind))
        await settled()
        assert prover.begun == [0, 1]
        prover.gates[0].set()
        assert len(await collect(requests)) == 3


async def test_submit__full_window__waits_until_a_result_is_taken() -> None:
    prover = Prover()
    async with prover.requests(window=2) as requests:
        await requests.submit(batch(0))
        await requests.submit(batch(1))
        third = asyncio.create_task(requests.submit(batch(2)))
        await settled()
        assert not third.done()
        assert (await requests.take()).batch.sequence == 0
        await third
        assert [result.batch.sequence for result in await collect(requests)] == [1, 2]


async def test_take__cancelled_while_waiting__takes_nothing() -> None:
    prover = Prover({0: asyncio.Event()})
    async with prover.requests() as requests:
        await requests.submit(batch(0))
        waiting = asyncio.create_task(requests.take())
        await settled()
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        prover.gates[0].set()
        assert (await requests.take()).proof is PROOF
        with pytest.raises(IndexError):
            await requests.take()


async def test_leaving__requests_in_flight__cancels_them_and_keeps_what_is_finished() -> None:
    prover = Prover({1: asyncio.Event()}, keep_gate=asyncio.Event())
    requests = prover.requests()
    for sequence in range(2):
        await requests.submit(batch(sequence))
    await settled()
    leaving = asyncio.create_task(requests.abandon())
    await settled()
    assert not leaving.done(), "a finished proof is being kept"
    assert prover.keep_gate is not None
    prover.keep_gate.set()
    await leaving
    assert prover.kept == [0]
    assert (prover.running, requests.pending) == (0, 0)
    with pytest.raises(RuntimeError, match="closed"):
        await requests.submit(batch(2))


async def test_drain__running_requests__get_the_time_that_is_given() -> None:
    prover = Prover({0: asyncio.Event(), 1: asyncio.Event()})
    async with prover.requests() as requests:
        assert await requests.drain(60) == 0
        for sequence in range(2):
            await requests.submit(batch(sequence))
        prover.gates[0].set()
        assert await requests.drain(0.05) == 1
        prover.gates[1].set()
        assert await requests.drain(60) == 0
        assert prover.kept == [0, 1]


async def test_results__proof_that_cannot_be_kept__is_given_with_the_reason() -> None:
    full = JournalError("the disk is full")
    prover = Prover(keep_failure=full)
    async with prover.requests() as requests:
        await requests.submit(batch(0))
        (result,) = await collect(requests)
    assert (result.proof, result.failure) == (PROOF, full)
    assert prover.begun == [0], "it is not proved again"


def test_requests__bounds_below_one__are_refused() -> None:
    with pytest.raises(ValueError, match="window 0"):
        Prover().requests(window=0)
    with pytest.raises(ValueError, match="attempts 0"):
        Prover().requests(attempts=0)
