"""Pages of queued elements, from an indexer in memory.

It follows the rules of forester/docs/reference/indexer.md, "Queue pages".
"""

from dataclasses import dataclass, field
from typing import cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from forester.indexer.client import IndexerClient
from forester.indexer.failures import AnswerWrong, IndexerRefused
from forester.indexer.queue_pages import MAXIMUM_ELEMENTS, read_address_queue, read_state_queue
from forester.indexer.types import (
    AddressQueue,
    CompressedAccount,
    Context,
    Hash32,
    InputQueue,
    Node,
    OutputQueue,
    QueueElements,
    QueueQuery,
    StateQueue,
)
from forester.indexer.validation import check_compressed_accounts, check_queue_elements

TREE = Hash32(b"\x05" * 32)
ZKP = 10


def number(value: int) -> Hash32:
    return Hash32(value.to_bytes(32, "big"))


@dataclass
class PagingIndexer:
    """Queues of so many elements, from these indices on; the root changes before the pages in ``moves``."""

    appends: int = 0
    spent: int = 0
    addresses: int = 0
    first: int = 100
    moves: tuple[int, ...] = ()
    prunes: tuple[int, ...] = ()
    most_addresses: int = 30_000
    asked: list[dict[str, QueueQuery]] = field(default_factory=list)
    root: int = 1

    async def queue_elements(
        self,
        tree: Hash32,
        *,
        output: QueueQuery | None = None,
        spent: QueueQuery | None = None,
        address: QueueQuery | None = None,
    ) -> QueueElements:
        assert tree == TREE
        asked = {"output": output, "spent": spent, "address": address}
        self.asked.append({name: query for name, query in asked.items() if query is not None})
        page = len(self.asked) - 1
        if page in self.prunes:
            message = "Validation Error: Requested start_index 5 but first_queue_index 9 is later (possible pruning)"
            raise IndexerRefused("getQueueElements", -32000, message)
        self.root += page in self.moves
        answer = QueueElements(
            context=Context(slot=page),
            state_queue=self._state(page, output, spent) if address is None else None,
            address_queue=self._address(page, address) if address is not None else None,
        )
        check_queue_elements(answer, output, spent, address)
        return answer

    def _indices(self, query: QueueQuery | None, first: int, count: int, *, cut: bool) -> range:
        if query is None:
            return range(0)
        start = first if query.start_index is None else query.start_index
        stop = min(start + query.limit, first + count)
        return range(start, stop - (stop - start) % query.zkp_batch_size if cut else max(start, stop))

    def _state(self, page: int, output: QueueQuery | None, spent: QueueQuery | None) -> StateQueue | None:
        leaves = self._indices(output, self.first, self.appends, cut=True)
        queued = self._indices(spent, self.first, self.spent, cut=True)
        if not leaves and not queued:
            return None
        hashes = tuple(number(index) for index in leaves)
        nullifiers = tuple(number(index) for index in queued)
        return StateQueue(
            nodes=(Node(index=0, hash=number(1)), Node(index=page + 1, hash=number(page))),
            initial_root=number(self.root),
            root_seq=self.root,
            output_queue=OutputQueue(
                leaf_indices=tuple(leaves),
                account_hashes=hashes,
                leaves=hashes,
                first_queue_index=leaves[0] if leaves else 0,
                next_index=leaves[0] if leaves else 0,
            ),
            input_queue=InputQueue(
                leaf_indices=tuple(index * 3 for index in queued),
                account_hashes=nullifiers,
                leaves=nullifiers,
                tx_hashes=nullifiers,
                first_queue_index=queued[0] if queued else 0,
            ),
        )

    def _address(self, page: int, query: QueueQuery) -> AddressQueue:
        if query.limit > self.most_addresses:
            message = (
                f"Validation Error: Too many addresses requested {query.limit}. Maximum allowed: {self.most_addresses}"
            )
            raise IndexerRefused("getQueueElements", -32000, message)
        queued = self._indices(query, self.first, self.addresses, cut=False)
        values = tuple(number(2 * index + 1) for index in queued)
        return AddressQueue(
            addresses=values,
            queue_indices=tuple(queued),
            nodes=(Node(index=0, hash=number(1)), Node(index=page + 1, hash=number(page))),
            low_element_indices=tuple(0 for _ in queued),
            low_element_values=tuple(number(0) for _ in queued),
            low_element_next_indices=tuple(0 for _ in queued),
            low_element_next_values=tuple(number(2**247) for _ in queued),
            initial_root=number(self.root),
            start_index=self.first + 1,
            subtrees=(),
            root_seq=self.root,
        )


async def state(indexer: PagingIndexer, appends: int, nullifies: int) -> StateQueue | None:
    client = cast("IndexerClient", indexer)
    return await read_state_queue(client, TREE, appends=appends, nullifies=nullifies, zkp_batch_size=ZKP)


async def addresses(indexer: PagingIndexer, batches: int) -> AddressQueue:
    return await read_address_queue(cast("IndexerClient", indexer), TREE, batches=batches, zkp_batch_size=ZKP)


async def test_addresses__more_than_one_page__follow_the_queue_index_without_a_gap() -> None:
    indexer = PagingIndexer(addresses=170)
    queue = await addresses(indexer, 17)
    assert queue.queue_indices == tuple(range(100, 270))
    assert queue.start_index == 101
    assert len(queue.nodes) == 5
    starts = [asked["address"].start_index for asked in indexer.asked]
    assert starts == [None, 150, 200, 250]


