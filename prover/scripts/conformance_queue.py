"""Expected answers of a prover with a queue: recorded flows of the reference, further steps, intended differences.

Steps are played in order against one server, with one variable: ``$ID`` is the job that was queued last. A step that
waits polls its job until that has ended. Expectations have the members of queue_flows.json, and ``times`` (members
that are times), ``exact_members``, ``queues`` and ``queue_lengths`` (the names in them, besides those of networks).
"""

from __future__ import annotations

import json
import re
import time
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from conformance_cases import VECTORS, Difference, Expectation, vector
from conformance_wire import TOKENS, Answer, ask

Json = dict[str, Any]

VARIABLE = "$ID"
STATUS_OF_JOB = f"/prove/status?job_id={VARIABLE}"
PATIENCE_S = 300.0
POLL_S = 0.1
NEEDS_ITS_OWN_SERVER = "auth (head only, PROVER_API_KEY=sekret)"
"""The one recorded flow about a server with an API key; it does not test the queue."""

_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}", re.ASCII)
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,9})?Z", re.ASCII)


@dataclass(frozen=True)
class Step:
    """One request, and the answers of both versions of the reference."""

    name: str
    method: str
    path: str
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)
    expect: Expectation = field(default_factory=dict)
    old: Expectation = field(default_factory=dict)
    pending: Expectation | None = None
    """Expected answer until the job has ended, which ends the step."""


@dataclass(frozen=True)
class Played:
    """A step with its answer; of a step that waits also the earlier answers, without repetitions."""

    step: Step
    answer: Answer
    job_id: str
    early: tuple[Answer, ...] = ()

    def faults(self, expected: Expectation) -> list[str]:
        """Return the differences of the answer, or an earlier one, from the expected one."""
        found = faults(self.answer, expected, self.job_id)
        for answer in self.early:
            found += [f"earlier: {fault}" for fault in faults(answer, self.step.pending or {}, self.job_id)]
        return found


QUEUE_DIFFERENCES: dict[str, Difference] = {
    "cancelling a job that is not there": Difference({"status": 404, "code": "job_not_found"}, "jobs can be cancelled"),
    "a wait that is no number": Difference(
        {"status": 400, "code": "malformed_body"}, "an addition: ?wait= waits for a change of the job"
    ),
}
"""Steps in which ours deliberately answers otherwise than the reference."""


def steps() -> list[Step]:
    """Return the recorded flows and the further steps, in the order in which they are played.

    Requests differ from those of other flows and runs by a member without meaning, because equal ones are one job.
    """
    run = uuid.uuid4().hex
    flows = json.loads((VECTORS / "queue_flows.json").read_text())["flows"]
    recorded = [step for flow in flows if flow["name"] != NEEDS_ITS_OWN_SERVER for step in _recorded(flow)]
    return [_marked(step, f"{run} {_family(step)}") for step in (*recorded, *_further_steps())]


def _family(step: Step) -> str:
    """Return the common name of steps with the same body: the flow that repeats a request repeats the first one."""
    flow = step.name.partition(", ")[0]
    return "batch goes to the queue even with X-Sync" if flow.startswith("same bytes again") else flow


def _marked(step: Step, mark: str) -> Step:
    if not step.body.endswith(b"}") or step.body == b"{}":
        return step
    return replace(step, body=step.body[:-1] + f',"mark":"{mark}"}}'.encode())


def _recorded(flow: Json) -> Iterator[Step]:
    pending: Expectation = {"status": 202, "fields_status_in": ["queued", "processing"]}
    for number, entry in enumerate(flow["steps"], 1):
        name = flow["name"] if len(flow["steps"]) == 1 else f"{flow['name']}, step {number}"
        if "while_pending" in entry:
            pending = entry["while_pending"]
        elif "final" in entry:
            yield Step(
                name, "GET", STATUS_OF_JOB, expect=entry["final"], old=_old(flow, entry["final"]), pending=pending
            )
        else:
            request = entry["request"]
            yield Step(
                name,
                request["method"],
                request["path"],
                _body(request),
                request.get("headers", {}),
                expect=entry,
                old=_old(flow, entry),
            )


