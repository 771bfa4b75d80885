"""Alert rules, dashboards, the scrape example and runbooks, against the contract of metrics and promtool."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import yaml  # type: ignore[import-untyped]
from container_files import WORKSPACE, compose, services
from monitoring_files import (
    Monitoring,
    check_alerts,
    check_dashboards,
    check_expressions,
    check_rules_with_promtool,
    check_scrape,
)
from promtool import required_promtool

from prover.settings import HttpSettings

MONITORING = Monitoring("prover")


def test_expressions__of_rules_and_dashboards__name_metrics_and_labels_of_the_contract() -> None:
    check_expressions(MONITORING)


def test_alerts__each__has_a_severity_a_runbook_and_a_test() -> None:
    check_alerts(MONITORING)


def test_rules__on_recorded_series__fire_for_faults_and_for_nothing_else() -> None:
    check_rules_with_promtool(MONITORING)


def test_dashboards__panels__are_placed_and_read_the_chosen_source() -> None:
    check_dashboards(MONITORING)


def test_dashboard__proofs_per_second__counts_each_successful_proof_once() -> None:
    """Workers count the proofs of jobs as requests, too."""
    [dashboard] = MONITORING.dashboards
    [panel] = [panel for panel in dashboard["panels"] if panel["title"] == "Proofs per second"]
    [target] = panel["targets"]
    assert re.findall(r"prover_\w+", target["expr"]) == ["prover_proof_requests_total"]
    assert 'status="ok"' in target["expr"]


def test_scrape_example__port_and_interval__are_those_of_the_specification() -> None:
    _, _, port = HttpSettings().metrics_address.rpartition(":")
    check_scrape(MONITORING, int(port))


def test_compose__monitoring__reads_rules_and_dashboards_of_both_services_and_scrapes_them(tmp_path: Path) -> None:
    found = services("monitoring")
    assert found.keys() == {"prometheus", "grafana"}
    for service in found.values():
        assert service["read_only"]
        assert all(port.startswith("127.0.0.1:") for port in service["ports"])
        for volume in service["volumes"]:
            assert volume["type"] == "volume" or (volume["read_only"] and (WORKSPACE / volume["source"]).is_dir())
    text = (WORKSPACE / compose()["configs"]["prometheus"]["file"]).read_text()
    jobs = {job["job_name"]: job["dns_sd_configs"][0] for job in yaml.safe_load(text)["scrape_configs"]}
    assert jobs.keys() == {"prover", "forester"}
    images = {"prover": "zkc-prover", "forester": "zkc-forester"}
    for name, source in jobs.items():
        scraped = {key for key, service in compose()["services"].items() if service["image"].startswith(images[name])}
        assert set(source["names"]) == scraped
        for service in source["names"]:
            assert any(f"{source['port']}" in word for word in compose()["services"][service]["command"]), service
    mounts = {volume["target"]: volume["source"] for volume in found["prometheus"]["volumes"]}
    for target in ("/etc/prometheus/prover", "/etc/prometheus/forester"):
        text = text.replace(target, str(WORKSPACE / mounts[target]))
    (tmp_path / "prometheus.yaml").write_text(text)
    answer = subprocess.run(
        [required_promtool(), "check", "config", tmp_path / "prometheus.yaml"], capture_output=True, text=True
    )
    assert answer.returncode == 0, answer.stdout + answer.stderr
    assert "2 rule files found" in answer.stdout
