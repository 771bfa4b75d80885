"""Proofs of staged batches: several at once, results in the order of the batches.

A proof is passed to ``keep`` as soon as it is finished, even if earlier ones failed: it chains from root to root,
and fits once any forester has made the failed one. Cancelling or leaving loses requests, never finished proofs.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Self

from forester.errors import ForesterError
from forester.pipeline_v2.staging import StagedBatch
from forester.prover_client.client import FinishedProof
from shared.circuit_id import CircuitKind
from shared.logs import get_logger

_log = get_logger(__name__)

Prove = Callable[[StagedBatch], Awaitable[FinishedProof]]
Keep = Callable[[StagedBatch, FinishedProof], Awaitable[None]]


@dataclass(frozen=True)
class ProofResult:
    """Result of a batch: its proof, or the failure.

    A failure next to a proof is the reason why it could not be stored; the proof is still usable.
    """

    batch: StagedBatch
    proof: FinishedProof | None
    failure: ForesterError | None = None


class ProofPermits:
    """At most ``most`` proofs of each circuit under way, of all trees together.

    Circuits have provers of their own: one that hangs or is busy must not stop the others.
    """

    def __init__(self, most: int) -> None:
        self._rooms = {kind: asyncio.Semaphore(most) for kind in CircuitKind if kind.is_batch}

    def of(self, kind: CircuitKind) -> asyncio.Semaphore:
        """Return the semaphore that a request holds while it is under way."""
        return self._rooms[kind]


class ProofRequests:
    """The requests of one tree, used as an asynchronous context.

    ``permits`` bounds the requests of all trees together, ``window`` those of this one that are requested or not yet
    taken; ``attempts`` is the maximum of tries for a batch with retryable failures.
    """

    def __init__(self, prove: Prove, keep: Keep, *, permits: ProofPermits, window: int = 8, attempts: int = 2) -> None:
        if window < 1 or attempts < 1:
            raise ValueError(f"window {window} and attempts {attempts} must be at least 1")
        self._prove = prove
        self._keep = keep
        self._permits = permits
        self._attempts = attempts
        self._room = asyncio.Semaphore(window)
        self._tasks: deque[asyncio.Task[ProofResult]] = deque()
        self._keeping: set[asyncio.Task[None]] = set()
        self._closed = False

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: Any) -> None:
        await self.abandon()

    @property
    def pending(self) -> int:
        """Batches whose results have not been taken."""
        return len(self._tasks)

    async def submit(self, batch: StagedBatch) -> None:
        """Request the proof of a batch; waits while the window is full, so another task must take results meanwhile."""
        await self._room.acquire()
        if self._closed:
            self._room.release()
            raise RuntimeError("these requests are closed")
        self._tasks.append(asyncio.create_task(self._result(batch), name=f"proof {batch.kind} {batch.sequence}"))

    async def take(self) -> ProofResult:
        """Return the result of the oldest batch, waiting for it; IndexError if there is none.

        A caller that is cancelled while waiting has taken nothing.
        """
        task = self._tasks[0]
        await asyncio.wait([task])
        self._tasks.popleft()
        self._room.release()
        return task.result()

    async def results(self) -> AsyncIterator[ProofResult]:
        """Return the results of all batches so far, in their order."""
        while self._tasks:
            yield await self.take()

    async def drain(self, within_s: float) -> int:
        """Give running requests time to finish and be stored; return the number that did not."""
        running = [task for task in self._tasks if not task.done()]
        if not running:
            return 0
        _, unfinished = await asyncio.wait(running, timeout=within_s)
        return len(unfinished)

    async def abandon(self) -> None:
        """Cancel running requests and forget the results; finished proofs remain stored."""
        self._closed = True
        tasks = list(self._tasks)
        self._tasks.clear()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await asyncio.gather(*self._keeping, return_exceptions=True)
        for _ in tasks:
            self._room.release()

    async def _result(self, batch: StagedBatch) -> ProofResult:
        try:
            proof = await self._proved(batch)
        except ForesterError as error:
            return ProofResult(batch, None, error)
        try:
            await self._kept(batch, proof)
        except ForesterError as error:
            _log.warning("proof_not_stored", circuit=batch.kind.value, sequence=batch.sequence, error=error.detail)
            return ProofResult(batch, proof, error)
        return ProofResult(batch, proof)

    async def _proved(self, batch: StagedBatch) -> FinishedProof:
        attempt = 0
        while True:
            attempt += 1
            try:
                async with self._permits.of(batch.kind):
                    return await self._prove(batch)
            except ForesterError as error:
                _log.warning(
                    "proof_failed",
                    circuit=batch.kind.value,
                    sequence=batch.sequence,
                    attempt=attempt,
                    retryable=error.retryable,
                    error=error.detail,
                )
                if not error.retryable or attempt >= self._attempts:
                    raise

    async def _kept(self, batch: StagedBatch, proof: FinishedProof) -> None:
        """Store a proof, even if the request is cancelled meanwhile."""
        keeping = asyncio.ensure_future(_awaited(self._keep(batch, proof)))
        self._keeping.add(keeping)
        keeping.add_done_callback(self._keeping.discard)
        await asyncio.shield(keeping)


async def _awaited(awaitable: Awaitable[None]) -> None:
    await awaitable
