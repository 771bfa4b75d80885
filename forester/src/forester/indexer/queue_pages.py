"""Queued elements merged from several pages, all of one root.

State pages begin at the first element of the first page plus the number read; address pages after the last queue index
that was seen, because the answer's ``start_index`` counts differently (forester/docs/reference/indexer.md, "Queue
pages"). Reading stops at a short page and at the first page of another root: earlier pages stay usable. Together they
may have hundreds of thousands of nodes, so they are merged in a thread.
"""

import asyncio
from collections.abc import Sequence
from typing import TypeVar

from msgspec.structs import replace

from forester.indexer.client import IndexerClient
from forester.indexer.failures import AnswerWrong, IndexerRefused
from forester.indexer.types import AddressQueue, Hash32, InputQueue, Node, OutputQueue, QueueQuery, StateQueue
from forester.indexer.validation import LEVEL_BITS

_Q = TypeVar("_Q", OutputQueue, InputQueue, AddressQueue)

PAGE_BATCHES = 5
MAXIMUM_ELEMENTS = 30_000
"""Maximum elements that any indexer returns at once."""


async def read_state_queue(
    client: IndexerClient,
    tree: Hash32,
    *,
    appends: int,
    nullifies: int,
    zkp_batch_size: int,
    page_batches: int = PAGE_BATCHES,
) -> StateQueue | None:
    """Return up to this many batches of both queues of a state tree; None if neither has a full batch."""
    page = _page_size(zkp_batch_size, page_batches)
    pages: list[StateQueue] = []
    wanted = {"output": appends * zkp_batch_size, "spent": nullifies * zkp_batch_size}
    starts: dict[str, int | None] = {"output": None, "spent": None}
    while queries := _queries(wanted, starts, page, zkp_batch_size):
        try:
            answer = (await client.queue_elements(tree, **queries)).state_queue
        except IndexerRefused as error:
            if not pages or not error.pruned:
                raise
            break  # the tree moved on between two pages
        if answer is None or (pages and not _same_root(pages[0], answer)):
            break
        pages.append(answer)
        for name, queue in (("output", answer.output_queue), ("spent", answer.input_queue)):
            read = len(queue.leaf_indices) if queue is not None and name in queries else 0
            requested = queries[name].limit if name in queries else 0
            wanted[name] = wanted[name] - read if read and read == requested else 0
            starts[name] = queue.first_queue_index + read if queue is not None else None
    return await asyncio.to_thread(_merged_state, pages) if pages else None


async def read_address_queue(
    client: IndexerClient, tree: Hash32, *, batches: int, zkp_batch_size: int, page_batches: int = PAGE_BATCHES
) -> AddressQueue:
    """Return up to this many batches of addresses of a tree, at least one; the last one may be incomplete."""
    if batches < 1:
        raise ValueError(f"{batches} batches of addresses cannot be read; read at least one")
    page = _page_size(zkp_batch_size, page_batches)
    wanted, start = batches * zkp_batch_size, None
    pages: list[AddressQueue] = []
    while wanted > 0:
        query = QueueQuery(min(wanted, page), zkp_batch_size, start)
        try:
            answer = (await client.queue_elements(tree, address=query)).address_queue
        except IndexerRefused as error:
            if not error.too_many or page == zkp_batch_size:
                raise
            page = zkp_batch_size  # some indexers return 500 addresses at most
            continue
        if answer is None:
            raise AnswerWrong("getQueueElements", "$.result.addressQueue", "missing")
        if pages and (not answer.addresses or not _same_root(pages[0], answer)):
            break
        pages.append(answer)
        if len(answer.addresses) < query.limit:
            break
        wanted -= len(answer.addresses)
        start = answer.queue_indices[-1] + 1
    return await asyncio.to_thread(_merged_addresses, pages)


def _page_size(zkp_batch_size: int, page_batches: int) -> int:
    return zkp_batch_size * max(1, min(page_batches, MAXIMUM_ELEMENTS // zkp_batch_size))


def _queries(
    wanted: dict[str, int], starts: dict[str, int | None], page: int, zkp_batch_size: int
) -> dict[str, QueueQuery]:
    return {
        name: QueueQuery(min(count, page), zkp_batch_size, starts[name]) for name, count in wanted.items() if count > 0
    }


def _same_root(first: StateQueue | AddressQueue, other: StateQueue | AddressQueue) -> bool:
    return (first.initial_root, first.root_seq) == (other.initial_root, other.root_seq)


def _merged_state(pages: list[StateQueue]) -> StateQueue:
    outputs = [page.output_queue for page in pages if page.output_queue is not None and page.output_queue.leaf_indices]
    inputs = [page.input_queue for page in pages if page.input_queue is not None and page.input_queue.leaf_indices]
    return replace(
        pages[0],
        nodes=_merged_nodes([page.nodes for page in pages]),
        output_queue=_with_columns(outputs) if outputs else None,
        input_queue=_with_columns(inputs) if inputs else None,
    )


def _merged_addresses(pages: list[AddressQueue]) -> AddressQueue:
    return _with_columns(
        pages,
        nodes=_merged_nodes([page.nodes for page in pages]),
        subtrees=pages[0].subtrees,
    )


def _with_columns(pages: Sequence[_Q], **others: object) -> _Q:
    """Return the first page with the columns of all, except ``others``."""
    names = [name for name in pages[0].__struct_fields__ if isinstance(getattr(pages[0], name), tuple)]
    columns = {
        name: tuple(value for page in pages for value in getattr(page, name)) for name in names if name not in others
    }
    return replace(pages[0], **columns, **others)


def _merged_nodes(pages: Sequence[tuple[Node, ...]]) -> tuple[Node, ...]:
    nodes: dict[int, Node] = {}
    for page in pages:
        for node in page:
            if nodes.setdefault(node.index, node).hash != node.hash:
                level, position = divmod(node.index, 1 << LEVEL_BITS)
                reason = f"pages of one root disagree about node {position} of level {level}"
                raise AnswerWrong("getQueueElements", "$.result", reason)
    return tuple(nodes.values())
