"""Methods about accounts (shared/localnet/docs/methods.md, "Methods")."""

from collections.abc import Callable, Sequence
from typing import Any

import msgspec
from solders.account import Account
from solders.pubkey import Pubkey

from localnet import base58
from localnet.chain.network import Network
from localnet.rpc.commitment import context
from localnet.rpc.encoding import ACCOUNT_ENCODINGS, Json, data_slice, encode_account
from localnet.rpc.errors import invalid
from localnet.rpc.params import Config, Params, pubkey, whole_number

MAX_ACCOUNTS = 100
MAX_FILTERS = 4
TOKEN_ACCOUNT_BYTES = 165

AccountFilter = Callable[[bytes], bool]


def get_account_info(network: Network, params: Params) -> Json:
    """Return one account, null if there is none."""
    config = params.config(1)
    [value] = _encoded(network, [params.pubkey(0)], config, "binary")
    return {"context": context(network, config), "value": value}


def get_multiple_accounts(network: Network, params: Params) -> Json:
    """Return up to 100 accounts in the requested order."""
    config = params.config(1)
    keys = [pubkey(text) for text in params.texts(0, MAX_ACCOUNTS)]
    return {"context": context(network, config), "value": _encoded(network, keys, config, "base64")}


def _encoded(network: Network, keys: Sequence[Pubkey], config: Config, default: str) -> list[Json | None]:
    encoding = config.text("encoding", default, ACCOUNT_ENCODINGS)
    part = data_slice(config)
    found = map(network.account, keys)
    return [None if account is None else encode_account(network, account, encoding, part) for account in found]


def get_program_accounts(network: Network, params: Params) -> Any:
    """Return all accounts of a program that pass every filter."""
    config = params.config(1)
    encoding = config.text("encoding", "binary", ACCOUNT_ENCODINGS)
    part = data_slice(config)
    passes = account_filter(config)
    value = [
        {"pubkey": str(key), "account": encode_account(network, account, encoding, part)}
        for key, account in sorted(network.program_accounts(params.pubkey(0)), key=_address)
        if passes(bytes(account.data))
    ]
    seen = context(network, config)
    return {"context": seen, "value": value} if config.flag("withContext") else value


def _address(entry: tuple[Pubkey, Account]) -> bytes:
    return bytes(entry[0])


def account_filter(config: Config) -> AccountFilter:
    """Return the conjunction of the ``filters`` of a configuration; raise RpcError if one is malformed."""
    filters = config.members.get("filters") or []
    if not isinstance(filters, list):
        raise invalid("Invalid params: filters is a list.")
    if len(filters) > MAX_FILTERS:
        raise invalid(f"Too many filters provided; max {MAX_FILTERS}")
    tests = [_filter(entry) for entry in filters]
    return lambda data: all(test(data) for test in tests)


def _filter(entry: object) -> AccountFilter:
    if entry == "tokenAccountState":
        return lambda data: len(data) >= TOKEN_ACCOUNT_BYTES and data[108] != 0
    if isinstance(entry, dict) and "dataSize" in entry:
        size = whole_number(entry["dataSize"], "dataSize")
        return lambda data: len(data) == size
    if isinstance(entry, dict) and isinstance(entry.get("memcmp"), dict):
        memcmp: dict[str, Any] = entry["memcmp"]
        offset = whole_number(memcmp.get("offset", 0), "offset") or 0
        wanted = _comparison(memcmp)
        return lambda data: data[offset : offset + len(wanted)] == wanted
    raise invalid("Invalid params: a filter is dataSize, memcmp or tokenAccountState.")


def _comparison(memcmp: dict[str, Any]) -> bytes:
    """Return the bytes of a memcmp: base58, base64 if named as encoding, or a list of numbers; at most 128."""
    value, encoding = memcmp.get("bytes"), memcmp.get("encoding", "base58")
    try:
        if isinstance(value, list):
            wanted = bytes(value)
        elif isinstance(value, str) and encoding == "base64":
            wanted = msgspec.convert(value, bytes)
        elif isinstance(value, str) and encoding in ("base58", "binary"):
            wanted = base58.decode(value) if len(value) <= 2 * 128 else bytes(129)
        else:
            raise ValueError(f"memcmp cannot read {encoding}")
    except (ValueError, TypeError, msgspec.ValidationError) as error:
        raise invalid(f"Invalid param: {error}") from error
    if len(wanted) > 128:
        raise invalid("Invalid param: Encoded binary data should be less than 129 bytes")
    return wanted


def get_balance(network: Network, params: Params) -> Json:
    """Return lamports of an account, 0 if there is none."""
    config = params.config(1)
    account = network.account(params.pubkey(0))
    return {"context": context(network, config), "value": account.lamports if account else 0}


def get_minimum_balance_for_rent_exemption(network: Network, params: Params) -> int:
    """Return the minimum lamports of an account of that size."""
    return network.rent_exempt_minimum(params.number(0))


METHODS = {
    "getAccountInfo": get_account_info,
    "getMultipleAccounts": get_multiple_accounts,
    "getProgramAccounts": get_program_accounts,
    "getBalance": get_balance,
    "getMinimumBalanceForRentExemption": get_minimum_balance_for_rent_exemption,
}
