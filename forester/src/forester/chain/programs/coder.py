"""The only user of anchorpy: instructions and Borsh accounts of the registry, as ``idl/light_registry.json`` has them.

The IDL is in the format from before Anchor 0.30, which is what anchorpy reads.
"""

from collections.abc import Mapping, Sequence
from functools import cache
from importlib import resources
from typing import Any

from anchorpy.coder.accounts import AccountsCoder
from anchorpy.coder.instruction import InstructionCoder
from anchorpy_core.idl import Idl, IdlAccount
from construct import ConstructError
from solders.instruction import AccountMeta, Instruction
from solders.pubkey import Pubkey

from forester.chain.programs.addresses import REGISTRY
from forester.errors import MalformedAccount


@cache
def _idl() -> Idl:
    return Idl.from_json(resources.files("forester.chain.programs").joinpath("idl/light_registry.json").read_text())


@cache
def _instructions() -> InstructionCoder:
    return InstructionCoder(_idl())


@cache
def _accounts() -> AccountsCoder:
    return AccountsCoder(_idl())


@cache
def _account_items() -> Mapping[str, list[IdlAccount]]:
    names = _instructions().ix_layout
    return {
        name: [account for account in instruction.accounts if isinstance(account, IdlAccount)]
        for name, instruction in zip(names, _idl().instructions, strict=True)
    }


def instruction_names() -> tuple[str, ...]:
    """Return the names of the instructions that can be built."""
    return tuple(_instructions().sighashes)


def instruction_discriminator(name: str) -> bytes:
    """Return the first 8 bytes of an instruction's data."""
    return _instructions().sighashes[name]


def account_discriminator(name: str) -> bytes:
    """Return the first 8 bytes of an account's data."""
    return _accounts().acc_name_to_discriminator[name]


def build_instruction(name: str, arguments: Mapping[str, Any], addresses: Sequence[Pubkey | None]) -> Instruction:
    """Return an instruction of the registry.

    ``arguments`` have the names of the IDL, ``addresses`` its order. None is an optional account that is absent: it is
    passed as the program's own id, read-only. ValueError if a required account is None or the number is wrong.
    """
    items = _account_items()[name]
    metas = []
    for item, address in zip(items, addresses, strict=True):
        if address is None:
            if not item.is_optional:
                raise ValueError(f"{name} needs the account {item.name}")
            metas.append(AccountMeta(REGISTRY, is_signer=False, is_writable=False))
        else:
            metas.append(AccountMeta(address, is_signer=item.is_signer, is_writable=item.is_mut))
    data = _instructions().encode(name, dict(arguments))
    return Instruction(REGISTRY, data, metas)


def decode_account(name: str, data: bytes) -> Any:
    """Return the fields of a registry account as attributes; MalformedAccount if the data is not that account."""
    if data[:8] != account_discriminator(name):
        raise MalformedAccount(f"not a {name}: discriminator {data[:8].hex() or 'absent'}")
    try:
        return _accounts().parse(data).data
    except (ConstructError, ValueError, OverflowError) as error:
        raise MalformedAccount(f"{name} of {len(data)} bytes cannot be decoded") from error
