"""Options of access, overload and stopping: from the command line, from our variables, from the reference's."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from prover.cli.main import cli
from prover.http.state import working_memory_bytes
from prover.keys.files.memory_budget import key_budget_bytes
from prover.settings import Settings

pytestmark = pytest.mark.usefixtures("no_variables")


def settings_of(started: list[Settings], *words: str) -> Settings:
    """Return the settings that ``prover start`` would run with."""
    result = CliRunner().invoke(cli, ["start", *words])
    assert result.exit_code == 0, result.output
    return started[0]


def test_options__given__reach_the_settings(started: list[Settings]) -> None:
    settings = settings_of(
        started,
        *("--api-keys-file", "keys.txt", "--rate-limit", "2.5", "--waiting-limit", "7"),
        *("--cors-origin", "https://a", "--cors-origin", "https://b"),
        *("--drain-delay", "5", "--drain-deadline", "90"),
    )
    assert settings.http.api_keys_file == Path("keys.txt")
    assert settings.http.rate_limit_per_s == 2.5
    assert settings.http.cors_origins == ("https://a", "https://b")
    assert (settings.http.drain_delay_s, settings.http.drain_deadline_s) == (5, 90)
    assert settings.proving.waiting_limit == 7


def test_variables__of_the_reference__reach_the_settings(
    started: list[Settings], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PROVER_API_KEY", "sekret")
    monkeypatch.setenv("PROVER_MAX_CONCURRENCY", "3")
    monkeypatch.setenv("PROVER_TOTAL_MEMORY_GB", "10")
    settings = settings_of(started)
    assert settings.http.api_key.reveal() == "sekret"
    assert "sekret" not in repr(settings)
    assert settings.proving.permits == 3
    assert working_memory_bytes(settings.proving, settings.keys) == 5 * 2**30


def test_variables__of_the_reference__give_way_to_ours(
    started: list[Settings], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PROVER_MAX_CONCURRENCY", "3")
    monkeypatch.setenv("PROVER_TOTAL_MEMORY_GB", "10")
    monkeypatch.setenv("PROVER_PROVING__WORKING_MEMORY_BYTES", "1000")
    monkeypatch.setenv("PROVER_API_KEY", "theirs")
    monkeypatch.setenv("PROVER_HTTP__API_KEY", "ours")
    settings = settings_of(started, "--max-concurrency", "9")
    assert settings.proving.permits == 9
    assert working_memory_bytes(settings.proving, settings.keys) == 1000
    assert settings.http.api_key.reveal() == "ours"


def test_total_memory__of_ours_and_of_the_reference__limits_keys_and_proofs_and_ours_counts(
    started: list[Settings], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PROVER_TOTAL_MEMORY_GB", "10")
    monkeypatch.setenv("PROVER_KEYS__TOTAL_MEMORY_GIB", "4")
    monkeypatch.setenv("PROVER_MAX_CONCURRENCY", "1000")
    monkeypatch.setenv("PROVER_PROVING__MAX_CONCURRENCY", "0")
    settings = settings_of(started)
    assert working_memory_bytes(settings.proving, settings.keys) == 2 * 2**30
    assert key_budget_bytes(settings.keys.memory_gib, settings.keys.total_memory_gib) == 2 * 2**30
    assert settings.proving.permits < 1000


def test_api_key__of_ours_that_is_empty__leaves_that_of_the_reference(
    started: list[Settings], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PROVER_API_KEY", "theirs")
    monkeypatch.setenv("PROVER_HTTP__API_KEY", "")
    assert settings_of(started).http.api_key.reveal() == "theirs"


@pytest.mark.parametrize("value", ["0", "-1", "many", "1.5", "\u0663"])
def test_variable__that_is_no_positive_number__is_refused_by_name(monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    monkeypatch.setenv("PROVER_MAX_CONCURRENCY", value)
    result = CliRunner().invoke(cli, ["start"])
    assert result.exit_code == 78
    assert "PROVER_MAX_CONCURRENCY" in result.output
