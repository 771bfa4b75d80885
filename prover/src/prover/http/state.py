"""State that all handlers of one server share."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from aiohttp import web

from prover.http.access.api_keys import ApiKeys
from prover.http.access.failed_keys import FailedKeys
from prover.http.access.rate_limit import RateLimiter
from prover.http.requests.body import BodyBudget
from prover.http.requests.idempotency import IdempotentAnswers
from prover.http.requests.proofs_in_progress import ProofsInProgress
from prover.http.server.heartbeat import LoopHeartbeat
from prover.http.server.log_throttle import LogThrottles
from prover.keys.catalogue.selection import CircuitSelection
from prover.keys.files.memory_budget import half_of_memory
from prover.keys.store.key_store import KeyStore
from prover.observability.metrics import Metrics
from prover.proving.admission import Admission
from prover.proving.devices import Devices
from prover.proving.service import ProvingService
from prover.settings import KeySettings, ProvingSettings, Settings

if TYPE_CHECKING:
    from prover.queue.store import JobStore


class ServerState:
    """The parts of a running server. Handlers read them; only the event loop changes them."""

    def __init__(
        self,
        settings: Settings,
        keys: KeyStore,
        metrics: Metrics,
        selection: CircuitSelection | None = None,
        missing_required: Callable[[], list[str]] = list,
        queue: JobStore | None = None,
        devices: Devices | None = None,
    ) -> None:
        """Make the state of a server, inside its event loop. The caller closes queue and devices.

        Raises SettingsInvalid for API keys that cannot be read.
        """
        proving, http = settings.proving, settings.http
        self.settings = settings
        self.keys = keys
        self.metrics = metrics
        self.selection = selection or CircuitSelection.everything()
        self.missing_required = missing_required
        """Returns a reason for each key that must be preloaded and is not in memory."""
        self.queue = queue
        """Queue for jobs; None in standalone mode, which has no routes for jobs."""
        self.devices = devices or Devices(metrics)
        budget_bytes = working_memory_bytes(proving, settings.keys)
        self.admission = Admission(proving.permits, proving.waiting_limit, metrics, budget_bytes)
        self.service = ProvingService(keys, self.admission, metrics, self.devices)
        # Every request that proves, waits or loads a key occupies a thread; more are refused.
        threads = proving.permits + proving.waiting_limit + self.devices.call_capacity
        self.executor = ThreadPoolExecutor(threads, thread_name_prefix="prove")
        self.proofs_in_progress = ProofsInProgress(self.executor, threads)
        self.bodies = BodyBudget(http.body_memory_bytes, max(http.body_memory_bytes // 2, http.body_limit_bytes))
        self.answers = IdempotentAnswers(http.idempotency_retention_s)
        self.api_keys = ApiKeys(http)
        self.rate_limiter = RateLimiter(http.rate_limit_per_s, http.rate_burst)
        self.failed_keys = FailedKeys()
        self.log_throttle = LogThrottles(metrics.suppressed_log_lines)
        self.heartbeat = LoopHeartbeat()
        self.loop = asyncio.get_running_loop()
        """Event loop of the server, for probes, which run in other threads."""
        self.listening = False
        """True once the API address accepts connections, which ends the startup."""
        self.stop_announced = False
        """True after a request to stop: readiness fails, requests are served, and answers close their connection."""
        self.draining = False
        """True while new requests are refused."""
        self.stopping = asyncio.Event()
        """Set when draining begins, which ends all waits for jobs."""

    async def announce_stop(self) -> None:
        """Fail readiness for the drain delay, so that load balancers stop sending requests."""
        self.stop_announced = True
        await asyncio.sleep(self.settings.http.serving_after_stop_s)

    async def drain(self) -> None:
        """Refuse new requests, wait for running proofs until the deadline, then cancel the others."""
        self.stop_announced = self.draining = True
        self.stopping.set()
        await self.proofs_in_progress.drain(self.settings.http.drain_deadline_s)

    def close(self) -> None:
        """Wait for the threads to end."""
        self.heartbeat.close()
        self.executor.shutdown(wait=True, cancel_futures=True)


def queue_of(request: web.Request) -> JobStore:
    """Return the queue, in handlers of routes that exist only with one."""
    queue = request.app[STATE].queue
    assert queue is not None  # noqa: S101 - the routes exist only with a queue
    return queue


def working_memory_bytes(proving: ProvingSettings, keys: KeySettings) -> int:
    """Return the memory in bytes that proofs in progress may use together; the other half of the total is for keys."""
    return proving.working_memory_bytes or half_of_memory(keys.total_memory_gib)


STATE: web.AppKey[ServerState] = web.AppKey("state", ServerState)
