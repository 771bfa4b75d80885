"""Every failure the forester knows, and what it means to a shell.

ForesterError                    exit 70
├── SettingsInvalid              exit 78
├── EndpointError                exit 69   RPC node, indexer or prover; names the endpoint, masked
│   ├── EndpointUnreachable      exit 69   no connection, connection lost, 5xx
│   ├── EndpointTimedOut         exit 75
│   ├── RateLimited              exit 75   429; carries Retry-After
│   ├── RequestRefused           exit 69   an error in the answer, with its code and data
│   └── MalformedAnswer          exit 69   an answer that is not what was asked for
├── AccountMissing               exit 1    nothing at an address where an account must be
├── MalformedAccount             exit 65   bytes that are not the account they should be
├── TransactionRefused           exit 1    by a program, with its code, or by the chain
│   ├── InsufficientFunds        exit 1
│   └── AlreadyProcessed         exit 1    it was, so its status tells its fate
└── ProofTimedOut                exit 75

The first sentence of a class is its default message. Messages pass through ``redaction.mask``.
"""

import inspect
from typing import Any, ClassVar

from forester.redaction import mask


class ForesterError(Exception):
    """Unexpected forester failure."""

    exit_code: ClassVar[int] = 70
    retryable: bool = False
    """Whether the same thing may succeed later; some kinds of errors know it per error."""

    def __init__(self, detail: str | None = None) -> None:
        default = (inspect.getdoc(type(self)) or "").split("\n")[0].rstrip(".")
        self.detail = mask(detail or default)
        super().__init__(self.detail)


class SettingsInvalid(ForesterError):
    """Settings are missing or invalid."""

    exit_code = 78


class EndpointError(ForesterError):
    """A service that the forester depends on failed."""

    exit_code = 69
    retryable = True


class EndpointUnreachable(EndpointError):
    """A service cannot be reached."""


class EndpointTimedOut(EndpointError):
    """A service did not answer in time."""

    exit_code = 75


def is_away(error: EndpointError) -> bool:
    """Whether a service did not answer at all, or not usefully; one that asks to be asked later did."""
    return isinstance(error, EndpointUnreachable | EndpointTimedOut)


class RateLimited(EndpointError):
    """429 Too Many Requests.

    ``retry_after_s`` is what the service asked for, None if it said nothing.
    """

    exit_code = 75

    def __init__(self, detail: str | None = None, *, retry_after_s: float | None = None) -> None:
        super().__init__(detail)
        self.retry_after_s = retry_after_s


class AnswersExceedMemory(EndpointError):
    """Answers of a service that arrive at once are too large together."""

    exit_code = 75


class RequestRefused(EndpointError):
    """A service answered with an error.

    ``code`` is the JSON-RPC code or HTTP status, ``data`` what came with it.
    """

    retryable = False

    def __init__(self, detail: str | None = None, *, code: int, data: Any = None) -> None:
        super().__init__(detail)
        self.code = code
        self.data = data


class MalformedAnswer(EndpointError):
    """A service sent an answer that cannot be understood."""


class AccountMissing(ForesterError):
    """An account does not exist."""

    exit_code = 1


class MalformedAccount(ForesterError):
    """An account's data is not what its kind says."""

    exit_code = 65


class TransactionRefused(ForesterError):
    """The chain refused a transaction.

    ``program`` is the innermost program that failed, ``code`` its error code, ``instruction`` the position of the
    instruction in the transaction; each is None when the failure is not a program's.
    """

    exit_code = 1

    def __init__(
        self,
        detail: str | None = None,
        *,
        program: str | None = None,
        code: int | None = None,
        instruction: int | None = None,
    ) -> None:
        super().__init__(detail)
        self.program = program
        self.code = code
        self.instruction = instruction


class InsufficientFunds(TransactionRefused):
    """insufficient funds."""


class AlreadyProcessed(TransactionRefused):
    """A transaction was processed before."""


class ProofTimedOut(ForesterError):
    """proof generation timed out."""

    exit_code = 75
    retryable = True


class ChainWentBack(ForesterError):
    """The chain is far behind the slots that were told before."""

    exit_code = 75
    retryable = True

    def __init__(self, slots: int) -> None:
        super().__init__(
            f"the chain is {slots} slots behind what the node told before: its first answer was wrong, or the network "
            "began anew; start the forester again, which reads everything anew"
        )
