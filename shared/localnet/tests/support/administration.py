"""Instructions of the protocol authority that set up trees and the protocol.

Source: forester/docs/reference/programs.md, "Administration".
"""

from __future__ import annotations

from dataclasses import dataclass

from chains import AUTHORITY
from solders.instruction import AccountMeta, Instruction
from solders.pubkey import Pubkey

from localnet.chain import addresses
from localnet.programs.registry import BUMP, u32, u64

UPDATE_PROTOCOL_CONFIG = bytes.fromhex("c5617b36dda80b87")
UPDATE_FORESTER_WEIGHT = bytes.fromhex("e3be7e82cbf7362b")
INITIALIZE_STATE_TREE = bytes.fromhex("0f31b6cb58d44b82")
INITIALIZE_ADDRESS_TREE = bytes.fromhex("a79de2ca490186d0")
PROTOCOL = slice(41, 41 + 152)
"""The config in its account."""


@dataclass(frozen=True)
class Sizes:
    """Sizes of a kind of tree; ``bloom`` in bits, ``tree`` and ``queue`` in bytes of their accounts."""

    batch: int
    zkp_batch: int
    bloom: int
    iterations: int
    roots: int
    tree: int
    queue: int = 0


TEST_ADDRESS = Sizes(50, 10, 160_000, 3, 200, 47_456)
PRODUCTION_STATE = Sizes(15_000, 500, 2_301_536, 10, 60, 579_960, 962_536)
PRODUCTION_ADDRESS = Sizes(30_000, 250, 4_603_072, 10, 120, 1_163_024)


def option(value: bytes | None) -> bytes:
    """Return a Borsh option."""
    return b"\x00" if value is None else b"\x01" + value


def update_protocol_config(config: bytes) -> Instruction:
    key = AUTHORITY.pubkey()
    metas = [AccountMeta(key, True, False), AccountMeta(key, True, False)]
    metas += [AccountMeta(addresses.PROTOCOL_CONFIG, False, True), AccountMeta(addresses.REGISTRY, False, False)]
    return Instruction(addresses.REGISTRY, UPDATE_PROTOCOL_CONFIG + option(config), metas)


def update_forester_weight(authority: Pubkey, derivation: Pubkey, weight: int) -> Instruction:
    metas = [AccountMeta(authority, True, False), AccountMeta(addresses.PROTOCOL_CONFIG, False, False)]
    metas.append(AccountMeta(addresses.forester(derivation), False, True))
    return Instruction(addresses.REGISTRY, UPDATE_FORESTER_WEIGHT + u64(weight), metas)


def _initialize(discriminator: bytes, params: bytes, metas: list[AccountMeta]) -> Instruction:
    head = [AccountMeta(AUTHORITY.pubkey(), True, True)]
    return Instruction(addresses.REGISTRY, discriminator + BUMP + u32(len(params)) + params, head + metas)


def initialize_state_tree(sizes: Sizes, tree: Pubkey, queue: Pubkey, context: Pubkey, fee: int = 5000) -> Instruction:
    params = u64(0) + option(None) + option(None) + u64(0)
    params += u64(sizes.batch) * 2 + u64(sizes.zkp_batch) * 2 + u64(sizes.iterations) + u64(sizes.bloom)
    params += u32(sizes.roots) + option(u64(fee)) + option(u64(95)) + option(None) + u32(32)
    metas = [AccountMeta(tree, False, True), AccountMeta(queue, False, True)]
    metas += [AccountMeta(addresses.REGISTERED_REGISTRY, False, False)]
    metas += [AccountMeta(addresses.REGISTRY_CPI_AUTHORITY, False, True)]
    metas += [AccountMeta(key, False, False) for key in (addresses.ACCOUNT_COMPRESSION, addresses.PROTOCOL_CONFIG)]
    metas += [AccountMeta(context, False, True), AccountMeta(addresses.LIGHT_SYSTEM, False, False)]
    return _initialize(INITIALIZE_STATE_TREE, params, metas)


def initialize_address_tree(sizes: Sizes, tree: Pubkey, fee: int) -> Instruction:
    params = u64(0) + option(None) + option(None) + u64(sizes.batch)
    params += u64(sizes.zkp_batch) + u64(sizes.iterations) + u64(sizes.bloom) + u32(sizes.roots)
    params += option(u64(fee)) + option(u64(95)) + option(None) + u32(40)
    metas = [AccountMeta(tree, False, True), AccountMeta(addresses.REGISTERED_REGISTRY, False, False)]
    metas += [AccountMeta(addresses.REGISTRY_CPI_AUTHORITY, False, True)]
    metas += [AccountMeta(key, False, False) for key in (addresses.ACCOUNT_COMPRESSION, addresses.PROTOCOL_CONFIG)]
    return _initialize(INITIALIZE_ADDRESS_TREE, params, metas)
