"""The network of proof requests: of the setting, else of the genesis hash, which is read once."""

from __future__ import annotations

import pytest

from forester.daemon.prover_network import NetworkOfCluster
from forester.errors import EndpointUnreachable
from forester.settings.model import ProverNetwork

MAINNET = "5eykt4UsFv8P8NJdTREpY1vzqKqZKvdpKuc147dw2N9d"
DEVNET = "EtWTRABZaYq6iMfeYKouRu166VU2xqa1wcaWoxPkrZBG"
TESTNET = "4uhcVJyU9pJkvQyS88uRDiswHXSCkY3zQawwpjk2NsNY"


class Node:
    """A node that reports a genesis hash, after some failures."""

    def __init__(self, genesis: str, failures: int = 0) -> None:
        self.genesis = genesis
        self.failures = failures
        self.calls = 0

    async def genesis_hash(self) -> str:
        self.calls += 1
        if self.calls <= self.failures:
            raise EndpointUnreachable("the node does not answer")
        return self.genesis


@pytest.mark.parametrize(
    ("genesis", "network"), [(MAINNET, "mainnet"), (DEVNET, "devnet"), (TESTNET, None), ("a local one", None)]
)
async def test_network__not_chosen__is_that_of_the_genesis_hash_read_once(genesis: str, network: str | None) -> None:
    node = Node(genesis)
    find = NetworkOfCluster(None, node.genesis_hash)
    assert [await find() for _ in range(3)] == [network] * 3
    assert node.calls == 1


@pytest.mark.parametrize(("chosen", "network"), [("mainnet", "mainnet"), ("devnet", "devnet"), ("none", None)])
async def test_network__chosen__is_used_whatever_the_cluster(chosen: ProverNetwork, network: str | None) -> None:
    node = Node(MAINNET if chosen != "mainnet" else DEVNET)
    assert await NetworkOfCluster(chosen, node.genesis_hash)() == network
    assert node.calls == 0


async def test_network__while_the_node_does_not_answer__is_read_again_by_the_next_request() -> None:
    node = Node(DEVNET, failures=1)
    find = NetworkOfCluster(None, node.genesis_hash)
    with pytest.raises(EndpointUnreachable):
        await find()
    assert await find() == "devnet"
