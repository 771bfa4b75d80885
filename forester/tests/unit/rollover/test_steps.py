"""A rollover on a chain that is played: the process ends after every single step, refusals, money, somebody faster."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from registry_rules import CONFIG
from rollover_world import (
    ADDRESS_TREE,
    FULL,
    OTHER,
    PAYER,
    QUEUE,
    QUEUE_BYTES,
    TREE,
    TREE_BYTES,
    Crash,
    World,
    open_journal,
    refusal,
    run,
)
from solders.pubkey import Pubkey

from forester.chain import registry_accounts
from forester.chain.programs.addresses import ACCOUNT_COMPRESSION, PROTOCOL_CONFIG, REGISTRY, SYSTEM
from forester.chain.registry_accounts import ProtocolConfigAccount
from forester.chain.rent import maximum_rent
from forester.chain.rpc_client import Account
from forester.chain.tree_metadata import TreeKind
from forester.errors import AccountMissing, EndpointUnreachable, ForesterError, RequestRefused, TransactionRefused
from forester.journal import database
from forester.journal.rollovers import RolloverStore
from forester.rollover.failures import (
    RolloverImpossible,
    RolloverNotFunded,
    RolloverTooExpensive,
    RolloverUnsettled,
)
from forester.rollover.rollovers import NOT_AGAIN_REFUSED_S, NOT_AGAIN_S
from forester.rollover.spending_cap import MAX_CPI_CONTEXT_BYTES, cap_of, require_sizes
from forester.rollover.successor import Sizes, new_keys
from forester.transactions.confirm import Fate, Outcome


@pytest.mark.parametrize("fits", [4, 2, 1])
async def test_rollover__killed_after_every_step__ends_with_one_successor_and_nothing_stranded(
    tmp_path: Path, fits: int
) -> None:
    steps = 0
    for crash_in in range(100):
        world = World(fits=fits, crash_in=crash_in)
        async with await open_journal(tmp_path / str(crash_in)) as journal:
            try:
                assert await world.rollovers(journal).roll_over_if_full(ADDRESS_TREE, world.window()) is None
            except Crash:
                steps += 1
        async with await open_journal(tmp_path / str(crash_in)) as journal:
            finished = world.crash_in is not None and world.crash_in >= 0
            world.crash_in = None
            assert await world.rollovers(journal).roll_over_if_full(ADDRESS_TREE, world.window()) is None
            assert (world.landed, len(world.accounts_made)) == (1, 2), f"killed in step {crash_in}"
            assert world.successor in world.accounts_made
            assert await RolloverStore(journal).trees() == []
        if finished:
            break
    assert steps >= 10


@pytest.mark.parametrize(
    "change",
    [
        lambda world: setattr(world, "next_index", FULL * 95 // 100 - 1),
        lambda world: setattr(world, "successor", OTHER),
        lambda world: setattr(world, "slot", 998),
    ],
)
async def test_tree__not_full_or_replaced_or_no_time__is_looked_at_once_and_left_alone(
    tmp_path: Path, change: Callable[[World], None]
) -> None:
    world = World()
    change(world)
    async with await open_journal(tmp_path) as journal:
        assert await run(world, journal) is None
        assert (world.reads, world.sent, await RolloverStore(journal).trees()) == (1, [], [])


@pytest.mark.parametrize(
    ("who", "enough", "named"), [(QUEUE, TREE_BYTES + 2 * QUEUE_BYTES, "cannot pay"), (PAYER, 10_001_400, "advances")]
)
async def test_money__that_is_missing__is_reported_before_anything_is_sent(
    tmp_path: Path, who: Pubkey, enough: int, named: str
) -> None:
    world = World()
    world.lamports[who] = enough - 1
    async with await open_journal(tmp_path) as journal:
        failure = await run(world, journal)
        assert isinstance(failure, RolloverNotFunded)
        assert str(who) in failure.detail
        assert named in failure.detail
        assert world.sent == []
        world.lamports[who] = enough
        assert await run(world, journal) is None
        assert world.landed == 1


class WorldWithConfig(World):
    """A world whose node has an account of the protocol configuration."""

    async def existing_account(self, address: Pubkey, what: str, *, length: int | None = None) -> Account:
        if address == PROTOCOL_CONFIG:
            return Account(address, REGISTRY, 1, b"")
        return await super().existing_account(address, what, length=length)


async def test_address_tree_v2__successor_would_have_no_network_fee__is_left_alone_and_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    configs = [replace(CONFIG, address_network_fee=fee) for fee in (0, 5000)]
    monkeypatch.setattr(
        registry_accounts, "decode_protocol_config", lambda _: ProtocolConfigAccount(OTHER, configs.pop(0))
    )
    world, tree = WorldWithConfig(fate=Outcome(Fate.EXPIRED)), replace(ADDRESS_TREE, kind=TreeKind.ADDRESS_V2)
    async with await open_journal(tmp_path) as journal:
        made = world.rollovers(journal)
        failure = await made.roll_over_if_full(tree, world.window())
        assert isinstance(failure, RolloverImpossible)
        assert f"{TREE} gets no successor while address_network_fee" in failure.detail
        assert (world.sent, await RolloverStore(journal).trees()) == ([], [])
        world.clock = NOT_AGAIN_S
        assert isinstance(await made.roll_over_if_full(tree, world.window()), RolloverUnsettled)
        assert world.sent == [2]


@pytest.mark.parametrize(
    ("tree_bytes", "maximum"), [(26 * 10**9, None), (2**61, None), (TREE_BYTES, TREE_BYTES + QUEUE_BYTES - 1)]
)
async def test_rollover__dearer_than_its_cap__spends_nothing_and_names_amounts_and_setting(
    tmp_path: Path, tree_bytes: int, maximum: int | None
) -> None:
    """The node says how large the old accounts are, and what accounts of that size cost."""
    world = World(maximum_lamports=maximum)
    if tree_bytes != TREE_BYTES:

        async def inflated(size: int) -> int:
            return tree_bytes if size == TREE_BYTES else size

        world.minimum_balance = inflated  # type: ignore[method-assign]
    world.lamports = dict.fromkeys(world.lamports, 2**63)
    async with await open_journal(tmp_path) as journal:
        made = world.rollovers(journal)
        failure = await run(world, journal, made)
        assert isinstance(failure, RolloverTooExpensive)
        assert await run(world, journal, made) is None, "it is left alone for a while"
        for part in (str(TREE), "--rollover-max-sol", f"a tree of {TREE_BYTES} bytes"):
            assert part in failure.detail
        assert (world.sent, await RolloverStore(journal).trees()) == ([], [])
        world.maximum_lamports = None if maximum is None else maximum + 1
        if maximum is not None:
            assert await run(world, journal) is None
            assert world.landed == 1


@pytest.mark.parametrize("kind", TreeKind)
def test_default_cap__of_a_public_tree__is_a_little_above_its_honest_cost(kind: TreeKind) -> None:
    honest = {
        TreeKind.STATE_V1: (1_364_288, 1_382_992, 20_488),
        TreeKind.ADDRESS_V1: (2_204_320, 1_382_992),
        TreeKind.STATE_V2: (579_960, 962_536, 20_488),
        TreeKind.ADDRESS_V2: (1_163_024,),
    }
    cost = sum(maximum_rent(size) for size in honest[kind])
    assert cost < cap_of(kind, None, 3480) < cost * 106 // 100
    assert cost * 2 < cap_of(kind, None, 6960), "a dearer cluster"
    assert cap_of(kind, 7, 3480) == 7


def test_sizes__cpi_context_that_no_deployment_has__is_refused_with_field_and_value() -> None:
    for size in (6018, 14_020, 20_488, MAX_CPI_CONTEXT_BYTES):
        require_sizes(Sizes(1, 1, size))
    with pytest.raises(RolloverTooExpensive, match=f"cpi_context_size .* {MAX_CPI_CONTEXT_BYTES + 1} bytes"):
        require_sizes(Sizes(1, 1, MAX_CPI_CONTEXT_BYTES + 1))


@pytest.mark.parametrize(
    ("fate", "pause_s"), [(refusal(14006), NOT_AGAIN_REFUSED_S), (Outcome(Fate.EXPIRED), NOT_AGAIN_S)]
)
async def test_full_tree__that_could_not_be_replaced__is_left_alone_for_a_while(
    tmp_path: Path, fate: Outcome, pause_s: float
) -> None:
    world = World(fate=fate)
    async with await open_journal(tmp_path) as journal:
        made = world.rollovers(journal)
        failure = await run(world, journal, made)
        assert isinstance(failure, fate.error.__class__ if fate.error is not None else RolloverUnsettled)
        keys = await RolloverStore(journal).of_tree(bytes(TREE))
        world.clock, world.next_index = pause_s - 1, FULL - 1
        assert await run(world, journal, made) is None
        assert len(world.sent) == 1
        world.clock, world.fate = pause_s, None
        assert await run(world, journal, made) is None
        assert keys is not None
        assert world.successor == keys.new_tree.pubkey


@pytest.mark.parametrize("created", [False, True])
async def test_keys__damaged__are_replaced_unless_rent_was_paid_for_their_accounts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, created: bool
) -> None:
    lines: list[dict[str, str]] = []
    monkeypatch.setattr(database._log, "error", lambda event, **fields: lines.append({"event": event, **fields}))
    world = World()
    async with await open_journal(tmp_path) as journal:
        begun = await RolloverStore(journal).begin(new_keys(ADDRESS_TREE))
        await journal.change("UPDATE rollovers SET new_queue = CAST(x'00' || substr(new_queue, 2) AS BLOB)", ())
        assert begun.new_queue is not None
        made = world.rollovers(journal)
        if created:
            world.accounts_made[begun.new_queue.pubkey] = ACCOUNT_COMPRESSION
            failure = await run(world, journal, made)
            assert isinstance(failure, RolloverImpossible)
            assert f"accounts that were created for it ({begun.new_queue.pubkey})" in failure.detail
            assert (world.sent, await RolloverStore(journal).trees(), lines) == ([], [bytes(TREE)], [])
            world.successor = OTHER
        assert await run(world, journal, made) is None
        assert await RolloverStore(journal).trees() == []
        assert world.landed == (not created)
        (line,) = lines
        assert (line["table"], line["entry"], line["journal"]) == ("rollovers", str(TREE), str(journal.path))
        assert ("rent" in line["remedy"]) is created


@pytest.mark.parametrize(
    ("fate", "kind"),
    [
        (Outcome(Fate.EXPIRED), RolloverUnsettled),
        (Outcome(Fate.DEADLINE_PASSED), RolloverUnsettled),
        (EndpointUnreachable("no node"), EndpointUnreachable),
    ],
)
async def test_transaction__that_is_not_confirmed__keeps_its_keys(
    tmp_path: Path, fate: Any, kind: type[ForesterError]
) -> None:
    world = World(fate=fate)
    async with await open_journal(tmp_path) as journal:
        assert isinstance(await run(world, journal), kind)
        keys = await RolloverStore(journal).of_tree(bytes(TREE))
        world.fate = None
        assert await run(world, journal) is None
        assert keys is not None
        assert world.successor == keys.new_tree.pubkey


async def test_transaction__that_the_node_does_not_take__is_not_signed_again_at_once(tmp_path: Path) -> None:
    world = World(fate=RequestRefused("403 Forbidden", code=403))
    async with await open_journal(tmp_path) as journal:
        made = world.rollovers(journal)
        assert isinstance(await run(world, journal, made), RequestRefused)
        for world.clock in (1.0, 2.0, NOT_AGAIN_S - 1):
            assert await run(world, journal, made) is None
        assert world.sent == [3], "each attempt counts against the budget"
        world.clock, world.fate = NOT_AGAIN_S, None
        assert await run(world, journal, made) is None
        assert world.landed == 1


async def test_size__of_one_wrong_answer__is_read_again_after_the_refusal(tmp_path: Path) -> None:
    world, honest = World(fate=refusal(14006)), World.existing_account
    lies = [64]

    async def lying(address: Pubkey, what: str, *, length: int | None = None) -> Account:
        account = await honest(world, address, what, length=length)
        more = lies.pop() if lies and length is None else 0
        return replace(account, data=account.data + bytes(more))

    world.existing_account = lying  # type: ignore[method-assign]
    sizes: list[int] = []

    async def minimum_balance(size: int) -> int:
        sizes.append(size)
        return size

    world.minimum_balance = minimum_balance  # type: ignore[method-assign]
    async with await open_journal(tmp_path) as journal:
        made = world.rollovers(journal)
        assert isinstance(await run(world, journal, made), TransactionRefused)
        world.clock, world.fate = NOT_AGAIN_REFUSED_S, None
        assert await run(world, journal, made) is None
    assert (sizes, world.landed) == ([TREE_BYTES + 64, QUEUE_BYTES, TREE_BYTES, QUEUE_BYTES], 1)


async def test_turn__that_ends_between_two_parts__is_followed_by_one_that_continues(tmp_path: Path) -> None:
    world = World(fits=1, slot_after_sending=998)
    async with await open_journal(tmp_path) as journal:
        assert await run(world, journal) is None
        assert (world.sent, world.successor, len(world.accounts_made)) == ([1], None, 1)
        world.slot, world.slot_after_sending = 10, None
        assert await run(world, journal) is None
        assert (len(world.accounts_made), world.successor in world.accounts_made) == (2, True)


async def test_node__that_does_not_show_our_rollover_yet__keeps_the_keys_until_it_does(tmp_path: Path) -> None:
    world = World(lags_after_landing=1)
    async with await open_journal(tmp_path) as journal:
        assert await run(world, journal) is None
        assert await RolloverStore(journal).trees() == [bytes(TREE)]
        assert await run(world, journal) is None
        assert (await RolloverStore(journal).trees(), world.landed) == ([], 1)


@pytest.mark.parametrize(("earlier", "failure"), [("lands", type(None)), ("may land", RolloverUnsettled)])
async def test_rollover__of_an_earlier_process_may_land__is_awaited_before_the_tree_is_read(
    tmp_path: Path, earlier: str, failure: type
) -> None:
    world = World(earlier=earlier)
    async with await open_journal(tmp_path) as journal:
        assert isinstance(await run(world, journal), failure)
    assert world.sent == []


async def test_another_forester__that_was_first__is_noticed_and_the_keys_are_forgotten(tmp_path: Path) -> None:
    world = World(successor=OTHER, lag=1)
    async with await open_journal(tmp_path) as journal:
        assert await run(world, journal) is None
        assert (world.sent, world.accounts_made) == ([3], {}), "nothing was created: all of it was refused"
        assert (world.successor, await RolloverStore(journal).trees()) == (OTHER, [])


async def test_another_forester__that_was_first_but_is_not_shown_yet__is_waited_for(tmp_path: Path) -> None:
    world = World(successor=OTHER, lag=2)
    async with await open_journal(tmp_path) as journal:
        failure = await run(world, journal)
        assert isinstance(failure, RolloverUnsettled)
        assert failure.retryable
        assert await run(world, journal) is None
        assert await RolloverStore(journal).trees() == []


async def test_another_forester__first_between_our_parts__leaves_accounts_that_are_given_up(tmp_path: Path) -> None:
    world = World(fits=2, lag=1)
    async with await open_journal(tmp_path) as journal:
        begun = await RolloverStore(journal).begin(new_keys(ADDRESS_TREE))
        world.accounts_made = {key.pubkey: ACCOUNT_COMPRESSION for key in begun.keys}
        world.successor = OTHER
        assert await run(world, journal) is None
        assert world.sent == [1]
        assert await RolloverStore(journal).trees() == []


async def test_address__that_somebody_else_took__is_replaced_by_a_new_one(tmp_path: Path) -> None:
    world = World()
    async with await open_journal(tmp_path) as journal:
        begun = await RolloverStore(journal).begin(new_keys(ADDRESS_TREE))
        world.accounts_made[begun.new_tree.pubkey] = SYSTEM
        failure = await run(world, journal)
        assert isinstance(failure, RolloverImpossible)
        assert await run(world, journal) is None
        assert world.successor not in (None, begun.new_tree.pubkey)


async def test_tree__that_does_not_exist__is_an_error_and_not_a_crash(tmp_path: Path) -> None:
    world = World()

    async def nothing(*_: Any, **__: Any) -> Account:
        await asyncio.sleep(0)
        raise AccountMissing

    world.existing_account = nothing  # type: ignore[method-assign]
    async with await open_journal(tmp_path) as journal:
        assert isinstance(await run(world, journal), AccountMissing)
