"""Requests as bytes: errors with their codes, odd parameters, encodings, this network's own methods."""

from __future__ import annotations

import base64
from collections.abc import AsyncIterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from chains import USER, funded, simulated_artefacts
from rpc_server import Served, served
from solders.keypair import Keypair
from solders.message import Message, MessageV0
from solders.pubkey import Pubkey
from solders.signature import Signature
from solders.system_program import TransferParams, transfer
from solders.transaction import VersionedTransaction

from localnet.chain import addresses
from localnet.chain.network import Network
from localnet.chain.snapshots import save_state

SOL = 10**9
STATE_TREE = str(addresses.STATE_TREE)
BASE64 = {"encoding": "base64"}
JSON = {"Content-Type": "application/json"}


@pytest_asyncio.fixture
async def server() -> AsyncIterator[Served]:
    async with served() as running:
        yield running


@cache
def unchanged_network() -> Network:
    """Return one network for all requests that change nothing."""
    return funded(simulated_artefacts())


@pytest_asyncio.fixture
async def reader() -> AsyncIterator[Served]:
    async with served(unchanged_network()) as running:
        yield running


def signed(server: Served, lamports: int = SOL, *, legacy: bool = True) -> VersionedTransaction:
    blockhash = server.network.slots.hash_of(server.network.slot)
    instruction = transfer(TransferParams(from_pubkey=USER.pubkey(), to_pubkey=USER.pubkey(), lamports=lamports))
    if legacy:
        return VersionedTransaction(Message.new_with_blockhash([instruction], USER.pubkey(), blockhash), [USER])
    return VersionedTransaction(MessageV0.try_compile(USER.pubkey(), [instruction], [], blockhash), [USER])


def wire(transaction: VersionedTransaction) -> str:
    return base64.b64encode(bytes(transaction)).decode()


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b"{", -32700),
        (b"\xff", -32700),
        (b"[]", -32600),
        (b"7", -32600),
        (b'{"jsonrpc":"1.0","id":1,"method":"getSlot"}', -32600),
        (b'{"jsonrpc":"2.0","id":1,"method":"getPriorityFeeEstimate"}', -32601),
        (b'{"jsonrpc":"2.0","id":1,"method":"getSlot","params":{"commitment":"confirmed"}}', -32602),
    ],
)
async def test_post__request_that_is_wrong__gets_its_code(reader: Served, body: bytes, code: int) -> None:
    async with reader.http.post(reader.url, data=body, headers=JSON) as response:
        assert response.status == 200
        assert (await response.json())["error"]["code"] == code


async def test_post__batch_with_notification__answers_the_others_in_order(server: Served) -> None:
    batch = [
        {"jsonrpc": "2.0", "id": 1, "method": "getSlot"},
        {"jsonrpc": "2.0", "method": "getSlot"},
        {"jsonrpc": "2.0", "id": "x", "method": "nothing"},
    ]
    async with server.http.post(server.url + "/any/path", json=batch) as response:
        first, second = await response.json()
    assert (first["id"], second["id"]) == (1, "x")
    assert second["error"] == {"code": -32601, "message": "Method not found"}


async def test_post__body_too_large__is_refused(server: Served) -> None:
    async with server.http.post(server.url, data=b" " * 60_000, headers=JSON) as response:
        assert response.status == 413


async def test_get__without_upgrade__names_the_method(server: Served) -> None:
    async with server.http.get(server.url) as response:
        assert response.status == 405
    async with server.http.get(server.url + "/health") as response:
        assert await response.text() == "ok"


ANY_KEY = "1" * 32


