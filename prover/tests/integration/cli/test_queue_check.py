"""``prover check`` checks that the Redis of the queue answers and keeps its data."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from click.testing import CliRunner
from local_processes import free_port
from redis_server import StartRedis

from prover.cli.checks.queue import judge
from prover.cli.checks.result import Status
from prover.cli.main import cli
from prover.queue.connection import Address
from prover.worker.redis_facts import RedisFacts


def check(keys_dir: Path, *words: str, **variables: str) -> tuple[int, list[dict[str, Any]]]:
    addresses = ["--prover-address", "127.0.0.1:0", "--metrics-address", "127.0.0.1:0"]
    command = ["check", "--keys-dir", str(keys_dir), *addresses, "--output", "json", *words]
    result = CliRunner().invoke(cli, command, env=variables)
    checks = json.loads(result.stdout)["checks"]
    return result.exit_code, [item for item in checks if item["name"] == "Redis"]


def test_check__of_a_redis_that_keeps_its_data__is_ok(redis_start: StartRedis, tmp_path: Path) -> None:
    server = redis_start("--maxmemory-policy", "noeviction", appendonly=True, password="hunter2")
    _, (redis,) = check(tmp_path, "--redis-url", server.url)
    assert redis["status"] == "ok"
    assert f"***@127.0.0.1:{server.port}" in redis["detail"]
    assert "hunter2" not in redis["detail"]


def test_check__of_a_redis_that_may_lose_jobs__warns(redis_start: StartRedis, tmp_path: Path) -> None:
    server = redis_start("--maxmemory-policy", "allkeys-lru")
    _, (redis,) = check(tmp_path, REDIS_URL=server.url)
    assert redis["status"] == "warning"
    assert "no append-only file, evicts (allkeys-lru)" in redis["detail"]
    assert "appendonly yes" in redis["hint"]
    assert "noeviction" in redis["hint"]


def test_check__of_a_redis_in_cluster_mode__warns(redis_start: StartRedis, tmp_path: Path) -> None:
    server = redis_start("--cluster-enabled", "yes", "--cluster-port", str(free_port()))
    _, (redis,) = check(tmp_path, "--redis-url", server.url)
    assert redis["status"] == "warning"
    assert "cluster mode" in redis["detail"]


def test_check__of_a_redis_that_is_unreachable__fails(redis_start: StartRedis, tmp_path: Path) -> None:
    server = redis_start()
    server.kill()
    code, (redis,) = check(tmp_path, "--redis-url", server.url)
    assert (code, redis["status"]) == (1, "failure")
    assert f"127.0.0.1:{server.port}/0 does not answer" in redis["detail"]


def test_check__with_tls_of_a_redis_without__names_the_cause(redis_start: StartRedis, tmp_path: Path) -> None:
    url = redis_start().url.replace("redis://", "rediss://")
    code, (redis,) = check(tmp_path, "--redis-url", url)
    assert (code, redis["status"]) == (1, "failure")
    assert "does not answer: no connection with TLS in time: check the address, and that its port" in redis["detail"]


def test_check__of_a_redis_that_refuses_writes__fails_with_the_cause(redis_start: StartRedis, tmp_path: Path) -> None:
    server = redis_start("--maxmemory", "1")
    code, (redis,) = check(tmp_path, "--redis-url", server.url)
    assert (code, redis["status"]) == (1, "failure")
    assert "refuses writes because its memory is full" in redis["detail"]
    assert "maxmemory" in redis["hint"]


def test_check__of_a_redis_that_lets_others_in__warns() -> None:
    weaknesses = Address.read("rediss://redis-host?ssl_cert_reqs=none").weaknesses
    check = judge("rediss://redis-host", RedisFacts("7.0", 0.5, appends=True, eviction=None), weaknesses)
    assert check.status is Status.WARNING
    assert "no password" in check.detail
    assert "certificate" in check.detail
    assert check.hint is not None
    assert "ssl_cert_reqs" in check.hint


def test_check__without_a_queue__asks_nobody(tmp_path: Path) -> None:
    assert check(tmp_path)[1] == []


def test_check__of_a_redis_that_does_not_report_it__is_ok() -> None:
    assert judge("redis://host", RedisFacts("unknown", 0.5, None, None)).status is Status.OK
