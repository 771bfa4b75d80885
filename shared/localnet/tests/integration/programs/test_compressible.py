"""A forester's work on token accounts that pay rent: what is due is claimed, what has run out is compressed."""

from __future__ import annotations

from pathlib import Path

import forester_instructions
import pytest
from chains import AUTHORITY, FORESTER, USER, funded, send, simulated_artefacts
from compressible import RENT_SPONSOR, claim, compress_and_close, create_account
from indexer_service import FakeNode, FakeProver
from solders.account import Account
from solders.compute_budget import set_compute_unit_limit
from solders.instruction import Instruction
from solders.keypair import Keypair
from solders.pubkey import Pubkey

from localnet.chain import addresses
from localnet.chain.blocks import RecordedTransaction
from localnet.chain.network import Network
from localnet.indexer.api.service import Service
from localnet.indexer.database.store import Store
from localnet.indexer.database.trees import all_trees
from localnet.indexer.following.follower import Follower
from localnet.programs import registry

SPL_TOKEN = Pubkey.from_string("TokenkegQfeZyiNwAJbNbGKPFXCWuBvf9Ss623VQ5DA")
RENT_EPOCH = 13_500
ACTIVE_PHASE, REGISTRATION = 200, 100
"""Slots of the phases of the fixtures' protocol config."""
OUTPUT_QUEUE_NEXT = 280


@pytest.fixture
def network() -> Network:
    network = funded(simulated_artefacts())
    admitted = registry.register_forester(AUTHORITY.pubkey(), AUTHORITY.pubkey(), FORESTER.pubkey())
    assert send(network, [admitted], AUTHORITY).err is None
    return network


@pytest.fixture
def mint(network: Network) -> Pubkey:
    key = Keypair.from_seed(b"a mint".ljust(32, b".")).pubkey()
    network.set_account(key, Account(10**9, bytes(44) + bytes([6, 1]) + bytes(36), SPL_TOKEN))
    return key


@pytest.fixture
def token_account(network: Network, mint: Pubkey) -> Pubkey:
    """An account with rent for two rent epochs."""
    key = Keypair.from_seed(b"a token account".ljust(32, b"."))
    instruction = create_account(key.pubkey(), mint, USER.pubkey(), USER.pubkey(), 2)
    assert send(network, [instruction], USER, key).err is None
    return key.pubkey()


def activate_after(network: Network, slot: int) -> Pubkey:
    """Register for the next forester epoch and warp into its active phase; returns the account of the epoch."""
    epoch = slot // ACTIVE_PHASE + 1
    forester = FORESTER.pubkey()
    network.warp(epoch * ACTIVE_PHASE)
    assert (
        send(network, [forester_instructions.register_forester_epoch(forester, forester, epoch)], FORESTER).err is None
    )
    network.warp(epoch * ACTIVE_PHASE + REGISTRATION)
    assert send(network, [forester_instructions.finalize_registration(forester, forester, epoch)], FORESTER).err is None
    return addresses.forester_epoch(forester, epoch)


def work(network: Network, instruction: Instruction) -> RecordedTransaction:
    network.advance()
    return send(network, [set_compute_unit_limit(1_400_000), instruction], FORESTER)


def lamports(network: Network, key: Pubkey) -> int:
    account = network.account(key)
    return account.lamports if account else 0


def queued(network: Network) -> int:
    account = network.account(addresses.OUTPUT_QUEUE)
    assert account is not None
    return int.from_bytes(account.data[OUTPUT_QUEUE_NEXT : OUTPUT_QUEUE_NEXT + 8], "little")


def test_claim__one_rent_epoch_later__moves_its_rent_once(network: Network, token_account: Pubkey) -> None:
    epoch = activate_after(network, RENT_EPOCH)
    for rent in (400, 0):
        account, sponsor = lamports(network, token_account), lamports(network, RENT_SPONSOR)
        done = work(network, claim(epoch, token_account))
        assert done.err is None, done.logs
        assert account - lamports(network, token_account) == rent
        assert lamports(network, RENT_SPONSOR) - sponsor == rent


def test_claim__rent_has_run_out__moves_nothing(network: Network, token_account: Pubkey) -> None:
    epoch = activate_after(network, 2 * RENT_EPOCH)
    before = lamports(network, token_account)
    assert work(network, claim(epoch, token_account)).err is None
    assert lamports(network, token_account) == before


def test_compress_and_close__rent_has_run_out__queues_the_account_and_pays_the_forester(
    network: Network, token_account: Pubkey, mint: Pubkey
) -> None:
    epoch = activate_after(network, 2 * RENT_EPOCH)
    before = lamports(network, FORESTER.pubkey())
    done = work(network, compress_and_close(epoch, token_account, mint, USER.pubkey()))
    assert done.err is None, done.logs
    assert network.account(token_account) is None
    assert queued(network) == 1
    assert lamports(network, FORESTER.pubkey()) - before == 11_000 - 5_001 - 5_000
    assert any(f"compress_and_close:{token_account}" in line for line in done.logs)


async def test_compress_and_close__indexer__has_the_token_account_of_its_owner(
    network: Network, token_account: Pubkey, mint: Pubkey, tmp_path: Path
) -> None:
    epoch = activate_after(network, 2 * RENT_EPOCH)
    assert work(network, compress_and_close(epoch, token_account, mint, USER.pubkey())).err is None
    store = Store(tmp_path / "indexer.sqlite", durable=False)
    follower = Follower(network, store)
    await follower.catch_up()
    assert follower.stopped is None
    with store.read() as connection:
        assert [tree.broken for tree in all_trees(connection) if tree.broken] == []
    service = Service(store, FakeProver(), FakeNode())
    answer = await service.call("getCompressedTokenAccountsByOwnerV2", {"owner": str(USER.pubkey())})
    store.close()
    [item] = answer["value"]["items"]
    assert (item["tokenData"]["mint"], item["tokenData"]["amount"]) == (str(mint), 0)


def test_compress_and_close__rent_is_paid__is_refused(network: Network, token_account: Pubkey, mint: Pubkey) -> None:
    epoch = activate_after(network, RENT_EPOCH)
    done = work(network, compress_and_close(epoch, token_account, mint, USER.pubkey()))
    assert isinstance(done.err, dict)
    assert network.account(token_account) is not None
    assert queued(network) == 0
