"""Methods about the cluster, its validator, its supply and its stakes (shared/localnet/docs/methods.md, "Methods").

The cluster has one validator, which leads every slot. There are no votes, no stakes and no inflation.
"""

from collections.abc import Callable
from typing import Any

from solders.instruction import Instruction
from solders.message import Message
from solders.pubkey import Pubkey
from solders.transaction import VersionedTransaction

from localnet.chain.network import FAUCET, SLOTS_PER_EPOCH, Network
from localnet.chain.transaction_errors import describe
from localnet.json_rpc import INTERNAL_ERROR, RpcError
from localnet.rpc.commitment import context, slot_at
from localnet.rpc.encoding import Json
from localnet.rpc.errors import NO_SNAPSHOT, invalid
from localnet.rpc.params import Config, Params, pubkey, whole_number

VERSION = {"solana-core": "2.2.0", "feature-set": 3294202862}
"""Version by which clients select features; the chain is LiteSVM."""
IDENTITY = FAUCET.pubkey()
MAX_LEADERS = 5000
MAX_SAMPLES = 720
MAX_REWARDS = 1024
SAMPLE_SLOTS, SAMPLE_SECONDS = 150, 60
LARGEST_ACCOUNTS = 20
STAKE_PROGRAM = Pubkey.from_string("Stake11111111111111111111111111111111111111")
GET_MINIMUM_DELEGATION = (13).to_bytes(4, "little")


CONSTANTS: dict[str, Any] = {
    "getHealth": "ok",
    "getVersion": VERSION,
    "getIdentity": {"identity": str(IDENTITY)},
    "getSlotLeader": str(IDENTITY),
    "getEpochSchedule": {
        "slotsPerEpoch": SLOTS_PER_EPOCH,
        "leaderScheduleSlotOffset": SLOTS_PER_EPOCH,
        "warmup": False,
        "firstNormalEpoch": 0,
        "firstNormalSlot": 0,
    },
    "getClusterNodes": [
        {
            "pubkey": str(IDENTITY),
            **dict.fromkeys(("gossip", "tpu", "rpc", "pubsub")),
            "version": VERSION["solana-core"],
            "featureSet": VERSION["feature-set"],
            "shredVersion": 0,
        }
    ],
    "getVoteAccounts": {"current": [], "delinquent": []},
    "getInflationGovernor": dict.fromkeys(("initial", "terminal", "taper", "foundation", "foundationTerm"), 0.0),
    "getAgGenesisCert": None,  # no Alpenglow consensus
}
"""Answers that never change: epochs of equal length from slot 0, one node without ports, no votes, no inflation."""


def _always(value: Any) -> Callable[[Network, Params], Any]:
    return lambda _network, _params: value


def get_genesis_hash(network: Network, _params: Params) -> str:
    """Return the hash that identifies this chain."""
    return str(network.genesis_hash)


def get_slot_leaders(_network: Network, params: Params) -> list[str]:
    """Return the only validator for each of some slots."""
    params.number(0)
    limit = params.number(1)
    if limit > MAX_LEADERS:
        raise invalid(f"Invalid limit; max {MAX_LEADERS}")
    return [str(IDENTITY)] * limit


def get_leader_schedule(network: Network, params: Params) -> Json | None:
    """Return the slots of an epoch by leader, as indices in the epoch; null for an epoch without a schedule yet."""
    first = params.get(0)
    config = params.config(0) if isinstance(first, dict) else params.config(1)
    slot = whole_number(None if isinstance(first, dict) else first, "slot")
    wanted = config.members.get("identity")
    if wanted is not None:
        pubkey(wanted)
    newest = slot_at(network, config.commitment)
    epoch = (newest if slot is None else slot) // SLOTS_PER_EPOCH
    if epoch > newest // SLOTS_PER_EPOCH + 1:
        return None
    return {} if wanted not in (None, str(IDENTITY)) else {str(IDENTITY): list(range(SLOTS_PER_EPOCH))}


def get_block_production(network: Network, params: Params) -> Json:
    """Return slots and blocks of the validator in a range of the present epoch."""
    config = params.config(0)
    newest = slot_at(network, config.commitment)
    wanted = config.members.get("range") or {}
    if not isinstance(wanted, dict):
        raise invalid("Invalid params: range is an object with firstSlot and lastSlot.")
    part = Config(wanted)
    first = part.number("firstSlot")
    first = newest // SLOTS_PER_EPOCH * SLOTS_PER_EPOCH if first is None else first
    last = part.number("lastSlot")
    last = newest if last is None else last
    if last < first or last > newest:
        raise invalid(f"Invalid slot range: lastSlot, {last}, is {'too large' if last > newest else 'smaller'}")
    identity = config.members.get("identity")
    if identity is not None:
        pubkey(identity)
    produced = len(network.slots.heights_between(first, last))
    production = {str(IDENTITY): [last - first + 1, produced]} if identity in (None, str(IDENTITY)) else {}
    value = {"byIdentity": production, "range": {"firstSlot": first, "lastSlot": last}}
    return {"context": context(network, config), "value": value}


