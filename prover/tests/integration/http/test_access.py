"""Access: API keys, roles, rates, and pages of other origins."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from golden_vectors import load, vector_named
from in_process_service import Serve, sample, state_of

from prover.keys.store.key_store import KeyStore

BODY = vector_named("prover/v2_inclusion_32_1").body
FLOW: list[dict[str, Any]] = next(
    flow["steps"] for flow in load("prover/queue_flows.json")["flows"] if flow["name"].startswith("auth")
)
KEYS = {"http": {"api_keys": "forester=forester-key,ops:admin=operator-key"}}
FORESTER, OPERATOR = {"X-API-Key": "forester-key"}, {"X-API-Key": "operator-key"}


@pytest.mark.parametrize("step", FLOW, ids=lambda step: str(step["request"].get("headers", step["request"]["path"])))
async def test_key__of_the_reference__is_asked_for_as_there(
    serve: Serve, published_keys: KeyStore, step: dict[str, Any]
) -> None:
    client = await serve(published_keys, http={"api_key": "sekret"})
    request = step["request"]
    body = BODY if "base" in request else None
    response = await client.request(request["method"], request["path"], data=body, headers=request.get("headers"))
    assert response.status == step["status"]
    if "code" in step:
        problem = await response.json()
        assert problem["code"] == step["code"]
        assert "X-API-Key" in problem["message"]
        assert "Authorization: Bearer" in problem["message"]
        assert "WWW-Authenticate" not in response.headers


async def test_root__with_keys__stays_open_for_launchers(serve: Serve, published_keys: KeyStore) -> None:
    client = await serve(published_keys, http={"api_key": "sekret"})
    assert (await client.get("/")).status == 404
    assert (await client.post("/")).status == 404


@pytest.mark.parametrize("path", ["/version", "/openapi.json", "/health/", "/prove/status", "/health%2f"])
async def test_path__that_is_not_open__needs_a_key(serve: Serve, published_keys: KeyStore, path: str) -> None:
    client = await serve(published_keys, http={"api_key": "sekret"})
    assert (await client.get(path)).status == 401


async def test_body__without_a_key__is_not_read(serve: Serve, published_keys: KeyStore) -> None:
    client = await serve(published_keys, http={"api_key": "sekret", "body_limit_bytes": 10})
    assert (await client.post("/prove", data=BODY)).status == 401


async def test_header__not_ascii__is_a_wrong_key(serve: Serve, published_keys: KeyStore) -> None:
    client = await serve(published_keys, http={"api_key": "sekret"})
    assert (await client.get("/version", headers={"X-API-Key": "sekr\u00e9t"})).status == 401


async def test_administration__follows_the_role(serve: Serve, published_keys: KeyStore) -> None:
    client = await serve(published_keys, **KEYS)
    assert (await client.get("/admin/keys")).status == 401
    refused = await client.get("/admin/keys", headers=FORESTER)
    assert (refused.status, (await refused.json())["code"]) == (403, "forbidden")
    assert (await client.post("/prove", data=BODY, headers=FORESTER)).status == 200
    listed = await (await client.get("/admin/keys", headers=OPERATOR)).json()
    states = {entry["circuit"]: entry for entry in listed["keys"]}
    assert len(states) >= 18
    assert states["v2_inclusion_32_1"]["loaded"] is True
    assert states["v2_inclusion_32_1"]["enabled"] is True


async def test_administration__of_an_open_server__does_not_exist(serve: Serve, published_keys: KeyStore) -> None:
    client = await serve(published_keys)
    assert (await client.get("/admin/keys")).status == 404
    assert (await client.post("/admin/reload")).status == 404


async def test_key_file__changed__counts_after_a_reload(serve: Serve, published_keys: KeyStore, tmp_path: Path) -> None:
    path = tmp_path / "keys"
    path.write_text("ops:admin=operator-key\n")
    client = await serve(published_keys, http={"api_keys_file": str(path)})
    path.write_text("ops:admin=operator-key\nnew=forester-key\n")
    assert await (await client.post("/admin/reload", headers=OPERATOR)).json() == {"reloaded": True}
    assert (await client.get("/version", headers=FORESTER)).status == 200
    path.write_text("rubbish\n")
    assert await (await client.post("/admin/reload", headers=OPERATOR)).json() == {"reloaded": False}
    assert (await client.get("/version", headers=FORESTER)).status == 200


async def test_rate__of_a_key_exceeded__is_429_for_that_key_alone(serve: Serve, published_keys: KeyStore) -> None:
    http = {**KEYS["http"], "rate_limit_per_s": 0.001, "rate_burst": 2}
    client = await serve(published_keys, http=http)
    for _ in range(2):
        assert (await client.get("/version", headers=FORESTER)).status == 200
    response = await client.get("/version", headers=FORESTER)
    problem = await response.json()
    assert (response.status, problem["code"], problem["retryable"]) == (429, "rate_limited", True)
    assert int(response.headers["Retry-After"]) > 1
    assert "503" not in problem["message"]
    assert (await client.get("/version", headers=OPERATOR)).status == 200
    assert (await client.get("/health", headers=FORESTER)).status == 200


async def test_answers__are_counted_by_status(serve: Serve, published_keys: KeyStore) -> None:
    client = await serve(published_keys, http={"api_key": "sekret"})
    await client.get("/health")
    await client.get("/version")
    assert sample(state_of(client), "prover_http_responses_total", status="200") == 1
    assert sample(state_of(client), "prover_http_responses_total", status="401") == 1


ANY = {"http": {"cors_origins": ["*"]}}
ORIGIN = {"Origin": "https://app.example"}


@pytest.mark.parametrize(
    ("headers", "status", "answered"),
    [
        ({}, 200, {}),
        (ORIGIN, 400, {}),
        (ORIGIN | {"Access-Control-Request-Method": "PATCH"}, 405, {}),
        (ORIGIN | {"Access-Control-Request-Method": "POST"}, 200, {"Access-Control-Allow-Origin": "*"}),
        (
            ORIGIN
            | {
                "Access-Control-Request-Method": "POST",
                "Access-Control-Request-Headers": "content-type, x-api-key,accept",
            },
            200,
            {"Access-Control-Allow-Origin": "*", "Access-Control-Allow-Headers": "Content-Type,X-Api-Key"},
        ),
        (
            ORIGIN | {"Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "X-Secret"},
            403,
            {},
        ),
        (ORIGIN | {"Access-Control-Request-Method": "DELETE"}, 200, {"Access-Control-Allow-Methods": "DELETE"}),
    ],
)
async def test_preflight__with_any_origin_allowed__is_answered_as_the_reference_does(
    serve: Serve, published_keys: KeyStore, headers: dict[str, str], status: int, answered: dict[str, str]
) -> None:
    client = await serve(published_keys, http={**ANY["http"], "api_key": "sekret"})
    response = await client.options("/prove", headers=headers)
    assert (response.status, await response.read()) == (status, b"")
    given = {name: value for name, value in response.headers.items() if name.startswith("Access-Control")}
    assert given.items() >= answered.items()
    assert not any(name not in ("Access-Control-Allow-Origin", *answered) for name in given)


async def test_request__from_an_allowed_origin__is_marked(serve: Serve, published_keys: KeyStore) -> None:
    client = await serve(published_keys, **ANY)
    assert (await client.get("/health", headers=ORIGIN)).headers["Access-Control-Allow-Origin"] == "*"
    assert (await client.post("/prove", data=b"{}", headers=ORIGIN)).headers["Access-Control-Allow-Origin"] == "*"
    assert "Access-Control-Allow-Origin" not in (await client.get("/health")).headers


async def test_origin__named__is_the_only_one_allowed(serve: Serve, published_keys: KeyStore) -> None:
    client = await serve(published_keys, http={"cors_origins": ["https://app.example"]})
    response = await client.get("/health", headers=ORIGIN)
    assert response.headers["Access-Control-Allow-Origin"] == "https://app.example"
    assert response.headers["Vary"] == "Origin"
    other = {"Origin": "https://evil.example", "Access-Control-Request-Method": "POST"}
    for response in (await client.get("/health", headers=other), await client.options("/prove", headers=other)):
        assert response.status == 200
        assert "Access-Control-Allow-Origin" not in response.headers
