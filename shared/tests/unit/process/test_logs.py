"""Log lines of our own and of libraries, on and off a terminal."""

import io
import json
import logging
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
import structlog

from shared.process.logs import bind, configure_logs, get_logger


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def restore() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = root.handlers, root.level
    yield
    root.handlers, root.level = handlers, level
    structlog.reset_defaults()


def lines(stream: io.StringIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def test_log__not_on_a_terminal__is_one_json_object_per_line() -> None:
    stream = io.StringIO()
    configure_logs(stream=stream)
    with bind(request_id="r1"):
        get_logger("a.b").info("proof_finished", circuit="c", prove_s=0.5)
    get_logger("a.b").info("other")
    first, second = lines(stream)
    assert list(first)[:3] == ["timestamp", "level", "event"]
    assert first["event"] == "proof_finished"
    assert (first["circuit"], first["prove_s"], first["request_id"]) == ("c", 0.5, "r1")
    assert "request_id" not in second


def test_log__of_a_library__has_the_same_form() -> None:
    stream = io.StringIO()
    configure_logs(stream=stream)
    logging.getLogger("library").warning("careful %s", "now")
    assert lines(stream)[0]["event"] == "careful now"
    assert lines(stream)[0]["level"] == "warning"


def test_log__on_a_terminal__is_columns() -> None:
    stream = Terminal()
    configure_logs(stream=stream)
    get_logger("a").info("event_name", field=1)
    text = stream.getvalue()
    assert "event_name" in text
    with pytest.raises(json.JSONDecodeError):
        json.loads(text)


@pytest.mark.parametrize("sent", ["/\x1b[2J", "a\x9b31m", "a\x07b", "a\nb c"])
def test_log__of_control_characters_of_a_client__shows_a_terminal_none_of_them(sent: str) -> None:
    stream = Terminal()
    configure_logs(stream=stream)
    get_logger("a").info("request_finished", path=sent)
    assert sent not in stream.getvalue()
    assert repr(sent) in stream.getvalue()
    assert len(stream.getvalue().splitlines()) == 1


def test_log__of_control_characters_in_an_error_or_an_event__shows_a_terminal_none_of_them() -> None:
    stream = Terminal()
    configure_logs(stream=stream)
    try:
        raise ValueError("bad \x1b[2J text")
    except ValueError:
        get_logger("a").exception("request_failed")
    logging.getLogger("library").error("also \x1b[2J this\x07")
    assert "\x1b[2J" not in stream.getvalue()
    assert "\x07" not in stream.getvalue()
    assert r"bad \x1b[2J text" in stream.getvalue()
    assert "Traceback" in stream.getvalue()


def test_log__below_the_level__is_dropped() -> None:
    stream = io.StringIO()
    configure_logs(stream=stream, level="error")
    get_logger("a").warning("quiet")
    get_logger("a").error("loud")
    assert [line["event"] for line in lines(stream)] == ["loud"]


def test_log__of_an_exception__holds_its_traceback_as_data() -> None:
    stream = io.StringIO()
    configure_logs(stream=stream)
    try:
        raise ValueError("boom")
    except ValueError:
        get_logger("a").exception("unexpected_error")
    assert lines(stream)[0]["exception"][0]["exc_value"] == "boom"


@pytest.mark.parametrize("as_json", [True, False])
def test_traceback__in_any_form__shows_no_variables(as_json: bool) -> None:
    stream = io.StringIO()
    configure_logs(stream=stream, as_json=as_json)

    def fail(api_key: str) -> None:
        raise ValueError(len(api_key))

    try:
        fail("".join(["sec", "ret"]))
    except ValueError:
        get_logger("x").exception("broken")
    assert "broken" in stream.getvalue()
    assert "ValueError" in stream.getvalue()
    assert "secret" not in stream.getvalue()


def test_import__of_structlog_by_a_first_line__leaves_rich_for_those_that_import_it() -> None:
    words = "import sys; from shared.process.logs import *; configure_logs(); get_logger('a').info('b'); "
    asked = "print('rich' in sys.modules); import rich.console; print('rich' in sys.modules)"
    answer = subprocess.run([sys.executable, "-c", words + asked], capture_output=True, text=True, check=True)
    assert answer.stdout.split() == ["False", "True"]
