"""Answers of an API with untrusted contents of Redis: no proof but one of the request."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from golden_vectors import RequestVector, vector_named
from in_process_service import Client, Serve, circuit, open_store, proof_of, queue_on, sample, state_of, working
from queue_inspection import KEYS
from redis_server import RedisServer

from prover.kernel.cancellation import CancelFlag
from prover.kernel.engine import Engine
from prover.keys.store.key_store import KeyStore
from prover.queue.circuit_queues import CircuitQueue
from prover.queue.job_ids import job_id_of
from prover.queue.store import JobStore

ASKED = vector_named("prover/v2_inclusion_32_1")
OTHER = vector_named("prover/v2_inclusion_32_2")
SAME_CIRCUIT = vector_named("prover/gen-test-params_32_1")
ASYNC = {"X-Async": "true"}
COORDINATE = "0x" + "0" * 63 + "1"
INVENTED = json.dumps({"ar": [COORDINATE] * 2, "bs": [[COORDINATE] * 2] * 2, "krs": [COORDINATE] * 2}).encode()


async def queue(client: Client, vector: RequestVector = ASKED) -> str:
    response = await client.post("/prove", data=vector.body, headers=ASYNC)
    answer = await response.json()
    assert response.status == 202, answer
    return str(answer["job_id"])


async def answer_of(client: Client, job_id: str) -> tuple[int, dict[str, Any]]:
    response = await client.get("/prove/status", params={"job_id": job_id})
    return response.status, await response.json()


async def finish(store: JobStore, proof: bytes) -> None:
    claim = await store.claim(CircuitQueue.UPDATE, "worker", None)
    assert claim is not None
    assert await store.finish(claim, proof, 1)


@contextlib.contextmanager
def attacker_of(server: RedisServer) -> Iterator[Any]:
    """A client of Redis, without the types of redis-py, which know no bytes."""
    with server.client() as client:
        yield client


def results(client: Client, outcome: str) -> float | None:
    return sample(state_of(client), "prover_stored_results_total", outcome=outcome)


async def test_result__that_proves_its_request__is_answered(
    serve: Serve, published_keys: KeyStore, job_store: JobStore
) -> None:
    client = await serve(published_keys, job_store)
    job_id, proof = await queue(client), await asyncio.to_thread(proof_of, published_keys, ASKED)
    await finish(job_store, proof)
    status, answer = await answer_of(client, job_id)
    assert (status, answer["result"]["proof"]) == (200, json.loads(proof))
    assert results(client, "verified") == 1


@pytest.mark.parametrize("legacy", ["prover/v1_inclusion_26_2", "prover/v1_non-inclusion_26_1"])
async def test_result__of_several_public_inputs__is_answered(
    serve: Serve, published_keys: KeyStore, job_store: JobStore, legacy: str
) -> None:
    client, vector = await serve(published_keys, job_store), vector_named(legacy)
    job_id = await queue(client, vector)
    await finish(job_store, await asyncio.to_thread(proof_of, published_keys, vector))
    assert (await answer_of(client, job_id))[0] == 200
    assert results(client, "verified") == 1


@pytest.mark.parametrize("false", ["invented", "of another request", "of another circuit", "no proof", "empty"])
async def test_result__that_somebody_wrote_to_redis__is_never_answered_and_the_next_one_is_true(
    serve: Serve, published_keys: KeyStore, redis_database: RedisServer, false: str
) -> None:
    forged = {
        "invented": lambda: INVENTED,
        "of another request": lambda: proof_of(published_keys, SAME_CIRCUIT),
        "of another circuit": lambda: proof_of(published_keys, OTHER),
        "no proof": lambda: b'{"ar": ["0x1"]}',
        "empty": lambda: b"",
    }[false]
    async with queue_on(redis_database.url) as (connection, store):
        client = await serve(published_keys, store)
        job_id = await queue(client)
        await finish(store, await asyncio.to_thread(proof_of, published_keys, ASKED))
        with attacker_of(redis_database) as attacker:
            attacker.hset(KEYS.job(job_id), "proof", await asyncio.to_thread(forged))
        status, answer = await answer_of(client, job_id)
        assert (status, answer["code"]) == (404, "job_not_found")
        assert results(client, "rejected") == 1
        async with working(connection, store, state_of(client)):
            again = await queue(client)
            assert again != job_id
            response = await client.get("/prove/status", params={"job_id": again, "wait": "60"})
            while (await response.json())["status"] != "completed":
                response = await client.get("/prove/status", params={"job_id": again, "wait": "60"})
    assert results(client, "verified") == 1


async def test_statement__exchanged_with_its_proof__is_refused_by_the_id(
    serve: Serve, published_keys: KeyStore, job_store: JobStore, redis_database: RedisServer
) -> None:
    """The proof is true and the record consistent, but the client asked for something else under this id."""
    client = await serve(published_keys, job_store)
    job_id = await queue(client)
    await finish(job_store, await asyncio.to_thread(proof_of, published_keys, SAME_CIRCUIT))
    other = await queue(client, SAME_CIRCUIT)
    with attacker_of(redis_database) as attacker:
        names = ("nonce", "proves", "inputs")
        for name, value in zip(names, attacker.hmget(KEYS.job(other), names), strict=True):
            attacker.hset(KEYS.job(job_id), name, value or b"")
    assert (await answer_of(client, job_id))[0] == 404
    assert results(client, "rejected") == 1


async def test_statement__that_is_missing__is_refused(
    serve: Serve, published_keys: KeyStore, job_store: JobStore, redis_database: RedisServer
) -> None:
    client = await serve(published_keys, job_store)
    job_id = await queue(client)
    await finish(job_store, await asyncio.to_thread(proof_of, published_keys, ASKED))
    with attacker_of(redis_database) as attacker:
        attacker.hdel(KEYS.job(job_id), "nonce", "proves", "inputs")
    assert (await answer_of(client, job_id))[0] == 404


async def test_body__exchanged_in_redis__yields_no_proof_of_it(
    serve: Serve, published_keys: KeyStore, redis_database: RedisServer
) -> None:
    async with queue_on(redis_database.url) as (connection, store):
        client = await serve(published_keys, store)
        job_id = await queue(client)
        with attacker_of(redis_database) as attacker:
            attacker.set(f"{KEYS.prefix}body:{job_id}", SAME_CIRCUIT.body)
        async with working(connection, store, state_of(client)):
            await store.wait(job_id, 60)  # begun, or ended
            while (status := await store.status(job_id)) is not None and not status.state.is_final:
                await store.wait(job_id, 60)
            assert (await answer_of(client, job_id))[0] == 404


async def test_duplicate__that_is_another_request__is_not_given_to_the_client(
    serve: Serve, published_keys: KeyStore, job_store: JobStore, redis_database: RedisServer
) -> None:
    client = await serve(published_keys, job_store)
    other, digest = await queue(client, SAME_CIRCUIT), await queue(client)
    with attacker_of(redis_database) as attacker:
        name = f"{KEYS.prefix}digest:{(attacker.hget(KEYS.job(digest), 'digest') or b'').decode()}"
        attacker.set(name, other)
    job_id = await queue(client)
    assert job_id not in (other, digest)
    assert await queue(client) == job_id  # which the next equal body finds
    assert (await answer_of(client, other))[0] == 202  # and the other client keeps its job


async def test_proof__in_the_record_of_a_waiting_job__is_not_answered(
    serve: Serve, published_keys: KeyStore, job_store: JobStore, redis_database: RedisServer
) -> None:
    client = await serve(published_keys, job_store)
    job_id = await queue(client)
    with attacker_of(redis_database) as attacker:
        attacker.hset(KEYS.job(job_id), "proof", INVENTED)
    status, answer = await answer_of(client, job_id)
    assert (status, answer["status"], "result" in answer) == (202, "queued", False)


@pytest.mark.parametrize("name", ["v2_inclusion_32_1", "v1_combined_26_26_2_1"])
async def test_api__without_keys__verifies_results_by_the_published_verifying_keys(
    serve: Serve, engine: Engine, published_keys: KeyStore, job_store: JobStore, tmp_path: Path, name: str
) -> None:
    vector = vector_named(f"prover/{name}")
    client = await serve(open_store(tmp_path, engine), job_store)
    job_id = await queue(client, vector)
    await finish(job_store, await asyncio.to_thread(proof_of, published_keys, vector))
    assert (await answer_of(client, job_id))[0] == 200
    with_false = await queue(client, SAME_CIRCUIT)
    await finish(job_store, INVENTED)
    assert (await answer_of(client, with_false))[0] == 404
    assert [results(client, outcome) for outcome in ("verified", "rejected", "unverified")] == [1, 1, 0]


async def test_api__that_cannot_verify_a_result__keeps_it_until_it_can(
    serve: Serve, engine: Engine, published_keys: KeyStore, job_store: JobStore, tmp_path: Path
) -> None:
    file = tmp_path / f"{ASKED.circuit}.vkey"
    file.write_bytes(b"no key")
    client = await serve(open_store(tmp_path, engine), job_store)
    job_id = await queue(client)
    await finish(job_store, await asyncio.to_thread(proof_of, published_keys, ASKED))
    status, answer = await answer_of(client, job_id)
    assert (status, answer["code"]) == (503, "key_unusable")
    assert "v2_inclusion_32_1" in answer["message"]
    assert "--keys-dir" in answer["message"]
    file.write_bytes(published_keys.get(circuit(ASKED.circuit), CancelFlag()).verifying_key.write())
    assert (await answer_of(client, job_id))[0] == 200
    assert [results(client, outcome) for outcome in ("verified", "rejected", "unverified")] == [1, 0, 1]


@pytest.mark.parametrize("text", [False, True], ids=["export-vk", "setup"])
async def test_api__with_a_verifying_key_alone__verifies_results(
    serve: Serve, engine: Engine, published_keys: KeyStore, job_store: JobStore, tmp_path: Path, *, text: bool
) -> None:
    written = published_keys.get(circuit(ASKED.circuit), CancelFlag()).verifying_key.write()
    data = f"[{' '.join(map(str, written))}]".encode() if text else written
    (tmp_path / f"{ASKED.circuit}.vkey").write_bytes(data)
    client = await serve(open_store(tmp_path, engine), job_store)
    job_id = await queue(client)
    await finish(job_store, await asyncio.to_thread(proof_of, published_keys, ASKED))
    assert (await answer_of(client, job_id))[0] == 200
    with_false = await queue(client, SAME_CIRCUIT)
    await finish(job_store, INVENTED)
    assert (await answer_of(client, with_false))[0] == 404
    assert [results(client, outcome) for outcome in ("verified", "rejected", "unverified")] == [1, 1, 0]


def _mutations(random: random.Random) -> Callable[[Any, str], None]:
    """Return one random change of the record of a job."""
    values: list[bytes | str | int] = [
        b"\xff\xfe",
        "",
        "-1",
        "nan",
        "9" * 30,
        "completed",
        "failed",
        "processing",
        b"\x00" * 40_000,
        random.randbytes(20),
        2**63,
    ]
    fields = ("state", "lane", "type", "created", "started", "ended", "error", "proof", "duration", "attempt", "nonce")

    def change(client: Any, job_id: str) -> None:
        key = KEYS.job(job_id)
        if random.random() < 0.2:
            client.hdel(key, random.choice(fields))
        for name in random.sample(fields, random.randint(1, 4)):
            client.hset(key, name, random.choice(values))

    return change


async def test_record__of_any_content__is_answered_as_a_state_or_as_unknown(
    serve: Serve, published_keys: KeyStore, job_store: JobStore, redis_database: RedisServer
) -> None:
    client = await serve(published_keys, job_store)
    seed = int(os.environ.get("ZKC_SEED", "0")) or random.SystemRandom().randrange(2**32)
    change = _mutations(random.Random(seed))
    with attacker_of(redis_database) as attacker:
        for _ in range(150):
            job_id = await queue(client)
            change(attacker, job_id)
            status, answer = await answer_of(client, job_id)
            assert status in (200, 202, 404), (seed, answer)
            assert status != 200, (seed, answer)
            assert len(json.dumps(answer)) < 20_000, seed
            attacker.delete(KEYS.job(job_id))


async def test_record__of_another_type__is_removed_and_its_body_becomes_a_new_job(
    serve: Serve, published_keys: KeyStore, job_store: JobStore, redis_database: RedisServer
) -> None:
    client = await serve(published_keys, job_store)
    job_id = await queue(client)
    with attacker_of(redis_database) as attacker:
        attacker.set(KEYS.job(job_id), "x")
        status, answer = await answer_of(client, job_id)
        assert (status, answer["code"]) == (404, "job_not_found")
        assert not attacker.exists(KEYS.job(job_id))
    assert await queue(client) != job_id


async def test_value__of_many_megabytes__is_not_read(
    serve: Serve, published_keys: KeyStore, job_store: JobStore, redis_database: RedisServer
) -> None:
    client = await serve(published_keys, job_store)
    job_id = await queue(client)
    with attacker_of(redis_database) as attacker:
        attacker.setrange("large", 2**26, "x")
        attacker.hset(KEYS.job(job_id), "error", attacker.get("large") or b"")
    status, answer = await answer_of(client, job_id)
    assert (status, answer["code"]) == (503, "queue_unavailable")
    assert (await answer_of(client, await queue(client, SAME_CIRCUIT)))[0] == 202  # others are answered


def test_id__of_a_job__differs_for_each_part_of_what_it_means() -> None:
    from prover.proving.statement import Statement

    nonce, statement = bytes(16), Statement("v2_inclusion_32_1", bytes(32))
    ids = {
        job_id_of(nonce, statement),
        job_id_of(b"\1" * 16, statement),
        job_id_of(nonce, Statement("v2_inclusion_32_2", bytes(32))),
        job_id_of(nonce, Statement("v2_inclusion_32_1", b"\1" * 32)),
    }
    assert len(ids) == 4
