"""The indexer client against an indexer of this file: real sockets, recorded and scripted answers."""

import asyncio
import copy
import json
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

import aiohttp
import msgspec
import pytest
import pytest_asyncio
from aiohttp import web
from aiohttp.test_utils import TestServer
from base58_hashes import encode_base58, parse_hash
from shared_vectors import shared_vectors

from forester import redaction
from forester.errors import EndpointTimedOut, EndpointUnreachable, RateLimited
from forester.indexer import validation
from forester.indexer.client import IndexerClient, IndexerTimes
from forester.indexer.failures import AnswerWrong, IndexerBehind, IndexerRefused
from forester.indexer.types import Hash32, QueueQuery
from shared.process.retries import Backoff

QUICK = IndexerTimes(lag_poll_s=0.001, backoff=Backoff(0.001, 0.002))
TREE = parse_hash("HLKs5NJ8FXkJg8BrzJt56adFYYuwg5etzDtBbQYTsixu")


def vector(name: str) -> dict[str, Any]:
    loaded: dict[str, Any] = shared_vectors(f"indexer/{name}")
    return loaded


@dataclass
class ScriptedIndexer:
    """Gives (status, body, headers) in order, the last again and again; bodies that are not text become JSON."""

    answers: list[tuple[int, Any, dict[str, str]]]
    asked: list[tuple[str, bytes]] = field(default_factory=list)
    hold: asyncio.Event | None = None
    server: TestServer = field(init=False)

    async def start(self) -> str:
        app = web.Application()
        app.router.add_post("/{anything:.*}", self._answer)
        self.server = TestServer(app)
        await self.server.start_server()
        return str(self.server.make_url("/"))

    async def _answer(self, request: web.Request) -> web.Response:
        self.asked.append((request.path_qs, await request.read()))
        if self.hold is not None:
            await self.hold.wait()
        status, body, headers = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        text = body if isinstance(body, str) else json.dumps(body)
        response = web.Response(status=status, text=text, headers=headers)
        response.enable_compression()
        return response


def ok(result: Any) -> tuple[int, Any, dict[str, str]]:
    return 200, {"jsonrpc": "2.0", "result": result, "id": "test-account"}, {}


def refusal(code: int, message: str) -> tuple[int, Any, dict[str, str]]:
    return 200, {"jsonrpc": "2.0", "error": {"code": code, "message": message}, "id": "test-account"}, {}


@dataclass
class Setup:
    indexer: ScriptedIndexer
    client: IndexerClient


@pytest_asyncio.fixture
async def setup() -> AsyncIterator[Callable[..., Awaitable[Setup]]]:
    open_things: list[tuple[aiohttp.ClientSession, ScriptedIndexer]] = []

    async def begin(
        *answers: tuple[int, Any, dict[str, str]], hold: asyncio.Event | None = None, suffix: str = "", **more: Any
    ) -> Setup:
        indexer = ScriptedIndexer(list(answers), hold=hold)
        url = await indexer.start()
        session = aiohttp.ClientSession()
        open_things.append((session, indexer))
        return Setup(indexer, IndexerClient(session, url + suffix, **{"times": QUICK, **more}))

    yield begin
    for session, indexer in open_things:
        await session.close()
        await indexer.server.close()


def query_of(params: dict[str, Any], name: str) -> QueueQuery | None:
    given = params.get(name)
    return given and QueueQuery(given["limit"], given["zkpBatchSize"], given.get("startIndex"))


async def call(client: IndexerClient, request: dict[str, Any]) -> Any:
    """Make the call that a recorded request is."""
    params = request["params"]
    match request["method"]:
        case "getIndexerHealth":
            return await client.health()
        case "getIndexerSlot":
            return await client.slot()
        case "getMultipleCompressedAccountProofs":
            return await client.account_proofs([parse_hash(text) for text in params])
        case "getMultipleNewAddressProofsV2":
            return await client.address_proofs(
                [(parse_hash(item["address"]), parse_hash(item["tree"])) for item in params]
            )
    return await client.queue_elements(
        parse_hash(params["tree"]),
        output=query_of(params, "outputQueue"),
        spent=query_of(params, "inputQueue"),
        address=query_of(params, "addressQueue"),
    )


