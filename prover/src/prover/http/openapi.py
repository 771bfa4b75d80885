"""The interface as an OpenAPI 3.1 document, composed from the routes, the wire types and the error codes.

``contracts/openapi.json`` is its recorded form; a test compares them.
"""

from typing import Any

import msgspec

from prover.errors import ProverError
from prover.http import about
from prover.http.authentication import ADMIN_PREFIX, OPEN_PATHS
from prover.http.routes import ROUTES, Route
from prover.versions import INTERFACE_VERSION
from shared.problem import PROBLEM_CONTENT_TYPE, Problem
from shared.proof_wire import (
    BatchAddressAppendRequest,
    BatchAppendRequest,
    BatchUpdateRequest,
    CombinedRequest,
    InclusionRequest,
    NonInclusionRequest,
    ProofJson,
)

Json = dict[str, Any]

_REQUESTS = {
    "inclusion": InclusionRequest,
    "non-inclusion": NonInclusionRequest,
    "combined": CombinedRequest,
    "append": BatchAppendRequest,
    "update": BatchUpdateRequest,
    "address-append": BatchAddressAppendRequest,
}
_ANSWERS = {
    "/prove": ProofJson,
    "/version": about.Version,
    "/admin/keys": about.KeyStates,
    "/admin/reload": about.Reloaded,
}
_REF = "#/components/schemas/{name}"

_PROBLEMS = {
    400: "The request is to blame, and sending it again is useless. Plain text if the HTTP framing itself is broken.",
    401: "No API key, or a wrong one.",
    403: "The API key has not the role for this.",
    408: "The proof or the body took too long.",
    413: "The body is larger than this server accepts (16 MiB unless configured).",
    422: "The Idempotency-Key was sent with another body before.",
    429: "This API key sends too many requests; see Retry-After.",
    500: "A defect; the answer tells nothing of it, the log does.",
    503: "This instance cannot prove it now. Retry-After is there when another try may succeed.",
}
_NEVER_ANSWERED = frozenset({"cancelled", "configuration", "malformed_proof", "proof_rejected"})
_RETRY_AFTER = {"Retry-After": {"description": "Seconds to wait.", "schema": {"type": "integer", "minimum": 1}}}
_PARAMETERS = (
    ("X-Request-Id", "Comes back in the answer and is on every log line of the request.", "^[A-Za-z0-9._:-]{1,128}$"),
    ("traceparent", "W3C trace context; its trace id is on every log line of the request.", None),
    ("Idempotency-Key", "Repetitions with the same key and body get the same proof for an hour.", "^[!-~]{1,255}$"),
)


def document() -> Json:
    """Compose the document."""
    types = (*_REQUESTS.values(), *_ANSWERS.values(), Problem)
    _, schemas = msgspec.json.schema_components(types, ref_template=_REF)
    for kind, model in _REQUESTS.items():
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
    return plain


def _require_circuit_type(schema: Json, kind: str) -> None:
    """Fix the circuit type of a request, which its decoder takes for granted."""
    schema["properties"]["circuitType"] = {"const": kind}
    schema["required"] = ["circuitType", *schema.get("required", ())]


def _operation(route: Route) -> Json:
    operation: Json = {
        "operationId": f"{route.method.lower()}{route.path.replace('/', '_').replace('.', '_')}",
        "summary": route.purpose,
        "security": [] if route.path in OPEN_PATHS else [{"apiKey": []}, {"bearer": []}, {}],
        "responses": _responses(route),
    }
    if route.path == "/prove":
        operation["parameters"] = [_header(*parameter) for parameter in _PARAMETERS]
        operation["requestBody"] = {
            "required": True,
            "content": {
                "application/json": {
                    "schema": {
                        "oneOf": [{"$ref": _REF.format(name=model.__name__)} for model in _REQUESTS.values()],
                        "discriminator": {
                            "propertyName": "circuitType",
                            "mapping": {kind: _REF.format(name=model.__name__) for kind, model in _REQUESTS.items()},
                        },
                    }
                }
            },
        }
    return operation


def _responses(route: Route) -> Json:
    statuses = {400, 500}
    if route.path not in OPEN_PATHS:
        statuses |= {401, 429}
    if route.path == "/prove":
        statuses |= {408, 413, 422, 503}
    responses: Json = {"200": _success(route)}
    for status in sorted(statuses):
        responses[str(status)] = _problem(status)
    if route.path.startswith(ADMIN_PREFIX):
        responses["403"] = _problem(403)
        responses["404"] = {"description": "No API key is configured, so nobody is an administrator."}
    return responses


def _success(route: Route) -> Json:
    if route.path == "/health":
        return {"description": "Alive.", "content": {"text/plain": {"schema": {"const": '{"status":"ok"}'}}}}
    if route.path == "/openapi.json":
        return {"description": "This document.", "content": {"application/json": {"schema": {"type": "object"}}}}
    schema = {"$ref": _REF.format(name=_ANSWERS[route.path].__name__)}
    return {"description": "Done.", "content": {"application/json": {"schema": schema}}}


def _problem(status: int) -> Json:
    content: Json = {PROBLEM_CONTENT_TYPE: {"schema": {"$ref": _REF.format(name=Problem.__name__)}}}
    if status == 400:
        content["text/plain"] = {"schema": {"type": "string"}}
    codes = " or ".join(sorted(code for code, used in _codes() if used == status))
    response: Json = {"description": f"{_PROBLEMS[status]} Code: {codes}.", "content": content}
    if status in (429, 503):
        response["headers"] = _RETRY_AFTER
    return response


def _codes(root: type[ProverError] = ProverError) -> set[tuple[str, int]]:
    """Code and status of every error that may be answered."""
    own = set() if root.code in _NEVER_ANSWERED else {(root.code, root.status)}
    return own.union(*map(_codes, root.__subclasses__()))


def _header(name: str, description: str, pattern: str | None) -> Json:
    schema: Json = {"type": "string"}
    if pattern:
        schema["pattern"] = pattern
    return {"name": name, "in": "header", "required": False, "description": description, "schema": schema}
