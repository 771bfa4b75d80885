"""Accounts of trees and queues made to measure, laid out as the programs do (forester/docs/reference/accounts.md)."""

from __future__ import annotations

import struct
from dataclasses import dataclass, field

from solders.pubkey import Pubkey

from forester.chain.programs.addresses import ACCOUNT_COMPRESSION
from forester.chain.rpc_client import Account
from forester.chain.tree_metadata import (
    ADDRESS_TREE_V1_DISCRIMINATOR,
    BATCHED_TREE_DISCRIMINATOR,
    OUTPUT_QUEUE_DISCRIMINATOR,
    QUEUE_V1_DISCRIMINATOR,
    STATE_TREE_V1_DISCRIMINATOR,
    TreeKind,
)

GROUP = Pubkey(bytes([200]) * 32)


def address(number: int) -> Pubkey:
    return Pubkey(bytes([number]) * 32)


@dataclass(frozen=True)
class TreeAccount:
    """A tree; ``ready`` filled zkp batches wait in its own queue, ``ready_output`` in its output queue.

    ``waiting`` cells of a V1 queue are occupied.
    """

    kind: TreeKind
    number: int
    owner: Pubkey = GROUP
    network_fee: int = 5000
    rolledover_slot: int = 2**64 - 1
    ready: int = 0
    ready_output: int = 0
    waiting: int = 0
    next_index: int = field(default=0)

    @property
    def address(self) -> Pubkey:
        return address(self.number)

    @property
    def queue(self) -> Pubkey:
        return Pubkey.default() if self.kind is TreeKind.ADDRESS_V2 else address(self.number + 100)

    def accounts(self) -> list[Account]:
        found = [Account(self.address, ACCOUNT_COMPRESSION, 1, self._tree())]
        if self.kind is not TreeKind.ADDRESS_V2:
            found.append(Account(self.queue, ACCOUNT_COMPRESSION, 1, self._queue()))
        return found

    def _metadata(self, associated: Pubkey) -> bytes:
        numbers = (0, 1, 95, self.network_fee, self.rolledover_slot, 0, 0)
        keys = (bytes(self.owner), bytes(32), bytes(32))
        return struct.pack("<32s32s32s7Q32s32s", *keys, *numbers, bytes(associated), bytes(32))

    def _tree(self) -> bytes:
        if self.kind.is_batched:
            data = bytearray(704)
            data[:16] = BATCHED_TREE_DISCRIMINATOR + struct.pack("<Q", self.kind.value)
            data[16:232] = self._metadata(self.queue)
            height = self.kind.height
            struct.pack_into("<QQIIQ", data, 232, 1, self.next_index, height, 200, 2**height)
            data[264:512] = _batches(self.ready)
            struct.pack_into("<3Q", data, 680, 1, 1, 200)
            return bytes(data)
        state = self.kind is TreeKind.STATE_V1
        discriminator = STATE_TREE_V1_DISCRIMINATOR if state else ADDRESS_TREE_V1_DISCRIMINATOR
        return (discriminator + self._metadata(self.queue)).ljust(384, b"\0")

    def _queue(self) -> bytes:
        if self.kind is TreeKind.STATE_V2:
            body = OUTPUT_QUEUE_DISCRIMINATOR + self._metadata(self.address) + bytes(8)
            return (body[:232] + _batches(self.ready_output)).ljust(704, b"\0")
        head = (QUEUE_V1_DISCRIMINATOR + self._metadata(self.address)).ljust(232, b"\0")
        cells = b"".join(struct.pack("<QQ32s", int(index >= self.waiting), 0, bytes(32)) for index in range(4))
        return head + struct.pack("<QQ", 4, 2400).ljust(24, b"\0") + cells


def _batches(ready: int) -> bytes:
    batch = struct.pack("<11QIBB2x", 0, 0, ready, 0, 3, 80, 50, 10, 0, 0, 0, 0, 0, 0)
    rest = struct.pack("<11QIBB2x", 0, 0, 0, 0, 3, 80, 50, 10, 0, 0, 0, 0, 0, 0)
    return struct.pack("<7Q", 2, 50, 10, 80, 0, 0, ready * 10) + batch + rest
