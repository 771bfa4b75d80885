"""Flows on the real programs, with simulated proofs: what they accept, what they refuse, and how."""

from __future__ import annotations

import forester_instructions
import pytest
from chains import AUTHORITY, FORESTER, USER, funded, registered_inserter, send, simulated_artefacts
from forestry import ACTIVE_SLOT, BATCH, EPOCH, Forest, address_insertion
from recorded import recorded
from solders.account import Account
from solders.address_lookup_table_account import ID as LOOKUP_TABLES
from solders.address_lookup_table_account import AddressLookupTableAccount
from solders.compute_budget import set_compute_unit_limit
from solders.instruction import Instruction
from solders.keypair import Keypair
from solders.message import Message, MessageV0
from solders.transaction import VersionedTransaction

from localnet.chain import addresses
from localnet.chain.blocks import JsonError
from localnet.programs import registry
from localnet.programs.light_system import Input, Output, invoke


def custom(index: int, code: int) -> JsonError:
    return {"InstructionError": [index, {"Custom": code}]}


@pytest.fixture
def forest() -> Forest:
    return Forest(funded(simulated_artefacts()))


@pytest.fixture
def active(forest: Forest) -> Forest:
    forest.register()
    return forest


def address(number: int) -> bytes:
    return bytes([0]) + number.to_bytes(31, "big")


def test_epoch__registration_to_report__counts_the_work(active: Forest) -> None:
    active.compress()
    assert active.work(active.append_instruction()).err is None
    assert active.work_counter() == 50
    active.network.warp(ACTIVE_SLOT + 200)
    report = forester_instructions.report_work(FORESTER.pubkey(), FORESTER.pubkey(), EPOCH)
    assert send(active.network, [report], FORESTER).err is None
    account = active.network.account(addresses.epoch(EPOCH))
    assert account is not None
    assert int.from_bytes(account.data[168:176], "little") == 50
    active.network.advance()
    assert send(active.network, [report], FORESTER).err == custom(0, 6012)


@pytest.mark.parametrize(("slot", "epoch", "code"), [(399, 2, 6009), (400, 3, 6009), (500, 2, 6005)])
def test_register_forester_epoch__outside_its_window__is_refused(slot: int, epoch: int, code: int) -> None:
    network = funded(simulated_artefacts(), first_slot=300)
    admitted = registry.register_forester(AUTHORITY.pubkey(), AUTHORITY.pubkey(), FORESTER.pubkey())
    assert send(network, [admitted], AUTHORITY).err is None
    network.warp(slot)
    done = send(
        network, [forester_instructions.register_forester_epoch(FORESTER.pubkey(), FORESTER.pubkey(), epoch)], FORESTER
    )
    assert done.err == custom(0, code)


def test_register_forester_epoch__twice__finds_the_account_in_place(forest: Forest) -> None:
    admitted = registry.register_forester(AUTHORITY.pubkey(), AUTHORITY.pubkey(), FORESTER.pubkey())
    assert send(forest.network, [admitted], AUTHORITY).err is None
    registration = forester_instructions.register_forester_epoch(FORESTER.pubkey(), FORESTER.pubkey(), EPOCH)
    assert send(forest.network, [registration], FORESTER).err is None
    forest.network.advance()
    assert send(forest.network, [registration], FORESTER).err == custom(0, 0)


def test_register_forester__without_the_protocol_authority__is_refused(forest: Forest) -> None:
    done = send(forest.network, [registry.register_forester(USER.pubkey(), USER.pubkey(), USER.pubkey())], USER)
    assert isinstance(done.err, dict)
    assert done.logs[-1].startswith(f"Program {addresses.REGISTRY} failed")


def test_report_work__outside_the_report_phase__is_refused(active: Forest) -> None:
    report = forester_instructions.report_work(FORESTER.pubkey(), FORESTER.pubkey(), EPOCH)
    assert send(active.network, [report], FORESTER).err == custom(0, 6011)
    active.network.warp(ACTIVE_SLOT + 300)
    assert send(active.network, [report], FORESTER).err == custom(0, 6001)


