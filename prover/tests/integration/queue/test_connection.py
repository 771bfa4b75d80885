"""Addresses of Redis: what is read, what is refused, and that no credentials show; each way to reach a real server."""

from __future__ import annotations

import asyncio
import contextlib
import re
import socket
import subprocess
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import redis
from certificates import Certificates
from local_processes import free_port, tied
from redis_server import RedisServer, StartRedis
from structlog.testing import capture_logs

from prover.errors import QueueUnavailable, SettingsInvalid
from prover.queue.circuit_queues import CircuitQueue
from prover.queue.connection import Address, RedisConnection, redacted
from prover.queue.jobs import JobState, Submission
from prover.queue.store import JobStore

SECRET = "s3cr3t"


async def ping(url: str) -> None:
    connection = RedisConnection.open(url, timeout_s=10)
    try:
        await JobStore(connection).check()
    finally:
        await connection.close()


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        (f"redis://user:{SECRET}@redis.example:6380/3", "redis://***@redis.example:6380/3"),
        (f"rediss://:{SECRET}@[::1]:6379", "rediss://***@[::1]:6379"),
        (f"unix://user:{SECRET}@/run/redis.sock?db=2", "unix://***@/run/redis.sock"),
        (f"redis+sentinel://:{SECRET}@a:1,b/main/0", "redis+sentinel://***@a:1,b/main/0"),
        ("redis://redis:6379", "redis://redis:6379"),
        # Passwords with characters that should have been escaped.
        (f"redis://:{SECRET}/x@host/0", "redis://***@host/0"),
        (f"redis://:a@{SECRET}@host", "redis://***@host"),
        (f"redis://:{SECRET}?x@host", "***"),
        (f"redis://:{SECRET}#x@host", "***"),
        (f"redis://:{SECRET}", "***"),
        (f"redis//:{SECRET}@host", "***"),
        (f"{SECRET}", "***"),
    ],
)
def test_redacted__of_an_address__shows_the_place_alone(url: str, shown: str) -> None:
    assert redacted(url) == shown


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        (f"http://:{SECRET}@host", "must begin with redis://"),
        (f"{SECRET}", "must begin with redis://"),
        ("", "must begin with redis://"),
        ("redis:6379", "redis://host:6379/0"),
        ("localhost:6379", "redis://host:6379/0"),
        ("unix:/run/redis.sock", "unix://"),
        (f"redis://:{SECRET}@", "not a host"),
        (f"redis://:{SECRET}/x@host/0", "not a host"),
        (f"redis://:{SECRET}@host:70000", "a port is a number"),
        (f"redis://:{SECRET}@host/database", "number of a database"),
        (f"redis://:{SECRET}@a,b", "redis+sentinel"),
        (f"redis://:{SECRET}@host?password={SECRET}", "may follow '?'"),
        (f"redis+sentinel://:{SECRET}@host", "/MASTER"),
        (f"redis+sentinel://:{SECRET}@host/main/x", "/MASTER"),
        (f"unix://:{SECRET}@", "path of the socket"),
        (f"redis://[{SECRET}", "malformed"),
        (f"redis://host/0?db={SECRET}", "malformed"),
    ],
)
def test_address__that_cannot_be_used__is_refused_without_showing_credentials(url: str, reason: str) -> None:
    with pytest.raises(SettingsInvalid, match=re.escape(reason)) as refusal:
        RedisConnection.open(url)
    assert SECRET not in str(refusal.value)


def test_address__in_all_its_forms__means_what_it_says() -> None:
    server = Address.read(f"redis://user:{SECRET}@host:6380/3")
    assert (server.options["host"], server.options["port"], server.options["db"]) == ("host", 6380, 3)
    assert (server.options["username"], server.options["password"]) == ("user", SECRET)
    sentinels = Address.read(f"rediss+sentinel://:{SECRET}@a:1,[::1]:2,c/main/4")
    assert sentinels.sentinels == (("a", 1), ("::1", 2), ("c", 26379))
    assert (sentinels.master, sentinels.options["db"], sentinels.options["ssl"]) == ("main", 4, True)
    assert Address.read("rediss://host").options["ssl_check_hostname"] is True
    assert Address.read("unix:///run/redis.sock?db=2").options["path"] == "/run/redis.sock"
    for address in (server, sentinels):
        assert SECRET not in repr(address)


