"""WebSocket subscriptions of one connection (shared/localnet/docs/methods.md, "Methods").

Processed subscribers are notified at once, confirmed ones when the slot's block closes, finalized ones 31 blocks later.
A notification has the account as it was when the notification became due.
"""

import asyncio
import itertools
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
from solders.account import Account
from solders.pubkey import Pubkey
from solders.signature import Signature

from localnet.chain.blocks import RecordedTransaction
from localnet.chain.network import Network
from localnet.json_rpc import PARSE_ERROR, RpcError
from localnet.rpc import commitment
from localnet.rpc.dispatch import FRAMING, Method, calling
from localnet.rpc.encoding import ACCOUNT_ENCODINGS, data_slice, encode_account
from localnet.rpc.errors import invalid
from localnet.rpc.methods.accounts import AccountFilter, account_filter
from localnet.rpc.params import Params, pubkey, signature

OUTBOX = 4096
"""Messages that may wait for a slow reader before its connection is given up."""

MAX_SUBSCRIPTIONS = 1000
_NO_ACCOUNT = Account(0, b"", Pubkey.default())
"""Notification of a removed account."""

_ids = itertools.count(1)


@dataclass(frozen=True)
class Subscription:
    """A subscription. ``account`` and ``transaction`` return the value of the notification, None to send none.

    ``slots`` returns those of a slot that was closed with some transactions.
    """

    name: str
    commitment: str
    account: Callable[[Pubkey], Any] = lambda _key: None
    transaction: Callable[[RecordedTransaction], Any] = lambda _done: None
    signature: Signature | None = None
    slots: Callable[[int, Sequence[RecordedTransaction]], list[Any]] | None = None
    once: bool = False


