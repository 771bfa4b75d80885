"""The fate of transactions on a chain that is played: lost, late, refused, forgotten."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, cast

import pytest
from solders.signature import Signature

from forester.chain.rpc_client import BlockHeight, RpcClient, SignatureStatus, SignatureStatuses
from forester.errors import (
    AlreadyProcessed,
    AnswerTooLong,
    EndpointError,
    EndpointUnreachable,
    RequestRefused,
    TransactionRefused,
)
from forester.transactions.block_heights import BlockHeights
from forester.transactions.builder import Built
from forester.transactions.confirm import Confirmations, ConfirmationTimes, Fate
from shared.process.rate_limits import TokenBucket

QUICK = ConfirmationTimes(0.01, 0.03)


def transaction(number: int) -> Built:
    return Built(bytes([number]), Signature(bytes([number]) * 64))


@dataclass
class Chain:
    """Statuses by number of the transaction, as a function of how often it was sent."""

    lands_after: dict[int, int] = field(default_factory=dict)
    fails: dict[int, Any] = field(default_factory=dict)
    height: int = 10
    behind: int = 0
    sent: Counter[int] = field(default_factory=Counter)
    status_calls: int = 0
    broken_looks: int = 0
    breaks: Exception = field(default_factory=lambda: EndpointUnreachable("no answer"))
    refuse: Exception | None = None
    refuses_after: asyncio.Event | None = None
    hangs: bool = False
    hanging: int = 0
    """Broadcasts without an answer."""
    logs: Any = None
    """The meta data of all transactions; an event is waited for, an exception raised."""
    second_source: RpcClient | None = None

    async def send_transaction(self, data: bytes, *, skip_preflight: bool) -> Signature:
        assert skip_preflight
        if self.hangs:
            self.hanging += 1
            try:
                await asyncio.Event().wait()
            finally:
                self.hanging -= 1
        self.sent[data[0]] += 1
        if self.refuses_after is not None:
            await self.refuses_after.wait()
        if self.refuse is not None:
            raise self.refuse
        return transaction(data[0]).signature

    async def block_height(self) -> BlockHeight:
        return BlockHeight(self.height, self.height)

    async def signature_statuses(self, signatures: list[Signature]) -> SignatureStatuses:
        self.status_calls += 1
        if self.broken_looks:
            self.broken_looks -= 1
            raise self.breaks
        numbers = [bytes(signature)[0] for signature in signatures]
        found = [
            SignatureStatus(7, self.fails.get(number), "confirmed")
            if self.sent[number] >= self.lands_after.get(number, 1)
            else None
            for number in numbers
        ]
        return SignatureStatuses(self.height - self.behind, found)

    async def transaction(self, _: Signature) -> dict[str, Any]:
        if isinstance(self.logs, asyncio.Event):
            await self.logs.wait()
        if isinstance(self.logs, Exception):
            raise self.logs
        line = "Program Lighton6oQpVkeewmo2mcPTQQp7kYHr4fWpAgJyEmDX failed: custom program error: 0x1774"
        return {"meta": {"logMessages": [line]} if self.logs is None else self.logs}


async def until(true: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not true():  # noqa: ASYNC110 - the chain that is played has no events
            await asyncio.sleep(0.01)


def confirmations(chain: Chain, **options: Any) -> Confirmations:
    return Confirmations(cast("RpcClient", chain), pace=QUICK, **options)


async def test_send__many_at_once__share_the_reads_of_statuses() -> None:
    chain = Chain()
    async with confirmations(chain) as flight:
        outcomes = await asyncio.gather(*(flight.send(transaction(n), 100, within_s=60) for n in range(1, 41)))
    assert {outcome.fate for outcome in outcomes} == {Fate.CONFIRMED}
    assert outcomes[0].slot == 7
    assert chain.status_calls < 40


async def test_send__dropped_transaction__is_sent_again_until_it_lands() -> None:
    chain = Chain(lands_after={1: 4})
    async with confirmations(chain) as flight:
        outcome = await flight.send(transaction(1), 100, within_s=60)
    assert (outcome.fate, chain.sent[1]) == (Fate.CONFIRMED, 4)


async def test_send__limit_below_the_rate_of_broadcasts__lands_all_transactions() -> None:
    limit = TokenBucket(20)

    class Limited(Chain):
        async def send_transaction(self, data: bytes, *, skip_preflight: bool) -> Signature:
            await limit.wait()
            return await super().send_transaction(data, skip_preflight=skip_preflight)

    pace = ConfirmationTimes(0.01, 0.03, call_s=0.1)
    async with Confirmations(cast("RpcClient", Limited()), pace=pace) as flight:
        outcomes = await asyncio.gather(*(flight.send(transaction(n), 100, within_s=10) for n in range(1, 13)))
    assert {outcome.fate for outcome in outcomes} == {Fate.CONFIRMED}


async def test_send__refused_by_a_program__reports_program_and_code() -> None:
    chain = Chain(fails={1: {"InstructionError": [2, {"Custom": 6004}]}})
    async with confirmations(chain) as flight:
        outcome = await flight.send(transaction(1), 100, within_s=60)
    assert outcome.fate is Fate.REFUSED
    assert outcome.error is not None
    assert outcome.error.detail == "registry refused instruction 2: error 6004 (ForesterNotEligible)"


@pytest.mark.parametrize(
    "logs",
    [
        asyncio.Event(),
        EndpointUnreachable("gone"),
        [1],
        1,
        {"logMessages": 5},
        {"logMessages": ["Program x failed: custom program error: 0x" + "f" * 5000]},
    ],
    ids=["hang", "fail", "list", "number", "no lines", "code of 20,000 bits"],
)
async def test_send__logs_of_a_refusal_useless__is_refused_without_them_and_holds_up_nobody(logs: Any) -> None:
    error = {"InstructionError": [2, {"Custom": 6004}]}
    chain = Chain(fails={1: error, 2: error}, logs=logs)
    pace = ConfirmationTimes(0.01, 0.03, call_s=60.0, logs_s=0.5)
    async with Confirmations(cast("RpcClient", chain), pace=pace) as flight:
        sends = [asyncio.create_task(flight.send(transaction(number), 100, within_s=60)) for number in (1, 2, 3)]
        done, _ = await asyncio.wait(sends, return_when=asyncio.FIRST_COMPLETED)
        assert sends[2] in done
        outcomes = [await sent for sent in sends]
    assert [outcome.fate for outcome in outcomes] == [Fate.REFUSED, Fate.REFUSED, Fate.CONFIRMED]
    assert [outcome.error.code for outcome in outcomes if outcome.error is not None] == [6004, 6004]


async def test_send__blockhash_expired__is_lost_and_not_before() -> None:
    chain = Chain(lands_after={1: 10**9}, height=100)
    async with confirmations(chain) as flight:
        waiting = asyncio.create_task(flight.send(transaction(1), 100, within_s=60))
        await until(lambda: chain.sent[1] >= 3)
        assert not waiting.done()
        chain.height = 101
        assert (await waiting).fate is Fate.EXPIRED


async def test_send__statuses_of_a_node_that_lags__is_lost_once_that_node_is_as_far_as_the_height() -> None:
    chain = Chain(lands_after={1: 10**9}, height=101, behind=5)
    async with confirmations(chain) as flight:
        waiting = asyncio.create_task(flight.send(transaction(1), 100, within_s=60))
        await until(lambda: chain.status_calls >= 5)
        assert not waiting.done(), "it may have landed since"
        chain.height = 106
        assert (await waiting).fate is Fate.EXPIRED


async def test_send__deadline_passes__is_unknown_even_when_nobody_answers() -> None:
    chain = Chain(lands_after={1: 10**9}, broken_looks=10**9)
    async with confirmations(chain) as flight:
        assert (await flight.send(transaction(1), 100, within_s=0.1)).fate is Fate.DEADLINE_PASSED


async def test_send__statuses_asked_for_often_enough__is_given_up_before_its_deadline() -> None:
    chain = Chain(lands_after={1: 10**9})
    async with confirmations(chain, longest_s=0.1) as flight:
        outcome = await asyncio.wait_for(flight.send(transaction(1), 100, within_s=3600), 60)
    assert outcome.fate is Fate.DEADLINE_PASSED


async def test_send__node_fails_for_a_while__continues_and_refusal_ends_it() -> None:
    chain = Chain(broken_looks=3, lands_after={1: 2}, refuse=EndpointUnreachable("busy"))
    async with confirmations(chain) as flight:
        waiting = asyncio.create_task(flight.send(transaction(1), 100, within_s=60))
        await until(lambda: chain.sent[1] >= 1)
        chain.refuse = None
        assert (await waiting).fate is Fate.CONFIRMED
        chain.refuse = RequestRefused("too large", code=-32602)
        with pytest.raises(RequestRefused):
            await flight.send(transaction(2), 100, within_s=60)


@pytest.mark.parametrize("fault", [RequestRefused("internal error", code=-32603), AnswerTooLong("too long")])
async def test_send__node_fails_after_it_may_have_forwarded__its_status_is_its_fate(fault: EndpointError) -> None:
    chain = Chain(refuse=fault, lands_after={1: 2})
    async with confirmations(chain) as flight:
        outcome = await flight.send(transaction(1), 100, within_s=60)
    assert (outcome.fate, chain.sent[1]) == (Fate.CONFIRMED, 2)


async def test_send__node_says_that_it_was_processed__its_status_is_its_fate() -> None:
    chain = Chain(refuse=AlreadyProcessed(), fails={2: {"InstructionError": [2, {"Custom": 6004}]}})
    async with confirmations(chain) as flight:
        assert (await flight.send(transaction(1), 100, within_s=60)).fate is Fate.CONFIRMED
        assert (await flight.send(transaction(2), 100, within_s=60)).fate is Fate.REFUSED


async def test_send__node_simulates_and_refuses_a_repetition__what_was_sent_first_may_land() -> None:
    chain = Chain(lands_after={1: 3})
    async with confirmations(chain) as flight:
        waiting = asyncio.create_task(flight.send(transaction(1), 100, within_s=60))
        await until(lambda: chain.sent[1] == 1)
        chain.refuse = TransactionRefused("the chain refused a transaction: BlockhashNotFound")
        assert (await waiting).fate is Fate.CONFIRMED
        with pytest.raises(TransactionRefused):
            await flight.send(transaction(2), 100, within_s=60)
        chain.refuse = None
        assert (await flight.send(transaction(3), 100, within_s=60)).fate is Fate.CONFIRMED, "others are looked after"


async def test_send__repeated_transaction_that_the_node_refuses__its_status_is_its_fate() -> None:
    chain = Chain(refuse=TransactionRefused("the chain refused a transaction: BlockhashNotFound"))
    async with confirmations(chain) as flight:
        assert (await flight.send(transaction(1), 100, within_s=60, repeated=True)).fate is Fate.CONFIRMED
        chain.refuse = RequestRefused("internal error", code=-32000)
        assert (await flight.send(transaction(2), 100, within_s=60, repeated=True)).fate is Fate.CONFIRMED


async def test_send__refusal_comes_after_it_has_landed__is_confirmed() -> None:
    chain = Chain()
    chain.refuses_after, chain.refuse = asyncio.Event(), RequestRefused("internal error", code=-32000)
    async with confirmations(chain) as flight:
        waiting = asyncio.create_task(flight.send(transaction(1), 100, within_s=60))
        await until(lambda: chain.status_calls >= 5)
        chain.refuses_after.set()
        assert (await waiting).fate is Fate.CONFIRMED


async def test_send__first_broadcast_hangs_then_is_refused__another_one_may_land_meanwhile() -> None:
    chain = Chain(lands_after={1: 10**9})
    chain.refuses_after, chain.refuse = asyncio.Event(), RequestRefused("internal error", code=-32000)
    async with confirmations(chain) as flight:
        waiting = asyncio.create_task(flight.send(transaction(1), 100, within_s=60))
        await until(lambda: chain.sent[1] == 2)
        chain.refuses_after.set()
        await until(lambda: chain.sent[1] >= 3)
        chain.lands_after[1] = 1
        assert (await waiting).fate is Fate.CONFIRMED


@pytest.mark.parametrize("lands_after", [1, 10**9])
async def test_send__looks_that_crash__leave_nobody_waiting_for_ever(lands_after: int) -> None:
    chain = Chain(broken_looks=3 if lands_after == 1 else 10**9, breaks=KeyError("a bug"), lands_after={1: lands_after})
    async with confirmations(chain) as flight:
        outcome = await flight.send(transaction(1), 100, within_s=60 if lands_after == 1 else 0.2)
    assert outcome.fate is (Fate.CONFIRMED if lands_after == 1 else Fate.DEADLINE_PASSED)


async def test_close__with_transactions_in_flight__ends_their_waits() -> None:
    chain = Chain(lands_after={1: 10**9})
    async with confirmations(chain) as flight:
        waiting = asyncio.create_task(flight.send(transaction(1), 100, within_s=60))
        await until(lambda: bool(chain.sent))
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(waiting, timeout=60)


async def test_send__node_that_hangs__does_not_outlast_the_deadline() -> None:
    chain = Chain(lands_after={1: 10**9}, hangs=True)
    pace = ConfirmationTimes(0.01, 0.03, call_s=600)
    async with Confirmations(cast("RpcClient", chain), pace=pace) as flight:
        outcome = await asyncio.wait_for(flight.send(transaction(1), 100, within_s=0.1), timeout=60)
    assert outcome.fate is Fate.DEADLINE_PASSED


async def test_send__later_broadcast_of_another_hangs__is_confirmed_meanwhile() -> None:
    chain = Chain(lands_after={1: 10**9})
    pace = ConfirmationTimes(0.01, 0.03, call_s=600)
    async with Confirmations(cast("RpcClient", chain), pace=pace) as flight:
        first = asyncio.create_task(flight.send(transaction(1), 100, within_s=600))
        await until(lambda: chain.sent[1] == 1)
        chain.hangs = True
        await until(lambda: chain.hanging == 1)
        chain.hangs = False
        outcome = await asyncio.wait_for(flight.send(transaction(2), 100, within_s=600), timeout=60)
        assert outcome.fate is Fate.CONFIRMED
        first.cancel()
        await asyncio.wait([first])
        assert chain.hanging == 0, "its broadcast ends with it"


def test_heights__asked_for_by_many_in_one_slot__reach_as_far_back_as_by_one() -> None:
    heights = BlockHeights()
    for slot in range(200):
        for _ in range(40):
            heights.add(BlockHeight(slot, slot))
            heights.add(BlockHeight(slot - 3, slot - 3))
    assert heights.expired(100, 199 - 40)
    assert not heights.expired(199, 10**6)


def test_heights__one_far_ahead__does_not_hide_later_ones() -> None:
    heights = BlockHeights()
    heights.add(BlockHeight(2**47, 2**47))
    heights.add(BlockHeight(200, 200))
    assert heights.expired(199, 200)
