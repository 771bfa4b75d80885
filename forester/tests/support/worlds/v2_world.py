"""A simulated chain, indexer, prover and sender of one small V2 state tree, for tests of its tree processor.

The accounts are encoded as the programs lay them out; a batch lands when its new root is the one of the dense tree.
"""

from __future__ import annotations

import asyncio
import copy
import struct
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from solders.instruction import Instruction
from solders.pubkey import Pubkey
from v2_models import HEIGHT, SLOTS, ZKP, StateModel, number

from forester.chain.programs.coder import instruction_discriminator
from forester.chain.rpc_client import Account
from forester.chain.tree_metadata import Metadata, TreeKind, TreeMetadata
from forester.epoch.phases import SlotRange
from forester.errors import TransactionRefused
from forester.indexer.types import Context, QueueElements, StateQueue
from forester.journal.database import Journal
from forester.journal.proofs import ProofStore
from forester.observability.metrics import Metrics
from forester.pipeline_v2.processor import V2Processor
from forester.pipeline_v2.services import V2Limits, V2Services, proof_permits
from forester.prover_client.client import FinishedProof
from forester.scheduling.eligibility_window import EligibilityWindow
from forester.transactions.confirm import Fate, Outcome
from shared.requests.circuit_id import CircuitKind
from shared.requests.proof_compression import CompressedProof
from shared.requests.proof_wire import BatchRequest

TREE, QUEUE, PAYER = (Pubkey(bytes([value]) * 32) for value in (1, 2, 3))
_KINDS = {
    instruction_discriminator("batch_append"): CircuitKind.BATCH_APPEND,
    instruction_discriminator("batch_nullify"): CircuitKind.BATCH_UPDATE,
}
_METADATA = Metadata(PAYER, PAYER, PAYER, 0, 0, 95, 5000, None, 0, 0, QUEUE, PAYER)


def _batches(filled: int, inserted: int) -> bytes:
    """Return header and batches of a queue whose first batch holds all elements of the tree."""
    state = 1 if inserted == SLOTS // ZKP else 2 if filled == SLOTS // ZKP else 0
    header = struct.pack("<7Q", 2, SLOTS, ZKP, 0, 0, 0, filled * ZKP)
    first = struct.pack("<11QIBB2x", 0, state, filled, inserted, 3, 0, SLOTS, ZKP, 0, 0, 0, 0, 0, 0)
    return header + first + struct.pack("<11QIBB2x", 0, 0, 0, 0, 3, 0, SLOTS, ZKP, 0, 0, 0, 0, 0, 0)


def _stores(chains: Sequence[bytes]) -> bytes:
    places = SLOTS // ZKP
    first = struct.pack("<QQ", len(chains), places) + b"".join(chains).ljust(32 * places, b"\0")
    return first + struct.pack("<QQ", 0, places) + bytes(32 * places)