class Connection:
    """The subscriptions of one client; messages for it wait in ``outbox``. Close it when the client has left."""

    def __init__(self, network: Network) -> None:
        self.network = network
        self.outbox: asyncio.Queue[bytes] = asyncio.Queue(OUTBOX)
        self.overrun = asyncio.Event()
        self._subscriptions: dict[int, Subscription] = {}
        self._added: list[int] = []
        self._changed: dict[Pubkey, None] = {}
        self._recent: deque[tuple[int, int, Any]] = deque()
        self._slot = network.slot
        self._fork = network.fork
        network.transaction_listeners.append(self._on_transaction)
        network.slot_listeners.append(self._on_slot)
        self._call = calling(network, self._subscribe_methods())

    def close(self) -> None:
        """Stop listening."""
        self.network.transaction_listeners.remove(self._on_transaction)
        self.network.slot_listeners.remove(self._on_slot)

    async def receive(self, body: str | bytes) -> None:
        """Handle one message of the client."""
        try:
            request = msgspec.json.decode(body)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            self._put(RpcError(PARSE_ERROR, "Parse error").answer())
            return
        answer = await FRAMING.answer_one(request, self._call)
        if answer is not None:
            self._put(answer)
        while self._added:
            self._notify_known(self._added.pop())

    def _put(self, message: object) -> None:
        try:
            self.outbox.put_nowait(msgspec.json.encode(message))
        except asyncio.QueueFull:
            self.overrun.set()

    def _notify(self, identifier: int, value: Any, slot: int | None = None) -> None:
        subscription = self._subscriptions.get(identifier)
        if subscription is None:
            return
        result = value if slot is None else {"context": {"slot": slot}, "value": value}
        self._put(
            {
                "jsonrpc": "2.0",
                "method": f"{subscription.name}Notification",
                "params": {"result": result, "subscription": identifier},
            }
        )
        if subscription.once:
            del self._subscriptions[identifier]

    # What happens on the chain

    def _on_transaction(self, done: RecordedTransaction | None, keys: Sequence[Pubkey]) -> None:
        self._changed.update(dict.fromkeys(keys))
        for identifier, subscription in list(self._subscriptions.items()):
            if subscription.commitment == "processed":
                for value in _values(subscription, [done] if done else [], keys):
                    self._notify(identifier, value, self.network.slot)

    def _on_slot(self) -> None:
        closed, self._slot = self._slot, self.network.slot
        changed, self._changed = list(self._changed), {}
        if self.network.fork != self._fork:
            self._fork = self.network.fork
            self._recent.clear()
        block = self.network.block(closed)
        done = block.transactions if block else ()
        for identifier, subscription in list(self._subscriptions.items()):
            if subscription.slots is not None:
                for value in subscription.slots(closed, done):
                    self._notify(identifier, value)
            elif subscription.commitment == "confirmed":
                for value in _values(subscription, done, changed):
                    self._notify(identifier, value, closed)
            elif subscription.commitment == "finalized":
                self._recent.extend((identifier, closed, value) for value in _values(subscription, done, changed))
        while self._recent and commitment.reached(self.network, self._recent[0][1], "finalized"):
            identifier, slot, value = self._recent.popleft()
            self._notify(identifier, value, slot)

    def _opened(self, *_: object) -> list[dict[str, Any]]:
        parent = self.network.slots.parent_of(self.network.slot)
        return [{"slot": self.network.slot, "parent": parent, "root": self._root()}]

    def _root(self) -> int:
        return commitment.slot_at(self.network, "finalized")

    def _stages(self, closed: int, done: Sequence[RecordedTransaction]) -> list[dict[str, Any]]:
        """Return what happened to slots when one closed and the next opened; times are in milliseconds since 1970."""
        now = int(time.time() * 1000)
        failed = sum(entry.err is not None for entry in done)
        counts = {"numTransactionEntries": len(done), "maxTransactionsPerEntry": min(len(done), 1)}
        counts |= {"numSuccessfulTransactions": len(done) - failed, "numFailedTransactions": failed}
        opened = self.network.slot
        return [
            {"type": "completed", "slot": closed, "timestamp": now},
            {"type": "frozen", "slot": closed, "timestamp": now, "stats": counts},
            {"type": "optimisticConfirmation", "slot": closed, "timestamp": now},
            {"type": "root", "slot": self._root(), "timestamp": now},
            {"type": "firstShredReceived", "slot": opened, "timestamp": now},
            {
                "type": "createdBank",
                "slot": opened,
                "parent": self.network.slots.parent_of(opened),
                "timestamp": now,
            },
        ]

    def _notify_known(self, identifier: int) -> None:
        """Notify subscribers of a transaction that was executed before the subscription."""
        subscription = self._subscriptions.get(identifier)
        if subscription is None or subscription.signature is None:
            return
        done = self.network.transaction(subscription.signature)
        if done is not None and commitment.reached(self.network, done.slot, subscription.commitment):
            self._notify(identifier, subscription.transaction(done), done.slot)

    # Subscribing

    def _subscribe_methods(self) -> dict[str, Method]:
        makers = {
            "slot": lambda _params: Subscription("slot", "processed", slots=self._opened),
            "slotsUpdates": lambda _params: Subscription("slotsUpdates", "processed", slots=self._stages),
            "root": lambda _params: Subscription("root", "finalized", slots=lambda *_: [self._root()]),
            "account": self._account,
            "program": self._program,
            "signature": self._signature,
            "logs": self._logs,
        }

        def subscribing(make: Callable[[Params], Subscription]) -> Method:
            return lambda _network, params: self._add(make(params))

        methods: dict[str, Method] = {f"{name}Subscribe": subscribing(make) for name, make in makers.items()}
        return methods | {f"{name}Unsubscribe": self._remove for name in makers}

    def _add(self, subscription: Subscription) -> int:
        if len(self._subscriptions) == MAX_SUBSCRIPTIONS:
            raise invalid(f"Too many subscriptions on this connection; max {MAX_SUBSCRIPTIONS}")
        identifier = next(_ids)
        self._subscriptions[identifier] = subscription
        self._added.append(identifier)
        return identifier

    def _remove(self, _network: Network, params: Params) -> bool:
        if self._subscriptions.pop(params.number(0), None) is None:
            raise invalid("Invalid subscription id.")
        return True

    def _account(self, params: Params) -> Subscription:
        config, wanted = params.config(1), params.pubkey(0)
        encoding, part = config.text("encoding", "binary", ACCOUNT_ENCODINGS), data_slice(config)

        def value(key: Pubkey) -> Any:
            if key != wanted:
                return None
            return encode_account(self.network, self.network.account(key) or _NO_ACCOUNT, encoding, part)

        return Subscription("account", config.commitment, account=value)

    def _program(self, params: Params) -> Subscription:
        config, program = params.config(1), params.pubkey(0)
        encoding, part = config.text("encoding", "binary", ACCOUNT_ENCODINGS), data_slice(config)
        passes: AccountFilter = account_filter(config)

        def value(key: Pubkey) -> Any:
            account = self.network.account(key)
            if account is None or account.owner != program or not passes(bytes(account.data)):
                return None
            return {"pubkey": str(key), "account": encode_account(self.network, account, encoding, part)}

        return Subscription("program", config.commitment, account=value)

    def _signature(self, params: Params) -> Subscription:
        wanted = signature(params.text(0))

        def value(done: RecordedTransaction) -> Any:
            return {"err": done.err} if wanted in done.transaction.signatures else None

        level = params.config(1).commitment
        return Subscription("signature", level, transaction=value, signature=wanted, once=True)

    def _logs(self, params: Params) -> Subscription:
        wanted = params.at(0)
        mentioned: Pubkey | None = None
        if isinstance(wanted, dict):
            mentions = wanted.get("mentions")
            if not isinstance(mentions, list) or len(mentions) != 1:
                raise invalid("Invalid Request: Only 1 address supported")
            mentioned = pubkey(mentions[0])
        elif wanted not in ("all", "allWithVotes"):
            raise invalid("Invalid params: expected all, allWithVotes or an object with mentions.")

        def value(done: RecordedTransaction) -> Any:
            if mentioned is not None and mentioned not in done.account_keys:
                return None
            return {"signature": str(done.signature), "err": done.err, "logs": done.logs}

        return Subscription("logs", params.config(1).commitment, transaction=value)


def _values(subscription: Subscription, done: Sequence[RecordedTransaction], keys: Sequence[Pubkey]) -> list[Any]:
    values = [subscription.transaction(entry) for entry in done] + [subscription.account(key) for key in keys]
    return [value for value in values if value is not None]
