"""Alert rules, dashboards, the scrape example and runbooks, against the contract of metrics and promtool."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

from monitoring_files import (
    Monitoring,
    check_alerts,
    check_dashboards,
    check_expressions,
    check_rules_with_promtool,
    check_scrape,
)
from promtool import required_promtool

MONITORING = Monitoring("forester")


def test_expressions__of_rules_and_dashboards__name_metrics_and_labels_of_the_contract() -> None:
    check_expressions(MONITORING)


def test_alerts__each__has_a_severity_a_runbook_and_a_test() -> None:
    check_alerts(MONITORING)


def test_rules__on_recorded_series__fire_for_faults_and_for_nothing_else() -> None:
    check_rules_with_promtool(MONITORING)


def test_dashboards__panels__are_placed_and_read_the_chosen_source() -> None:
    check_dashboards(MONITORING)


def test_days_left__of_two_instances__are_those_of_each_payer(tmp_path: Path) -> None:
    """Both instances read the balances of both foresters: a pays with p for the fees of a, b with q for those of b."""
    [expression] = [text for title, text in MONITORING.expressions() if title == "Days left"]
    series = {
        **{f'forester_sol_balance{{instance="{name}", pubkey="p"}}': "48x1440" for name in "ab"},
        **{f'forester_sol_balance{{instance="{name}", pubkey="q"}}': "12x1440" for name in "ab"},
        'forester_payer{instance="a", pubkey="p"}': "1x1440",
        'forester_payer{instance="b", pubkey="q"}': "1x1440",
        'forester_spent_lamports{instance="a"}': "1000000000x1440",
        'forester_spent_lamports{instance="b"}': "500000000x1440",
    }
    case = {
        "interval": "1m",
        "input_series": [{"series": name, "values": values} for name, values in series.items()],
        "promql_expr_test": [
            {
                "expr": expression.replace("$instance", ".*"),
                "eval_time": "1440m",
                "exp_samples": [
                    {"labels": '{instance="a", pubkey="p"}', "value": 2},
                    {"labels": '{instance="b", pubkey="q"}', "value": 1},
                ],
            }
        ],
    }
    path = tmp_path / "test.yaml"
    path.write_text(json.dumps({"tests": [case]}))
    answer = subprocess.run([required_promtool(), "test", "rules", path], capture_output=True, text=True)
    assert answer.returncode == 0, answer.stdout + answer.stderr


def test_scrape_example__port_and_interval__are_those_of_the_specification() -> None:
    check_scrape(MONITORING, 9092)
