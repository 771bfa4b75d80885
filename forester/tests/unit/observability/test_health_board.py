"""The board of problems: few names, reasons without secrets, reported ends."""

from __future__ import annotations

from forester.observability.health import MAXIMUM_CONDITIONS, TASK_FAILURES, TASK_QUIET_S, HealthBoard, Problem


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def listening(board: HealthBoard) -> list[tuple[str, Problem | None]]:
    found: list[tuple[str, Problem | None]] = []
    board.subscribe(lambda condition, problem: found.append((condition, problem)))
    return found


def test_board__reported_and_cleared__reports_once_each_and_keeps_the_begin() -> None:
    clock = Clock()
    board = HealthBoard(clock=clock)
    found = listening(board)
    assert not board.problems
    board.report("funds", "insufficient funds: 0.0001 SOL")
    clock.now += 60
    board.report("funds", "insufficient funds: 0.0000 SOL")
    (problem,) = board.problems
    assert (problem.since, problem.reason) == (1000.0, "insufficient funds: 0.0000 SOL")
    board.clear("funds")
    board.clear("funds")
    assert not board.problems
    assert [(condition, found is None) for condition, found in found] == [("funds", False), ("funds", True)]


def test_board__first_clear_of_a_condition__is_reported_so_that_old_incidents_end() -> None:
    board = HealthBoard()
    found = listening(board)
    board.clear("registration")
    board.clear("registration")
    assert found == [("registration", None)]


def test_board__reason_with_credentials__holds_none() -> None:
    board = HealthBoard()
    board.report("task discovery", "https://user:passw0rd@rpc.example/?api-key=s3cr3tkey cannot be reached")
    (problem,) = board.problems
    assert "rpc.example" in problem.reason
    assert "passw0rd" not in problem.reason
    assert "s3cr3tkey" not in problem.reason


def test_board__task_that_keeps_failing__is_a_problem_until_it_is_quiet() -> None:
    clock = Clock()
    board = HealthBoard(clock=clock)
    found = listening(board)
    for failures in range(1, TASK_FAILURES):
        board.task_failed("discovery", failures, "no answer")
    assert not board.problems
    board.task_failed("discovery", TASK_FAILURES, "no answer")
    clock.now += TASK_QUIET_S - 1
    board.task_failed("discovery", TASK_FAILURES + 1, "no answer")
    clock.now += TASK_QUIET_S - 1
    assert [problem.condition for problem in board.problems] == ["task discovery"]
    clock.now += 1
    board.sweep()
    assert [found is None for _, found in found] == [False, True]
    assert not board.problems


def test_board__endless_names__is_bounded() -> None:
    board = HealthBoard()
    for number in range(10 * MAXIMUM_CONDITIONS):
        board.report(f"made up {number}", "x")
        board.clear(f"never held {number}")
    assert len(board.problems) == MAXIMUM_CONDITIONS
