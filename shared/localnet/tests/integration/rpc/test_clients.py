"""The unmodified clients of solana-py against the JSON-RPC interface."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio
from chains import FORESTER, USER
from rpc_server import Served, served
from solana.rpc.async_api import AsyncClient
from solana.rpc.commitment import Confirmed, Finalized, Processed
from solana.rpc.core import RPCException
from solana.rpc.models import DataSliceOpts, MemcmpOpts, TxOpts
from solana.rpc.websocket_api import SolanaWsClient
from solders.account import Account
from solders.compute_budget import set_compute_unit_limit, set_compute_unit_price
from solders.keypair import Keypair
from solders.message import MessageV0
from solders.pubkey import Pubkey
from solders.rpc.errors import SendTransactionPreflightFailureMessage
from solders.system_program import TransferParams, transfer
from solders.transaction import VersionedTransaction
from solders.transaction_status import TransactionConfirmationStatus

from localnet import base58
from localnet.chain import addresses

SOL = 10**9


@pytest_asyncio.fixture
async def server() -> AsyncIterator[Served]:
    async with served() as running:
        yield running


@pytest_asyncio.fixture
async def client(server: Served) -> AsyncIterator[AsyncClient]:
    async with AsyncClient(server.url, commitment=Processed) as client:
        yield client


async def payment(client: AsyncClient, to: Pubkey, lamports: int = SOL) -> VersionedTransaction:
    blockhash = (await client.get_latest_blockhash()).value.blockhash
    instruction = transfer(TransferParams(from_pubkey=USER.pubkey(), to_pubkey=to, lamports=lamports))
    return VersionedTransaction(MessageV0.try_compile(USER.pubkey(), [instruction], [], blockhash), [USER])


async def test_send_transaction__transfer__can_be_read_back_in_every_form(server: Served, client: AsyncClient) -> None:
    target = Keypair().pubkey()
    sent = (await client.send_transaction(await payment(client, target))).value
    assert (await client.get_balance(target)).value == SOL
    [status] = (await client.get_signature_statuses([sent])).value
    assert status is not None
    assert status.confirmation_status == TransactionConfirmationStatus.Processed
    assert (await client.get_transaction(sent, commitment=Confirmed)).value is None
    slot = server.network.slot
    server.network.advance()
    for encoding in ("json", "jsonParsed", "base64", "base58"):
        found = (await client.get_transaction(sent, encoding, Confirmed, 0)).value
        assert found is not None
        assert found.slot == slot
        assert found.transaction.version == 0
        assert found.transaction.meta is not None
        assert found.transaction.meta.err is None
        assert found.transaction.meta.fee == 5000
        block = (await client.get_block(slot, encoding, 0, commitment=Confirmed)).value
        assert block is not None
        assert block.transactions is not None
        assert block.transactions[-1] == found.transaction
    [entry] = (await client.get_signatures_for_address(target, commitment=Confirmed)).value
    assert entry.signature == sent
    [status] = (await client.get_signature_statuses([sent])).value
    assert status is not None
    assert status.confirmation_status == TransactionConfirmationStatus.Confirmed
    server.network.advance(31)
    await client.confirm_transaction(sent, Finalized)


async def test_send_transaction__preflight_fails__raises_with_logs(client: AsyncClient) -> None:
    transaction = await payment(client, Keypair().pubkey(), 10**15)
    with pytest.raises(RPCException, match="custom program error: 0x1") as raised:
        await client.send_transaction(transaction)
    failure = raised.value.args[0]
    assert isinstance(failure, SendTransactionPreflightFailureMessage)
    assert failure.data.logs is not None
    assert "insufficient lamports" in failure.data.logs[1]


async def test_send_transaction__without_preflight__is_recorded_as_failed(client: AsyncClient) -> None:
    transaction = await payment(client, Keypair().pubkey(), 10**15)
    sent = (await client.send_transaction(transaction, TxOpts(skip_preflight=True))).value
    [status] = (await client.get_signature_statuses([sent])).value
    assert status is not None
    assert status.err is not None


async def test_simulate_transaction__with_accounts__reports_what_would_be(client: AsyncClient) -> None:
    target = Keypair().pubkey()
    transaction = await payment(client, target)
    done = await client.simulate_transaction(transaction, sig_verify=True, accounts_addresses=[target])
    assert done.value.err is None
    assert done.value.accounts is not None
    assert done.value.accounts[0] is not None
    assert done.value.accounts[0].lamports == SOL
    assert done.value.units_consumed == 150
    replaced = await client.simulate_transaction(transaction, replace_recent_blockhash=True, inner_instructions=True)
    assert replaced.value.err is None
    assert (await client.get_balance(target)).value == 0


async def test_accounts__fixtures__are_found_by_key_program_and_filter(server: Served, client: AsyncClient) -> None:
    stored = server.network.account(addresses.STATE_TREE)
    assert stored is not None
    expected = Account(stored.lamports, bytes(stored.data), stored.owner, stored.executable, (1 << 64) - 1)
    for encoding in ("base64", "base64+zstd"):
        account = (await client.get_account_info(addresses.STATE_TREE, encoding=encoding)).value
        assert account == expected
    part = (await client.get_account_info(addresses.STATE_TREE, data_slice=DataSliceOpts(offset=0, length=8))).value
    assert part is not None
    assert part.data == b"BatchMta"
    several = (await client.get_multiple_accounts([addresses.STATE_TREE, Keypair().pubkey()])).value
    assert several == [expected, None]
    trees = await client.get_program_accounts(
        addresses.ACCOUNT_COMPRESSION,
        encoding="base64",
        data_slice=DataSliceOpts(offset=0, length=8),
        filters=[47456, MemcmpOpts(offset=0, bytes=base58.encode(b"BatchMta"))],
    )
    assert len(trees.value) == 7
    assert {entry.account.data for entry in trees.value} == {b"BatchMta"}
    assert addresses.STATE_TREE in {entry.pubkey for entry in trees.value}
    sized = await client.get_program_accounts(addresses.ACCOUNT_COMPRESSION, encoding="base64", filters=[4136])
    assert len(sized.value) == 5
    assert (await client.get_account_info(Keypair().pubkey())).value is None


async def test_cluster__questions__are_answered_consistently(server: Served, client: AsyncClient) -> None:
    assert await client.is_connected()
    server.network.advance(40)
    assert (await client.get_slot(Processed)).value == server.network.slot
    assert (await client.get_slot(Confirmed)).value == server.network.slot - 1
    assert (await client.get_slot(Finalized)).value == server.network.slot - 32
    latest = (await client.get_latest_blockhash(Finalized)).value
    assert latest.last_valid_block_height == server.network.slot - 32 + 150
    assert (await client.get_block_height(Processed)).value == server.network.slot
    info = (await client.get_epoch_info(Processed)).value
    assert (info.absolute_slot, info.epoch) == (server.network.slot, 0)
    assert (await client.get_genesis_hash()).value == server.network.genesis_hash
    assert (await client.get_version()).value.solana_core == "2.2.0"
    assert (await client.get_minimum_balance_for_rent_exemption(0)).value == 890_880
    assert (await client.get_first_available_block()).value == server.network.first_slot
    assert (await client.get_blocks(402, 405)).value == [402, 403, 404, 405]
    assert (await client.get_block_time(402)).value == server.network.block_time(402)
    fees = (await client.get_recent_prioritization_fees([USER.pubkey()])).value
    assert fees[-1].slot == server.network.slot - 1
    message = (await payment(client, USER.pubkey())).message
    assert isinstance(message, MessageV0)
    assert (await client.get_fee_for_message(message)).value == 5000
    target = Keypair().pubkey()
    await client.request_airdrop(target, SOL)
    assert (await client.get_balance(target)).value == SOL
    assert (await client.get_epoch_schedule()).value.slots_per_epoch == 432_000
    assert (await client.get_identity()).value.identity == (await client.get_slot_leader()).value


async def test_subscriptions__each_kind__is_notified_at_its_commitment(server: Served, client: AsyncClient) -> None:
    target = Keypair().pubkey()
    transaction = await payment(client, target)
    server.network.advance()
    async with SolanaWsClient(server.websocket_url) as websocket:
        reported: Any
        account = await websocket.account_subscribe(pubkey=target, commitment=Processed, encoding="base64")
        logs = await websocket.logs_subscribe(commitment=Confirmed)
        signature = await websocket.signature_subscribe(signature=transaction.signatures[0], commitment=Finalized)
        program = await websocket.program_subscribe(
            program_id=addresses.ACCOUNT_COMPRESSION, commitment=Processed, encoding="base64"
        )
        await client.send_transaction(transaction)
        reported = await websocket.recv()
        assert reported.subscription == account.subscription_id
        assert reported.result.value.lamports == SOL
        slot = server.network.slot
        server.network.advance()
        reported = await websocket.recv()
        assert reported.subscription == logs.subscription_id
        assert reported.result.context.slot == slot
        assert reported.result.value.signature == transaction.signatures[0]
        server.network.advance(31)
        reported = await websocket.recv()
        assert reported.subscription == signature.subscription_id
        assert reported.result.value.err is None
        slots = await websocket.slot_subscribe()
        server.network.advance()
        reported = await websocket.recv()
        assert reported.subscription == slots.subscription_id
        assert reported.result.slot == server.network.slot
        await websocket.unsubscribe(slots)
        server.network.set_account(FORESTER.pubkey(), Account(SOL, b"data", addresses.ACCOUNT_COMPRESSION))
        reported = await websocket.recv()
        assert reported.subscription == program.subscription_id
        assert reported.result.value.pubkey == FORESTER.pubkey()
        known = await websocket.signature_subscribe(signature=transaction.signatures[0], commitment=Confirmed)
        assert (await websocket.recv()).subscription == known.subscription_id


async def test_get_fee_for_message__priority__is_what_the_transaction_pays(server: Served, client: AsyncClient) -> None:
    pay = transfer(TransferParams(from_pubkey=USER.pubkey(), to_pubkey=Keypair().pubkey(), lamports=SOL))
    blockhash = (await client.get_latest_blockhash()).value.blockhash
    instructions = [set_compute_unit_price(2_000_000), set_compute_unit_limit(1000), pay]
    message = MessageV0.try_compile(USER.pubkey(), instructions, [], blockhash)
    fee = (await client.get_fee_for_message(message)).value
    sent = (await client.send_transaction(VersionedTransaction(message, [USER]))).value
    server.network.advance()
    found = (await client.get_transaction(sent, "json", Confirmed, 0)).value
    assert found is not None
    assert found.transaction.meta is not None
    assert found.transaction.meta.fee == fee == 5000 + 2000
    server.network.advance(200)
    assert (await client.get_fee_for_message(message)).value is None
