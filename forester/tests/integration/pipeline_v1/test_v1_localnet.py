"""Queues of V1 drained against the published programs: proofs that are old, wrong or late, and a second forester."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
from localnet_forester import Kit, forester_on
from localnet_process import Localnet, running_localnet
from solders.keypair import Keypair
from solders.pubkey import Pubkey

from forester.chain import concurrent_accounts
from forester.chain.concurrent_accounts import QueueCell
from forester.pipeline_v1.failures import ProofsUnusable
from forester.pipeline_v1.indexer_proofs import IndexerProofs, Proof, ProofSource
from forester.pipeline_v1.processor import V1Options, V1Processor
from forester.scheduling.eligibility_window import EligibilityWindow, ProcessingResult

STATE_TREE = Pubkey.from_string("smt1NamzXdq4AMqS2fS2F1i5KTYPZRhoHgWx38d8WsT")
ADDRESS_TREE = Pubkey.from_string("amt1Ayt45jfbdw5YSo7iz6WZxUmnZsQTYXy82hVwyC2")


@pytest.fixture
def net() -> Iterator[Localnet]:
    with running_localnet() as localnet:
        yield localnet


@dataclass
class Spied:
    """Proofs of the indexer, kept, and changed as a test wants it."""

    source: ProofSource
    asked: list[int] = field(default_factory=list)
    spoil: bool = False
    contradictions: int = 0

    async def of(self, cells: Sequence[QueueCell]) -> list[Proof]:
        self.asked.append(len(cells))
        proofs = await self.source.of(cells)
        if not self.spoil:
            return proofs
        return [replace(proof, siblings=(bytes(31) + b"\x01", *proof.siblings[1:])) for proof in proofs]

    def contradicted(self) -> None:
        self.contradictions += 1


async def processor(kit: Kit, address: Pubkey, options: V1Options | None = None) -> tuple[V1Processor, Spied]:
    tree = await kit.tree(address)
    proofs = Spied(IndexerProofs(kit.indexer, tree, kit.metrics))
    made = V1Processor(tree, rpc=kit.rpc, proofs=proofs, sender=kit.sender, derivation=kit.pubkey, options=options)
    return made, proofs


async def waiting(kit: Kit, address: Pubkey) -> list[QueueCell]:
    tree = await kit.tree(address)
    return list(concurrent_accounts.pending_cells(await kit.data(tree.queue)))


async def head(kit: Kit, address: Pubkey) -> concurrent_accounts.ConcurrentTree:
    return concurrent_accounts.decode_tree(await kit.data(address))


async def test_nullifiers__of_several_groups__are_all_moved_in_one_round(net: Localnet, tmp_path: Path) -> None:
    async with forester_on(net, tmp_path) as kit:
        await kit.register()
        net.call("localnet_seed", {"v1_compress": 20, "v1_spend": 7})
        work, proofs = await processor(kit, STATE_TREE, V1Options(group=3))
        before = await head(kit, STATE_TREE)
        done = await kit.moving(work.work(kit.window))
        assert (done.elements, done.transactions, done.more, done.failure) == (7, 7, False, None)
        assert sorted(proofs.asked) == [1, 3, 3]
        assert await waiting(kit, STATE_TREE) == []
        assert (await head(kit, STATE_TREE)).sequence_number == before.sequence_number + 7


async def test_addresses__with_the_same_low_element__go_together_with_proofs_made_before_the_window(
    net: Localnet, tmp_path: Path
) -> None:
    async with forester_on(net, tmp_path) as kit:
        await kit.register()
        net.call("localnet_seed", {"v1_addresses": 9})
        work, proofs = await processor(kit, ADDRESS_TREE)
        await kit.moving(work.prepare(kit.window))
        net.call("localnet_seed", {"v1_addresses": 1})
        done = await kit.moving(work.work(kit.window))
        assert (done.elements, done.more, done.failure) == (10, False, None)
        assert proofs.asked == [9, 1], "what was proved before the window is not proved again"
        assert await waiting(kit, ADDRESS_TREE) == []
        assert (await head(kit, ADDRESS_TREE)).next_index == 12


async def test_proofs__that_do_not_lead_to_a_root_of_the_chain__cost_no_fee_and_lead_to_the_other_indexer(
    net: Localnet, tmp_path: Path
) -> None:
    async with forester_on(net, tmp_path) as kit:
        await kit.register()
        net.call("localnet_seed", {"v1_compress": 3, "v1_spend": 2})
        work, proofs = await processor(kit, STATE_TREE)
        balance = await kit.rpc.balance(kit.pubkey)
        proofs.spoil = True
        done = await kit.moving(work.work(kit.window))
        assert (done.elements, done.more) == (0, True)
        assert isinstance(done.failure, ProofsUnusable)
        assert await kit.rpc.balance(kit.pubkey) == balance
        assert proofs.contradictions == 1
        proofs.spoil = False
        assert (await kit.moving(work.work(kit.window))).elements == 2
        assert proofs.contradictions == 1


async def test_elements__moved_by_another_forester_meanwhile__count_as_gone(net: Localnet, tmp_path: Path) -> None:
    async with forester_on(net, tmp_path / "first") as kit, forester_on(net, tmp_path / "second") as other:
        await kit.register()
        net.call("localnet_seed", {"v1_compress": 6, "v1_spend": 4})
        mine, theirs = (await processor(kit, STATE_TREE))[0], (await processor(other, STATE_TREE))[0]
        rounds = await kit.moving(both(mine, theirs, kit.window))
        assert sum(done.elements for done in rounds) == 4
        assert [done.failure for done in rounds] == [None, None]
        assert await waiting(kit, STATE_TREE) == []
        again = await kit.moving(mine.work(kit.window))
        assert (again.elements, again.more, again.failure) == (0, False, None)


async def both(
    mine: V1Processor, theirs: V1Processor, eligibility: EligibilityWindow
) -> tuple[ProcessingResult, ProcessingResult]:
    return await asyncio.gather(mine.work(eligibility), theirs.work(eligibility))


async def test_forester__that_is_not_registered__stops_at_the_first_refusal(net: Localnet, tmp_path: Path) -> None:
    async with forester_on(net, tmp_path / "first") as kit:
        await kit.register()
        net.call("localnet_seed", {"v1_compress": 6, "v1_spend": 5})
        stranger = Keypair()
        net.call("requestAirdrop", str(stranger.pubkey()), 10**9)
        async with forester_on(net, tmp_path / "second", stranger) as other:
            work, _ = await processor(other, STATE_TREE, V1Options(sends_at_once=1))
            done = await kit.moving(work.work(kit.window))
            assert done.elements == 0
            assert done.failure is not None
            assert done.more
        assert len(await waiting(kit, STATE_TREE)) == 5
