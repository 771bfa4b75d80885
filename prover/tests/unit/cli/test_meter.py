"""Progress of long work on streams that are no terminals."""

import time

import pytest

from prover.cli import meter as module


def test_meter__without_a_terminal__logs_how_far_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LOG_INTERVAL_S", 0.01)
    said: list[dict[str, object]] = []
    monkeypatch.setattr(module._log, "info", lambda event, **values: said.append({"event": event, **values}))
    with module.meter("setup of x", lambda: 123):
        deadline = time.monotonic() + 10
        while not said and time.monotonic() < deadline:
            time.sleep(0.01)
    assert said[0] == {"event": "progress", "what": "setup of x", "percent": 12.3}


def test_meter__of_short_work__is_silent(capsys: pytest.CaptureFixture[str]) -> None:
    with module.meter("setup of x", lambda: 0):
        pass
    captured = capsys.readouterr()
    assert captured.out == captured.err == ""
