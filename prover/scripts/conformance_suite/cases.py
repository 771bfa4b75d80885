"""Expected answers of a prover: the recorded cases of the reference, further cases, and intended differences.

An expectation is a mapping with ``status`` and, where they matter, ``code``, ``message_contains``, ``proof``,
``empty_body``, ``content_type``, ``body``, and of jobs those in queue.py. The reference of version 0.27.0
("old") and its later source ("head") differ in places; ours follows the later one except for DIFFERENCES, each with its
reason.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

VECTORS = Path(__file__).resolve().parents[2] / "tests" / "vectors" / "prover"

VARIABLE = "$ID"
"""The job that was queued last, in paths and expectations."""

Expectation = Mapping[str, Any]
Json = dict[str, Any]


@dataclass(frozen=True)
class Difference:
    """A case in which ours deliberately answers otherwise than the reference's source."""

    expect: Expectation
    reason: str


@dataclass(frozen=True)
class Case:
    """One request, and what is expected of the three implementations."""

    name: str
    method: str
    path: str
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)
    old: Expectation = field(default_factory=dict)
    head: Expectation = field(default_factory=dict)
    key: str | None = None
    """Circuit whose proving key a server needs for this case, if a proof or a late check is expected."""
    pending: Expectation | None = None
    """Expected answer until the job has ended, which ends the case; None if the first answer counts."""

    @property
    def ours(self) -> Expectation:
        """Expected answer of our service."""
        difference = DIFFERENCES.get(self.name)
        return difference.expect if difference else self.head

    @property
    def kills_old(self) -> bool:
        """True if the binary of version 0.27.0 dies of this request."""
        return self.old.get("status", 0) is None


DIFFERENCES: dict[str, Difference] = {
    "unparseable publicInputHash is not a parse error in v2": Difference(
        {"status": 400, "code": "malformed_body", "message_contains": ["invalid number"]},
        "a number that cannot be read is reported as such",
    ),
    "second account path too short": Difference(
        {"status": 400, "code": "proving_error", "message_contains": ["wrong size of merkle proof"]},
        "every path is checked, where the reference dies or answers 500",
    ),
    "published circuit without a key": Difference(
        {"status": 503, "code": "key_not_found", "message_contains": ["proving key file not found", "503"]},
        "the request is fine and another instance, or a later try, may prove it",
    ),
    "preflight": Difference(
        {"status": 405, "empty_body": True}, "no page may call the API unless --cors-origin allows it"
    ),
    "preflight without origin": Difference(
        {"status": 405, "empty_body": True}, "no page may call the API unless --cors-origin allows it"
    ),
    "version": Difference({"status": 200, "content_type": "application/json"}, "an addition"),
    "openapi": Difference({"status": 200, "content_type": "application/json"}, "an addition"),
    "body larger than 16 MiB": Difference(
        {"status": 413, "code": "body_too_large"}, "bodies are bounded; the largest honest one is about 1.5 MB"
    ),
}

_NOT_FOUND = {"status": 404, "body": "404 page not found\n", "content_type": "text/plain; charset=utf-8"}
_WRONG_METHOD = {"status": 405, "empty_body": True}
_MALFORMED = {"status": 400, "code": "malformed_body"}


def all_cases() -> list[Case]:
    """Return the recorded cases and the further ones."""
    return [*recorded_cases(), *_further_cases()]


@cache
def recorded_cases() -> tuple[Case, ...]:
    """Return the cases of cases.json."""
    return tuple(map(_recorded, json.loads((VECTORS / "cases.json").read_text())["cases"]))


def _recorded(entry: Json) -> Case:
    return Case(
        name=entry["name"],
        method=entry["method"],
        path=entry["path"],
        body=body_of(entry),
        headers=entry.get("headers", {}),
        old=_old_expectation(entry),
        head=entry.get("expect_head_if_different") or entry["expect"],
        key=Path(entry["base"]).stem if "base" in entry else None,
    )


def _old_expectation(entry: Json) -> Expectation:
    # The append circuit had another name then.
    if "append-with-proofs" in entry.get("evidence", ""):
        return {"status": 400, "code": "malformed_body", "message_contains": ["unknown circuit type"]}
    expected: Expectation = entry["expect"]
    return expected


