"""Tables of recorded facts: discriminators, fixtures, and the names of error codes as the programs log them."""

from __future__ import annotations

import json

import administration
import compressible
import forester_instructions
import pytest
from chains import FORESTER, USER, funded, registered_inserter, send, simulated_artefacts
from forestry import EPOCH, INSERT_INTO_QUEUES, Forest, address_insertion
from recorded import VECTORS, Recorded, recorded

from localnet.chain import addresses
from localnet.chain.artefacts import load_artefacts
from localnet.chain.blocks import RecordedTransaction
from localnet.indexer import programs
from localnet.indexer.decoding import instructions
from localnet.programs import light_system, registry
from localnet.programs.light_system import Output, invoke

REGISTRY = {
    "register_forester": registry.REGISTER_FORESTER,
    "update_forester_pda": forester_instructions.UPDATE_FORESTER,
    "update_forester_pda_weight": administration.UPDATE_FORESTER_WEIGHT,
    "register_forester_epoch": forester_instructions.REGISTER_FORESTER_EPOCH,
    "finalize_registration": forester_instructions.FINALIZE_REGISTRATION,
    "report_work": forester_instructions.REPORT_WORK,
    "batch_append": forester_instructions.BATCH_APPEND,
    "batch_nullify": forester_instructions.BATCH_NULLIFY,
    "batch_update_address_tree": forester_instructions.BATCH_UPDATE_ADDRESS_TREE,
    "nullify": forester_instructions.NULLIFY,
    "update_address_merkle_tree": forester_instructions.UPDATE_ADDRESS_MERKLE_TREE,
    "rollover_state_merkle_tree_and_queue": forester_instructions.ROLLOVER_STATE_V1,
    "rollover_address_merkle_tree_and_queue": forester_instructions.ROLLOVER_ADDRESS_V1,
    "rollover_batched_state_merkle_tree": forester_instructions.ROLLOVER_STATE_V2,
    "rollover_batched_address_merkle_tree": forester_instructions.ROLLOVER_ADDRESS_V2,
    "update_protocol_config": administration.UPDATE_PROTOCOL_CONFIG,
    "initialize_batched_state_merkle_tree": administration.INITIALIZE_STATE_TREE,
    "initialize_batched_address_merkle_tree": administration.INITIALIZE_ADDRESS_TREE,
    "claim": compressible.CLAIM,
    "compress_and_close": compressible.COMPRESS_AND_CLOSE,
}


def test_discriminators__of_instructions__equal_the_recorded_ones() -> None:
    facts = recorded("discriminators")
    assert {name: facts["registry"][name] for name in REGISTRY} == {name: d.hex() for name, d in REGISTRY.items()}
    assert facts["account_compression"]["insert_into_queues"] == INSERT_INTO_QUEUES.hex()
    assert programs.INSERT_INTO_QUEUES == INSERT_INTO_QUEUES
    assert facts["light_system"]["invoke"] == light_system.INVOKE.hex() == instructions.INVOKE.hex()


def test_fixtures__of_the_package__are_the_recorded_accounts() -> None:
    rows: list[Recorded] = json.loads((VECTORS / "fixtures_0.28.3.json").read_text())
    # Of two files for one account the stale one does not count.
    rows.sort(key=lambda row: not row["stale"])
    wanted = {row["pubkey"]: (row["owner"], row["size"], row["lamports"]) for row in rows}
    found = {
        str(key): (str(account.owner), len(account.data), account.lamports)
        for key, account in load_artefacts().accounts.items()
    }
    assert found == wanted


def early_report(forest: Forest) -> RecordedTransaction:
    return send(
        forest.network, [forester_instructions.report_work(FORESTER.pubkey(), FORESTER.pubkey(), EPOCH)], FORESTER
    )


def late_registration(forest: Forest) -> RecordedTransaction:
    return send(
        forest.network,
        [forester_instructions.register_forester_epoch(FORESTER.pubkey(), FORESTER.pubkey(), 3)],
        FORESTER,
    )


def eleven_leaves(forest: Forest) -> RecordedTransaction:
    outputs = [Output(USER.pubkey(), 1_000_000, addresses.OUTPUT_QUEUE)] * 11
    return send(forest.network, [invoke(USER.pubkey(), outputs=outputs, compress=11_000_000)], USER)


def nine_addresses(forest: Forest) -> RecordedTransaction:
    data = address_insertion([bytes([0] * 30 + [1, number]) for number in range(9)])
    return registered_inserter(forest.network).insert(data, [addresses.ADDRESS_TREE])


@pytest.mark.parametrize(
    ("act", "program", "code"),
    [
        (early_report, "registry", 6011),
        (late_registration, "registry", 6009),
        (eleven_leaves, "account_compression", 6029),
        (nine_addresses, "account_compression", 6037),
    ],
)
def test_error_codes__logged_by_the_programs__have_the_recorded_names(act: object, program: str, code: int) -> None:
    forest = Forest(funded(simulated_artefacts()))
    forest.register()
    assert callable(act)
    done: RecordedTransaction = act(forest)
    assert done.err == {"InstructionError": [0, {"Custom": code}]}
    name = recorded("error_codes")[program][str(code)]
    assert any(f"Error Code: {name}. Error Number: {code}" in line for line in done.logs), done.logs
