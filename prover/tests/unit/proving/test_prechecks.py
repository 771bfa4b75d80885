"""Answers to requests that no witness satisfies, with the position in the circuit."""

from __future__ import annotations

import copy
import json
import re
from pathlib import Path
from typing import Any

import pytest
from golden_vectors import SHARED_VECTORS, RequestVector, load, request_vectors

from prover.circuits.frontend.gnark_release import GNARK_014, GNARK_08
from prover.circuits.gadgets.poseidon_constants import PARTIAL_ROUNDS
from prover.cli.made_up_requests import MadeUpRequests
from prover.errors import KeyMissing, WitnessRejected
from prover.proving.prechecks import satisfiable
from prover.proving.prechecks.constraint_counter import ConstraintCounter, hash_constraints
from prover.proving.prechecks.satisfiable import first_failure, require_satisfiable
from prover.proving.request import ProofTask, read_envelope, read_task
from shared.circuit_id import CircuitId, CircuitKind
from shared.proof_wire import encode_request

STATS = load("circuits/r1cs_stats.json")
COUNTS = {name: stats["constraints"] for part in ("circuits", "extrapolated") for name, stats in STATS[part].items()}
WRONG = "0x2a"


def task_of(request: dict[str, Any]) -> ProofTask:
    body = json.dumps(request).encode()
    return read_task(body, read_envelope(body), known=None)


def no_key(circuit: CircuitId) -> Path:
    raise KeyMissing(circuit.key_file, "")


def refusal(request: dict[str, Any]) -> WitnessRejected:
    with pytest.raises(WitnessRejected) as caught:
        require_satisfiable(task_of(request), no_key)
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
    require_satisfiable(task_of(golden.request), no_key)


@pytest.mark.parametrize("edge", load("circuits/edge_cases.json"), ids=lambda edge: edge["name"])
def test_edge_case__of_the_vectors__has_the_verdict_and_the_constraint_of_the_reference(edge: dict[str, Any]) -> None:
    if edge["satisfiable"]:
        require_satisfiable(task_of(edge["request"]), no_key)
        return
    refused = refusal(edge["request"])
    for verdict in edge["goProver"].values():
        assert re.findall(r"constraint #(\d+) is not satisfied", verdict) == [str(refused.constraint)]
        assert f"constraint #{refused.constraint} is not satisfied" in refused.detail


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
    ("v1_inclusion_26_2", (ACCOUNT, 1, "leaf"), WRONG, f"$.{ACCOUNT}[1].pathElements", 12639),
    ("v1_inclusion_26_2", (ACCOUNT, 1, "pathIndex"), 2**26, f"$.{ACCOUNT}[1].pathIndex", 6346),
    ("v2_inclusion_32_2", ("publicInputHash",), WRONG, "$.publicInputHash", 501),
    ("v2_inclusion_32_2", (ACCOUNT, 1, "pathElements", 31), WRONG, f"$.{ACCOUNT}[1].pathElements", 16057),
    ("v1_non-inclusion_26_2", (ADDRESS, 1, "nextIndex"), 9, f"$.{ADDRESS}[1].pathElements", 14157),
    ("v2_non-inclusion_40_1", (ADDRESS, 0, HIGHER), "0x1", f"$.{ADDRESS}[0].{HIGHER}", 738),
    ("v2_non-inclusion_40_1", (ADDRESS, 0, LOWER), "0x" + "f" * 62, f"$.{ADDRESS}[0].{LOWER}", 489),
    ("v2_combined_32_40_1_2", (ACCOUNT, 0, "pathElements", 0), WRONG, f"$.{ACCOUNT}[0].pathElements", 8759),
    ("v2_combined_32_40_1_2", (ADDRESS, 1, "pathElements", 7), WRONG, f"$.{ADDRESS}[1].pathElements", 29679),
    ("batch_append_32_10", ("publicInputHash",), WRONG, "$.publicInputHash", 720),
    ("batch_append_32_10", ("leaves", 4), WRONG, "$.leavesHashchainHash", 2911),
    ("batch_append_32_10", ("oldLeaves", 0), WRONG, "$.merkleProofs[0]", 10689),
    ("batch_append_32_10", ("merkleProofs", 9, 31), WRONG, "$.merkleProofs[9]", 150387),
    ("batch_update_32_10", ("publicInputHash",), WRONG, "$.publicInputHash", 480),
    ("batch_update_32_10", ("txHashes", 2), WRONG, "$.leavesHashchainHash", 5251),
    ("batch_update_32_10", ("newMerkleProofs", 3, 0), WRONG, "$.newMerkleProofs[3]", 59595),
    ("batch_address-append_40_10", ("newElementValues", 5), "0x0", "$.lowElementValues[5]", 200358),
    ("batch_address-append_40_10", ("lowElementIndices", 5), hex(2**41), "$.lowElementIndices[5]", 201128),
    ("batch_address-append_40_10", ("lowElementProofs", 5, 1), WRONG, "$.lowElementProofs[5]", 210809),
    ("batch_address-append_40_10", ("newElementProofs", 9, 39), WRONG, "$.newElementProofs[9]", 390539),
    ("batch_address-append_40_10", ("hashchainHash",), WRONG, "$.publicInputHash", 403102),
]  # fmt: skip