@pytest.mark.parametrize(
    ("method", "params", "code", "words"),
    [
        ("getAccountInfo", [], -32602, "expected parameter 1"),
        ("getAccountInfo", ["abc"], -32602, "Invalid param: WrongSize"),
        ("getAccountInfo", ["0" * 44], -32602, "Invalid param"),
        ("getAccountInfo", [7], -32602, "base58"),
        ("getAccountInfo", [STATE_TREE], -32600, "please use Base64"),
        ("getAccountInfo", [STATE_TREE, {"encoding": "hex"}], -32602, "unknown variant `hex`"),
        ("getAccountInfo", [ANY_KEY, {"commitment": "sure"}], -32602, "unknown variant `sure`"),
        ("getAccountInfo", [ANY_KEY, {"minContextSlot": 10**9}], -32016, "Minimum context slot"),
        ("getAccountInfo", [ANY_KEY, {"dataSlice": {"offset": -1, "length": 2}}], -32602, "offset"),
        ("getMultipleAccounts", [[ANY_KEY] * 101], -32602, "max 100"),
        ("getMultipleAccounts", ["x"], -32602, "list of strings"),
        ("getProgramAccounts", [ANY_KEY, {"filters": [{"dataSize": 1}] * 5}], -32602, "max 4"),
        ("getProgramAccounts", [ANY_KEY, {"filters": [{"memcmp": {"bytes": "0"}}]}], -32602, "base58"),
        ("getProgramAccounts", [ANY_KEY, {"filters": [{"memcmp": {"bytes": "z" * 300}}]}], -32602, "129"),
        ("getProgramAccounts", [ANY_KEY, {"filters": [{"size": 1}]}], -32602, "a filter is"),
        ("getBlock", [10**6], -32004, "Block not available for slot 1000000"),
        ("getBlock", [400, {"commitment": "processed"}], -32602, "below `confirmed`"),
        ("getBlocks", [0, -1], -32602, "u64"),
        ("getTransaction", ["abc"], -32602, "Invalid param"),
        ("getSignatureStatuses", [["1" * 64] * 257], -32602, "max 256"),
        ("getSignaturesForAddress", [ANY_KEY, {"limit": 0}], -32602, "max 1000"),
        ("sendTransaction", ["!!!", BASE64], -32602, "invalid base64"),
        ("sendTransaction", ["AAAA", BASE64], -32602, "invalid transaction"),
        ("sendTransaction", ["A" * 1645, BASE64], -32602, "too large: 1645 bytes (max: encoded/raw 1644/1232)"),
        ("isBlockhashValid", ["abc"], -32602, "Invalid param"),
        ("getFeeForMessage", ["AAAA"], -32602, "invalid message"),
        ("getPriorityFeeEstimate", [{}], -32601, "Method not found"),
        ("getProgramAccountsV2", [ANY_KEY], -32601, "Method not found"),
        ("localnet_warp", [1], -32602, "not after the current slot"),
        ("localnet_advance", [0], -32602, "between 1"),
        ("localnet_restore", ["absent"], -32000, "/absent: No such file or directory"),
    ],
)
async def test_call__parameters_that_are_wrong__get_code_and_words(
    reader: Served, method: str, params: list[Any], code: int, words: str
) -> None:
    error = await reader.error(method, *params)
    assert error["code"] == code
    assert words in error["message"]


async def test_cluster__questions_about_others__are_those_of_one_node(reader: Served) -> None:
    [node] = await reader.call("getClusterNodes")
    assert node["pubkey"] == (await reader.call("getIdentity"))["identity"]
    assert await reader.call("getVoteAccounts") == {"current": [], "delinquent": []}
    assert await reader.call("minimumLedgerSlot") == reader.network.first_slot
    assert await reader.call("getTransactionCount") == reader.network.transaction_count


async def test_get_block__warp__leaves_skipped_slots(server: Served) -> None:
    await server.call("localnet_warp", 500)
    await server.call("localnet_advance", 40)
    error = await server.error("getBlock", 450)
    assert error["code"] == -32007
    assert error["message"].startswith("Slot 450 was skipped")
    block = await server.call("getBlock", 500, {"transactionDetails": "none", "rewards": False})
    assert set(block) == {"blockhash", "previousBlockhash", "parentSlot", "blockHeight", "blockTime"}
    assert (block["parentSlot"], block["blockHeight"]) == (400, 401)
    assert await server.call("getBlocks", 390, 503) == [400, 500, 501, 502, 503]
    assert await server.call("getBlocksWithLimit", 401, 2) == [500, 501]
    parent = await server.call("getBlock", 400, {"transactionDetails": "signatures"})
    assert parent["blockhash"] == block["previousBlockhash"]
    assert len(parent["signatures"]) == 3


