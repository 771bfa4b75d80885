"""Accounts and mints of the SPL token programs, as far as balances need them.

Source: shared/localnet/docs/chain.md, "Token accounts".
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from solders.account import Account
from solders.pubkey import Pubkey

TOKEN_PROGRAM = Pubkey.from_string("TokenkegQfeZyiNwAJbNbGKPFXCWuBvf9Ss623VQ5DA")
TOKEN_2022_PROGRAM = Pubkey.from_string("TokenzQdBNbLqP5VEhdkAS6EPFLC1PHnBqCXEpPxuEb")
TOKEN_PROGRAMS = (TOKEN_PROGRAM, TOKEN_2022_PROGRAM)
NATIVE_MINT = Pubkey.from_string("So11111111111111111111111111111111111111112")
NATIVE_DECIMALS = 9

MINT_BYTES, ACCOUNT_BYTES, MULTISIG_BYTES = 82, 165, 355
ACCOUNT_TYPE = ACCOUNT_BYTES
"""Position of the byte that distinguishes a mint from an account, where extensions follow."""
MINT_TYPE, HOLDING_TYPE = 1, 2


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


def holds_tokens(data: bytes) -> bool:
    """Return whether data is that of an initialized token account, with or without extensions."""
    if len(data) != ACCOUNT_BYTES and not _has_type(data, HOLDING_TYPE):
        return False
    return data[108] in (1, 2)


def is_mint(data: bytes) -> bool:
    """Return whether data is that of an initialized mint, with or without extensions."""
    return (len(data) == MINT_BYTES or _has_type(data, MINT_TYPE)) and data[45] == 1


def _has_type(data: bytes, kind: int) -> bool:
    return len(data) > ACCOUNT_TYPE and len(data) != MULTISIG_BYTES and data[ACCOUNT_TYPE] == kind


def mint_of(data: bytes) -> Pubkey:
    """Return the mint of a token account."""
    return Pubkey(data[:32])


def owner_of(data: bytes) -> Pubkey:
    """Return the owner of a token account."""
    return Pubkey(data[32:64])


def amount_of(data: bytes) -> int:
    """Return the tokens in a token account."""
    return int.from_bytes(data[64:72], "little")


def delegate_of(data: bytes) -> Pubkey | None:
    """Return the delegate of a token account."""
    return Pubkey(data[76:108]) if data[72] == 1 else None


def supply_of(data: bytes) -> int:
    """Return the supply of a mint."""
    return int.from_bytes(data[36:44], "little")


def decimals_of(data: bytes) -> int:
    """Return the decimals of a mint."""
    return data[44]


def token_balances(keys: Sequence[Pubkey], account: Callable[[Pubkey], Account | None]) -> tuple[TokenBalance, ...]:
    """Return the balances of those accounts of a transaction that hold tokens, if it names a token program."""
    if not any(program in keys for program in TOKEN_PROGRAMS):
        return ()
    found = []
    for index, key in enumerate(keys):
        held = account(key)
        if held is None or held.owner not in TOKEN_PROGRAMS or not holds_tokens(bytes(held.data)):
            continue
        data = bytes(held.data)
        mint = account(mint_of(data))
        if mint is not None and mint.owner in TOKEN_PROGRAMS and is_mint(bytes(mint.data)):
            decimals = decimals_of(bytes(mint.data))
            found.append(TokenBalance(index, mint_of(data), owner_of(data), held.owner, amount_of(data), decimals))
    return tuple(found)
