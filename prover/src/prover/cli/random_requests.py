"""Valid requests from random trees."""

import random

from shared.requests.circuit_id import CircuitId, CircuitKind
from shared.requests.proof_wire import ProofRequest
from shared.requests.witness_inputs import (
    Membership,
    SpentAccount,
    batch_address_append_request,
    batch_append_request,
    batch_update_request,
    combined_request,
    inclusion_request,
    membership,
    non_inclusion_request,
    tx_hash,
)
from shared.trees.field import SCALAR_MODULUS, scalar_bytes
from shared.trees.indexed_merkle_tree import LARGEST_VALUE, Absence, IndexedMerkleTree
from shared.trees.merkle_tree import MerkleTree, TreeFull

_INDICES = 1 << 32  # path indices of requests have 32 bits
_NEIGHBOURS = 8  # other leaves of each tree, so that paths are not all empty


class RandomRequests:
    """Requests from random trees; the same seed gives the same requests."""

    def __init__(self, seed: str) -> None:
        self._numbers = random.Random(seed)  # noqa: S311 - test data, not secrets

    def make(self, circuit: CircuitId) -> ProofRequest:
        """Return a request that the circuit accepts; raises TreeFull if the trees are too small for it."""
        height, size = circuit.heights[0], circuit.sizes[0]
        match circuit.kind:
            case CircuitKind.INCLUSION:
                return inclusion_request(self._memberships(height, size), circuit.version)
            case CircuitKind.NON_INCLUSION:
                return non_inclusion_request(self._absences(circuit.version, height, size))
            case CircuitKind.COMBINED:
                absences = self._absences(circuit.version, circuit.heights[1], circuit.sizes[1])
                return combined_request(self._memberships(height, size), absences)
            case CircuitKind.BATCH_APPEND:
                return self._batch_append(height, size)
            case CircuitKind.BATCH_UPDATE:
                return self._batch_update(height, size)
            case CircuitKind.BATCH_ADDRESS_APPEND:
                return self._batch_address_append(height, size)

    def _memberships(self, height: int, count: int) -> list[Membership]:
        tree = MerkleTree(height)
        indices = range(min(tree.capacity, _INDICES))
        chosen = [self._numbers.choice(indices) for _ in range(count)]
        neighbours = [self._numbers.choice(indices) for _ in range(_NEIGHBOURS)]
        tree.set_many({index: self._element() for index in chosen + neighbours})
        return [membership(tree, index) for index in chosen]

    def _absences(self, version: int, height: int, count: int) -> list[Absence]:
        tree = IndexedMerkleTree(version, height)
        room = (1 << height) - tree.next_index
        tree.insert_many(self._values(min(_NEIGHBOURS, room)))
        present = {element.value for element in tree.elements}
        absent = [value for value in self._values(count + len(present)) if value not in present]
        return [tree.absence(value) for value in absent[:count]]

    def _batch_append(self, height: int, count: int) -> ProofRequest:
        """Return a second batch; some of its accounts are already spent, so that their leaves hold nullifiers."""
        tree = MerkleTree(height)
        tree.append([self._element() for _ in range(min(count, max(tree.capacity - count, 0)))])
        spent = range(tree.next_index, min(tree.next_index + count, tree.capacity), 3)
        tree.set_many({index: self._element() for index in spent})
        return batch_append_request(tree, [self._element() for _ in range(count)])

    def _batch_update(self, height: int, count: int) -> ProofRequest:
        """Return a batch with about half of the accounts in the tree; the others are spent before they are appended."""
        tree = MerkleTree(height)
        slots = min(tree.capacity, 2 * count)
        if slots < count:
            raise TreeFull(f"{count} accounts do not fit into a tree of {height} levels")
        accounts = [self._element() for _ in range(slots)]
        tree.append(accounts[: (slots + 1) // 2])
        indices = self._numbers.sample(range(slots), count)
        transaction = tx_hash(
            [accounts[index] for index in indices], [self._element()], self._numbers.randrange(_INDICES)
        )
        return batch_update_request(tree, [SpentAccount(accounts[index], index, transaction) for index in indices])

    def _batch_address_append(self, height: int, count: int) -> ProofRequest:
        tree = IndexedMerkleTree(2, height)
        room = max((1 << height) - tree.next_index - count, 0)
        before = min(_NEIGHBOURS, room)
        values = self._values(before + count)
        tree.insert_many(values[:before])
        return batch_address_append_request(tree, values[before:])

    def _element(self) -> bytes:
        return scalar_bytes(self._numbers.randrange(1, SCALAR_MODULUS))

    def _values(self, count: int) -> list[bytes]:
        """Return distinct values that an address tree can hold."""
        largest = int.from_bytes(LARGEST_VALUE, "big")
        values: dict[bytes, None] = {}
        while len(values) < count:
            values[scalar_bytes(self._numbers.randrange(1, largest))] = None
        return list(values)
