"""One engine and one set of loaded keys for all integration tests; a server per test on top of them."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
from aiohttp.test_utils import TestClient, TestServer
from gnark_conversion import convert_key
from golden_vectors import BATCH, RequestVector
from in_process_service import (
    CONVERTED,
    Client,
    Listen,
    Serve,
    SharedForms,
    StoreFor,
    VerifyingKeyOf,
    circuit,
    open_store,
    queue_on,
)
from independent_groth16 import IndependentKey
from prometheus_client import CollectorRegistry
from redis_server import RedisServer

from prover.http.app import Listener, create_app
from prover.http.state import ServerState
from prover.kernel.cancellation import CancelFlag
from prover.kernel.engine import Engine
from prover.keys.catalogue.selection import CircuitSelection
from prover.keys.prepared.preparation import PreparedKeys
from prover.keys.store.key_store import KeyStore
from prover.observability.metrics import Metrics
from prover.proving.device_selection import open_devices
from prover.queue.store import JobStore
from prover.settings import DeviceSettings, Settings, load_settings


@pytest.fixture(scope="session")
def engine() -> Iterator[Engine]:
    """The kernel."""
    with Engine() as engine:
        yield engine


@pytest.fixture(scope="session")
def keys_dir(reference_keys_dir: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A keys directory with the 18 published keys, to which batch_keys adds three."""
    folder = tmp_path_factory.mktemp("proving-keys")
    for path in reference_keys_dir.glob("*.key"):
        (folder / path.name).symlink_to(path)
    return folder


@pytest.fixture(scope="session")
def shared_forms(tmp_path_factory: pytest.TempPathFactory) -> PreparedKeys:
    """Prepared keys of keys, made once in a run of tests, whatever the number of its processes."""
    folder = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        folder = folder.parent
    return SharedForms(folder / "prepared-keys")


@pytest.fixture(scope="session")
def published_keys(keys_dir: Path, engine: Engine, shared_forms: PreparedKeys) -> Iterator[KeyStore]:
    """The 18 published keys, loaded on first use."""
    store = open_store(keys_dir, engine, shared_forms)
    yield store
    store.close()


@pytest.fixture(scope="session")
def batch_keys(published_keys: KeyStore, keys_dir: Path, reference_batch_keys_dir: Path) -> KeyStore:
    """The published keys and the three batch keys of size 10, under the names the reference gives them."""
    for path in reference_batch_keys_dir.glob("*.key"):
        (keys_dir / path.name).symlink_to(path)
    return published_keys


@pytest.fixture(scope="session")
def later_format_dir(reference_keys_dir: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with one published key converted to gnark 0.14, under its current name."""
    folder = tmp_path_factory.mktemp("format-0.14")
    names = circuit(CONVERTED)
    published = reference_keys_dir / names.earlier_key_file
    (folder / names.key_file).write_bytes(convert_key(published.read_bytes()))
    return folder


@pytest.fixture(scope="session")
def later_format_keys(later_format_dir: Path, engine: Engine) -> Iterator[KeyStore]:
    """The converted key."""
    store = open_store(later_format_dir, engine)
    yield store
    store.close()


@pytest.fixture
def store_for(request: pytest.FixtureRequest) -> StoreFor:
    """The store that has the key of a vector."""

    def choose(vector: RequestVector) -> KeyStore:
        name = "batch_keys" if vector.circuit in BATCH else "published_keys"
        store: KeyStore = request.getfixturevalue(name)
        return store

    return choose


@pytest.fixture(scope="session")
def verifying_key_of() -> VerifyingKeyOf:
    """The verifying key of a circuit as independent code reads it from the exported bytes."""
    known: dict[tuple[int, str], IndependentKey] = {}

    def read(store: KeyStore, name: str) -> IndependentKey:
        place = (id(store), name)
        if place not in known:
            key = store.get(circuit(name), CancelFlag())
            known[place] = IndependentKey.read(key.verifying_key.write())
        return known[place]

    return read


def patient(groups: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Return settings with deadlines that a loaded machine keeps, where a test asks for no others."""
    return groups | {"proving": {"merkle_deadline_s": 300, "batch_deadline_s": 300} | groups.get("proving", {})}


@pytest.fixture
async def serve() -> AsyncIterator[Serve]:
    """Give a function that starts a server over a key store, a queue and devices; groups of settings are keywords."""
    clients: list[Client] = []
    states: list[ServerState] = []

    async def start(
        store: KeyStore,
        job_store: JobStore | None = None,
        selection: CircuitSelection | None = None,
        device: DeviceSettings | None = None,
        **groups: dict[str, Any],
    ) -> Client:
        settings: Settings = load_settings(patient(groups))
        metrics = Metrics(CollectorRegistry())
        devices = open_devices(device or settings, metrics)
        state = ServerState(settings, store, metrics, selection, queue=job_store, devices=devices)
        states.append(state)
        server = TestServer(create_app(state))
        await server.start_server(access_log=None)
        state.listening = True
        client: Client = TestClient(server)
        clients.append(client)
        return client

    yield start
    for client in clients:
        await client.close()
    for state in states:
        state.proofs_in_progress.cancel_all()
        state.close()
        state.devices.close()


@pytest.fixture
async def listen() -> AsyncIterator[Listen]:
    """Give a function that listens on a socket as ``prover start`` does, guards of connections included."""
    listeners: list[Listener] = []
    states: list[ServerState] = []

    async def start(
        store: KeyStore, queue: JobStore | None = None, **groups: dict[str, Any]
    ) -> tuple[ServerState, int]:
        groups["http"] = {"address": "127.0.0.1:0", **groups.get("http", {})}
        state = ServerState(load_settings(patient(groups)), store, Metrics(CollectorRegistry()), queue=queue)
        states.append(state)
        listener = Listener(state)
        listeners.append(listener)
        await listener.start()
        return state, listener.address[1]

    yield start
    for listener in listeners:
        await listener.close()
    for state in states:
        state.proofs_in_progress.cancel_all()
        state.close()


@pytest.fixture
async def job_store(redis_database: RedisServer) -> AsyncIterator[JobStore]:
    """An empty queue without workers."""
    async with queue_on(redis_database.url) as (_, store):
        yield store


@pytest.fixture(autouse=True)
def clean_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Settings come from the test alone."""
    for name in list(os.environ):
        if name.startswith("PROVER_") or name in ("REDIS_URL", "QUEUE_MODE", "SERVER_MODE"):
            monkeypatch.delenv(name)


@pytest.fixture
def no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    """The proxies of this machine are not asked for loopback addresses."""
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
