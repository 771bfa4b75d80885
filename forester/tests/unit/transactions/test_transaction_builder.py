"""Transactions against recorded ones, the size limit, lookup tables."""

from __future__ import annotations

import pytest
from onchain_vectors import FORESTER, recorded, recorded_instruction
from solders.address_lookup_table_account import AddressLookupTableAccount
from solders.hash import Hash
from solders.instruction import AccountMeta, Instruction
from solders.keypair import Keypair
from solders.message import MessageV0
from solders.pubkey import Pubkey
from solders.transaction import Transaction, VersionedTransaction

from forester.chain.lookup_tables import PROGRAM, decode_lookup_table
from forester.chain.rpc_client import Account
from forester.errors import MalformedAccount
from forester.settings import SigningKey
from forester.transactions.builder import Budget, TransactionTooLarge, _size, build, fitting

PAYER = SigningKey(FORESTER)
BUDGET = Budget(1_000_000)


def work(name: str) -> Instruction:
    return recorded_instruction(recorded(name)["instruction"])


@pytest.mark.parametrize("name", ["batch_append_tx", "batch_nullify_tx", "batch_update_address_tree_tx"])
def test_build__recorded_work__is_the_recorded_transaction(name: str) -> None:
    entry = recorded(name)
    sent = Transaction.from_bytes(bytes.fromhex(entry["tx_hex"]))
    limit = int.from_bytes(bytes(sent.message.instructions[0].data)[1:5], "little")
    built = build([work(name)], PAYER, sent.message.recent_blockhash, Budget(limit))
    assert built.data.hex() == entry["tx_hex"]
    assert str(built.signature) == entry["signature"]
    assert len(built.data) == entry["size"]


def table_for(instruction: Instruction) -> AddressLookupTableAccount:
    keys = [meta.pubkey for meta in instruction.accounts if not meta.is_signer]
    return AddressLookupTableAccount(Pubkey(bytes([8]) * 32), list(dict.fromkeys(keys)))


def test_fitting__with_and_without_table__is_what_the_network_takes() -> None:
    append = work("batch_append_tx")
    appends = [append] * 6
    table = table_for(append)
    assert fitting(appends, PAYER.pubkey, BUDGET) == 4
    assert fitting(appends, PAYER.pubkey, BUDGET, [table]) == 5
    assert fitting(appends, PAYER.pubkey, BUDGET, [table], maximum=2) == 2
    assert fitting([], PAYER.pubkey, BUDGET) == 0
    built = build(appends[:5], PAYER, Hash.default(), BUDGET, [table])
    assert len(built.data) <= 1232
    message = VersionedTransaction.from_bytes(built.data).message
    assert isinstance(message, MessageV0)
    assert len(message.address_table_lookups) == 1
    assert _size(message) == len(built.data)
    with pytest.raises(TransactionTooLarge, match="5 instructions has 13"):
        build(appends[:5], PAYER, Hash.default(), BUDGET)


def test_fitting__counts_every_byte__of_the_signed_transaction() -> None:
    append, table = work("batch_append_tx"), table_for(work("batch_append_tx"))
    for tables in ([], [table]):
        for price in (None, 7):
            budget = Budget(5, price)
            count = fitting([append] * 6, PAYER.pubkey, budget, tables, maximum=6)
            assert len(build([append] * count, PAYER, Hash.default(), budget, tables).data) <= 1232
            with pytest.raises(TransactionTooLarge):
                build([append] * (count + 1), PAYER, Hash.default(), budget, tables)


def test_fitting__instruction_that_never_fits__is_an_error() -> None:
    huge = Instruction(PROGRAM, bytes(1200), [AccountMeta(PAYER.pubkey, True, True)])
    with pytest.raises(TransactionTooLarge, match="alone"):
        fitting([huge], PAYER.pubkey, BUDGET)


def test_build__price_and_further_signer__come_first_and_sign() -> None:
    other = Keypair()
    instruction = Instruction(PROGRAM, b"x", [AccountMeta(other.pubkey(), True, False)])
    built = build([instruction], PAYER, Hash.default(), Budget(9, 3), signers=[other])
    transaction = VersionedTransaction.from_bytes(built.data)
    transaction.verify_and_hash_message()
    kinds = [bytes(item.data)[0] for item in transaction.message.instructions]
    assert kinds == [3, 2, ord("x")]


def lookup_table(data: bytes, owner: Pubkey = PROGRAM) -> Account:
    return Account(Pubkey(bytes([8]) * 32), owner, 1, data)


HEADER = (1).to_bytes(4, "little") + (2**64 - 1).to_bytes(8, "little") + bytes(44)


def test_lookup_table__of_two_addresses__is_decoded() -> None:
    keys = [Pubkey(bytes([place]) * 32) for place in (1, 2)]
    table = decode_lookup_table(lookup_table(HEADER + b"".join(map(bytes, keys))))
    assert table.addresses == keys
    assert table.key == Pubkey(bytes([8]) * 32)


@pytest.mark.parametrize(
    ("account", "reason"),
    [
        (lookup_table(HEADER, PAYER.pubkey), "not an address lookup table"),
        (lookup_table(HEADER[:50]), "not an address lookup table"),
        (lookup_table(bytes(56)), "not an address lookup table"),
        (lookup_table(HEADER + bytes(31)), "inside an address"),
        (lookup_table(HEADER[:4] + bytes(52)), "deactivated"),
    ],
)
def test_lookup_table__that_is_unusable__is_refused_with_the_reason(account: Account, reason: str) -> None:
    with pytest.raises(MalformedAccount, match=reason):
        decode_lookup_table(account)
