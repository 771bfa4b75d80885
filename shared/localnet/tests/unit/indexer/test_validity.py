"""Requests to the prover and proofs from it, against the recorded ones of the prover."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from indexer_vectors import Recorded, indexer_vectors

from localnet.indexer.api.proofs import AbsenceProof, LeafProof
from localnet.indexer.api.validity import Statement, compressed
from localnet.indexer.database.trees import Tree
from localnet.indexer.programs import HEIGHTS, ROOT_CAPACITIES, TreeType
from localnet.json_rpc import RpcError
from shared.trees.indexed_merkle_tree import Element

REQUESTS = Path(__file__).parents[4] / "tests" / "vectors" / "circuits"
CASES = [
    case
    for path in sorted(REQUESTS.glob("requests_*_v[12].json"))
    for case in json.loads(path.read_text())
    if "request" in case
]
COMPRESSION: list[Recorded] = indexer_vectors("proof_compression")["cases"]


@pytest.mark.parametrize("number", range(len(COMPRESSION)))
def test_compressed__recorded_proof__gives_the_recorded_bytes(number: int) -> None:
    case = COMPRESSION[number]
    made = compressed(case["proof"])
    assert {name: bytes(made[name]).hex() for name in "abc"} == {name: case[name] for name in "abc"}


@pytest.mark.parametrize(
    "answer",
    [None, [], {}, {"ar": ["0x1"], "bs": [], "krs": []}, {**COMPRESSION[0]["proof"], "ar": [1, 2]}],
)
def test_compressed__something_else__is_refused(answer: Any) -> None:
    with pytest.raises(RpcError, match="the answer of the prover is not a proof"):
        compressed(answer)


def tree(tree_type: TreeType, root: str) -> Tree:
    height, capacity = HEIGHTS[tree_type], ROOT_CAPACITIES[tree_type]
    return Tree(1, bytes(32), tree_type, bytes(32), height, capacity, 5, 7, data(root), 0, 0, 0, 0, None)


def data(text: str) -> bytes:
    return bytes.fromhex(text.removeprefix("0x").rjust(64, "0"))


def statement(request: Recorded, *, newer: bool) -> Statement:
    """Return what a recorded request says."""
    state, address = (TreeType.STATE_V2, TreeType.ADDRESS_V2) if newer else (TreeType.STATE_V1, TreeType.ADDRESS_V1)
    leaves = [
        LeafProof(tree(state, one["root"]), one["pathIndex"], data(one["leaf"]), [*map(data, one["pathElements"])])
        for one in request.get("inputCompressedAccounts", [])
    ]
    absences = [
        AbsenceProof(
            tree(address, one["root"]),
            data(one["value"]),
            Element(
                one["pathIndex"],
                data(one["leafLowerRangeValue"]),
                one.get("nextIndex", 0),
                data(one["leafHigherRangeValue"]),
            ),
            [*map(data, one["pathElements"])],
        )
        for one in request.get("newAddresses", [])
    ]
    return Statement(1, leaves, absences)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_request__recorded_statement__gives_the_recorded_request(case: Recorded) -> None:
    recorded = case["request"]
    made = statement(recorded, newer=case["name"].startswith("v2")).request()
    assert made is not None
    # The circuits of version 2 ignore the next index, which the recorded requests leave out.
    expected = recorded | (
        {"newAddresses": [{"nextIndex": 0} | one for one in recorded["newAddresses"]]}
        if "newAddresses" in recorded
        else {}
    )
    assert made == expected


def test_request__queued_leaves_only__asks_for_no_proof() -> None:
    queued = LeafProof(tree(TreeType.STATE_V2, "0x1"), 3, bytes(32), None)
    assert Statement(1, [queued], []).request() is None


def leaf(tree_type: TreeType) -> LeafProof:
    return LeafProof(tree(tree_type, "0x1"), 3, bytes(32), [bytes(32)])


def absence(tree_type: TreeType) -> AbsenceProof:
    return AbsenceProof(tree(tree_type, "0x1"), bytes(32), Element(0, bytes(32), 0, bytes(32)), [bytes(32)])


@pytest.mark.parametrize(
    ("leaves", "absences", "reason"),
    [
        ([leaf(TreeType.STATE_V1)] * 5, [], "Allowed: 1, 2, 3, 4, 8"),
        ([leaf(TreeType.STATE_V2)] * 21, [], "Invalid number of hashes"),
        ([], [absence(TreeType.ADDRESS_V1)] * 3, "Invalid number of new addresses"),
        ([], [absence(TreeType.ADDRESS_V2)] * 33, "Invalid number of new addresses"),
        ([leaf(TreeType.STATE_V2)] * 5, [absence(TreeType.ADDRESS_V2)], "At most 4 hashes and 4 new addresses"),
        ([leaf(TreeType.STATE_V1)], [absence(TreeType.ADDRESS_V2)], "must be of one version"),
        ([leaf(TreeType.STATE_V1), leaf(TreeType.STATE_V2)], [], "must be of one version"),
    ],
)
def test_request__no_key_for_it__is_refused_with_the_limits(
    leaves: list[LeafProof], absences: list[AbsenceProof], reason: str
) -> None:
    with pytest.raises(RpcError, match=reason):
        Statement(1, leaves, absences).request()
