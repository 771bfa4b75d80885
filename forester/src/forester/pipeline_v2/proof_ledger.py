"""The state of each proof of one tree, in one store; no I/O.

Source: forester/docs/reference/behaviour.md, "Proof lifetime".

    requested -> proved -> ready <-> sent -> confirmed -> dropped when the chain has passed it
        |                    ^         |         |
        v                    |         v         v
      dropped                |      refused    ready again, if the chain has gone back
    (it failed, or        journal      |
     was passed)                       |
                                       v
                                   requested once more

The journal holds the proofs from ``ready`` on: a process that is killed in any state continues from there. It queries
the outcome of what was sent before it sends again.
"""

import enum
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from forester.journal.proofs import StoredProof
from forester.pipeline_v2.failures import HeadOutdated, RefusedAgain
from forester.pipeline_v2.staging.staged_batches import StagedBatch

Link = tuple[int, str, bytes, bytes]
"""Statement of a proof: sequence number, circuit, old and new root."""

WindowId = tuple[int, int]
"""Epoch and first slot of an eligibility window."""

_MAXIMUM_REFUSALS = 2


class ProofState(enum.Enum):
    """State of a proof."""

    REQUESTED = "requested"
    """The prover makes it, or will."""
    PROVED = "proved"
    """Finished, but not in the journal yet."""
    READY = "ready"
    """In the journal, to be sent."""
    SENT = "sent"
    """In a transaction with unknown outcome."""
    CONFIRMED = "confirmed"
    """Landed in a confirmed transaction."""
    REFUSED = "refused"
    """Dropped because the chain refuses it although it fits."""

    @property
    def is_under_way(self) -> bool:
        """Return whether the proof cannot be sent yet."""
        return self in (ProofState.REQUESTED, ProofState.PROVED)

    @property
    def is_sendable(self) -> bool:
        """Return whether the proof can be sent, or sent again."""
        return self in (ProofState.READY, ProofState.SENT)


_PREFERENCE = (ProofState.SENT, ProofState.READY, ProofState.PROVED, ProofState.REQUESTED)
"""States of proofs that may continue from a root, the preferred one of equal continuations first."""


@dataclass(frozen=True)
class TrackedProof:
    """A proof with its state; the ``proof`` of a requested one is empty.

    ``window`` is the one in which it was requested, None if it was made ahead or by another process. The batch has had
    ``refusals`` in a row, the last one at ``refused_at``.
    """

    proof: StoredProof
    state: ProofState
    window: WindowId | None = None
    refusals: int = 0
    refused_at: float = 0.0


def link_of(proof: StoredProof) -> Link:
    """Return the statement of a proof."""
    return proof.sequence, proof.circuit, proof.old_root, proof.new_root


def link_of_batch(batch: StagedBatch) -> Link:
    """Return the statement of the proof of a batch."""
    return batch.sequence, batch.kind.value, batch.old_root, batch.new_root


def stored_proof(tree: bytes, batch: StagedBatch, proof: bytes) -> StoredProof:
    """Return the journal's record of the proof of a batch."""
    return StoredProof(tree, *link_of_batch(batch), batch.start_index, batch.elements, proof)


def longest_chain(proofs: Sequence[StoredProof], root: bytes, sequence: int) -> tuple[StoredProof, ...]:
    """Return the proofs that continue from a root and sequence number, one after another; of several, the longest.

    Proofs from other roots may still fit later: appends and nullifications commute, so another forester's order can
    lead to the same root.
    """
    longest: dict[tuple[int, bytes], tuple[int, StoredProof]] = {}
    # From the furthest proof backwards: the longest continuation from each head.
    for proof in sorted(proofs, key=lambda proof: -proof.sequence):
        length = 1 + longest.get((proof.sequence + 1, proof.new_root), (0, proof))[0]
        head = (proof.sequence, proof.old_root)
        if head not in longest or length > longest[head][0]:
            longest[head] = (length, proof)
    chain: list[StoredProof] = []
    head = (sequence, root)
    while head in longest:
        chain.append(longest[head][1])
        head = (chain[-1].sequence + 1, chain[-1].new_root)
    return tuple(chain)


