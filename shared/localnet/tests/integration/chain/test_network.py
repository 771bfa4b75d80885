"""The chain: accepted and refused transactions, records, restored states."""

from __future__ import annotations

from pathlib import Path

import pytest
from chains import FORESTER, USER, funded, send, simulated_artefacts
from solders.account import Account
from solders.address_lookup_table_account import AddressLookupTableAccount
from solders.hash import Hash
from solders.instruction import Instruction
from solders.keypair import Keypair
from solders.message import Message, MessageV0
from solders.pubkey import Pubkey
from solders.signature import Signature
from solders.system_program import TransferParams, transfer
from solders.transaction import VersionedTransaction

from localnet.chain.addresses import NOOP
from localnet.chain.execution import TransactionRefused
from localnet.chain.network import FIRST_SLOT, MAX_TRANSACTION_BYTES, Network
from localnet.chain.slots import BLOCKHASH_WINDOW
from localnet.chain.snapshots import SnapshotInvalid, load_state, save_state

LOOKUP_TABLES = Pubkey.from_string("AddressLookupTab1e1111111111111111111111111")
SOL = 10**9


@pytest.fixture(scope="module")
def shared_network() -> Network:
    return funded(simulated_artefacts())


@pytest.fixture
def network() -> Network:
    return funded(simulated_artefacts())


def payment(to: Pubkey, lamports: int = SOL) -> Instruction:
    return transfer(TransferParams(from_pubkey=USER.pubkey(), to_pubkey=to, lamports=lamports))


def signed(network: Network, *instructions: Instruction, blockhash: Hash | None = None) -> VersionedTransaction:
    chosen = blockhash or network.slots.hash_of(network.slot)
    return VersionedTransaction(Message.new_with_blockhash(instructions, USER.pubkey(), chosen), [USER])


def lamports(network: Network, key: Pubkey) -> int:
    account = network.account(key)
    return account.lamports if account else 0


def test_submit__transfer__is_recorded_in_the_open_block(network: Network) -> None:
    target = Keypair().pubkey()
    network.advance()
    done = send(network, [payment(target)], USER)
    assert done.err is None
    assert lamports(network, target) == SOL
    block = network.block(network.slot)
    assert block is not None
    assert [entry.signature for entry in block.transactions] == [done.signature]
    assert block.parent_slot == network.slot - 1
    assert network.transaction(done.signature) is done
    assert network.transactions_of(target) == [done]
    assert done.post_balances[done.account_keys.index(target)] == SOL


def test_submit__failing_instruction__pays_the_fee_and_nothing_else(network: Network) -> None:
    target = Keypair().pubkey()
    before = lamports(network, USER.pubkey())
    done = send(network, [payment(target), payment(target, 10**15)], USER)
    assert done.err == {"InstructionError": [1, {"Custom": 1}]}
    assert lamports(network, target) == 0
    assert lamports(network, USER.pubkey()) == before - 5000
    assert network.transaction(done.signature) is done


def test_submit__transaction_above_the_size_limit__is_refused(network: Network) -> None:
    base = len(bytes(signed(network, Instruction(NOOP, bytes(1000), []))))
    fitting = bytes(signed(network, Instruction(NOOP, bytes(1000 + MAX_TRANSACTION_BYTES - base), [])))
    assert len(fitting) == 1232
    assert network.submit(fitting).err is None
    with pytest.raises(TransactionRefused, match="SanitizeFailure"):
        network.submit(bytes(signed(network, Instruction(NOOP, bytes(1001 + MAX_TRANSACTION_BYTES - base), []))))


def test_submit__wrong_signature__is_refused(shared_network: Network) -> None:
    transaction = VersionedTransaction.populate(
        signed(shared_network, payment(USER.pubkey())).message, [Signature.new_unique()]
    )
    with pytest.raises(TransactionRefused, match="SignatureFailure"):
        shared_network.submit(bytes(transaction))


@pytest.mark.parametrize("raw", [b"", b"\x01", bytes(100), b"\xff" * 200])
def test_submit__bytes_that_are_no_transaction__are_refused(shared_network: Network, raw: bytes) -> None:
    with pytest.raises(TransactionRefused, match="SanitizeFailure"):
        shared_network.submit(raw)


def test_submit__payer_without_account__is_refused(shared_network: Network) -> None:
    poor = Keypair()
    instruction = transfer(TransferParams(from_pubkey=poor.pubkey(), to_pubkey=poor.pubkey(), lamports=1))
    with pytest.raises(TransactionRefused, match="AccountNotFound"):
        send(shared_network, [instruction], poor)


def test_submit__blockhash_older_than_the_window__is_refused(network: Network) -> None:
    old = network.slots.hash_of(network.slot)
    network.advance(BLOCKHASH_WINDOW)
    assert network.submit(bytes(signed(network, payment(USER.pubkey()), blockhash=old))).err is None
    network.advance()
    with pytest.raises(TransactionRefused, match="BlockhashNotFound"):
        network.submit(bytes(signed(network, payment(USER.pubkey(), 5), blockhash=old)))


