"""One tree on a chain, foresters that move it by their decisions and ledgers, a journal that survives kills."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace

from forester.epoch.phases import CONFIRMATION_SLOTS, SlotRange
from forester.journal.proofs import StoredProof
from forester.pipeline_v2.failures import RefusedAgain
from forester.pipeline_v2.proof_ledger import Link, ProofLedger, ProofState, link_of
from forester.pipeline_v2.round_decisions import RoundAction, RoundState, Step, next_action

LIMIT = 3
WINDOW = SlotRange(1000, 2000)
KEPT_S = 60.0
_CAPACITY = 2
_MAXIMUM_STEPS = 200


class _Killed(Exception):
    """The process ends here."""


class RoundSimulation:
    """Rounds on ``batches`` filled batches; ``chance`` decides what happens, unless ``calm``.

    A branch is an order of batches: another forester with another order moves the tree to a root of its own.
    """

    def __init__(self, batches: int, chance: random.Random) -> None:
        self.chance = chance
        self.calm = False
        self.batches = batches
        self.head = (0, 0)
        self.journal: dict[Link, StoredProof] = {}
        self.landed: set[Link] = set()
        self.made: Counter[Link] = Counter()
        self.lost: Counter[Link] = Counter()
        """Proofs that were dropped for a good reason: refused, or killed before they were stored."""
        self.now = 0.0
        self.kills = 0
        self._start()

    def _start(self) -> None:
        self.ledger = ProofLedger("tree", KEPT_S, lambda: self.now)
        self.ledger.restore(self.journal.values())
        self._requests: dict[Link, StoredProof] = {}

    def round(self) -> None:
        """Run one round, or a part of it if the process is killed; another process then runs the next one."""
        try:
            self._round(sends=self.calm or self.chance.random() < 0.7)
        except _Killed:
            self.kills += 1
            self._start()
        self.now += 2 * KEPT_S if self.calm else 1.0

    def _round(self, *, sends: bool) -> None:
        sequence, _ = self.head
        self.ledger.require_no_older(sequence)
        self.ledger.settle(_root(*self.head), sequence)
        if self.ledger.forget_before(sequence):
            self.journal = {link: proof for link, proof in self.journal.items() if link[0] >= sequence}
        self._ours, self._landed_now, self._staged, self._stopped, self._failed = self.head, 0, False, False, False
        self._before = len(self._chain())
        for number in range(_MAXIMUM_STEPS):
            state = self._state(sends)
            step = next_action(state)
            _check(state, step)
            match step.action:
                case RoundAction.SEND:
                    self._send(step.batches)
                case RoundAction.STAGE:
                    self._stage(step.batches)
                case RoundAction.WAIT:
                    self._wait(last=number > _MAXIMUM_STEPS // 2)
                case RoundAction.READ | RoundAction.END:
                    return
        raise AssertionError("the round does not end")

    def _chain(self) -> list[StoredProof]:
        return [item.proof for item in self.ledger.chain(_root(*self._ours), self._ours[0])]

    def _state(self, sends: bool) -> RoundState:
        chain = self.ledger.chain(_root(*self._ours), self._ours[0])
        may_begin = self.calm or self.chance.random() < 0.8
        slots = (WINDOW.first + 100, WINDOW.last - 8, WINDOW.last) if sends else (0, WINDOW.first - 5)
        state = RoundState(
            window=WINDOW,
            slot=slots[0] if self.calm else self.chance.choice(slots),
            sends=sends,
            limit=LIMIT,
            provable=max(0, self.batches - self._ours[0]),
            may_begin=may_begin,
            begins_soon=may_begin or self.chance.random() < 0.2,
            chain=tuple(item.state for item in chain),
            under_way=self.ledger.under_way,
            landed=self._landed_now,
            gathered=self.chance.random() < 0.3,
            staged=self._staged,
            chain_before=self._before,
            has_room=self.calm or self.chance.random() < 0.9,
            stopped=self._stopped,
            failed=self._failed,
        )
        return replace(state, fitting=min(_CAPACITY, state.ready + 1))

    def _stage(self, batches: int) -> None:
        self._staged = True
        sequence, branch = self._ours
        for number in range(sequence, min(sequence + batches, self.batches)):
            proof = StoredProof(b"tree", number, "append", _root(number, branch), _root(number + 1, branch), 0, 1, b"")
            try:
                if self.ledger.needs_proof(link_of(proof)):
                    assert link_of(proof) not in self.journal, "a stored proof is made again"
                    self.ledger.requested(proof, None)
                    self._requests[link_of(proof)] = proof
            except RefusedAgain:
                self._failed = True
                return
            self._may_be_killed()

    def _wait(self, *, last: bool) -> None:
        for link, proof in list(self._requests.items()):
            result = "proved" if self.calm or last else self.chance.choice(["proved", "proved", "failed", "nothing"])
            if result == "failed":
                self.ledger.failed(link)
                self._failed = True
            elif result == "proved":
                made = replace(proof, proof=b"proof")
                self.made[link] += 1
                self.ledger.proved(made)
                self.lost[link] += 1
                self._may_be_killed()
                self.lost[link] -= 1
                self.journal[link] = made
                self._may_be_killed()
                self.ledger.stored(made)
            if result != "nothing":
                del self._requests[link]

    def _send(self, count: int) -> None:
        group = self._chain()[:count]
        assert all(proof.proof for proof in group)
        assert not self.landed & {link_of(proof) for proof in group}, "a proof that has landed is sent again"
        self.ledger.sent(group)
        if not self.calm and self.chance.random() < 0.15:
            sequence, branch = self.head
            if sequence < self.batches:
                self.head = sequence + 1, branch + self.chance.randrange(2)
        self._may_be_killed()
        fits = (group[0].sequence, group[0].old_root) == (self.head[0], _root(*self.head))
        fates = ["landed", "landed", "unknown", "unseen", "lost", "refused"] if fits else ["refused", "lost", "unknown"]
        match fates[0] if self.calm else self.chance.choice(fates):
            case "landed":
                self._land(group)
                self.ledger.landed(group)
                self._ours = self.head
                self._landed_now += len(group)
                return
            case "unseen":
                self._land(group)
            case "lost":
                self.ledger.unsent(group)
            case "refused":
                self.ledger.unsent(group)
                if fits:
                    self.ledger.refused(group[0])
                    self.journal.pop(link_of(group[0]))
                    self.lost[link_of(group[0])] += 1
                else:
                    self._ours = self.head
        self._stopped = self._failed = True

    def _land(self, group: list[StoredProof]) -> None:
        self.landed |= {link_of(proof) for proof in group}
        self.head = group[-1].sequence + 1, int.from_bytes(group[-1].new_root[8:])
        self._may_be_killed()

    def _may_be_killed(self) -> None:
        if not self.calm and self.chance.random() < 0.03:
            raise _Killed


def _root(sequence: int, branch: int) -> bytes:
    return sequence.to_bytes(8, "big") + branch.to_bytes(8, "big")


def _check(state: RoundState, step: Step) -> None:
    """Require a step that is possible in a state, and for each wait an event that ends it."""
    match step.action:
        case RoundAction.SEND:
            assert state.sends
            assert not state.stopped
            assert 1 <= step.batches <= state.ready
            assert state.window.remaining(state.slot) >= CONFIRMATION_SLOTS
        case RoundAction.STAGE:
            assert state.may_begin
            assert not state.staged
            assert step.batches > len(state.chain)
        case RoundAction.WAIT:
            assert state.under_way or state.begins_soon
            assert step.seconds > 0
        case RoundAction.READ:
            assert not state.sends
        case RoundAction.END:
            idle = not state.sends or state.stopped or state.window.remaining(state.slot) < CONFIRMATION_SLOTS
            assert idle or not state.ready or state.landed >= state.limit
    assert ProofState.CONFIRMED not in state.chain
    assert ProofState.REFUSED not in state.chain
