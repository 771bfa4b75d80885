"""Accounts and mints of the SPL token programs, as far as balances need them.

Source: shared/localnet/docs/chain.md, "Token accounts".
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from solders.account import Account
from solders.pubkey import Pubkey
from solders.token.state import Mint, TokenAccount

TOKEN_PROGRAM = Pubkey.from_string("TokenkegQfeZyiNwAJbNbGKPFXCWuBvf9Ss623VQ5DA")
TOKEN_2022_PROGRAM = Pubkey.from_string("TokenzQdBNbLqP5VEhdkAS6EPFLC1PHnBqCXEpPxuEb")
TOKEN_PROGRAMS = (TOKEN_PROGRAM, TOKEN_2022_PROGRAM)
NATIVE_MINT = Pubkey.from_string("So11111111111111111111111111111111111111112")
NATIVE_DECIMALS = 9

MINT_BYTES, ACCOUNT_BYTES, MULTISIG_BYTES = 82, 165, 355
ACCOUNT_TYPE = ACCOUNT_BYTES
"""Position of the byte that distinguishes a mint from an account, where extensions follow."""
MINT_TYPE, HOLDING_TYPE = 1, 2

State = TypeVar("State", Mint, TokenAccount)


@dataclass(frozen=True, slots=True)
class TokenBalance:
    """Tokens in the account at an index of a transaction's accounts; ``amount`` is in the mint's smallest units."""

    account_index: int
    mint: Pubkey
    owner: Pubkey
    program: Pubkey
    amount: int
    decimals: int


def native_mint_data() -> bytes:
    """Return the mint of wrapped SOL: no authorities, no supply, nine decimals."""
    return bytes(44) + bytes([NATIVE_DECIMALS, 1]) + bytes(36)


def holding(data: bytes) -> TokenAccount | None:
    """Return the initialized token account in data, with or without extensions; None if it is none."""
    return _unpacked(TokenAccount, data, ACCOUNT_BYTES, HOLDING_TYPE)


def mint_in(data: bytes) -> Mint | None:
    """Return the initialized mint in data, with or without extensions; None if it is none."""
    return _unpacked(Mint, data, MINT_BYTES, MINT_TYPE)


def _unpacked(layout: type[State], data: bytes, size: int, kind: int) -> State | None:
    has_extensions = len(data) > ACCOUNT_TYPE and len(data) != MULTISIG_BYTES and data[ACCOUNT_TYPE] == kind
    if len(data) != size and not has_extensions:
        return None
    try:
        return layout.from_bytes(data[:size])
    except ValueError:  # not initialized, or bytes that the programs do not write
        return None


def token_balances(keys: Sequence[Pubkey], account: Callable[[Pubkey], Account | None]) -> tuple[TokenBalance, ...]:
    """Return the balances of those accounts of a transaction that hold tokens, if it names a token program."""
    if not any(program in keys for program in TOKEN_PROGRAMS):
        return ()
    found = []
    for index, key in enumerate(keys):
        held = account(key)
        tokens = holding(bytes(held.data)) if held is not None and held.owner in TOKEN_PROGRAMS else None
        issuer = None if tokens is None else account(tokens.mint)
        issued = mint_in(bytes(issuer.data)) if issuer is not None and issuer.owner in TOKEN_PROGRAMS else None
        if held is not None and tokens is not None and issued is not None:
            balance = TokenBalance(index, tokens.mint, tokens.owner, held.owner, tokens.amount, issued.decimals)
            found.append(balance)
    return tuple(found)