async def test_get_transaction__versioned__needs_a_client_that_knows_versions(server: Served) -> None:
    sent = await server.call("sendTransaction", wire(signed(server, legacy=False)), BASE64)
    await server.call("localnet_advance", 1)
    level = {"commitment": "confirmed"}
    error = await server.error("getTransaction", sent, level)
    assert error["code"] == -32015
    assert error["message"].startswith("Transaction version (0) is not supported by the requesting client")
    found = await server.call("getTransaction", sent, {**level, "maxSupportedTransactionVersion": 0})
    assert found["version"] == 0
    assert found["transaction"]["message"]["addressTableLookups"] == []
    legacy = await server.call("sendTransaction", wire(signed(server)), BASE64)
    await server.call("localnet_advance", 1)
    assert "version" not in await server.call("getTransaction", legacy, level)


async def test_send_transaction__signature_wrong__has_a_code_of_its_own(server: Served) -> None:
    message = signed(server).message
    forged = VersionedTransaction.populate(message, [Signature.new_unique()])
    for method in ("sendTransaction", "simulateTransaction"):
        error = await server.error(method, wire(forged), {**BASE64, "sigVerify": True})
        assert error == {"code": -32003, "message": "Transaction signature verification failure"}
    dropped = await server.call("sendTransaction", wire(forged), {**BASE64, "skipPreflight": True})
    assert await server.call("getSignatureStatuses", [dropped]) == {
        "context": {"slot": 400, "apiVersion": "2.2.0"},
        "value": [None],
    }


async def test_send_transaction__refused__fails_its_preflight(server: Served) -> None:
    transaction = wire(signed(server))
    await server.call("sendTransaction", transaction, BASE64)
    error = await server.error("sendTransaction", transaction, BASE64)
    assert error["code"] == -32002
    assert error["message"] == "Transaction simulation failed: This transaction has already been processed"
    assert error["data"]["err"] == "AlreadyProcessed"
    old = wire(signed(server, 5))
    await server.call("localnet_advance", 151)
    error = await server.error("sendTransaction", old, BASE64)
    assert error["message"] == "Transaction simulation failed: Blockhash not found"


async def test_send_transaction__fails_without_preflight__is_in_its_block_and_pays(server: Served) -> None:
    before = await server.call("getBalance", str(USER.pubkey()), {"commitment": "processed"})
    transaction = wire(signed(server, 10**18))
    error = await server.error("sendTransaction", transaction, BASE64)
    assert error["data"]["err"] == {"InstructionError": [0, {"Custom": 1}]}
    sent = await server.call("sendTransaction", transaction, {**BASE64, "skipPreflight": True})
    await server.call("localnet_advance", 1)
    [status] = (await server.call("getSignatureStatuses", [sent]))["value"]
    assert status["err"] == status["status"]["Err"] == {"InstructionError": [0, {"Custom": 1}]}
    after = await server.call("getBalance", str(USER.pubkey()), {"commitment": "processed"})
    assert before["value"] - after["value"] == 5000
    config = {"maxSupportedTransactionVersion": 0, "commitment": "confirmed"}
    block = await server.call("getBlock", status["slot"], config)
    assert [entry["meta"]["fee"] for entry in block["transactions"]][-1] == 5000


async def test_simulate_transaction__both_checks__is_refused(server: Served) -> None:
    config = {**BASE64, "sigVerify": True, "replaceRecentBlockhash": True}
    error = await server.error("simulateTransaction", wire(signed(server)), config)
    assert error == {"code": -32602, "message": "sigVerify may not be used with replaceRecentBlockhash"}


async def test_get_program_accounts__forms__are_list_or_context(server: Served) -> None:
    config = {"encoding": "base64", "dataSlice": {"offset": 0, "length": 0}, "filters": [{"dataSize": 4136}]}
    plain = await server.call("getProgramAccounts", str(addresses.ACCOUNT_COMPRESSION), config)
    wrapped = await server.call(
        "getProgramAccounts", str(addresses.ACCOUNT_COMPRESSION), {**config, "withContext": True}
    )
    assert wrapped == {"context": {"slot": 400, "apiVersion": "2.2.0"}, "value": plain}
    assert plain[0]["account"]["space"] == 4136
    assert plain[0]["account"]["data"] == ["", "base64"]


