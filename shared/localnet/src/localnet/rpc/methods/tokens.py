"""Methods about accounts and mints of the SPL token programs (shared/localnet/docs/methods.md, "Methods")."""

from collections.abc import Callable, Iterator

from solders.account import Account
from solders.pubkey import Pubkey

from localnet.chain.network import Network
from localnet.chain.token_accounts import (
    TOKEN_PROGRAMS,
    amount_of,
    delegate_of,
    holds_tokens,
    is_mint,
    mint_of,
    owner_of,
    supply_of,
)
from localnet.rpc.commitment import context
from localnet.rpc.encoding import ACCOUNT_ENCODINGS, Json, data_slice, displays, encode_account
from localnet.rpc.errors import invalid
from localnet.rpc.params import Params, pubkey

LARGEST = 20


def get_token_account_balance(network: Network, params: Params) -> Json:
    """Return the tokens in an account."""
    config = params.config(1)
    data = _required(network, params.pubkey(0), holds_tokens, "not a Token account")
    return {"context": context(network, config), "value": _amount(network, mint_of(data), amount_of(data))}


def get_token_supply(network: Network, params: Params) -> Json:
    """Return the supply of a mint."""
    config, mint = params.config(1), params.pubkey(0)
    data = _required(network, mint, is_mint, "not a Token mint")
    return {"context": context(network, config), "value": _amount(network, mint, supply_of(data))}


def get_token_largest_accounts(network: Network, params: Params) -> Json:
    """Return the 20 accounts of a mint with the most tokens."""
    config, mint = params.config(1), params.pubkey(0)
    _required(network, mint, is_mint, "not a Token mint")
    found = [
        (amount_of(bytes(account.data)), str(key))
        for key, account in _holdings(network, _program_of(network, mint))
        if mint_of(bytes(account.data)) == mint
    ]
    largest = sorted(found, key=lambda entry: (-entry[0], entry[1]))[:LARGEST]
    value = [{"address": address, **_amount(network, mint, amount)} for amount, address in largest]
    return {"context": context(network, config), "value": value}


def get_token_accounts_by_owner(network: Network, params: Params) -> Json:
    """Return the accounts of an owner, of one mint or one token program."""
    owner = params.pubkey(0)
    return _selected(network, params, lambda data: owner_of(data) == owner)


def get_token_accounts_by_delegate(network: Network, params: Params) -> Json:
    """Return the accounts that a delegate may spend from, of one mint or one token program."""
    delegate = params.pubkey(0)
    return _selected(network, params, lambda data: delegate_of(data) == delegate)


def _selected(network: Network, params: Params, passes: Callable[[bytes], bool]) -> Json:
    config = params.config(2)
    encoding = config.text("encoding", "binary", ACCOUNT_ENCODINGS)
    part = data_slice(config)
    program, mint = _filter(network, params.at(1))
    value = [
        {"pubkey": str(key), "account": encode_account(network, account, encoding, part)}
        for key, account in sorted(_holdings(network, program), key=lambda entry: bytes(entry[0]))
        if passes(bytes(account.data)) and mint in (None, mint_of(bytes(account.data)))
    ]
    return {"context": context(network, config), "value": value}


def _filter(network: Network, wanted: object) -> tuple[Pubkey, Pubkey | None]:
    """Return the program, and the mint if one is given."""
    if isinstance(wanted, dict) and set(wanted) == {"mint"}:
        mint = pubkey(wanted["mint"])
        if network.account(mint) is None:
            raise invalid("Invalid param: could not find mint")
        _required(network, mint, is_mint, "not a Token mint")
        return _program_of(network, mint), mint
    if isinstance(wanted, dict) and set(wanted) == {"programId"}:
        program = pubkey(wanted["programId"])
        if program not in TOKEN_PROGRAMS:
            raise invalid("Invalid param: unrecognized Token program id")
        return program, None
    raise invalid("Invalid params: the second parameter is an object with either mint or programId.")


def _holdings(network: Network, program: Pubkey) -> Iterator[tuple[Pubkey, Account]]:
    return (entry for entry in network.program_accounts(program) if holds_tokens(bytes(entry[1].data)))


def _required(network: Network, key: Pubkey, fits: Callable[[bytes], bool], otherwise: str) -> bytes:
    account = network.account(key)
    if account is None:
        raise invalid("Invalid param: could not find account")
    if account.owner not in TOKEN_PROGRAMS or not fits(bytes(account.data)):
        raise invalid(f"Invalid param: {otherwise}")
    return bytes(account.data)


def _program_of(network: Network, mint: Pubkey) -> Pubkey:
    account = network.account(mint)
    assert account is not None  # noqa: S101 - the caller has checked
    return account.owner


def _amount(network: Network, mint: Pubkey, amount: int) -> Json:
    display = displays(network)(mint)
    if display is None:
        raise invalid("Invalid param: could not find mint")
    return display.amount(amount)


METHODS = {
    "getTokenAccountBalance": get_token_account_balance,
    "getTokenSupply": get_token_supply,
    "getTokenLargestAccounts": get_token_largest_accounts,
    "getTokenAccountsByOwner": get_token_accounts_by_owner,
    "getTokenAccountsByDelegate": get_token_accounts_by_delegate,
}
