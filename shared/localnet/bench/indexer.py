"""Memory, disk and time of the indexer for large state trees.

Fills the output queue of one V2 state tree with generated leaves, appends all of them in batches, nullifies some at
random positions, and reads a page of each queue. Leaves come as events: parsing, and hashing of accounts, are measured
separately, with ``--transactions`` generated user transactions. Run it on an otherwise idle machine, with the
interpreter of localnet's environment: ``python shared/localnet/bench/indexer.py --leaves 1000000``.
"""

from __future__ import annotations

import argparse
import random
import resource
import sqlite3
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import msgspec

from localnet.indexer.api.params import Hash, QueueElements, QueuePart
from localnet.indexer.api.queues import get_queue_elements
from localnet.indexer.api.shapes import Snapshot
from localnet.indexer.database.store import Store
from localnet.indexer.database.trees import Tree, add_default_tree, find_tree, save_tree
from localnet.indexer.following.engine import Engine
from localnet.indexer.programs import TreeType

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from indexer_chain import SimulatedChain, enter_trees

TREE, QUEUE = b"t" * 32, b"q" * 32
BATCH = 500
CHUNK = 50_000


@contextmanager
def timed(what: str, units: int, unit: str) -> Iterator[None]:
    started, processor = time.perf_counter(), time.process_time()
    yield
    wall, busy = time.perf_counter() - started, time.process_time() - processor
    print(f"{what:34} {wall:8.2f} s {busy:8.2f} s CPU {units / wall:12,.0f} {unit}/s")


def fill(store: Store, leaves: int, numbers: random.Random) -> None:
    """Queue leaves without accounts."""
    for start in range(0, leaves, CHUNK):
        with store.write() as connection:
            tree = known_tree(connection)
            rows = [
                (b"\0" + numbers.randbytes(31), tree.id, index, 1) for index in range(start, min(start + CHUNK, leaves))
            ]
            connection.executemany("INSERT INTO accounts (hash, tree, leaf_index, slot) VALUES (?, ?, ?, ?)", rows)
            tree.output_next += len(rows)
            save_tree(connection, tree)


def known_tree(connection: sqlite3.Connection) -> Tree:
    found = find_tree(connection, TREE)
    if found is None:
        raise SystemExit("the store has no tree")
    return found


def append(store: Store, leaves: int) -> None:
    """Append everything, a batch and a transaction at a time."""
    for start in range(0, leaves, BATCH):
        with store.write() as connection:
            tree = known_tree(connection)
            rows = connection.execute(
                "SELECT leaf_index, hash FROM accounts WHERE tree = ? AND leaf_index >= ? AND leaf_index < ?",
                (tree.id, start, start + BATCH),
            )
            tree.root = tree.nodes(connection).write(dict(rows.fetchall()))
            tree.next_index, tree.sequence = min(start + BATCH, leaves), tree.sequence + 1
            save_tree(connection, tree)


def nullify(store: Store, leaves: int, batches: int, numbers: random.Random) -> None:
    """Overwrite leaves at random positions, one batch and one transaction at a time."""
    for _ in range(batches):
        places = {numbers.randrange(leaves): b"\0" + numbers.randbytes(31) for _ in range(BATCH)}
        with store.write() as connection:
            tree = known_tree(connection)
            tree.root = tree.nodes(connection).write(places)
            save_tree(connection, tree)


def page(store: Store, count: int) -> tuple[int, int, int]:
    """Ask for a page of the input queue of leaves at random places; its elements, nodes, and bytes as JSON."""
    with store.read() as connection:
        part = QueuePart(limit=count, zkp_batch_size=BATCH)
        answer = get_queue_elements(Snapshot.of(connection), QueueElements(tree=Hash(TREE), input_queue=part))
    state = answer["stateQueue"]
    return len(state["inputQueue"]["leafIndices"]), len(state["nodes"]), len(msgspec.json.encode(answer))


def spend(store: Store, leaves: int, count: int, numbers: random.Random) -> None:
    with store.write() as connection:
        tree = known_tree(connection)
        places = numbers.sample(range(leaves), count)
        connection.executemany(
            "UPDATE accounts SET spent = 1, tx_hash = hash, nullifier = hash, queue_index = ?"
            " WHERE tree = ? AND leaf_index = ?",
            [(number, tree.id, place) for number, place in enumerate(places)],
        )
        tree.input_next = count
        save_tree(connection, tree)


def user_transactions(folder: Path, count: int) -> None:
    chain = SimulatedChain(0)
    chain.grow(count)
    with closing(Store(folder / "transactions.sqlite")) as store:
        enter_trees(store)
        engine = Engine(store)
        with timed("transactions and small batches", count, "transactions"):
            for block in chain.blocks:
                engine.apply_block(block)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--leaves", type=int, default=100_000, help="leaves of the tree")
    parser.add_argument("--nullify-batches", type=int, default=5, help=f"random batches of {BATCH} to nullify")
    parser.add_argument("--page", type=int, default=2500, help="elements of the page that is read")
    parser.add_argument("--transactions", type=int, default=200, help="user transactions and batches to parse")
    options = parser.parse_args()
    numbers = random.Random(0)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with closing(Store(folder / "indexer.sqlite")) as store:
            with store.write() as connection:
                add_default_tree(connection, TREE, TreeType.STATE_V2, QUEUE)
            with timed("queue leaves", options.leaves, "leaves"):
                fill(store, options.leaves, numbers)
            with timed("append", options.leaves, "leaves"):
                append(store, options.leaves)
            with timed("nullify at random", options.nullify_batches * BATCH, "leaves"):
                nullify(store, options.leaves, options.nullify_batches, numbers)
            spend(store, options.leaves, options.page, numbers)
            with timed(f"page of {options.page} scattered elements", options.page, "elements"):
                elements, nodes, length = page(store, options.page)
            with store.read() as connection:
                (stored,) = connection.execute("SELECT count(*) FROM nodes").fetchone()
        size = (folder / "indexer.sqlite").stat().st_size
        user_transactions(folder, options.transactions)
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    million = 1_000_000 / options.leaves
    print(f"{elements:,} elements and {nodes:,} nodes in the page, {length / 1e6:,.1f} MB; {stored:,} nodes stored")
    print(
        f"file {size / 2**20:,.0f} MiB, {size * million / 2**20:,.0f} MiB per million leaves; memory {memory:,.0f} MiB"
    )


if __name__ == "__main__":
    main()