RECORDED = [
    "queue_state",
    "queue_state_spent_first",
    "queue_address",
    "methods/getQueueElements.empty",
    "methods/getIndexerSlot",
    "methods/getIndexerHealth",
    "methods/getMultipleCompressedAccountProofs",
    "methods/getMultipleNewAddressProofsV2",
]


def without_unread(result: Any) -> Any:
    """Return an answer without the columns that the forester computes itself."""
    if not isinstance(result, dict):
        return result
    unread = ("leavesHashChains", "nullifiers")
    return {name: without_unread(value) for name, value in result.items() if name not in unread}


@pytest.mark.parametrize("name", RECORDED)
async def test_calls__recorded_vectors__send_the_same_bytes_and_lose_nothing_of_the_answer(
    setup: Callable[..., Awaitable[Setup]], name: str
) -> None:
    recorded = vector(name)
    request, response = recorded["request"], recorded["response"]
    made = await setup((200, response, {}), suffix="?api-key=1")
    typed = await call(made.client, request)
    path, body = made.indexer.asked[0]
    assert body == msgspec.json.encode(request)
    assert path == f"/{request['method']}?api-key=1"
    written = msgspec.json.encode(typed, enc_hook=encode_base58)
    result = response["result"]
    expected = {"ok": None}.get(result, result) if isinstance(result, str) else result
    if isinstance(expected, dict):
        expected = without_unread(expected.get("value", expected))
    assert written == msgspec.json.encode(expected)


@pytest.mark.parametrize("case", vector("errors")["cases"], ids=lambda case: case["response"]["error"]["message"][:30])
async def test_calls__recorded_errors__are_raised_with_code_and_message(
    setup: Callable[..., Awaitable[Setup]], case: dict[str, Any]
) -> None:
    error = case["response"]["error"]
    made = await setup((200, case["response"], {}), times=IndexerTimes(attempts=1))
    with pytest.raises(IndexerRefused) as raised:
        await made.client.slot()
    assert (raised.value.code, raised.value.message) == (error["code"], error["message"])
    assert raised.value.retryable is error["message"].startswith("Node is behind")
    assert str(error.get("data", "")) in str(raised.value)


def test_failures__long_texts_of_an_indexer__are_cut() -> None:
    refused = IndexerRefused("getIndexerSlot", -32603, "m" * 100_000, "d" * 100_000)
    assert refused.message == "m" * 500 + "…"
    assert refused.data == "d" * 500 + "…"
    assert len(refused.detail) < 1100
    assert IndexerRefused("getIndexerSlot", 404, "r" * 500).message == "r" * 500
    assert len(AnswerWrong("getIndexerSlot", "$.result", "r" * 100_000).detail) < 600


def test_failures__secret_across_the_cut__is_masked_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(redaction, "_remembered", {"SECRETKEY0123456789": None})
    text = "m" * 490 + "SECRETKEY0123456789 is not known"
    for failure in (IndexerRefused("x", -32603, text, text), AnswerWrong("x", "$", text)):
        assert "SECRET" not in failure.detail
        assert "***" in failure.detail


def changed(name: str, change: Callable[[Any], object]) -> tuple[dict[str, Any], dict[str, Any]]:
    recorded = copy.deepcopy(vector(name))
    result = recorded["response"]["result"]
    change(result)
    return recorded["request"], recorded["response"]


def output(result: Any) -> Any:
    return result["stateQueue"]["outputQueue"]


def spent(result: Any) -> Any:
    return result["stateQueue"]["inputQueue"]


def address(result: Any) -> Any:
    return result["addressQueue"]


