"""Another process with our key is noticed by what it signs; nothing of ours, and nobody who only names us, ever is."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scripted_node import failure, serving
from solders.hash import Hash
from solders.instruction import AccountMeta, Instruction
from solders.keypair import Keypair
from solders.pubkey import Pubkey
from solders.signature import Signature
from solders.system_program import TransferParams, transfer
from start_options import KEY, Network, until

from forester.chain.programs import registry
from forester.chain.programs.addresses import REGISTRY
from forester.chain.rpc_client import AddressSignature, RpcClient
from forester.chain.rpc_pool import RpcPool
from forester.daemon.watches.key_use import GRACE_SLOTS, KeyUse, works_with
from forester.daemon.watches.key_watch import CONDITION, QUIET_S, USELESS_CHECKS, KeyWatch
from forester.journal.database import Journal
from forester.journal.signatures import SentTransaction, SignatureStore
from forester.journal.spending import SpendingStore
from forester.observability.health import HealthBoard
from forester.observability.metrics import Metrics
from forester.settings import Settings, SigningKey
from forester.transactions.builder import Budget, Built, build
from forester.transactions.confirm import Confirmations, ConfirmationTimes
from forester.transactions.own_signatures import OwnSignatures
from forester.transactions.priority_fee import PriorityFee
from forester.transactions.sender import Sender
from forester.transactions.spending import SpendingBudget

US, OTHER = KEY.pubkey(), Keypair.from_seed(bytes([6]) * 32)
BEGAN = 1000
LATER = BEGAN + GRACE_SLOTS + 1


def signature(number: int) -> Signature:
    return Signature(number.to_bytes(64, "little"))


def signed(work: Instruction, key: Keypair = KEY, *, price: int = 0) -> Built:
    return build([work], SigningKey(key), Hash.default(), Budget(10_000, price))


def work(key: Pubkey = US) -> Instruction:
    return registry.report_work(key, key, 2)


steps = st.lists(
    st.tuples(st.integers(0, 200), st.lists(st.booleans(), max_size=6), st.integers(0, 400), st.integers(1, 8)),
    max_size=30,
)
"""Of each look: slots since the one before, who signed since (True: us), slots that the node is behind, its limit."""


@given(steps, st.lists(st.booleans(), max_size=5))
def test_key_use__nodes_that_lag_and_answers_that_are_cut__report_strangers_once_and_never_us(
    checks: list[tuple[int, list[bool], int, int]], earlier: list[bool]
) -> None:
    own, use = OwnSignatures(), KeyUse(BEGAN)
    # What an earlier process signed is in no journal any more.
    chain = [AddressSignature(signature(number), BEGAN + number) for number in range(len(earlier))]
    foreign, reported = set(), []
    slot = BEGAN
    for passed, signers, lag, limit in checks:
        slot += passed
        for ours in signers:
            item = AddressSignature(signature(len(chain)), slot)
            chain.append(item)
            own.add(item.signature) if ours else foreign.add(item)
        visible = [item for item in reversed(chain) if item.slot <= slot - lag]
        strangers = use.strangers(visible[:limit], own)
        assert set(strangers) <= foreign
        assert all(item.slot > BEGAN + GRACE_SLOTS for item in strangers)
        reported += strangers
    assert len(reported) == len(set(reported))


@given(st.lists(st.lists(st.booleans(), max_size=5), max_size=20))
def test_key_use__node_that_reports_everything__hides_no_stranger_after_the_first_answer(
    turns: list[list[bool]],
) -> None:
    own, use = OwnSignatures(), KeyUse(BEGAN)
    chain: list[AddressSignature] = []
    foreign, reported = set(), set()
    use.strangers([], own)
    for slot, signers in enumerate(turns, start=LATER):
        for ours in signers:
            item = AddressSignature(signature(len(chain)), slot)
            chain.append(item)
            own.add(item.signature) if ours else foreign.add(item)
        reported |= set(use.strangers(chain[::-1], own))
    assert reported == foreign


def test_key_use__more_signed_than_is_remembered__judges_nothing_rather_than_forgotten_ones() -> None:
    own, use = OwnSignatures(maximum=8), KeyUse(BEGAN)
    use.strangers([], own)
    ours = [AddressSignature(signature(number), LATER + number) for number in range(20)]
    for item in ours:
        own.add(item.signature)
    assert ours[0].signature not in own
    assert use.strangers(ours[::-1], own) == []
    foreign = AddressSignature(signature(99), LATER + 30)
    assert use.strangers([foreign], own) == [foreign]


def test_works_with__signed_work_only__and_no_mention() -> None:
    assert works_with(US, signed(work()).data)
    assert works_with(US, signed(registry.register_forester_epoch(US, US, US, 3)).data)
    topped_up = transfer(TransferParams(from_pubkey=OTHER.pubkey(), to_pubkey=US, lamports=1))
    assert not works_with(US, signed(topped_up, OTHER).data)
    spent = transfer(TransferParams(from_pubkey=US, to_pubkey=OTHER.pubkey(), lamports=1))
    assert not works_with(US, signed(spent).data), "no work of a forester"
    theirs = work(OTHER.pubkey())
    named = Instruction(REGISTRY, bytes(theirs.data), [*theirs.accounts, AccountMeta(US, False, True)])
    assert not works_with(US, signed(named, OTHER).data)
    unknown = Instruction(REGISTRY, bytes(8), [AccountMeta(US, True, True)])
    assert not works_with(US, signed(unknown).data)


@given(st.binary(max_size=300) | st.tuples(st.integers(0, 400), st.integers(0, 255)))
def test_works_with__bytes_that_are_no_transaction__are_no_work(data: bytes | tuple[int, int]) -> None:
    if isinstance(data, tuple):
        changed = bytearray(signed(work()).data)
        changed[data[0] % len(changed)] = data[1]
        data = bytes(changed)
    assert works_with(US, data) in (True, False)


class Chain(Network):
    """A chain with landed transactions, newest first; those that its users send land in ``slot``."""

    def __init__(self) -> None:
        super().__init__(height=50)
        self.slot = LATER
        self.landed: list[tuple[int, Built]] = []
        self.answers = {"getSignaturesForAddress": self._signatures, "getTransaction": self._transaction}

    def _signatures(self, _: str, options: dict[str, Any]) -> list[dict[str, Any]]:
        sent = [(self.slot, str(item.signatures[0])) for item in self.transactions]
        entries = [*((slot, str(built.signature)) for slot, built in self.landed), *sent]
        return [{"signature": name, "slot": slot} for slot, name in sorted(entries, reverse=True)[: options["limit"]]]

    def _transaction(self, name: str, _: dict[str, Any]) -> dict[str, Any] | None:
        found = [built.data for _, built in self.landed if str(built.signature) == name]
        return {"transaction": [base64.b64encode(found[0]).decode(), "base64"]} if found else None


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


class Bench:
    """A watch with its parts; time passes by hand."""

    def __init__(self, sender: Sender, rpc: RpcClient, chain: Chain) -> None:
        self.chain, self.sender, self.clock, self.metrics = chain, sender, Clock(), Metrics()
        self.board = HealthBoard(clock=self.clock)
        self.reported: list[tuple[str, bool]] = []
        self.board.subscribe(lambda condition, problem: self.reported.append((condition, problem is not None)))
        self.watch = KeyWatch(
            *(rpc, sender, self.board, self.metrics), slot=BEGAN, every_s=0.01, limit_s=20.0, clock=self.clock
        )

    async def send(self, within_s: float = 60) -> None:
        await self.sender.send([work()], purpose="test", subject=b"", within_s=within_s)

    @property
    def counted(self) -> float:
        return self.metrics.registry.get_sample_value("forester_key_used_elsewhere_total") or 0.0


@asynccontextmanager
async def bench(folder: Path, chain: Chain) -> AsyncIterator[Bench]:
    async with (
        serving(chain),
        RpcPool([chain.url]) as pool,
        await Journal.open(folder / "journal.sqlite") as journal,
        Confirmations(rpc := RpcClient(pool), pace=ConfirmationTimes(0.01, 1.0)) as flight,
    ):
        store, fees = SignatureStore(journal), PriorityFee(Settings(), rpc)
        budget = SpendingBudget(SpendingStore(journal), 10**9)
        payer = SigningKey(KEY)
        sender = Sender(rpc, flight, store, fees, payer, budget=budget, cu_limit=10_000, metrics=Metrics())
        yield Bench(sender, rpc, chain)


async def test_watch__twin_at_work__is_reported_until_it_has_been_quiet(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    logged: list[tuple[str, dict[str, Any]]] = []
    log = SimpleNamespace(warning=lambda event, **fields: logged.append((event, fields)))
    monkeypatch.setattr("forester.daemon.watches.key_watch._log", log)
    async with bench(tmp_path, chain := Chain()) as it:
        assert await it.watch.check()
        await it.send()
        assert await it.watch.check()
        assert not it.board.problems
        assert chain.counted["getTransaction"] == 0, "ours are known without a query"
        twin = signed(work(), price=7)
        chain.landed.append((LATER + 1, twin))
        assert await it.watch.check()
        (problem,) = it.board.problems
        assert problem.condition == CONDITION
        assert str(twin.signature) in problem.reason
        assert "a key of its own" in problem.reason
        [(event, fields)] = logged
        assert event == "key_used_elsewhere"
        assert "a key of its own" in fields["remedy"]
        assert it.counted == 1
        it.clock.now += QUIET_S - 1
        assert await it.watch.check()
        assert it.board.problems
        it.clock.now += 1
        assert await it.watch.check()
        assert not it.board.problems
        assert it.reported == [(CONDITION, True), (CONDITION, False)]
        assert it.counted == 1


async def test_watch__restart_with_the_journal_of_a_killed_process__knows_its_signatures(tmp_path: Path) -> None:
    left = signed(work(), price=3)
    async with await Journal.open(tmp_path / "journal.sqlite") as journal:
        await SignatureStore(journal).add(SentTransaction(str(left.signature), "test", b"", 10**6, left.data))
    async with bench(tmp_path, chain := Chain()) as it:
        await it.sender.settle_pending()  # lands, and leaves the journal
        await it.watch.check()
        chain.landed.append((LATER + 5, left))
        await it.watch.check()
        assert not it.board.problems
        assert chain.counted["getTransaction"] == 0


async def test_watch__what_landed_soon_after_the_start_and_top_ups__are_no_twin(tmp_path: Path) -> None:
    async with bench(tmp_path, chain := Chain()) as it:
        await it.watch.check()
        chain.landed.append((BEGAN + GRACE_SLOTS, signed(work(), price=9)))
        topped_up = [transfer(TransferParams(from_pubkey=OTHER.pubkey(), to_pubkey=US, lamports=n)) for n in range(20)]
        chain.landed += [(LATER + 1, signed(item, OTHER)) for item in topped_up]
        await it.watch.check()
        assert not it.board.problems
        assert 0 < chain.counted["getTransaction"] <= 4


async def test_watch__answers_that_make_no_sense__are_no_twin_and_are_asked_for_again(tmp_path: Path) -> None:
    async with bench(tmp_path, chain := Chain()) as it:
        await it.watch.check()
        chain.answers["getSignaturesForAddress"] = [{"signature": "no signature", "slot": LATER}]
        assert await it.watch.check()
        chain.answers["getSignaturesForAddress"] = chain._signatures
        chain.answers["getTransaction"] = {"transaction": ["no base64", "base64"]}
        chain.landed.append((LATER + 1, signed(work(), price=5)))
        assert await it.watch.check()
        assert not it.board.problems
        chain.answers["getTransaction"] = chain._transaction
        chain.landed.append((LATER + 2, signed(work(), price=6)))
        assert await it.watch.check()
        assert it.board.problems


async def test_watch__running__looks_again_until_the_node_turns_out_to_have_no_history(tmp_path: Path) -> None:
    async with bench(tmp_path, chain := Chain()) as it, asyncio.timeout(60):
        running = asyncio.create_task(it.watch.run())
        await until(lambda: chain.counted["getSignaturesForAddress"] >= 2)
        chain.landed.append((LATER + 1, signed(work(), price=5)))
        await until(lambda: bool(it.board.problems))
        refuses(-32601)(chain)
        await running


def refuses(code: int) -> Callable[[Chain], None]:
    def prepare(chain: Chain) -> None:
        chain.usual = failure(code, "method not found")

    return prepare


def keeps_nothing(chain: Chain) -> None:
    chain.answers["getSignaturesForAddress"] = []


@pytest.mark.parametrize(
    ("prepare", "checks"),
    [(refuses(-32601), 1), (refuses(-32011), 1), (refuses(-32600), USELESS_CHECKS), (keeps_nothing, USELESS_CHECKS)],
)
async def test_watch__node_without_history__is_switched_off(
    prepare: Callable[[Chain], None], checks: int, tmp_path: Path
) -> None:
    async with bench(tmp_path, chain := Chain()) as it:
        await it.send()
        prepare(chain)
        assert [await it.watch.check() for _ in range(checks)] == [True] * (checks - 1) + [False]
        assert not it.board.problems


async def test_watch__new_payer_that_sends_nothing__stays_on(tmp_path: Path) -> None:
    async with bench(tmp_path, chain := Chain()) as it:
        keeps_nothing(chain)
        assert all([await it.watch.check() for _ in range(USELESS_CHECKS + 1)])
