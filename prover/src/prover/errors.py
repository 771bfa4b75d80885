"""Every failure of the prover, with its status for clients and its exit code for shells.

Keywords of a class, inherited unless it has its own: ``code`` and ``status`` of the answer, ``retryable`` for clients,
``exit_code`` of commands. The first sentence of a class is its default message.

Clients of the reference act on words in messages: they retry on ``503`` (the HTTP layer adds it to what is retryable)
and give up on ``constraint``; no other message may use them.
"""

import inspect
from typing import ClassVar


class ProverError(Exception):
    """Unexpected prover failure."""

    code: ClassVar[str] = "unexpected_error"
    status: ClassVar[int] = 500
    retryable: ClassVar[bool] = True
    exit_code: ClassVar[int] = 70

    def __init_subclass__(cls, **keywords: str | int) -> None:
        super().__init_subclass__()
        for name, value in keywords.items():
            getattr(cls, name)  # an unknown keyword fails here
            setattr(cls, name, value)

    def __init__(self, detail: str | None = None, *, path: str | None = None) -> None:
        self.detail = detail or inspect.cleandoc(self.__doc__ or "")
        self.path = path
        super().__init__(self.detail)


class RequestRejected(ProverError, code="proving_error", status=400, retryable=False, exit_code=1):
    """The request cannot be proved."""


class MalformedRequest(RequestRejected, code="malformed_body", exit_code=65):
    """The request body does not follow the wire format."""


class BodyTooLarge(MalformedRequest, code="body_too_large", status=413):
    """The request body is larger than this server accepts."""


class BodyTooSlow(MalformedRequest, code="request_timeout", status=408, retryable=True):
    """The request body did not arrive in time."""


class HeaderTooSlow(MalformedRequest, code="request_timeout", status=408, retryable=True):
    """The request header did not arrive in time."""


class TargetTooLong(MalformedRequest, code="uri_too_long", status=414):
    """The path and query of the request are longer than this server accepts."""


class HeaderTooLarge(MalformedRequest, code="header_too_large", status=431):
    """A header field of the request is too long, or there are too many fields."""


class CircuitUnknown(MalformedRequest):
    """The circuit type names no circuit; ``circuit_type`` is the truncated value of the request."""

    def __init__(self, detail: str | None = None, *, circuit_type: str = "") -> None:
        super().__init__(detail, path="$.circuitType")
        self.circuit_type = circuit_type


class CircuitNotPublished(RequestRejected, exit_code=65):
    """No circuit of this shape is published."""


class ShapeMismatch(RequestRejected, exit_code=65):
    """An array of the request has a wrong length."""


class WitnessRejected(RequestRejected):
    """The inputs do not satisfy the circuit. ``constraint`` is the one that the witness solver names."""

    def __init__(self, detail: str | None = None, *, constraint: int | None = None, path: str | None = None) -> None:
        super().__init__(detail, path=path)
        self.constraint = constraint


class Unauthorized(RequestRejected, code="unauthorized", status=401):
    """An API key is required: send it as 'X-API-Key: KEY' or as 'Authorization: Bearer KEY'."""


class Forbidden(RequestRejected, code="forbidden", status=403):
    """The role of this API key does not allow this request; use a key with the role admin."""


class IdempotencyKeyReused(RequestRejected, code="idempotency_key_reused", status=422):
    """The Idempotency-Key belongs to an earlier request with another body."""


class InvalidJobId(RequestRejected, code="invalid_job_id", exit_code=65):
    """Invalid job ID format. Job ID must be a valid UUID."""


class JobNotFound(RequestRejected, code="job_not_found", status=404):
    """There is no job with this ID. It may have expired or never existed."""


class RateLimited(RequestRejected, code="rate_limited", status=429, retryable=True, exit_code=75):
    """This API key exceeds its rate limit; send fewer requests per second."""

    def __init__(self, detail: str | None = None, *, retry_after_s: int = 1) -> None:
        super().__init__(detail)
        self.retry_after_s = retry_after_s


class ProofFailed(ProverError, code="proof_rejected", status=400, retryable=False, exit_code=1):
    """The proof cannot be accepted."""


class MalformedProof(ProofFailed, code="malformed_proof"):
    """The proof does not consist of points of the right groups."""


class ProofRejected(ProofFailed):
    """The proof does not hold for these public inputs."""


class KeyUnavailable(ProverError, code="key_unusable", status=503, exit_code=65):
    """No usable proving key for this circuit."""