@pytest.mark.parametrize(("name", "place", "value", "path", "constraint"), BLAMED)
def test_refusal__of_any_member__names_the_constraint_and_the_place(
    name: str, place: tuple[Any, ...], value: Any, path: str, constraint: int
) -> None:
    refused = refusal(changed(name, *place, to=value))
    assert (refused.path, refused.constraint) == (path, constraint)
    assert refused.detail.endswith(f" at {path}")
    prefix = "error proving: " if name.startswith("batch") else ""
    assert refused.detail.startswith(f"{prefix}constraint system error: constraint #{constraint} is not satisfied: ")
    assert (refused.code, refused.status, refused.retryable) == ("proving_error", 400, False)


@pytest.mark.parametrize("name", COUNTS)
def test_walk__through_a_whole_circuit__passes_all_its_constraints(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    walks: list[ConstraintCounter] = []

    class Noted(ConstraintCounter):
        def __init__(self) -> None:
            super().__init__()
            walks.append(self)

    circuit = CircuitId.from_key_file(name + ".key")
    assert circuit is not None
    monkeypatch.setattr(satisfiable, "ConstraintCounter", Noted)
    request = MadeUpRequests(name).make(circuit)
    assert first_failure(circuit, task_of(json.loads(encode_request(request))).assignment) is None
    assert [walk.constraints for walk in walks] == [COUNTS[name]]


def test_hash__of_any_number_of_inputs__has_the_constraints_of_the_specification() -> None:
    assert [hash_constraints(inputs) for inputs in (1, 2, 3)] == [213, 240, 261]
    assert PARTIAL_ROUNDS[:3] == (56, 57, 56)


@pytest.mark.parametrize(("content", "constraint"), [("0.8", 150397), ("0.14", 150387), ("short", 150387)])
def test_batch_append__with_a_key__is_numbered_as_its_generation(tmp_path: Path, content: str, constraint: int) -> None:
    # A wrapper and a domain block, then a compressed point (0.8) or a byte about tables (0.14).
    after = {"0.8": bytes([0x8A]) * 32, "0.14": bytes([1]) + bytes(32), "short": b""}[content]
    key = tmp_path / "batch_append_32_10.key"
    key.write_bytes(bytes(8 + 8 + 5 * 32) + after)
    task = task_of(changed("batch_append_32_10", "merkleProofs", 9, 31, to=WRONG))
    with pytest.raises(WitnessRejected) as caught:
        require_satisfiable(task, lambda _: key)
    assert caught.value.constraint == constraint


def test_verdict__of_other_circuits__does_not_depend_on_the_generation() -> None:
    task = task_of(changed("batch_update_32_10", "newMerkleProofs", 3, 0, to=WRONG))
    assert task.circuit.kind is CircuitKind.BATCH_UPDATE
    verdicts = {first_failure(task.circuit, task.assignment, each) for each in (GNARK_08, GNARK_014)}
    assert len(verdicts) == 1
