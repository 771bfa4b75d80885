"""What can go wrong between us and an indexer, beside the errors of all services (forester/errors.py).

EndpointError
├── IndexerBehind        it has not seen a slot that matters yet
├── RequestRefused
│   └── IndexerRefused   a JSON-RPC error, with its method
└── MalformedAnswer
    └── AnswerWrong      names the member that is missing, misspelt or contradicts another
"""

from typing import Any

from forester.errors import EndpointError, MalformedAnswer, RequestRefused

_INTERNAL_ERROR = -32603
_BUSY_TEXTS = ("internal server error", "node is behind", "timed out", "timeout", "too many requests")


class IndexerBehind(EndpointError):
    """The indexer has indexed up to ``slot`` only."""

    def __init__(self, slot: int, needed: int) -> None:
        super().__init__(f"the indexer is at slot {slot}, behind slot {needed}")
        self.slot = slot
        self.needed = needed


class IndexerRefused(RequestRefused):
    """The indexer answered a call with an error."""

    def __init__(self, method: str, code: int, message: str, data: Any = None) -> None:
        more = f" ({data})" if isinstance(data, str) and data else ""
        super().__init__(f"{method} was refused: {code} {message}{more}", code=code, data=data)
        self.method = method
        self.message = message
        self.retryable = code == _INTERNAL_ERROR or message.lower().startswith(_BUSY_TEXTS)

    @property
    def too_many(self) -> bool:
        """Whether fewer elements may be asked for at once than were."""
        return self.message.removeprefix("Validation Error: ").startswith("Too many")

    @property
    def pruned(self) -> bool:
        """Whether the elements asked for have left the queue: our view of the tree is older than the indexer's."""
        return "first_queue_index" in self.message


class AnswerWrong(MalformedAnswer):
    """An answer of the indexer is not what the method gives; ``field`` is the JSON path of the place."""

    def __init__(self, method: str, field: str, reason: str) -> None:
        super().__init__(f"{method} answered wrongly: {reason} at {field}")
        self.method = method
        self.field = field
        self.reason = reason
