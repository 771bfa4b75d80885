"""Random user actions and batches: roots as other code computes them, and the same rows however they came about."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from indexer_chain import ADDRESSES, STATE, SimulatedChain, enter_trees, rows

from localnet.indexer.database.store import Store
from localnet.indexer.database.trees import all_trees, find_tree
from localnet.indexer.decoding.source import Block
from localnet.indexer.following.engine import ChainNotUnderstood, Engine


@contextmanager
def new_engine() -> Iterator[Engine]:
    with TemporaryDirectory() as folder, closing(Store(Path(folder) / "indexer.sqlite")) as store:
        enter_trees(store)
        yield Engine(store)


def check_roots(engine: Engine, expected: dict[bytes, bytes]) -> None:
    with engine.store.read() as connection:
        for tree in all_trees(connection):
            assert tree.broken is None
            assert tree.root == expected[tree.key]
            assert tree.nodes(connection).root == expected[tree.key]


@given(st.integers(0, 2**32))
@settings(max_examples=2, deadline=None)
def test_apply__random_chain__every_root_is_that_of_the_reference_trees(seed: int) -> None:
    chain = SimulatedChain(seed)
    chain.grow(80)
    with new_engine() as engine:
        for block, roots in zip(chain.blocks, chain.roots, strict=True):
            engine.apply_block(block)
            check_roots(engine, roots)
        with engine.store.read() as connection:
            tree, addresses = find_tree(connection, STATE), find_tree(connection, ADDRESSES)
        assert tree is not None
        assert addresses is not None
        assert tree.input_next - tree.nullifier_next == len(chain.nullifiers)
        assert tree.output_next - tree.next_index == len(chain.queued) - chain.state.next_index
        assert addresses.address_next - (addresses.next_index - 1) == len(chain.waiting)


@given(st.integers(0, 2**32))
@settings(max_examples=2, deadline=None)
def test_apply__blocks_that_grow_repeat_and_resume__give_the_rows_of_a_rebuild(seed: int) -> None:
    chain = SimulatedChain(seed)
    chain.grow(60)
    numbers = random.Random(seed)
    with new_engine() as live, new_engine() as rebuilt:
        for block in chain.blocks:
            cut = numbers.randint(0, len(block.transactions))
            live.apply_block(replace(block, transactions=block.transactions[:cut]))
            resumed = Engine(live.store)
            resumed.apply_block(block)
            resumed.apply_block(block)
            live.advance(block.slot + numbers.randint(0, 2))
        live.apply_block(chain.blocks[0])
        for block in chain.blocks:
            rebuilt.apply_block(block)
        rebuilt.advance(live.slot)
        assert rows(rebuilt.store) == rows(live.store)


def test_apply__transaction_missing__stops_and_applies_nothing_of_the_block() -> None:
    chain = SimulatedChain(7)
    chain.grow(40)
    with new_engine() as engine:
        missing = next(
            number
            for number, block in enumerate(chain.blocks)
            if block.transactions[0].error is None and len(block.transactions[0].groups[0][0].data) > 100
        )
        for block in chain.blocks[:missing]:
            engine.apply_block(block)
        cut = replace(chain.blocks[missing], transactions=chain.blocks[missing].transactions[1:])
        with pytest.raises(ChainNotUnderstood, match=r"where|never created"):
            apply_until_refused(engine, [cut, *chain.blocks[missing + 1 :]])


def apply_until_refused(engine: Engine, blocks: list[Block]) -> None:
    for block in blocks:
        before = rows(engine.store)
        try:
            engine.apply_block(block)
        except ChainNotUnderstood:
            assert rows(engine.store) == before
            raise


def test_continues__another_chain__is_distinguished() -> None:
    chain = SimulatedChain(1)
    chain.grow(20)
    with new_engine() as engine:
        assert engine.continues(None)
        for block in chain.blocks:
            engine.apply_block(block)
        last = chain.blocks[-1]
        assert engine.continues(last)
        assert not engine.continues(None)
        assert not engine.continues(replace(last, hash=b"\xff" * 32))
        assert not engine.continues(replace(last, transactions=last.transactions[:-1]))