@dataclass
class World:
    """Simulated services of a small tree; ``faults`` are raised by the next calls, one each."""

    model: StateModel = field(default_factory=StateModel)
    ring: int = 3
    """Roots that the tree remembers."""
    slot_now: int = 10
    now: float = 1000.0
    """A monotonic clock, which begins anywhere."""
    shown: StateModel | None = None
    """What a lagging node shows instead of the tree."""
    indexed: StateModel | None = None
    """What a lagging indexer knows instead of the tree."""
    lie: Callable[[StateQueue], StateQueue] = lambda snapshot: snapshot
    reads: int = 0
    snapshots: int = 0
    contradictions: int = 0
    """Answers of the indexer that the chain contradicted."""
    gates: dict[int, asyncio.Event] = field(default_factory=dict)
    prover_faults: dict[int, list[Exception]] = field(default_factory=dict)
    begun: list[int] = field(default_factory=list)
    proved: Counter[str] = field(default_factory=Counter)
    bad_proofs: set[int] = field(default_factory=set)
    sent: list[int] = field(default_factory=list)
    """Number of instructions of each transaction."""
    unit_limits: list[int | None] = field(default_factory=list)
    outcomes: list[Outcome | Callable[[], Outcome | None]] = field(default_factory=list)
    """What becomes of the next transactions instead of what the programs say; a function may do things first."""
    unseen: int = 0
    """So many transactions land or fail without anybody noticing."""
    settled: bool = True

    def fill(self, leaves: int, spent: Sequence[int] = ()) -> None:
        """Queue new leaves, and spend some of all."""
        begin = len(self.model.queued)
        self.model.queued += [number(1000 + index) for index in range(begin, begin + leaves)]
        self.model.spent += [(self.model.queued[index], index, number(5000 + index)) for index in spent]

    def window(self, last_slot: int = 200, first_slot: int = 0) -> EligibilityWindow:
        return EligibilityWindow(7, SlotRange(first_slot, last_slot), lambda: self.slot_now)

    # The node.

    async def accounts(
        self, addresses: Sequence[Pubkey], *, start: int = 0, length: int | None = None
    ) -> list[Account]:
        assert list(addresses) == [TREE, QUEUE]
        assert start == 0
        self.reads += 1
        model = self.shown or self.model
        data = [self._tree(model), self._queue(model)]
        return [Account(address, PAYER, 1, content[:length]) for address, content in zip(addresses, data, strict=True)]

    async def slot(self) -> int:
        return self.slot_now

    def _tree(self, model: StateModel) -> bytes:
        chains = model.chains([*model.nullified_before(), *model.nullifiers()])
        head = bytearray(704)
        head[:16] = b"BatchMta" + struct.pack("<Q", TreeKind.STATE_V2.value)
        head[232:264] = struct.pack("<QQIIQ", model.sequence, model.appended, HEIGHT, self.ring, SLOTS)
        head[264:512] = _batches(len(chains), model.nullified // ZKP)
        head[544:552] = struct.pack("<Q", model.nullified)
        current = model.sequence % self.ring
        head[680:704] = struct.pack("<3Q", (current + 1) % self.ring, self.ring, self.ring)
        roots = [bytes(32)] * self.ring
        roots[current] = model.root()
        return bytes(head) + b"".join(roots) + _stores(chains)

    def _queue(self, model: StateModel) -> bytes:
        chains = model.chains([*model.queued])
        head = bytearray(552)
        head[:8] = b"queueacc"
        head[232:480] = _batches(len(chains), model.appended // ZKP)
        head[480:488] = struct.pack("<Q", SLOTS)
        return bytes(head) + bytes(2 * (16 + 32 * SLOTS)) + _stores(chains)

    # The indexer.

    async def wait_for_slot(self, slot: int, within_s: float) -> int:
        assert within_s > 0
        return slot

    def contradicted(self) -> None:
        self.contradictions += 1

    async def queue_elements(self, tree: object, **_: object) -> QueueElements:
        assert bytes(cast("bytes", tree)) == bytes(TREE)
        self.snapshots += 1
        snapshot = self.lie((self.indexed or self.model).snapshot())
        return QueueElements(context=Context(self.slot_now), state_queue=snapshot)

    # The prover.

    async def prove(self, request: BatchRequest, *, tree_id: str, batch_index: int) -> FinishedProof:
        assert tree_id == str(TREE)
        self.begun.append(batch_index)
        if gate := self.gates.get(batch_index):
            await gate.wait()
        if waiting := self.prover_faults.get(batch_index):
            raise waiting.pop(0)
        self.proved[request.public_input_hash] += 1
        mark = b"bad!" if batch_index in self.bad_proofs else b"good"
        return FinishedProof(CompressedProof(mark.ljust(32), bytes(64), bytes(32)), 5)

    # The sender.

    @property
    def payer(self) -> Pubkey:
        return PAYER

    def fitting(self, work: Sequence[Instruction]) -> int:
        return min(4, len(work))

    async def wait_for_earlier(self, purpose: str, subject: bytes, within_s: float) -> bool:
        assert subject == bytes(TREE)
        return self.settled

    async def send(
        self, work: Sequence[Instruction], *, purpose: str, subject: bytes, within_s: float, unit_limit: int | None
    ) -> Outcome:
        assert subject == bytes(TREE)
        assert within_s > 0
        self.sent.append(len(work))
        self.unit_limits.append(unit_limit)
        scripted = self.outcomes.pop(0) if self.outcomes else None
        outcome = scripted() if callable(scripted) else scripted
        if outcome is not None:
            return outcome
        executed = self.execute(work)
        if self.unseen:
            self.unseen -= 1
            return Outcome(Fate.DEADLINE_PASSED)
        return executed

    def execute(self, work: Sequence[Instruction]) -> Outcome:
        """Return all instructions or none, as the programs judge them."""
        model = copy.deepcopy(self.model)
        for place, instruction in enumerate(work):
            kind = _KINDS[bytes(instruction.data[:8])]
            waiting = (
                len(model.queued) - model.appended if kind is CircuitKind.BATCH_APPEND else len(model.nullifiers())
            )
            if waiting < ZKP:
                return self.refused(14301, place)
            model.apply(kind)
            if model.root() != instruction.data[13:45] or not instruction.data[45:].startswith(b"good"):
                return self.refused(13006, place)
        self.model = model
        return Outcome(Fate.CONFIRMED, self.slot_now)

    def refused(self, code: int, place: int = 0) -> Outcome:
        error = TransactionRefused(f"refused with {code}", program="played", code=code, instruction=place + 1)
        return Outcome(Fate.REFUSED, self.slot_now, error, place)

    # What is tested.

    def processor(self, journal: Journal, metrics: Metrics, limits: V2Limits | None = None) -> V2Processor:
        anything: Any = self
        services = V2Services(
            rpc=anything,
            indexer=anything,
            prover=anything,
            sender=anything,
            proofs=ProofStore(journal),
            permits=proof_permits(4),
            metrics=metrics,
            derivation=PAYER,
        )
        tree = TreeMetadata(TREE, TreeKind.STATE_V2, _METADATA)
        return V2Processor(tree, services, limits or V2Limits(gather_s=1e9), clock=lambda: self.now)
