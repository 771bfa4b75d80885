"""Looking at request bodies: the same result however large they are, and not at the expense of other requests."""

from __future__ import annotations

import asyncio
import hashlib
import threading
from unittest.mock import Mock

import pytest
from aiohttp import StreamReader
from aiohttp.test_utils import make_mocked_request
from golden_vectors import vector_named

from prover.errors import BodyTooLarge, MalformedRequest
from prover.http.requests import body
from prover.proving.request import MAXIMUM_COMPACT_BYTES, MAXIMUM_VALUES, compact, read_envelope, read_task
from prover.settings import HttpSettings

SHORT = vector_named("prover/batch_append_32_10").body
TASK = read_task(read_envelope(SHORT), known=None)
BLANKS = b" \n\t\r" * (1 << 20)
LARGE = {
    "blanks": SHORT.replace(b"{", b"{" + BLANKS, 1) + BLANKS,
    "unknown member": SHORT.replace(b"{", b'{"x":{"leaves":[' + b"0," * MAXIMUM_VALUES + b"0]},", 1),
}


def received(sent: bytes) -> body.ReceivedBody:
    """Return a body as ``read_body`` does."""
    text = sent if len(sent) <= 1 << 16 else bytearray(sent)
    return body.ReceivedBody(text, hashlib.sha256(sent).digest())


async def read(sent: bytes) -> body.ReceivedBody:
    """Return a body that arrives in pieces."""
    payload = StreamReader(Mock(), 1 << 16, loop=asyncio.get_running_loop())
    for start in range(0, len(sent), 100_000):
        payload.feed_data(sent[start : start + 100_000])
        await asyncio.sleep(0)
    payload.feed_eof()
    request = make_mocked_request("POST", "/prove", payload=payload)
    with body.BodyBudget(1 << 30, 1 << 30).lease("test") as lease:
        found = await body.read_body(request, HttpSettings(), lease)
        assert lease.size == len(sent)
    return found


@pytest.mark.parametrize("sent", [b"", SHORT, SHORT * 10, *LARGE.values()], ids=["empty", "short", "long", *LARGE])
async def test_body__read_in_pieces__is_what_was_sent_with_its_digest(sent: bytes) -> None:
    found = await read(sent)
    assert (found.text, found.digest) == (sent, hashlib.sha256(sent).digest())
    assert isinstance(found.text, bytes) == (len(sent) <= 1 << 16)


async def test_body__however_large__has_its_digest_and_is_the_same_request() -> None:
    for sent in (SHORT, *LARGE.values()):
        examined = await body.examine(received(sent))
        assert examined.digest == hashlib.sha256(sent).digest()
        assert read_task(examined.envelope, known=None) == TASK


async def test_body__small__is_kept_as_it_is() -> None:
    assert (await body.examine(received(SHORT))).text == SHORT


async def test_body__large_and_not_stored__is_compacted_only_if_it_has_too_many_bytes_or_values() -> None:
    spread = SHORT.replace(b",", b" , ") + BLANKS[: 1 << 17]
    for sent in (spread, *LARGE.values()):
        examined = await body.examine(received(sent), is_stored=False)
        assert read_task(examined.envelope, known=None) == TASK
        assert examined.text == (sent if sent is spread else b"".join(SHORT.split()))
        assert (await body.examine(received(sent))).text == b"".join(SHORT.split())


@pytest.mark.parametrize("sent", LARGE.values(), ids=LARGE)
async def test_body__large__keeps_what_its_circuit_needs(sent: bytes) -> None:
    assert (await body.examine(received(sent))).text == b"".join(SHORT.split())


async def test_body__with_more_than_any_circuit_needs__is_too_large() -> None:
    sent = SHORT.replace(b'"0x', b'"0x' + b"0" * MAXIMUM_COMPACT_BYTES, 1)
    with pytest.raises(BodyTooLarge, match="larger than that of any circuit"):
        await body.examine(received(sent))


async def test_body__of_the_largest_published_circuit__has_room() -> None:
    numbers = ['"0x' + "f" * 64 + '"'] * 250
    paths = [f"[{','.join(numbers[:40])}]"] * 250
    members = {f"{name}s": numbers for name in ("lowElementValue", "lowElementIndice", "newElementValue")}
    members |= {"lowElementNextValues": numbers, "lowElementProofs": paths, "newElementProofs": paths}
    sent = '{"circuitType":"address-append","treeHeight":40,"batchSize":250'
    sent += "".join(f',"{name}":[{",".join(values)}]' for name, values in members.items()) + "}"
    examined = await body.examine(received(sent.encode()))
    assert examined.text == sent.encode()
    assert examined.envelope.circuit.name == "batch_address-append_40_250"
    assert 1_400_000 < len(sent) < MAXIMUM_COMPACT_BYTES / 1.4
    assert 21_000 < sent.count(",") < MAXIMUM_VALUES / 3


@pytest.mark.parametrize("sent", [BLANKS, BLANKS + b"{", b"[" * len(BLANKS), SHORT + BLANKS + b"x"])
async def test_body__large_and_no_json__is_malformed(sent: bytes) -> None:
    with pytest.raises(MalformedRequest, match="failed to parse JSON"):
        await body.examine(received(sent))


async def test_body__large__lets_the_event_loop_continue(monkeypatch: pytest.MonkeyPatch) -> None:
    went_on = threading.Event()

    def slow(sent: bytes | bytearray) -> bytes | bytearray:
        assert went_on.wait(60), "the event loop waits for the body"
        return compact(sent)

    monkeypatch.setattr(body, "compact", slow)
    asyncio.get_running_loop().call_soon(went_on.set)
    examined = await body.examine(received(LARGE["blanks"]))
    assert read_task(examined.envelope, known=None) == TASK
