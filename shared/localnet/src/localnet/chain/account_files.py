"""Accounts in files, as `solana account --output json` and answers of a node have them."""

import base64
from collections.abc import Callable
from pathlib import Path

import msgspec
import zstandard
from solders.account import Account
from solders.pubkey import Pubkey

from localnet import base58


class AccountFileInvalid(ValueError):
    """A file does not contain accounts; the message names it."""


class _Body(msgspec.Struct, rename="camel"):
    lamports: int
    data: tuple[str, str]
    owner: str
    executable: bool = False
    rent_epoch: int = 0


class _Entry(msgspec.Struct):
    pubkey: str
    account: _Body


class _Context(msgspec.Struct):
    value: list[_Entry]


class _Answer(msgspec.Struct):
    result: list[_Entry] | _Context


def read_account(path: Path) -> tuple[Pubkey, Account]:
    """Read one account. Raise AccountFileInvalid for another content, OSError if the file cannot be read."""
    [entry] = _read(path, lambda content: [msgspec.json.decode(content, type=_Entry)])
    return entry


def read_accounts(path: Path) -> list[tuple[Pubkey, Account]]:
    """Read accounts: an answer to getProgramAccounts, or its result, in base64. Raises as ``read_account``."""

    def entries(content: bytes) -> list[_Entry]:
        found = msgspec.json.decode(content, type=list[_Entry] | _Answer)
        if isinstance(found, _Answer):
            found = found.result.value if isinstance(found.result, _Context) else found.result
        return found

    # Executable accounts last: they load what others hold.
    return sorted(_read(path, entries), key=lambda entry: entry[1].executable)


def _read(path: Path, entries: Callable[[bytes], list[_Entry]]) -> list[tuple[Pubkey, Account]]:
    content = path.read_bytes()
    try:
        return [_account(entry) for entry in entries(content)]
    except (msgspec.MsgspecError, ValueError, zstandard.ZstdError) as error:
        message = f"{path} does not contain accounts as `solana account --output json` writes them: {error}"
        raise AccountFileInvalid(message) from error


def _account(entry: _Entry) -> tuple[Pubkey, Account]:
    body = entry.account
    owner = Pubkey.from_string(body.owner)
    account = Account(body.lamports, _decode(*body.data), owner, body.executable, body.rent_epoch)
    return Pubkey.from_string(entry.pubkey), account


def _decode(text: str, encoding: str) -> bytes:
    if encoding == "base64":
        return base64.b64decode(text, validate=True)
    if encoding == "base64+zstd":
        return zstandard.ZstdDecompressor().decompressobj().decompress(base64.b64decode(text, validate=True))
    if encoding == "base58":
        return base58.decode(text)
    raise ValueError(f"unknown encoding {encoding}; use base64")
