"""Variables of Kubernetes, which look like settings of a program that a Service is named after."""

from __future__ import annotations

import pytest

from shared.process.service_links import is_service_link


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("FORESTER_SERVICE_HOST", "10.0.0.1"),
        ("FORESTER_SERVICE_PORT", "8080"),
        ("FORESTER_SERVICE_PORT_HTTP", "8080"),
        ("FORESTER_PORT", "tcp://10.0.0.1:8080"),
        ("FORESTER_PORT_8080_TCP", "tcp://10.0.0.1:8080"),
        ("FORESTER_PORT_8080_TCP_ADDR", "10.0.0.1"),
        ("FORESTER_DASHBOARD_SERVICE_HOST", "10.0.0.1"),
        ("FORESTER_DASHBOARD_PORT", "tcp://10.0.0.1:8081"),
    ],
)
def test_variable__of_a_service_with_the_name_of_the_program__is_recognized(name: str, value: str) -> None:
    assert is_service_link(name, value, prefix="FORESTER_")
    assert not is_service_link(name, value, prefix="PROVER_")


@pytest.mark.parametrize(
    ("name", "value"), [("FORESTER_PORT", "8080"), ("FORESTER_RPC_ULR", "http://h"), ("FORESTER_REPORT", "tcp://h")]
)
def test_variable__that_an_operator_set__is_none(name: str, value: str) -> None:
    assert not is_service_link(name, value, prefix="FORESTER_")
