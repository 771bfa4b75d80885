"""State and address trees with their queues as plain lists: dense models that V2 code is tested against."""

from collections.abc import Sequence

from forester.indexer.types import AddressQueue, Hash32, InputQueue, Node, OutputQueue, StateQueue
from forester.pipeline_v2.staging.tree_head import TreeHead
from shared.requests.circuit_id import CircuitKind
from shared.requests.witness_inputs import chain, nullifier
from shared.trees.field import ZERO
from shared.trees.indexed_merkle_tree import LARGEST_VALUE
from shared.trees.poseidon import hash2

HEIGHT, ZKP = 5, 2
SLOTS = 1 << HEIGHT


def number(value: int) -> Hash32:
    return Hash32(value.to_bytes(32, "big"))


def layers(leaves: list[bytes]) -> list[list[bytes]]:
    """Return all nodes of a tree, by definition."""
    rows = [leaves]
    while len(rows[-1]) > 1:
        row = rows[-1]
        rows.append([hash2(row[place], row[place + 1]) for place in range(0, len(row), 2)])
    return rows


def sibling_nodes(leaves: list[bytes], indices: list[int]) -> tuple[Node, ...]:
    rows = layers(leaves)
    wanted = {((level << 56) + ((index >> level) ^ 1)): (level, (index >> level) ^ 1)
              for index in indices for level in range(HEIGHT)}  # fmt: skip
    return tuple(Node(index=key, hash=Hash32(rows[level][place])) for key, (level, place) in sorted(wanted.items()))


class StateModel:
    """A state tree with its queues as plain lists."""

    def __init__(self) -> None:
        self.leaves = [ZERO] * SLOTS
        self.queued: list[Hash32] = []
        self.appended = 0
        self.spent: list[tuple[Hash32, int, Hash32]] = []
        self.nullified = 0
        self.sequence = 0

    def root(self) -> bytes:
        return layers(self.leaves)[-1][0]

    def chains(self, values: list[bytes]) -> tuple[Hash32, ...]:
        return tuple(Hash32(chain(values[place : place + ZKP])) for place in range(0, len(values) // ZKP * ZKP, ZKP))

    def nullifiers(self) -> list[bytes]:
        return [nullifier(*account) for account in self.spent[self.nullified :]]

    def nullified_before(self) -> list[bytes]:
        return [nullifier(*account) for account in self.spent[: self.nullified]]

    def head(self) -> TreeHead:
        return TreeHead(
            root=self.root(),
            sequence=self.sequence,
            next_index=self.appended,
            nullifier_next_index=self.nullified,
            height=HEIGHT,
            zkp_batch_size=ZKP,
            input_chains=self.chains(self.nullifiers()),
            append_chains=self.chains([*self.queued[self.appended :]]),
        )

    def snapshot(self) -> StateQueue:
        appends = self.queued[self.appended :]
        appends = appends[: len(appends) // ZKP * ZKP]
        spent = self.spent[self.nullified :]
        spent = spent[: len(spent) // ZKP * ZKP]
        places = [self.appended + place for place in range(len(appends))]
        listed = [*places, *(account[1] for account in spent)]
        return StateQueue(
            nodes=sibling_nodes(self.leaves, listed),
            initial_root=Hash32(self.root()),
            root_seq=self.sequence,
            output_queue=OutputQueue(
                leaf_indices=tuple(places),
                account_hashes=tuple(appends),
                leaves=tuple(Hash32(self.leaves[place]) for place in places),
                first_queue_index=self.appended,
                next_index=self.appended,
            ),
            input_queue=InputQueue(
                leaf_indices=tuple(account[1] for account in spent),
                account_hashes=tuple(account[0] for account in spent),
                leaves=tuple(Hash32(self.leaves[account[1]]) for account in spent),
                tx_hashes=tuple(account[2] for account in spent),
                first_queue_index=self.nullified,
            ),
        )

    def apply(self, kind: CircuitKind) -> None:
        self.sequence += 1
        if kind is CircuitKind.BATCH_APPEND:
            for _ in range(ZKP):
                if self.leaves[self.appended] == ZERO:
                    self.leaves[self.appended] = self.queued[self.appended]
                self.appended += 1
            return
        for account in self.spent[self.nullified : self.nullified + ZKP]:
            self.leaves[account[1]] = nullifier(*account)
        self.nullified += ZKP


class AddressModel:
    """An address tree as a sorted list, and a dense tree of its leaves."""

    def __init__(self) -> None:
        self.values = [ZERO]

    def following(self, value: bytes) -> bytes:
        return min((other for other in self.values if other > value), default=LARGEST_VALUE)

    def leaves(self) -> list[bytes]:
        held = [hash2(value, self.following(value)) for value in self.values]
        return held + [ZERO] * (SLOTS - len(held))

    def head(self, waiting: Sequence[Hash32] = ()) -> TreeHead:
        whole = range(0, len(waiting) // ZKP * ZKP, ZKP)
        chains = tuple(chain(waiting[place : place + ZKP]) for place in whole)
        return TreeHead(layers(self.leaves())[-1][0], len(self.values), len(self.values), 0, HEIGHT, ZKP, chains)

    def snapshot(self, waiting: list[Hash32]) -> AddressQueue:
        lows = [max(value for value in self.values if value < address) for address in waiting]
        indices = [self.values.index(low) for low in lows]
        leaves = self.leaves()
        rows, edge = layers(leaves), len(self.values)
        return AddressQueue(
            addresses=tuple(waiting),
            queue_indices=tuple(range(edge - 1, edge - 1 + len(waiting))),
            nodes=sibling_nodes(leaves, indices),
            low_element_indices=tuple(indices),
            low_element_values=tuple(map(Hash32, lows)),
            low_element_next_indices=tuple(
                self.values.index(self.following(low)) if self.following(low) != LARGEST_VALUE else 0 for low in lows
            ),
            low_element_next_values=tuple(Hash32(self.following(low)) for low in lows),
            initial_root=Hash32(rows[-1][0]),
            start_index=edge,
            subtrees=tuple(
                Hash32(rows[level][(edge >> level) - 1]) if (edge >> level) & 1 else number(123)
                for level in range(HEIGHT)
            ),
            root_seq=len(self.values),
        )
