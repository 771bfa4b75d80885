"""The state of the network from a node with trees that anybody may have created."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest
from chain_accounts import TreeAccount
from registry_rules import CONFIG
from solders.pubkey import Pubkey

from forester.chain.programs.addresses import ACCOUNT_COMPRESSION
from forester.chain.rpc_client import Account
from forester.chain.tree_metadata import TreeKind
from forester.network_status import reader
from forester.network_status.queue_counts import QueueCounts

ITERATIONS = 264 + 56 + 32
"""Offset of the iterations of the first batch's bloom filter; the published programs accept any number."""

ADDITIONAL = 16 + 96 + 48
"""Offset of the additional bytes of the metadata of a V2 tree."""


class Node:
    """A node with these accounts, and no registration."""

    def __init__(self, accounts: Sequence[Account]) -> None:
        self.found = {account.address: account for account in accounts}

    async def slot(self) -> int:
        return 1500

    async def program_accounts(self, program: Pubkey, *, memcmp: Any, length: int | None = None) -> list[Account]:
        del length
        ((_, content), *_) = memcmp
        return [
            account
            for account in self.found.values()
            if program == ACCOUNT_COMPRESSION and account.data.startswith(content)
        ]

    async def accounts(self, addresses: Sequence[Pubkey], *, length: int | None = None) -> list[Account | None]:
        del length
        return [self.found.get(address) for address in addresses]


def changed(account: Account, offset: int, value: int) -> Account:
    data = bytearray(account.data)
    struct.pack_into("<Q", data, offset, value)
    return Account(account.address, account.owner, account.lamports, bytes(data))


@pytest.mark.parametrize("offset", [ITERATIONS, ADDITIONAL])
async def test_read_network__tree_with_values_beyond_the_bounds__is_skipped_and_the_others_are_read(
    offset: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def config(_: object) -> Any:
        return SimpleNamespace(config=CONFIG, authority=Pubkey.default())

    monkeypatch.setattr(reader, "read_protocol_config", config)
    good, bad = TreeAccount(TreeKind.STATE_V2, 1), TreeAccount(TreeKind.ADDRESS_V2, 2)
    node: Any = Node([*good.accounts(), *(changed(account, offset, 2**40) for account in bad.accounts())])
    state = await reader.read_network(node)
    assert [item.tree.address for item in state.trees] == [good.address]


async def test_queue_counts__malformed_queue__has_none_and_is_not_read_more_often_than_others() -> None:
    class Reads:
        calls = 0

        async def existing_account(self, address: Pubkey, _: str) -> Account:
            self.calls += 1
            return Account(address, ACCOUNT_COMPRESSION, 1, b"")

    client, counts = Reads(), QueueCounts(1)
    node: Any = client
    for _ in range(3):
        assert await counts.read(node, [Pubkey.default(), Pubkey(bytes([1]) * 32)]) == {}
    assert client.calls == 2 + 1 + 1
