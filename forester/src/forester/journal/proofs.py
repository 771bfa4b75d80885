"""Finished proofs, stored until the chain has passed them.

Source: forester/docs/reference/behaviour.md, "Proof lifetime".

A proof leads a tree from one root to another and fits at one sequence number only. Proofs made ahead stay useful
across windows, epochs and restarts.
"""

import sqlite3
import time
from collections.abc import Sequence
from dataclasses import dataclass

from solders.pubkey import Pubkey

from forester.journal.database import JournalStore
from shared.requests.circuit_id import CircuitKind

MAXIMUM_PER_TREE = 256
"""Beyond these the proofs that are furthest ahead are dropped."""

_CIRCUITS = frozenset(kind.value for kind in CircuitKind if kind.is_batch)
_ROOT_BYTES, _PROOF_BYTES = 32, 128
_DELETE = "DELETE FROM proofs WHERE tree = ? AND sequence = ? AND circuit = ? AND old_root = ? AND new_root = ?"
_COLUMNS = "tree, sequence, circuit, old_root, new_root, start_index, elements, proof"


@dataclass(frozen=True)
class StoredProof:
    """A proof with its statement.

    ``sequence`` is the tree's sequence number before it, ``start_index`` its first leaf or queue index, ``elements``
    their number, ``proof`` the 128 bytes of an instruction. ``circuit`` is spelled as on the wire.
    """

    tree: bytes
    sequence: int
    circuit: str
    old_root: bytes
    new_root: bytes
    start_index: int
    elements: int
    proof: bytes

    @property
    def is_readable(self) -> bool:
        """Return whether the columns are those of a proof: an entry of a damaged journal may contain anything."""
        numbers = (self.sequence, self.start_index, self.elements)
        texts = ((self.old_root, _ROOT_BYTES), (self.new_root, _ROOT_BYTES), (self.proof, _PROOF_BYTES))
        return (
            self.circuit in _CIRCUITS
            and all(isinstance(number, int) and number >= 0 for number in numbers)
            and all(isinstance(text, bytes) and len(text) == length for text, length in texts)
        )


class ProofStore(JournalStore):
    """The proofs in a journal."""

    async def add(self, proofs: Sequence[StoredProof]) -> None:
        """Store proofs; one that is already stored stays as it is. They are on disk when this returns."""
        made_at = time.time()
        rows = [(*_row(proof), made_at) for proof in proofs]
        trees = sorted({proof.tree for proof in proofs})

        def work(connection: sqlite3.Connection) -> None:
            connection.executemany(
                f"INSERT OR IGNORE INTO proofs ({_COLUMNS}, made_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",  # noqa: S608
                rows,
            )
            for tree in trees:
                _drop_beyond_limit(connection, tree)

        await self._journal.run(work)

    async def of_tree(self, tree: bytes) -> list[StoredProof]:
        """Return the proofs of a tree by their sequence number, without unreadable ones, which are logged."""
        query = f"SELECT {_COLUMNS} FROM proofs WHERE tree = ? ORDER BY sequence, circuit"  # noqa: S608
        proofs = [StoredProof(*row) for row in await self._journal.fetch(query, (tree,))]
        for proof in proofs:
            if not proof.is_readable:
                remedy = "none is needed: the batch is proved again; check the health of the disk"
                self.log_unreadable("proofs", f"{Pubkey(tree)} {proof.circuit} {proof.sequence}", remedy)
        return [proof for proof in proofs if proof.is_readable]

    async def forget_before(self, tree: bytes, sequence: int) -> int:
        """Drop the proofs that only fit before a sequence number, and return their number."""
        return await self._journal.change("DELETE FROM proofs WHERE tree = ? AND sequence < ?", (tree, sequence))

    async def forget(self, proofs: Sequence[StoredProof]) -> None:
        """Drop proofs that the chain has refused."""
        await self._journal.change(_DELETE, *(_row(proof)[:5] for proof in proofs))

    async def counts(self) -> dict[bytes, int]:
        """Return the number of proofs by tree."""
        return dict(await self._journal.fetch("SELECT tree, count(*) FROM proofs GROUP BY tree"))


def _row(proof: StoredProof) -> tuple[bytes, int, str, bytes, bytes, int, int, bytes]:
    return (
        *(proof.tree, proof.sequence, proof.circuit, proof.old_root),
        *(proof.new_root, proof.start_index, proof.elements, proof.proof),
    )


def _drop_beyond_limit(connection: sqlite3.Connection, tree: bytes) -> None:
    beyond = connection.execute(
        "SELECT sequence, circuit, old_root, new_root FROM proofs WHERE tree = ? "
        "ORDER BY sequence, made_at LIMIT -1 OFFSET ?",
        (tree, MAXIMUM_PER_TREE),
    ).fetchall()
    connection.executemany(_DELETE, [(tree, *key) for key in beyond])
