"""Requests that no witness satisfies: the member that is refused, and the reason."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
from golden_vectors import SHARED_VECTORS, RequestVector, load, number, request_vectors

from prover.cli.random_requests import RandomRequests
from prover.errors import WitnessRejected
from prover.proving.prechecks import batches
from prover.proving.prechecks.satisfiable import require_satisfiable
from prover.proving.request import ProofTask, read_envelope, read_task
from shared.requests.circuit_id import KEY_SUFFIX, CircuitId
from shared.requests.proof_wire import encode_request
from shared.requests.witness_inputs import chain
from shared.trees.field import format_number, scalar_bytes

WRONG = "0x2a"


def task_of(request: dict[str, Any]) -> ProofTask:
    body = json.dumps(request).encode()
    return read_task(read_envelope(body), known=None)


def refusal(request: dict[str, Any]) -> WitnessRejected:
    with pytest.raises(WitnessRejected) as caught:
        require_satisfiable(task_of(request))
    return caught.value


def changed(name: str, *place: Any, to: Any) -> dict[str, Any]:
    request: dict[str, Any] = copy.deepcopy(load(f"prover/{name}.json"))
    *parents, last = place
    container: Any = request
    for step in parents:
        container = container[step]
    container[last] = to
    return request


@pytest.mark.parametrize("golden", request_vectors(), ids=lambda golden: golden.name)
def test_request__of_the_vectors__is_satisfiable(golden: RequestVector) -> None:
    require_satisfiable(task_of(golden.request))


@pytest.mark.parametrize("edge", load("circuits/edge_cases.json"), ids=lambda edge: edge["name"])
def test_edge_case__of_the_vectors__has_the_verdict_of_the_reference(edge: dict[str, Any]) -> None:
    if edge["satisfiable"]:
        require_satisfiable(task_of(edge["request"]))
        return
    assert "is not satisfied" in refusal(edge["request"]).detail


def test_vectors__of_circuits__are_all_judged_here() -> None:
    index = load("circuits/index.json")
    assert sorted(path.name for path in (SHARED_VECTORS / "circuits").iterdir()) == index["files"]
    requests = {golden.name.removeprefix("circuits/") for golden in request_vectors()}
    edges = {f"edge:{edge['name']}" for edge in load("circuits/edge_cases.json")}
    assert set(index["acceptance"]) <= requests | edges
    assert len(edges) == 18


ACCOUNT, ADDRESS = "inputCompressedAccounts", "newAddresses"
LOWER, HIGHER = "leafLowerRangeValue", "leafHigherRangeValue"
BLAMED = [
    ("v1_inclusion_26_2", (ACCOUNT, 1, "leaf"), WRONG, f"$.{ACCOUNT}[1].pathElements"),
    ("v1_inclusion_26_2", (ACCOUNT, 1, "pathIndex"), 2**26, f"$.{ACCOUNT}[1].pathIndex"),
    ("v2_inclusion_32_2", ("publicInputHash",), WRONG, "$.publicInputHash"),
    ("v2_inclusion_32_2", (ACCOUNT, 1, "pathElements", 31), WRONG, f"$.{ACCOUNT}[1].pathElements"),
    ("v1_non-inclusion_26_2", (ADDRESS, 1, "nextIndex"), 9, f"$.{ADDRESS}[1].pathElements"),
    ("v2_non-inclusion_40_1", (ADDRESS, 0, HIGHER), "0x1", f"$.{ADDRESS}[0].{HIGHER}"),
    ("v2_non-inclusion_40_1", (ADDRESS, 0, LOWER), "0x" + "f" * 62, f"$.{ADDRESS}[0].{LOWER}"),
    ("v2_combined_32_40_1_2", (ACCOUNT, 0, "pathElements", 0), WRONG, f"$.{ACCOUNT}[0].pathElements"),
    ("v2_combined_32_40_1_2", (ADDRESS, 1, "pathElements", 7), WRONG, f"$.{ADDRESS}[1].pathElements"),
    ("batch_append_32_10", ("publicInputHash",), WRONG, "$.publicInputHash"),
    ("batch_append_32_10", ("leaves", 4), WRONG, "$.leavesHashchainHash"),
    ("batch_append_32_10", ("oldLeaves", 0), WRONG, "$.merkleProofs[0]"),
    ("batch_append_32_10", ("merkleProofs", 9, 31), WRONG, "$.merkleProofs[9]"),
    ("batch_update_32_10", ("publicInputHash",), WRONG, "$.publicInputHash"),
    ("batch_update_32_10", ("txHashes", 2), WRONG, "$.leavesHashchainHash"),
    ("batch_update_32_10", ("newMerkleProofs", 3, 0), WRONG, "$.newMerkleProofs[3]"),
    ("batch_address-append_40_10", ("newElementValues", 5), "0x0", "$.hashchainHash"),
    ("batch_address-append_40_10", ("lowElementValues", 5), "0x" + "f" * 62, "$.lowElementValues[5]"),
    ("batch_address-append_40_10", ("lowElementNextValues", 5), "0x0", "$.lowElementNextValues[5]"),
    ("batch_address-append_40_10", ("lowElementIndices", 5), hex(2**41), "$.lowElementIndices[5]"),
    ("batch_address-append_40_10", ("lowElementProofs", 5, 1), WRONG, "$.lowElementProofs[5]"),
    ("batch_address-append_40_10", ("newElementProofs", 9, 39), WRONG, "$.newElementProofs[9]"),
    ("batch_address-append_40_10", ("hashchainHash",), WRONG, "$.publicInputHash"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "place", "value", "path"), BLAMED)
def test_refusal__of_any_member__names_its_path(name: str, place: tuple[Any, ...], value: Any, path: str) -> None:
    refused = refusal(changed(name, *place, to=value))
    assert (refused.path, refused.constraint) == (path, None)
    assert refused.detail.endswith(f" at {path}")
    prefix = "error proving: " if name.startswith("batch") else ""
    assert refused.detail.startswith(f"{prefix}constraint system error: a constraint is not satisfied: ")
    assert (refused.code, refused.status, refused.retryable) == ("proving_error", 400, False)


def test_refusal__of_several_members__names_the_first_in_the_order_of_inputs() -> None:
    request = changed("batch_append_32_10", "merkleProofs", 9, 31, to=WRONG)
    request["merkleProofs"][2][0] = WRONG
    assert refusal(request).path == "$.merkleProofs[2]"
    request["leaves"][0] = WRONG
    assert refusal(request).path == "$.leavesHashchainHash"
    request["publicInputHash"] = WRONG
    assert refusal(request).path == "$.publicInputHash"


@pytest.mark.parametrize("name", ["batch_append_32_10", "batch_update_32_10", "batch_address-append_40_10"])
def test_refusal__of_a_wrong_end__names_the_new_root(name: str) -> None:
    request = changed(name, "newRoot", to=WRONG)
    contents = request.get("leavesHashchainHash") or request["hashchainHash"]
    members = [request["oldRoot"], WRONG, contents, *([hex(request["startIndex"])] if "startIndex" in request else [])]
    request["publicInputHash"] = format_number(chain([scalar_bytes(number(text)) for text in members]))
    assert refusal(request).path == "$.newRoot"


@pytest.mark.parametrize("threads", [1, 2, 3])
@pytest.mark.parametrize(
    ("circuit", "member"),
    [
        ("batch_append_32_120", "merkleProofs"),
        ("batch_update_32_120", "newMerkleProofs"),
        ("batch_address-append_40_60", "lowElementProofs"),
    ],
)
def test_batch__divided_between_threads__has_the_same_verdict(
    monkeypatch: pytest.MonkeyPatch, circuit: str, member: str, threads: int
) -> None:
    monkeypatch.setattr(batches, "_all_threads", lambda: threads)
    identity = CircuitId.from_key_file(circuit + KEY_SUFFIX)
    assert identity is not None
    request = json.loads(encode_request(RandomRequests("divided").make(identity)))
    require_satisfiable(task_of(request))
    member = (
        "lowElementProofs" if "address" in circuit else "merkleProofs" if "append" in circuit else "newMerkleProofs"
    )
    for row in (59, 31):
        request[member][row][2] = WRONG
        assert refusal(request).path == f"$.{member}[{row}]"