class ProofLedger:
    """The proofs of the tree ``name``.

    For ``kept_s`` seconds a tree older than our confirmed work is not accepted, and a batch whose proofs the chain has
    refused is not proved again.
    """

    def __init__(self, name: str, kept_s: float, clock: Callable[[], float]) -> None:
        self._name = name
        self._kept_s = kept_s
        self._clock = clock
        self._proofs: dict[Link, TrackedProof] = {}
        self._landed: tuple[int, float] | None = None
        self._order: dict[int, str] = {}
        self._failed: set[Link] = set()

    def restore(self, proofs: Iterable[StoredProof]) -> None:
        """Add the proofs of the journal."""
        self._proofs.update({link_of(proof): TrackedProof(proof, ProofState.READY) for proof in proofs})

    @property
    def landed_sequence(self) -> int:
        """Sequence number up to which our transactions moved the tree, 0 if there were none."""
        return self._landed[0] if self._landed is not None else 0

    @property
    def under_way(self) -> int:
        """Number of proofs that are requested and cannot be sent yet."""
        return sum(tracked.state.is_under_way for tracked in self._proofs.values())

    def state_of(self, link: Link) -> ProofState | None:
        """Return the state of a proof, None if there is none."""
        tracked = self._proofs.get(link)
        return tracked.state if tracked is not None else None

    def chain(self, root: bytes, sequence: int) -> tuple[TrackedProof, ...]:
        """Return the proofs that continue from a root, those under way included."""
        usable = [tracked for tracked in self._proofs.values() if tracked.state in _PREFERENCE]
        usable.sort(key=lambda tracked: _PREFERENCE.index(tracked.state))
        proofs = longest_chain([tracked.proof for tracked in usable], root, sequence)
        return tuple(self._proofs[link_of(proof)] for proof in proofs)

    def order(self, root: bytes, sequence: int) -> list[str]:
        """Return the circuits of the proofs that continue from a root, then those of the batches requested after them.

        A failed proof that is made again in the same order leads to the finished ones after it.
        """
        circuits = [tracked.proof.circuit for tracked in self.chain(root, sequence)]
        while (circuit := self._order.get(sequence + len(circuits))) is not None:
            circuits.append(circuit)
        return circuits

    def needs_proof(self, link: Link) -> bool:
        """Return whether a batch must be proved; raises RefusedAgain if the chain refuses every proof of it."""
        tracked = self._proofs.get(link)
        if tracked is None or tracked.state is not ProofState.REFUSED:
            return tracked is None
        if tracked.refusals >= _MAXIMUM_REFUSALS and self._clock() - tracked.refused_at < self._kept_s:
            raise RefusedAgain(
                f"the chain refused {tracked.refusals} proofs of {link[1]} batch {link[0]}; the next one is made "
                f"{self._kept_s:g} s after the last; compare the keys of the prover with those of the programs"
            )
        return True

    def requested(self, statement: StoredProof, window: WindowId | None) -> None:
        """Record a request."""
        link = link_of(statement)
        earlier = self._proofs.get(link, TrackedProof(statement, ProofState.REQUESTED))
        self._proofs[link] = replace(earlier, proof=statement, state=ProofState.REQUESTED, window=window)
        self._order[statement.sequence] = statement.circuit

    def proved(self, proof: StoredProof) -> None:
        """Record a finished proof."""
        self._proofs[link_of(proof)] = replace(self._proofs[link_of(proof)], proof=proof, state=ProofState.PROVED)

    def stored(self, proof: StoredProof) -> None:
        """Record that a proof can be sent."""
        self._move([proof], ProofState.READY)

    def failed(self, link: Link) -> None:
        """Drop a request whose proof failed; earlier refusals still count."""
        self.cancelled(link)
        self._doubt_order(link)

    def cancelled(self, link: Link) -> None:
        """Drop a request that was cancelled; earlier refusals still count."""
        if self._proofs[link].refusals:
            self._proofs[link] = replace(self._proofs[link], state=ProofState.REFUSED)
        else:
            del self._proofs[link]

    def sent(self, group: Sequence[StoredProof]) -> None:
        """Record that proofs are sent in one transaction; an earlier one with unknown outcome is abandoned."""
        self._move(self._sent(), ProofState.READY)
        self._move(group, ProofState.SENT)

    def unsent(self, group: Sequence[StoredProof]) -> None:
        """Record that the transaction of proofs did not land and will not."""
        self._move(group, ProofState.READY)

    def landed(self, group: Sequence[StoredProof]) -> list[TrackedProof]:
        """Record that the transaction of proofs was confirmed, and return them."""
        self._landed = (group[-1].sequence + 1, self._clock())
        self._move(group, ProofState.CONFIRMED)
        return [self._proofs[link_of(proof)] for proof in group]

    def refused(self, proof: StoredProof) -> None:
        """Drop a proof that the chain refuses although it fits."""
        tracked, now = self._proofs[link_of(proof)], self._clock()
        refusals = tracked.refusals + 1 if now - tracked.refused_at < self._kept_s else 1
        self._proofs[link_of(proof)] = replace(
            tracked, state=ProofState.REFUSED, refusals=refusals, refused_at=now, window=None
        )
        self._doubt_order(link_of(proof))

    def settle(self, root: bytes, sequence: int) -> list[TrackedProof]:
        """Compare the transaction with unknown outcome with the tree, and return its proofs if they have landed."""
        group = self._sent()
        if not group or sequence <= group[0].sequence:
            return []
        if (root, sequence) == (group[-1].new_root, group[-1].sequence + 1):
            return self.landed(group)
        self._move(group, ProofState.READY)
        return []

    def require_no_older(self, sequence: int) -> None:
        """Raise HeadOutdated for a tree older than our confirmed work.

        After some time the chain is accepted: it may have gone back, so that confirmed proofs must be sent again.
        """
        if self._landed is None or sequence >= self._landed[0]:
            return
        if self._clock() - self._landed[1] < self._kept_s:
            raise HeadOutdated(f"the node returns {self._name} at {sequence}, but {self._landed[0]} was confirmed")
        self._landed = None
        confirmed = [item.proof for item in self._proofs.values() if item.state is ProofState.CONFIRMED]
        self._move(confirmed, ProofState.READY)

    def forget_before(self, sequence: int) -> bool:
        """Drop the proofs that the chain has passed; return whether there were any. Those under way end first."""
        passed = [link for link, item in self._proofs.items() if link[0] < sequence and not item.state.is_under_way]
        for link in passed:
            del self._proofs[link]
        self._order = {number: circuit for number, circuit in self._order.items() if number >= sequence}
        self._failed = {link for link in self._failed if link[0] >= sequence}
        return bool(passed)

    def _doubt_order(self, link: Link) -> None:
        """Drop the order from a batch on when it fails again: those of the other circuit may still be possible."""
        if link in self._failed:
            self._order = {number: circuit for number, circuit in self._order.items() if number < link[0]}
        self._failed ^= {link}

    def _sent(self) -> list[StoredProof]:
        sent = [tracked.proof for tracked in self._proofs.values() if tracked.state is ProofState.SENT]
        return sorted(sent, key=lambda proof: proof.sequence)

    def _move(self, proofs: Iterable[StoredProof], state: ProofState) -> None:
        for proof in proofs:
            link = link_of(proof)
            self._proofs[link] = replace(self._proofs[link], state=state)
