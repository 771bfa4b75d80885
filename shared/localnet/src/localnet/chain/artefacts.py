"""The published programs and account fixtures, which `make reference-fixtures` stores in keys-cache/reference/.

Source: shared/localnet/docs/chain.md, "Published accounts".
"""

import os
from dataclasses import dataclass, field, replace
from pathlib import Path

from solders.account import Account
from solders.pubkey import Pubkey

from localnet.chain import addresses
from localnet.chain.account_files import read_account

DEFAULT_VERSION = "0.28.3"
DEFAULT_FOLDER = Path(__file__).resolve().parents[5] / "keys-cache" / "reference"

PROGRAM_FILES = {
    "light_registry.so": addresses.REGISTRY,
    "account_compression.so": addresses.ACCOUNT_COMPRESSION,
    "light_system_program_pinocchio.so": addresses.LIGHT_SYSTEM,
    "light_compressed_token.so": addresses.COMPRESSED_TOKEN,
    "spl_noop.so": addresses.NOOP,
}
"""File in the package's folder of programs → address it is loaded at."""

AUTHORITY = slice(8, 40)
"""Position of the authority's key in the protocol config account.

Source: forester/docs/reference/accounts.md, "Registry accounts".
"""


class ArtefactsMissing(Exception):
    """Programs or accounts are not on disk; the message names the folder and the command that fetches them."""


@dataclass(frozen=True)
class Artefacts:
    """Programs by file name and accounts by address: all that a chain begins with."""

    version: str
    programs: dict[str, bytes]
    accounts: dict[Pubkey, Account]
    own_programs: dict[Pubkey, bytes] = field(default_factory=dict)
    """Programs of the user, by address."""

    def with_protocol_authority(self, authority: Pubkey) -> "Artefacts":
        """Return the artefacts with another authority in the protocol config, whose secret key is known."""
        account = self.accounts[addresses.PROTOCOL_CONFIG]
        data = bytearray(account.data)
        data[AUTHORITY] = bytes(authority)
        changed = Account(account.lamports, bytes(data), account.owner, account.executable, account.rent_epoch)
        return replace(self, accounts={**self.accounts, addresses.PROTOCOL_CONFIG: changed})


def artefacts_folder() -> Path:
    """Return $ZKC_REFERENCE_CACHE, or keys-cache/reference of this tree."""
    return Path(os.environ.get("ZKC_REFERENCE_CACHE") or DEFAULT_FOLDER)


def load_artefacts(version: str = DEFAULT_VERSION) -> Artefacts:
    """Read all programs and accounts of a package version; ArtefactsMissing if they are not there."""
    folder = artefacts_folder() / version
    try:
        programs = {name: (folder / "programs" / name).read_bytes() for name in PROGRAM_FILES}
        files = sorted((folder / "accounts").glob("*.json"), key=lambda path: "_2_" not in path.name)
        accounts = dict(map(read_account, files))
    except FileNotFoundError as error:
        message = f"{error.filename} is missing; fetch programs and accounts with `make reference-fixtures`"
        raise ArtefactsMissing(message) from error
    if addresses.PROTOCOL_CONFIG not in accounts:
        message = f"{folder / 'accounts'} has no protocol config; fetch accounts with `make reference-fixtures`"
        raise ArtefactsMissing(message)
    return Artefacts(version, programs, accounts)
