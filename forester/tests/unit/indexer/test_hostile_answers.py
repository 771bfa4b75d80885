"""Answers of an indexer with one member replaced: they are refused, or used without any other error."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import nullcontext
from functools import cache
from typing import Any

import msgspec
import pytest
from base58_hashes import encode_base58, parse_hash
from hypothesis import given, settings
from hypothesis import strategies as st
from shared_vectors import shared_vectors
from v2_models import ZKP, AddressModel, StateModel, number

from forester.chain.concurrent_accounts import QueueCell
from forester.indexer import validation
from forester.indexer.answers import REQUEST_ID, read_answer
from forester.indexer.failures import AnswerWrong, IndexerRefused
from forester.indexer.types import AccountProof, AddressProof, Answer, Context, Hash32, QueueElements, QueueQuery
from forester.pipeline_v1.indexer_proofs import absence_proof, leaf_proof
from forester.pipeline_v1.proof_freshness import leads_to_root
from forester.pipeline_v2.failures import StagingRefused
from forester.pipeline_v2.staging.staged_batches import stage_addresses, stage_state
from forester.pipeline_v2.staging.tree_head import TreeHead
from shared.requests.circuit_id import CircuitKind

_DEEP = "nested deeply"
_HOSTILE: list[Any] = [
    *(None, True, 1.5, "", "0OIl", [], {}, _DEEP, -1, 0, 1, 2**32, 2**56, 41 << 56),
    *(2**63 - 1, 2**63, 2**64, 2**256, 10**4000),
    *(str(Hash32(bytes([byte]) * 32)) for byte in (0, 1, 255)),
]
_ANY = QueueQuery(40, ZKP)
_WAITING = [number(value) for value in (3, 9, 7, 5)]
_CELL = QueueCell(0, bytes(31) + b"\1")


def _places(value: Any, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    """Yield the paths of all members and items."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        yield (*path, key)
        yield from _places(item, (*path, key))


@cache
def _answer(name: str) -> bytes:
    if name in ("state", "address"):
        state, addresses = _models()
        elements = QueueElements(
            context=Context(9),
            state_queue=state.snapshot() if name == "state" else None,
            address_queue=addresses.snapshot(_WAITING) if name == "address" else None,
        )
        return msgspec.json.encode({"id": REQUEST_ID, "result": elements}, enc_hook=encode_base58)
    return msgspec.json.encode(shared_vectors(f"indexer/methods/{name}")["response"])


@cache
def _models() -> tuple[StateModel, AddressModel]:
    state = StateModel()
    state.queued = [number(1000 + index) for index in range(6)]
    state.apply(CircuitKind.BATCH_APPEND)
    state.spent = [(state.queued[index], index, number(5000 + index)) for index in (0, 1, 3, 4)]
    return state, AddressModel()


def _changed(name: str, data: st.DataObject) -> bytes:
    """Return an answer with one member or item replaced."""
    answer = json.loads(_answer(name))
    *parents, last = data.draw(st.sampled_from(list(_places(answer))))
    container = answer
    for key in parents:
        container = container[key]
    container[last] = data.draw(st.sampled_from(_HOSTILE))
    return json.dumps(answer).replace(f'"{_DEEP}"', "[" * 5000 + "]" * 5000).encode()


def _use(name: str, text: bytes) -> None:
    """Read an answer, and use it as the pipelines do."""
    request: Any = shared_vectors(f"indexer/methods/{name}")["request"]["params"] if name.startswith("get") else None
    match name:
        case "getMultipleCompressedAccountProofs":
            accounts = read_answer(name, text, Answer[tuple[AccountProof, ...]]).value
            validation.check_account_proofs(name, accounts, [parse_hash(item) for item in request])
            for account in accounts:
                leads_to_root(leaf_proof(_CELL, account))
        case "getMultipleNewAddressProofsV2":
            absences = read_answer(name, text, Answer[tuple[AddressProof, ...]]).value
            queried = [(parse_hash(item["address"]), parse_hash(item["tree"])) for item in request]
            validation.check_address_proofs(name, absences, queried)
            for absence in absences:
                leads_to_root(absence_proof(_CELL, absence))
        case "state" | "address":
            _stage(read_answer("getQueueElements", text, QueueElements), is_state=name == "state")


def _stage(elements: QueueElements, *, is_state: bool) -> None:
    queries = (_ANY, _ANY, None) if is_state else (None, None, _ANY)
    validation.check_queue_elements(elements, *queries)
    state, addresses = _models()
    head: TreeHead = state.head() if is_state else addresses.head(_WAITING)
    staging = None
    if elements.state_queue is not None and is_state:
        staging = stage_state(elements.state_queue, head, 9)
    elif elements.address_queue is not None and not is_state:
        staging = stage_addresses(elements.address_queue, head, 9)
    while staging is not None and staging.next() is not None:
        pass


NAMES = ["getMultipleCompressedAccountProofs", "getMultipleNewAddressProofsV2", "state", "address"]


@pytest.mark.parametrize("name", NAMES)
def test_answer__as_it_is__is_used(name: str) -> None:
    _use(name, _answer(name))


@pytest.mark.parametrize("changed", [{}, {"root": Hash32(bytes(32))}, {"root_seq": 9}])
def test_address_proofs__of_one_tree__have_one_root(changed: dict[str, Any]) -> None:
    name = "getMultipleNewAddressProofsV2"
    (proof,) = read_answer(name, _answer(name), Answer[tuple[AddressProof, ...]]).value
    elsewhere = msgspec.structs.replace(proof, merkle_tree=Hash32(bytes([7]) * 32), root=Hash32(bytes([8]) * 32))
    proofs = [proof, elsewhere, msgspec.structs.replace(proof, **changed)]
    refused = pytest.raises(AnswerWrong, match=r"another root than an earlier proof of the same tree at .*\[2\]\.root")
    with refused if changed else nullcontext():
        validation.check_address_proofs(name, proofs, [(item.address, item.merkle_tree) for item in proofs])


@pytest.mark.parametrize("name", NAMES)
@settings(deadline=None, max_examples=300)
@given(data=st.data())
def test_answer__with_any_member_replaced__is_used_or_refused(name: str, data: st.DataObject) -> None:
    text = _changed(name, data)
    try:
        _use(name, text)
    except (AnswerWrong, IndexerRefused, StagingRefused):
        return
