"""Names that integration tests share: the server of a test, key stores, circuits by name."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

from aiohttp.test_utils import TestClient
from golden_vectors import RequestVector
from independent_groth16 import IndependentKey
from prometheus_client import CollectorRegistry

from prover.http.state import STATE, ServerState
from prover.kernel.cancellation import CancelFlag
from prover.kernel.engine import Engine, LoadedKey
from prover.keys.catalogue.circuits import PUBLISHED_CIRCUITS
from prover.keys.prepared import prepared_keys
from prover.keys.prepared.preparation import PreparedKeys
from prover.keys.prepared.prepared_keys import Digests
from prover.keys.store.key_store import KeyStore
from prover.observability.metrics import Metrics
from prover.proving.proof_making import prove_with_key
from prover.proving.request import read_envelope, read_task
from prover.queue.connection import RedisConnection
from prover.queue.store import JobStore
from prover.settings import QueueSettings
from prover.worker.instance import QueueInstance
from shared.requests.circuit_id import CircuitId

Client = TestClient[Any, Any]
Serve = Callable[..., Awaitable[Client]]
Listen = Callable[..., Awaitable[tuple[ServerState, int]]]
"""Gives the state of a listening server and its port."""
StoreFor = Callable[[RequestVector], KeyStore]
VerifyingKeyOf = Callable[[KeyStore, str], IndependentKey]

CONVERTED = "v2_inclusion_32_1"
"""The circuit whose published key is also there in gnark 0.14."""


def state_of(client: Client) -> ServerState:
    """Return the state of the server behind a client."""
    state: ServerState = client.app[STATE]
    return state


def sample(state: ServerState, name: str, **labels: str) -> float | None:
    """Return the value of a metric, None where it has no such labels yet."""
    for metric in vars(state.metrics).values():
        for family in metric.collect():
            for line in family.samples:
                if line.name == name and line.labels == labels:
                    return float(line.value)
    return None


async def until(holds: Callable[[], bool], seconds: float = 60) -> None:
    """Wait until something observable is the case."""
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline
        await asyncio.sleep(0.005)


class SharedForms(PreparedKeys):
    """Prepared keys for several processes: the first that needs a key makes its form, the others wait and map it."""

    def map(
        self, engine: Engine, source: Path, cancel: CancelFlag | None = None, accepted: Digests = frozenset()
    ) -> LoadedKey | None:
        """Map the prepared key, made before if there is none."""
        prepared_keys.prepare(engine, source, self.folder, cancel=cancel)
        return super().map(engine, source, cancel, accepted)


def open_store(directory: Path, engine: Engine, prepared_keys: PreparedKeys | None = None) -> KeyStore:
    """Return a key store with metrics of its own."""
    return KeyStore(directory, engine, Metrics(CollectorRegistry()), prepared_keys=prepared_keys)


@contextlib.asynccontextmanager
async def queue_on(url: str, limits: QueueSettings | None = None) -> AsyncIterator[tuple[RedisConnection, JobStore]]:
    """The queue on a Redis, with connections of its own."""
    connection = RedisConnection.open(url, timeout_s=2)
    store = JobStore(connection, limits)
    try:
        yield connection, store
    finally:
        await store.close()
        await connection.close()


@contextlib.asynccontextmanager
async def working(connection: RedisConnection, store: JobStore, state: ServerState) -> AsyncIterator[None]:
    """Workers of a server, which prove the jobs of its queue meanwhile."""
    settings = QueueSettings(heartbeat_s=0.5, poll_s=0.02)
    instance = QueueInstance(connection, store, settings, state.metrics)
    instance.start()
    instance.work(state.service, state.selection, slots=1, total_slots=2)
    try:
        yield
    finally:
        await instance.close()


def proof_of(keys: KeyStore, vector: RequestVector) -> bytes:
    """Return the proof of a request, as a worker stores it."""
    task = read_task(read_envelope(vector.body), PUBLISHED_CIRCUITS)
    return prove_with_key(keys.get(circuit(vector.circuit), CancelFlag()), task, CancelFlag()).body


def circuit(name: str) -> CircuitId:
    """Return the circuit of a current name."""
    found = CircuitId.from_key_file(name + ".key")
    if found is None:
        raise ValueError(f"no circuit is called {name}")
    return found


def scalars(values: tuple[int, ...]) -> bytes:
    """Return integers as the kernel takes them."""
    return b"".join(value.to_bytes(32, "big") for value in values)
