"""Instructions and whole transactions against those that the published programs executed."""

from __future__ import annotations

import pytest
from onchain_vectors import FORESTER, recorded, recorded_instruction
from solders.compute_budget import set_compute_unit_limit
from solders.instruction import Instruction
from solders.pubkey import Pubkey
from solders.transaction import Transaction

from forester.chain.programs import addresses, registry
from forester.chain.programs.coder import (
    account_discriminator,
    build_instruction,
    instruction_discriminator,
    instruction_names,
)

AUTHORITY = FORESTER.pubkey()
TREE = Pubkey.from_string("bmt1LryLZUMmF7ZtqESaw7wifBXLfXHQYoE4GAmrahU")
QUEUE = Pubkey.from_string("oq1na8gojfdUhsfCpyjNt6h4JaDWtHf1yQj4koBWfto")
ADDRESS_TREE = Pubkey.from_string("amt2kaJA14v3urZbZvnc5v2np8jqvc4Z8zDep5wbtzx")
EPOCH = 2


def forester(epoch: int = EPOCH) -> registry.Forester:
    return registry.Forester.registered(AUTHORITY, AUTHORITY, epoch)


def batch_data(name: str) -> bytes:
    entry = recorded(name)
    return bytes.fromhex(entry["new_root"] + entry["compressed_proof"])


def same(built: Instruction, expected: Instruction) -> None:
    assert built.program_id == expected.program_id
    assert bytes(built.data).hex() == bytes(expected.data).hex()
    assert built.accounts == expected.accounts


@pytest.mark.parametrize(
    ("name", "built"),
    [
        ("register_forester_epoch", registry.register_forester_epoch(AUTHORITY, AUTHORITY, AUTHORITY, EPOCH)),
        ("finalize_registration", registry.finalize_registration(AUTHORITY, AUTHORITY, EPOCH)),
        ("report_work", registry.report_work(AUTHORITY, AUTHORITY, EPOCH)),
    ],
)
def test_epoch_instruction__recorded_transaction__is_built_byte_for_byte(name: str, built: Instruction) -> None:
    entry = recorded("registry_epoch_txs")[name]
    same(built, recorded_instruction(entry["instruction"]))
    sent = Transaction.from_bytes(bytes.fromhex(entry["tx_hex"]))
    ours = Transaction.new_signed_with_payer(
        [set_compute_unit_limit(1_400_000), built], AUTHORITY, [FORESTER], sent.message.recent_blockhash
    )
    assert bytes(ours).hex() == entry["tx_hex"]


def test_batch_instructions__recorded_transactions__are_built_byte_for_byte() -> None:
    append = registry.batch_append(forester(), TREE, QUEUE, batch_data("batch_append_tx"))
    same(append, recorded_instruction(recorded("batch_append_tx")["instruction"]))
    nullify = registry.batch_nullify(forester(), TREE, batch_data("batch_nullify_tx"))
    same(nullify, recorded_instruction(recorded("batch_nullify_tx")["instruction"]))
    update = registry.batch_update_address_tree(forester(), ADDRESS_TREE, batch_data("batch_update_address_tree_tx"))
    same(update, recorded_instruction(recorded("batch_update_address_tree_tx")["instruction"]))


def test_v1_nullify__recorded_transaction__is_built_byte_for_byte() -> None:
    entry = recorded("v1_txs")["nullify"]
    expected = recorded_instruction(entry["instruction"])
    tree, queue = expected.accounts[6].pubkey, expected.accounts[7].pubkey
    proof = [bytes(expected.data)[-512:][place : place + 32] for place in range(0, 512, 32)]
    built = registry.nullify(
        forester(epoch=0),
        tree,
        queue,
        changelog_index=entry["changelog_index"],
        queue_index=entry["queue_index"],
        leaf_index=entry["leaf_index"],
        proof=proof,
    )
    same(built, expected)


