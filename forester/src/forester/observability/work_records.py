"""Records of recent batches and transactions, for the dashboard; bounded, in memory, no I/O.

Source: forester/docs/reference/dashboard.md, "Activity object".
"""

import enum
import time
from collections import OrderedDict
from collections.abc import Callable
from typing import Annotated

import msgspec
from msgspec import structs

from forester.redaction import mask

MAXIMUM_BATCHES = 128
MAXIMUM_TRANSACTIONS = 64
_DETAIL_LENGTH = 300

Short = Annotated[str, msgspec.Meta(max_length=128)]
Text = Annotated[str, msgspec.Meta(max_length=2000)]
"""Texts of the document: another process's may be of any length."""

Count = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]
"""Whole numbers of the document: another process's may have any number of digits."""


class BatchState(enum.Enum):
    """State of a batch; the values are words of the dashboard."""

    STAGED = "staged"
    """Its request to the prover is complete, and waits for a permit."""
    PROVING = "proving"
    """The prover has it."""
    PROVED = "proved"
    """Its proof is finished."""
    SENT = "sent"
    """Its proof is in a transaction with unknown outcome."""
    CONFIRMED = "confirmed"
    FAILED = "failed"
    """No proof was made, or the chain refused it."""
    CANCELLED = "cancelled"
    """Its proof was given up before it was made: the chain has passed it, or the process ends."""


class BatchRecord(msgspec.Struct, frozen=True):
    """A batch of a V2 tree, as the activity document has it: ``times`` are Unix seconds by the state that was reached.

    Another process may have states that this one does not know.
    """

    tree: Short
    circuit: Short
    sequence: Count
    elements: Count = 0
    state: Short = BatchState.STAGED.value
    times: dict[Short, float] = {}
    signature: Short | None = None
    slot: Count | None = None
    detail: Text | None = None


class TransactionRecord(msgspec.Struct, frozen=True):
    """A signed transaction, as the activity document has it.

    ``signature`` in base58, cost in lamports, Unix seconds; ``outcome`` is None while it is unknown.
    """

    signature: Short
    purpose: Short
    lamports: Count
    at: float
    outcome: Short | None = None
    slot: Count | None = None
    detail: Text | None = None


class WorkRecords:
    """The latest batches and transactions of one process; belongs to one event loop."""

    def __init__(self, *, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._batches: OrderedDict[tuple[str, str, int], BatchRecord] = OrderedDict()
        self._transactions: OrderedDict[str, TransactionRecord] = OrderedDict()
        self.began = clock()

    @property
    def batches(self) -> tuple[BatchRecord, ...]:
        """The latest batches, the last one first."""
        return tuple(reversed(self._batches.values()))

    @property
    def transactions(self) -> tuple[TransactionRecord, ...]:
        """The latest transactions, the last one first."""
        return tuple(reversed(self._transactions.values()))

    def staged(self, tree: str, circuit: str, sequence: int, elements: int) -> None:
        """Record a batch whose request is complete; an earlier record of it is replaced."""
        self._batches.pop((tree, circuit, sequence), None)
        self.moved(tree, circuit, sequence, BatchState.STAGED, elements=elements)

    def moved(
        self,
        tree: str,
        circuit: str,
        sequence: int,
        state: BatchState,
        *,
        elements: int | None = None,
        slot: int | None = None,
        detail: str | None = None,
    ) -> None:
        """Record the state of a batch. One that an earlier process staged begins with this state."""
        key = (tree, circuit, sequence)
        record = self._batches.get(key) or BatchRecord(tree, circuit, sequence)
        self._batches[key] = structs.replace(
            record,
            state=state.value,
            times=record.times | {state.value: round(self._clock(), 3)},
            elements=record.elements if elements is None else elements,
            signature=None if state is BatchState.PROVED else record.signature,
            slot=record.slot if slot is None else slot,
            detail=None if detail is None else mask(detail)[:_DETAIL_LENGTH],
        )
        while len(self._batches) > MAXIMUM_BATCHES:
            self._batches.popitem(last=False)

    def signed(self, signature: str, purpose: str, subject: str, lamports: int) -> None:
        """Record a transaction before it is sent. ``subject`` is the tree whose sent batches it carries."""
        self._transactions[signature] = TransactionRecord(signature, purpose, lamports, round(self._clock(), 3))
        while len(self._transactions) > MAXIMUM_TRANSACTIONS:
            self._transactions.popitem(last=False)
        self.carried(signature, subject)

    def carried(self, signature: str, subject: str) -> None:
        """Record the transaction that carries the sent batches of a tree; a tree has one at a time."""
        for key, record in self._batches.items():
            if record.tree == subject and record.state == BatchState.SENT.value:
                self._batches[key] = structs.replace(record, signature=signature)

    def settled(self, signature: str, outcome: str, slot: int | None = None, detail: str | None = None) -> None:
        """Record the outcome of a transaction, in the words of the metric of failures."""
        record = self._transactions.get(signature)
        if record is not None:
            detail = None if detail is None else mask(detail)[:_DETAIL_LENGTH]
            self._transactions[signature] = structs.replace(record, outcome=outcome, slot=slot, detail=detail)
