"""Formats of keys: JSON arrays, base58, key files of the Solana command line."""

import json
from pathlib import Path
from typing import Any

from solders.keypair import Keypair
from solders.pubkey import Pubkey
from solders.signature import Signature

from forester.redaction import remember_secret
from forester.settings.key_files import file_exists, read_key_file
from shared.process.shown_path import shown_path

_KEY_BYTES = 64
_PUBKEY_BYTES = 32


class SigningKey:
    """A key pair that never shows its secret half: not in repr, not when pickled."""

    __slots__ = ("_keypair",)

    def __init__(self, keypair: Keypair) -> None:
        self._keypair = keypair
        remember_secret(str(keypair))

    @property
    def pubkey(self) -> Pubkey:
        """Address of the key."""
        return self._keypair.pubkey()

    @property
    def keypair(self) -> Keypair:
        """The key pair, for signing; never print it: its text is the secret."""
        return self._keypair

    def __repr__(self) -> str:
        return f"SigningKey({self.pubkey})"

    def __reduce__(self) -> Any:
        raise TypeError("a signing key must not be serialised")


def parse_signing_key(text: str) -> SigningKey:
    """Read a key pair: JSON array of 64 bytes, base58 of 64 bytes, or the path of a file that holds one of them.

    Raises ValueError whose message has no part of the text, unless that is the path of an existing file.
    """
    text = text.strip()
    if _is_path(text):
        return parse_key_text(_key_file(text))
    if text.startswith("["):
        return parse_key_text(text)
    try:
        return parse_key_text(text)
    except ValueError as error:
        raise ValueError(f"{error}, and no file has this name") from None


def parse_key_text(text: str) -> SigningKey:
    """Read a key pair, JSON array or base58 of 64 bytes, not a path. Raises ValueError without any part of it."""
    text = text.strip()
    raw = _byte_array(text, _KEY_BYTES) if text.startswith("[") else _base58(text, Signature, _KEY_BYTES)
    keypair = Keypair.from_seed(raw[:_PUBKEY_BYTES])
    if bytes(keypair.pubkey()) != raw[_PUBKEY_BYTES:]:
        raise ValueError("bytes 32 to 63 are not the public key of bytes 0 to 31")
    return SigningKey(keypair)


def _is_path(text: str) -> bool:
    """Return whether a text is a path; keys in base64 also have slashes."""
    return text.startswith(("/", "~", ".")) or file_exists(text)


def parse_pubkey(text: str) -> Pubkey:
    """Read a public key: base58 or JSON array of 32 bytes. Raises ValueError."""
    text = text.strip()
    if text.startswith("["):
        return Pubkey(_byte_array(text, _PUBKEY_BYTES))
    return Pubkey(_base58(text, Pubkey, _PUBKEY_BYTES))


def _byte_array(text: str, length: int) -> bytes:
    try:
        values = json.loads(text)
    except ValueError:
        raise ValueError(f"not a JSON array of {length} bytes") from None
    if not isinstance(values, list) or any(type(value) is not int or not 0 <= value <= 255 for value in values):
        raise ValueError(f"not a JSON array of {length} bytes")
    if len(values) != length:
        raise ValueError(f"{len(values)} bytes instead of {length}")
    return bytes(values)


def _base58(text: str, kind: type[Pubkey] | type[Signature], length: int) -> bytes:
    try:
        return bytes(kind.from_string(text))
    except ValueError:
        # The library's message may have parts of the text.
        raise ValueError(f"expected base58 of {length} bytes or a JSON array of {length} bytes") from None


def _key_file(text: str) -> str:
    try:
        path = Path(text).expanduser()
    except RuntimeError:
        raise ValueError("the path of the key file begins with an unknown home; pass an absolute path") from None
    try:
        return read_key_file(path)
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not a text file"
        raise ValueError(f"cannot read {shown_path(path)}: {reason}") from None
