"""Discovery of trees: found, chosen, and dropped ones."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import pytest
from chain_accounts import GROUP, TreeAccount, address
from solders.pubkey import Pubkey

from forester.chain import bounds
from forester.chain.programs.addresses import ACCOUNT_COMPRESSION, REGISTERED_PROGRAM
from forester.chain.registry_accounts import REGISTERED_PROGRAM_DISCRIMINATOR
from forester.chain.rpc_client import Account, RpcClient
from forester.chain.tree_metadata import METADATA_BYTES, TreeKind
from forester.chain.trees import TreeFilter, find_trees
from forester.daemon.trees.discovery import ABSENT_DISCOVERIES, NONE_CHOSEN_S, Discovery, Trees
from forester.daemon.watches.chain_events import follow_spaced, watched, while_offered
from forester.errors import EndpointUnreachable, MalformedAnswer, RequestRefused
from forester.observability.health import HealthBoard, Problem

STATE = TreeAccount(TreeKind.STATE_V2, 1)
ADDRESSES = TreeAccount(TreeKind.ADDRESS_V2, 2)
STATE_V1 = TreeAccount(TreeKind.STATE_V1, 3)
ADDRESSES_V1 = TreeAccount(TreeKind.ADDRESS_V1, 4)
FOREIGN = TreeAccount(TreeKind.STATE_V2, 5, owner=address(9))
FREE = TreeAccount(TreeKind.STATE_V2, 6, network_fee=0)
ALL = (STATE, ADDRESSES, STATE_V1, ADDRESSES_V1, FOREIGN, FREE)


@dataclass
class Node(RpcClient):
    """A node with some trees, and the group of the registry."""

    trees: tuple[TreeAccount, ...] = ALL
    group: Pubkey | None = GROUP
    broken: bool = False
    lengths: list[int | None] = field(default_factory=list)
    looked: int = 0
    unread: set[Pubkey] = field(default_factory=set)

    async def program_accounts(
        self,
        program: Pubkey,
        *,
        memcmp: Sequence[tuple[int, bytes]] = (),
        size: int | None = None,
        start: int = 0,
        length: int | None = None,
        maximum: int | None = None,
    ) -> list[Account]:
        assert (program, start) == (ACCOUNT_COMPRESSION, 0)
        self.looked += 1
        if self.broken and self.looked % 3 == 0:
            raise EndpointUnreachable("one kind is missing")
        self.lengths.append(length)
        every = [account for tree in self.trees for account in tree.accounts()]
        chosen = [item for item in every if all(item.data[at:].startswith(part) for at, part in memcmp)]
        return [replace(item, data=item.data[:length]) for item in chosen]

    async def accounts(
        self, addresses: Sequence[Pubkey], *, start: int = 0, length: int | None = None
    ) -> list[Account | None]:
        every = {account.address: account for tree in self.trees for account in tree.accounts()}
        if self.group is not None:
            data = REGISTERED_PROGRAM_DISCRIMINATOR + bytes(32) + bytes(self.group) + bytes(32)
            every[REGISTERED_PROGRAM] = Account(REGISTERED_PROGRAM, ACCOUNT_COMPRESSION, 1, data)
        every = {key: account for key, account in every.items() if key not in self.unread}
        end = None if length is None else start + length
        return [replace(every[key], data=every[key].data[start:end]) if key in every else None for key in addresses]


def numbers(trees: Trees) -> list[int]:
    return sorted(bytes(key)[0] for key in trees)


async def until_looked(node: Node, count: int) -> None:
    async with asyncio.timeout(60):
        while node.looked < count:  # noqa: ASYNC110 - a count has no event
            await asyncio.sleep(0.01)


@pytest.mark.parametrize(
    ("wanted", "group", "expected"),
    [
        (TreeFilter(), GROUP, [1, 2, 3, 4]),
        (TreeFilter(), None, [1, 2, 3, 4, 5]),
        (TreeFilter(group=address(9)), GROUP, [5]),
        (TreeFilter(mode="v1"), GROUP, [3, 4]),
        (TreeFilter(mode="v2"), GROUP, [1, 2]),
        (TreeFilter(ids=(address(2), address(3), address(77))), GROUP, [2, 3]),
        (TreeFilter(ids=(address(5),)), GROUP, []),
    ],
)
async def test_find_trees__filters__choose_by_group_id_generation_and_fee(
    wanted: TreeFilter, group: Pubkey | None, expected: list[int]
) -> None:
    node = Node(group=group)
    assert numbers(await find_trees(node, wanted)) == expected
    assert node.lengths == [METADATA_BYTES] * 3, "trees of megabytes are not downloaded"


async def test_discovery__retired_tree_is_malformed__is_not_worked_on_and_hides_no_other() -> None:
    node = Node(trees=(replace(STATE, rolledover_slot=700, ready=99), ADDRESSES))
    discovery = Discovery(node, TreeFilter(), interval_s=60, board=HealthBoard(), changed=lambda _: None)
    await discovery.refresh()
    assert set(discovery.trees) == {ADDRESSES.address}


async def test_discovery__retired_tree_is_answered_malformed_once__is_still_worked_on() -> None:
    retired = replace(STATE, rolledover_slot=700, ready=1)
    node = Node(trees=(retired, ADDRESSES))
    discovery = Discovery(node, TreeFilter(), interval_s=60, board=HealthBoard(), changed=lambda _: None)
    await discovery.refresh()
    node.trees = (replace(retired, ready=99), ADDRESSES)
    await discovery.refresh()
    assert STATE.address in discovery.trees


async def test_discovery__one_kind_unreadable__keeps_what_it_had() -> None:
    reported: list[Trees] = []
    node = Node()
    discovery = Discovery(node, TreeFilter(), interval_s=60, board=HealthBoard(), changed=reported.append)
    await discovery.refresh()
    node.broken, node.trees = True, (STATE,)
    with pytest.raises(EndpointUnreachable):
        await discovery.refresh()
    assert numbers(discovery.trees) == [1, 2, 3, 4]
    assert len(reported) == 1


@dataclass
class Conditions:
    """Discovery by ``wanted`` from ``node`` at a time that the test moves, and what its board notified."""

    node: Node
    wanted: TreeFilter = field(default_factory=TreeFilter)
    now: float = 0.0
    notified: list[str | None] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.board = HealthBoard()
        self.board.subscribe(self._listen)
        self.discovery = Discovery(
            self.node, self.wanted, interval_s=60, board=self.board, changed=lambda _: None, clock=lambda: self.now
        )

    def _listen(self, condition: str, problem: Problem | None) -> None:
        assert condition == "trees"
        self.notified.append(None if problem is None else problem.reason)

    async def refresh(self, *pauses_s: float) -> None:
        for pause_s in pauses_s:
            self.now += pause_s
            await self.discovery.refresh()


async def test_discovery__no_tree_chosen__is_a_condition_after_several_readings_and_a_minute() -> None:
    setting = Conditions(Node(trees=()))
    await setting.refresh(0, 5, 5, NONE_CHOSEN_S - 11)
    assert setting.notified == [], "readings that notifications cause come soon after each other"
    await setting.refresh(1, 60, 60)
    assert setting.notified == ["no tree is worked on: the RPC node returned none; correct --rpc-url"]
    setting.node.trees = (replace(STATE, rolledover_slot=700),)
    await setting.refresh(60)
    assert setting.discovery.trees == {}
    assert setting.notified[1:] == [None], "a retired tree may get work again"


@pytest.mark.parametrize("empty", [1, ABSENT_DISCOVERIES - 1])
async def test_discovery__no_tree_in_few_answers__is_no_condition(empty: int) -> None:
    setting = Conditions(Node())
    for _ in range(2):
        setting.node.trees = ()
        await setting.refresh(*[NONE_CHOSEN_S] * empty)
        setting.node.trees = ALL
        await setting.refresh(NONE_CHOSEN_S)
    assert setting.notified == [None], "an end, in case an earlier process reported it"


async def test_discovery__no_tree_chosen_and_then_no_answer__keeps_what_it_counted() -> None:
    setting = Conditions(Node(trees=()))
    await setting.refresh(0, 60)
    setting.node.broken = True
    with pytest.raises(EndpointUnreachable):
        await setting.refresh(60)
    assert setting.notified == []
    setting.node.broken = False
    await setting.refresh(60)
    assert len(setting.notified) == 1


@pytest.mark.parametrize(
    ("wanted", "reason"),
    [
        (TreeFilter(group=address(7)), "is chosen; correct --group-authority"),
        (TreeFilter(ids=(address(77),)), "is chosen; correct --tree-id"),
        (TreeFilter(ids=(address(1),), mode="v1"), "is chosen; correct --processor-mode or --tree-id"),
        (
            TreeFilter(),
            "belongs to the registry's group and has a network fee; check that --rpc-url is of the intended network",
        ),
    ],
)
async def test_discovery__no_tree_chosen__reason_names_the_options_that_are_set(
    wanted: TreeFilter, reason: str
) -> None:
    setting = Conditions(Node(trees=(STATE, FREE), group=GROUP if wanted != TreeFilter() else address(8)), wanted)
    await setting.refresh(0, 60, 60)
    assert setting.notified == [f"no tree is worked on: none of the 2 trees on the chain {reason}"]


async def test_discovery__all_trees_missing_from_answers__is_a_condition_when_they_are_removed() -> None:
    setting = Conditions(Node())
    await setting.refresh(0)
    setting.node.trees = ()
    await setting.refresh(*[60] * (ABSENT_DISCOVERIES - 1))
    assert (setting.notified, len(setting.discovery.trees)) == ([None], 4)
    await setting.refresh(60)
    assert (len(setting.notified), setting.discovery.trees) == (2, {})


@pytest.mark.parametrize("interval_s", [0, 3600])
async def test_discovery__no_tree_chosen__reads_again_soon_until_there_is_one(interval_s: float) -> None:
    node, board = Node(trees=()), HealthBoard()
    found: asyncio.Queue[list[int]] = asyncio.Queue()
    discovery = Discovery(
        node,
        TreeFilter(),
        interval_s=interval_s,
        board=board,
        changed=lambda trees: found.put_nowait(numbers(trees)),
        spacing_s=0.001,
        none_chosen_s=0.01,
    )
    await discovery.refresh()
    task = asyncio.create_task(discovery.run())
    await until_looked(node, 3 * (ABSENT_DISCOVERIES + 1))
    assert [problem.condition for problem in board.problems] == ["trees"]
    node.trees = (STATE,)
    assert await asyncio.wait_for(found.get(), 60) == [1]
    looked = node.looked
    await asyncio.sleep(0.05)
    assert (node.looked, board.problems) == (looked, ())
    task.cancel()
    await asyncio.wait([task])


@pytest.mark.parametrize(
    ("tree", "more"),
    [
        (STATE, {"ready": 1}),
        (STATE, {"ready_output": 2}),
        (ADDRESSES, {"ready": 1}),
        (STATE_V1, {"waiting": 1}),
        (ADDRESSES_V1, {"waiting": 3}),
    ],
)
async def test_discovery__tree_was_rolled_over__goes_when_it_is_drained_and_comes_back_with_new_work(
    tree: TreeAccount, more: dict[str, int]
) -> None:
    retired = replace(tree, rolledover_slot=700)
    node = Node(trees=(replace(retired, **more), TreeAccount(TreeKind.ADDRESS_V2, 8)))  # type: ignore[arg-type]
    reported: list[list[int]] = []
    discovery = Discovery(
        node, TreeFilter(), interval_s=60, board=HealthBoard(), changed=lambda trees: reported.append(numbers(trees))
    )
    await discovery.refresh()
    await discovery.refresh()
    working, node.trees = node.trees, (retired, node.trees[1])
    await discovery.refresh()
    node.trees = working
    await discovery.refresh()
    assert reported == [[tree.number, 8], [8], [tree.number, 8]]


async def test_discovery__tree_is_missing__stays_until_several_answers_in_a_row_agree() -> None:
    node = Node()
    reported: list[list[int]] = []
    discovery = Discovery(
        node, TreeFilter(), interval_s=60, board=HealthBoard(), changed=lambda trees: reported.append(numbers(trees))
    )
    for trees in (ALL, (), (STATE,), ALL, (STATE,), (STATE, ADDRESSES), (STATE,)):
        node.trees = trees
        await discovery.refresh()
    assert reported == [[1, 2, 3, 4], [1, 2]]
    node.trees = ()
    for _ in range(ABSENT_DISCOVERIES):
        await discovery.refresh()
    assert reported == [[1, 2, 3, 4], [1, 2], [1], []]


async def test_discovery__registry_is_missing_once__keeps_to_its_group() -> None:
    node = Node()
    discovery = Discovery(node, TreeFilter(), interval_s=60, board=HealthBoard(), changed=lambda _: None)
    for group in (GROUP, None, address(9)):
        node.group = group
        await discovery.refresh()
        assert numbers(discovery.trees) == [1, 2, 3, 4] + [5] * (group == address(9))


async def test_discovery__tree_that_was_rolled_over_is_listed_and_cannot_be_read__stays() -> None:
    retired = replace(STATE, rolledover_slot=700, ready=1)
    node = Node(trees=(retired,))
    discovery = Discovery(node, TreeFilter(), interval_s=60, board=HealthBoard(), changed=lambda _: None)
    await discovery.refresh()
    node.unread = {retired.accounts()[0].address}
    await discovery.refresh()
    assert numbers(discovery.trees) == [STATE.number]


async def test_discovery__notified__reads_new_and_replaced_trees_only() -> None:
    node = Node(trees=(STATE,))
    found: asyncio.Queue[list[int]] = asyncio.Queue()
    discovery = Discovery(
        node,
        TreeFilter(),
        interval_s=0,
        board=HealthBoard(),
        changed=lambda trees: found.put_nowait(numbers(trees)),
        spacing_s=0.01,
    )
    await discovery.refresh()
    assert await found.get() == [1]
    task = asyncio.create_task(discovery.run())
    looked = node.looked
    tree, queue = STATE.accounts()
    discovery.notice(tree.address, tree.data)
    discovery.notice(queue.address, queue.data)
    discovery.notice(address(99), b"short")
    for _ in range(10):
        await asyncio.sleep(0)
    assert node.looked == looked, "an interval of 0 searches only on demand"
    node.trees = (STATE, ADDRESSES)
    (new,) = ADDRESSES.accounts()
    discovery.notice(new.address, new.data)
    assert await asyncio.wait_for(found.get(), 60) == [1, 2]
    node.trees = (replace(STATE, rolledover_slot=5), ADDRESSES)
    discovery.notice(tree.address, node.trees[0].accounts()[0].data)
    assert await asyncio.wait_for(found.get(), 60) == [2]
    task.cancel()
    await asyncio.wait([task])


async def test_discovery__notified_of_trees_that_are_not_chosen__does_not_read_them_again() -> None:
    node = Node()
    discovery = Discovery(
        node, TreeFilter(mode="v1"), interval_s=0, board=HealthBoard(), changed=lambda _: None, spacing_s=0
    )
    await discovery.refresh()
    task = asyncio.create_task(discovery.run())
    looked = node.looked
    for _ in range(50):
        for tree in (STATE, FOREIGN, FREE):
            discovery.notice(tree.address, tree.accounts()[0].data)
        await asyncio.sleep(0.001)
    assert node.looked == looked
    task.cancel()
    await asyncio.wait([task])


async def test_discovery__notified_of_many_unknown_trees_and_gaps__reads_once_for_all() -> None:
    node = Node()
    discovery = Discovery(node, TreeFilter(), interval_s=0, board=HealthBoard(), changed=lambda _: None, spacing_s=1)
    await discovery.refresh()
    task = asyncio.create_task(discovery.run())
    looked = node.looked
    for number in range(50, 100):
        new = TreeAccount(TreeKind.ADDRESS_V2, number)
        discovery.notice(new.address, new.accounts()[0].data)
        discovery.refresh_soon()
        await asyncio.sleep(0.001)
    await until_looked(node, looked + 1)
    assert node.looked == looked + 3, "one reading of three kinds"
    task.cancel()
    await asyncio.wait([task])


async def test_discovery__reading_after_a_notice_fails__the_next_run_reads_at_once() -> None:
    node = Node()
    discovery = Discovery(node, TreeFilter(), interval_s=0, board=HealthBoard(), changed=lambda _: None, spacing_s=0)
    await discovery.refresh()
    node.broken = True
    discovery.refresh_soon()
    with pytest.raises(EndpointUnreachable):
        await discovery.run()
    node.broken, looked = False, node.looked
    task = asyncio.create_task(discovery.run())
    await until_looked(node, looked + 3)
    task.cancel()
    await asyncio.wait([task])


async def test_discovery__interval_shorter_than_the_spacing__reads_at_the_interval() -> None:
    node = Node()
    discovery = Discovery(
        node, TreeFilter(), interval_s=0.01, board=HealthBoard(), changed=lambda _: None, spacing_s=600
    )
    task = asyncio.create_task(discovery.run())
    await until_looked(node, 9)
    task.cancel()
    await asyncio.wait([task])


def test_watched__subscriptions__report_trees_queues_epochs_and_rules_in_small_messages() -> None:
    everything = watched()
    programs = [item for item in everything if item.method == "programSubscribe"]
    assert len(programs) == 6
    assert [item.method for item in everything if item not in programs] == ["accountSubscribe"]
    sliced = [item for item in programs if item.params[0] == str(ACCOUNT_COMPRESSION)]
    assert len(sliced) == 5
    assert all(item.params[1]["dataSlice"] == {"offset": 0, "length": 704} for item in sliced)


async def test_follow_spaced__many_within_the_spacing__are_acted_upon_at_once_and_at_its_end() -> None:
    gap, acted = asyncio.Event(), 0

    def act() -> None:
        nonlocal acted
        acted += 1

    task = asyncio.create_task(follow_spaced(gap, act, spacing_s=1))
    for _ in range(50):
        gap.set()
        await asyncio.sleep(0.001)
    assert acted == 1
    async with asyncio.timeout(60):
        while acted < 2:  # noqa: ASYNC110 - a count has no event
            await asyncio.sleep(0.01)
    await asyncio.sleep(0.05)
    assert acted == 2
    task.cancel()
    await asyncio.wait([task])


async def test_while_offered__node_refuses_subscriptions__is_asked_again_and_crashes_nothing() -> None:
    asked = 0
    enough = asyncio.Event()

    async def follow() -> None:
        nonlocal asked
        asked += 1
        if asked == 3:
            enough.set()
        raise RequestRefused("programSubscribe is not offered", code=0)

    task = asyncio.create_task(while_offered(follow, again_s=0.001))
    await asyncio.wait_for(enough.wait(), 60)
    assert not task.done()
    task.cancel()
    await asyncio.wait([task])

    async def broken() -> None:
        raise EndpointUnreachable("not a refusal")

    with pytest.raises(EndpointUnreachable):
        await while_offered(broken, again_s=0.001)


async def test_find_trees__more_than_any_cluster_has__is_a_malformed_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounds, "MAXIMUM_TREES", len(await find_trees(Node(), TreeFilter())) - 1)
    with pytest.raises(MalformedAnswer, match="choose trees with --tree-id, or use another node"):
        await find_trees(Node(), TreeFilter())
