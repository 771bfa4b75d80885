from hypothesis import given, settings
from hypothesis import strategies as st

from forester.journal.proofs import StoredProof
from forester.pipeline_v2.proof_cache import select_proofs


def proof(sequence: int, old: int, new: int, circuit: str = "append") -> StoredProof:
    return StoredProof(b"tree", sequence, circuit, bytes([old]), bytes([new]), 0, 10, bytes(128))


def test_select__stored_chain__goes_on_from_the_root_of_the_chain() -> None:
    proofs = [proof(sequence, sequence, sequence + 1) for sequence in range(5, 10)]
    selection = select_proofs(proofs, bytes([7]), 7)
    assert selection.chain == tuple(proofs[2:])
    assert selection.obsolete == tuple(proofs[:2])
    assert selection.ahead == ()
    assert selection.end(bytes([7]), 7) == (bytes([10]), 10)


def test_select__gap_after_a_failed_proof__keeps_what_lies_behind_it() -> None:
    proofs = [proof(5, 5, 6), proof(7, 7, 8)]
    selection = select_proofs(proofs, bytes([5]), 5)
    assert (selection.chain, selection.ahead, selection.obsolete) == ((proofs[0],), (proofs[1],), ())


def test_select__tree_moved_by_another__fits_again_where_both_ways_meet() -> None:
    ours = [proof(5, 5, 6), proof(6, 6, 9, "update"), proof(7, 9, 10)]
    moved = select_proofs(ours, bytes([77]), 6)
    assert (moved.chain, moved.ahead, moved.obsolete) == ((), tuple(ours[1:]), (ours[0],))
    assert moved.end(bytes([77]), 6) == (bytes([77]), 6)
    met = select_proofs(ours, bytes([9]), 7)
    assert met.chain == (ours[2],)


def test_select__root_of_another_sequence__does_not_fit() -> None:
    # An append of accounts that were all nullified leaves the root as it is.
    proofs = [proof(5, 5, 5), proof(6, 5, 6)]
    assert select_proofs(proofs, bytes([5]), 5).chain == tuple(proofs)
    assert select_proofs(proofs, bytes([5]), 6).chain == (proofs[1],)
    assert select_proofs(proofs, bytes([5]), 7).chain == ()


def test_select__several_ways_on__takes_the_longest() -> None:
    short, long = proof(5, 1, 2, "append"), [proof(5, 1, 3, "update"), proof(6, 3, 4)]
    for order in ([short, *long], [*long, short]):
        assert select_proofs(order, bytes([1]), 5).chain == tuple(long)


steps = st.builds(proof, st.integers(0, 4), st.integers(0, 3), st.integers(0, 3), st.sampled_from(["append", "update"]))


@settings(deadline=None)
@given(st.lists(steps, unique=True, max_size=12), st.integers(0, 3), st.integers(0, 5))
def test_select__any_proofs__loses_none_and_chains_those_that_fit(
    proofs: list[StoredProof], root: int, sequence: int
) -> None:
    selection = select_proofs(proofs, bytes([root]), sequence)
    groups = [*selection.chain, *selection.ahead, *selection.obsolete]
    assert sorted(groups, key=repr) == sorted(proofs, key=repr)
    place = (sequence, bytes([root]))
    for chained in selection.chain:
        assert (chained.sequence, chained.old_root) == place
        place = (chained.sequence + 1, chained.new_root)
    assert not any((other.sequence, other.old_root) == place for other in selection.ahead), "it goes as far as it can"
    assert all(other.sequence < sequence for other in selection.obsolete)
