"""Two foresters with one key and a journal each, on one network: the first notices the second."""

from __future__ import annotations

import asyncio
from pathlib import Path

from localnet_forester import EPOCH, forester_on
from localnet_process import running_localnet

from forester.chain.programs import registry
from forester.daemon.watches.key_use import GRACE_SLOTS
from forester.daemon.watches.key_watch import KeyWatch
from forester.observability.health import HealthBoard


async def test_key_watch__second_forester_with_the_key__is_reported_and_nothing_else_changes(tmp_path: Path) -> None:
    first, second, board = tmp_path / "first", tmp_path / "second", HealthBoard()
    first.mkdir()
    second.mkdir()
    with running_localnet() as net:
        async with forester_on(net, first) as kit, forester_on(net, second) as twin:
            await kit.register()
            began = await kit.rpc.slot() - GRACE_SLOTS
            watch = KeyWatch(kit.rpc, kit.sender, board, kit.metrics, slot=began)
            assert await watch.check()
            again = registry.finalize_registration(kit.pubkey, kit.pubkey, EPOCH)
            await kit.send(again)
            await asyncio.to_thread(net.call, "requestAirdrop", str(kit.pubkey), 10**9)
            await asyncio.to_thread(net.call, "localnet_advance", 2)
            assert await watch.check()
            assert not board.problems
            await twin.send(again)
            assert await watch.check()
            assert [problem.condition for problem in board.problems] == ["key"]