def test_submit__lookup_table__resolves_the_loaded_accounts(network: Network) -> None:
    table, target = Keypair().pubkey(), Keypair().pubkey()
    header = (1).to_bytes(4, "little") + b"\xff" * 8 + bytes(9) + b"\x01" + bytes(USER.pubkey()) + bytes(2)
    network.set_account(table, Account(SOL, header + bytes(target), LOOKUP_TABLES))
    message = MessageV0.try_compile(
        USER.pubkey(),
        [payment(target)],
        [AddressLookupTableAccount(table, [target])],
        network.slots.hash_of(network.slot),
    )
    done = network.submit(bytes(VersionedTransaction(message, [USER])))
    assert done.err is None
    assert (done.loaded_writable, done.loaded_readonly) == (1, 0)
    assert done.account_keys[-1] == target
    assert done.instructions[0].accounts == (USER.pubkey(), target)
    assert lamports(network, target) == SOL


def test_submit__lookup_table_that_is_missing__is_refused(network: Network) -> None:
    target, table = Keypair().pubkey(), AddressLookupTableAccount(Keypair().pubkey(), [])
    table = AddressLookupTableAccount(table.key, [target])
    message = MessageV0.try_compile(USER.pubkey(), [payment(target)], [table], network.slots.hash_of(network.slot))
    with pytest.raises(TransactionRefused, match="AddressLookupTableNotFound"):
        network.submit(bytes(VersionedTransaction(message, [USER])))


def test_simulate__transfer__reports_the_accounts_and_changes_nothing(network: Network) -> None:
    target = Keypair().pubkey()
    unsigned = VersionedTransaction.populate(
        Message.new_with_blockhash([payment(target)], USER.pubkey(), Hash.default()), [Signature.default()]
    )
    with pytest.raises(TransactionRefused, match="BlockhashNotFound"):
        network.simulate(bytes(unsigned), verify_signatures=False, replace_blockhash=False)
    with pytest.raises(TransactionRefused, match="SignatureFailure"):
        network.simulate(bytes(unsigned), verify_signatures=True, replace_blockhash=True)
    done = network.simulate(bytes(unsigned), verify_signatures=False, replace_blockhash=True)
    assert done.err is None
    assert done.accounts[target].lamports == SOL
    assert lamports(network, target) == 0
    with pytest.raises(TransactionRefused, match="SignatureFailure"):
        network.submit(bytes(unsigned))


def test_airdrop__twice_in_a_slot__pays_twice(network: Network) -> None:
    target = Keypair().pubkey()
    signatures = {network.airdrop(target, SOL).signature for _ in range(3)}
    assert len(signatures) == 3
    assert lamports(network, target) == 3 * SOL


def test_clock__warp_and_advance__move_slot_and_time_together(network: Network) -> None:
    assert network.slot == FIRST_SLOT
    before = network.block_time(network.slot)
    network.warp(FIRST_SLOT + 1000)
    assert network.block_time(network.slot) - before == 400
    assert network.block(FIRST_SLOT + 500) is None
    block = network.block(network.slot)
    assert block is not None
    assert block.block_height == FIRST_SLOT + 1


def test_restore__state_in_a_file__is_a_fork_with_the_same_past(network: Network, tmp_path: Path) -> None:
    target = Keypair().pubkey()
    kept = send(network, [payment(target)], USER)
    save_state(network.state(), tmp_path / "state")
    saved_slot, saved_fork = network.slot, network.fork
    network.advance()
    lost = send(network, [payment(target)], USER)

    other = Network(simulated_artefacts())
    for restored in (network, other):
        restored.restore(load_state(tmp_path / "state"))
        assert restored.slot == saved_slot + 1
        assert restored.fork == saved_fork + 1
        assert lamports(restored, target) == SOL
        again = restored.transaction(kept.signature)
        assert again == kept
        assert restored.transaction(lost.signature) is None
        with pytest.raises(TransactionRefused, match="BlockhashNotFound"):
            restored.submit(bytes(lost.transaction))
        assert send(restored, [payment(target)], USER).err is None
    assert [path.name for path in tmp_path.iterdir()] == ["state"]


@pytest.mark.parametrize("content", [b"", b"something else", b"zkc-localnet-state-1\nrest"])
def test_load_state__other_file__is_refused_by_name(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "state"
    path.write_bytes(content)
    with pytest.raises(SnapshotInvalid, match="state"):
        load_state(path)


def test_listeners__transaction_and_slot__are_reported(network: Network) -> None:
    heard: list[object] = []
    network.transaction_listeners.append(lambda done, keys: heard.append((done and done.signature, list(keys))))
    network.slot_listeners.append(lambda: heard.append(network.slot))
    done = send(network, [payment(FORESTER.pubkey())], USER)
    network.advance()
    network.set_account(FORESTER.pubkey(), Account(SOL, b"", Pubkey.default()))
    changed = list(done.account_keys[:2])  # the third is the program
    assert heard == [(done.signature, changed), network.slot, (None, [FORESTER.pubkey()])]