def _old(flow: Json, expected: Json) -> Expectation:
    """Return the answer of version 0.27.0: it knows no duplicates, and a result is a bare proof."""
    if "head only" in flow["name"]:
        return {"status": 202, "fields": {"status": "queued", "circuit_type": "update"}, "job_id": "uuid"}
    return {key: value for key, value in expected.items() if key != "result_shape_head"}


def _body(request: Json) -> bytes:
    if "base" not in request:
        return b""
    body = vector(request["base"])
    for patch in request.get("patch", []):
        (member,) = patch["path"]
        body[member] = patch["value"]
    return json.dumps(body).encode()


def _further_steps() -> list[Step]:
    """Return the steps of the service specification that the flows lack (sections 2.9 to 2.12)."""
    merkle = (VECTORS / "v2_inclusion_32_1.json").read_bytes().rstrip()
    unknown, short = b'{"circuitType":"foo","height":3}', b'{"circuitType":"update","height":32}'
    malformed, not_found = {"status": 400, "code": "malformed_body"}, {"status": 404, "code": "job_not_found"}
    wrong_method, no_page = {"status": 405, "empty_body": True}, {"status": 404, "body": "404 page not found\n"}
    proof, queued = {"status": 200, "proof": True}, {"status": 202, "fields": {"status": "queued"}}
    failed = {"status": 202, "fields": {"status": "failed"}, "has": ["failed_at"], "times": ["failed_at"]}
    spelt = "00000000-0000-4000-8000-00000000000A"
    return [
        _same("a value that is not exactly true", "POST", "/prove", proof, merkle, {"X-Async": "True"}),
        _same("a query that is not exactly true", "POST", "/prove?async=1", proof, merkle),
        _same("both asked for", "POST", "/prove?sync=true", queued, merkle, {"X-Async": "true"}),
        _same("unknown circuit, at once", "POST", "/prove", malformed, unknown),
        _same("unknown circuit", "POST", "/prove?async=true", queued, unknown),
        _waiting("job of an unknown circuit", failed | {"error_contains": ["unknown circuit type: foo"]}),
        _same("batch without arrays", "POST", "/prove", queued, short),
        _waiting("job of a batch without arrays", failed),
        _same("unknown circuit added", "POST", "/queue/add", queued, unknown),
        _same("nothing added", "POST", "/queue/add", malformed, b"{}"),
        _same("no height added", "POST", "/queue/add", malformed, b'{"circuitType":"foo"}'),
        *(
            _same(f"status of {spelling}", "GET", f"/prove/status?job_id={spelling}", not_found)
            for spelling in (spelt, f"{{{spelt.lower()}}}", f"urn:uuid:{spelt}", spelt.replace("-", ""))
        ),
        _same("status without an id", "GET", "/prove/status?job_id=", malformed),
        _same("status with a trailing slash", "GET", "/prove/status/", no_page),
        _same("HEAD on status", "HEAD", "/prove/status?job_id=abc", wrong_method),
        _same("cancelling a job that is not there", "DELETE", f"/prove/status?job_id={spelt.lower()}", wrong_method),
        Step(
            "a wait that is no number",
            "GET",
            f"/prove/status?job_id={spelt.lower()}&wait=x",
            expect=not_found,
            old=not_found,
        ),
        _same("GET on add", "GET", "/queue/add", wrong_method),
        _same("POST on stats", "POST", "/queue/stats", wrong_method),
        _later("counts", "GET", "/queue/stats", _counts(trees=True), _counts(trees=False)),
        _later("verdict", "GET", "/queue/health", _verdict(), no_page),
        _later("cleanup", "POST", "/queue/cleanup", _cleanup(), no_page),
        _later("GET on cleanup", "GET", "/queue/cleanup", wrong_method, no_page),
    ]


