"""Answers other than proofs: problems, and the plain texts that existing clients know."""

from aiohttp import web

from prover.errors import BodyTooLarge, BodyTooSlow, JobNotFound, ProverError, WitnessRejected
from prover.http.server.problem import PROBLEM_CONTENT_TYPE, encode_problem, problem
from prover.http.server.retry_words import without_retry_words

SERVER_NAME = "zkc-prover"
_RETRY_WORD = "503"
_RETRY_STATUSES = (web.HTTPServiceUnavailable.status_code, web.HTTPTooManyRequests.status_code)


def problem_response(error: ProverError, request_id: str, retry_after_s: int | None = None) -> web.Response:
    """Answer an error as RFC 9457 body with the reference's ``code`` and ``message``.

    Retryable answers of status 503 have Retry-After, and the text "503", which makes the reference's client retry.
    Those of 429 have Retry-After only: that client must slow down. What is not retryable has no word on which it
    retries, except a missing job, which it must submit again.
    """
    is_final = not error.retryable and not isinstance(error, JobNotFound)
    detail = without_retry_words(error.detail) if is_final else error.detail
    headers: dict[str, str] = {}
    if error.retryable and error.status in _RETRY_STATUSES:
        headers["Retry-After"] = str(retry_after_s or 1)
    if error.retryable and error.status == web.HTTPServiceUnavailable.status_code and _RETRY_WORD not in detail:
        detail = f"{detail} ({_RETRY_WORD})"
    body = problem(
        code=error.code,
        status=error.status,
        detail=detail,
        retryable=error.retryable,
        instance=f"urn:zkc:request:{request_id}",
        path=error.path,
        constraint=error.constraint if isinstance(error, WitnessRejected) else None,
    )
    response = web.Response(
        status=error.status,
        body=encode_problem(body),
        content_type=PROBLEM_CONTENT_TYPE,
        headers=headers,
    )
    if isinstance(error, BodyTooLarge | BodyTooSlow):
        response.force_close()  # the rest of the body is not read
    return response


def page_not_found() -> web.Response:
    """Answer an unknown path as the reference does."""
    return web.Response(
        status=404,
        body=b"404 page not found\n",
        headers={"Content-Type": "text/plain; charset=utf-8", "X-Content-Type-Options": "nosniff"},
    )


def method_not_allowed() -> web.Response:
    """Answer a wrong method as the reference does: no body, no Allow header."""
    return web.Response(status=405)
