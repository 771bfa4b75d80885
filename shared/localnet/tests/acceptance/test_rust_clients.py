"""Programs of the published Rust crates: a client on the network, and a node's decoders next to ours."""

from __future__ import annotations

import json
import subprocess

import pytest
from clients import DEADLINE, Network, proofs_of, urls
from parsed_cases import accounts, decoded, instructions
from rust_programs import BUILDING, FETCHING, built
from solders.pubkey import Pubkey

from localnet.chain.artefacts import DEFAULT_VERSION, artefacts_folder

CASES = 20_000


@pytest.mark.timeout(FETCHING + BUILDING + DEADLINE)
def test_light_client__life_of_lamports__is_what_the_crate_expects(network: Network) -> None:
    program = built("lamports")
    before = 0 if network["proofs"] == "simulated" else proofs_of(network)
    done = subprocess.run([str(program), *urls(network)], capture_output=True, text=True, timeout=DEADLINE)
    assert done.returncode == 0, done.stderr
    seen = json.loads(done.stdout)
    assert (seen["healthy"], seen["newAddress"]) == (True, True)
    for version, proved in (("v1", True), ("v2", False)):
        assert seen[version] == {
            "compressed": 10**9,
            "byHash": 10**9,
            "proved": proved,
            "received": 3 * 10**8,
            "decompressed": 2 * 10**8,
            "left": 5 * 10**8,
            "transactions": 3,
        }
    if network["proofs"] != "simulated":
        # A new address, a V1 transfer, its proof from the prover directly, and a V1 decompression.
        assert proofs_of(network) - before >= 4


@pytest.mark.timeout(FETCHING + BUILDING + DEADLINE)
@pytest.mark.parametrize("network", ["simulated"], indirect=True)
def test_deployment__instructions_of_solanas_command_line__program_runs_and_is_upgraded(network: Network) -> None:
    program = built("deploy")
    content = artefacts_folder() / DEFAULT_VERSION / "programs" / "spl_noop.so"
    command = [str(program), network["rpcUrl"], network["keyFile"], str(content)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=DEADLINE)
    assert done.returncode == 0, done.stderr
    Pubkey.from_string(done.stdout.strip())


@pytest.mark.timeout(FETCHING + BUILDING + DEADLINE)
def test_parsed__random_accounts_and_instructions__equal_those_of_a_nodes_decoders() -> None:
    program = built("decode")
    cases = [*instructions(1, CASES), *accounts(2, CASES)]
    lines = "".join(f"{json.dumps(case)}\n" for case in cases)
    done = subprocess.run([str(program)], input=lines, capture_output=True, text=True, timeout=DEADLINE, check=True)
    answers = [json.loads(line) for line in done.stdout.removesuffix("\n").split("\n")]
    assert len(answers) == len(cases)
    for case, answer in zip(cases, answers, strict=True):
        if answer is not None:
            answer.pop("stackHeight", None)
        assert json.loads(json.dumps(decoded(case))) == answer, case
    assert sum(answer is not None for answer in answers) > CASES // 2
