"""Proofs in progress: one per distinct request body, shared by all clients that sent it.

A proof runs in a thread. It is cancelled when its last client has disconnected or reached its deadline.
"""

import asyncio
import contextvars
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any

from prover.errors import Cancelled, KeyLoading, ProofTimedOut, ShuttingDown, TryAgainLater
from prover.kernel.cancellation import CancelFlag
from prover.proving.proof_making import Proof
from prover.proving.service import OnPhase, Phase

Work = Callable[[CancelFlag, OnPhase], Proof]
"""Function that makes a proof, in a thread."""

_BUSY_PHASES = (Phase.WAITING, Phase.PROVING)
_RESERVED_SHARE = 8
"""One in so many threads is left to requests whose key is ready."""


class ProofInProgress:
    """A proof in progress. Used in the event loop only; its thread writes the phase and wakes the loop once."""

    def __init__(self, forget: Callable[["ProofInProgress"], None], *, is_key_ready: bool) -> None:
        self._was_key_ready = is_key_ready
        self.cancel = CancelFlag()
        self._loop = asyncio.get_running_loop()
        self._forget = forget
        self._phase = Phase.CHECKING
        self._key_ready: asyncio.Future[None] = self._loop.create_future()
        self._clients = 0
        self.future: asyncio.Future[Proof] = self._loop.create_future()

    def start(self, executor: ThreadPoolExecutor, work: Work) -> None:
        """Run the work in a thread, with the log fields of the first request."""
        context = contextvars.copy_context()
        self.future = self._loop.run_in_executor(executor, partial(context.run, work, self.cancel, self._report))

    @property
    def needs_key(self) -> bool:
        """True while it waits for its key, or will: it is being checked, and its key was not ready when it began."""
        return self._phase is Phase.LOADING or (self._phase is Phase.CHECKING and not self._was_key_ready)

    @contextmanager
    def attached_client(self) -> Iterator[None]:
        """Count a client for the block; without clients the proof is cancelled."""
        self._clients += 1
        try:
            yield
        finally:
            self._clients -= 1
            if not self._clients and not self.future.done():
                self._forget(self)
                self.cancel.raise_flag()

    async def proof(self, deadline_s: float, key_wait_s: float) -> Proof:
        """Wait for the proof: ``key_wait_s`` for its key, then ``deadline_s``.

        Raises what the work raised, KeyLoading, TryAgainLater when it could not be begun in time, ProofTimedOut, or
        ShuttingDown when the server cancelled it.
        """
        awaited: set[asyncio.Future[Any]] = {self.future, self._key_ready}
        await asyncio.wait(awaited, timeout=key_wait_s, return_when=asyncio.FIRST_COMPLETED)
        if not self.future.done() and not self._key_ready.done():
            raise KeyLoading(f"the proving key of this circuit is not loaded after {key_wait_s:g} seconds")
        await asyncio.wait({self.future}, timeout=deadline_s)
        if not self.future.done():
            if self._phase is Phase.WAITING:
                raise TryAgainLater(f"other proofs left no permit for this one within {deadline_s:g} seconds")
            raise ProofTimedOut(f"Proof generation timed out after {deadline_s:g} seconds.")
        try:
            return self.future.result()
        except Cancelled as error:
            raise ShuttingDown from error  # only a shutdown raises the flag while a client waits

    def _report(self, phase: Phase) -> None:
        """Report a phase, from the thread. The loop waits for the first busy one only."""
        is_first = phase in _BUSY_PHASES and self._phase not in _BUSY_PHASES
        self._phase = phase
        if is_first:
            self._loop.call_soon_threadsafe(self._note_key)

    def _note_key(self) -> None:
        if not self._key_ready.done():
            self._key_ready.set_result(None)


class ProofsInProgress:
    """All proofs in progress of one server, at most ``limit``.

    Not all of them may wait for keys: while a key is loaded, requests for it leave threads for those of other keys.
    """

    def __init__(self, executor: ThreadPoolExecutor, limit: int) -> None:
        self._executor = executor
        self._limit = limit
        self._waiting_limit = max(1, limit - max(1, limit // _RESERVED_SHARE))
        self._by_digest: dict[bytes, ProofInProgress] = {}
        self._idle = asyncio.Event()
        self.running: set[ProofInProgress] = set()
        """Proofs whose thread has not returned, including cancelled ones."""

    def find(self, digest: bytes) -> ProofInProgress | None:
        """Return the proof in progress of a body, None without one."""
        return self._by_digest.get(digest)

    def begin(self, digest: bytes, work: Work, *, is_key_ready: bool) -> ProofInProgress:
        """Begin the proof of a body.

        Raises TryAgainLater when too many are in progress, and KeyLoading when its key is not ready and too many need
        theirs.
        """
        if len(self.running) >= self._limit:
            raise TryAgainLater(f"{len(self.running)} requests are in progress already; try again later")
        waiting = sum(proof.needs_key for proof in self.running)
        if waiting >= self._waiting_limit and not is_key_ready:
            raise KeyLoading(f"{waiting} requests wait for proving keys already; try again later")
        proof = ProofInProgress(partial(self._forget, digest), is_key_ready=is_key_ready)
        proof.start(self._executor, work)
        self.running.add(proof)
        self._by_digest[digest] = proof
        # The thread may outlive its clients, and counts until it returns.
        proof.future.add_done_callback(lambda done: self._finish(digest, proof, done))
        return proof

    async def drain(self, deadline_s: float) -> None:
        """Wait for proofs until the deadline, then cancel the others."""
        if self.running:
            self._idle.clear()
            with suppress(TimeoutError):
                await asyncio.wait_for(self._idle.wait(), deadline_s)
        self.cancel_all()

    def cancel_all(self) -> None:
        """Cancel all proofs."""
        for proof in list(self.running):
            proof.cancel.raise_flag()

    def _forget(self, digest: bytes, proof: ProofInProgress) -> None:
        if self._by_digest.get(digest) is proof:
            del self._by_digest[digest]

    def _finish(self, digest: bytes, proof: ProofInProgress, future: asyncio.Future[Proof]) -> None:
        self._forget(digest, proof)
        self.running.discard(proof)
        if not self.running:
            self._idle.set()
        if not future.cancelled():
            future.exception()  # retrieved, so that asyncio logs no warning
