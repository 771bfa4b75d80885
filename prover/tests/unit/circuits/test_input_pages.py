"""The reference pages have the inputs of circuits and the members of requests as the code reads them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from shared.requests.circuit_id import CircuitKind
from shared.requests.circuit_inputs import CircuitInput, inputs_of

PAGES = Path(__file__).resolve().parents[3] / "docs" / "reference"
VERSIONS = [(kind, version) for kind in CircuitKind for version in ((2,) if kind.is_batch else (1, 2))]
TOP_LEVEL_HEADERS = {"stateTreeHeight", "addressTreeHeight", "treeHeight", "height", "batchSize"}


def row(page: str, heading: str, first: str) -> str:
    """Return the last cell of the row that begins with a text, in the section of a heading."""
    section = (PAGES / page).read_text().split(f"## {heading}\n")[1].split("\n## ")[0]
    (found,) = re.findall(rf"^\| {re.escape(first)} \| (.*) \|$", section, re.MULTILINE)
    return str(found)


def described(each: CircuitInput) -> str:
    size = "[b]" if each.member.count(".") == 0 else "[a]"
    return each.name + (size, size + "[h]")[each.dimensions - 1] if each.dimensions else each.name


@pytest.mark.parametrize(("kind", "version"), VERSIONS)
def test_input_order__on_the_page_of_circuits__is_that_of_the_code(kind: CircuitKind, version: int) -> None:
    text = row("circuits.md", "Input order", kind.value if kind.is_batch else f"{kind.value}, version {version}")
    secret = [each for each in inputs_of(kind, version) if not each.is_public]
    if kind is CircuitKind.COMBINED:
        assert text == "those of inclusion, then those of non-inclusion"
        parts = ((CircuitKind.INCLUSION, "Inclusion"), (CircuitKind.NON_INCLUSION, "NonInclusion"))
        halves = [(prefix, each) for half, prefix in parts for each in inputs_of(half, version) if not each.is_public]
        assert [each.name for each in secret] == [f"{prefix}_{each.name}" for prefix, each in halves]
    else:
        assert text == ", ".join(map(described, secret))


@pytest.mark.parametrize("kind", CircuitKind)
def test_members__on_the_page_of_the_http_interface__are_those_of_the_code(kind: CircuitKind) -> None:
    members = {each.member for version in ((2,) if kind.is_batch else (1, 2)) for each in inputs_of(kind, version)}
    listed = set(re.findall(r"`([^`]+)`", row("http-api.md", "Requests", f"`{kind.value}`"))) - TOP_LEVEL_HEADERS
    assert listed == {member.partition("[].")[0] for member in members}


@pytest.mark.parametrize("array", ["inputCompressedAccounts", "newAddresses"])
def test_members__of_accounts_and_addresses__are_those_of_the_code(array: str) -> None:
    inputs = inputs_of(CircuitKind.COMBINED, 1)
    members = {each.member.partition("[].")[2] for each in inputs if each.member.startswith(array)}
    assert set(re.findall(r"`([^`]+)`", row("http-api.md", "Requests", f"`{array}`"))) == members