PROOFS = "methods/getMultipleCompressedAccountProofs"
ADDRESSES = "methods/getMultipleNewAddressProofsV2"
OTHER = str(Hash32(b"\x01" * 32))
WRONG: list[tuple[str, Callable[[Any], object], str]] = [
    ("queue_state", lambda r: r.pop("context"), r"missing required field `context` at \$\.result"),
    ("queue_state", lambda r: r["context"].update(slot="5"), r"\$\.result\.context\.slot"),
    ("queue_state", lambda r: r["stateQueue"].pop("initialRoot"), r"`initialRoot` at \$\.result\.stateQueue"),
    ("queue_state", lambda r: r["stateQueue"].update(initialRoot="0OIl"), r"\$\.result\.stateQueue\.initialRoot"),
    ("queue_state", lambda r: r["stateQueue"]["nodes"][3].update(hash="abc"), r"nodes\[3\]\.hash"),
    ("queue_state", lambda r: r["stateQueue"]["nodes"][3].update(index=41 << 56), r"nodes\[3\]\.index"),
    ("queue_state", lambda r: r["stateQueue"]["nodes"].append({"index": 0, "hash": OTHER}), r"nodes\[105\]\.hash"),
    ("queue_state", lambda r: output(r)["leafIndices"].__setitem__(4, 99), r"outputQueue\.leafIndices\[4\]"),
    ("queue_state", lambda r: output(r).update(firstQueueIndex=21), r"outputQueue\.firstQueueIndex"),
    ("queue_state", lambda r: output(r).update(nextIndex=19), r"outputQueue\.nextIndex"),
    ("queue_state", lambda r: output(r)["accountHashes"].pop(), r"outputQueue\.accountHashes"),
    ("queue_state", lambda r: output(r)["leaves"].append(OTHER), r"outputQueue\.leaves"),
    ("queue_state", lambda r: [column.pop() for column in output(r).values() if isinstance(column, list)],
     r"9 elements are not whole batches of 10 at .*outputQueue"),
    ("queue_state", lambda r: r["stateQueue"].pop("outputQueue"), r"missing at .*outputQueue"),
    ("queue_state", lambda r: r["stateQueue"].update(inputQueue=None), r"missing at .*inputQueue"),
    ("queue_state", lambda r: spent(r)["txHashes"].pop(), r"inputQueue\.txHashes"),
    ("queue_state", lambda r: [tripled.__imul__(3) for tripled in spent(r).values() if isinstance(tripled, list)],
     r"30 elements where at most 20 were requested at .*inputQueue"),
    ("queue_address", lambda r: r.pop("addressQueue"), r"missing at \$\.result\.addressQueue"),
    ("queue_address", lambda r: address(r)["queueIndices"].__setitem__(1, 12), r"queueIndices\[1\]"),
    ("queue_address", lambda r: address(r).update(startIndex=10), r"addressQueue\.startIndex"),
    ("queue_address", lambda r: address(r)["lowElementNextIndices"].pop(), r"lowElementNextIndices"),
    ("queue_address", lambda r: address(r)["lowElementValues"].__setitem__(2, address(r)["addresses"][2]),
     r"lowElementValues\[2\]"),
    (PROOFS, lambda r: r["value"].append(r["value"][0]), r"2 items where 1 were requested at \$\.result\.value"),
    (PROOFS, lambda r: r["value"][0].update(hash=OTHER), r"\$\.result\.value\[0\]\.hash"),
    ("queue_state", lambda r: r["context"].update(slot=2**63), r"\$\.result\.context\.slot"),
    ("queue_state", lambda r: spent(r)["leafIndices"].__setitem__(1, 2**256), r"inputQueue\.leafIndices"),
    ("queue_state", lambda r: r["stateQueue"].update(rootSeq=10**4000), r"stateQueue\.rootSeq"),
    ("queue_address", lambda r: address(r)["queueIndices"].__setitem__(1, 2**64), r"queueIndices"),
    (PROOFS, lambda r: r["value"][0].update(leafIndex=2**256), r"\$\.result\.value\[0\]\.leafIndex"),
    (ADDRESSES, lambda r: r["value"][0].update(nextIndex=2**256), r"\$\.result\.value\[0\]\.nextIndex"),
    (PROOFS, lambda r: r["value"][0]["proof"].pop(), r"\$\.result\.value\[0\]\.proof"),
    (ADDRESSES, lambda r: r["value"][0].update(address=OTHER), r"\$\.result\.value\[0\]\.address"),
    (ADDRESSES, lambda r: r["value"][0].update(merkleTree=OTHER), r"\$\.result\.value\[0\]\.merkleTree"),
    (ADDRESSES, lambda r: r["value"][0].update(lowerRangeAddress=r["value"][0]["address"]), r"lowerRangeAddress"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "change", "place"), WRONG, ids=[f"{name}-{place}" for name, _, place in WRONG])
