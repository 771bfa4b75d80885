"""Queues of trees with a hundred million leaves, as an indexer answers them, without the trees.

Nodes that no element is below are random (left of the next leaf) or empty (right of it); all others are hashed, so the
snapshot leads to its root as one of a real tree does.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import msgspec
from base58_hashes import encode_base58

from forester.indexer.answers import REQUEST_ID
from forester.indexer.types import (
    AddressQueue,
    Context,
    Hash32,
    InputQueue,
    Node,
    OutputQueue,
    QueueElements,
    StateQueue,
)
from forester.indexer.validation import LEVEL_BITS
from forester.pipeline_v2.staging.tree_head import TreeHead
from shared.requests.witness_inputs import SpentAccount, chain
from shared.trees.field import ZERO
from shared.trees.merkle_tree import zero_hash
from shared.trees.poseidon import hash2, hash_many

SEQUENCE = 200_000
STATE_HEIGHT, ADDRESS_HEIGHT = 32, 40


@dataclass(frozen=True)
class World:
    """The head of a tree, and an indexer's answer for the same root."""

    head: TreeHead
    answer: bytes
    elements: int
    nodes: int


class _Nodes:
    """The nodes above some leaves and next to their paths; ``leaves`` must have the one at ``next_index``."""

    def __init__(self, height: int, next_index: int, leaves: Mapping[int, bytes], numbers: random.Random) -> None:
        self._known: dict[tuple[int, int], bytes] = {}
        row = dict(leaves)
        for level in range(height):
            for position, node in row.items():
                self._known[level, position] = node
                sibling = position ^ 1
                if sibling not in row:
                    empty = sibling << level >= next_index
                    self._known[level, sibling] = zero_hash(level) if empty else field_element(numbers)
            parents = sorted({position >> 1 for position in row})
            pairs = b"".join(self._known[level, 2 * up] + self._known[level, 2 * up + 1] for up in parents)
            hashes = hash_many(pairs, 2)
            row = {up: hashes[32 * place : 32 * place + 32] for place, up in enumerate(parents)}
        self.height = height
        self.root = Hash32(row[0])

    def siblings(self, indices: Sequence[int]) -> tuple[Node, ...]:
        """Return all siblings on the ways of some leaves, each once: what Photon sends."""
        wanted = {(level, (index >> level) ^ 1) for index in indices for level in range(self.height)}
        return tuple(
            Node(index=(at << LEVEL_BITS) + place, hash=Hash32(self._known[at, place])) for at, place in wanted
        )

    def subtrees(self, next_index: int) -> tuple[Hash32, ...]:
        """Return the largest full subtrees before the next leaf, zero where there is none."""
        return tuple(
            Hash32(self._known[level, (next_index >> level) - 1] if (next_index >> level) & 1 else ZERO)
            for level in range(self.height)
        )


def field_element(numbers: random.Random) -> Hash32:
    """Return a random field element below 2^248."""
    return Hash32(numbers.getrandbits(248).to_bytes(32, "big"))


def state_world(seed: int, next_index: int, zkp_batch_size: int, appends: int, nullifies: int) -> World:
    """Return a world with batches of both queues; spent accounts are anywhere in the tree."""
    numbers = random.Random(seed)
    count = appends * zkp_batch_size
    places = range(next_index, next_index + count)
    spent = [
        SpentAccount(field_element(numbers), index, field_element(numbers))
        for index in numbers.sample(range(next_index), nullifies * zkp_batch_size)
    ]
    leaves = dict.fromkeys((next_index, *places), ZERO) | {account.leaf_index: account.account for account in spent}
    nodes = _Nodes(STATE_HEIGHT, next_index, leaves, numbers)
    accounts = tuple(field_element(numbers) for _ in places)
    nullifiers = tuple(Hash32(account.nullifier) for account in spent)
    indices = tuple(account.leaf_index for account in spent)
    queue = StateQueue(
        nodes=nodes.siblings([*places, *indices]),
        initial_root=nodes.root,
        root_seq=SEQUENCE,
        output_queue=OutputQueue(
            leaf_indices=tuple(places),
            account_hashes=accounts,
            leaves=(Hash32(ZERO),) * count,
            first_queue_index=next_index,
            next_index=next_index,
        ),
        input_queue=InputQueue(
            leaf_indices=indices,
            account_hashes=tuple(Hash32(account.account) for account in spent),
            leaves=tuple(Hash32(account.account) for account in spent),
            tx_hashes=tuple(Hash32(account.tx_hash) for account in spent),
            first_queue_index=next_index // 2,
        ),
    )
    head = TreeHead(
        root=nodes.root,
        sequence=SEQUENCE,
        next_index=next_index,
        nullifier_next_index=next_index // 2,
        height=STATE_HEIGHT,
        zkp_batch_size=zkp_batch_size,
        input_chains=_chains(nullifiers, zkp_batch_size),
        append_chains=_chains(accounts, zkp_batch_size),
    )
    answer = QueueElements(context=Context(1), state_queue=queue)
    return World(head, _body(answer), count + len(spent), len(queue.nodes))


def address_world(seed: int, next_index: int, zkp_batch_size: int, batches: int) -> World:
    """Return a world with batches of addresses, each with another low element anywhere in the tree."""
    numbers = random.Random(seed)
    count = batches * zkp_batch_size
    addresses = tuple(Hash32(numbers.randrange(1 << 240, 1 << 248).to_bytes(32, "big")) for _ in range(count))
    lows = [Hash32((int.from_bytes(value, "big") - numbers.getrandbits(200) - 1).to_bytes(32, "big"))
            for value in addresses]  # fmt: skip
    highs = [Hash32((int.from_bytes(value, "big") + numbers.getrandbits(200) + 1).to_bytes(32, "big"))
             for value in addresses]  # fmt: skip
    indices, following = (numbers.sample(range(next_index), count) for _ in range(2))
    held = {index: hash2(low, high) for index, low, high in zip(indices, lows, highs, strict=True)}
    nodes = _Nodes(ADDRESS_HEIGHT, next_index, {next_index: ZERO} | held, numbers)
    queue = AddressQueue(
        addresses=addresses,
        queue_indices=tuple(range(next_index - 1, next_index - 1 + count)),
        nodes=nodes.siblings(indices),
        low_element_indices=tuple(indices),
        low_element_values=tuple(lows),
        low_element_next_indices=tuple(following),
        low_element_next_values=tuple(highs),
        initial_root=nodes.root,
        start_index=next_index,
        subtrees=nodes.subtrees(next_index),
        root_seq=SEQUENCE,
    )
    chains = _chains(addresses, zkp_batch_size)
    head = TreeHead(nodes.root, SEQUENCE, next_index, 0, ADDRESS_HEIGHT, zkp_batch_size, chains)
    return World(head, _body(QueueElements(context=Context(1), address_queue=queue)), count, len(queue.nodes))


def _chains(elements: Sequence[bytes], size: int) -> tuple[Hash32, ...]:
    return tuple(Hash32(chain(elements[place : place + size])) for place in range(0, len(elements), size))


def _body(answer: QueueElements) -> bytes:
    result = msgspec.json.encode(answer, enc_hook=encode_base58)
    return b'{"jsonrpc": "2.0", "id": "%b", "result": %b}' % (REQUEST_ID.encode(), result)
