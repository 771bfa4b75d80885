"""Statements of proofs, read from a request without its other members, a megabyte in a batch."""

from dataclasses import dataclass
from typing import Final

import msgspec

from shared.field import InvalidNumber, parse_scalar
from shared.proof_wire import Envelope


@dataclass(frozen=True)
class Statement:
    """A statement of a proof: the name of its circuit, and its public inputs of 32 bytes each."""

    circuit: str
    public_inputs: bytes


class _Account(msgspec.Struct, frozen=True):
    root: str
    leaf: str


class _Address(msgspec.Struct, frozen=True):
    root: str
    value: str


class _PublicMembers(msgspec.Struct, frozen=True, rename="camel"):
    """Members that version 1 of a circuit makes public, in their order."""

    input_compressed_accounts: list[_Account] = []
    new_addresses: list[_Address] = []


class _PublicHash(msgspec.Struct, frozen=True, rename="camel"):
    public_input_hash: str | None = None


_MEMBERS: Final = msgspec.json.Decoder(_PublicMembers)
_HASH: Final = msgspec.json.Decoder(_PublicHash)


def read_public_inputs(body: bytes, envelope: Envelope) -> bytes | None:
    """Return the public inputs of a request, 32 bytes each, equal to those of ``read_task``.

    None if they cannot be read; such a request has no proof.
    """
    try:
        numbers = _numbers(body, envelope)
        return b"".join(parse_scalar(number)[0] for number in numbers)
    except (ValueError, InvalidNumber, RecursionError):
        return None


def _numbers(body: bytes, envelope: Envelope) -> list[str]:
    if envelope.version == 2:
        return [_HASH.decode(body).public_input_hash or "0"]
    members = _MEMBERS.decode(body)
    accounts = members.input_compressed_accounts if envelope.accounts else []
    addresses = members.new_addresses if envelope.addresses else []
    return [
        *(account.root for account in accounts),
        *(account.leaf for account in accounts),
        *(address.root for address in addresses),
        *(address.value for address in addresses),
    ]