class KeyMissing(KeyUnavailable, code="key_not_found", exit_code=69):
    """The proving key of a published circuit is not in the keys directory."""

    def __init__(self, file_name: str, remedy: str) -> None:
        super().__init__(f"proving key file not found: {file_name}; {remedy}")


class KeyDownloadFailed(KeyUnavailable, code="key_download_failed", exit_code=69):
    """A proving key cannot be downloaded."""


class KeyListUnavailable(KeyDownloadFailed, code="key_not_found", exit_code=69):
    """The list of published keys cannot be downloaded, so that no key can; ``cause`` is the reason without a key."""

    def __init__(self, missing: str, cause: str) -> None:
        super().__init__(f"proving key file not found: {missing}; {cause}")
        self.cause = cause


class MalformedKey(KeyUnavailable):
    """The key file is malformed."""

    def __init__(self, detail: str | None = None, *, offset: int = 0) -> None:
        super().__init__(detail)
        self.offset = offset


class UnsupportedKey(KeyUnavailable):
    """The key file holds a circuit that this prover does not know."""


class MisnamedKey(KeyUnavailable):
    """The key file holds another circuit than its name says."""


class CircuitDisabled(ProverError, code="circuit_disabled", status=503, retryable=False, exit_code=69):
    """This instance does not prove this circuit."""


class TryAgainLater(ProverError, code="overloaded", status=503, exit_code=75):
    """Too many requests are waiting for a proof."""


class KeyLoading(TryAgainLater, code="key_loading"):
    """The proving key of this circuit is still being loaded."""


class OutOfMemory(TryAgainLater, code="out_of_memory"):
    """Not enough memory for this proof: add memory, prove fewer at a time, or use smaller batches."""


class MemoryBudgetExceeded(OutOfMemory, retryable=False):
    """This proof needs more memory than the budget of this prover; add memory or use smaller batches."""


class DeviceOutOfMemory(OutOfMemory, code="device_out_of_memory"):
    """The key or the proof does not fit into the memory of the GPU, or into the budget for it."""


class DeviceBudgetExceeded(DeviceOutOfMemory, retryable=False):
    """This key needs more GPU memory than the budget of this prover; raise --cuda-memory-gb."""


class DeviceUnavailable(TryAgainLater, code="device_unavailable"):
    """The machine refused a resource that proving needs: random bytes, threads or a GPU."""


class DeviceLost(DeviceUnavailable, code="device_lost"):
    """The GPU failed during a proof and is being reopened."""


class DevicePaused(DeviceUnavailable):
    """The GPU failed and will be reopened after a pause."""


class QueueUnavailable(TryAgainLater, code="queue_unavailable", exit_code=69):
    """The job queue cannot be reached."""


class QueueUnusable(QueueUnavailable):
    """Redis answers and cannot serve the job queue."""


class QueueFull(TryAgainLater, code="queue_full"):
    """Too many jobs are waiting in this queue."""

    def __init__(self, detail: str | None = None, *, retry_after_s: int = 1) -> None:
        super().__init__(detail)
        self.retry_after_s = retry_after_s


class NetworkQueueFull(QueueFull, status=429):
    """Too many jobs of this network are waiting in this queue."""


class ShuttingDown(TryAgainLater, code="shutting_down"):
    """The service is shutting down."""


class ProofTimedOut(ProverError, code="proof_timeout", status=408, exit_code=75):
    """Proof generation timed out."""

    remedy: str = ""
    """Remedy for operators, which is logged; clients match the message as it is."""


class Cancelled(ProverError, code="cancelled", status=503, exit_code=130):
    """The proof was cancelled before it was finished."""


class SelfVerificationFailed(ProverError):
    """A proof made here does not verify under its own key and was withheld."""


class KernelMisused(ProverError, retryable=False):
    """A call to the kernel broke its contract."""


class SettingsInvalid(ProverError, code="configuration", retryable=False, exit_code=78):
    """The configuration is invalid.

    ``names`` are the options or variables with malformed values; empty if the values do not fit this machine.
    """

    def __init__(self, detail: str | None = None, *, names: tuple[str, ...] = ()) -> None:
        super().__init__(detail)
        self.names = names


class AddressUnavailable(SettingsInvalid):
    """The address is well-formed, and cannot be listened on."""


class DiskFull(SettingsInvalid):
    """The disk is full; free space or choose another directory."""
