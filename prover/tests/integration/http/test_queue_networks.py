"""``X-Light-Network``: jobs, equal requests, limits and counts of each network, over HTTP with a real Redis."""

from __future__ import annotations

import json
from typing import Any

import pytest
from golden_vectors import vector_named
from in_process_service import Client, Serve, queue_on, sample, state_of
from redis_server import StartRedis

from prover.keys.store.key_store import KeyStore
from prover.queue.circuit_queues import CircuitQueue, Network
from prover.queue.store import JobStore
from prover.settings import QueueSettings

MERKLE = vector_named("prover/v2_inclusion_32_1").body
UPDATE = vector_named("prover/batch_update_32_10").body
ASYNC = {"X-Async": "true"}


async def post(client: Client, network: str | None, path: str = "/prove", body: bytes = UPDATE) -> Any:
    headers = {} if network is None else {"X-Light-Network": network}
    response = await client.post(path, data=body, headers=headers)
    return response.status, await response.json(), response.headers


@pytest.mark.parametrize("path", ["/prove", "/queue/add"])
async def test_equal_requests__of_two_networks_and_of_none__are_three_jobs(
    serve: Serve, published_keys: KeyStore, job_store: JobStore, path: str
) -> None:
    client = await serve(published_keys, job_store)
    jobs = {}
    for network in (None, "mainnet", "devnet"):
        status, answer, _ = await post(client, network, path)
        infix = f"_{network}" if network else ""
        assert (status, answer["status"], answer["queue"]) == (202, "queued", f"zk_update{infix}_queue")
        jobs[network] = answer["job_id"]
    assert len(set(jobs.values())) == 3
    for network, job_id in jobs.items():
        status, answer, _ = await post(client, network, path)
        assert (status, answer["job_id"], answer["status"]) == (202, job_id, "already_queued")
        claim = await job_store.claim(CircuitQueue.of("update", Network(network) if network else None), "test", None)
        assert claim is not None
        assert (claim.job_id, claim.body) == (job_id, UPDATE)


async def test_network__in_any_case_and_between_blanks__is_read(
    serve: Serve, published_keys: KeyStore, job_store: JobStore
) -> None:
    client = await serve(published_keys, job_store)
    assert (await post(client, " \tMainNet  "))[1]["queue"] == "zk_update_mainnet_queue"


@pytest.mark.parametrize("word", ["", " ", "testnet", "mainnet-beta", "default", "localnet", "mainnet,devnet"])
async def test_network__of_another_word__is_refused_where_a_job_is_made(
    serve: Serve, published_keys: KeyStore, job_store: JobStore, word: str
) -> None:
    client = await serve(published_keys, job_store)
    for path, body in (
        ("/prove", UPDATE),
        ("/queue/add", MERKLE),
        ("/prove?async=true", b'{"circuitType":"foo","height":1}'),
    ):
        status, problem, _ = await post(client, word, path, body)
        assert (status, problem["code"]) == (400, "malformed_body")
        assert "X-Light-Network must be mainnet or devnet" in problem["message"]
    assert (await post(client, word, "/prove", MERKLE))[0] == 200, "a request that is proved at once does not need it"
    assert (await job_store.stats()).total_pending == 0


async def test_network__required_and_missing__is_refused(
    serve: Serve, published_keys: KeyStore, job_store: JobStore
) -> None:
    client = await serve(published_keys, job_store, queue={"require_network": True})
    assert (await post(client, None))[0] == 400
    assert (await post(client, "devnet"))[0] == 202
    assert (await post(client, None, body=MERKLE))[0] == 200


async def test_queue_of_a_network__full__is_429_and_leaves_room_for_others(
    serve: Serve, published_keys: KeyStore, redis_start: StartRedis
) -> None:
    limits = QueueSettings(max_pending_devnet=2)
    async with queue_on(redis_start().url, limits) as (_, store):
        client = await serve(published_keys, store)
        for blanks in range(4):
            status, answer, headers = await post(client, "devnet", body=UPDATE + b" " * blanks)
            assert status == (202 if blanks < 2 else 429)
            if status == 429:
                assert (answer["code"], answer["retryable"]) == ("queue_full", True)
                assert headers["Retry-After"] == "5"
        assert (await post(client, "devnet"))[0] == 202, "it is there already"
        for network in ("mainnet", None):
            for blanks in range(3):
                assert (await post(client, network, body=UPDATE + b" " * blanks))[0] == 202
        metrics = state_of(client)
        assert sample(metrics, "prover_rejected_requests_total", reason="queue_full") == 2


async def test_counts__of_networks__are_in_statistics_under_their_names(
    serve: Serve, published_keys: KeyStore, job_store: JobStore
) -> None:
    client = await serve(published_keys, job_store)
    with_tree = json.dumps(json.loads(UPDATE) | {"treeId": "tree"}).encode()
    for network, bodies in (("mainnet", 1), ("devnet", 3)):
        for blanks in range(bodies):
            await post(client, network, body=UPDATE + b" " * blanks)
        await post(client, network, body=with_tree)
    assert await job_store.claim(CircuitQueue.UPDATE_MAINNET, "test", None)
    for path, member in (("/queue/stats", "queues"), ("/queue/health", "queue_lengths")):
        answer = await (await client.get(path)).json()
        assert answer["total_pending"] == 5
        found = {name: count for name, count in answer[member].items() if count}
        assert found == {
            "zk_update_mainnet_queue_tree_subqueues": 1,
            "zk_update_mainnet_queue_tree_count": 1,
            "zk_update_mainnet_processing_queue": 1,
            "zk_update_devnet_queue": 3,
            "zk_update_devnet_queue_tree_subqueues": 1,
            "zk_update_devnet_queue_tree_count": 1,
        }