async def test_calls__wrong_answer__is_refused_with_the_field(
    setup: Callable[..., Awaitable[Setup]], name: str, change: Callable[[Any], object], place: str
) -> None:
    request, response = changed(name, change)
    made = await setup((200, response, {}))
    with pytest.raises(AnswerWrong, match=place) as raised:
        await call(made.client, request)
    assert request["method"] in str(raised.value)
    assert len(made.indexer.asked) == 1


@pytest.mark.parametrize(
    ("body", "place"),
    [
        ("<html>", r"malformed.* at \$"),
        ('{"jsonrpc":"2.0","id":"other","result":5}', r"\$\.id"),
        ('{"jsonrpc":"2.0","id":"test-account"}', "neither `result` nor `error`"),
        ('{"jsonrpc":"2.0","id":"test-account","result":-5}', r"`int` >= 0 at \$\.result"),
        ('{"jsonrpc":"2.0","id":"test-account","result":9223372036854775808}', r"`int` <= .* at \$\.result"),
        (f'{{"id":"test-account","result":{"[" * 100_000 + "]" * 100_000}}}', r"nested too deeply at \$"),
        (f'{{"error":{{"code":1,"data":{"[" * 100_000 + "]" * 100_000}}}}}', r"nested too deeply at \$"),
        ('{"jsonrpc":"2.0","id":"test-account","result":"5"}', r"\$\.result"),
        ("[]", r"\$"),
    ],
)
async def test_calls__broken_envelope__is_refused(
    setup: Callable[..., Awaitable[Setup]], body: str, place: str
) -> None:
    made = await setup((200, body, {}))
    with pytest.raises(AnswerWrong, match=place):
        await made.client.slot()


@pytest.mark.parametrize("amount", [-1, 0, 2**64 - 1, 2**64, 10**4000])
async def test_amounts__beyond_64_bits__are_refused(setup: Callable[..., Awaitable[Setup]], amount: int) -> None:
    accounts = ok({"value": {"items": [{"tokenData": {"mint": OTHER, "amount": amount}}]}})
    balances = ok({"value": {"items": [{"mint": OTHER, "balance": amount}]}})
    client = (await setup(accounts, balances)).client
    if 0 <= amount < 2**64:
        assert (await client.token_accounts(TREE)).items[0].token_data.amount == amount
        assert (await client.token_balances(TREE)).items[0].balance == amount
        return
    for read in (client.token_accounts, client.token_balances):
        with pytest.raises(AnswerWrong, match=r"64 bits at \$\.result\.value\.items"):
            await read(TREE)


async def test_calls__large_answer__is_checked_in_a_thread_while_the_loop_continues(
    setup: Callable[..., Awaitable[Setup]], monkeypatch: pytest.MonkeyPatch
) -> None:
    threads: list[threading.Thread] = []
    monkeypatch.setattr(validation, "check_account_proofs", lambda *_: threads.append(threading.current_thread()))
    answer = vector("methods/getMultipleCompressedAccountProofs")["response"]["result"]
    client = (await setup(ok(answer), ok(answer | {"value": answer["value"] * 400}))).client
    for _ in range(2):
        await client.account_proofs([])
    assert [thread is threading.main_thread() for thread in threads] == [True, False]


async def test_calls__unknown_members__are_ignored(setup: Callable[..., Awaitable[Setup]]) -> None:
    request, response = changed("queue_state", lambda r: output(r).update(colour="red"))
    made = await setup((200, response, {}))
    assert (await call(made.client, request)).state_queue.output_queue.next_index == 20


async def test_calls__page_of_one_root_given_twice__contradicts_the_start(
    setup: Callable[..., Awaitable[Setup]],
) -> None:
    made = await setup((200, vector("queue_state")["response"], {}))
    with pytest.raises(AnswerWrong, match="begins at 20 where 30 was requested"):
        await made.client.queue_elements(TREE, output=QueueQuery(20, 10, 30))


