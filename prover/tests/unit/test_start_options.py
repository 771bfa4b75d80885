"""Options of ``prover start``: the words of launchers, and refusals of what is not built."""

import os

import pytest
from click.testing import CliRunner

from prover.cli import start as start_module
from prover.cli.main import cli
from prover.settings import Settings


@pytest.fixture(autouse=True)
def clean_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        if name.startswith("PROVER_") or name in ("REDIS_URL", "QUEUE_MODE", "SERVER_MODE"):
            monkeypatch.delenv(name)


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[Settings]:
    """Settings of the servers that would have been started."""
    settings: list[Settings] = []

    async def run(given: Settings) -> int:
        settings.append(given)
        return 0

    monkeypatch.setattr(start_module, "_run", run)
    monkeypatch.setattr(start_module, "configure_logs", lambda **_: None)
    return settings


def start(*words: str) -> tuple[int, str]:
    result = CliRunner().invoke(cli, ["start", *words])
    return result.exit_code, result.output


def test_start__as_the_launcher_calls_it__loses_no_option(started: list[Settings]) -> None:
    code, output = start(
        "--keys-dir", "D/", "--auto-download", "true", "--prover-address", "0.0.0.0:3007", "--threads", "3"
    )  # fmt: skip
    assert code == 0, output
    assert str(started[0].keys.directory) == "D"
    assert started[0].http.address == "0.0.0.0:3007"
    assert started[0].proving.threads == 3


@pytest.mark.parametrize(
    "words",
    [
        ("--auto-download",),
        ("--auto-download=true",),
        ("--auto-download=false",),
        ("--auto-download", "false"),
        ("--server-only", "true", "--json-logging", "true"),
        ("--server-only", "--auto-download", "true"),
        ("--json-logging=TRUE", "--server-only=1"),
        ("--preload-keys", "none"),
        ("--server-only", "--redis-url", "redis://localhost"),
    ],
)
def test_start__with_words_after_flags__accepts_them(started: list[Settings], words: tuple[str, ...]) -> None:
    code, output = start(*words, "--threads", "5")
    assert code == 0, output
    assert started[0].proving.threads == 5


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (("--redis-url", "redis://localhost:6379"), "Redis queue"),
        (("--auto-download", "true", "--redis-url", "redis://x"), "Redis queue"),
        (("--queue-only",), "queue workers"),
        (("--circuit", "update"), "--circuit"),
        (("--run-mode", "rpc"), "--run-mode"),
        (("--preload-keys", "all"), "--preload-keys"),
        (("--preload-circuits", "update"), "--preload-circuits"),
    ],
)
def test_start__asked_for_what_is_not_built__is_refused_by_name(
    started: list[Settings], words: tuple[str, ...], named: str
) -> None:
    code, output = start(*words)
    assert code == 78
    assert named in output
    assert "not built yet" in output
    assert not started


@pytest.mark.parametrize(
    ("variable", "value"),
    [("REDIS_URL", "redis://x"), ("QUEUE_MODE", "true")],
)
def test_start__with_a_variable_of_what_is_not_built__is_refused_by_name(
    started: list[Settings], monkeypatch: pytest.MonkeyPatch, variable: str, value: str
) -> None:
    monkeypatch.setenv(variable, value)
    code, output = start()
    assert code == 78
    assert "not built yet" in output
    assert not started


@pytest.mark.parametrize("word", ["yes", "--nonsense", "true"])
def test_start__with_a_stray_word__is_wrong_usage(started: list[Settings], word: str) -> None:
    code, _ = start("--threads", "1", word)
    assert code == 2
    assert not started


def test_start__with_a_bad_setting__names_it(started: list[Settings], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PROVER_PROVING__BATCH_DEADLINE_S", "soon")
    code, output = start()
    assert code == 78
    assert "PROVER_PROVING__BATCH_DEADLINE_S" in output