@pytest.mark.parametrize(
    ("url", "weaknesses"),
    [
        ("redis://redis-host:6379", ["no password"]),
        ("redis://:secret@redis-host", []),
        ("redis://127.0.0.1", []),
        ("redis://localhost/1", []),
        ("redis://[::1]:6379", []),
        ("unix:///run/redis.sock", []),
        ("redis+sentinel://one,two/master", ["no password"]),
        ("redis+sentinel://localhost/master", []),
        ("rediss://redis-host?ssl_certfile=a&ssl_keyfile=b", []),
        ("rediss://:secret@redis-host", []),
        ("rediss://:secret@redis-host?ssl_cert_reqs=required", []),
        ("rediss://:secret@redis-host?ssl_cert_reqs=none", ["certificate"]),
        ("rediss://:secret@redis-host?ssl_cert_reqs=optional", ["certificate"]),
        ("rediss://:secret@redis-host?ssl_check_hostname=false", ["certificate"]),
        ("rediss+sentinel://:secret@one/master?ssl_cert_reqs=none", ["certificate"]),
        ("rediss+sentinel://:secret@one/master", ["Sentinels are queried without TLS"]),
        ("rediss+sentinel://:secret@one/master?ssl_ca_certs=ca.crt", []),
        ("rediss+sentinel://:secret@localhost/master", []),
        ("rediss://redis-host?ssl_cert_reqs=none", ["no password", "certificate"]),
    ],
)
def test_address__that_leaves_a_way_in__is_reported(url: str, weaknesses: list[str]) -> None:
    found = Address.read(url).weaknesses
    assert len(found) == len(weaknesses)
    assert all(word in weakness.detail for word, weakness in zip(weaknesses, found, strict=True))
    assert "secret" not in str(found)


async def test_connection__with_a_password__reaches_a_server_that_asks_for_it(redis_start: StartRedis) -> None:
    server = redis_start(password=SECRET)
    await ping(server.url)
    with capture_logs() as logs, pytest.raises(QueueUnavailable) as refusal:
        await ping(server.url.replace(SECRET, "wrong-password"))
    assert "wrong-password" not in f"{logs}{refusal.value}"
    assert logs


async def test_connection__over_tls__checks_the_certificate(
    redis_start: StartRedis, redis_certificates: Certificates
) -> None:
    server = redis_start(certificates=redis_certificates)
    await ping(f"{server.url}?ssl_ca_certs={redis_certificates.authority}")
    with pytest.raises(QueueUnavailable):
        await ping(server.url)


async def test_connection__with_tls_to_a_server_without__is_explained(redis_start: StartRedis) -> None:
    server = redis_start()
    connection = RedisConnection.open(server.url.replace("redis://", "rediss://"), timeout_s=0.5)
    try:
        with capture_logs() as logs, pytest.raises(QueueUnavailable):
            await JobStore(connection).check()
    finally:
        await connection.close()
    [cause] = {line["cause"] for line in logs}
    assert "its port expects TLS (redis:// is without)" in cause


async def test_connection__without_tls_to_a_server_with_it__is_explained(
    redis_start: StartRedis, redis_certificates: Certificates
) -> None:
    server = redis_start(certificates=redis_certificates)
    with capture_logs() as logs, pytest.raises(QueueUnavailable):
        await ping(server.url.replace("rediss://", "redis://"))
    [cause] = {line["cause"] for line in logs}
    assert "whether it expects TLS" in cause


async def test_connection__over_a_unix_socket__reaches_the_server(redis_start: StartRedis, tmp_path: Path) -> None:
    redis_start("--unixsocket", str(tmp_path / "redis.sock"))
    await ping(f"unix://{tmp_path}/redis.sock")


@contextlib.asynccontextmanager
async def sentinel_of(master: RedisServer, folder: Path) -> AsyncIterator[str]:
    """A Sentinel that knows the master as main; gives the address of the Sentinel."""
    port = free_port()
    configuration = folder / "sentinel.conf"
    configuration.write_text(
        f"port {port}\nbind 127.0.0.1\ndir {folder}\nsentinel monitor main 127.0.0.1 {master.port} 1\n"
    )
    sentinel = subprocess.Popen(  # noqa: ASYNC220 - returns at once
        tied(["redis-server", str(configuration), "--sentinel"]), stdout=subprocess.DEVNULL, cwd=folder
    )
    try:
        deadline = time.monotonic() + 60
        while True:
            try:
                await ping(f"redis+sentinel://127.0.0.1:{port}/main/0")
                break
            except QueueUnavailable:
                assert time.monotonic() < deadline
        yield f"redis+sentinel://127.0.0.1:{port}"
    finally:
        sentinel.kill()
        sentinel.wait()