async def test_calls__faults_that_pass__are_repeated(setup: Callable[..., Awaitable[Setup]]) -> None:
    faults = [(502, "bad gateway", {}), (429, "", {"Retry-After": "0"}), refusal(-32000, "Internal server error")]
    made = await setup(*faults * 3, ok(77))
    assert await made.client.slot() == 77
    assert len(made.indexer.asked) == 10


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        ((503, "", {}), EndpointUnreachable),
        ((429, "", {}), RateLimited),
        (refusal(-32603, "oops"), IndexerRefused),
    ],
)
async def test_calls__faults_that_stay__end_after_ten_attempts(
    setup: Callable[..., Awaitable[Setup]], answer: tuple[int, Any, dict[str, str]], kind: type[Exception]
) -> None:
    made = await setup(answer)
    with pytest.raises(kind):
        await made.client.slot()
    assert len(made.indexer.asked) == 10


@pytest.mark.parametrize("answer", [(403, "", {}), refusal(-32601, "Method not found")])
async def test_calls__refused_permanently__are_made_once(
    setup: Callable[..., Awaitable[Setup]], answer: tuple[int, Any, dict[str, str]]
) -> None:
    made = await setup(answer)
    with pytest.raises(IndexerRefused):
        await made.client.slot()
    assert len(made.indexer.asked) == 1


async def test_calls__silent_indexer__end_with_the_deadline(setup: Callable[..., Awaitable[Setup]]) -> None:
    hold = asyncio.Event()
    made = await setup(ok(1), hold=hold, times=IndexerTimes(deadline_s=0.2))
    with pytest.raises(EndpointTimedOut, match=r"did not answer getIndexerSlot within 0\.2 s"):
        await made.client.slot()
    hold.set()


async def test_calls__no_indexer__name_it_without_its_key(unused_tcp_port: int) -> None:
    async with aiohttp.ClientSession() as session:
        url = f"http://127.0.0.1:{unused_tcp_port}/?api-key=hidden-value"
        with pytest.raises(EndpointUnreachable, match=f"127.0.0.1:{unused_tcp_port}/ is unreachable") as raised:
            await IndexerClient(session, url, times=QUICK).slot()
    assert "hidden-value" not in str(raised.value)


async def test_calls__every_exchange__is_admitted_first(setup: Callable[..., Awaitable[Setup]]) -> None:
    admitted: list[int] = []

    async def admit() -> None:
        admitted.append(len(made.indexer.asked))

    made = await setup((503, "", {}), ok(5), admit=admit)
    await made.client.slot()
    assert admitted == [0, 1]


async def test_wait_for_slot__lagging_indexer__is_waited_for_but_not_for_ever(
    setup: Callable[..., Awaitable[Setup]],
) -> None:
    made = await setup(ok(5), ok(6), ok(9))
    assert await made.client.wait_for_slot(7, 60) == 9
    with pytest.raises(IndexerBehind, match="at slot 9, behind slot 10") as raised:
        await made.client.wait_for_slot(10, 0.2)
    assert raised.value.retryable


async def test_wait_for_slot__indexer_that_only_refuses__is_distinguished_from_one_that_lags(
    setup: Callable[..., Awaitable[Setup]],
) -> None:
    made = await setup((429, "", {}), times=IndexerTimes(attempts=1000, backoff=Backoff(0.01, 0.02)))
    with pytest.raises(EndpointTimedOut, match=r"returned no slot within 0\.2 s"):
        await made.client.wait_for_slot(7, 0.2)


async def test_calls__one_gets_retry_after__others_wait_as_well(
    setup: Callable[..., Awaitable[Setup]],
) -> None:
    made = await setup((429, "", {"Retry-After": "1"}), ok(5), times=IndexerTimes(attempts=1))
    with pytest.raises(RateLimited):
        await made.client.slot()
    began = time.monotonic()
    assert await asyncio.gather(*[made.client.slot() for _ in range(2)]) == [5, 5]
    assert time.monotonic() - began > 0.8
    assert len(made.indexer.asked) == 3
