"""The conformance suite against our service and the reference's binary, side by side on the published keys."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from circuit_inputs import KEY_FILES
from conformance import Outcome, main, report, run
from conformance_suite.answers import faults
from conformance_suite.cases import DIFFERENCES, all_cases
from conformance_suite.queue import QUEUE_DIFFERENCES, steps
from conformance_suite.wire import Answer
from golden_vectors import VECTORS
from in_process_service import Listen
from reference_server import fill_up, reference_server
from rich.console import Console

from prover.keys.store.key_store import KeyStore

DOCUMENT = VECTORS.parents[1] / "docs" / "reference" / "differences.md"
DEADLINES = {"merkle_deadline_s": 120, "batch_deadline_s": 120}
ONE_KEY = "inclusion_32_1.key"
QUICK = [case for case in all_cases() if case.key in (None, "v2_inclusion_32_1")]
"""Cases of one circuit and of none; test_wire_cases.py has them all, conformance.py compares them all."""


@pytest.fixture
def one_key_dir(reference_keys_dir: Path, tmp_path: Path) -> Path:
    """The smallest key under all 18 names, without which the reference does not start; loading all takes minutes."""
    folder = tmp_path / "keys"
    folder.mkdir()
    fill_up(folder, KEY_FILES.values(), reference_keys_dir / ONE_KEY)
    return folder


@pytest.mark.timeout(1200)
async def test_suite__against_ours_and_the_reference__finds_only_intended_differences(
    listen: Listen, published_keys: KeyStore, reference_prover: Path, one_key_dir: Path, tmp_path: Path
) -> None:
    _, port = await listen(published_keys, proving=DEADLINES)

    def side_by_side() -> None:
        with reference_server(
            reference_prover, one_key_dir, tmp_path / "log", "--run-mode", "local-rpc"
        ) as reference_port:
            rows = run(f"http://127.0.0.1:{port}", f"http://127.0.0.1:{reference_port}", QUICK)
        with (tmp_path / "report").open("w") as out:
            report(rows, Console(file=out, width=200))
        different = [row for row in rows if row.outcome is Outcome.DIFFERENT]
        assert not different, (tmp_path / "report").read_text()
        assert not [row for row in rows if row.outcome is Outcome.SKIPPED]
        assert sum(row.outcome is Outcome.SAME for row in rows) > len(rows) / 2

    await asyncio.to_thread(side_by_side)


def test_differences__are_all_documented() -> None:
    text = DOCUMENT.read_text()
    for name, difference in (DIFFERENCES | QUEUE_DIFFERENCES).items():
        assert difference.reason
        assert f"`{name}`" in text, name


def test_cases__have_different_names() -> None:
    names = [case.name for case in all_cases()] + [step.name for step in steps()]
    assert len(names) == len(set(names))


@pytest.mark.parametrize(
    ("options", "reason"),
    [(["--case", "no such case"], "there is no case no such case"), (["--queue", "--case", "x"], "--queue plays all")],
)
def test_command__that_would_send_nothing_of_what_it_names__is_refused(
    options: list[str], reason: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("conformance.run", lambda *_: [])
    monkeypatch.setattr("sys.argv", ["conformance.py", "--base-url", "http://127.0.0.1:1", *options])
    with pytest.raises(SystemExit, match="2"):
        main()
    assert reason in capsys.readouterr().err


def test_faults__of_wrong_answers__are_found() -> None:
    problem = Answer(400, "", '{"code":"proving_error","message":"constraint #1 is not satisfied"}')
    assert faults(problem, {"status": 400, "code": "proving_error", "message_contains": ["is not satisfied"]}) == []
    assert len(faults(problem, {"status": 500, "code": "malformed_body", "message_contains": ["hex"]})) == 3
    assert len(faults(problem, {"status": 400, "proof": True, "empty_body": True, "body": "x"})) == 3
    assert faults(Answer(405, allow=True), {"status": 405, "empty_body": True})
    assert faults(Answer(200, "text/html", "x"), {"status": 200, "content_type": "text/plain"})
    assert faults(Answer(0), {"status": None}) == []
