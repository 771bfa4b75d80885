"""Expected output of `forester status` for V2 queues: counters from the bytes of the accounts.

Source: forester/docs/reference/accounts.md.
"""

from __future__ import annotations

import base64
import re
import struct
from dataclasses import dataclass

from localnet_process import Localnet
from solders.pubkey import Pubkey

_COUNTERS = (
    "next_index",
    "total_completed_operations",
    "total_unprocessed_items",
    "pending_batch_index",
    "zkp_batch_size",
)
_STATES = ("fill", "inserted", "full")


@dataclass(frozen=True)
class Queue:
    """The header of a queue at ``start``, and its two batches behind it."""

    data: bytes
    start: int

    def header(self, place: int) -> int:
        return int(struct.unpack_from("<Q", self.data, self.start + 8 * place)[0])

    def batch(self, number: int) -> tuple[int, int, int, int]:
        """Return elements of the open zkp batch, state, full and inserted zkp batches."""
        found: tuple[int, int, int, int] = struct.unpack_from("<4Q", self.data, self.start + 56 + 96 * number)
        return found

    @property
    def pending(self) -> int:
        size = self.header(2)
        return sum((full - inserted) * size + left for left, _, full, inserted in map(self.batch, (0, 1)))

    @property
    def lines(self) -> list[str]:
        """The counters of a section, with those of operations that are completed."""
        added, size = self.header(6), self.header(2)
        values = (added, added - self.pending, self.pending, self.header(5), size)
        lines = [f"{name}: {value}" for name, value in zip(_COUNTERS, values, strict=True)]
        lines.append(f"queue_capacity: {self.header(0) * self.header(1)}")
        for number in (0, 1):
            left, state, full, inserted = self.batch(number)
            lines.append(
                f"batch {number}: {_STATES[state]}, {inserted} of {full} full zkp batches inserted "
                f"({self.header(1) // size} in all), {left} items in the open one"
            )
        return lines

    @property
    def summary(self) -> str:
        added = self.header(6)
        return f"SUMMARY: {added} items added, {added - self.pending} items processed, {self.pending} items pending"


def data_of(net: Localnet, address: str) -> bytes:
    value = net.call("getAccountInfo", address, {"encoding": "base64"})["value"]
    return base64.b64decode(value["data"][0])


def check_queue_blocks(net: Localnet, text: str) -> dict[str, int]:
    """Compare the block of every V2 tree, line by line; returns the items processed by section."""
    processed = {"APPEND": 0, "NULLIFY": 0, "ADDRESS": 0}
    for kind, address, block in re.findall(r"^(StateV2|AddressV2) (\w+)\n((?:  .*\n)+)", text, flags=re.MULTILINE):
        data = data_of(net, address)
        into = Queue(data, 264)
        if kind == "AddressV2":
            expected = [line for line in into.lines if "completed" not in line]
            assert block.splitlines() == [
                *(f"  {line}" for line in expected),
                f"  Total pending ADDRESS operations: {into.pending}",
            ]
            processed["ADDRESS"] += into.header(6) - into.pending
            continue
        out = Queue(data_of(net, str(Pubkey(data[168:200]))), 232)
        lines = []
        for name, queue in (("APPEND", out), ("NULLIFY", into)):
            lines += [f"  {name}", *(f"    {line}" for line in (*queue.lines, queue.summary))]
            processed[name] += queue.header(6) - queue.pending
        assert block.splitlines() == lines
    return processed
