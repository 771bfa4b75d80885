"""The error tree: every class has a registered code, a status and a documented exit code."""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from prover.errors import KeyListUnavailable, KeyMissing, ProverError
from shared.problem import TITLES

CONTRACTS = Path(__file__).resolve().parents[2] / "contracts"


def tree(root: type[ProverError] = ProverError) -> Iterator[type[ProverError]]:
    yield root
    for child in root.__subclasses__():
        yield from tree(child)


CLASSES = tuple(tree())


def make(error: type[ProverError]) -> ProverError:
    if error in (KeyMissing, KeyListUnavailable):
        return error("a.key", "put it there")
    return error()


@pytest.mark.parametrize("error", CLASSES, ids=lambda error: error.__name__)
def test_error__of_every_class__has_a_registered_code(error: type[ProverError]) -> None:
    assert error.code in TITLES
    assert 400 <= error.status < 600


@pytest.mark.parametrize("error", CLASSES, ids=lambda error: error.__name__)
def test_error__of_every_class__has_a_documented_exit_code(error: type[ProverError]) -> None:
    documented = json.loads((CONTRACTS / "exit-codes.json").read_text())
    assert str(error.exit_code) in documented


@pytest.mark.parametrize("error", CLASSES, ids=lambda error: error.__name__)
def test_error__default_message__misleads_no_existing_client(error: type[ProverError]) -> None:
    """Clients of the reference act on these words wherever they appear."""
    message = make(error).detail.lower()
    assert message
    assert not re.search(r"500|502|503|connection|job_not_found|is not satisfied", message)


def test_problem_codes__in_the_contract__are_those_of_the_tree() -> None:
    contract = json.loads((CONTRACTS / "problem-codes.json").read_text())
    answered: dict[str, set[tuple[int, bool]]] = {}
    for error in CLASSES:
        answered.setdefault(error.code, set()).add((error.status, error.retryable))
    answered["malformed_body"].add((417, False))  # an Expect header other than 100-continue (framing.py)
    assert contract == {
        code: [{"status": status, "retryable": retryable} for status, retryable in sorted(pairs)]
        for code, pairs in sorted(answered.items())
    }


def test_key_missing__message__is_the_one_users_search_for() -> None:
    assert KeyMissing("v2_inclusion_32_5.key", "do this").detail == (
        "proving key file not found: v2_inclusion_32_5.key; do this"
    )