def _same(
    name: str, method: str, path: str, expect: Expectation, body: bytes = b"", headers: Mapping[str, str] | None = None
) -> Step:
    return Step(name, method, path, body, headers or {}, expect=expect, old=expect)


def _waiting(name: str, expect: Expectation) -> Step:
    pending = {"status": 202, "fields_status_in": ["queued", "processing"], "times": ["created_at"]}
    return Step(name, "GET", STATUS_OF_JOB, expect=expect, old=expect, pending=pending)


def _later(name: str, method: str, path: str, expect: Expectation, old: Expectation) -> Step:
    return Step(name, method, path, expect=expect, old=old)


def _queues(*, trees: bool) -> list[str]:
    names = ["zk_failed_queue", "zk_results_queue"]
    for lane in ("update", "append", "address_append"):
        names += [f"zk_{lane}_queue", f"zk_{lane}_processing_queue"]
        names += [f"zk_{lane}_queue_tree_subqueues", f"zk_{lane}_queue_tree_count"] if trees else []
    return names


def _counts(*, trees: bool) -> Expectation:
    exact = ["queues", "timestamp", "total_active", "total_failed", "total_pending"]
    return {"status": 200, "exact_members": exact, "queues": _queues(trees=trees)}


def _verdict() -> Expectation:
    exact = ["queue_lengths", "status", "stuck_jobs", "timestamp", "total_failed", "total_pending", "total_processing"]
    return {"status": 200, "exact_members": [*exact, "total_results"], "queue_lengths": _queues(trees=True)}


def _cleanup() -> Expectation:
    sweeps = ["old_failed_cleanup", "old_requests_cleanup", "old_result_keys_cleanup", "stuck_jobs_cleanup"]
    done = {"success": True}
    return {"status": 200, "exact_members": [*sweeps, "timestamp"], "fields": dict.fromkeys(sweeps, done)}


def play(base_url: str, script: list[Step]) -> list[Played]:
    """Play steps against one server."""
    job_id, played = "", []
    for step in script:
        if step.pending is not None:
            played.append(_wait(base_url, step, job_id))
            continue
        answer = ask(base_url, step.method, step.path, step.body, step.headers)
        if answer.members.get("status") == "queued":
            job_id = str(answer.members.get("job_id"))
        played.append(Played(step, answer, job_id))
    return played


def _wait(base_url: str, step: Step, job_id: str) -> Played:
    early: list[Answer] = []
    deadline = time.monotonic() + PATIENCE_S
    while True:
        answer = ask(base_url, step.method, step.path.replace(VARIABLE, job_id))
        if answer.members.get("status") not in ("queued", "processing") or time.monotonic() > deadline:
            return Played(step, answer, job_id, tuple(early))
        if not early or early[-1] != answer:
            early.append(answer)
        time.sleep(POLL_S)


def alike(ours: Answer, theirs: Answer) -> bool:
    """Return whether two implementations gave the same answer, except identities, times and further members."""
    if ours.problem or theirs.problem or not theirs.members:
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


_OF_NETWORK = re.compile("_(mainnet|devnet)_")
_COMPARED = ("status", "circuit_type", "queue", "estimated_time", "message")


def faults(reply: Answer, expected: Expectation, job_id: str) -> list[str]:
    """Return the differences of an answer from the expected one."""
    members = reply.members
    found = []
    if reply.status != expected["status"]:
        found.append(f"status {reply.status}, expected {expected['status']}")
    if expected.get("empty_body") and (reply.text or reply.allow):
        found.append("a body, or an Allow header")
    if "body" in expected and reply.text != expected["body"]:
        found.append(f"body {reply.text[:40]!r}")
    if "content_type" in expected and reply.content_type != expected["content_type"]:
        found.append(f"content type {reply.content_type!r}")
    if "code" in expected and members.get("code") != expected["code"]:
        found.append(f"code {members.get('code')}, expected {expected['code']}")
    if expected.get("proof") and not reply.is_proof:
        found.append("no bare proof")
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
