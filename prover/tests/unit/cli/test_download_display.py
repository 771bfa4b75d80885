"""Display of a download: lines without a terminal, bars on one."""

from __future__ import annotations

import sys

import pytest
from structlog.testing import capture_logs

from prover.cli.download_display import LogLines, download_display


def test_lines__while_bytes_come__are_sparse_and_count() -> None:
    with capture_logs() as often:
        lines = LogLines(interval_s=0)
        lines.planned(2, 400)
        lines.advanced("a.key", 50, 200)
        lines.advanced("a.key", 200, 200)
        lines.finished("a.key")
    events = [line["event"] for line in often]
    assert events == ["download_started", "download_progress", "download_progress", "key_downloaded"]
    assert often[2]["percent"] == 50
    assert (often[3]["bytes"], often[3]["files"]) == (200, "1/2")
    with capture_logs() as rare:
        lines = LogLines(interval_s=3600)
        lines.planned(1, None)
        for done in range(1000):
            lines.advanced("a.key", done, None)
    assert [line["event"] for line in rare] == ["download_started"]


def test_display__off_a_terminal__is_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    with download_display() as watcher:
        assert isinstance(watcher, LogLines)


def test_display__on_a_terminal__draws_a_bar_per_file(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.setenv("TERM", "xterm")
    with download_display() as watcher:
        watcher.planned(2, 1000)
        watcher.advanced("v2_inclusion_32_1.key", 300, 600)
        watcher.advanced("v2_inclusion_32_1.key", 600, 600)
        watcher.finished("v2_inclusion_32_1.key")
        watcher.finished("v2_inclusion_32_2.key")
    drawn = capsys.readouterr().err
    assert "2 keys" in drawn
    assert "600/1,000 bytes" in drawn