def get_inflation_rate(network: Network, _params: Params) -> Json:
    """Return no inflation in the present epoch."""
    return {"total": 0.0, "validator": 0.0, "foundation": 0.0, "epoch": network.slot // SLOTS_PER_EPOCH}


def get_inflation_reward(_network: Network, params: Params) -> list[None]:
    """Return null for each address: nobody is rewarded."""
    addresses = [pubkey(text) for text in params.texts(0, MAX_REWARDS)]
    return [None] * len(addresses)


def get_recent_performance_samples(network: Network, params: Params) -> list[Json]:
    """Return transactions and slots per minute, newest first."""
    limit = MAX_SAMPLES if params.get(0) is None else params.number(0)
    if limit > MAX_SAMPLES:
        raise invalid(f"Invalid limit; max {MAX_SAMPLES}")
    samples: list[Json] = []
    last = network.slot // SAMPLE_SLOTS * SAMPLE_SLOTS - 1
    while len(samples) < limit and last - SAMPLE_SLOTS + 1 >= network.first_slot:
        first = last - SAMPLE_SLOTS + 1
        count = sum(len(block.transactions) for block in network.blocks_with_transactions(first, last))
        slots = len(network.slots.heights_between(first, last))
        samples.append(
            {
                "slot": last,
                "numTransactions": count,
                "numNonVoteTransactions": count,
                "numSlots": slots,
                "samplePeriodSecs": SAMPLE_SECONDS,
            }
        )
        last = first - 1
    return samples


def get_stake_minimum_delegation(network: Network, params: Params) -> Json:
    """Return the minimum that the stake program reports."""
    config = params.config(0)
    message = Message([Instruction(STAKE_PROGRAM, GET_MINIMUM_DELEGATION, [])], FAUCET.pubkey())
    raw = bytes(VersionedTransaction(message, [FAUCET]))
    done = network.simulate(raw, verify_signatures=False, replace_blockhash=True)
    if done.return_data is None:
        raise RpcError(INTERNAL_ERROR, describe(done.err or "MissingReturnData"))
    return {"context": context(network, config), "value": int.from_bytes(done.return_data[1], "little")}


def get_highest_snapshot_slot(_network: Network, _params: Params) -> Json:
    """Raise the error of a node that makes no snapshots."""
    raise RpcError(NO_SNAPSHOT, "No snapshot")


def get_newest_slot(network: Network, _params: Params) -> int:
    """Return the open slot: a node with one validator is never behind."""
    return network.slot


def get_block_commitment(network: Network, params: Params) -> Json:
    """Return no stake for a block; null instead of a distribution for an unknown and for a finalized one."""
    slot = params.number(0)
    pending = slot_at(network, "finalized") < slot <= network.slot and network.slots.has_block(slot)
    return {"commitment": [0] * 32 if pending else None, "totalStake": 0}


def get_supply(network: Network, params: Params) -> Json:
    """Return all lamports; all of them circulate."""
    config = params.config(0)
    total = sum(account.lamports for _, account in network.accounts())
    value = {"total": total, "circulating": total, "nonCirculating": 0, "nonCirculatingAccounts": []}
    return {"context": context(network, config), "value": value}


def get_largest_accounts(network: Network, params: Params) -> Json:
    """Return the 20 accounts with the most lamports."""
    config = params.config(0)
    kind = config.text("filter", "", ("circulating", "nonCirculating"))
    balances = [] if kind == "nonCirculating" else [(account.lamports, str(key)) for key, account in network.accounts()]
    largest = sorted(balances, key=lambda entry: (-entry[0], entry[1]))[:LARGEST_ACCOUNTS]
    value = [{"address": address, "lamports": lamports} for lamports, address in largest]
    return {"context": context(network, config), "value": value}


METHODS: dict[str, Callable[[Network, Params], Any]] = {
    **{name: _always(value) for name, value in CONSTANTS.items()},
    "getGenesisHash": get_genesis_hash,
    "getSlotLeaders": get_slot_leaders,
    "getLeaderSchedule": get_leader_schedule,
    "getBlockProduction": get_block_production,
    "getBlockCommitment": get_block_commitment,
    "getInflationRate": get_inflation_rate,
    "getInflationReward": get_inflation_reward,
    "getRecentPerformanceSamples": get_recent_performance_samples,
    "getStakeMinimumDelegation": get_stake_minimum_delegation,
    "getHighestSnapshotSlot": get_highest_snapshot_slot,
    "getMaxRetransmitSlot": get_newest_slot,
    "getMaxShredInsertSlot": get_newest_slot,
    "getSupply": get_supply,
    "getLargestAccounts": get_largest_accounts,
}
