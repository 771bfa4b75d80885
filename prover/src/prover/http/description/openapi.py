"""The interface as an OpenAPI 3.1 document, composed from the routes, the wire types and the error codes.

``contracts/openapi.json`` is its recorded form; a test compares them.
"""

from functools import cache
from importlib.resources import files
from typing import Any

import msgspec

from prover.errors import ProverError
from prover.http.middleware.authentication import ADMIN_PREFIX, ADMIN_QUEUE_PATHS, OPEN_PATHS
from prover.http.routes import about, queue_answers
from prover.http.routes.jobs import LONGEST_WAIT_S
from prover.http.routes.submit import NETWORK_HEADER
from prover.http.routes.table import ROUTES, Route
from prover.http.server.problem import PROBLEM_CONTENT_TYPE, Problem
from prover.queue.circuit_queues import Network
from prover.versions import INTERFACE_VERSION
from shared.requests.proof_wire import REQUEST_TYPES, ProofJson

Json = dict[str, Any]

EXAMPLES: Json = msgspec.json.decode(files(__package__).joinpath("examples.json").read_bytes())
"""A request, a job id, and answers by route and status."""

_DONE = "Success."
_QUEUED = "The request is queued, or an equal request was queued before; poll its job for the proof."
_UNFINISHED = "The job is waiting, running or failed; see `status`."
_ANSWERS: dict[str, dict[int, tuple[str, type[msgspec.Struct]]]] = {
    "/prove": {200: ("The proof.", ProofJson), 202: (_QUEUED, queue_answers.QueuedJob)},
    "/prove/status": {200: ("The job is completed.", queue_answers.Job), 202: (_UNFINISHED, queue_answers.Job)},
    "/queue/add": {202: (_QUEUED, queue_answers.QueuedJob)},
    "/queue/stats": {200: (_DONE, queue_answers.QueueCounts)},
    "/queue/health": {200: (_DONE, queue_answers.QueueHealth)},
    "/queue/cleanup": {200: (_DONE, queue_answers.CleanupOutcome)},
    "/version": {200: (_DONE, about.Version)},
    "/admin/keys": {200: (_DONE, about.KeyStates)},
    "/admin/reload": {200: (_DONE, about.Reloaded)},
}
_TAKE_REQUESTS = frozenset({"/prove", "/queue/add"})
_REF = "#/components/schemas/{name}"

_PROBLEMS = {
    400: "The request is invalid; sending it again gives the same answer.",
    401: "The API key is missing or wrong.",
    403: "The role of the API key does not allow this request.",
    404: "There is no such job.",
    408: "The header, the body or the proof exceeded its time limit.",
    413: "The body is larger than this server accepts (default 16 MiB), or has more than 2 MiB that a circuit reads.",
    414: "The path and query are longer than 8190 bytes.",
    422: "The Idempotency-Key was used with another body.",
    429: "This API key exceeds its rate limit, or too many jobs of this network wait; see Retry-After.",
    431: "A header field is longer than 8192 bytes, or there are more than 128.",
    500: "Defect of the prover; only its log has details.",
    503: "This instance cannot make the proof now. Retry-After is set if a retry may succeed.",
}


def _parameter(name: str, description: str, location: str = "header") -> Json:
    return {"name": name, "in": location, "required": False, "description": description, "schema": {"type": "string"}}


_NEVER_ANSWERED = frozenset({"cancelled", "configuration", "malformed_proof", "proof_rejected"})
_RETRY_AFTER = {"Retry-After": {"description": "Seconds until a retry.", "schema": {"type": "integer", "minimum": 1}}}
_TRACING: tuple[Json, ...] = (
    {
        **_parameter("X-Request-Id", "Returned in the answer, and on every log line of the request."),
        "schema": {"type": "string", "pattern": "^[A-Za-z0-9._:-]{1,128}$"},
    },
    _parameter("traceparent", "W3C trace context; its trace id is on every log line of the request."),
)
_CHOICES: tuple[Json, ...] = (
    {
        **_parameter("Idempotency-Key", "Requests with the same key and body get the same proof for an hour."),
        "schema": {"type": "string", "pattern": "^[!-~]{1,255}$"},
    },
    _parameter(
        "X-Async",
        "`true`: with a queue, answer with a job. Batches always become jobs then.",
    ),
    _parameter("async", "The same as X-Async.", "query"),
)
_JOB_ID: Json = {
    **_parameter("job_id", "Job id from the answer to the submission.", "query"),
    "required": True,
    "schema": {"type": "string", "format": "uuid"},
    "example": EXAMPLES["job_id"],
}
_WAIT: Json = {
    **_parameter("wait", "Seconds to wait for the state to change; longer waits are cut to the maximum.", "query"),
    "schema": {"type": "number", "minimum": 0, "maximum": LONGEST_WAIT_S},
}
_NETWORK: Json = {
    **_parameter(NETWORK_HEADER, "Network whose queues the job enters; read in requests for the queue only."),
    "schema": {"enum": [*Network]},
}
_PARAMETERS: dict[tuple[str, str], tuple[Json, ...]] = {
    ("POST", "/prove"): (*_TRACING, *_CHOICES, _NETWORK),
    ("POST", "/queue/add"): (*_TRACING, _NETWORK),
    ("GET", "/prove/status"): (_JOB_ID, _WAIT),
    ("DELETE", "/prove/status"): (_JOB_ID,),
}


@cache
def encoded_document() -> bytes:
    """Return the document as JSON text."""
    return msgspec.json.encode(document())