async def test_get_signatures_for_address__pages__meet_without_gap(server: Served) -> None:
    target = Keypair().pubkey()
    for _ in range(5):
        server.network.airdrop(target, SOL)
        server.network.advance()
    level = {"commitment": "confirmed"}
    every = [entry["signature"] for entry in await server.call("getSignaturesForAddress", str(target), level)]
    assert len(every) == 5
    first = await server.call("getSignaturesForAddress", str(target), {**level, "limit": 2})
    assert [entry["signature"] for entry in first] == every[:2]
    rest = await server.call("getSignaturesForAddress", str(target), {**level, "before": every[1], "until": every[4]})
    assert [entry["signature"] for entry in rest] == every[2:4]


async def test_harness__save_set_account_restore__goes_back(server: Served) -> None:
    target = Keypair().pubkey()
    saved = await server.call("localnet_save", "state")
    assert saved == {"slot": 400, "path": str(server.states / "state")}
    account = {"lamports": 7 * SOL, "owner": str(Pubkey.default()), "data": base64.b64encode(b"hello").decode()}
    await server.call("localnet_setAccount", str(target), account)
    info = await server.call("getAccountInfo", str(target))
    assert info["value"]["data"] == "Cn8eVZg"
    patch = {"lamports": 8 * SOL, "offset": 1, "data": base64.b64encode(b"ull").decode()}
    await server.call("localnet_patchAccount", str(target), patch)
    info = await server.call("getAccountInfo", str(target), {"encoding": "base64"})
    assert (base64.b64decode(info["value"]["data"][0]), info["value"]["lamports"]) == (b"hullo", 8 * SOL)
    restored = await server.call("localnet_restore", "state")
    assert restored == {"slot": 401, "fork": 1}
    assert (await server.call("getAccountInfo", str(target)))["value"] is None


@pytest.mark.parametrize("method", ["localnet_save", "localnet_restore"])
@pytest.mark.parametrize("name", ["{outside}/file", "../{outside.name}/file", "..", ".", "", ".hidden", "a/b", "a\0b"])
async def test_saved_states__name_that_leaves_the_folder__is_refused(
    server: Served, tmp_path: Path, method: str, name: str
) -> None:
    outside = tmp_path / "file"
    save_state(server.network.state(), outside)  # a state that could be restored
    before = outside.read_bytes()
    error = await server.error(method, name.format(outside=tmp_path))
    assert (error["code"], "a name, not a path" in error["message"]) == (-32602, True)
    assert (outside.read_bytes(), server.network.fork) == (before, 0)


async def test_saved_states__planted_link__is_neither_read_nor_written_through(server: Served, tmp_path: Path) -> None:
    target, link = tmp_path / "target", server.states / "link"
    save_state(server.network.state(), target)
    before = target.read_bytes()
    link.symlink_to(target)
    assert (await server.error("localnet_restore", "link"))["code"] == -32000
    await server.call("localnet_save", "link")
    assert (target.read_bytes(), link.is_symlink(), server.network.fork) == (before, False, 0)


@pytest.mark.parametrize("patch", [{"data": "!"}, {"data": "aGVsbG8=", "offset": 200}, {"lamports": -1}, 7])
async def test_harness__patch_that_is_wrong__is_refused(server: Served, patch: object) -> None:
    error = await server.error("localnet_patchAccount", str(addresses.PROTOCOL_CONFIG), patch)
    assert error["code"] == -32602


