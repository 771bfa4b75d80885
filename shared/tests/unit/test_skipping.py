"""Tools that a machine lacks: tests skipped for developers, and failed in the gate."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from deployment_tools import ToolsUnavailable
from promtool import required_promtool
from rendered_chart import require_tools


@pytest.mark.parametrize(("required", "outcome"), [("", pytest.skip.Exception), ("1", pytest.fail.Exception)])
@pytest.mark.parametrize(
    ("fetched", "use"), [("rendered_chart.fetch", require_tools), ("promtool.promtool", required_promtool)]
)
def test_tools__that_cannot_be_fetched__are_required_by_the_gate(
    fetched: str,
    use: Callable[[], object],
    required: str,
    outcome: type[BaseException],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def unavailable() -> None:
        raise ToolsUnavailable("no registry")

    monkeypatch.setattr(fetched, unavailable)
    monkeypatch.setenv("ZKC_REQUIRE_REFERENCE", required)
    with pytest.raises(outcome, match="no registry"):
        use()
