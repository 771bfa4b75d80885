"""Methods about transactions (shared/localnet/docs/methods.md, "Methods")."""

import base64

from solders.message import Message, MessageV0, MessageV1, from_bytes_versioned
from solders.signature import Signature
from solders.transaction import VersionedTransaction

from localnet.chain.blocks import JsonError
from localnet.chain.execution import TransactionRefused
from localnet.chain.network import Network, Simulation, decode_transaction
from localnet.chain.slots import BLOCKHASH_WINDOW
from localnet.chain.transaction_errors import describe
from localnet.json_rpc import RpcError
from localnet.rpc.commitment import context, reached, require_confirmed, require_slot, status_of
from localnet.rpc.encoding import (
    TRANSACTION_ENCODINGS,
    Json,
    decode_wire,
    encode_account,
    encode_entry,
    encode_inner,
    encode_return_data,
    status_member,
)
from localnet.rpc.errors import PREFLIGHT_FAILURE, SIGNATURE_VERIFICATION_FAILURE, invalid
from localnet.rpc.params import Config, Params, pubkey, signature

WIRE_ENCODINGS = ("base58", "base64")
MAX_STATUSES = 256
MAX_FEE_ACCOUNTS = 128


def _raw_transaction(params: Params, config: Config) -> bytes:
    raw = decode_wire(params.text(0), config.text("encoding", "base58", WIRE_ENCODINGS))
    try:
        decode_transaction(raw)
    except TransactionRefused as refused:
        raise invalid(f"invalid transaction: {describe(refused.err)}") from refused
    return raw


def send_transaction(network: Network, params: Params) -> str:
    """Execute a transaction after a simulation; without one, a transaction that no block includes is dropped."""
    config = params.config(1)
    raw = _raw_transaction(params, config)
    require_slot(network, config)
    sent = decode_transaction(raw).signatures[0]
    if not config.flag("skipPreflight"):
        _preflight(network, raw)
    if network.loses_next():
        return str(sent)
    try:
        network.submit(raw)
    except TransactionRefused as refused:
        if not config.flag("skipPreflight"):
            raise _preflight_failure(refused.err, refused.logs, 0) from refused
    return str(sent)


def _simulated(network: Network, raw: bytes, *, verify: bool, replace: bool) -> Simulation:
    try:
        return network.simulate(raw, verify_signatures=verify, replace_blockhash=replace)
    except TransactionRefused as refused:
        if refused.err == "SignatureFailure":
            raise RpcError(SIGNATURE_VERIFICATION_FAILURE, "Transaction signature verification failure") from refused
        return Simulation(refused.err, refused.logs, 0, 0, None, (), {})


def _preflight(network: Network, raw: bytes) -> None:
    done = _simulated(network, raw, verify=True, replace=False)
    if done.err is not None:
        raise _preflight_failure(done.err, done.logs, done.compute_units)


def _preflight_failure(err: JsonError, logs: tuple[str, ...], units: int) -> RpcError:
    data = {"err": err, "logs": logs, "accounts": None, "unitsConsumed": units, "returnData": None}
    data |= {"innerInstructions": None, "replacementBlockhash": None}
    return RpcError(PREFLIGHT_FAILURE, f"Transaction simulation failed: {describe(err)}", data)


def simulate_transaction(network: Network, params: Params) -> Json:
    """Run a transaction without consequences."""
    config = params.config(1)
    verify, replace = config.flag("sigVerify"), config.flag("replaceRecentBlockhash")
    if verify and replace:
        raise invalid("sigVerify may not be used with replaceRecentBlockhash")
    raw = _raw_transaction(params, config)
    seen = context(network, config)
    done = _simulated(network, raw, verify=verify, replace=replace)
    value: Json = {
        "err": done.err,
        "logs": done.logs,
        "accounts": _simulated_accounts(network, done, config),
        "unitsConsumed": done.compute_units,
        "returnData": encode_return_data(done.return_data),
        "innerInstructions": None,
        "replacementBlockhash": None,
    }
    if config.flag("innerInstructions"):
        value["innerInstructions"] = encode_inner(done.inner_instructions, parsed=True)
    if replace:
        value["replacementBlockhash"] = {
            "blockhash": str(network.slots.hash_of(network.slot)),
            "lastValidBlockHeight": network.slots.height_of(network.slot) + BLOCKHASH_WINDOW,
        }
    return {"context": seen, "value": value}


