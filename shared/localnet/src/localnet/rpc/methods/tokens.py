"""Methods about accounts and mints of the SPL token programs (shared/localnet/docs/methods.md, "Methods")."""

from collections.abc import Callable, Iterator

from solders.account import Account
from solders.pubkey import Pubkey
from solders.token.state import TokenAccount

from localnet.chain.network import Network
from localnet.chain.token_accounts import TOKEN_PROGRAMS, State, holding, mint_in
from localnet.rpc.commitment import context
from localnet.rpc.encoding import ACCOUNT_ENCODINGS, Json, data_slice, displays, encode_account
from localnet.rpc.errors import invalid
from localnet.rpc.params import Params, pubkey

LARGEST = 20


def get_token_account_balance(network: Network, params: Params) -> Json:
    """Return the tokens in an account."""
    config = params.config(1)
    held = _required(network, params.pubkey(0), holding, "not a Token account")
    return {"context": context(network, config), "value": _amount(network, held.mint, held.amount)}


def get_token_supply(network: Network, params: Params) -> Json:
    """Return the supply of a mint."""
    config, mint = params.config(1), params.pubkey(0)
    issued = _required(network, mint, mint_in, "not a Token mint")
    return {"context": context(network, config), "value": _amount(network, mint, issued.supply)}


def get_token_largest_accounts(network: Network, params: Params) -> Json:
    """Return the 20 accounts of a mint with the most tokens."""
    config, mint = params.config(1), params.pubkey(0)
    _required(network, mint, mint_in, "not a Token mint")
    found = [
        (held.amount, str(key)) for key, _, held in _holdings(network, _program_of(network, mint)) if held.mint == mint
    ]
    largest = sorted(found, key=lambda entry: (-entry[0], entry[1]))[:LARGEST]
    value = [{"address": address, **_amount(network, mint, amount)} for amount, address in largest]
    return {"context": context(network, config), "value": value}


def get_token_accounts_by_owner(network: Network, params: Params) -> Json:
    """Return the accounts of an owner, of one mint or one token program."""
    owner = params.pubkey(0)
    return _selected(network, params, lambda held: held.owner == owner)


def get_token_accounts_by_delegate(network: Network, params: Params) -> Json:
    """Return the accounts that a delegate may spend from, of one mint or one token program."""
    delegate = params.pubkey(0)
    return _selected(network, params, lambda held: held.delegate == delegate)


def _selected(network: Network, params: Params, passes: Callable[[TokenAccount], bool]) -> Json:
    config = params.config(2)
    encoding = config.text("encoding", "binary", ACCOUNT_ENCODINGS)
    part = data_slice(config)
    program, mint = _filter(network, params.at(1))
    value = [
        {"pubkey": str(key), "account": encode_account(network, account, encoding, part)}
        for key, account, held in sorted(_holdings(network, program), key=lambda entry: bytes(entry[0]))
        if passes(held) and mint in (None, held.mint)
    ]
    return {"context": context(network, config), "value": value}


def _filter(network: Network, wanted: object) -> tuple[Pubkey, Pubkey | None]:
    """Return the program, and the mint if one is given."""
    if isinstance(wanted, dict) and set(wanted) == {"mint"}:
        mint = pubkey(wanted["mint"])
        if network.account(mint) is None:
            raise invalid("Invalid param: could not find mint")
        _required(network, mint, mint_in, "not a Token mint")
        return _program_of(network, mint), mint
    if isinstance(wanted, dict) and set(wanted) == {"programId"}:
        program = pubkey(wanted["programId"])
        if program not in TOKEN_PROGRAMS:
            raise invalid("Invalid param: unrecognized Token program id")
        return program, None
    raise invalid("Invalid params: the second parameter is an object with either mint or programId.")


def _holdings(network: Network, program: Pubkey) -> Iterator[tuple[Pubkey, Account, TokenAccount]]:
    for key, account in network.program_accounts(program):
        if (held := holding(bytes(account.data))) is not None:
            yield key, account, held


def _required(network: Network, key: Pubkey, read: Callable[[bytes], State | None], otherwise: str) -> State:
    account = network.account(key)
    if account is None:
        raise invalid("Invalid param: could not find account")
    found = read(bytes(account.data)) if account.owner in TOKEN_PROGRAMS else None
    if found is None:
        raise invalid(f"Invalid param: {otherwise}")
    return found


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