@pytest.mark.parametrize(
    "text", ["{", '{"jsonrpc":"2.0","id":1,"method":"accountSubscribe","params":[]}', '{"jsonrpc":"2.0","id":1}']
)
async def test_websocket__message_that_is_wrong__is_answered_and_the_connection_lives(
    server: Served, text: str
) -> None:
    async with server.http.ws_connect(server.url) as websocket:
        await websocket.send_str(text)
        assert "error" in await websocket.receive_json()
        await websocket.send_str('{"jsonrpc":"2.0","id":2,"method":"slotSubscribe"}')
        assert (await websocket.receive_json())["id"] == 2
        server.network.advance()
        assert (await websocket.receive_json())["method"] == "slotNotification"


async def test_websocket__unsubscribe__silences_and_unknown_ids_are_refused(server: Served) -> None:
    async with server.http.ws_connect(server.url) as websocket:
        await websocket.send_json({"jsonrpc": "2.0", "id": 1, "method": "rootSubscribe"})
        identifier = (await websocket.receive_json())["result"]
        for expected in ("result", "error"):
            await websocket.send_json({"jsonrpc": "2.0", "id": 1, "method": "rootUnsubscribe", "params": [identifier]})
            assert expected in await websocket.receive_json()
        server.network.advance()
        await websocket.send_json({"jsonrpc": "2.0", "id": 3, "method": "rootSubscribe"})
        assert (await websocket.receive_json())["id"] == 3


async def test_websocket__connection_closed__no_longer_listens(server: Served) -> None:
    async with server.http.ws_connect(server.url) as websocket:
        await websocket.send_json({"jsonrpc": "2.0", "id": 1, "method": "slotSubscribe"})
        await websocket.receive_json()
        assert len(server.network.slot_listeners) == 1
    deadline = 1000
    while server.network.slot_listeners and deadline:
        await server.call("getHealth")
        deadline -= 1
    assert server.network.slot_listeners == []


async def test_websocket__failed_transaction__notifies_for_its_fee_payer_alone(server: Served) -> None:
    payer, target = USER.pubkey(), Keypair().pubkey()
    instruction = transfer(TransferParams(from_pubkey=payer, to_pubkey=target, lamports=10**6 * SOL))
    await server.call("requestAirdrop", str(target), SOL)
    async with server.http.ws_connect(server.websocket_url) as socket:
        config = {"encoding": "base64", "commitment": "processed"}
        for number, (kind, key) in enumerate(
            [("account", payer), ("account", target), ("program", Pubkey.default()), ("logs", "all")], start=1
        ):
            request = {"jsonrpc": "2.0", "id": number, "method": f"{kind}Subscribe", "params": [str(key), config]}
            await socket.send_json(request)
            assert (await socket.receive_json())["id"] == number
        blockhash = server.network.slots.hash_of(server.network.slot)
        message = Message.new_with_blockhash([instruction], payer, blockhash)
        assert server.network.submit(bytes(VersionedTransaction(message, [USER]))).err is not None
        notifications = [await socket.receive_json() for _ in range(3)]
    kinds = sorted(one["method"] for one in notifications)
    assert kinds == ["accountNotification", "logsNotification", "programNotification"]
    [changed] = [one for one in notifications if one["method"] == "programNotification"]
    assert changed["params"]["result"]["value"]["pubkey"] == str(payer)


async def test_websocket__slots_updates__report_each_stage(server: Served) -> None:
    async with server.http.ws_connect(server.websocket_url) as socket:
        await socket.send_json({"jsonrpc": "2.0", "id": 1, "method": "slotsUpdatesSubscribe"})
        assert (await socket.receive_json())["id"] == 1
        closed = server.network.slot
        server.network.advance()
        updates = [(await socket.receive_json())["params"]["result"] for _ in range(6)]
    stages = {update["type"]: update for update in updates}
    assert list(stages) == [
        "completed",
        "frozen",
        "optimisticConfirmation",
        "root",
        "firstShredReceived",
        "createdBank",
    ]
    assert stages["frozen"]["slot"] == closed
    assert (stages["createdBank"]["slot"], stages["createdBank"]["parent"]) == (closed + 1, closed)


async def test_accounts__funded__pay_no_rent(server: Served) -> None:
    for address in (str(USER.pubkey()), STATE_TREE):
        account = (await server.call("getAccountInfo", address, BASE64))["value"]
        assert account["rentEpoch"] == (1 << 64) - 1
