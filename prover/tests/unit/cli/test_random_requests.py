"""Made-up requests satisfy the circuits of their shape, whatever the heights and sizes; solved in Python integers."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from circuit_inputs import circuit_inputs
from naive_solver import ConstraintBroken, solve

from prover.circuits.catalogue import compile_circuit
from prover.cli.random_requests import RandomRequests
from prover.proving.request import read_envelope, read_task
from shared.requests.circuit_id import CircuitId, CircuitKind
from shared.requests.proof_wire import encode_request
from shared.trees.merkle_tree import TreeFull

PROVER = Path(sys.executable).with_name("prover")

SHAPES = [
    CircuitId(CircuitKind.INCLUSION, 1, (26,), (1,)),
    CircuitId(CircuitKind.INCLUSION, 2, (1,), (1,)),
    CircuitId(CircuitKind.INCLUSION, 2, (5,), (3,)),
    CircuitId(CircuitKind.NON_INCLUSION, 1, (1,), (1,)),
    CircuitId(CircuitKind.NON_INCLUSION, 1, (26,), (2,)),
    CircuitId(CircuitKind.NON_INCLUSION, 2, (1,), (2,)),
    CircuitId(CircuitKind.NON_INCLUSION, 2, (40,), (1,)),
    CircuitId(CircuitKind.COMBINED, 1, (26, 26), (1, 1)),
    CircuitId(CircuitKind.COMBINED, 2, (3, 40), (2, 1)),
    CircuitId(CircuitKind.BATCH_APPEND, 2, (1,), (2,)),
    CircuitId(CircuitKind.BATCH_APPEND, 2, (4,), (5,)),
    CircuitId(CircuitKind.BATCH_UPDATE, 2, (1,), (2,)),
    CircuitId(CircuitKind.BATCH_UPDATE, 2, (4,), (5,)),
    CircuitId(CircuitKind.BATCH_ADDRESS_APPEND, 2, (2,), (3,)),
    CircuitId(CircuitKind.BATCH_ADDRESS_APPEND, 2, (5,), (2,)),
]


def run(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([PROVER, "gen-test-params", *words], capture_output=True, text=True)


def made_up(circuit: CircuitId, seed: str) -> dict[str, Any]:
    request: dict[str, Any] = json.loads(encode_request(RandomRequests(seed).make(circuit)))
    return request


@pytest.mark.parametrize("circuit", SHAPES, ids=str)
@pytest.mark.sampled(8)
def test_request__of_any_shape__satisfies_its_circuit_and_a_changed_one_does_not(circuit: CircuitId) -> None:
    compiled = compile_circuit(circuit)
    inputs = circuit_inputs(made_up(circuit, "any"))
    solve(compiled, inputs)
    for place in (0, len(compiled.public_names) - 1):  # the names include the constant one
        changed = [*inputs[:place], inputs[place] + 1, *inputs[place + 1 :]]
        with pytest.raises(ConstraintBroken):
            solve(compiled, changed)


@pytest.mark.parametrize("circuit", SHAPES, ids=str)
def test_request__of_any_shape__is_read_by_the_service(circuit: CircuitId) -> None:
    body = encode_request(RandomRequests("any").make(circuit))
    task = read_task(read_envelope(body), known=None)
    # The service derives versions from heights; the smaller trees of version 2 count as version 1 there.
    assert (task.circuit.kind, task.circuit.heights, task.circuit.sizes) == (
        circuit.kind,
        circuit.heights,
        circuit.sizes,
    )
    assert not task.assignment.reduced


@pytest.mark.parametrize("circuit", SHAPES, ids=str)
def test_request__same_seed__is_the_same_and_another_seed_is_not(circuit: CircuitId) -> None:
    assert made_up(circuit, "a") == made_up(circuit, "a")
    assert made_up(circuit, "a") != made_up(circuit, "b")


def test_batches__of_production_size__report_the_whole_story() -> None:
    append = made_up(CircuitId(CircuitKind.BATCH_APPEND, 2, (32,), (500,)), "s")
    zero = "0x" + "0" * 64
    assert append["startIndex"] == 500
    assert sum(leaf != zero for leaf in append["oldLeaves"]) == 167
    update = made_up(CircuitId(CircuitKind.BATCH_UPDATE, 2, (32,), (500,)), "s")
    appended = [leaf != zero for leaf in update["oldLeaves"]]
    assert any(appended)
    assert not all(appended)
    assert len(set(update["pathIndices"])) == 500
    addresses = made_up(CircuitId(CircuitKind.BATCH_ADDRESS_APPEND, 2, (40,), (250,)), "s")
    assert set(addresses["lowElementValues"]) & set(addresses["newElementValues"])


@pytest.mark.parametrize("kind", [kind for kind in CircuitKind if kind.is_batch])
def test_batches__that_do_not_fit_into_their_tree__are_refused(kind: CircuitKind) -> None:
    with pytest.raises(TreeFull):
        RandomRequests("s").make(CircuitId(kind, 2, (2,), (5,)))


def test_command__without_options__writes_a_request_of_the_default_circuit() -> None:
    first, second = run(), run()
    request = json.loads(first.stdout)
    assert (request["circuitType"], request["stateTreeHeight"]) == ("inclusion", 32)
    assert len(request["inputCompressedAccounts"]) == 1
    assert request["publicInputHash"]
    assert first.stdout != second.stdout
    assert first.stderr == ""


def test_command__flags_of_the_reference__mean_what_they_mean_there() -> None:
    request = json.loads(run("--tree-height", "26", "--compressed-accounts", "3").stdout)
    assert request["stateTreeHeight"] == 26
    assert [len(account["pathElements"]) for account in request["inputCompressedAccounts"]] == [26, 26, 26]
    assert request["publicInputHash"]  # as the reference's does: version 2 at this height


def test_command__with_a_seed__repeats_itself() -> None:
    words = ("--circuit", "combined", "--legacy", "--new-addresses", "2", "--seed", "demo")
    first = run(*words)
    assert first.stdout == run(*words).stdout
    assert "publicInputHash" not in json.loads(first.stdout)


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["--circuit", "nothing"], "'nothing' is not one of"),
        (["--tree-height", "0"], "0 is not in the range"),
        (["--tree-height", "254"], "1 to 253 levels"),
        (["--compressed-accounts", "100000000"], "at most"),
        (["--batch-size", "5"], "--circuit inclusion has no --batch-size"),
        (["--circuit", "append", "--legacy"], "--legacy exists for inclusion"),
        (["--circuit", "update", "--tree-height", "2"], "raise the height"),
        (["--circuit", "address-append", "--tree-height", "40"], "has no --tree-height"),
    ],
)
def test_command__options_that_do_not_fit__are_refused_with_the_remedy(words: list[str], complaint: str) -> None:
    answer = run(*words)
    assert answer.returncode == 2
    assert answer.stdout == ""
    assert complaint in answer.stderr


def test_command__help__teaches_by_examples_that_work() -> None:
    text = run("--help").stdout
    examples = [line.strip() for line in text.splitlines() if line.strip().startswith("prover gen-test-params")]
    assert len(examples) >= 3
    environment = {**os.environ, "PATH": f"{PROVER.parent}:{os.environ['PATH']}"}
    for example in examples:
        command = example.split("|")[0].split(">")[0]
        made = subprocess.run(command.split(), capture_output=True, env=environment)
        assert made.returncode == 0, made.stderr.decode()
        json.loads(made.stdout)
