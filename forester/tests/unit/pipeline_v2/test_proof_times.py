"""Estimates of the time of the next proof, from earlier ones."""

from __future__ import annotations

from forester.pipeline_v2.proof_times import FIRST_PROOF_S, ProofTimes


def test_usual__nothing_made_yet__is_a_guess_that_grows_with_what_waits() -> None:
    times = ProofTimes(lambda: 0.0)
    assert (times.usual(0), times.usual(3)) == (FIRST_PROOF_S, 4 * FIRST_PROOF_S)


def test_usual__prover_makes_one_after_another__grows_with_what_waits_before() -> None:
    times = ProofTimes(lambda: 0.0)
    for before in range(3):
        times.add(before, 5.0 * (before + 1))
    assert [times.usual(before) for before in (0, 1, 2)] == [5.0, 10.0, 15.0]
    assert times.usual(5) == 30.0


def test_usual__prover_makes_several_at_once__is_the_same_for_all() -> None:
    times = ProofTimes(lambda: 0.0)
    for before in range(4):
        times.add(before, 6.0)
    assert {times.usual(before) for before in range(4)} == {6.0}


def test_usual__only_later_ones_known__the_longest_of_the_nearest_counts() -> None:
    times = ProofTimes(lambda: 0.0)
    times.add(2, 9.0)
    assert (times.usual(0), times.usual(2)) == (9.0, 9.0)


def test_usual__prover_was_busy_long_ago__is_forgotten_but_for_the_last() -> None:
    now = 0.0
    times = ProofTimes(lambda: now)
    times.add(0, 60.0)
    now = 200.0
    times.add(0, 8.0)
    assert times.usual(0) == 60.0
    now = 301.0
    assert times.usual(0) == 8.0
    now = 900.0
    assert times.usual(0) == 8.0
