import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from forester.pipeline_v2.root_reconcile import (
    Alignment,
    RootDecision,
    align_batch,
    reconcile_roots,
    reconcile_snapshot,
)

roots = st.integers(0, 3).map(lambda value: bytes([value]))


def root(value: int) -> bytes:
    return bytes([value])


@pytest.mark.parametrize(
    ("expected", "indexer", "chain", "decision"),
    [
        (0, 1, 2, RootDecision.PROCEED),
        (9, 9, 8, RootDecision.PROCEED),
        (7, 6, 7, RootDecision.WAIT),
        (7, 6, 6, RootDecision.RESET_AND_PROCEED),
        (7, 6, 5, RootDecision.RESET_AND_STOP),
    ],
)
def test_guard__published_vectors__are_met(expected: int, indexer: int, chain: int, decision: RootDecision) -> None:
    assert reconcile_roots(root(expected) if expected else None, root(indexer), root(chain)) is decision


@settings(deadline=None)
@given(st.none() | roots, roots, roots)
def test_guard__any_three_roots__spends_prover_time_on_the_root_of_the_chain_alone(
    expected: bytes | None, indexer: bytes, chain: bytes
) -> None:
    decision = reconcile_snapshot(expected, indexer, chain)
    assert not decision.proceeds or indexer == chain
    assert decision.proceeds == (indexer == chain)
    if decision.resets:
        assert expected not in (None, chain), "what still fits the chain is never dropped"


@pytest.mark.parametrize(
    ("next_index", "start", "offset", "alignment"),
    [
        (10, 11, 0, Alignment.STALE),
        (10, 0, 0, Alignment.SKIP),
        (10, 0, 8, Alignment.SKIP),
        (10, 0, 10, Alignment.PROCESS),
        (10, 0, 12, Alignment.GAP),
    ],
)
def test_alignment__published_vectors__are_met(next_index: int, start: int, offset: int, alignment: Alignment) -> None:
    assert align_batch(next_index, start, offset) is alignment
