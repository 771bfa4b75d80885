"""Methods about the transactions of an address (shared/localnet/docs/methods.md, "Methods")."""

import operator
from collections.abc import Callable, Iterator
from typing import Any

from solders.pubkey import Pubkey

from localnet.chain.blocks import ExecutedInstruction, RecordedTransaction
from localnet.chain.network import Network
from localnet.rpc.commitment import reached, require_confirmed, require_slot, status_of
from localnet.rpc.encoding import TRANSACTION_ENCODINGS, Json, encode_entry
from localnet.rpc.errors import invalid
from localnet.rpc.params import Config, Params, signature
from localnet.rpc.parsed.instructions import MEMO_PROGRAMS

MAX_SIGNATURES = 1000
MAX_TRANSACTIONS = 100
_OPERATORS = {"gt": operator.gt, "gte": operator.ge, "lt": operator.lt, "lte": operator.le, "eq": operator.eq}
Position = tuple[int, int]
"""Slot of a transaction, and its index in the block."""
Place = tuple[Position, RecordedTransaction]


def get_signatures_for_address(network: Network, params: Params) -> list[Json]:
    """Return transactions that name an address, newest first, between ``before`` and ``until``."""
    config = params.config(1)
    level = require_confirmed(config)
    require_slot(network, config)
    limit = _limit(config, MAX_SIGNATURES)
    found = network.transactions_of(params.pubkey(0))
    newest = _position(network, found, config, "before", len(found))
    oldest = _position(network, found, config, "until", -1)
    answer: list[Json] = []
    for index in range(newest - 1, oldest, -1):
        if len(answer) == limit:
            break
        if reached(network, found[index].slot, level):
            answer.append(_signature_entry(network, found[index]))
    return answer


def _limit(config: Config, most: int) -> int:
    limit = config.number("limit")
    limit = most if limit is None else limit
    if not 1 <= limit <= most:
        raise invalid(f"Invalid limit; max {most}")
    return limit


def _position(network: Network, found: list[RecordedTransaction], config: Config, name: str, default: int) -> int:
    """Index of the transaction whose signature a configuration names."""
    text = config.members.get(name)
    if text is None:
        return default
    if not isinstance(text, str):
        raise invalid(f"Invalid params: {name} is a signature.")
    done = network.transaction(signature(text))
    return next((index for index, entry in enumerate(found) if entry is done), default)


def _signature_entry(network: Network, done: RecordedTransaction) -> Json:
    return {
        "signature": str(done.signature),
        "slot": done.slot,
        "err": done.err,
        "memo": memo_of(done.instructions),
        "blockTime": done.block_time,
        "confirmationStatus": status_of(network, done.slot)[0],
    }


def memo_of(instructions: tuple[ExecutedInstruction, ...]) -> str | None:
    """Return the memos of a transaction with their lengths in bytes; None if it has none."""
    data = [entry.data for entry in instructions if str(entry.program) in MEMO_PROGRAMS]
    return "; ".join(f"[{len(raw)}] {raw.decode(errors='replace')}" for raw in data) or None


def get_transactions_for_address(network: Network, params: Params) -> Json:
    """Return transactions of an address in pages, filtered and in either order."""
    address, config = params.pubkey(0), params.config(1)
    level = require_confirmed(config)
    require_slot(network, config)
    full = config.text("transactionDetails", "signatures", ("signatures", "full")) == "full"
    encoding = config.text("encoding", "json", TRANSACTION_ENCODINGS)
    limit = _limit(config, MAX_TRANSACTIONS if full else MAX_SIGNATURES)
    ascending = config.text("sortOrder", "desc", ("asc", "desc")) == "asc"
    filters = config.members.get("filters") or {}
    if not isinstance(filters, dict):
        raise invalid("Invalid params: filters is an object.")
    passes = _filter(network, Config(filters))
    found = [
        place
        for place in _places(network, address, Config(filters))
        if reached(network, place[1].slot, level) and passes(*place)
    ]
    if not ascending:
        found.reverse()
    token = _token(config)
    if token is not None:
        found = [place for place in found if (place[0] > token if ascending else place[0] < token)]
    page = found[:limit]
    last = page[-1][0] if len(found) > limit else None
    entries = [_full_entry(place, config, encoding) if full else _indexed(network, place) for place in page]
    return {"data": entries, "paginationToken": None if last is None else f"{last[0]}:{last[1]}"}


def _places(network: Network, address: Pubkey, filters: Config) -> Iterator[Place]:
    """Yield the transactions of an address, oldest first."""
    accounts = filters.text("tokenAccounts", "none", ("none", "balanceChanged", "all"))
    for block in network.blocks_with_transactions(network.first_slot, network.slot):
        for index, done in enumerate(block.transactions):
            if address in done.account_keys or (accounts != "none" and _holds(done, address, accounts)):
                yield (block.slot, index), done


def _holds(done: RecordedTransaction, owner: Pubkey, accounts: str) -> bool:
    """Return whether a transaction names a token account of an owner, or changes its balance."""
    before = {entry.account_index: entry.amount for entry in done.pre_token_balances if entry.owner == owner}
    after = {entry.account_index: entry.amount for entry in done.post_token_balances if entry.owner == owner}
    return bool(before or after) if accounts == "all" else before != after


def _filter(network: Network, filters: Config) -> Callable[[Position, RecordedTransaction], bool]:
    status = filters.text("status", "any", ("any", "succeeded", "failed"))
    slot = _comparison(filters, "slot", Config.number)
    time = _comparison(filters, "blockTime", Config.number)
    order = _comparison(filters, "signature", lambda bounds, name: _position_of(network, bounds, name))

    def passes(position: Position, done: RecordedTransaction) -> bool:
        outcome = status == "any" or (status == "failed") == (done.err is not None)
        return outcome and slot(done.slot) and time(done.block_time) and order(position)

    return passes


def _comparison(filters: Config, name: str, read: Callable[[Config, str], Any]) -> Callable[[Any], bool]:
    """Return the conjunction of the bounds that a filter has."""
    members = filters.members.get(name) or {}
    if not isinstance(members, dict):
        raise invalid(f"Invalid params: {name} is an object of bounds.")
    bounds = Config(members)
    limits = [(holds, limit) for name, holds in _OPERATORS.items() if (limit := read(bounds, name)) is not None]
    return lambda value: all(holds(value, limit) for holds, limit in limits)


def _position_of(network: Network, bounds: Config, name: str) -> Position | None:
    text = bounds.members.get(name)
    if text is None:
        return None
    done = network.transaction(signature(text)) if isinstance(text, str) else None
    block = None if done is None else network.block(done.slot)
    if block is None or done is None:
        raise invalid(f"Invalid params: the signature of {name} is unknown.")
    return done.slot, block.transactions.index(done)


def _token(config: Config) -> Position | None:
    text = config.members.get("paginationToken")
    if text is None:
        return None
    slot, _, index = str(text).partition(":")
    if not (slot.isdecimal() and index.isdecimal()):
        raise invalid("Invalid params: paginationToken has the format <slot>:<position>.")
    return int(slot), int(index)


def _indexed(network: Network, place: Place) -> Json:
    return _signature_entry(network, place[1]) | {"transactionIndex": place[0][1]}


def _full_entry(place: Place, config: Config, encoding: str) -> Json:
    (slot, index), done = place
    members = {"slot": slot, "blockTime": done.block_time, "transactionIndex": index}
    return members | encode_entry(done, config, encoding)


METHODS = {
    "getSignaturesForAddress": get_signatures_for_address,
    "getTransactionsForAddress": get_transactions_for_address,
}
