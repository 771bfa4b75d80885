"""Alert rules, dashboards and runbooks of a service, and what holds for those of any service."""

from __future__ import annotations

import functools
import json
import re
import subprocess
from collections.abc import Iterator, Mapping
from itertools import combinations
from typing import Any

import promql_parser
import yaml  # type: ignore[import-untyped]
from deployment_tools import WORKSPACE
from promtool import required_promtool

SEVERITIES = {"critical", "warning"}
HEADINGS = ("Meaning", "Diagnosis", "Remedy")
_TARGET = {"job", "instance", "namespace", "service"}
"""Labels that Prometheus adds to every series; the last two from a ServiceMonitor."""
_OTHERS: Mapping[str, set[str]] = {
    "up": set(),
    "ALERTS": {"alertname", "alertstate"},
    "process_resident_memory_bytes": set(),
    "kube_cronjob_created": {"cronjob"},
    "kube_cronjob_next_schedule_time": {"cronjob"},
    "kube_cronjob_status_last_schedule_time": {"cronjob"},
    "kube_cronjob_status_last_successful_time": {"cronjob"},
}
"""Metrics of Prometheus, of its client library and of kube-state-metrics, with their labels."""
_VARIABLES = {"$__rate_interval": "5m", "$instance": ".*"}


class Monitoring:
    """The files of a service."""

    def __init__(self, service: str) -> None:
        self.service = service
        self.folder = WORKSPACE / service / "deploy" / "monitoring"
        self.runbooks = WORKSPACE / service / "docs" / "runbooks"

    def read(self, name: str) -> dict[str, Any]:
        """Return a YAML file of the folder."""
        content: dict[str, Any] = yaml.safe_load((self.folder / name).read_text())
        return content

    @property
    def alerts(self) -> list[dict[str, Any]]:
        """The rules of all groups."""
        return [rule for group in self.read("alerts.yaml")["groups"] for rule in group["rules"]]

    @property
    def dashboards(self) -> list[dict[str, Any]]:
        """The dashboards."""
        return [json.loads(path.read_text()) for path in sorted((self.folder / "dashboards").glob("*.json"))]

    def expressions(self) -> Iterator[tuple[str, str]]:
        """Yield a title and an expression of each rule, panel, variable and annotation."""
        for rule in self.alerts:
            yield rule["alert"], rule["expr"]
        for dashboard in self.dashboards:
            for panel in dashboard["panels"]:
                for target in panel.get("targets", []):
                    yield panel["title"], target["expr"]
            for variable in dashboard["templating"]["list"]:
                if variable["type"] == "query":
                    [(series, label)] = re.findall(r"^label_values\((.+), (\w+)\)$", variable["query"]["query"])
                    yield variable["name"], f"count by ({label}) ({series})"
            for annotation in dashboard["annotations"]["list"]:
                yield annotation["name"], annotation["expr"]

    def contract(self) -> dict[str, set[str]]:
        """Return the labels of every series that the service exposes."""
        found: dict[str, set[str]] = {}
        for path in (WORKSPACE / self.service / "contracts").glob("*metrics.json"):
            for name, metric in json.loads(path.read_text()).items():
                labels = set(metric["labels"])
                found[name] = labels
                if metric["type"] == "histogram":
                    del found[name]
                    found |= {f"{name}_bucket": labels | {"le"}, f"{name}_sum": labels, f"{name}_count": labels}
        return found


def check_expressions(monitoring: Monitoring) -> None:
    """Fail for an expression that cannot be parsed, and for metrics and labels that nothing exposes."""
    known = {**monitoring.contract(), **_OTHERS}
    seen = set()
    for title, expression in monitoring.expressions():
        text = functools.reduce(lambda found, variable: found.replace(*variable), _VARIABLES.items(), expression)
        for name, labels in selectors(promql_parser.parse(text)):
            assert name in known, f"{title}: no metric {name}"
            assert labels <= known[name] | _TARGET, f"{title}: {name} has no label {labels - known[name]}"
            seen.add(name)
    assert len(seen) > 10