def body_of(entry: Json) -> bytes:
    """Return the body of a recorded request: raw, or a golden vector with changes."""
    if "raw" in entry:
        return str(entry["raw"]).encode()
    if "base" not in entry:
        return b""
    body = vector(entry["base"])
    for patch in entry.get("patch", []):
        *parents, last = patch["path"]
        place = body
        for step in parents:
            place = place[step]
        if patch["op"] == "set":
            place[last] = copy.deepcopy(patch["value"])
        else:
            del place[last]
    return json.dumps(body).encode()


def vector(name: str) -> Any:
    """Return a request of the golden vectors as JSON values."""
    return json.loads((VECTORS / name).read_text())


def _further_cases() -> list[Case]:
    """Return the cases of the service specification that cases.json lacks (sections 2.1 to 2.13)."""
    valid = (VECTORS / "v2_inclusion_32_1.json").read_bytes()
    many = vector("v1_inclusion_26_1.json")  # whose accounts have no common hash: it stays satisfiable
    many["inputCompressedAccounts"] *= 8
    too_many = vector("v2_inclusion_32_1.json")
    too_many["inputCompressedAccounts"] *= 21
    empty_combined = vector("v1_combined_26_26_1_1.json")
    empty_combined["newAddresses"] = []
    no_key = {"status": 400, "code": "proving_error"}
    queue_paths = ("/prove/status", "/queue/stats", "/queue/health", "/queue/cleanup", "/queue/add")
    proof = {"status": 200, "proof": True, "content_type": "application/json"}
    preflight = {"Origin": "http://example.org", "Access-Control-Request-Method": "POST"}
    cross_origin = {"status": 200, "empty_body": True}
    return [
        *(same(f"{path} without a queue", "GET", path, _NOT_FOUND) for path in queue_paths),
        *(same(f"{path} posted without a queue", "POST", path, _NOT_FOUND) for path in queue_paths),
        same("unknown path", "GET", "/nope", _NOT_FOUND),
        same("health with a trailing slash", "GET", "/health/", _NOT_FOUND),
        same("health with a query", "GET", "/health?x=1", {"status": 200, "body": '{"status":"ok"}'}),
        same("health body", "GET", "/health", {"status": 200, "body": '{"status":"ok"}'}),
        same("HEAD on health", "HEAD", "/health", _WRONG_METHOD),
        same("PUT on prove", "PUT", "/prove", _WRONG_METHOD, valid),
        same("DELETE on prove", "DELETE", "/prove", _WRONG_METHOD),
        same("X-Async without a queue", "POST", "/prove", proof, valid, {"X-Async": "true"}, key="v2_inclusion_32_1"),
        same("async query without a queue", "POST", "/prove?async=true", proof, valid, key="v2_inclusion_32_1"),
        same("X-Sync", "POST", "/prove", proof, valid, {"X-Sync": "true"}, key="v2_inclusion_32_1"),
        same("number as body", "POST", "/prove", _MALFORMED, b"5"),
        same("string as body", "POST", "/prove", _MALFORMED, b'"x"'),
        same("circuitType is a number", "POST", "/prove", _MALFORMED, b'{"circuitType":5,"stateTreeHeight":32}'),
        same("circuitType is empty", "POST", "/prove", _MALFORMED, b'{"circuitType":"","stateTreeHeight":32}'),
        same("not UTF-8", "POST", "/prove", _MALFORMED, b"\xff\xfe{}"),
        same("21 accounts", "POST", "/prove", no_key, json.dumps(too_many).encode()),
        same("combined without addresses", "POST", "/prove", no_key, json.dumps(empty_combined).encode()),
        same("published circuit without a key", "POST", "/prove", no_key, json.dumps(many).encode()),
        same("preflight", "OPTIONS", "/prove", cross_origin, headers=preflight),
        same("preflight without origin", "OPTIONS", "/prove", cross_origin),
        same("version", "GET", "/version", _NOT_FOUND),
        same("openapi", "GET", "/openapi.json", _NOT_FOUND),
        same("body larger than 16 MiB", "POST", "/prove", _MALFORMED, b" " * (16 * 2**20 + 1)),
    ]


def same(
    name: str,
    method: str,
    path: str,
    expect: Expectation,
    body: bytes = b"",
    headers: Mapping[str, str] | None = None,
    key: str | None = None,
) -> Case:
    """Return a case that both versions of the reference answer alike."""
    return Case(name, method, path, body, headers or {}, old=expect, head=expect, key=key)
