"""Instructions for accounts that pay rent: claims, and compression of those whose rent has run out.

Source: forester/docs/reference/programs.md, "Compressible accounts". The functions build instructions and read nothing
from the chain.

An instruction that compresses accounts costs its payer, in addition to the transaction's fee, the network fee of the
output queue's tree once and its rollover fee for each account.
"""

import struct
from collections.abc import Sequence
from dataclasses import dataclass

from solders.instruction import AccountMeta, Instruction
from solders.pubkey import Pubkey

from forester.chain.programs import addresses as known
from forester.chain.programs.coder import build_instruction
from forester.chain.programs.registry import Forester

CONFIG = Pubkey.from_string("ACXg8a7VaqecBWrSbdu73W4Pg9gsqXJ3EXAqkHyhvVXg")
"""The compressible config of the token program."""

MINT_ADDRESS_TREE = Pubkey.from_string("amt2kaJA14v3urZbZvnc5v2np8jqvc4Z8zDep5wbtzx")
"""The tree of the addresses of all mints."""

_CLAIM = bytes.fromhex("3ec6d6c1d59f6cd2")
_COMPRESS_ACCOUNTS = bytes.fromhex("46ecab78a45d71b5")
_MINT_ACTION, _COMPRESS_AND_CLOSE_MINT = 103, 8
_NO_LIMIT = 0xFFFF

_CPI_AUTHORITY_SEED = b"cpi_authority"
_TOKEN_CPI_AUTHORITY, _ = Pubkey.find_program_address([_CPI_AUTHORITY_SEED], known.COMPRESSED_TOKEN)
_SYSTEM_CPI_AUTHORITY, _ = Pubkey.find_program_address([_CPI_AUTHORITY_SEED], known.LIGHT_SYSTEM)
_REGISTERED_SYSTEM, _ = Pubkey.find_program_address([bytes(known.LIGHT_SYSTEM)], known.ACCOUNT_COMPRESSION)
_FIXED = (
    *(known.COMPRESSED_TOKEN, _TOKEN_CPI_AUTHORITY, known.LIGHT_SYSTEM, _REGISTERED_SYSTEM),
    *(_SYSTEM_CPI_AUTHORITY, known.ACCOUNT_COMPRESSION, known.SYSTEM),
)


@dataclass(frozen=True)
class ClosedAccount:
    """A token account to close, with the accounts that the program looks up for it.

    ``owner`` is that of the compressed account: the owner, or the account itself if its extension has that flag.
    """

    address: Pubkey
    mint: Pubkey
    owner: Pubkey
    rent_sponsor: Pubkey
    delegate: Pubkey | None


def compress_and_close(
    forester: Forester, output_queue: Pubkey, compression_authority: Pubkey, accounts: Sequence[ClosedAccount]
) -> Instruction:
    """Return the instruction that compresses and closes token accounts of one compression authority.

    The forester pays the fees and receives each account's compression cost; all other lamports go to the rent sponsors
    and the owners. The program accepts it while the forester is eligible for compressible accounts, and refuses it if
    the rent of one account has not run out.
    """
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
    return Instruction(base.program_id, base.data, [*base.accounts, *_metas("", *_FIXED), *packed.metas()])


@dataclass(frozen=True)
class CompressedLocation:
    """Position of a compressed account: its tree and output queue, and the compressed proof of 128 bytes under a root.

    Without ``proof`` the account is still in the queue, and its position is enough.
    """

    tree: Pubkey
    queue: Pubkey
    leaf_index: int
    root_index: int = 0
    proof: bytes | None = None


def claim(
    forester: Forester, rent_sponsor: Pubkey, compression_authority: Pubkey, accounts: Sequence[Pubkey]
) -> Instruction:
    """Return the instruction that pays the rent of completed rent epochs from ``accounts`` to ``rent_sponsor``.

    The accounts share the sponsor and the compression authority. The program accepts it while the forester is eligible
    for compressible accounts, and takes nothing from accounts that may be compressed. The forester receives nothing.
    """
    metas = [
        AccountMeta(forester.authority, is_signer=True, is_writable=True),
        *_metas("w", forester.registration, rent_sponsor),
        *_metas("", compression_authority, CONFIG, known.COMPRESSED_TOKEN),
        *_metas("w", *accounts),
    ]
    return Instruction(known.REGISTRY, _CLAIM, metas)


