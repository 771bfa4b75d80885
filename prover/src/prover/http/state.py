"""What all handlers of one server share."""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field

from aiohttp import web

from prover.kernel.cancellation import CancelFlag
from prover.keys.store import KeyStore
from prover.observability.metrics import Metrics
from prover.proving.admission import Admission
from prover.proving.service import ProvingService
from prover.settings import Settings


@dataclass
class ServerState:
    """The parts of a running server. Handlers read them; only the event loop changes them."""

    settings: Settings
    keys: KeyStore
    admission: Admission
    service: ProvingService
    metrics: Metrics
    executor: ThreadPoolExecutor
    thread_limit: int
    draining: bool = False
    running: set[CancelFlag] = field(default_factory=set)
    """Flags of the requests that are being proved or wait for it."""
    _idle: asyncio.Event = field(default_factory=asyncio.Event)

    @classmethod
    def build(cls, settings: Settings, keys: KeyStore, metrics: Metrics) -> "ServerState":
        """Build the state of a server around a key store."""
        proving = settings.proving
        admission = Admission(proving.permits, proving.waiting_limit, metrics)
        # Every request that proves, waits or loads a key occupies a thread; more are refused.
        threads = proving.permits + proving.waiting_limit
        return cls(
            settings=settings,
            keys=keys,
            admission=admission,
            service=ProvingService(keys, admission, metrics),
            metrics=metrics,
            executor=ThreadPoolExecutor(threads, thread_name_prefix="prove"),
            thread_limit=threads,
        )

    async def drain(self) -> None:
        """Let running proofs finish until the deadline, then cancel the rest."""
        self.draining = True
        if self.running:
            self._idle.clear()
            with suppress(TimeoutError):
                await asyncio.wait_for(self._idle.wait(), self.settings.http.drain_deadline_s)
        for flag in list(self.running):
            flag.raise_flag()

    def leave(self, flag: CancelFlag) -> None:
        """Note that the thread of a request has returned."""
        self.running.discard(flag)
        if not self.running:
            self._idle.set()

    def close(self) -> None:
        """Wait for the threads, which end soon after their flags are raised."""
        self.executor.shutdown(wait=True, cancel_futures=True)


STATE: web.AppKey[ServerState] = web.AppKey("state", ServerState)
REQUEST_ID: web.RequestKey[str] = web.RequestKey("request_id", str)
CIRCUIT_TYPE: web.RequestKey[str] = web.RequestKey("circuit_type", str)
EXTRA_HEADERS: web.RequestKey[dict[str, str]] = web.RequestKey("extra_headers", dict)
FACTS: web.RequestKey[dict[str, object]] = web.RequestKey("facts", dict)
"""Fields that a handler adds to the log line of its request."""
