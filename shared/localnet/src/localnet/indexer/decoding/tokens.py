"""Token accounts inside compressed accounts (forester/docs/reference/indexer.md, "Tokens")."""

from dataclasses import dataclass

from localnet.borsh import MalformedData, Reader
from localnet.indexer.decoding.hashing import AccountData
from localnet.indexer.programs import COMPRESSED_TOKEN

_DISCRIMINATORS = frozenset(
    {bytes((2, 0, 0, 0, 0, 0, 0, 0)), bytes((0, 0, 0, 0, 0, 0, 0, 3)), bytes((0, 0, 0, 0, 0, 0, 0, 4))}
)
_STATES = ("initialized", "frozen")


@dataclass(frozen=True, slots=True)
class TokenData:
    """Content of a token account; ``amount`` is a 64-bit number, ``tlv`` the bytes of extensions."""

    mint: bytes
    owner: bytes
    amount: int
    delegate: bytes | None
    state: str
    tlv: bytes | None


def token_data(owner: bytes, data: AccountData | None) -> TokenData | None:
    """Return the token account in an account of a program, None if it is something else."""
    if owner != COMPRESSED_TOKEN or data is None or data.discriminator not in _DISCRIMINATORS:
        return None
    reader = Reader(data.data)
    try:
        mint, holder, amount = reader.key(), reader.key(), reader.u64()
        delegate = reader.option(reader.key)
        state = _STATES[reader.u8()]
        tlv = reader.option(lambda: reader.take(reader.remaining))
    except (MalformedData, IndexError):
        return None  # a program may write anything; such an account is no token account
    return TokenData(mint, holder, amount, delegate, state, tlv)
