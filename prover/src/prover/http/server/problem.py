"""Error bodies: RFC 9457 members in addition to the reference's ``code`` and ``message``.

Clients of the reference read ``code`` and ``message``; other clients read the standard members.
``code`` values are stable; ``message`` equals ``detail``.
"""

from collections.abc import Mapping

import msgspec

PROBLEM_CONTENT_TYPE = "application/problem+json"

TITLES: Mapping[str, str] = {
    "malformed_body": "The request body is malformed",
    "body_too_large": "The request body is too large",
    "proving_error": "No proof exists for these inputs",
    "proof_timeout": "The proof took too long",
    "request_timeout": "The request did not arrive in time",
    "uri_too_long": "The path and query are too long",
    "header_too_large": "The header is too large",
    "unauthorized": "An API key is required",
    "forbidden": "The API key does not allow that",
    "rate_limited": "The API key sends too many requests",
    "idempotency_key_reused": "The Idempotency-Key was used for another request",
    "job_not_found": "There is no such job",
    "invalid_job_id": "The job id is not a UUID",
    "key_not_found": "The proving key is not installed",
    "key_download_failed": "The proving key cannot be downloaded",
    "key_unusable": "The proving key cannot be used",
    "key_loading": "The proving key is being loaded",
    "circuit_disabled": "The circuit is switched off on this instance",
    "overloaded": "Too many requests are waiting",
    "out_of_memory": "The proof does not fit into memory",
    "device_unavailable": "The machine refused what proving needs",
    "device_out_of_memory": "The proof does not fit into the memory of the GPU",
    "device_lost": "The GPU failed",
    "queue_unavailable": "The job queue cannot be used",
    "queue_full": "Too many jobs are waiting",
    "shutting_down": "The service is shutting down",
    "cancelled": "The request was cancelled",
    "malformed_proof": "The proof is malformed",
    "proof_rejected": "The proof does not hold",
    "configuration": "The configuration is invalid",
    "unexpected_error": "Unexpected failure",
}
"""Every ``code`` that the prover answers or prints, with its short title."""


class Problem(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Body of an error response. ``retryable`` says whether the same request may succeed later."""

    type: str
    title: str
    status: int
    detail: str
    code: str
    message: str
    retryable: bool
    instance: str | None = None
    path: str | None = None
    constraint: int | None = None


def problem(
    *,
    code: str,
    status: int,
    detail: str,
    retryable: bool,
    instance: str | None = None,
    path: str | None = None,
    constraint: int | None = None,
) -> Problem:
    """Return a problem; ``code`` must be registered in TITLES, ``instance`` is the request id as a URN."""
    return Problem(
        type=f"urn:zkc:problem:{code}",
        title=TITLES[code],
        status=status,
        detail=detail,
        code=code,
        message=detail,
        retryable=retryable,
        instance=instance,
        path=path,
        constraint=constraint,
    )


def encode_problem(body: Problem) -> bytes:
    """Return a problem as JSON."""
    return msgspec.json.encode(body)
