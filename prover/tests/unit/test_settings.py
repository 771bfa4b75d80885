"""Settings: order of sources, limits, and variables that mean nothing."""

from pathlib import Path

import pytest
from pydantic import ValidationError

from prover.errors import SettingsInvalid
from prover.settings import load_settings, unknown_variables


@pytest.fixture(autouse=True)
def clean_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    import os

    for name in list(os.environ):
        if name.startswith("PROVER_"):
            monkeypatch.delenv(name)


def test_settings__without_sources__have_the_documented_defaults() -> None:
    settings = load_settings()
    assert settings.http.address == "0.0.0.0:3001"
    assert settings.http.metrics_address == "0.0.0.0:9998"
    assert settings.http.body_limit_bytes == 16 * 1024 * 1024
    assert settings.keys.directory == Path("proving-keys")
    assert (settings.proving.merkle_deadline_s, settings.proving.batch_deadline_s) == (10, 60)
    assert settings.proving.permits >= 2


def test_settings__from_command_line__win_over_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PROVER_HTTP__ADDRESS", "127.0.0.1:1")
    monkeypatch.setenv("PROVER_PROVING__MAX_CONCURRENCY", "7")
    settings = load_settings({"http": {"address": "127.0.0.1:2"}})
    assert settings.http.address == "127.0.0.1:2"
    assert settings.proving.permits == 7


def test_settings__with_several_faults__lists_them_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PROVER_PROVING__THREADS", "-1")
    monkeypatch.setenv("PROVER_LOG__LEVEL", "loud")
    with pytest.raises(SettingsInvalid) as caught:
        load_settings()
    assert "PROVER_PROVING__THREADS" in caught.value.detail
    assert "PROVER_LOG__LEVEL" in caught.value.detail


def test_settings__once_made__are_frozen() -> None:
    settings = load_settings()
    with pytest.raises(ValidationError):
        settings.http.address = "x"
    with pytest.raises(ValidationError):
        settings.http = settings.http


def test_unknown_variable__with_our_prefix__names_the_nearest_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PROVER_HTTP__ADRESS", "x")
    monkeypatch.setenv("PROVER_HTTP__ADDRESS", "x")
    monkeypatch.setenv("PROVER_MAX_CONCURRENCY", "3")
    assert unknown_variables() == [
        "PROVER_HTTP__ADRESS is not a setting of the prover; did you mean PROVER_HTTP__ADDRESS?"
    ]