def selectors(expression: Any) -> list[tuple[str, set[str]]]:
    """Return the metrics of an expression with the labels that matchers and aggregations of it name."""
    found: list[tuple[str, set[str]]] = []

    def visit(node: Any, grouped: set[str]) -> None:
        if isinstance(node, promql_parser.AggregateExpr):
            assert node.modifier is None or "By" in str(node.modifier.type), "aggregations name what they keep"
            visit(node.expr, set(node.modifier.labels) if node.modifier else set())
        elif isinstance(node, promql_parser.VectorSelector):
            found.append((node.name or "", {matcher.name for matcher in node.matchers.matchers} | grouped))
        elif isinstance(node, promql_parser.MatrixSelector):
            visit(node.vector_selector, grouped)
        elif isinstance(node, promql_parser.BinaryExpr):
            visit(node.lhs, grouped)
            visit(node.rhs, set() if isinstance(node.rhs, promql_parser.NumberLiteral) else grouped)
        elif isinstance(node, promql_parser.Call):
            for argument in node.args:
                visit(argument, grouped)
        elif isinstance(node, promql_parser.ParenExpr | promql_parser.SubqueryExpr | promql_parser.UnaryExpr):
            visit(node.expr, grouped)

    visit(expression, set())
    return found


def check_alerts(monitoring: Monitoring) -> None:
    """Fail for alerts without severity, summary, a test of promtool, or a runbook with its headings."""
    tested = {
        re.sub(r'.*alertname="(\w+)".*', r"\1", sample["labels"])
        for test in monitoring.read("alerts_test.yaml")["tests"]
        for query in test["promql_expr_test"]
        for sample in query["exp_samples"]
    }
    names = [rule["alert"] for rule in monitoring.alerts]
    assert len(set(names)) == len(names)
    assert tested == set(names)
    pages = set()
    for rule in monitoring.alerts:
        assert rule["labels"]["severity"] in SEVERITIES, rule["alert"]
        assert rule["annotations"]["summary"], rule["alert"]
        page = WORKSPACE / rule["annotations"]["runbook_url"]
        words = re.findall(r"[A-Z][a-z]+", rule["alert"].removeprefix(monitoring.service.capitalize()))
        assert page == monitoring.runbooks / f"{'-'.join(words).lower()}.md"
        text = page.read_text()
        assert text.startswith(f"# {rule['alert']}\n")
        assert tuple(re.findall(r"^## (.+)$", text, flags=re.MULTILINE)) == HEADINGS, page
        pages.add(page)
    assert set(monitoring.runbooks.glob("*.md")) - pages == {monitoring.runbooks / "README.md"}, (
        "pages of alerts that do not exist"
    )


def check_rules_with_promtool(monitoring: Monitoring) -> None:
    """Fail for rules that Prometheus refuses, and for those that do not fire as their tests say."""
    program = required_promtool()
    for words in (["check", "rules", "alerts.yaml"], ["test", "rules", "alerts_test.yaml"]):
        answer = subprocess.run([program, *words], cwd=monitoring.folder, capture_output=True, text=True)
        assert answer.returncode == 0, answer.stdout + answer.stderr


def check_dashboards(monitoring: Monitoring) -> None:
    """Fail for panels that overlap, for two with one id, and for a source that is not the dashboard's variable."""
    assert monitoring.dashboards
    for dashboard in monitoring.dashboards:
        assert [variable["name"] for variable in dashboard["templating"]["list"]] == ["datasource", "instance"]
        panels = dashboard["panels"]
        assert len({panel["id"] for panel in panels}) == len(panels)
        for panel in panels:
            assert panel["type"] == "row" or panel["datasource"]["uid"] == "${datasource}", panel["title"]
            assert panel["gridPos"]["x"] + panel["gridPos"]["w"] <= 24, panel["title"]
        for one, other in combinations(panels, 2):
            a, b = one["gridPos"], other["gridPos"]
            beside = a["x"] + a["w"] <= b["x"] or b["x"] + b["w"] <= a["x"]
            assert beside or a["y"] + a["h"] <= b["y"] or b["y"] + b["h"] <= a["y"], (one["title"], other["title"])


def check_scrape(monitoring: Monitoring, port: int) -> None:
    """Fail for a scrape example that is not the job of rules and dashboards, every 15 s on a port."""
    [job] = monitoring.read("scrape.yaml")["scrape_configs"]
    assert (job["job_name"], job["scrape_interval"]) == (monitoring.service, "15s")
    assert job.get("metrics_path", "/metrics") == "/metrics"
    [targets] = job["static_configs"]
    assert targets["targets"] == [f"{monitoring.service}:{port}"]
