"""The log of a program that a demo runs."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

PATH = Path(__file__).resolve().parents[2] / "bench" / "program_log.py"
SENTENCES = {"key_created": "key {number} of {of}"}


@pytest.fixture(scope="module")
def program_log() -> ModuleType:
    spec = importlib.util.spec_from_file_location("program_log", PATH)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_program__with_known_events__has_them_said_and_other_lines_passed_on(
    program_log: ModuleType, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = ['{"event": "key_created", "number": 1, "of": 2}', '{"event": "slow"}', "17", "error: no space"]
    said: list[str] = []
    program = [sys.executable, "-c", f"import sys; print('out'); sys.stderr.write({chr(10).join(lines)!r})"]
    program_log.run_program(program, SENTENCES, said.append)
    assert said == ["key 1 of 2"]
    assert capsys.readouterr() == ("", "\n".join(lines[1:]))


def test_program__that_fails__is_an_error(program_log: ModuleType) -> None:
    with pytest.raises(subprocess.CalledProcessError):
        program_log.run_program([sys.executable, "-c", "raise SystemExit(3)"], SENTENCES, print)
