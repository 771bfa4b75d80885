"""Answers of the methods: from the store, read in threads, and from prover and node."""

import asyncio
from base64 import b64decode, b64encode
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, TypeVar

from localnet.base58 import encode
from localnet.indexer.api import params
from localnet.indexer.api.accounts import find_unspent
from localnet.indexer.api.errors import internal, not_found, validation
from localnet.indexer.api.methods import METHODS
from localnet.indexer.api.proofs import require_sound
from localnet.indexer.api.shapes import Json, Snapshot, account_v2
from localnet.indexer.api.signatures import compression_info
from localnet.indexer.api.validity import Statement, answer_v1, answer_v2, state_v1, state_v2
from localnet.indexer.database.store import Store
from localnet.indexer.database.trees import all_trees
from localnet.json_rpc import METHOD_NOT_FOUND, SERVER_ERROR, Call, RpcError

HEALTHY_LAG = 20
"""Slots that a healthy indexer may be behind its node."""

_MOST_INTERFACES = 100
_CONFIRMED = {"encoding": "base64", "commitment": "confirmed"}
_WHOLE = _CONFIRMED | {"maxSupportedTransactionVersion": 0}

Answer = TypeVar("Answer")
Special = Callable[[object], Awaitable[Any]]


class Service:
    """The methods over a store.

    ``prove`` returns the prover's JSON for a request or raises RpcError, and ``node`` calls a method of the node.
    ``stopped`` returns why indexing stopped, None while it continues. ``settle`` is awaited before a call is answered.
    """

    def __init__(
        self,
        store: Store,
        prove: Callable[[Json], Awaitable[Any]],
        node: Call,
        stopped: Callable[[], str | None] = lambda: None,
        settle: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        self._store = store
        self._prove = prove
        self._node = node
        self._stopped = stopped
        self._settle = settle
        self._special: dict[str, Special] = {
            "getIndexerHealth": self._health,
            "getIndexerSlot": self._slot,
            "liveness": self._liveness,
            "readiness": self._readiness,
            "getValidityProof": partial(self._validity_proof, params.ValidityProof, state_v1, answer_v1),
            "getValidityProofV2": partial(self._validity_proof, params.ValidityProofV2, state_v2, answer_v2),
            "getTransactionWithCompressionInfo": partial(self._transaction, newer=False),
            "getTransactionWithCompressionInfoV2": partial(self._transaction, newer=True),
            "getAccountInterface": self._interface,
            "getMultipleAccountInterfaces": self._interfaces,
        }

    @property
    def names(self) -> frozenset[str]:
        """Names of all methods."""
        return frozenset(METHODS) | frozenset(self._special)

    async def call(self, name: str, given: object) -> Any:
        """Return the result of a method; raise RpcError for an answer that is an error."""
        if self._settle is not None:
            await self._settle()
        special = self._special.get(name)
        if special is not None:
            return await special(given)
        method = METHODS.get(name)
        if method is None:
            raise RpcError(METHOD_NOT_FOUND, "Method not found")
        wanted = params.decode_params(given, method.params)
        return await self._read(lambda snapshot: method.answer(snapshot, wanted))

    async def _read(self, answer: Callable[[Snapshot], Answer]) -> Answer:
        """Return the result of ``answer`` for one moment of the store, computed in a thread."""

        def reading() -> Answer:
            with self._store.read() as connection:
                return answer(Snapshot.of(connection))

        return await asyncio.to_thread(reading)

    async def _slot(self, _: object) -> int:
        return await self._read(lambda snapshot: snapshot.slot)

    async def _health(self, given: object) -> str:
        stopped = self._stopped()
        if stopped is not None:
            raise internal("indexing has stopped")
        await self._read(_require_sound_trees)
        behind = await self._node("getSlot", [_CONFIRMED]) - await self._slot(given)
        if behind > HEALTHY_LAG:
            raise RpcError(SERVER_ERROR, f"Node is behind {behind} slots")
        return "ok"

    async def _liveness(self, _: object) -> None:
        return None

    async def _readiness(self, given: object) -> None:
        await self._health(given)

    async def _validity_proof(
        self,
        kind: type[Answer],
        state: Callable[[Snapshot, Answer], Statement],
        answer: Callable[[Statement, Any], Json],
        given: object,
    ) -> Json:
        wanted = params.decode_params(given, kind)
        statement = await self._read(lambda snapshot: state(snapshot, wanted))
        request = statement.request()
        return answer(statement, None if request is None else await self._prove(request))

    async def _transaction(self, given: object, *, newer: bool) -> Json:
        wanted = params.decode_params(given, params.TransactionName)
        transaction = await self._node("getTransaction", [encode(wanted.signature), _WHOLE])
        if transaction is None:
            raise not_found("Transaction not found")
        info = await self._read(lambda snapshot: compression_info(snapshot, wanted.signature, newer=newer))
        return {"transaction": transaction, "compressionInfo": info}

    async def _interface(self, given: object) -> Json:
        wanted = params.decode_params(given, params.Interface)
        slot, (value,) = await self._found([wanted.address])
        return {"context": {"slot": slot}, "value": value}

    async def _interfaces(self, given: object) -> Json:
        wanted = params.decode_params(given, params.Interfaces)
        if len(wanted.addresses) > _MOST_INTERFACES:
            raise validation(
                f"Too many addresses requested {len(wanted.addresses)}. Maximum allowed: {_MOST_INTERFACES}"
            )
        slot, values = await self._found(wanted.addresses)
        return {"context": {"slot": slot}, "value": values}

    async def _found(self, addresses: list[params.Hash]) -> tuple[int, list[Json | None]]:
        """Return the slot, and each account: on chain, else compressed under this address, else None."""
        slot = await self._slot(None)
        values: list[Json | None] = []
        for address in addresses:
            account = (await self._node("getAccountInfo", [encode(address), _CONFIRMED]))["value"]
            if account is not None:
                values.append(_hot(address, account))
            else:
                values.append(await self._read(lambda snapshot, key=address: _cold(snapshot, key)))  # type: ignore[misc]
        return slot, values


def _require_sound_trees(snapshot: Snapshot) -> None:
    for tree in all_trees(snapshot.connection):
        require_sound(tree)


def _hot(address: bytes, account: Json) -> Json:
    data = account["data"][0]
    return {
        "key": encode(address),
        "account": {
            "lamports": account["lamports"],
            "data": data,
            "owner": account["owner"],
            "executable": account["executable"],
            "rentEpoch": account["rentEpoch"],
            "space": len(b64decode(data)),
        },
        "cold": None,
    }


def _cold(snapshot: Snapshot, address: params.Hash) -> Json | None:
    """Return a compressed account in the shape of one on chain: its discriminator precedes its data."""
    row = find_unspent(snapshot, params.AccountOrAddress(address=address))
    if row is None:
        return None
    content = row.data.discriminator + row.data.data if row.data else b""
    return {
        "key": encode(address),
        "account": {
            "lamports": row.lamports,
            "data": b64encode(content).decode(),
            "owner": encode(row.owner),
            "executable": False,
            "rentEpoch": 0,
            "space": len(content),
        },
        "cold": [account_v2(row)],
    }