def test_finalize_registration__before_the_active_phase__is_refused(forest: Forest) -> None:
    admitted = registry.register_forester(AUTHORITY.pubkey(), AUTHORITY.pubkey(), FORESTER.pubkey())
    registration = forester_instructions.register_forester_epoch(FORESTER.pubkey(), FORESTER.pubkey(), EPOCH)
    assert send(forest.network, [admitted], AUTHORITY).err is None
    assert send(forest.network, [registration], FORESTER).err is None
    final = forester_instructions.finalize_registration(FORESTER.pubkey(), FORESTER.pubkey(), EPOCH)
    assert send(forest.network, [final], FORESTER).err == custom(0, 6009)


def test_append__full_batches__follow_the_local_tree(active: Forest) -> None:
    for _ in range(3):
        active.compress()
    for count in range(1, 4):
        assert active.work(active.append_instruction()).err is None
        assert active.root() == active.tree.root
        assert active.work_counter() == 50 * count


def test_append__several_in_one_transaction__are_proved_in_order(active: Forest) -> None:
    for _ in range(4):
        active.compress()
    done = active.work(*[active.append_instruction() for _ in range(4)])
    assert done.err is None
    assert active.root() == active.tree.root
    assert len(bytes(done.transaction)) == 1174


def test_append__five_with_a_lookup_table__fit_one_transaction(active: Forest) -> None:
    for _ in range(5):
        active.compress()
    instructions = [active.append_instruction() for _ in range(5)]
    fixed = [
        *(active.epoch_account, addresses.REGISTRY_CPI_AUTHORITY, addresses.REGISTERED_REGISTRY),
        *(addresses.ACCOUNT_COMPRESSION, addresses.NOOP, addresses.STATE_TREE, addresses.OUTPUT_QUEUE),
    ]
    table = Keypair().pubkey()
    header = (1).to_bytes(4, "little") + b"\xff" * 8 + bytes(9) + b"\x01" + bytes(USER.pubkey()) + bytes(2)
    account = Account(10**9, header + b"".join(map(bytes, fixed)), LOOKUP_TABLES)
    active.network.set_account(table, account)
    message = MessageV0.try_compile(
        FORESTER.pubkey(),
        [set_compute_unit_limit(1_400_000), *instructions],
        [AddressLookupTableAccount(table, fixed)],
        active.network.slots.hash_of(active.network.slot),
    )
    done = active.network.submit(bytes(VersionedTransaction(message, [FORESTER])))
    assert done.err is None, done.logs
    assert active.root() == active.tree.root
    assert done.loaded_writable + done.loaded_readonly == len(fixed)


def test_forester__handed_to_another_key__keeps_its_derivation(forest: Forest) -> None:
    other = Keypair.from_seed(b"successor".ljust(32, b"."))
    forest.network.airdrop(other.pubkey(), 10**10)
    derivation = FORESTER.pubkey()
    admitted = registry.register_forester(AUTHORITY.pubkey(), AUTHORITY.pubkey(), derivation)
    assert send(forest.network, [admitted], AUTHORITY).err is None
    handed = forester_instructions.update_forester(derivation, derivation, other.pubkey())
    assert send(forest.network, [handed], FORESTER, other).err is None
    old = forester_instructions.register_forester_epoch(derivation, derivation, EPOCH)
    assert isinstance(send(forest.network, [old], FORESTER).err, dict)
    new = forester_instructions.register_forester_epoch(other.pubkey(), derivation, EPOCH)
    assert send(forest.network, [new], other).err is None


def test_nullify__spent_accounts__leave_the_tree(active: Forest) -> None:
    indices = active.compress()
    assert active.work(active.append_instruction()).err is None
    assert active.spend(indices).err is None
    assert active.work(active.nullify_instruction()).err is None
    assert active.root() == active.tree.root
    assert active.work_counter() == 100


def test_append__accounts_nullified_before__keeps_the_nullifiers(active: Forest) -> None:
    indices = active.compress()
    assert active.spend(indices).err is None
    assert active.work(active.nullify_instruction()).err is None
    assert active.root() == active.tree.root
    assert active.work(active.append_instruction()).err is None
    assert active.root() == active.tree.root
    assert active.tree.leaf(indices[0]) != bytes(32)


