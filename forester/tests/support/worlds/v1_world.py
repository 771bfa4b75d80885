"""A simulated V1 state tree with its queue, node, indexer and sender, for tests of its tree processor."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, cast

from solders.instruction import Instruction
from solders.pubkey import Pubkey

from forester.chain.concurrent_accounts import QueueCell
from forester.chain.rpc_client import Account, RpcClient
from forester.chain.tree_metadata import (
    QUEUE_V1_DISCRIMINATOR,
    STATE_TREE_V1_DISCRIMINATOR,
    Metadata,
    TreeKind,
    TreeMetadata,
)
from forester.epoch.phases import SlotRange
from forester.pipeline_v1.indexer_proofs import Proof
from forester.pipeline_v1.processor import V1Options, V1Processor
from forester.scheduling.eligibility_window import EligibilityWindow
from forester.transactions.confirm import Fate, Outcome
from forester.transactions.sender import Sender
from shared.trees.merkle_tree import MerkleTree

TREE, QUEUE, OWNER, PAYER = (Pubkey(bytes([number]) * 32) for number in (1, 2, 3, 4))
CHANGES, ROOTS, HEIGHT = 1400, 2400, 26
_ROOTS_AT = 1_222_016
_NEVER = 2**64 - 1
METADATA = Metadata(OWNER, OWNER, OWNER, 0, 0, 95, 5000, None, _NEVER, 0, QUEUE, Pubkey.default())
STATE_TREE = TreeMetadata(TREE, TreeKind.STATE_V1, METADATA)
CONFIRMED = Outcome(Fate.CONFIRMED, 1)


def leaf(number: int) -> bytes:
    return number.to_bytes(32, "big")


@dataclass(frozen=True)
class SentGroup:
    """A call of the sender."""

    value: bytes
    purpose: str
    within_s: float
    unit_limit: int | None
    work: Instruction


@dataclass
class World:
    """``fates`` are outcomes or errors of an element's next transactions; others are confirmed and change the tree."""

    cells: dict[int, bytes] = field(default_factory=dict)
    tree: MerkleTree = field(default_factory=lambda: MerkleTree(HEIGHT))
    sequence: int = 0
    roots: dict[int, bytes] = field(default_factory=dict)
    fates: dict[bytes, list[Outcome | Exception]] = field(default_factory=dict)
    sent: list[SentGroup] = field(default_factory=list)
    asked: list[int] = field(default_factory=list)
    queue_reads: int = 0
    clock: float = 0.0
    slot: int = 100
    payer: Pubkey = PAYER
    at_once: int = 0
    most_at_once: int = 0
    proving: int = 0
    most_proving: int = 0
    contradictions: int = 0
    hangs: str | None = None
    node_error: Exception | None = None
    indexer_error: Exception | None = None
    whole_heads: bool = False
    """True if the node returns the whole queue instead of its head."""
    unknown: set[bytes] = field(default_factory=set)
    proof_filter: Callable[[Proof], Proof] = lambda proof: proof
    while_sending: Callable[[], None] = lambda: None

    def __post_init__(self) -> None:
        self.tree.append([leaf(number) for number in range(1, 65)])
        self.sequence = 64
        self.roots[self.sequence] = self.tree.root

    def queue(self, *numbers: int) -> World:
        """Let leaves wait, each in the cell of its number."""
        self.cells |= {number: leaf(number) for number in numbers}
        return self

    def change(self, index: int, value: bytes) -> None:
        """Change a leaf and the root."""
        self.tree.set_many({index: value})
        self.sequence += 1
        self.roots[self.sequence] = self.tree.root

    async def _answered(self, service: str) -> None:
        await (asyncio.Event().wait() if self.hangs == service else asyncio.sleep(0))

    # The node.

    async def existing_account(
        self, address: Pubkey, what: str, *, start: int = 0, length: int | None = None
    ) -> Account:
        assert what
        if length is None:
            assert address == QUEUE
            return self._account(await self._queue_data())
        if self.node_error is not None:
            raise self.node_error
        if address == QUEUE:
            data = await self._queue_data()
            return self._account(data if self.whole_heads and start == 0 else data[start : start + length])
        if start == 0:
            return self._account(self.head()[:length])
        place, rest = divmod(start - _ROOTS_AT, 32)
        assert (rest, length) == (0, 32)
        newest = next(number for number in range(self.sequence, -1, -1) if number % ROOTS == place)
        return self._account(self.roots.get(newest, bytes(32)))

    def _account(self, data: bytes) -> Account:
        return Account(TREE, OWNER, 1, data)

    async def _queue_data(self) -> bytes:
        if self.node_error is not None:
            raise self.node_error
        self.queue_reads += 1
        await self._answered("node")
        capacity = 70
        head = bytearray(256)
        head[:8] = QUEUE_V1_DISCRIMINATOR
        struct.pack_into("<QQ", head, 232, capacity, 2410)
        empty = struct.pack("<QQ32s", 2, 0, bytes(32))
        cells = [
            struct.pack("<QQ32s", 0, 0, self.cells[place]) if place in self.cells else empty
            for place in range(capacity)
        ]
        return bytes(head) + b"".join(cells)

    def head(self) -> bytes:
        data = bytearray(384)
        data[:8] = STATE_TREE_V1_DISCRIMINATOR
        struct.pack_into("<4Q", data, 224, HEIGHT, 10, self.tree.next_index, self.sequence)
        struct.pack_into("<4Q", data, 304, CHANGES, CHANGES, 0, self.sequence % CHANGES)
        struct.pack_into("<4Q", data, 336, ROOTS, ROOTS, 0, self.sequence % ROOTS)
        return bytes(data)

    # The indexer.

    async def of(self, cells: Sequence[QueueCell]) -> list[Proof]:
        self.asked.append(len(cells))
        self.proving += 1
        self.most_proving = max(self.most_proving, self.proving)
        try:
            await self._answered("indexer")
        finally:
            self.proving -= 1
        if self.indexer_error is not None:
            raise self.indexer_error
        return [self.proof_filter(self.proof(cell)) for cell in cells if cell.value not in self.unknown]

    def contradicted(self) -> None:
        self.contradictions += 1

    def proof(self, cell: QueueCell) -> Proof:
        index = int.from_bytes(cell.value, "big") - 1
        return Proof(cell, self.sequence, self.tree.root, index, self.tree.proof(index))

    # The sender.

    async def send(
        self,
        work: Sequence[Instruction],
        *,
        purpose: str,
        subject: bytes,
        within_s: float,
        unit_limit: int | None = None,
        **_: Any,
    ) -> Outcome:
        assert len(work) == 1
        self.sent.append(SentGroup(subject, purpose, within_s, unit_limit, work[0]))
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        try:
            await asyncio.sleep(0)
            self.while_sending()
        finally:
            self.at_once -= 1
        waiting = self.fates.get(subject)
        fate = waiting.pop(0) if waiting else CONFIRMED
        if isinstance(fate, Exception):
            raise fate
        if fate.fate is Fate.CONFIRMED:
            self.change(int.from_bytes(subject, "big") - 1, bytes(32))
            self.cells = {place: value for place, value in self.cells.items() if value != subject}
        return fate

    # Parts of the tree processor.

    def processor(self, **options: Any) -> V1Processor:
        return V1Processor(
            STATE_TREE,
            rpc=cast(RpcClient, self),
            proofs=self,
            sender=cast(Sender, self),
            derivation=PAYER,
            options=replace(V1Options(), **options),
            clock=lambda: self.clock,
        )

    def window(self, last: int = 1000, first: int = 50) -> EligibilityWindow:
        return EligibilityWindow(7, SlotRange(first, last), lambda: self.slot)

    @property
    def values_sent(self) -> list[bytes]:
        return [call.value for call in self.sent]

    def works_of(self, value: bytes) -> int:
        """Return how many different instructions were sent for an element."""
        return len({bytes(call.work) for call in self.sent if call.value == value})
