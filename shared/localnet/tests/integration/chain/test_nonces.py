"""Durable nonces: transactions that outlive their blockhash, once."""

from __future__ import annotations

import pytest
from chains import FORESTER, USER, funded, send, simulated_artefacts
from solders.hash import Hash
from solders.instruction import Instruction
from solders.keypair import Keypair
from solders.message import Message
from solders.pubkey import Pubkey
from solders.system_program import ID as SYSTEM
from solders.system_program import (
    AdvanceNonceAccountParams,
    CreateAccountParams,
    InitializeNonceAccountParams,
    TransferParams,
    advance_nonce_account,
    create_account,
    initialize_nonce_account,
    transfer,
)
from solders.transaction import VersionedTransaction

from localnet.chain.execution import TransactionRefused
from localnet.chain.network import Network

SOL = 10**9


@pytest.fixture
def network() -> Network:
    return funded(simulated_artefacts())


def nonce_account(network: Network) -> Pubkey:
    """Create a nonce account of USER, and let its blockhash expire."""
    key = Keypair()
    lamports = network.rent_exempt_minimum(80)
    made = create_account(
        CreateAccountParams(
            from_pubkey=USER.pubkey(), to_pubkey=key.pubkey(), lamports=lamports, space=80, owner=SYSTEM
        )
    )
    params = InitializeNonceAccountParams(nonce_pubkey=key.pubkey(), authority=USER.pubkey())
    assert send(network, [made, initialize_nonce_account(params)], USER, key).err is None
    network.advance(400)
    return key.pubkey()


def value(network: Network, nonce: Pubkey) -> Hash:
    account = network.account(nonce)
    assert account is not None
    return Hash(bytes(account.data)[40:72])


def advance(nonce: Pubkey) -> Instruction:
    return advance_nonce_account(AdvanceNonceAccountParams(nonce_pubkey=nonce, authorized_pubkey=USER.pubkey()))


def pay(lamports: int) -> Instruction:
    return transfer(TransferParams(from_pubkey=USER.pubkey(), to_pubkey=FORESTER.pubkey(), lamports=lamports))


def signed(network: Network, nonce: Pubkey, *instructions: Instruction) -> bytes:
    message = Message.new_with_blockhash(instructions, USER.pubkey(), value(network, nonce))
    return bytes(VersionedTransaction(message, [USER]))


def test_nonce__old_value__executes_once(network: Network) -> None:
    nonce = nonce_account(network)
    raw = signed(network, nonce, advance(nonce), pay(SOL))
    network.advance(1000)
    before, balance = value(network, nonce), network.account(FORESTER.pubkey())
    assert network.simulate(raw, verify_signatures=True, replace_blockhash=False).err is None
    assert network.submit(raw).err is None
    after = network.account(FORESTER.pubkey())
    assert balance is not None
    assert after is not None
    assert after.lamports == balance.lamports + SOL
    assert value(network, nonce) != before
    with pytest.raises(TransactionRefused, match=r"BlockhashNotFound"):
        network.submit(raw)


def test_nonce__failed_transaction__advances_anyway(network: Network) -> None:
    nonce = nonce_account(network)
    changed: list[Pubkey] = []
    network.transaction_listeners.append(lambda _done, keys: changed.extend(keys))
    raw = signed(network, nonce, advance(nonce), pay(SOL * 10**6))
    before = value(network, nonce)
    done = network.submit(raw)
    assert done.err == {"InstructionError": [1, {"Custom": 1}]}
    assert value(network, nonce) != before
    assert changed == [USER.pubkey(), nonce]
    with pytest.raises(TransactionRefused, match=r"BlockhashNotFound"):
        network.submit(raw)
    assert network.submit(signed(network, nonce, advance(nonce), pay(SOL))).err is None


@pytest.mark.parametrize("wrong", ["order", "value", "authority", "no nonce"])
def test_nonce__rule_broken__is_refused(network: Network, wrong: str) -> None:
    nonce = nonce_account(network)
    if wrong == "order":
        raw = signed(network, nonce, pay(SOL), advance(nonce))
    elif wrong == "value":
        message = Message.new_with_blockhash([advance(nonce)], USER.pubkey(), Hash(bytes([7]) * 32))
        raw = bytes(VersionedTransaction(message, [USER]))
    elif wrong == "authority":
        params = AdvanceNonceAccountParams(nonce_pubkey=nonce, authorized_pubkey=FORESTER.pubkey())
        message = Message.new_with_blockhash([advance_nonce_account(params)], FORESTER.pubkey(), value(network, nonce))
        raw = bytes(VersionedTransaction(message, [FORESTER]))
    else:
        raw = signed(network, nonce, pay(SOL))
    with pytest.raises(TransactionRefused, match=r"BlockhashNotFound"):
        network.submit(raw)