async def test_connection__through_a_sentinel__reaches_its_master(redis_start: StartRedis, tmp_path: Path) -> None:
    async with sentinel_of(redis_start(), tmp_path) as address:
        with pytest.raises(QueueUnavailable):
            await ping(f"{address}/other/0")


def leads(server: RedisServer) -> bool:
    try:
        return bool(server.info("replication")["role"] == "master")
    except redis.ConnectionError:  # sentinels close the connections of a server that they give another role
        return False


async def test_store__whose_master_is_replaced_by_a_sentinel__continues_with_its_jobs(
    redis_start: StartRedis, tmp_path: Path
) -> None:
    master = redis_start("--repl-diskless-sync-delay", "0")
    replica = redis_start("--replicaof", "127.0.0.1", str(master.port))
    deadline = time.monotonic() + 120
    async with sentinel_of(master, tmp_path) as address, contextlib.AsyncExitStack() as stack:
        connection = RedisConnection.open(f"{address}/main/0", timeout_s=10)
        stack.push_async_callback(connection.close)
        store = JobStore(connection)
        job_id = (await store.submit(Submission("update", "", b"1"))).job_id
        claim = await store.claim(CircuitQueue.UPDATE, "worker", None)
        assert claim is not None
        with master.client() as client:
            while not (client.ping() and client.wait(1, 1000)):  # waits for what was written before the ping
                assert time.monotonic() < deadline, replica.log
        with redis.Redis.from_url(address.replace("redis+sentinel", "redis")) as sentinel:
            while True:
                with contextlib.suppress(redis.ResponseError):  # it does not know the replica yet
                    sentinel.execute_command("SENTINEL FAILOVER", "main")
                    break
                assert time.monotonic() < deadline, replica.log
                await asyncio.sleep(0.1)
        while not leads(replica):
            assert time.monotonic() < deadline, replica.log
            await asyncio.sleep(0.1)
        master.kill()  # until it learns of the new master, it would accept writes that get lost
        finished = False
        while not finished:
            with contextlib.suppress(QueueUnavailable):
                finished = await store.finish(claim, b"proof", 1)
            assert time.monotonic() < deadline, replica.log
        job = await store.status(job_id)
        assert job is not None
        assert job.state is JobState.COMPLETED


@pytest.mark.parametrize("through_sentinel", [False, True])
async def test_connections__that_are_all_taken__are_waited_for(
    redis_start: StartRedis, tmp_path: Path, through_sentinel: bool
) -> None:
    server = redis_start()
    async with contextlib.AsyncExitStack() as stack:
        url = server.url
        if through_sentinel:
            url = f"{await stack.enter_async_context(sentinel_of(server, tmp_path))}/main/0"
        connection = RedisConnection.open(url, max_connections=2, timeout_s=60)
        stack.push_async_callback(connection.close)
        store = JobStore(connection)
        await asyncio.gather(*(store.status("unknown") for _ in range(10)))  # both are open now
        with server.paused():
            found = asyncio.gather(*(store.status("unknown") for _ in range(50)))
            await asyncio.sleep(0.1)
        assert await found == [None] * 50
        with server.client() as client:
            clients: Any = client.client_list(_type="normal")
        assert sum(other["cmd"] == "hmget" for other in clients) == 2


@pytest.mark.parametrize("is_cancelled", [False, True])
async def test_pipeline__that_ends_while_the_server_hangs__returns_its_connection(
    redis_start: StartRedis, is_cancelled: bool
) -> None:
    server = redis_start()
    connection = RedisConnection.open(server.url, max_connections=1, timeout_s=0.5)

    async def hang(hanging: contextlib.ExitStack) -> None:
        async with connection.redis.pipeline() as pipeline:
            await pipeline.watch("key")
            hanging.enter_context(server.paused())

    try:
        with contextlib.ExitStack() as hanging:
            task = asyncio.create_task(hang(hanging))
            if is_cancelled:
                asyncio.get_running_loop().call_later(0.2, task.cancel)
            with pytest.raises(asyncio.CancelledError if is_cancelled else redis.TimeoutError):
                await task
        await connection.redis.ping()
    finally:
        await connection.close()


async def test_connection__used_after_its_close__is_refused_and_leaves_nothing_open(
    redis_database: RedisServer,
) -> None:
    connection = RedisConnection.open(redis_database.url)
    # A task of arq can be left behind like this: cancelled, it still ends what it watches.
    async with connection.redis.pipeline() as pipeline:
        await pipeline.watch("key")
        await connection.close()
    with pytest.raises(redis.ConnectionError, match="were closed"):
        await connection.redis.ping()
    with redis_database.client() as client:
        clients: Any = client.client_list()
    assert len(clients) == 1


