"""The registry's instruction that compresses token accounts whose rent has run out.

Source: forester/docs/reference/programs.md, "Compressible accounts".
"""

from collections.abc import Sequence
from dataclasses import dataclass

from solders.instruction import AccountMeta, Instruction
from solders.pubkey import Pubkey

from forester.chain.programs import addresses as known
from forester.chain.programs.coder import build_instruction
from forester.chain.programs.registry import Forester

CONFIG = Pubkey.from_string("ACXg8a7VaqecBWrSbdu73W4Pg9gsqXJ3EXAqkHyhvVXg")
"""The compressible config of the token program."""

_TOKEN_CPI_AUTHORITY, _ = Pubkey.find_program_address([b"cpi_authority"], known.COMPRESSED_TOKEN)
_SYSTEM_CPI_AUTHORITY, _ = Pubkey.find_program_address([b"cpi_authority"], known.LIGHT_SYSTEM)
_REGISTERED_SYSTEM, _ = Pubkey.find_program_address([bytes(known.LIGHT_SYSTEM)], known.ACCOUNT_COMPRESSION)
_FIXED = (
    *(known.COMPRESSED_TOKEN, _TOKEN_CPI_AUTHORITY, known.LIGHT_SYSTEM, _REGISTERED_SYSTEM),
    *(_SYSTEM_CPI_AUTHORITY, known.ACCOUNT_COMPRESSION, known.SYSTEM),
)


@dataclass(frozen=True)
class ClosedAccount:
    """A token account to close, with the accounts that the program looks up for it."""

    address: Pubkey
    mint: Pubkey
    owner: Pubkey
    rent_sponsor: Pubkey
    delegate: Pubkey | None = None


def compress_and_close(
    forester: Forester, output_queue: Pubkey, compression_authority: Pubkey, accounts: Sequence[ClosedAccount]
) -> Instruction:
    """Compress and close token accounts of one compression authority; the forester receives their incentive."""
    packed = _PackedAccounts()
    packed.index(output_queue, writable=True)
    rows = []
    for account in accounts:
        source = packed.index(account.address, writable=True)
        mint, owner = packed.index(account.mint), packed.index(account.owner)
        sponsor = packed.index(account.rent_sponsor, writable=True)
        delegate = 0 if account.delegate is None else packed.index(account.delegate)
        rows.append([source, mint, owner, sponsor, delegate])
    arguments = {
        "destination_index": packed.index(forester.authority, writable=True),
        "authority_index": packed.index(compression_authority, writable=True),
        "indices": rows,
    }
    addresses = [forester.authority, forester.registration, compression_authority, CONFIG]
    base = build_instruction("compress_and_close", arguments, addresses)
    fixed = [AccountMeta(address, is_signer=False, is_writable=False) for address in _FIXED]
    return Instruction(base.program_id, base.data, [*base.accounts, *fixed, *packed.metas()])


class _PackedAccounts:
    """Accounts that an instruction's data names by position, each once."""

    def __init__(self) -> None:
        self._positions: dict[Pubkey, int] = {}
        self._writable: set[Pubkey] = set()

    def index(self, address: Pubkey, *, writable: bool = False) -> int:
        """Return the position of an account, which is added if it is new."""
        if writable:
            self._writable.add(address)
        return self._positions.setdefault(address, len(self._positions))

    def metas(self) -> list[AccountMeta]:
        """Return the accounts in order."""
        return [
            AccountMeta(address, is_signer=False, is_writable=address in self._writable) for address in self._positions
        ]
