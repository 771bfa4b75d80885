"""The states of a tree's proofs, and the chain of them that continues from a root."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from forester.journal.proofs import StoredProof
from forester.pipeline_v2.failures import HeadOutdated, RefusedAgain
from forester.pipeline_v2.proof_ledger import ProofLedger, ProofState, link_of, longest_chain

KEPT_S = 60.0


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def proof(sequence: int, old: int, new: int, circuit: str = "append") -> StoredProof:
    return StoredProof(b"tree", sequence, circuit, bytes([old]), bytes([new]), 0, 10, bytes(128))


def restored(*proofs: StoredProof, clock: Clock | None = None) -> ProofLedger:
    ledger = ProofLedger("tree", KEPT_S, clock or Clock())
    ledger.restore(proofs)
    return ledger


def states(ledger: ProofLedger, root: int, sequence: int) -> list[ProofState]:
    return [tracked.state for tracked in ledger.chain(bytes([root]), sequence)]


def test_chain__stored_proofs__continue_from_the_root() -> None:
    proofs = [proof(sequence, sequence, sequence + 1) for sequence in range(5, 10)]
    assert longest_chain(proofs, bytes([7]), 7) == tuple(proofs[2:])


def test_chain__gap_after_a_failed_proof__ends_before_it() -> None:
    proofs = [proof(5, 5, 6), proof(7, 7, 8)]
    assert longest_chain(proofs, bytes([5]), 5) == (proofs[0],)


def test_chain__tree_moved_by_another__fits_again_where_both_orders_meet() -> None:
    ours = [proof(5, 5, 6), proof(6, 6, 9, "update"), proof(7, 9, 10)]
    assert longest_chain(ours, bytes([77]), 6) == ()
    assert longest_chain(ours, bytes([9]), 7) == (ours[2],)


def test_chain__root_of_another_sequence__does_not_fit() -> None:
    # An append of accounts that were all nullified leaves the root as it is.
    proofs = [proof(5, 5, 5), proof(6, 5, 6)]
    assert longest_chain(proofs, bytes([5]), 5) == tuple(proofs)
    assert longest_chain(proofs, bytes([5]), 6) == (proofs[1],)
    assert longest_chain(proofs, bytes([5]), 7) == ()


def test_chain__several_continuations__is_the_longest() -> None:
    short, long = proof(5, 1, 2, "append"), [proof(5, 1, 3, "update"), proof(6, 3, 4)]
    for order in ([short, *long], [*long, short]):
        assert longest_chain(order, bytes([1]), 5) == tuple(long)


def test_chain__equal_continuations__prefers_the_proof_that_can_be_sent() -> None:
    ledger = ProofLedger("tree", KEPT_S, Clock())
    ledger.requested(proof(5, 1, 2, "update"), None)
    ledger.restore([proof(5, 1, 2, "append")])
    assert states(ledger, 1, 5) == [ProofState.READY]


statements = st.builds(
    proof, st.integers(0, 4), st.integers(0, 3), st.integers(0, 3), st.sampled_from(["append", "update"])
)


@settings(deadline=None)
@given(st.lists(statements, unique=True, max_size=12), st.integers(0, 3), st.integers(0, 5))
def test_chain__any_proofs__goes_as_far_as_it_can(proofs: list[StoredProof], root: int, sequence: int) -> None:
    chain = longest_chain(proofs, bytes([root]), sequence)
    head = (sequence, bytes([root]))
    for chained in chain:
        assert (chained.sequence, chained.old_root) == head
        head = (chained.sequence + 1, chained.new_root)
    assert not any((other.sequence, other.old_root) == head for other in proofs)


def test_states__from_request_to_confirmation__follow_one_another() -> None:
    ledger, made = ProofLedger("tree", KEPT_S, Clock()), proof(5, 5, 6)
    seen = []

    def note() -> None:
        seen.append(ledger.state_of(link_of(made)))

    note()
    ledger.requested(proof(5, 5, 6), (7, 100))
    note()
    assert ledger.under_way == 1
    ledger.proved(made)
    note()
    assert ledger.under_way == 1
    ledger.stored(made)
    note()
    ledger.sent([made])
    note()
    (landed,) = ledger.landed([made])
    note()
    assert seen == [None, *(list(ProofState)[:5])]
    assert (landed.window, ledger.landed_sequence, ledger.under_way) == ((7, 100), 6, 0)
    assert states(ledger, 5, 5) == [], "a confirmed proof is not sent again"
    assert not ledger.needs_proof(link_of(made)), "nor made again"
    assert ledger.forget_before(6)
    note()
    assert seen[-1] is None
    assert not ledger.forget_before(6)


def test_forget_before__proof_under_way__is_dropped_when_it_has_ended() -> None:
    ledger, made = ProofLedger("tree", KEPT_S, Clock()), proof(5, 5, 6)
    ledger.requested(made, None)
    assert not ledger.forget_before(9)
    ledger.proved(made)
    ledger.stored(made)
    assert ledger.forget_before(9)


def test_failed__request__may_be_made_again() -> None:
    ledger, wanted = ProofLedger("tree", KEPT_S, Clock()), proof(5, 5, 6)
    ledger.requested(wanted, None)
    assert not ledger.needs_proof(link_of(wanted))
    ledger.failed(link_of(wanted))
    assert ledger.needs_proof(link_of(wanted))


def test_order__obsolete_requests_of_two_branches_are_cancelled__stays() -> None:
    ledger = ProofLedger("tree", KEPT_S, Clock())
    left, taken = proof(5, 1, 2), proof(5, 5, 6)
    ahead = [proof(6, 6, 7, "update"), proof(7, 7, 8)]
    for wanted in (left, taken, *ahead):
        ledger.requested(wanted, None)
    ledger.forget_before(6)
    for obsolete in (left, taken):
        ledger.cancelled(link_of(obsolete))
    assert ledger.order(bytes([9]), 6) == ["update", "append"]


def test_order__same_proof_fails_again__ends_before_it() -> None:
    ledger = ProofLedger("tree", KEPT_S, Clock())
    wanted = [proof(5, 5, 6), proof(6, 6, 7, "update"), proof(7, 7, 8)]
    for item in wanted:
        ledger.requested(item, None)
    ledger.failed(link_of(wanted[1]))
    assert ledger.order(bytes([5]), 5) == ["append", "update", "append"]
    ledger.requested(wanted[1], None)
    ledger.failed(link_of(wanted[1]))
    assert ledger.order(bytes([5]), 5) == ["append"]


def test_settle__tree_at_the_end_of_the_group__has_landed() -> None:
    group = [proof(5, 5, 6), proof(6, 6, 7)]
    ledger = restored(*group)
    ledger.sent(group)
    assert ledger.settle(bytes([5]), 5) == []
    assert states(ledger, 5, 5) == [ProofState.SENT] * 2, "it may still land"
    assert [tracked.proof for tracked in ledger.settle(bytes([7]), 7)] == group
    assert ledger.settle(bytes([7]), 7) == [], "once"


def test_settle__tree_moved_by_another__leaves_what_may_still_fit() -> None:
    group = [proof(5, 5, 6), proof(6, 6, 7)]
    ledger = restored(*group)
    ledger.sent(group)
    assert ledger.settle(bytes([6]), 6) == []
    assert states(ledger, 6, 6) == [ProofState.READY]


def test_sent__another_group__abandons_the_one_before() -> None:
    first, second = proof(5, 5, 6), proof(6, 8, 9)
    ledger = restored(first, second)
    ledger.sent([first])
    ledger.sent([second])
    assert states(ledger, 5, 5) == [ProofState.READY]
    assert states(ledger, 8, 6) == [ProofState.SENT]


def test_refused__twice__is_not_proved_again_for_some_time() -> None:
    clock = Clock()
    made = proof(5, 5, 6)
    ledger = restored(made, clock=clock)
    ledger.refused(made)
    assert (states(ledger, 5, 5), ledger.needs_proof(link_of(made))) == ([], True)
    ledger.requested(made, None)
    ledger.proved(made)
    ledger.stored(made)
    clock.now += KEPT_S / 2
    ledger.refused(made)
    with pytest.raises(RefusedAgain, match="refused 2 proofs of append batch 5"):
        ledger.needs_proof(link_of(made))
    clock.now += KEPT_S
    assert ledger.needs_proof(link_of(made))
    ledger.refused(made)
    assert ledger.needs_proof(link_of(made)), "the count begins again"


def test_refused__request_fails_afterwards__is_still_counted() -> None:
    made = proof(5, 5, 6)
    ledger = restored(made)
    ledger.refused(made)
    ledger.requested(made, None)
    ledger.failed(link_of(made))
    ledger.requested(made, None)
    ledger.refused(made)
    with pytest.raises(RefusedAgain):
        ledger.needs_proof(link_of(made))


def test_older_tree__after_some_time__is_accepted_and_confirmed_proofs_are_sent_again() -> None:
    clock, made = Clock(), proof(5, 5, 6)
    ledger = restored(made, clock=clock)
    ledger.require_no_older(0)
    ledger.sent([made])
    ledger.landed([made])
    ledger.require_no_older(6)
    with pytest.raises(HeadOutdated, match="tree at 5, but 6 was confirmed"):
        ledger.require_no_older(5)
    clock.now += KEPT_S
    ledger.require_no_older(5)
    assert states(ledger, 5, 5) == [ProofState.READY]
    assert ledger.landed_sequence == 0
