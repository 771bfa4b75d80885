"""Additional methods for tests: advance the clock, write accounts."""

import base64

from solders.account import Account

from localnet.chain.network import Network, ProgramUnusable
from localnet.rpc.errors import invalid
from localnet.rpc.params import Params, pubkey, whole_number

MAX_ADVANCE = 100_000


def advance(network: Network, params: Params) -> int:
    """Close the open slot, or several; return the slot that is open then."""
    count = 1 if params.get(0) is None else params.number(0)
    if not 1 <= count <= MAX_ADVANCE:
        raise invalid(f"Invalid params: between 1 and {MAX_ADVANCE} slots; use localnet_warp to skip more.")
    network.advance(count)
    return network.slot


def warp(network: Network, params: Params) -> int:
    """Jump to a later slot; those between are skipped."""
    try:
        network.warp(params.number(0))
    except ValueError as error:
        raise invalid(f"Invalid params: {error}.") from error
    return network.slot


def set_account(network: Network, params: Params) -> None:
    """Put an account in place: address, then an object with lamports, owner, data (base64) and executable."""
    value = params.at(1)
    if not isinstance(value, dict):
        raise invalid("Invalid params: expected an account object.")
    lamports = whole_number(value.get("lamports"), "lamports")
    try:
        data = base64.b64decode(value.get("data", ""), validate=True)
    except (ValueError, TypeError) as error:
        raise invalid("Invalid params: data is base64.") from error
    executable = value.get("executable", False) is True
    account = Account(lamports or 0, data, pubkey(value.get("owner", "1" * 32)), executable)
    try:
        network.set_account(params.pubkey(0), account)
    except ProgramUnusable as error:
        raise invalid(f"Invalid params: {error}.") from error


def patch_account(network: Network, params: Params) -> None:
    """Change part of an account. Parameters: address, and an object with new lamports, and data (base64) at offset."""
    value, before = params.at(1), network.account(params.pubkey(0))
    if not isinstance(value, dict) or before is None:
        raise invalid("Invalid params: expected an account that exists, and an object.")
    lamports, offset = whole_number(value.get("lamports"), "lamports"), whole_number(value.get("offset"), "offset") or 0
    try:
        part = base64.b64decode(value.get("data", ""), validate=True)
    except (ValueError, TypeError) as error:
        raise invalid("Invalid params: data is base64.") from error
    data = bytearray(before.data)
    if offset + len(part) > len(data):
        raise invalid(f"Invalid params: the account has {len(data)} bytes.")
    data[offset : offset + len(part)] = part
    kept = before.lamports if lamports is None else lamports
    network.set_account(params.pubkey(0), Account(kept, bytes(data), before.owner, before.executable))


METHODS = {
    "localnet_advance": advance,
    "localnet_warp": warp,
    "localnet_setAccount": set_account,
    "localnet_patchAccount": patch_account,
}
