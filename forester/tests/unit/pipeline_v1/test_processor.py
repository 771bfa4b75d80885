"""Decisions of the V1 tree processor: what it sends, once or again, when it stops, when it reads."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from v1_world import CONFIRMED, World, leaf

from forester.chain.programs.addresses import ACCOUNT_COMPRESSION, REGISTRY
from forester.chain.tree_metadata import TreeKind
from forester.epoch.phases import SlotRange
from forester.errors import (
    EndpointTimedOut,
    EndpointUnreachable,
    ForesterError,
    InsufficientFunds,
    TransactionRefused,
    UnexpectedFailure,
)
from forester.pipeline_v1.indexer_proofs import Proof
from forester.pipeline_v1.processor import MAXIMUM_STRIKES, V1Options
from forester.scheduling.eligibility_window import EligibilityWindow
from forester.settings import Settings
from forester.transactions.confirm import Fate, Outcome


def refusal(code: int | None, program: object = ACCOUNT_COMPRESSION) -> Outcome:
    error = TransactionRefused(f"refused with {code}", program=str(program), code=code, instruction=1)
    return Outcome(Fate.REFUSED, 5, error)


async def test_round__of_many_elements__sends_each_once_with_bounded_concurrency() -> None:
    world = World().queue(*range(1, 31))
    done = await world.processor(group=7, sends_at_once=4).work(world.window())
    assert (done.elements, done.transactions, done.more, done.failure) == (30, 30, False, None)
    assert sorted(world.values_sent) == [leaf(number) for number in range(1, 31)]
    assert world.most_at_once == 4
    assert sorted(world.asked) == [2, 7, 7, 7, 7]


async def test_round__with_more_than_one_round_takes__says_that_more_waits() -> None:
    world = World().queue(*range(1, 31))
    processor = world.processor(group=4, groups_at_once=3)
    done = await processor.work(world.window())
    assert (done.elements, done.more) == (12, True)
    assert [(await processor.work(world.window())).elements for _ in range(2)] == [12, 6]
    assert world.queue_reads == 1, "what was read is used up first"


async def test_queue__is_read_per_window_on_change_and_when_used_up() -> None:
    world = World().queue(*range(1, 11))
    processor = world.processor(group=2, groups_at_once=1)
    await processor.work(world.window())
    await processor.work(world.window())
    assert world.queue_reads == 1
    processor.queue_changed()
    await processor.work(world.window())
    assert world.queue_reads == 2
    await processor.work(world.window(first=60))
    assert world.queue_reads == 3, "another window: somebody else may have worked on it"
    await processor.work(world.window(first=60))
    assert not (await processor.work(world.window(first=60))).more
    assert world.queue_reads == 4, "a caller that asks when nothing is known may know of a change"


async def test_window__with_too_few_slots__is_not_begun_and_sends_end_with_it() -> None:
    world = World().queue(*range(1, 6))
    processor = world.processor(sends_at_once=1)
    world.slot = 992
    assert (await processor.work(world.window())).elements == 0
    assert (world.queue_reads, world.sent) == (0, [])
    world.slot = 991
    world.while_sending = lambda: setattr(world, "slot", world.slot + 3)
    done = await processor.work(world.window())
    assert (done.elements, done.more, done.failure) == (2, True, None)
    assert [call.within_s for call in world.sent] == [3.6, 2.4], "three slots are too few for another"


@pytest.mark.parametrize("late", [True, False])
async def test_budget__of_the_batch__ends_what_was_not_begun(late: bool) -> None:
    world = World().queue(*range(1, 6))
    world.while_sending = lambda: setattr(world, "clock", 1.7 if late else 1.5)
    world.slot = 991  # 1.6 s
    done = await world.processor(sends_at_once=1).work(world.window())
    assert done.elements == (1 if late else 5)


@pytest.mark.parametrize("code", [6015, 9003])
async def test_element__gone_meanwhile__is_done_and_the_queue_is_read_again(code: int) -> None:
    world = World().queue(1, 2, 3)
    world.fates[leaf(2)] = [refusal(code)]
    processor = world.processor()
    done = await processor.work(world.window())
    assert (done.elements, done.more, done.failure) == (2, False, None)
    # A node that lags still shows it.
    assert (await processor.work(world.window())).elements == 0
    assert (world.queue_reads, len(world.sent)) == (2, 3)


@pytest.mark.parametrize("code", [10010, 10011, 10012, 11001, 11009, None])
async def test_proof__that_the_chain_refuses__is_asked_for_again_with_all_units(code: int | None) -> None:
    world = World().queue(1, 2)
    world.fates[leaf(2)] = [refusal(code)]
    processor = world.processor(cu_limit=900_000)
    done = await processor.work(world.window())
    assert (done.elements, done.more, done.failure) == (1, True, None)
    assert (await processor.work(world.window())).elements == 1
    assert world.asked == [2, 1]
    limits = [call.unit_limit for call in world.sent if call.value == leaf(2)]
    assert limits[0] is not None
    assert limits[0] < 200_000
    assert limits[1] == 900_000


async def test_element__refused_again_and_again__is_left_alone_for_a_while() -> None:
    world = World().queue(1)
    world.fates[leaf(1)] = [refusal(10010)] * 10
    processor = world.processor(done_s=60)
    rounds = [await processor.work(world.window()) for _ in range(MAXIMUM_STRIKES + 2)]
    assert len(world.sent) == MAXIMUM_STRIKES
    assert [done.more for done in rounds[-2:]] == [False, False]
    world.clock = 61
    await processor.work(world.window())
    assert len(world.sent) == MAXIMUM_STRIKES + 1


@pytest.mark.parametrize(
    "outcome",
    [
        refusal(6004, REGISTRY),
        refusal(6017, REGISTRY),
        refusal(6013, REGISTRY),
        Outcome(Fate.REFUSED, error=InsufficientFunds("insufficient funds")),
        Outcome(Fate.REFUSED, error=TransactionRefused("no logs", code=6004)),
    ],
)
async def test_refusal__of_us_and_not_of_the_element__stops_the_round_at_once(outcome: Outcome) -> None:
    world = World().queue(*range(1, 11))
    world.fates = {leaf(number): [outcome] for number in range(1, 11)}
    processor = world.processor(sends_at_once=1)
    done = await processor.work(world.window())
    assert (done.elements, done.more, done.failure) == (0, True, outcome.error)
    assert len(world.sent) == 1
    world.fates.clear()
    assert (await processor.work(world.window())).elements == 10, "no element is to blame"


async def test_element__of_unknown_fate__is_sent_again_as_it_is_until_its_fate_is_known() -> None:
    world = World().queue(1, 2)
    world.fates[leaf(1)] = [Outcome(Fate.DEADLINE_PASSED)] * 2
    world.fates[leaf(2)] = [Outcome(Fate.EXPIRED)]
    processor = world.processor(open_s=30)
    done = await processor.work(world.window())
    assert (done.elements, done.more) == (0, True)
    assert (await processor.work(world.window())).elements == 1, "an expired one cannot land any more"
    assert world.queue_reads == 2, "the expired one may have left the queue"
    last = await processor.work(world.window(first=60))
    assert (last.elements, last.more) == (1, False)
    assert world.values_sent.count(leaf(1)) == 3
    assert world.works_of(leaf(1)) == 1, "the sender repeats the transaction of the same work"


async def test_element__of_unknown_fate__is_left_alone_in_another_epoch_while_it_may_land() -> None:
    world = World().queue(1)
    world.fates[leaf(1)] = [Outcome(Fate.DEADLINE_PASSED)]
    processor = world.processor(open_s=30)
    await processor.work(world.window())
    later = EligibilityWindow(8, SlotRange(50, 1000), lambda: world.slot)
    done = await processor.work(later)
    assert (done.elements, done.more, len(world.sent)) == (0, False, 1)
    world.clock = 31
    assert (await processor.work(later)).elements == 1
    assert world.works_of(leaf(1)) == 2


async def test_round__that_is_cancelled__leaves_open_what_was_sent() -> None:
    world = World().queue(1, 2, 3)
    processor = world.processor(sends_at_once=1)
    task = asyncio.create_task(processor.work(world.window()))
    world.while_sending = lambda: (task.cancel(), None)[1]
    with pytest.raises(asyncio.CancelledError):
        await task
    world.while_sending = lambda: None
    begun = set(world.values_sent)
    assert begun
    await processor.work(world.window())
    assert len(set(world.values_sent)) == 3
    assert [world.works_of(value) for value in begun] == [1] * len(begun), "sent work is repeated, not replaced"


async def test_element__that_was_not_signed_in_time__is_proved_again() -> None:
    world = World(fates={leaf(1): [Outcome(Fate.DEADLINE_PASSED, signed=False)]}).queue(1, 2)
    processor = world.processor()
    done = [await processor.work(world.window()) for _ in range(2)]
    assert (done[1].elements, world.works_of(leaf(1))) == (1, 2)


async def test_transaction__that_could_not_be_sent__is_the_failure_and_may_be_sent_again() -> None:
    world = World().queue(1, 2)
    world.fates[leaf(1)] = [EndpointUnreachable("no node")]
    processor = world.processor()
    done = await processor.work(world.window())
    assert (done.elements, done.more) == (1, True)
    assert isinstance(done.failure, EndpointUnreachable)
    assert (await processor.work(world.window())).elements == 1


async def test_transaction__that_could_not_be_sent__keeps_others_from_being_tried() -> None:
    world = World().queue(*range(1, 11))
    world.fates = {leaf(number): [EndpointUnreachable("no node")] for number in range(1, 11)}
    done = await world.processor(sends_at_once=2).work(world.window())
    assert isinstance(done.failure, EndpointUnreachable)
    assert len(world.sent) == 2


async def test_payer__that_cannot_pay__ends_the_round_also_where_the_fate_is_unknown() -> None:
    world = World().queue(1, 2, 3)
    poor = InsufficientFunds("insufficient funds")
    world.fates = {leaf(number): [Outcome(Fate.DEADLINE_PASSED, error=poor)] for number in (1, 2, 3)}
    processor = world.processor(sends_at_once=1)
    assert (await processor.work(world.window())).failure is poor
    assert len(world.sent) == 1
    [first] = world.values_sent
    await processor.work(world.window(first=60))
    assert (world.values_sent.count(first), world.works_of(first)) == (2, 1), "what was sent may still land"


async def test_bug__in_one_transaction__lets_the_others_land_and_leaves_it_open() -> None:
    world = World().queue(*range(1, 11))
    world.fates[leaf(4)] = [KeyError("a bug")]
    processor = world.processor(sends_at_once=3, group=5)
    done = await processor.work(world.window())
    assert (done.elements, done.more, len(world.sent)) == (9, True, 10)
    assert isinstance(done.failure, UnexpectedFailure)
    assert "unexpected KeyError: 'a bug'" in done.failure.detail
    assert (await processor.work(world.window())).elements == 1
    assert world.works_of(leaf(4)) == 1, "it may have been sent: the sender repeats the transaction of the same work"


async def test_bug__in_one_group__lets_the_others_land() -> None:
    def broken(proof: Proof) -> Proof:
        if proof.cell.value == leaf(4):
            raise OverflowError("int too big to convert")
        return proof

    world = World().queue(*range(1, 11))
    world.proof_filter = broken
    done = await world.processor(group=2).work(world.window())
    assert (done.elements, len(world.sent)) == (8, 8)
    assert isinstance(done.failure, UnexpectedFailure)


@pytest.mark.parametrize("service", ["node_error", "indexer_error"])
async def test_bug__while_a_queue_or_proofs_are_read__keeps_what_is_open(service: str) -> None:
    world = World().queue(1, 2)
    world.fates[leaf(1)] = [Outcome(Fate.DEADLINE_PASSED)]
    processor = world.processor()
    await processor.work(world.window())
    world.queue(3)
    processor.queue_changed()
    setattr(world, service, KeyError("a bug"))
    await processor.prepare(world.window())
    assert isinstance((await processor.work(world.window())).failure, UnexpectedFailure)
    setattr(world, service, None)
    await processor.work(world.window())
    assert (world.works_of(leaf(1)), world.cells) == (1, {})


@pytest.mark.parametrize("service", ["node", "indexer"])
async def test_service__that_never_answers__costs_no_more_than_the_window(service: str) -> None:
    world = World().queue(1)
    world.slot = 991
    world.hangs = service
    done = await world.processor().work(world.window())
    assert (done.elements, world.sent) == (0, [])
    assert isinstance(done.failure, EndpointTimedOut)


def test_options__of_settings__name_the_first_cell_of_each_kind() -> None:
    given_ = Settings(
        state_queue_start_index=5, address_queue_start_index=7, tx_cache_ttl_seconds=9, indexer_batch_size=3
    )
    state, address = (V1Options.of(given_, kind) for kind in (TreeKind.STATE_V1, TreeKind.ADDRESS_V1))
    assert (state.first_cell, address.first_cell) == (5, 7)
    assert (state.open_s, state.done_s, state.round) == (9, 180, 30)


@pytest.mark.parametrize("service", ["node_error", "indexer_error"])
async def test_service__that_fails__is_the_failure_of_the_round(service: str) -> None:
    world = World().queue(1)
    error = EndpointUnreachable("no answer")
    setattr(world, service, error)
    processor = world.processor()
    done = await processor.work(world.window())
    assert (done.elements, done.failure) == (0, error)
    await processor.prepare(world.window())
    setattr(world, service, None)
    assert (await processor.work(world.window())).elements == 1


async def test_elements__go_in_an_order_that_nobody_can_choose() -> None:
    orders = []
    for _ in range(3):
        world = World().queue(*range(1, 41))
        await world.processor(sends_at_once=1).work(world.window())
        orders.append(world.values_sent)
    assert len({tuple(order) for order in orders}) == 3
    assert {tuple(sorted(order)) for order in orders} == {tuple(leaf(number) for number in range(1, 41))}


async def test_units__of_a_large_round__are_enough_for_its_last_element() -> None:
    few, many = World().queue(1), World().queue(*range(1, 61))
    for world in (few, many):
        await world.processor().work(world.window())
    assert few.sent[0].unit_limit == 100_000 + 100 * 101
    assert {call.unit_limit for call in many.sent} == {100_000 + 100 * 160}


async def test_cells__before_the_first_one__are_left_to_others() -> None:
    world = World().queue(*range(1, 11))
    done = await world.processor(first_cell=6).work(world.window())
    assert done.elements == 5
    assert sorted(world.values_sent) == [leaf(number) for number in range(6, 11)]


async def test_cells__of_a_node_that_returns_more_than_it_was_asked_for__are_no_crash() -> None:
    world = World().queue(*range(1, 11))
    world.whole_heads = True
    done = await world.processor(first_cell=6).work(world.window())
    assert (done.elements, done.failure) == (5, None)


FATES: dict[str, Outcome | ForesterError] = {
    "confirmed": CONFIRMED,
    "gone": refusal(6015),
    "invalid proof": refusal(10010),
    "not eligible": refusal(6004, REGISTRY),
    "expired": Outcome(Fate.EXPIRED),
    "unknown": Outcome(Fate.DEADLINE_PASSED),
    "not sent": EndpointUnreachable("no node"),
}


@settings(max_examples=40)
@given(
    fates=st.lists(st.lists(st.sampled_from(sorted(FATES)), max_size=4), min_size=1, max_size=12),
    pauses=st.lists(st.sampled_from([0.0, 10.0, 200.0]), min_size=1, max_size=12),
)
def test_queue__whatever_becomes_of_its_transactions__is_emptied_and_nothing_open_is_made_again(
    fates: list[list[str]], pauses: list[float]
) -> None:
    asyncio.run(_drained(fates, pauses))


async def _drained(fates: list[list[str]], pauses: list[float]) -> None:
    world = World().queue(*range(1, len(fates) + 1))
    world.fates = {leaf(number): [FATES[name] for name in names] for number, names in enumerate(fates, 1)}
    opened: dict[bytes, tuple[float, bytes]] = {}
    processor, confirmed = world.processor(open_s=100, done_s=150, group=3, groups_at_once=2), 0
    for number in range(200):
        before = len(world.sent)
        done = await processor.work(world.window(first=number % 3))
        for value in world.values_sent[before:]:
            name = next(iter(_fates_of(fates, world, value)), "confirmed")
            work = bytes(next(call.work for call in reversed(world.sent) if call.value == value))
            at, open_work = opened.get(value, (-1000.0, b""))
            assert work == open_work or world.clock - at >= 100, "it may still land"
            if name == "unknown":
                opened[value] = world.clock, work
            elif name != "not sent":
                opened.pop(value, None)
        confirmed += done.elements
        gone = {value for value in world.cells.values() if "gone" in _past(fates, world, value)}
        if not set(world.cells.values()) - gone:
            break
        world.clock += pauses[number % len(pauses)] or (0.0 if done.elements else 60.0)
    else:
        pytest.fail(f"{len(world.cells)} elements still wait")
    assert confirmed == len(fates) - len(world.cells)


def _past(fates: list[list[str]], world: World, value: bytes) -> list[str]:
    """Return the outcomes of the transactions of an element."""
    names = fates[int.from_bytes(value, "big") - 1]
    return names[: world.values_sent.count(value)]


def _fates_of(fates: list[list[str]], world: World, value: bytes) -> list[str]:
    """Return the outcome of its last one."""
    return _past(fates, world, value)[world.values_sent.count(value) - 1 :]
