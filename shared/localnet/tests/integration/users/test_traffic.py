"""Traffic as users send it: the programs accept every kind, and errors name what stopped it."""

from __future__ import annotations

from dataclasses import replace

import pytest
from chains import simulated_artefacts
from solders.pubkey import Pubkey

from localnet.chain import addresses
from localnet.chain.network import Network
from localnet.users.proofs import NoProof, RootedProof, SimulatedProofs
from localnet.users.traffic import Traffic, TrafficImpossible, TrafficStopped


def queued(network: Network, key: Pubkey = addresses.OUTPUT_QUEUE, at: int = 280) -> int:
    account = network.account(key)
    assert account is not None
    return int.from_bytes(account.data[at : at + 8], "little")


@pytest.fixture
def traffic() -> Traffic:
    network = Network(simulated_artefacts())
    return Traffic(network, SimulatedProofs(network))


async def test_run__every_kind__ends_up_in_its_queue(traffic: Traffic) -> None:
    network = traffic.network
    assert await traffic.run("compress", 25) == 25
    assert queued(network) == 25
    assert await traffic.run("spend", 12) == 12
    assert queued(network) == 27
    assert queued(network, addresses.STATE_TREE, 312) == 12
    assert await traffic.run("addresses", 3) == 3
    assert queued(network, addresses.ADDRESS_TREE, 312) == 3
    assert await traffic.run("v1_compress", 4) == 4
    assert queued(network, addresses.STATE_TREE_V1, 240) == 4
    assert await traffic.run("v1_spend", 2) == 2
    assert queued(network, addresses.STATE_TREE_V1, 240) == 6
    before = network.account(addresses.ADDRESS_QUEUE_V1)
    assert await traffic.run("v1_addresses", 3) == 3
    assert network.account(addresses.ADDRESS_QUEUE_V1) != before


async def test_run__queue_full__stops_with_the_code(traffic: Traffic) -> None:
    with pytest.raises(TrafficStopped) as stopped:
        await traffic.run("compress", 130)
    assert stopped.value.done == 100
    assert stopped.value.err == {"InstructionError": [1, {"Custom": 14301}]}


async def test_run__nothing_to_spend__is_impossible(traffic: Traffic) -> None:
    with pytest.raises(TrafficImpossible, match="2 accounts are to be spent and 0 are there"):
        await traffic.run("spend", 2)


async def test_run__no_proof_for_the_second__reports_that_one_is_done(traffic: Traffic) -> None:
    class OneProof(SimulatedProofs):
        given = 0

        async def of_leaf(self, leaf: bytes) -> RootedProof:
            OneProof.given += 1
            if OneProof.given > 1:
                raise NoProof("no proof: the prover cannot be reached")
            return await super().of_leaf(leaf)

    await traffic.run("v1_compress", 3)
    traffic.proofs = OneProof(traffic.network)
    with pytest.raises(TrafficStopped, match="after 1: no proof: the prover cannot be reached"):
        await traffic.run("v1_spend", 2)
    traffic.proofs = SimulatedProofs(traffic.network)
    assert await traffic.run("v1_spend", 3) == 3


async def test_run__refused_spending__leaves_the_accounts_to_spend(traffic: Traffic) -> None:
    class OtherRoot(SimulatedProofs):
        async def of_leaf(self, leaf: bytes) -> RootedProof:
            return replace(await super().of_leaf(leaf), root_index=1999)

    await traffic.run("compress", 100)
    with pytest.raises(TrafficStopped):  # its output has no room in the queue
        await traffic.run("spend", 5)
    assert len(traffic.queued) == 100
    await traffic.run("v1_compress", 2)
    traffic.proofs = OtherRoot(traffic.network)
    with pytest.raises(TrafficStopped):
        await traffic.run("v1_spend", 1)
    traffic.proofs = SimulatedProofs(traffic.network)
    assert await traffic.run("v1_spend", 2) == 2


async def test_run__after_a_fork__forgets_what_is_gone(traffic: Traffic) -> None:
    state = traffic.network.state()
    await traffic.run("compress", 5)
    traffic.network.restore(state)
    with pytest.raises(TrafficImpossible, match="0 are there"):
        await traffic.run("spend", 1)
    assert await traffic.run("compress", 5) == 5