def test_spend__account_already_spent__is_refused(active: Forest) -> None:
    indices = active.compress()
    assert active.spend(indices[:2]).err is None
    active.network.advance()
    assert active.spend(indices[:1]).err == custom(0, 14307)


def test_spend__more_than_there_is__is_refused(active: Forest) -> None:
    [index] = active.compress(1)
    done = active.spend([index], lamports=2_000_000)
    assert done.err == custom(0, 14307)


def test_decompress__queued_account__pays_the_recipient(active: Forest) -> None:
    [index] = active.compress(1, lamports=5_000_000)
    recipient = Keypair().pubkey()
    spent = Input(USER.pubkey(), 5_000_000, addresses.STATE_TREE, addresses.OUTPUT_QUEUE, index)
    rest = Output(USER.pubkey(), 1_000_000, addresses.OUTPUT_QUEUE)
    instruction = invoke(USER.pubkey(), inputs=[spent], outputs=[rest], decompress=4_000_000, recipient=recipient)
    done = send(active.network, [instruction], USER)
    assert done.err is None, done.logs
    account = active.network.account(recipient)
    assert account is not None
    assert account.lamports == 4_000_000


def test_addresses__queued__go_into_the_address_tree(active: Forest) -> None:
    active.insert_addresses([address(1000 + 7 * number) for number in range(10)])
    assert active.work(active.address_instruction()).err is None
    assert active.root(addresses.ADDRESS_TREE) == active.address_tree.root


def test_append__nothing_queued__is_refused(active: Forest) -> None:
    active.compress()
    instruction = active.append_instruction()
    assert active.work(instruction).err is None
    active.network.advance()
    assert active.work(instruction).err == custom(1, 14301)


def test_append__batch_done_by_another__does_not_verify(active: Forest) -> None:
    for _ in range(2):
        active.compress()
    instruction = active.append_instruction()
    assert active.work(instruction).err is None
    active.network.advance()
    assert active.work(instruction).err == custom(1, 13006)


def test_append__both_batches_in_the_tree__reports_that_they_were_inserted(active: Forest) -> None:
    for _ in range(10):
        active.compress()
    instructions = [active.append_instruction() for _ in range(10)]
    assert [active.work(instruction).err for instruction in instructions] == [None] * 10
    active.network.advance()
    assert active.work(instructions[-1]).err == custom(1, 14302)


def test_nullify__half_of_the_next_batch_queued__clears_the_filter_of_the_former(active: Forest) -> None:
    def cleared() -> int:
        account = active.network.account(addresses.STATE_TREE)
        assert account is not None
        return int(account.data[320 + 93])  # bloom_filter_is_zeroed of batch 0

    for _ in range(6):
        active.spend(active.compress())
    for _ in range(5):
        assert active.work(active.nullify_instruction()).err is None
    assert cleared() == 0
    for _ in range(2):
        active.spend(active.compress())
    assert active.work(active.nullify_instruction()).err is None
    assert cleared() == 1
    assert active.root() == active.tree.root


def test_nullify__hash_chain_of_other_leaves__does_not_verify(active: Forest) -> None:
    indices = active.compress(BATCH) + active.compress(BATCH)
    assert active.spend(indices[:BATCH]).err is None
    assert active.spend(indices[BATCH:]).err is None
    active.spent.reverse()
    assert active.work(active.nullify_instruction()).err == custom(1, 13006)


def test_addresses__inserted_before__do_not_verify_again(active: Forest) -> None:
    active.insert_addresses([address(1000 + 7 * number) for number in range(20)])
    instruction = active.address_instruction()
    assert active.work(instruction).err is None
    active.network.advance()
    assert active.work(instruction).err == custom(1, 13006)


