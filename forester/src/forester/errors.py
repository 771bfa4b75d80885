"""All errors of the forester, with their exit codes.

Keywords of a class, inherited unless it has its own: ``exit_code`` of commands, and ``retryable``. The first sentence
of a class is its default message. Messages pass through ``redaction.mask``. They may repeat texts of other machines,
and are printed on terminals: so they have no control characters.
"""

import inspect
import re
from typing import Any, ClassVar

from forester.redaction import mask
from shared.process.logs import get_logger

_log = get_logger(__name__)
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
"""Characters with which a terminal is controlled; tabs and ends of lines are text."""


class ForesterError(Exception):
    """Unexpected forester failure."""

    exit_code: ClassVar[int] = 70
    retryable: bool = False
    """True if a retry may succeed; some kinds of errors set it per error."""

    def __init_subclass__(cls, **keywords: int | bool) -> None:
        super().__init_subclass__()
        for name, value in keywords.items():
            getattr(cls, name)  # an unknown keyword fails here
            setattr(cls, name, value)

    def __init__(self, detail: str | None = None) -> None:
        default = (inspect.getdoc(type(self)) or "").split("\n")[0].rstrip(".")
        self.detail = _CONTROL.sub("\N{REPLACEMENT CHARACTER}", mask(detail or default))
        super().__init__(self.detail)


class UnexpectedFailure(ForesterError):
    """A defect of the forester; the log has its trace."""


def failure_of(error: Exception, **facts: object) -> ForesterError:
    """Return an error as one of ours; any other error is a bug, which is logged with its trace and ``facts``."""
    if isinstance(error, ForesterError):
        return error
    _log.error("unexpected_error", exc_info=error, **facts)
    text = mask(str(error))[:500]
    return UnexpectedFailure(f"unexpected {type(error).__name__}: {text}; search the log for its trace")


class SettingsInvalid(ForesterError, exit_code=78):
    """Settings are missing or invalid."""


class EndpointError(ForesterError, exit_code=69, retryable=True):
    """A service that the forester depends on failed."""


class EndpointUnreachable(EndpointError):
    """A service cannot be reached."""


class EndpointTimedOut(EndpointError, exit_code=75):
    """A service did not answer in time."""


def is_unreachable(error: EndpointError) -> bool:
    """Return whether a service gave no usable answer; a request to retry later is a usable one."""
    return isinstance(error, EndpointUnreachable | EndpointTimedOut)


class RateLimited(EndpointError, exit_code=75):
    """429 Too Many Requests.

    ``retry_after_s`` is the pause that the service requested, None if it did not.
    """

    def __init__(self, detail: str | None = None, *, retry_after_s: float | None = None) -> None:
        super().__init__(detail)
        self.retry_after_s = retry_after_s


class AnswersExceedMemory(EndpointError, exit_code=75):
    """Answers of a service that arrive at once are too large together."""


class RequestRefused(EndpointError, retryable=False):
    """A service answered with an error.

    ``code`` is the JSON-RPC code or HTTP status, ``data`` the attached value.
    """

    def __init__(self, detail: str | None = None, *, code: int, data: Any = None) -> None:
        super().__init__(detail)
        self.code = code
        self.data = data


class MalformedAnswer(EndpointError):
    """A service sent an answer that cannot be understood."""


class AnswerTooLong(MalformedAnswer, retryable=False):
    """An answer is longer than this process reads; smaller requests may be answered."""


class AccountMissing(ForesterError, exit_code=1):
    """An account does not exist."""


class MalformedAccount(ForesterError, exit_code=65):
    """An account's data is not what its kind says."""


class TransactionRefused(ForesterError, exit_code=1):
    """The chain refused a transaction.

    ``program`` is the innermost program that failed, ``code`` its error code, ``instruction`` the position of the
    instruction in the transaction; each is None when the failure is not a program's.
    """

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


class ProofTimedOut(ForesterError, exit_code=75, retryable=True):
    """proof generation timed out."""


class ChainWentBack(ForesterError, exit_code=75, retryable=True):
    """The chain is far behind the slots that were reported before."""

    def __init__(self, slots: int) -> None:
        super().__init__(
            f"the chain is {slots} slots behind an earlier answer of the node: that answer was wrong, or the network "
            "was reset; start the forester again, which reads everything again"
        )
