"""Expected answers of a prover with a queue: recorded flows of the reference, further steps, intended differences.

Steps are cases that are played in order against one server. A step that waits polls its job until that has ended.
Expectations have the members of queue_flows.json, and ``times`` (members that are times), ``exact_members``, ``queues``
and ``queue_lengths`` (the names in them, besides those of networks).
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from dataclasses import replace

from conformance_suite.cases import VARIABLE, VECTORS, Case, Difference, Expectation, Json, body_of, same

STATUS_OF_JOB = f"/prove/status?job_id={VARIABLE}"
NEEDS_ITS_OWN_SERVER = "auth (head only, PROVER_API_KEY=sekret)"
"""The one recorded flow about a server with an API key; it does not test the queue."""

QUEUE_DIFFERENCES: dict[str, Difference] = {
    "cancelling a job that is not there": Difference({"status": 404, "code": "job_not_found"}, "jobs can be cancelled"),
    "a wait that is no number": Difference(
        {"status": 400, "code": "malformed_body"}, "an addition: ?wait= waits for a change of the job"
    ),
}
"""Steps in which ours deliberately answers otherwise than the reference."""


def steps() -> list[Case]:
    """Return the recorded flows and the further steps, in the order in which they are played.

    Requests differ from those of other flows and runs by a member without meaning, because equal ones are one job.
    """
    run = uuid.uuid4().hex
    flows = json.loads((VECTORS / "queue_flows.json").read_text())["flows"]
    recorded = [step for flow in flows if flow["name"] != NEEDS_ITS_OWN_SERVER for step in _recorded(flow)]
    return [_marked(step, f"{run} {_family(step)}") for step in (*recorded, *_further_steps())]


def _family(step: Case) -> str:
    """Return the common name of steps with the same body: the flow that repeats a request repeats the first one."""
    flow = step.name.partition(", ")[0]
    return "batch goes to the queue even with X-Sync" if flow.startswith("same bytes again") else flow


def _marked(step: Case, mark: str) -> Case:
    if not step.body.endswith(b"}") or step.body == b"{}":
        return step
    return replace(step, body=step.body[:-1] + f',"mark":"{mark}"}}'.encode())


def _recorded(flow: Json) -> Iterator[Case]:
    pending: Expectation = {"status": 202, "fields_status_in": ["queued", "processing"]}
    for number, entry in enumerate(flow["steps"], 1):
        name = flow["name"] if len(flow["steps"]) == 1 else f"{flow['name']}, step {number}"
        if "while_pending" in entry:
            pending = entry["while_pending"]
        elif "final" in entry:
            yield Case(name, "GET", STATUS_OF_JOB, head=entry["final"], old=_old(flow, entry["final"]), pending=pending)
        else:
            request = entry["request"]
            yield Case(
                name,
                request["method"],
                request["path"],
                body_of(request),
                request.get("headers", {}),
                head=entry,
                old=_old(flow, entry),
            )


def _old(flow: Json, expected: Json) -> Expectation:
    """Return the answer of version 0.27.0: it knows no duplicates, and a result is a bare proof."""
    if "head only" in flow["name"]:
        return {"status": 202, "fields": {"status": "queued", "circuit_type": "update"}, "job_id": "uuid"}
    return {key: value for key, value in expected.items() if key != "result_shape_head"}


def _further_steps() -> list[Case]:
    """Return the steps of the service specification that the flows lack (sections 2.9 to 2.12)."""
    merkle = (VECTORS / "v2_inclusion_32_1.json").read_bytes().rstrip()
    unknown, short = b'{"circuitType":"foo","height":3}', b'{"circuitType":"update","height":32}'
    malformed, not_found = {"status": 400, "code": "malformed_body"}, {"status": 404, "code": "job_not_found"}
    wrong_method, no_page = {"status": 405, "empty_body": True}, {"status": 404, "body": "404 page not found\n"}
    proof, queued = {"status": 200, "proof": True}, {"status": 202, "fields": {"status": "queued"}}
    failed = {"status": 202, "fields": {"status": "failed"}, "has": ["failed_at"], "times": ["failed_at"]}
    spelt = "00000000-0000-4000-8000-00000000000A"
    return [
        same("a value that is not exactly true", "POST", "/prove", proof, merkle, {"X-Async": "True"}),
        same("a query that is not exactly true", "POST", "/prove?async=1", proof, merkle),
        same("both asked for", "POST", "/prove?sync=true", queued, merkle, {"X-Async": "true"}),
        same("unknown circuit, at once", "POST", "/prove", malformed, unknown),
        same("unknown circuit", "POST", "/prove?async=true", queued, unknown),
        _waiting("job of an unknown circuit", failed | {"error_contains": ["unknown circuit type: foo"]}),
        same("batch without arrays", "POST", "/prove", queued, short),
        _waiting("job of a batch without arrays", failed),
        same("unknown circuit added", "POST", "/queue/add", queued, unknown),
        same("nothing added", "POST", "/queue/add", malformed, b"{}"),
        same("no height added", "POST", "/queue/add", malformed, b'{"circuitType":"foo"}'),
        *(
            same(f"status of {spelling}", "GET", f"/prove/status?job_id={spelling}", not_found)
            for spelling in (spelt, f"{{{spelt.lower()}}}", f"urn:uuid:{spelt}", spelt.replace("-", ""))
        ),
        same("status without an id", "GET", "/prove/status?job_id=", malformed),
        same("status with a trailing slash", "GET", "/prove/status/", no_page),
        same("HEAD on status", "HEAD", "/prove/status?job_id=abc", wrong_method),
        same("cancelling a job that is not there", "DELETE", f"/prove/status?job_id={spelt.lower()}", wrong_method),
        Case(
            "a wait that is no number",
            "GET",
            f"/prove/status?job_id={spelt.lower()}&wait=x",
            head=not_found,
            old=not_found,
        ),
        same("GET on add", "GET", "/queue/add", wrong_method),
        same("POST on stats", "POST", "/queue/stats", wrong_method),
        _later("counts", "GET", "/queue/stats", _counts(trees=True), _counts(trees=False)),
        _later("verdict", "GET", "/queue/health", _verdict(), no_page),
        _later("cleanup", "POST", "/queue/cleanup", _cleanup(), no_page),
        _later("GET on cleanup", "GET", "/queue/cleanup", wrong_method, no_page),
    ]


def _waiting(name: str, expect: Expectation) -> Case:
    pending = {"status": 202, "fields_status_in": ["queued", "processing"], "times": ["created_at"]}
    return Case(name, "GET", STATUS_OF_JOB, head=expect, old=expect, pending=pending)


def _later(name: str, method: str, path: str, expect: Expectation, old: Expectation) -> Case:
    return Case(name, method, path, head=expect, old=old)


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