@pytest.mark.parametrize(("outputs", "code"), [(10, None), (11, 6029)])
def test_compress__eleven_leaves__are_too_many(active: Forest, outputs: int, code: int | None) -> None:
    made = [Output(USER.pubkey(), 1_000_000, addresses.OUTPUT_QUEUE)] * outputs
    instruction = invoke(USER.pubkey(), outputs=made, compress=outputs * 1_000_000)
    done = send(active.network, [set_compute_unit_limit(1_400_000), instruction], USER)
    assert done.err == (None if code is None else custom(1, code))


def test_spend__eleven_accounts__are_too_many_nullifiers(active: Forest) -> None:
    indices = active.compress(BATCH) + active.compress(1)
    assert active.spend(indices).err == custom(0, 6038)


def test_insert_addresses__nine__are_too_many(active: Forest) -> None:
    data = address_insertion([address(1000 + number) for number in range(9)])
    assert registered_inserter(active.network).insert(data, [addresses.ADDRESS_TREE]).err == custom(0, 6037)


@pytest.mark.parametrize("place", [0, 40, 100, 159])
def test_append__changed_byte_of_root_or_proof__does_not_verify(active: Forest, place: int) -> None:
    active.compress()
    instruction = active.append_instruction()
    data = bytearray(instruction.data)
    data[13 + place] ^= 1
    instruction = type(instruction)(instruction.program_id, bytes(data), instruction.accounts)
    done = active.work(instruction)
    assert isinstance(done.err, dict)
    [index, reason] = done.err["InstructionError"]
    assert index == 1
    assert reason["Custom"] in (13002, 13003, 13006)
    assert active.root() != active.tree.root


def test_append__before_the_active_phase__is_refused(forest: Forest) -> None:
    forest.compress()
    admitted = registry.register_forester(AUTHORITY.pubkey(), AUTHORITY.pubkey(), FORESTER.pubkey())
    registration = forester_instructions.register_forester_epoch(FORESTER.pubkey(), FORESTER.pubkey(), EPOCH)
    assert send(forest.network, [admitted], AUTHORITY).err is None
    assert send(forest.network, [registration], FORESTER).err is None
    assert forest.work(forest.append_instruction()).err == custom(1, 6011)


@pytest.mark.parametrize("weights", [(1, 1), (3, 4)])
def test_append__two_foresters__only_the_eligible_one_may(forest: Forest, weights: tuple[int, int]) -> None:
    other = Keypair.from_seed(b"another forester".ljust(32, b"."))
    forest.network.airdrop(other.pubkey(), 10**10)
    for key, weight in zip((FORESTER, other), weights, strict=True):
        admitted = registry.register_forester(AUTHORITY.pubkey(), AUTHORITY.pubkey(), key.pubkey(), weight)
        assert send(forest.network, [admitted], AUTHORITY).err is None
        registration = forester_instructions.register_forester_epoch(key.pubkey(), key.pubkey(), EPOCH)
        assert send(forest.network, [registration], key).err is None
    forest.network.warp(ACTIVE_SLOT)
    for key in (FORESTER, other):
        final = forester_instructions.finalize_registration(key.pubkey(), key.pubkey(), EPOCH)
        assert send(forest.network, [final], key).err is None
    forest.compress()
    instruction = forest.append_instruction()
    outcomes = []
    for light_slot in range(20):
        forest.network.warp(ACTIVE_SLOT + 10 * light_slot + 2)
        done = forest.network.simulate(
            bytes(work_transaction(forest, instruction)), verify_signatures=True, replace_blockhash=False
        )
        outcomes.append(done.err is None)
        assert done.err in (None, custom(1, 6004))
    [shares] = [
        case["light_slots"]
        for case in recorded("eligibility")["cases"]
        if (case["pubkey"], case["epoch"]) == (str(addresses.STATE_TREE), EPOCH)
        and case["total_weight"] == sum(weights)
    ]
    assert outcomes == [share < weights[0] for share in shares]
    assert len(set(outcomes)) == 2


def work_transaction(forest: Forest, instruction: Instruction) -> VersionedTransaction:
    instructions = [set_compute_unit_limit(1_400_000), instruction]
    blockhash = forest.network.slots.hash_of(forest.network.slot)
    return VersionedTransaction(Message.new_with_blockhash(instructions, FORESTER.pubkey(), blockhash), [FORESTER])
