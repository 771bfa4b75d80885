from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest

from shared.requests.proof_compression import ProofUnusable, compress_proof
from shared.requests.proof_wire import ProofJson
from shared.trees.field import BASE_MODULUS

VECTORS = Path(__file__).parents[2] / "vectors" / "indexer" / "proof_compression.json"
CASES = json.loads(VECTORS.read_text())["cases"]


def proof_of(case: dict[str, object]) -> ProofJson:
    return msgspec.convert(case["proof"], ProofJson)


@pytest.mark.parametrize("case", CASES, ids=lambda case: str(case["source"])[:40])
def test_compression__vectors__are_met(case: dict[str, object]) -> None:
    compressed = compress_proof(proof_of(case))
    assert [compressed.a.hex(), compressed.b.hex(), compressed.c.hex()] == [case["a"], case["b"], case["c"]]
    assert len(compressed.data) == 128


def test_compression__points_off_their_curves__are_refused_by_name() -> None:
    good = proof_of(CASES[0])
    x, y = good.ar
    one_more = hex(int(y, 16) + 1)
    with pytest.raises(ProofUnusable, match=r"\$\.ar of the proof is not a point of G1"):
        compress_proof(msgspec.structs.replace(good, ar=(x, one_more)))
    with pytest.raises(ProofUnusable, match=r"\$\.krs of the proof"):
        compress_proof(msgspec.structs.replace(good, krs=(good.krs[0], one_more)))
    with pytest.raises(ProofUnusable, match=r"\$\.bs of the proof is not a point of the twist"):
        compress_proof(msgspec.structs.replace(good, bs=(good.bs[1], good.bs[0])))
    for text in (hex(BASE_MODULUS), "0x", "-0x1", "é"):
        with pytest.raises(ProofUnusable, match=r"\$\.ar\[0\] of the proof is not a coordinate"):
            compress_proof(msgspec.structs.replace(good, ar=(text, y)))
