"""Options of access, overload and stopping: from the command line, from our variables, from the reference's."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from click.testing import CliRunner

from prover.cli import start as start_module
from prover.cli.main import cli
from prover.settings import Settings, load_settings


@pytest.fixture(autouse=True)
def clean_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        if name.startswith("PROVER_") or name in ("REDIS_URL", "QUEUE_MODE", "SERVER_MODE"):
            monkeypatch.delenv(name)


def settings_of(monkeypatch: pytest.MonkeyPatch, *words: str) -> Settings:
    """The settings that ``prover start`` would run with."""
    seen: list[Settings] = []

    def spy(overrides: object) -> Settings:
        seen.append(load_settings(overrides))  # type: ignore[arg-type]
        raise KeyboardInterrupt

    monkeypatch.setattr(start_module, "load_settings", spy)
    result = CliRunner().invoke(cli, ["start", *words])
    assert seen, result.output
    return seen[0]


def test_options__given__reach_the_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = settings_of(
        monkeypatch,
        *("--api-keys-file", "keys.txt", "--rate-limit", "2.5", "--waiting-limit", "7"),
        *("--cors-origin", "https://a", "--cors-origin", "https://b"),
        *("--drain-delay", "5", "--drain-deadline", "90"),
    )
    assert settings.http.api_keys_file == Path("keys.txt")
    assert settings.http.rate_limit_per_s == 2.5
    assert settings.http.cors_origins == ("https://a", "https://b")
    assert (settings.http.drain_delay_s, settings.http.drain_deadline_s) == (5, 90)
    assert settings.proving.waiting_limit == 7


def test_variables__of_the_reference__reach_the_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PROVER_API_KEY", "sekret")
    monkeypatch.setenv("PROVER_MAX_CONCURRENCY", "3")
    monkeypatch.setenv("PROVER_TOTAL_MEMORY_GB", "10")
    settings = settings_of(monkeypatch)
    assert settings.http.api_key.get_secret_value() == "sekret"
    assert "sekret" not in repr(settings)
    assert settings.proving.permits == 3
    assert settings.proving.working_memory_bytes == 5 * 2**30


def test_variables__of_the_reference__give_way_to_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PROVER_MAX_CONCURRENCY", "3")
    monkeypatch.setenv("PROVER_TOTAL_MEMORY_GB", "10")
    monkeypatch.setenv("PROVER_PROVING__WORKING_MEMORY_BYTES", "1000")
    settings = settings_of(monkeypatch, "--max-concurrency", "9")
    assert settings.proving.permits == 9
    assert settings.proving.working_memory_bytes == 1000


@pytest.mark.parametrize("value", ["0", "-1", "many", "1.5", "\u0663"])
def test_variable__that_is_no_positive_number__is_refused_by_name(monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    monkeypatch.setenv("PROVER_MAX_CONCURRENCY", value)
    result = CliRunner().invoke(cli, ["start"])
    assert result.exit_code == 78
    assert "PROVER_MAX_CONCURRENCY" in result.output
