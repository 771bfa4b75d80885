"""Methods about slots and blocks (shared/localnet/docs/methods.md, "Methods")."""

from typing import Any

from solders.hash import Hash, ParseHashError

from localnet.chain.blocks import Block
from localnet.chain.network import SLOTS_PER_EPOCH, Network
from localnet.chain.slots import BLOCKHASH_WINDOW
from localnet.json_rpc import RpcError
from localnet.rpc.commitment import context, reached, require_confirmed, require_slot, slot_at
from localnet.rpc.encoding import TRANSACTION_ENCODINGS, Json, encode_entry, encode_meta, version_members
from localnet.rpc.errors import BLOCK_NOT_AVAILABLE, SLOT_SKIPPED, invalid
from localnet.rpc.params import Config, Params

MAX_BLOCK_RANGE = 500_000


def get_slot(network: Network, params: Params) -> int:
    """Return the newest slot at a level of commitment."""
    config = params.config(0)
    require_slot(network, config)
    return slot_at(network, config.commitment)


def get_block_height(network: Network, params: Params) -> int:
    """Return the height of the newest block at a level of commitment."""
    return network.slots.height_of(get_slot(network, params))


def get_epoch_info(network: Network, params: Params) -> Json:
    """Return the position in the cluster's epoch (not the foresters' one)."""
    slot = get_slot(network, params)
    return {
        "absoluteSlot": slot,
        "blockHeight": network.slots.height_of(slot),
        "epoch": slot // SLOTS_PER_EPOCH,
        "slotIndex": slot % SLOTS_PER_EPOCH,
        "slotsInEpoch": SLOTS_PER_EPOCH,
        "transactionCount": network.transaction_count,
    }


def get_transaction_count(network: Network, _params: Params) -> int:
    """Return transactions since the first block."""
    return network.transaction_count


def get_first_available_block(network: Network, _params: Params) -> int:
    """Return the slot of the first block."""
    return network.first_slot


def get_latest_blockhash(network: Network, params: Params) -> Json:
    """Return the newest blockhash at a level of commitment, and the last height at which it may be used."""
    config = params.config(0)
    slot = slot_at(network, config.commitment)
    value = {
        "blockhash": str(network.slots.hash_of(slot)),
        "lastValidBlockHeight": network.slots.height_of(slot) + BLOCKHASH_WINDOW,
    }
    return {"context": context(network, config), "value": value}


def is_blockhash_valid(network: Network, params: Params) -> Json:
    """Return whether a transaction may still name a blockhash."""
    try:
        blockhash = Hash.from_string(params.text(0))
    except (ParseHashError, ValueError) as error:
        raise invalid("Invalid param: Invalid") from error
    return {"context": context(network, params.config(1)), "value": network.slots.is_recent(blockhash)}


def _block(network: Network, slot: int, config: Config) -> Block:
    if not reached(network, slot, require_confirmed(config)):
        raise RpcError(BLOCK_NOT_AVAILABLE, f"Block not available for slot {slot}")
    block = network.block(slot)
    if block is None:
        message = f"Slot {slot} was skipped, or missing due to ledger jump to recent snapshot"
        raise RpcError(SLOT_SKIPPED, message)
    return block


def get_block(network: Network, params: Params) -> Json:
    """Return a closed block with the requested details of its transactions."""
    config = params.config(1)
    block = _block(network, params.number(0), config)
    body: Json = {
        "blockhash": str(block.blockhash),
        "previousBlockhash": str(block.previous_blockhash),
        "parentSlot": block.parent_slot,
        "blockHeight": block.block_height,
        "blockTime": block.block_time,
    }
    encoding = config.text("encoding", "json", TRANSACTION_ENCODINGS)
    details = config.text("transactionDetails", "full", ("full", "accounts", "signatures", "none"))
    if details == "full":
        body["transactions"] = [encode_entry(done, config, encoding) for done in block.transactions]
    elif details == "accounts":
        body["transactions"] = [_accounts_entry(done, config) for done in block.transactions]
    elif details == "signatures":
        body["signatures"] = [str(done.signature) for done in block.transactions]
    if config.members.get("rewards", True):
        body["rewards"] = []
    return body


def _accounts_entry(done: Any, config: Config) -> Json:
    entry = encode_entry(done, config, "jsonParsed")
    keys = entry["transaction"]["message"]["accountKeys"]
    wanted = ("err", "status", "fee", "preBalances", "postBalances", "preTokenBalances", "postTokenBalances")
    meta = encode_meta(done, parsed=True)
    return {
        "transaction": {"signatures": entry["transaction"]["signatures"], "accountKeys": keys},
        "meta": {name: meta[name] for name in wanted},
        **version_members(done, config.number("maxSupportedTransactionVersion")),
    }


def _slots_with_blocks(network: Network, first: int, last: int, limit: int) -> list[int]:
    """Return slots of closed blocks, ascending, at most ``limit``."""
    return [network.slots.slot_at_height(height) for height in network.slots.heights_between(first, last)[:limit]]


def get_blocks(network: Network, params: Params) -> list[int]:
    """Return slots with a block between two slots, both inclusive."""
    second = params.get(1)
    config = params.config(1) if isinstance(second, dict) else params.config(2)
    newest = slot_at(network, require_confirmed(config))
    first = params.number(0)
    last = newest if second is None or isinstance(second, dict) else min(params.number(1), newest)
    if last - first > MAX_BLOCK_RANGE:
        raise invalid(f"Slot range too large; max {MAX_BLOCK_RANGE}")
    return _slots_with_blocks(network, first, last, MAX_BLOCK_RANGE + 1) if first <= last else []


def get_blocks_with_limit(network: Network, params: Params) -> list[int]:
    """Return the next slots with a block from a slot on."""
    limit = params.number(1)
    if limit > MAX_BLOCK_RANGE:
        raise invalid(f"Limit too large; max {MAX_BLOCK_RANGE}")
    newest = slot_at(network, require_confirmed(params.config(2)))
    first = params.number(0)
    return _slots_with_blocks(network, first, newest, limit) if first <= newest else []


def get_block_time(network: Network, params: Params) -> int:
    """Time of a block in seconds since 1970."""
    return _block(network, params.number(0), Config({"commitment": "confirmed"})).block_time


METHODS = {
    "getSlot": get_slot,
    "getBlockHeight": get_block_height,
    "getEpochInfo": get_epoch_info,
    "getTransactionCount": get_transaction_count,
    "getFirstAvailableBlock": get_first_available_block,
    "minimumLedgerSlot": get_first_available_block,
    "getLatestBlockhash": get_latest_blockhash,
    "isBlockhashValid": is_blockhash_valid,
    "getBlock": get_block,
    "getBlocks": get_blocks,
    "getBlocksWithLimit": get_blocks_with_limit,
    "getBlockTime": get_block_time,
}
