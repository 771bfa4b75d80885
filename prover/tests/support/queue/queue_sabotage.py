"""Faults for a queue that runs: of its processes, of Redis, and of the network between them."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from queue_fleet import Member
from redis_server import RedisServer
from tcp_proxy import TcpProxy

BUSY_PATIENCE_S = 3


@dataclass
class Injected:
    """One fault."""

    kind: str
    at: float
    """Unix seconds when it began, or when it was over where that does not matter."""
    over: float = 0.0
    """When its cause was gone; 0 is at once."""
    ready_s: float = 0.0
    """Seconds from then until every process was ready again."""
    orphans: set[str] = field(default_factory=set)
    """Jobs that the victim was working on."""


class Saboteur:
    """Injects faults into a running queue."""

    def __init__(
        self, redis: RedisServer, proxy: TcpProxy, api: Member, workers: list[Member], lease_s: float, seed: int
    ) -> None:
        self._redis = redis
        self._proxy = proxy
        self._api = api
        self._workers = workers
        self._lease_s = lease_s
        self._random = random.Random(seed)

    def round(self) -> list[Callable[[], Awaitable[Injected]]]:
        """Return each fault once, in random order."""
        faults: list[Callable[[], Awaitable[Injected]]] = [
            self.worker_killed,
            self.worker_killed_twice,
            self.worker_stopped,
            self.api_killed,
            self.redis_killed,
            self.redis_stopped,
            self.clients_killed,
            self.connections_cut,
            self.network_slow,
        ]
        self._random.shuffle(faults)
        return faults

    async def worker_killed(self) -> Injected:
        """Send SIGKILL to a worker in the middle of a job, and restart it."""
        worker = await self._busy_worker()
        done = Injected("worker SIGKILL", time.time(), orphans=worker.jobs_begun())
        worker.kill()
        await self._pause(0.1, 1)
        worker.start()
        return done

    async def worker_killed_twice(self) -> Injected:
        """Send SIGKILL to two workers at once."""
        worker = await self._busy_worker()
        other = self._random.choice([member for member in self._workers if member is not worker])
        done = Injected("two workers SIGKILL", time.time(), orphans=worker.jobs_begun() | other.jobs_begun())
        worker.kill()
        other.kill()
        await self._pause(0.1, 1)
        worker.start()
        other.start()
        return done

    async def worker_stopped(self) -> Injected:
        """Send SIGSTOP to a worker for longer than a lease, so that it continues with a job that it has lost."""
        worker = await self._busy_worker()
        with worker.stopped():
            done = Injected("worker SIGSTOP", time.time(), orphans=worker.jobs_begun())
            await asyncio.sleep(self._lease_s * 1.5)
        done.over = time.time()
        return done

    async def api_killed(self) -> Injected:
        """Send SIGKILL to the API server, and restart it."""
        await self._pause(0, 0.3)
        self._api.kill()
        done = Injected("API SIGKILL", time.time())
        await self._pause(0.1, 1)
        self._api.start()
        return done

    async def redis_killed(self) -> Injected:
        """Send SIGKILL to Redis, and restart it on its append-only file."""
        await self._pause(0, 0.5)
        self._redis.kill()
        await self._pause(0.2, 2)
        self._redis.launch()
        await asyncio.to_thread(self._redis.become_ready)
        return Injected("Redis SIGKILL", time.time())

    async def redis_stopped(self) -> Injected:
        """Send SIGSTOP to Redis."""
        with self._redis.paused():
            await self._pause(0.5, 3)
        return Injected("Redis SIGSTOP", time.time())

    async def clients_killed(self) -> Injected:
        """Send CLIENT KILL for every connection."""
        with self._redis.client() as client:
            client.client_kill_filter(_type="normal", skipme=True)
        return Injected("CLIENT KILL", time.time())

    async def connections_cut(self) -> Injected:
        """Reset every connection and accept no new one for a while."""
        self._proxy.refusing = True
        self._proxy.cut()
        await self._pause(0.2, 2)
        self._proxy.refusing = False
        return Injected("connections cut", time.time())

    async def network_slow(self) -> Injected:
        """Delay everything from and to Redis by up to 0.3 s."""
        usual, self._proxy.latency_s = self._proxy.latency_s, 0.3
        await self._pause(1, 3)
        self._proxy.latency_s = usual
        return Injected("latency", time.time())

    async def _busy_worker(self) -> Member:
        """Return a worker that has a job, or any when none gets one in time."""
        deadline = time.monotonic() + BUSY_PATIENCE_S
        while time.monotonic() < deadline:
            busy = [worker for worker in self._workers if await asyncio.to_thread(worker.jobs_begun)]
            if busy:
                return self._random.choice(busy)
            await asyncio.sleep(0.02)
        return self._random.choice(self._workers)

    async def _pause(self, least_s: float, most_s: float) -> None:
        await asyncio.sleep(self._random.uniform(least_s, most_s))
