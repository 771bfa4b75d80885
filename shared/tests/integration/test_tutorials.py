"""Each tutorial, executed as it is written."""

from pathlib import Path

import pytest
from deployment_tools import ToolsUnavailable
from tutorial import WORKSPACE, TutorialFailed, can_isolate, play, steps

PAGES = sorted(WORKSPACE.glob("*/docs/tutorials/*.md"))
RENDERED_ONLY = {"kubernetes.md"}
"""Pages whose commands need a cluster."""


@pytest.fixture(autouse=True)
def isolation() -> None:
    """Skip where no process can have a network of its own."""
    if not can_isolate():
        pytest.skip("unshare --net is not permitted, so the ports of a tutorial may be in use")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_tutorial__as_written__does_what_it_shows(page: Path, tmp_path: Path) -> None:
    if page.name in RENDERED_ONLY:
        assert steps(page) == []
        return
    assert play(page, tmp_path) >= 5


def test_tutorial__that_shows_something_else__fails(tmp_path: Path) -> None:
    page = tmp_path / "wrong.md"
    page.write_text("```console\n$ echo one\ntwo\n```\n")
    with pytest.raises(TutorialFailed, match="does not print 'two'"):
        play(page, tmp_path)
    page.write_text("<!-- not run: no cluster -->\n\n```console\n$ false\n```\n\n```console\n$ false\n```\n")
    with pytest.raises(TutorialFailed, match=r"exit status 1 at wrong\.md:8"):
        play(page, tmp_path)


def test_tutorial__in_its_shell__reaches_no_other_host(tmp_path: Path) -> None:
    page = tmp_path / "outside.md"
    page.write_text(
        "```console\n$ curl --silent --max-time 5 https://example.com || echo unreachable\nunreachable\n```\n"
    )
    assert play(page, tmp_path) == 1


@pytest.mark.parametrize(("required", "outcome"), [("", pytest.skip.Exception), ("1", pytest.fail.Exception)])
def test_tutorial__without_prometheus__runs_unless_it_needs_it(
    required: str, outcome: type[BaseException], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unavailable() -> Path:
        raise ToolsUnavailable("no package")

    monkeypatch.setattr("promtool.promtool", unavailable)
    monkeypatch.setenv("ZKC_REQUIRE_REFERENCE", required)
    page = tmp_path / "page.md"
    page.write_text("```console\n$ echo one\none\n```\n")
    assert play(page, tmp_path) == 1
    with pytest.raises(outcome, match="no package"):
        play(WORKSPACE / "shared/docs/tutorials/monitoring.md", tmp_path)