def document() -> Json:
    """Return the document."""
    answers = dict.fromkeys(model for answer in _ANSWERS.values() for _, model in answer.values())
    types = (*REQUEST_TYPES.values(), *answers, Problem)
    _, schemas = msgspec.json.schema_components(types, ref_template=_REF)
    for kind, model in REQUEST_TYPES.items():
        _require_circuit_type(schemas[model.__name__], kind)
    paths: Json = {}
    for route in ROUTES:
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(route)
    composed = {
        "openapi": "3.1.0",
        "info": {
            "title": "Prover",
            "version": INTERFACE_VERSION,
            "description": "Groth16 proofs for the circuits of ZK compression.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "paths": paths,
        "components": {
            "schemas": schemas,
            "securitySchemes": {
                "apiKey": {"type": "apiKey", "in": "header", "name": "X-API-Key"},
                "bearer": {"type": "http", "scheme": "bearer"},
            },
        },
    }
    plain: Json = msgspec.json.decode(msgspec.json.encode(composed))  # tuples become lists
    _simplify_tuples(plain["components"]["schemas"])
    return plain


def _simplify_tuples(schema: object) -> None:
    """Describe tuples of one type as arrays of that type, which more tools read than a list of types."""
    if isinstance(schema, dict):
        first, *others = schema.get("prefixItems", [None])
        if first is not None and all(each == first for each in others):
            del schema["prefixItems"]
            schema["items"] = first
    for below in schema.values() if isinstance(schema, dict) else schema if isinstance(schema, list) else ():
        _simplify_tuples(below)


def _require_circuit_type(schema: Json, kind: str) -> None:
    """Add the circuit type to the schema of a request; it is read before the members of the schema."""
    schema["properties"]["circuitType"] = {"const": kind}
    schema["required"] = ["circuitType", *schema.get("required", ())]


def _operation(route: Route) -> Json:
    operation: Json = {
        "operationId": f"{route.method.lower()}{route.path.replace('/', '_').replace('.', '_')}",
        "summary": route.purpose,
        "security": [] if route.path in OPEN_PATHS else [{"apiKey": []}, {"bearer": []}, {}],
        "responses": _responses(route),
    }
    parameters = _PARAMETERS.get((route.method, route.path))
    if parameters:
        operation["parameters"] = list(parameters)
    if route.path in _TAKE_REQUESTS:
        schemas = {kind: _REF.format(name=model.__name__) for kind, model in REQUEST_TYPES.items()}
        operation["requestBody"] = {
            "required": True,
            "content": {
                "application/json": {
                    "schema": {
                        "oneOf": [{"$ref": schema} for schema in schemas.values()],
                        "discriminator": {"propertyName": "circuitType", "mapping": schemas},
                    },
                    "example": EXAMPLES["request"],
                }
            },
        }
    return operation


def _responses(route: Route) -> Json:
    statuses = {400, 408, 414, 431, 500}
    if route.path not in OPEN_PATHS:
        statuses |= {401, 429}
    if route.path in _TAKE_REQUESTS:
        statuses |= {413, 503}
    if route.path == "/prove":
        statuses.add(422)
    if route.path in ADMIN_QUEUE_PATHS or route.path.startswith(ADMIN_PREFIX):
        statuses.add(403)
    if route.needs_queue:
        statuses.add(503)
    if route.path == "/prove/status":
        statuses.add(404)
    successes = _successes(route)
    for status, example in EXAMPLES["answers"].get(f"{route.method} {route.path}", {}).items():
        (content,) = successes[status]["content"].values()
        content["example"] = example
    responses = successes | {str(status): _problem(status) for status in sorted(statuses)}
    if route.path.startswith(ADMIN_PREFIX):
        responses["404"] = {"description": "No API key is configured, so no client is an administrator."}
    elif route.needs_queue:
        missing = responses.setdefault("404", {"description": "", "content": {}})
        missing["description"] = f"{missing['description']} This instance has no queue.".strip()
        missing["content"]["text/plain"] = {"schema": {"type": "string"}}
    return responses


def _successes(route: Route) -> Json:
    if route.path == "/health":
        alive = {"description": "Alive.", "content": {"text/plain": {"schema": {"const": '{"status":"ok"}'}}}}
        return {"200": alive}
    if route.path == "/openapi.json":
        described = {"description": "This document.", "content": {"application/json": {"schema": {"type": "object"}}}}
        return {"200": described}
    if route.path == "/docs":
        page = {"description": "A page for people.", "content": {"text/html": {"schema": {"type": "string"}}}}
        return {"200": page}
    return {
        str(status): {
            "description": description,
            "content": {"application/json": {"schema": {"$ref": _REF.format(name=model.__name__)}}},
        }
        for status, (description, model) in _ANSWERS[route.path].items()
    }


def _problem(status: int) -> Json:
    content: Json = {PROBLEM_CONTENT_TYPE: {"schema": {"$ref": _REF.format(name=Problem.__name__)}}}
    codes = " or ".join(sorted(code for code, used in _codes() if used == status))
    response: Json = {"description": f"{_PROBLEMS[status]} Code: {codes}.", "content": content}
    if status in (429, 503):
        response["headers"] = _RETRY_AFTER
    return response


def _codes(root: type[ProverError] = ProverError) -> set[tuple[str, int]]:
    """Return code and status of every possible error."""
    own = set() if root.code in _NEVER_ANSWERED else {(root.code, root.status)}
    return own.union(*map(_codes, root.__subclasses__()))
