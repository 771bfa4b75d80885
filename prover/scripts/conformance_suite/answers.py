"""Comparison of answers: with an expectation (cases.py), and of two implementations."""

from __future__ import annotations

import re
from typing import Any

from conformance_suite.cases import VARIABLE, Expectation, Json
from conformance_suite.wire import TOKENS, Answer

_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}", re.ASCII)
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,9})?Z", re.ASCII)
_OF_NETWORK = re.compile("_(mainnet|devnet)_")
_COMPARED = ("status", "circuit_type", "queue", "estimated_time", "message")


def alike(ours: Answer, theirs: Answer) -> bool:
    """Return whether two implementations gave the same answer, except identities, times and further members."""
    if ours.problem or theirs.problem or theirs.is_proof or not theirs.members:
        return ours.gist == theirs.gist
    tokens = [[token for token in TOKENS if token in answer.members.get("error", "")] for answer in (ours, theirs)]
    compared = [name for name in _COMPARED if name in theirs.members]
    results = [answer.members.get("result", {}) for answer in (ours, theirs)]
    if theirs.members.get("status") == "failed":
        compared.remove("message")  # it has the words of the prover
    return (
        ours.status == theirs.status
        and tokens[0] == tokens[1]
        and results[0].keys() == results[1].keys()
        and set(theirs.members) <= set(ours.members)
        and all(ours.members[name] == theirs.members[name] for name in compared)
    )


def faults(reply: Answer, expected: Expectation, job_id: str = "") -> list[str]:
    """Return the differences of an answer from the expected one; ``job_id`` is the last queued job's."""
    members, message = reply.members, str(reply.problem.get("message", ""))
    found = []
    if reply.status != (expected["status"] or 0):
        found.append(f"status {reply.status}, expected {expected['status']}")
    if expected.get("empty_body") and (reply.text or reply.allow):
        found.append("a body, or an Allow header")
    if "body" in expected and reply.text != expected["body"]:
        found.append(f"body {reply.text[:40]!r}")
    # The types of error bodies are free.
    if "content_type" in expected and "code" not in expected and reply.content_type != expected["content_type"]:
        found.append(f"content type {reply.content_type!r}")
    if "code" in expected and members.get("code") != expected["code"]:
        found.append(f"code {members.get('code')}, expected {expected['code']}")
    if expected.get("proof") and not reply.is_proof:
        found.append("no proof")
    wanted_words = expected.get("message_contains", ())
    found += [f"no {words!r} in {message[:60]!r}" for words in wanted_words if words not in message]
    for name, value in expected.get("fields", {}).items():
        wanted = value.replace(VARIABLE, job_id) if isinstance(value, str) else value
        if members.get(name) != wanted:
            found.append(f"{name} is {members.get(name)!r}, expected {wanted!r}")
    if "fields_status_in" in expected and members.get("status") not in expected["fields_status_in"]:
        found.append(f"status {members.get('status')!r}")
    if expected.get("job_id") == "uuid" and not _UUID.fullmatch(str(members.get("job_id"))):
        found.append(f"job id {members.get('job_id')!r}")
    return found + _faults_of_members(members, expected)


def _faults_of_members(members: Json, expected: Expectation) -> list[str]:
    error = str(members.get("error", ""))
    found = [f"{name} is there" for name in expected.get("absent_fields", ()) if name in members]
    found += [f"no {name}" for name in expected.get("has", ()) if name not in members]
    found += [f"no {words!r} in {error[:60]!r}" for words in expected.get("error_contains", ()) if words not in error]
    found += [f"{name} is no time" for name in expected.get("times", ()) if not _TIME.fullmatch(str(members.get(name)))]
    if "message_equals" in expected and members.get("message") != expected["message_equals"].replace("<error>", error):
        found.append(f"message {members.get('message')!r}")
    if "exact_members" in expected and sorted(members) != sorted(expected["exact_members"]):
        found.append(f"members {sorted(members)}")
    for name in ("queues", "queue_lengths"):
        counted = sorted(queue for queue in members.get(name, {}) if not _OF_NETWORK.search(queue))
        if name in expected and counted != sorted(expected[name]):
            found.append(f"{name} {counted}")
    shape = expected.get("result_shape_head") or expected.get("result_shape_old")
    if shape and not _has_shape(members.get("result"), shape):
        found.append(f"result {str(members.get('result'))[:60]}")
    return found


def _has_shape(value: Any, shape: Any) -> bool:
    if isinstance(shape, dict):
        return (
            isinstance(value, dict)
            and sorted(value) == sorted(shape)
            and all(_has_shape(value[name], inner) for name, inner in shape.items())
        )
    if isinstance(shape, list):
        return isinstance(value, list) and len(value) == len(shape) and all(map(_has_shape, value, shape))
    if isinstance(shape, int):
        return isinstance(value, list) and len(value) == shape and all(re.fullmatch("0x[0-9a-f]{64}", x) for x in value)
    return isinstance(value, int) and value >= 0
