"""Chain states as files: compressed, self-describing, written atomically."""

import os
import tempfile
from pathlib import Path
from typing import Any

import msgspec
import zstandard
from solders.account import Account
from solders.pubkey import Pubkey
from solders.signature import Signature
from solders.transaction import VersionedTransaction

from localnet.chain.network import State

_MAGIC = b"zkc-localnet-state-1\n"
_BYTES_TYPES = (Pubkey, Signature, VersionedTransaction, Account)


class SnapshotInvalid(ValueError):
    """A file is not a state of a chain; the message names it."""


def _encode(value: object) -> bytes:
    if isinstance(value, Account):
        fields = (value.lamports, bytes(value.data), bytes(value.owner), value.executable, value.rent_epoch)
        return msgspec.msgpack.encode(fields)
    if isinstance(value, _BYTES_TYPES):
        return bytes(value)
    raise TypeError(f"no encoding of {type(value)}")


def _decode(kind: type, value: Any) -> object:
    if kind is Account:
        lamports, data, owner, executable, rent_epoch = msgspec.msgpack.decode(value)
        return Account(lamports, data, Pubkey(owner), executable, rent_epoch)
    if kind in _BYTES_TYPES:
        return kind.from_bytes(value)
    raise TypeError(f"no decoding of {kind}")


def save_state(state: State, path: Path) -> None:
    """Write a state. The file appears whole, in place of one that was there."""
    plain = msgspec.msgpack.encode(state, enc_hook=_encode)
    write_whole(path, _MAGIC + zstandard.ZstdCompressor(level=3).compress(plain))


def write_whole(path: Path, content: bytes) -> None:
    """Write a file atomically, replacing an existing one; a link is replaced, not followed."""
    with tempfile.NamedTemporaryFile(dir=path.parent, prefix=path.name, delete=False) as file:
        try:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
            Path(file.name).replace(path)
        except BaseException:
            Path(file.name).unlink(missing_ok=True)
            raise


def load_state(path: Path, *, follow_links: bool = True) -> State:
    """Read a state. Raise SnapshotInvalid for another file, OSError if it cannot be read."""
    with os.fdopen(os.open(path, os.O_RDONLY | (0 if follow_links else os.O_NOFOLLOW)), "rb") as file:
        content = file.read()
    if not content.startswith(_MAGIC):
        raise SnapshotInvalid(f"{path} is not a state that `localnet` has saved")
    try:
        plain = zstandard.ZstdDecompressor().decompress(content[len(_MAGIC) :])
        return msgspec.msgpack.decode(plain, type=State, dec_hook=_decode)
    except (zstandard.ZstdError, msgspec.MsgspecError, ValueError) as error:
        raise SnapshotInvalid(f"{path} is damaged: {error}") from error
