"""Poseidon of many inputs against the vectors of the floor."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from localnet.indexer.wide_poseidon import MAX_INPUTS, hash_elements

VECTORS = json.loads((Path(__file__).parents[4] / "tests" / "vectors" / "poseidon.json").read_text())["hash"]


@pytest.mark.parametrize("width", range(1, MAX_INPUTS + 1))
def test_hash_elements__vectors_of_a_width__are_equal(width: int) -> None:
    cases = [case for case in VECTORS if len(case["inputs"]) == width]
    assert cases
    for case in cases:
        inputs = [bytes.fromhex(value[2:]) for value in case["inputs"]]
        assert hash_elements(inputs).hex() == case["output"][2:]


@pytest.mark.parametrize("inputs", [[], [bytes(32)] * (MAX_INPUTS + 1), [b"\xff" * 32] * 5, [b"\xff" * 32]])
def test_hash_elements__outside_the_domain__is_refused(inputs: list[bytes]) -> None:
    with pytest.raises(ValueError, match=r"Poseidon takes|scalar field order"):
        hash_elements(inputs)
