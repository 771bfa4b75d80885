"""Log levels by -v and -q, FORESTER_LOG, and RUST_LOG as the reference reads it."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest
from click.testing import CliRunner

from forester.cli.main import cli
from forester.errors import SettingsInvalid
from forester.log_level import log_level
from forester.settings.sources import unknown_variables


@pytest.fixture(autouse=True)
def _logging_as_it_was() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = root.handlers, root.level
    yield
    root.handlers = handlers
    root.setLevel(level)


@pytest.mark.parametrize(
    ("environment", "level"),
    [
        ({}, "info"),
        ({"FORESTER_LOG": "Debug"}, "debug"),
        ({"FORESTER_LOG": " warn "}, "warning"),
        ({"FORESTER_LOG": "off"}, "error"),
        ({"FORESTER_LOG": "", "RUST_LOG": "error"}, "error"),
        ({"FORESTER_LOG": "info", "RUST_LOG": "debug"}, "info"),
        ({"RUST_LOG": "trace"}, "debug"),
        ({"RUST_LOG": "warn,forester=debug"}, "debug"),
        ({"RUST_LOG": "forester=error, info"}, "error"),
        ({"RUST_LOG": "light_client=debug"}, "info"),
        ({"RUST_LOG": "warn,light_client=debug"}, "warning"),
        ({"RUST_LOG": "forester[span{field=1}]=trace"}, "info"),
        ({"RUST_LOG": "nonsense,,=,=warn"}, "warning"),
    ],
)
def test_level__of_an_environment__is_the_most_specific_one(environment: dict[str, str], level: str) -> None:
    assert log_level(environment) == level


def test_level__that_does_not_exist__is_refused_with_those_that_do() -> None:
    with pytest.raises(SettingsInvalid, match="FORESTER_LOG: expected one of trace, debug, info, warn"):
        log_level({"FORESTER_LOG": "loud"})
    result = CliRunner().invoke(cli, ["config", "show"], env={"FORESTER_LOG": "loud"})
    assert result.exit_code == 78
    assert unknown_variables({"FORESTER_LOG": "info"}) == []


@pytest.mark.parametrize(
    ("words", "level"), [((), logging.WARNING), (("-v",), logging.DEBUG), (("-q",), logging.ERROR)]
)
def test_flags__next_to_a_variable__come_first(words: tuple[str, ...], level: int) -> None:
    result = CliRunner().invoke(cli, [*words, "config", "show"], env={"FORESTER_LOG": "warning", "RUST_LOG": "info"})
    assert result.exit_code == 0, result.output
    assert logging.getLogger().level == level
