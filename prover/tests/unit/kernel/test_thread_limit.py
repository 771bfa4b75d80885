"""An engine under a limit of its threads."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from golden_vectors import UNBLINDED, load, proof_points

from prover.kernel.engine import Engine

TINY = load("gnark/tiny.json")
KEY = bytes.fromhex(TINY["key_v0_14_hex"])
CASE: dict[str, Any] = TINY["cases"]["z6"]


def scalars(texts: list[str]) -> bytes:
    return b"".join(int(text, 16).to_bytes(32, "big") for text in texts)


INPUTS = scalars(CASE["public"]) + scalars(CASE["secret"])
POINTS = proof_points(CASE["unblinded"])


@pytest.mark.parametrize("limit", [1, 2, 3, 4, 7])
def test_engine__under_a_limit__makes_the_same_proof(limit: int) -> None:
    with Engine(threads=4) as engine, engine.load_key(KEY) as key:
        engine.limit_threads(limit)
        with ThreadPoolExecutor(3) as callers:
            made = [callers.submit(key.prove, INPUTS, blinding=UNBLINDED) for _ in range(6)]
            assert {one.result().points for one in made} == {POINTS}
