"""Errors of a prover, in addition to those of all services (forester/errors.py).

EndpointError
├── ProverRefused        an error answer, with the prover's ``code``
│   └── JobNotFound      the prover has forgotten a job
├── ProofFailed          a job has ended without a proof
└── MalformedAnswer
    └── AnswerUnusable   names the member that is wrong
"""

from forester.errors import EndpointError, ForesterError, MalformedAnswer

_KEY_CODES = ("key_not_found", "circuit_disabled")
_KEY_WORDS = ("no key file mapping", "proving key file not found", "is disabled on this instance")
"""Words of provers that report no such code, and of failed jobs."""


class ProverRefused(EndpointError):
    """The prover answered with an error.

    ``code`` and ``message`` are the prover's, ``retry_after_s`` is the pause that it requests, None if it does not.
    """

    def __init__(
        self, status: int, code: str, message: str, *, retryable: bool, retry_after_s: float | None = None
    ) -> None:
        super().__init__(f"the prover answered {status} {code}: {message}")
        self.status = status
        self.code = code
        self.message = message
        self.retryable = retryable
        self.retry_after_s = retry_after_s


class JobNotFound(ProverRefused):
    """The prover has no trace of a job: it was restarted without a queue, or the result was dropped."""


class ProofFailed(EndpointError):
    """A job has ended without a proof; ``message`` is the prover's."""

    def __init__(self, job_id: str, message: str, *, retryable: bool) -> None:
        super().__init__(f"proof job {job_id} failed: {message}")
        self.job_id = job_id
        self.message = message
        self.retryable = retryable


class AnswerUnusable(MalformedAnswer):
    """An answer does not match its format; ``field`` is the JSON path of the member."""

    def __init__(self, what: str, field: str, reason: str) -> None:
        super().__init__(f"{what} is unusable: {reason} at {field}")
        self.field = field


def lacks_key(failure: ForesterError | None) -> bool:
    """Return whether a prover failed because it has no proving key for the circuit of a batch."""
    if not isinstance(failure, ProverRefused | ProofFailed):
        return False
    code = failure.code if isinstance(failure, ProverRefused) else ""
    return code in _KEY_CODES or any(words in failure.message for words in _KEY_WORDS)