def test_v1_address_update__recorded_transaction__is_built_byte_for_byte() -> None:
    entry = recorded("v1_txs")["update_address_merkle_tree"]
    expected = recorded_instruction(entry["instruction"])
    data = bytes(expected.data)[-512 - 80 :]
    low = registry.LowAddress(
        index=int.from_bytes(data[:8], "little"),
        value=data[8:40],
        next_index=int.from_bytes(data[40:48], "little"),
        next_value=data[48:80],
        proof=[data[place : place + 32] for place in range(80, 592, 32)],
    )
    built = registry.update_address_merkle_tree(
        forester(epoch=0),
        expected.accounts[6].pubkey,
        expected.accounts[5].pubkey,
        changelog_index=entry["changelog_index"],
        indexed_changelog_index=entry["indexed_changelog_index"],
        queue_index=entry["queue_index"],
        low=low,
    )
    same(built, expected)


def test_discriminators__every_instruction_and_account__are_the_published_ones() -> None:
    published = recorded("discriminators")
    assert len(instruction_names()) == 13
    for name in instruction_names():
        assert instruction_discriminator(name).hex() == published["registry"][name]
    for name in ("ProtocolConfigPda", "ForesterPda", "EpochPda", "ForesterEpochPda"):
        assert account_discriminator(name).hex() == published["accounts"][name]


def test_rollovers__of_all_four_kinds__name_the_accounts_in_the_order_of_the_program() -> None:
    keys = [Pubkey(bytes([place]) * 32) for place in range(1, 6)]
    accounts = registry.Successors(*keys)
    new_tree, old_tree, new_queue, old_queue, context = keys
    me = forester()
    lists = {
        "state_v1": [new_tree, new_queue, old_tree, old_queue, context],
        "address_v1": [new_tree, new_queue, old_tree, old_queue],
        "state_v2": [new_tree, old_tree, new_queue, old_queue, context],
        "address_v2": [new_tree, old_tree],
    }
    for kind, expected in lists.items():
        built: Instruction = getattr(registry, f"rollover_{kind}")(me, accounts)
        assert [meta.pubkey for meta in built.accounts if meta.pubkey in keys] == expected
        assert bytes(built.data)[8:] == b"\xff"
        assert built.accounts[1].is_signer
        assert built.accounts[1].is_writable
    state = registry.rollover_state_v2(me, accounts)
    assert [meta.pubkey for meta in state.accounts[-2:]] == [addresses.PROTOCOL_CONFIG, addresses.LIGHT_SYSTEM]


def test_absent_registration__in_an_instruction__is_the_program_itself_read_only() -> None:
    built = registry.batch_nullify(registry.Forester(AUTHORITY, None), TREE, bytes(160))
    assert built.accounts[0].pubkey == addresses.REGISTRY
    assert not built.accounts[0].is_writable
    with pytest.raises(ValueError, match="report_work needs the account"):
        build_instruction("report_work", {}, [AUTHORITY, None, AUTHORITY])


def test_batch_data__of_another_length__is_refused() -> None:
    with pytest.raises(ValueError, match="160 bytes, not 159"):
        registry.batch_nullify(forester(), TREE, bytes(159))


def test_addresses__of_the_programs__are_the_published_ones() -> None:
    published = recorded("pdas")
    assert str(addresses.PROTOCOL_CONFIG) == published["protocol_config"]["pubkey"]
    assert str(addresses.CPI_AUTHORITY) == published["registry_cpi_authority"]["pubkey"]
    assert published["registry_cpi_authority"]["bump"] == addresses.CPI_AUTHORITY_BUMP
    assert str(addresses.REGISTERED_PROGRAM) == published["registered_registry_program"]["pubkey"]
    derivation = Pubkey.from_string(published["forester_example"]["derivation"])
    assert str(addresses.forester_address(derivation)) == published["forester_example"]["pubkey"]
    example = published["forester_epoch_example"]
    assert str(addresses.forester_epoch_address(derivation, example["epoch"])) == example["pubkey"]
    for epoch, entry in published["epoch_example"].items():
        assert str(addresses.epoch_address(int(epoch))) == entry["pubkey"]
