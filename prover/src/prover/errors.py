"""Every failure of the prover, with its status for clients and its exit code for shells.

ProverError                      unexpected_error    500  exit 70
├── RequestRejected              proving_error       400  exit 1    fault of the request
│   ├── MalformedRequest         malformed_body      400  exit 65
│   │   ├── BodyTooLarge         body_too_large      413  exit 65
│   │   ├── BodyTooSlow          request_timeout     408  exit 65
│   │   ├── HeaderTooSlow        request_timeout     408  exit 65
│   │   ├── TargetTooLong        uri_too_long        414  exit 65
│   │   ├── HeaderTooLarge       header_too_large    431  exit 65
│   │   └── CircuitUnknown       malformed_body      400  exit 65
│   ├── CircuitNotPublished      proving_error       400  exit 65
│   ├── ShapeMismatch            proving_error       400  exit 65
│   ├── WitnessRejected          proving_error       400  exit 1
│   ├── Unauthorized             unauthorized        401  exit 1
│   ├── Forbidden                forbidden           403  exit 1
│   ├── IdempotencyKeyReused     idempotency_key_reused 422  exit 1
│   ├── InvalidJobId             invalid_job_id      400  exit 65
│   ├── JobNotFound              job_not_found       404  exit 1
│   └── RateLimited              rate_limited        429  exit 75
├── ProofFailed                  proof_rejected      400  exit 1    fault of a given proof
│   ├── MalformedProof           malformed_proof     400  exit 1
│   └── ProofRejected            proof_rejected      400  exit 1
├── KeyUnavailable               key_unusable        503  exit 65
│   ├── KeyMissing               key_not_found       503  exit 69
│   ├── KeyDownloadFailed        key_download_failed 503  exit 69
│   ├── MalformedKey             key_unusable        503  exit 65
│   ├── UnsupportedKey           key_unusable        503  exit 65
│   └── MisnamedKey              key_unusable        503  exit 65
├── CircuitDisabled              circuit_disabled    503  exit 69
├── TryAgainLater                overloaded          503  exit 75
│   ├── KeyLoading               key_loading         503  exit 75
│   ├── OutOfMemory              out_of_memory       503  exit 75
│   │   ├── MemoryBudgetExceeded out_of_memory       503  exit 75
│   │   └── DeviceOutOfMemory    device_out_of_memory 503  exit 75
│   │       └── DeviceBudgetExceeded device_out_of_memory 503  exit 75
│   ├── DeviceUnavailable        device_unavailable  503  exit 75
│   │   ├── DeviceLost           device_lost         503  exit 75
│   │   └── DevicePaused         device_unavailable  503  exit 75
│   ├── QueueUnavailable         queue_unavailable   503  exit 69
│   ├── QueueFull                queue_full          503  exit 75
│   └── ShuttingDown             shutting_down       503  exit 75
├── ProofTimedOut                proof_timeout       408  exit 75
├── Cancelled                    cancelled           503  exit 130
├── SelfVerificationFailed       unexpected_error    500  exit 70
├── KernelMisused                unexpected_error    500  exit 70
└── SettingsInvalid              configuration       500  exit 78
    └── DiskFull                 configuration       500  exit 78

The first sentence of a class is its default message. Clients of the reference act on words in messages:
they retry on ``503`` (the HTTP layer adds it to what is retryable) and give up on ``constraint``; no other
message may use them.
"""

import inspect
from typing import ClassVar


class ProverError(Exception):
    """Unexpected prover failure."""

    code: ClassVar[str] = "unexpected_error"
    status: ClassVar[int] = 500
    retryable: ClassVar[bool] = True
    exit_code: ClassVar[int] = 70

    def __init__(self, detail: str | None = None, *, path: str | None = None) -> None:
        self.detail = detail or inspect.cleandoc(self.__doc__ or "")
        self.path = path
        super().__init__(self.detail)


class RequestRejected(ProverError):
    """The request cannot be proved."""

    code = "proving_error"
    status = 400
    retryable = False
    exit_code = 1


class MalformedRequest(RequestRejected):
    """The request body does not follow the wire format."""

    code = "malformed_body"
    exit_code = 65


class BodyTooLarge(MalformedRequest):
    """The request body is larger than this server accepts."""

    code = "body_too_large"
    status = 413


class BodyTooSlow(MalformedRequest):
    """The request body did not arrive in time."""

    code = "request_timeout"
    status = 408
    retryable = True


class HeaderTooSlow(MalformedRequest):
    """The request header did not arrive in time."""

    code = "request_timeout"
    status = 408
    retryable = True


class TargetTooLong(MalformedRequest):
    """The path and query of the request are longer than this server accepts."""

    code = "uri_too_long"
    status = 414


class HeaderTooLarge(MalformedRequest):
    """A header field of the request is too long, or there are too many fields."""

    code = "header_too_large"
    status = 431


class CircuitUnknown(MalformedRequest):
    """The circuit type names no circuit; ``circuit_type`` is the truncated value of the request."""

    def __init__(self, detail: str | None = None, *, circuit_type: str = "") -> None:
        super().__init__(detail, path="$.circuitType")
        self.circuit_type = circuit_type


class CircuitNotPublished(RequestRejected):
    """No circuit of this shape is published."""

    exit_code = 65


class ShapeMismatch(RequestRejected):
    """An array of the request has a wrong length."""

    exit_code = 65


