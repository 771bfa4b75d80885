"""Dispatchers of trees that come, go and change."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest
from dispatch_setting import HALF, Processor, Setting, begin_slow_round, quiet, tree, until, windows
from solders.pubkey import Pubkey

from forester.chain.tree_metadata import TreeKind
from forester.scheduling.eligibility_window import EligibilityWindow


async def test_trees__one_is_gone__its_dispatcher_ends_and_the_others_stay() -> None:
    setting, one, two = Setting(), tree(1), tree(2)
    await setting.begin(one, two)
    assert setting.supervisor.names == {f"tree {one.address}", f"tree {two.address}"}
    await setting.begin(two)
    await until(lambda: setting.supervisor.names == {f"tree {two.address}"})
    assert setting.processor(one).closed == [setting.parts.close_s]
    setting.tasks.set_trees({})
    setting.tasks.set_trees({item.address: item for item in (one, two)})
    await until(lambda: len(setting.processors[one.address]) == 2)
    await until(lambda: len(setting.processors[two.address]) == 2)
    await until(lambda: len(setting.supervisor.names) == 2)
    assert len(setting.processors[one.address]) == 2, "a tree that returns at once is processed again"
    await setting.supervisor.stop(60)


async def test_trees__one_is_gone_while_it_works__its_round_ends_first() -> None:
    setting, item = Setting(), tree()
    go_on = await begin_slow_round(setting, item)
    setting.tasks.set_trees({})
    await quiet()
    assert setting.rounds == []
    go_on.set()
    await until(lambda: setting.supervisor.names == frozenset())
    assert len(setting.rounds) == 1
    assert setting.processor(item).closed == [setting.parts.close_s]


@pytest.mark.parametrize(
    ("changed", "made"),
    [
        ({"associated": Pubkey(bytes([77]) * 32)}, 2),
        ({"rolledover_slot": 5, "successor": Pubkey(bytes([78]) * 32)}, 1),
    ],
    ids=["queue", "rolled over"],
)
async def test_trees__metadata_of_one_differs__is_dispatched_again_unless_it_was_only_rolled_over(
    changed: dict[str, Any], made: int
) -> None:
    setting, item = Setting(), tree(kind=TreeKind.STATE_V1)
    other = replace(item, metadata=replace(item.metadata, **changed))
    await setting.begin(item)
    await setting.begin(other)
    await until(lambda: len(setting.supervisor.names) == 1)
    processors = setting.processors[item.address]
    assert [bool(processor.closed) for processor in processors] == [True, False][2 - made :]
    assert setting.tasks._by_account.keys() == {other.address, other.queue}
    await setting.supervisor.stop(60)


async def test_trees__kind_differs_while_the_tree_is_worked_on__the_next_round_waits_for_its_end() -> None:
    setting, item = Setting(), tree()
    go_on = await begin_slow_round(setting, item)
    await setting.begin(replace(item, kind=TreeKind.STATE_V1))
    assert setting.supervisor.names == {f"tree {item.address}", f"tree {item.address} again"}
    assert len(setting.processors[item.address]) == 1
    go_on.set()
    await until(lambda: setting.supervisor.names == {f"tree {item.address} again"})
    await until(lambda: len(setting.processors[item.address]) == 2)
    assert setting.processors[item.address][0].closed == [setting.parts.close_s]
    await setting.supervisor.stop(60)


async def test_trees__returning_one_ends_its_round_with_a_crash__the_next_round_begins() -> None:
    setting, item = Setting(), tree()
    setting.scripts[item.address] = [ZeroDivisionError("a bug")]
    go_on = await begin_slow_round(setting, item)
    setting.tasks.set_trees({})
    await setting.begin(item)
    go_on.set()
    await until(lambda: setting.supervisor.names == {f"tree {item.address} again"})
    await until(lambda: len(setting.rounds) == 1)
    await setting.supervisor.stop(60)


async def test_trees__one_is_gone_while_it_prepares__ends_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    begun, item = asyncio.Event(), tree()

    async def prepare(_: Processor, __: EligibilityWindow) -> None:
        begun.set()
        await asyncio.Event().wait()

    monkeypatch.setattr(Processor, "prepare", prepare)
    setting = Setting(windows(HALF, item)[0].last + 1)
    await setting.begin(item)
    setting.publish(HALF)
    await asyncio.wait_for(begun.wait(), 60)
    setting.tasks.set_trees({})
    await until(lambda: setting.supervisor.names == frozenset())
