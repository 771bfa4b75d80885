"""Work of a forester on V1 trees: it reads queues on the chain and proofs from the indexer."""

from __future__ import annotations

from typing import Any

import forester_instructions
from chains import FORESTER
from forester_instructions import LowElement
from forestry import Forest
from solders.instruction import Instruction
from solders.pubkey import Pubkey

from localnet.base58 import decode
from localnet.chain import addresses
from localnet.chain.network import Network

LAST_CHANGE = 304 + 24
"""Offset of the index of a V1 tree's last change (forester/docs/reference/accounts.md, "V1 trees")."""
LAST_INDEXED_CHANGE = 1_364_288 + 24
CURRENT_ROOT = 336 + 24
ROOTS = 1_222_016
CAPACITY, BUCKETS = 232, 256


def content(network: Network, key: Pubkey) -> bytes:
    account = network.account(key)
    assert account is not None
    return bytes(account.data)


def number_at(data: bytes, at: int) -> int:
    return int.from_bytes(data[at : at + 8], "little")


def root_v1(network: Network, tree: Pubkey) -> bytes:
    """Return the latest root of a V1 tree."""
    data = content(network, tree)
    return data[ROOTS + 32 * number_at(data, CURRENT_ROOT) :][:32]


def waiting(network: Network, queue: Pubkey) -> dict[int, bytes]:
    """Return what waits in a V1 queue, by bucket."""
    data = content(network, queue)
    end = BUCKETS + 48 * number_at(data, CAPACITY)
    tags = data[BUCKETS:end:48]  # their first bytes; zero is the tag of a value that waits
    buckets = (bucket for bucket, tag in enumerate(tags) if tag == 0)
    return {bucket: data[BUCKETS + 48 * bucket + 16 : BUCKETS + 48 * bucket + 48] for bucket in buckets}


def nullify_instruction(forest: Forest, bucket: int, proof: dict[str, Any]) -> Instruction:
    """Return the instruction that clears the leaf of a queued nullifier, with the indexer's proof."""
    data = content(forest.network, addresses.STATE_TREE_V1)
    return forester_instructions.nullify(
        FORESTER.pubkey(),
        forest.epoch_account,
        addresses.STATE_TREE_V1,
        addresses.NULLIFIER_QUEUE_V1,
        changelog_index=number_at(data, LAST_CHANGE),
        queue_index=bucket,
        leaf_index=proof["leafIndex"],
        siblings=[decode(node) for node in proof["proof"]],
    )


def address_instruction(forest: Forest, bucket: int, proof: dict[str, Any]) -> Instruction:
    """Return the instruction that moves a queued address into its tree, with the indexer's proof."""
    data = content(forest.network, addresses.ADDRESS_TREE_V1)
    low = LowElement(
        proof["lowElementLeafIndex"],
        decode(proof["lowerRangeAddress"]),
        proof["nextIndex"],
        decode(proof["higherRangeAddress"]),
        [decode(node) for node in proof["proof"]],
    )
    return forester_instructions.update_address_merkle_tree(
        FORESTER.pubkey(),
        forest.epoch_account,
        addresses.ADDRESS_TREE_V1,
        addresses.ADDRESS_QUEUE_V1,
        changelog_index=number_at(data, LAST_CHANGE),
        indexed_changelog_index=number_at(data, LAST_INDEXED_CHANGE),
        queue_index=bucket,
        low=low,
    )
