"""Alert rules, dashboards, the scrape example and runbooks, against the contract of metrics and promtool."""

from __future__ import annotations

from monitoring_files import (
    Monitoring,
    check_alerts,
    check_dashboards,
    check_expressions,
    check_rules_with_promtool,
    check_scrape,
)

MONITORING = Monitoring("forester")


def test_expressions__of_rules_and_dashboards__name_metrics_and_labels_of_the_contract() -> None:
    check_expressions(MONITORING)


def test_alerts__each__has_a_severity_a_runbook_and_a_test() -> None:
    check_alerts(MONITORING)


def test_rules__on_recorded_series__fire_for_faults_and_for_nothing_else() -> None:
    check_rules_with_promtool(MONITORING)


def test_dashboards__panels__are_placed_and_read_the_chosen_source() -> None:
    check_dashboards(MONITORING)


def test_scrape_example__port_and_interval__are_those_of_the_specification() -> None:
    check_scrape(MONITORING, 9092)
