"""Request ids and W3C trace context (examples of the recommendation, section 3.2)."""

import re

import pytest

from prover.http.server.tracing import request_id, trace_fields

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
PARENT = "00f067aa0ba902b7"


@pytest.mark.parametrize(
    "header", [f"00-{TRACE}-{PARENT}-01", f"00-{TRACE}-{PARENT}-00", f"01-{TRACE}-{PARENT}-01-more"]
)
def test_trace__given__continues(header: str) -> None:
    fields = trace_fields(header)
    assert (fields["trace_id"], fields["parent_span_id"]) == (TRACE, PARENT)
    assert re.fullmatch("[0-9a-f]{16}", fields["span_id"])
    assert fields["span_id"] != PARENT


@pytest.mark.parametrize(
    "header",
    [
        "",
        "rubbish",
        f"00-{TRACE}-{PARENT}",
        f"00-{TRACE}-{PARENT}-01-more",
        f"ff-{TRACE}-{PARENT}-01",
        f"00-{'0' * 32}-{PARENT}-01",
        f"00-{TRACE}-{'0' * 16}-01",
        f"00-{TRACE.upper()}-{PARENT}-01",
        f"00-{TRACE}-{PARENT}-01\n",
        "00-" + "a" * 100_000,
    ],
)
def test_trace__malformed__begins_again(header: str) -> None:
    fields = trace_fields(header.replace("\n", "x"))
    assert fields["trace_id"] != TRACE
    assert re.fullmatch("[0-9a-f]{32}", fields["trace_id"])
    assert "parent_span_id" not in fields


@pytest.mark.parametrize("given", ["", "a b", "x" * 129, "<script>", "id\n"])
def test_request_id__harmful__is_replaced(given: str) -> None:
    assert re.fullmatch("[0-9a-f-]{36}", request_id(given))


def test_request_id__harmless__is_kept() -> None:
    assert request_id("req:1.2_3-A") == "req:1.2_3-A"
