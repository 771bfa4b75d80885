"""Accounts of a rollover: zeroed ones of the same sizes, and trees that are made full."""

from __future__ import annotations

import forester_instructions
from chains import FORESTER
from forestry import Forest
from solders.account import Account
from solders.instruction import Instruction
from solders.keypair import Keypair
from solders.pubkey import Pubkey

from localnet.chain import addresses
from localnet.chain.network import Network

CPI_CONTEXT_BYTES = 20_488
"""Size that the protocol config of the fixtures requires of a CPI context."""


def new_account(network: Network, size: int, owner: Pubkey = addresses.ACCOUNT_COMPRESSION) -> Pubkey:
    """Store a zeroed account that is exempt from rent; return its address."""
    key = Keypair().pubkey()
    network.set_account(key, Account(network.rent_exempt_minimum(size), bytes(size), owner))
    return key


def twin(network: Network, model: Pubkey) -> Pubkey:
    """Store a zeroed account of the same size as ``model``; return its address."""
    account = network.account(model)
    assert account is not None
    return new_account(network, len(account.data))


def patch(network: Network, key: Pubkey, lamports: int, **numbers: int) -> None:
    """Write 64-bit numbers at offsets (``at240=7``) into an account and give it lamports."""
    account = network.account(key)
    assert account is not None
    data = bytearray(account.data)
    for name, value in numbers.items():
        at = int(name.removeprefix("at"))
        data[at : at + 8] = value.to_bytes(8, "little")
    network.set_account(key, Account(account.lamports + lamports, bytes(data), account.owner))


def prepare_address_v2(forest: Forest) -> tuple[Instruction, Pubkey, Pubkey]:
    """Return the instruction that replaces the full V2 address tree, the old tree and the new one."""
    old, new = addresses.ADDRESS_TREE, twin(forest.network, addresses.ADDRESS_TREE)
    return forester_instructions.rollover_address_v2(FORESTER.pubkey(), forest.epoch_account, old, new), old, new
