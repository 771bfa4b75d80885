"""Elements of V1 queues, which have no counter: counting requires the whole account of 1.4 MB."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from solders.pubkey import Pubkey

from forester.chain import concurrent_accounts
from forester.chain.rpc_client import RpcClient
from forester.errors import MalformedAccount

_AT_ONCE = 4


@dataclass(frozen=True)
class QueueCount:
    """A V1 queue: elements that wait, and cells."""

    pending: int
    cells: int


class QueueCounts:
    """Counts of V1 queues, of which every call reads the ``per_call`` oldest again (None: all).

    A queue that has never been read is read at once. One that is malformed has no count.
    """

    def __init__(self, per_call: int | None = None) -> None:
        self._per_call = per_call
        self._counts: dict[Pubkey, QueueCount | None] = {}

    async def read(self, client: RpcClient, queues: Sequence[Pubkey]) -> dict[Pubkey, QueueCount]:
        """Return the counts of ``queues``; AccountMissing if one does not exist, EndpointError."""
        wanted = set(queues)
        known = [address for address in self._counts if address in wanted]
        new = [address for address in dict.fromkeys(queues) if address not in self._counts]
        oldest = known if self._per_call is None else known[: max(0, self._per_call - len(new))]
        room = asyncio.Semaphore(_AT_ONCE)
        read = dict(await asyncio.gather(*(_read(client, address, room) for address in [*new, *oldest])))
        # In the order of their age: those just read come last.
        self._counts = {address: self._counts[address] for address in known if address not in read} | read
        return {address: count for address, count in self._counts.items() if count is not None}


async def _read(client: RpcClient, address: Pubkey, room: asyncio.Semaphore) -> tuple[Pubkey, QueueCount | None]:
    async with room:
        account = await client.existing_account(address, "a V1 queue")
        try:
            return address, await asyncio.to_thread(_count, account.data)
        except MalformedAccount:
            return address, None


def _count(data: bytes) -> QueueCount:
    pending = sum(1 for _ in concurrent_accounts.pending_cells(data))
    return QueueCount(pending, concurrent_accounts.decode_queue(data).capacity)