class WitnessRejected(RequestRejected):
    """The inputs do not satisfy the circuit. ``constraint`` is the one that the witness solver names."""

    def __init__(self, detail: str | None = None, *, constraint: int | None = None, path: str | None = None) -> None:
        super().__init__(detail, path=path)
        self.constraint = constraint


class Unauthorized(RequestRejected):
    """An API key is required: send it as 'X-API-Key: KEY' or as 'Authorization: Bearer KEY'."""

    code = "unauthorized"
    status = 401


class Forbidden(RequestRejected):
    """The role of this API key does not allow this request; use a key with the role admin."""

    code = "forbidden"
    status = 403


class IdempotencyKeyReused(RequestRejected):
    """The Idempotency-Key belongs to an earlier request with another body."""

    code = "idempotency_key_reused"
    status = 422


class InvalidJobId(RequestRejected):
    """Invalid job ID format. Job ID must be a valid UUID."""

    code = "invalid_job_id"
    exit_code = 65


class JobNotFound(RequestRejected):
    """There is no job with this ID. It may have expired or never existed."""

    code = "job_not_found"
    status = 404


class RateLimited(RequestRejected):
    """This API key exceeds its rate limit; send fewer requests per second."""

    code = "rate_limited"
    status = 429
    retryable = True
    exit_code = 75

    def __init__(self, detail: str | None = None, *, retry_after_s: int = 1) -> None:
        super().__init__(detail)
        self.retry_after_s = retry_after_s


class ProofFailed(ProverError):
    """The proof cannot be accepted."""

    code = "proof_rejected"
    status = 400
    retryable = False
    exit_code = 1


class MalformedProof(ProofFailed):
    """The proof does not consist of points of the right groups."""

    code = "malformed_proof"


class ProofRejected(ProofFailed):
    """The proof does not hold for these public inputs."""


class KeyUnavailable(ProverError):
    """No usable proving key for this circuit."""

    code = "key_unusable"
    status = 503
    exit_code = 65


class KeyMissing(KeyUnavailable):
    """The proving key of a published circuit is not in the keys directory."""

    code = "key_not_found"
    exit_code = 69

    def __init__(self, file_name: str, remedy: str) -> None:
        super().__init__(f"proving key file not found: {file_name}; {remedy}")
        self.file_name = file_name


class KeyDownloadFailed(KeyUnavailable):
    """A proving key cannot be downloaded."""

    code = "key_download_failed"
    exit_code = 69


class MalformedKey(KeyUnavailable):
    """The key file is malformed."""

    def __init__(self, detail: str | None = None, *, offset: int = 0) -> None:
        super().__init__(detail)
        self.offset = offset


class UnsupportedKey(KeyUnavailable):
    """The key file holds a circuit that this prover does not know."""


class MisnamedKey(KeyUnavailable):
    """The name of the key file is that of another circuit than the file holds."""


class CircuitDisabled(ProverError):
    """This instance does not prove this circuit."""

    code = "circuit_disabled"
    status = 503
    retryable = False
    exit_code = 69


class TryAgainLater(ProverError):
    """Too many requests are waiting for a proof."""

    code = "overloaded"
    status = 503
    exit_code = 75


class KeyLoading(TryAgainLater):
    """The proving key of this circuit is still being loaded."""

    code = "key_loading"


class OutOfMemory(TryAgainLater):
    """Not enough memory for this proof: add memory, prove fewer at a time, or use smaller batches."""

    code = "out_of_memory"


class MemoryBudgetExceeded(OutOfMemory):
    """This proof needs more memory than the budget of this prover; add memory or use smaller batches."""

    retryable = False


class DeviceOutOfMemory(OutOfMemory):
    """The key or the proof does not fit into the memory of the GPU, or into the budget for it."""

    code = "device_out_of_memory"


class DeviceBudgetExceeded(DeviceOutOfMemory):
    """This key needs more GPU memory than the budget of this prover; raise --cuda-memory-gb."""

    retryable = False


class DeviceUnavailable(TryAgainLater):
    """The machine refused a resource that proving needs: random bytes, threads or a GPU."""

    code = "device_unavailable"


class DeviceLost(DeviceUnavailable):
    """The GPU failed during a proof and is being reopened."""

    code = "device_lost"


class DevicePaused(DeviceUnavailable):
    """The GPU failed and will be reopened after a pause."""


class QueueUnavailable(TryAgainLater):
    """The job queue cannot be reached."""

    code = "queue_unavailable"
    exit_code = 69


class QueueFull(TryAgainLater):
    """Too many jobs are waiting in this queue."""

    code = "queue_full"

    def __init__(self, detail: str | None = None, *, retry_after_s: int = 1) -> None:
        super().__init__(detail)
        self.retry_after_s = retry_after_s


class ShuttingDown(TryAgainLater):
    """The service is shutting down."""

    code = "shutting_down"


class ProofTimedOut(ProverError):
    """Proof generation timed out."""

    code = "proof_timeout"
    status = 408
    exit_code = 75
    remedy: str = ""
    """Remedy for operators, which is logged; clients match the message as it is."""


class Cancelled(ProverError):
    """The proof was cancelled before it was finished."""

    code = "cancelled"
    status = 503
    exit_code = 130


class SelfVerificationFailed(ProverError):
    """A proof made here does not verify under its own key and was withheld."""


class KernelMisused(ProverError):
    """A call to the kernel broke its contract."""

    retryable = False


class SettingsInvalid(ProverError):
    """The configuration is invalid."""

    code = "configuration"
    retryable = False
    exit_code = 78


class DiskFull(SettingsInvalid):
    """The disk is full; free space or choose another directory."""
