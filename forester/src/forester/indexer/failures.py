"""Errors of an indexer, in addition to those of all services (forester/errors.py).

EndpointError
├── IndexerBehind        it has not indexed a required slot yet
├── RequestRefused
│   └── IndexerRefused   a JSON-RPC error, with its method
└── MalformedAnswer
    └── AnswerWrong      names the member that is missing, misspelt or contradicts another
"""

from forester.errors import EndpointError, MalformedAnswer, RequestRefused
from forester.redaction import shortened

_INTERNAL_ERROR = -32603
_BAD_REQUESTS = (400, 413, 415, 422)
"""HTTP statuses of a request that another indexer would refuse as well."""

_NO_ACCESS = (-32401, -32402, -32403)
_BEHIND_TEXT = "node is behind"
_BUSY_TEXTS = ("internal server error", _BEHIND_TEXT, "timed out", "timeout", "too many requests")


class IndexerBehind(EndpointError):
    """The indexer has only indexed up to ``slot``."""

    def __init__(self, slot: int, needed: int) -> None:
        super().__init__(f"the indexer is at slot {slot}, behind slot {needed}")
        self.slot = slot
        self.needed = needed


class IndexerRefused(RequestRefused):
    """The indexer answered a call with an error; ``message`` and ``data`` are cut."""

    def __init__(self, method: str, code: int, message: str, data: str | None = None) -> None:
        message = shortened(message)
        data = None if data is None else shortened(data)
        more = f" ({data})" if data else ""
        super().__init__(f"{method} was refused: {code} {message}{more}", code=code, data=data)
        self.method = method
        self.message = message
        self.retryable = code == _INTERNAL_ERROR or message.lower().startswith(_BUSY_TEXTS)

    @property
    def of_indexer(self) -> bool:
        """Return whether the refusal is due to the indexer, so that another one may serve the same request.

        Positive codes are HTTP statuses: no key, no payment, no such page, a redirection.
        """
        return self.retryable or self.code in _NO_ACCESS or (self.code > 0 and self.code not in _BAD_REQUESTS)

    @property
    def behind(self) -> bool:
        """Return whether the indexer reports that it is too far behind its node."""
        return self.message.lower().startswith(_BEHIND_TEXT)

    @property
    def too_many(self) -> bool:
        """Return whether more elements were requested than allowed at once."""
        return self.message.removeprefix("Validation Error: ").startswith("Too many")

    @property
    def pruned(self) -> bool:
        """Return whether the requested elements have left the queue: our view of the tree is outdated."""
        return "first_queue_index" in self.message


class AnswerWrong(MalformedAnswer):
    """An answer of the indexer does not match its method; ``field`` is the JSON path of the member."""

    def __init__(self, method: str, field: str, reason: str) -> None:
        reason = shortened(reason)
        super().__init__(f"{method} answered wrongly: {reason} at {field}")
        self.method = method
        self.field = field
        self.reason = reason
