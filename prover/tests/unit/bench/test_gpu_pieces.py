"""Pieces of the stages of gpu.sh: what passed is not run again, all else is."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

PIECES = Path(__file__).resolve().parents[3] / "bench" / "gpu" / "pieces.bash"
NAMES = ("first", "second", "third")


class Stage:
    """A stage of three pieces, whose program is a script that notes each of its runs."""

    def __init__(self, folder: Path) -> None:
        self.results = folder / "results"
        self.program, self.library = folder / "program", folder / "library"
        self.runs, self.bad = folder / "runs", folder / "bad"
        self.runs.touch()
        self.library.write_text("of Monday")
        self.stage = folder / "stage"
        self.write_program("")

    def write_program(self, more: str) -> None:
        self.program.write_text(
            f'#!/bin/sh\necho "$2" >>"{self.runs}"\necho "{{\\"piece\\": \\"$2\\"}}"\n{more}\n'
            f'! grep -qx "$2" "{self.bad}" 2>/dev/null\n'
        )
        self.program.chmod(0o755)
        pieces = "\n".join(f'piece {name}.jsonl "{self.program}" "{self.library}" {name}' for name in NAMES)
        self.stage.write_text(
            f'set -euo pipefail\nresults="{self.results}"\nmkdir -p "$results"\n. "{PIECES}"\n{pieces}\nend_pieces\n'
        )

    def begin(self, **variables: str) -> subprocess.Popen[str]:
        environment = {name: value for name, value in os.environ.items() if name != "AGAIN"} | variables
        return subprocess.Popen(
            ["bash", str(self.stage)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=environment,
            start_new_session=True,
        )

    def run(self, **variables: str) -> tuple[int, list[str], str]:
        """Exit status, the pieces that ran, and what was said on standard error."""
        self.runs.write_text("")
        process = self.begin(**variables)
        _, said = process.communicate(timeout=60)
        return process.returncode, self.runs.read_text().split(), said


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    return Stage(tmp_path)


def test_pieces__that_passed__do_not_run_again(stage: Stage) -> None:
    assert stage.run()[:2] == (0, list(NAMES))
    assert (stage.results / "second.jsonl").read_text() == '{"piece": "second"}\n'
    status, ran, said = stage.run()
    assert (status, ran) == (0, [])
    assert "first.jsonl: passed before" in said
    assert "--again" in said


def test_pieces__of_another_library_or_program_or_forced__all_run_again(stage: Stage) -> None:
    stage.run()
    stage.library.write_text("of Tuesday")
    assert stage.run()[1] == list(NAMES)
    stage.write_program("# another build")
    assert stage.run()[1] == list(NAMES)
    assert stage.run(AGAIN="1")[1] == list(NAMES)
    assert stage.run()[1] == []


def test_piece__that_failed__fails_the_stage_after_the_others_and_runs_again_alone(stage: Stage) -> None:
    stage.bad.write_text("second\n")
    status, ran, said = stage.run()
    assert (status, ran) == (1, list(NAMES))
    assert "FAILED" in said
    assert "second.jsonl" in said
    assert stage.run()[:2] == (1, ["second"])
    stage.bad.unlink()
    assert stage.run()[:2] == (0, ["second"])
    assert stage.run()[1] == []


def test_piece__that_passed_before__counts_no_more_once_it_failed(stage: Stage) -> None:
    stage.run()
    stage.bad.write_text("third\n")
    assert stage.run(AGAIN="1")[0] == 1
    stage.bad.unlink()
    assert stage.run()[:2] == (0, ["third"])


def test_stage__killed_within_a_piece__continues_with_that_piece(stage: Stage, tmp_path: Path) -> None:
    stuck = tmp_path / "stuck"
    stuck.touch()
    # Its line is written before it hangs: a torn result, which looks like a whole one.
    stage.write_program(f'while [ "$2" = second ] && [ -e "{stuck}" ]; do sleep 0.05; done')
    process = stage.begin()
    deadline = time.monotonic() + 60
    torn = stage.results / "second.jsonl"
    while not (torn.exists() and torn.read_text()):
        assert time.monotonic() < deadline
        time.sleep(0.02)
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate(timeout=60)
    stuck.unlink()
    assert stage.run()[:2] == (0, ["second", "third"])


def test_piece__whose_result_is_gone_or_empty__runs_again(stage: Stage) -> None:
    stage.run()
    (stage.results / "first.jsonl").unlink()
    (stage.results / "third.jsonl").write_text("")
    assert stage.run()[:2] == (0, ["first", "third"])


def test_piece__without_any_output__is_a_failure(stage: Stage) -> None:
    stage.program.write_text("#!/bin/sh\n")
    status, _, said = stage.run()
    assert status == 1
    assert all(f"{name}.jsonl" in said for name in NAMES)


def test_pieces__for_which_a_call_has_no_time__are_left_for_the_next(stage: Stage) -> None:
    status, ran, said = stage.run(RUN_SECONDS="299")
    assert (status, ran) == (3, [])
    assert "3 pieces are left" in said
    assert stage.run(RUN_SECONDS="400")[:2] == (0, list(NAMES))


def test_piece__that_takes_longer_than_its_limit__is_killed_and_fails(stage: Stage) -> None:
    stage.write_program('[ "$2" != second ] || exec sleep 60')
    stage.stage.write_text(stage.stage.read_text().replace("piece first", "piece_limit=1\npiece first", 1))
    status, ran, said = stage.run()
    assert (status, ran) == (1, list(NAMES))
    assert "second.jsonl: killed after 1 s" in said


def test_dry_run__lists_the_pieces_and_runs_none(stage: Stage) -> None:
    process = stage.begin(DRY_RUN="1")
    said, _ = process.communicate(timeout=60)
    assert process.returncode == 0
    assert said.count("300 s at most") == len(NAMES)
    assert stage.runs.read_text() == ""