async def test_close__of_a_server_with_tls_that_hangs__ends_while_a_client_waits(
    redis_start: StartRedis, redis_certificates: Certificates
) -> None:
    server = redis_start(certificates=redis_certificates)
    connection = RedisConnection.open(f"{server.url}?ssl_ca_certs={redis_certificates.authority}", timeout_s=2)
    store = JobStore(connection)
    submitted = await store.submit(Submission("update", "batch_update_32_10", b"{}"))
    waiting = asyncio.create_task(store.wait(submitted.job_id, 60))
    await asyncio.sleep(0.3)  # it subscribes
    with server.paused():
        async with asyncio.timeout(30):
            await store.close()
            await connection.close()
        waiting.cancel()
        with contextlib.suppress(asyncio.CancelledError, QueueUnavailable):
            await waiting
    # The TLS sessions end when the server answers again; the loop must not end before.
    deadline = time.monotonic() + 60
    while server.info("clients")["connected_clients"] > 1:
        assert time.monotonic() < deadline
        await asyncio.sleep(0.1)
    await asyncio.sleep(0.1)


async def test_store__of_a_user_without_channels__proves_jobs_and_ends_waits(redis_start: StartRedis) -> None:
    server: RedisServer = redis_start()
    with server.client() as client:
        client.acl_setuser("prover", enabled=True, passwords=["+secret"], keys=["*"], commands=["+@all"])
    connection = RedisConnection.open(server.url.replace("//", "//prover:secret@"), timeout_s=10)
    store = JobStore(connection)
    try:
        submitted = await store.submit(Submission("update", "batch_update_32_10", b"{}"))
        claim = await store.claim(CircuitQueue.UPDATE, "worker", None)
        assert claim is not None
        waiting = asyncio.create_task(store.wait(submitted.job_id, 60))
        await asyncio.sleep(0.1)
        assert await store.finish(claim, b"proof", 1)
        job = await waiting
        assert job is not None
        assert job.state is JobState.COMPLETED
    finally:
        await store.close()
        await connection.close()


async def test_store__without_a_server__reports_it_and_recovers(redis_start: StartRedis) -> None:
    server: RedisServer = redis_start()
    connection = RedisConnection.open(server.url, timeout_s=10)
    store = JobStore(connection)
    try:
        await store.check()
        server.kill()
        with pytest.raises(QueueUnavailable):
            await store.check()
        server.start()
        await store.check()
    finally:
        await connection.close()


async def test_store__whose_server_hangs__gives_up_after_the_time_out(redis_start: StartRedis) -> None:
    server: RedisServer = redis_start()
    connection = RedisConnection.open(server.url, timeout_s=0.3)
    store = JobStore(connection)
    try:
        await store.check()
        with server.paused(), pytest.raises(QueueUnavailable):
            await store.status("00000000-0000-4000-8000-000000000000")
    finally:
        await connection.close()


async def test_store__without_a_server__writes_few_log_lines_and_counts_the_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("prover.queue.scripts._LINES_APART_S", 1.0)
    with socket.create_server(("127.0.0.1", 0)) as unused:
        address = f"redis://127.0.0.1:{unused.getsockname()[1]}"
    connection = RedisConnection.open(address, timeout_s=5)
    store = JobStore(connection)
    try:
        with capture_logs() as lines:
            await asyncio.gather(*(store.check() for _ in range(60)), return_exceptions=True)
            await asyncio.sleep(1.1)
            with pytest.raises(QueueUnavailable):
                await store.check()
    finally:
        await connection.close()
    assert {line["event"] for line in lines} == {"queue_unavailable"}
    assert len(lines) < 60
    assert len(lines) + sum(line.get("suppressed", 0) for line in lines) == 61


@pytest.mark.parametrize("form", ["redis://127.0.0.1:{}", "redis://127.0.0.1:{}/1", "redis://:secret@127.0.0.1:{}"])
async def test_store__whose_server_accepts_and_never_answers__gives_up_after_the_time_out(form: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        connection = RedisConnection.open(form.format(silent.getsockname()[1]), timeout_s=0.3)
        store = JobStore(connection)
        try:
            for _ in range(2):
                async with asyncio.timeout(5):
                    with pytest.raises(QueueUnavailable):
                        await store.check()
        finally:
            await connection.close()