@settings(deadline=None, max_examples=50)
@given(st.integers(0, 200), st.integers(0, 200), st.integers(0, 15), st.integers(0, 15))
async def test_state__any_queues__give_the_whole_batches_that_were_wanted(
    appends: int, spent: int, wanted_appends: int, wanted_nullifies: int
) -> None:
    queue = await state(PagingIndexer(appends=appends, spent=spent), wanted_appends, wanted_nullifies)
    expected_appends = min(appends // ZKP, wanted_appends) * ZKP
    expected_spent = min(spent // ZKP, wanted_nullifies) * ZKP
    if not expected_appends and not expected_spent:
        assert queue is None or (queue.output_queue is None and queue.input_queue is None)
        return
    assert queue is not None
    output, nullified = queue.output_queue, queue.input_queue
    assert (output.leaf_indices if output else ()) == tuple(range(100, 100 + expected_appends))
    assert (nullified.leaf_indices if nullified else ()) == tuple(range(300, 300 + 3 * expected_spent, 3))


@settings(deadline=None, max_examples=50)
@given(st.integers(0, 200), st.integers(1, 25))
async def test_addresses__any_queue__give_what_is_there_up_to_the_batches_wanted(waiting: int, batches: int) -> None:
    queue = await addresses(PagingIndexer(addresses=waiting), batches)
    assert queue.queue_indices == tuple(range(100, 100 + min(waiting, batches * ZKP)))


async def test_pages__root_changed_between_two__keep_those_of_the_first_root() -> None:
    queue = await state(PagingIndexer(appends=200, spent=200, moves=(2,)), 20, 20)
    assert queue is not None
    assert queue.output_queue is not None
    assert len(queue.output_queue.leaf_indices) == 100
    assert queue.initial_root == number(1)
    assert len((await addresses(PagingIndexer(addresses=200, moves=(1,)), 20)).addresses) == 50


async def test_pages__pruned_between_two__keep_what_was_read_but_the_first_is_an_error() -> None:
    queue = await state(PagingIndexer(appends=200, prunes=(1,)), 20, 0)
    assert queue is not None
    assert queue.output_queue is not None
    assert len(queue.output_queue.leaf_indices) == 50
    with pytest.raises(IndexerRefused, match="possible pruning"):
        await state(PagingIndexer(appends=200, prunes=(0,)), 20, 0)


async def test_pages__nodes_that_disagree__are_refused() -> None:
    class Lying(PagingIndexer):
        def _address(self, page: int, query: QueueQuery) -> AddressQueue:
            queue = super()._address(page, query)
            return replace(queue, nodes=(Node(index=(1 << 56) + 7, hash=number(page)),))

    with pytest.raises(AnswerWrong, match="pages of one root disagree about node 7 of level 1"):
        await addresses(Lying(addresses=100), 10)


async def test_addresses__indexer_that_gives_fewer_at_once__is_asked_batch_by_batch() -> None:
    indexer = PagingIndexer(addresses=60, most_addresses=20)
    assert len((await addresses(indexer, 4)).addresses) == 40
    assert [asked["address"].limit for asked in indexer.asked] == [40, 10, 10, 10, 10]
    with pytest.raises(IndexerRefused, match="Too many addresses"):
        await addresses(PagingIndexer(addresses=60, most_addresses=5), 4)


async def test_pages__large_batches__stay_below_what_indexers_give() -> None:
    indexer = PagingIndexer(addresses=10)
    await read_address_queue(cast("IndexerClient", indexer), TREE, batches=100, zkp_batch_size=ZKP, page_batches=10**6)
    assert indexer.asked[0]["address"].limit == 1000
    await read_state_queue(
        cast("IndexerClient", indexer), TREE, appends=10**5, nullifies=0, zkp_batch_size=7, page_batches=10**6
    )
    assert indexer.asked[1]["output"].limit == MAXIMUM_ELEMENTS // 7 * 7


def test_check__queue_that_nobody_requested__is_refused() -> None:
    query = QueueQuery(ZKP, ZKP)
    both = PagingIndexer(ZKP, ZKP)._state(0, query, query)
    answer = QueueElements(context=Context(slot=0), state_queue=both)
    check_queue_elements(answer, query, query, None)
    with pytest.raises(AnswerWrong, match=r"not requested at .*inputQueue"):
        check_queue_elements(answer, query, None, None)
    with pytest.raises(AnswerWrong, match=r"not requested at .*outputQueue"):
        check_queue_elements(answer, None, query, None)


@pytest.mark.parametrize(
    ("member", "output_start", "spent_start"), [("leafIndices", 99, 100), ("firstQueueIndex", 100, 99)]
)
def test_check__page_that_begins_elsewhere__is_refused(member: str, output_start: int, spent_start: int) -> None:
    query = QueueQuery(ZKP, ZKP)
    answer = QueueElements(context=Context(slot=0), state_queue=PagingIndexer(ZKP, ZKP)._state(0, query, query))
    begun = [QueueQuery(ZKP, ZKP, start_index=start) for start in (100, output_start, spent_start)]
    check_queue_elements(answer, begun[0], begun[0], None)
    with pytest.raises(AnswerWrong, match=rf"begins at 100 where 99 was requested at .*{member}"):
        check_queue_elements(answer, begun[1], begun[2], None)


def test_check__accounts_at_addresses__are_those_or_absent() -> None:
    accounts = [None, CompressedAccount(number(1), number(8))]
    check_compressed_accounts("getCompressedAccount", accounts, [number(7), number(8)])
    with pytest.raises(AnswerWrong, match=r"items\[1\]\.address"):
        check_compressed_accounts("getCompressedAccount", accounts, [number(7), number(9)])
    with pytest.raises(AnswerWrong, match="2 items where 1 were requested"):
        check_compressed_accounts("getCompressedAccount", accounts, [number(7)])