def _simulated_accounts(network: Network, done: Simulation, config: Config) -> list[Json | None] | None:
    wanted = config.members.get("accounts")
    if wanted is None:
        return None
    if not isinstance(wanted, dict) or not isinstance(wanted.get("addresses"), list):
        raise invalid("Invalid params: accounts is an object with addresses.")
    encoding = Config(wanted).text("encoding", "base64", ("base64", "base64+zstd", "jsonParsed"))
    keys = [pubkey(text) for text in wanted["addresses"]]
    if done.err is not None:
        return [None] * len(keys)
    found = (done.accounts.get(key) or network.account(key) for key in keys)
    return [None if account is None else encode_account(network, account, encoding) for account in found]


def get_signature_statuses(network: Network, params: Params) -> Json:
    """Return slot, outcome and commitment of transactions, null for unknown ones."""
    statuses: list[Json | None] = []
    for text in params.texts(0, MAX_STATUSES):
        done = network.transaction(signature(text))
        if done is None:
            statuses.append(None)
            continue
        level, confirmations = status_of(network, done.slot)
        statuses.append(
            {
                "slot": done.slot,
                "confirmations": confirmations,
                "err": done.err,
                "status": status_member(done.err),
                "confirmationStatus": level,
            }
        )
    return {"context": context(network, Config()), "value": statuses}


def get_transaction(network: Network, params: Params) -> Json | None:
    """Return a transaction of a closed block, null if there is none."""
    second = params.get(1)
    config = Config({"encoding": second}) if isinstance(second, str) else params.config(1)
    level = require_confirmed(config)
    encoding = config.text("encoding", "json", TRANSACTION_ENCODINGS)
    done = network.transaction(signature(params.text(0)))
    if done is None or not reached(network, done.slot, level):
        return None
    return {"slot": done.slot, "blockTime": done.block_time, **encode_entry(done, config, encoding)}


def request_airdrop(network: Network, params: Params) -> str:
    """Send lamports from the faucet."""
    try:
        done = network.airdrop(params.pubkey(0), params.number(1))
    except TransactionRefused as refused:
        raise RpcError(-32603, f"airdrop request failed: {describe(refused.err)}") from refused
    if done.err is not None:
        raise RpcError(-32603, f"airdrop request failed: {describe(done.err)}")
    return str(done.signature)


def get_recent_prioritization_fees(network: Network, params: Params) -> list[Json]:
    """Return zero fees, because no block here is ever full."""
    if params.get(0) is not None:
        for text in params.texts(0, MAX_FEE_ACCOUNTS):
            pubkey(text)
    slots = [slot for slot, _ in network.slots.recent_hashes()[:BLOCKHASH_WINDOW]]
    return [{"slot": slot, "prioritizationFee": 0} for slot in reversed(slots)]


def get_fee_for_message(network: Network, params: Params) -> Json:
    """Return the lamports that a message costs, priority included; null if its blockhash has expired."""
    config = params.config(1)
    message = _message(decode_wire(params.text(0), "base64"))
    unsigned = [Signature.default()] * message.header.num_required_signatures
    raw = bytes(VersionedTransaction.populate(message, unsigned))
    try:
        fee = network.simulate(raw, verify_signatures=False, replace_blockhash=False).fee
    except TransactionRefused as refused:
        if refused.err != "BlockhashNotFound":
            raise invalid(f"invalid message: {describe(refused.err)}") from refused
        fee = None
    return {"context": context(network, config), "value": fee}


def _message(raw: bytes) -> Message | MessageV0 | MessageV1:
    try:
        versioned = bool(raw) and raw[0] & 0x80
        return from_bytes_versioned(raw) if versioned else Message.from_bytes(raw)
    except (ValueError, IndexError) as error:
        raise invalid(f"invalid message: {base64.b64encode(raw[:16]).decode()}…") from error


METHODS = {
    "sendTransaction": send_transaction,
    "simulateTransaction": simulate_transaction,
    "getSignatureStatuses": get_signature_statuses,
    "getTransaction": get_transaction,
    "requestAirdrop": request_airdrop,
    "getRecentPrioritizationFees": get_recent_prioritization_fees,
    "getFeeForMessage": get_fee_for_message,
}