def compress_mint(
    payer: Pubkey, mint: Pubkey, rent_sponsor: Pubkey, location: CompressedLocation, output_queue: Pubkey
) -> Instruction:
    """Return the instruction that compresses a mint and closes its account.

    Its lamports go to the rent sponsor; ``payer`` pays the fees and receives nothing. The program accepts it from
    anyone once the mint's rent has run out. ``location`` is that of the mint's compressed account.
    """
    by_index = location.proof is None
    data = struct.pack("<BIBHH", _MINT_ACTION, location.leaf_index, by_index, location.root_index, _NO_LIMIT)
    data += b"\0" + struct.pack("<IBB", 1, _COMPRESS_AND_CLOSE_MINT, 0) + _option(location.proof) + b"\0\0"
    metas = [
        *_metas("", known.LIGHT_SYSTEM),
        AccountMeta(payer, is_signer=True, is_writable=False),
        *_metas("", CONFIG),
        *_metas("w", mint, rent_sponsor),
        AccountMeta(payer, is_signer=True, is_writable=True),
        *_metas("", _TOKEN_CPI_AUTHORITY, _REGISTERED_SYSTEM, _SYSTEM_CPI_AUTHORITY),
        *_metas("", known.ACCOUNT_COMPRESSION, known.SYSTEM),
        *_metas("w", output_queue, location.tree, location.queue),
    ]
    return Instruction(known.COMPRESSED_TOKEN, data, metas)


@dataclass(frozen=True)
class CompressibleProgram:
    """A program with compressible accounts, and the accounts that its configuration names."""

    program: Pubkey
    config: Pubkey
    rent_sponsor: Pubkey
    compression_authority: Pubkey


def compress_program_accounts(
    payer: Pubkey,
    owner: CompressibleProgram,
    accounts: Sequence[Pubkey],
    locations: Sequence[CompressedLocation],
    output_queue: Pubkey,
) -> Instruction:
    """Return the instruction that compresses accounts of a program and closes them.

    Their lamports go to the program's rent sponsor; ``payer`` pays the fees and receives nothing. The program accepts
    it from anyone, but skips all accounts, without an error, if the rent of one has not run out.

    ``locations`` are those of the placeholders that have the accounts' addresses, in the order of ``accounts``. A
    location with a proof must be the only one.
    """
    packed = _PackedAccounts()
    output = packed.index(output_queue, writable=True)
    rows = b"".join(
        struct.pack(
            "<HBBBIB",
            *(location.root_index, location.proof is None),
            *(packed.index(location.tree, writable=True), packed.index(location.queue, writable=True)),
            *(location.leaf_index, output),
        )
        for location in locations
    )
    proof = next((location.proof for location in locations if location.proof is not None), None)
    signer, _ = Pubkey.find_program_address([_CPI_AUTHORITY_SEED], owner.program)
    own = [
        AccountMeta(payer, is_signer=True, is_writable=True),
        *_metas("", owner.config),
        *_metas("w", owner.rent_sponsor, owner.compression_authority),
    ]
    data = _COMPRESS_ACCOUNTS + _option(proof) + struct.pack("<I", len(rows) // 10) + rows + bytes([len(own)])
    metas = [
        *own,
        *_metas("", known.LIGHT_SYSTEM, signer, _REGISTERED_SYSTEM, _SYSTEM_CPI_AUTHORITY),
        *_metas("", known.ACCOUNT_COMPRESSION, known.SYSTEM),
        *packed.metas(),
        *_metas("w", *accounts),
    ]
    return Instruction(owner.program, data, metas)


def _metas(flags: str, *addresses: Pubkey | None) -> list[AccountMeta]:
    """Return accounts that do not sign, writable with the flag w."""
    return [
        AccountMeta(address, is_signer=False, is_writable="w" in flags) for address in addresses if address is not None
    ]


def _option(content: bytes | None) -> bytes:
    return b"\0" if content is None else b"\1" + content


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
