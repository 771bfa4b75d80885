"""The snapshot: its last good state stays, its gauges follow the chain, its findings colour the board."""

from __future__ import annotations

import asyncio
import json
from collections import Counter

import pytest
from network_states import ADDRESS_V2, FORESTERS, STATE_V1, STATE_V2, key, network, queue, registration
from prometheus_client.parser import text_string_to_metric_families
from solders.pubkey import Pubkey

from forester.chain.concurrent_accounts import QUEUE_HEAD_BYTES
from forester.chain.rpc_client import Account
from forester.chain.tree_metadata import QUEUE_V1_DISCRIMINATOR
from forester.errors import EndpointUnreachable
from forester.network_status.fitness import FitnessWatch, judge_registration
from forester.network_status.queue_counts import QueueCount, QueueCounts
from forester.network_status.report import status_object
from forester.network_status.snapshot import SnapshotKeeper
from forester.network_status.state import NetworkState
from forester.network_status.symptoms import show_progress
from forester.observability.health import HealthBoard
from forester.observability.metrics import Metrics
from forester.observability.progress import ProgressWatch, StandstillLimits

SECRET_URL = "https://user:passw0rd@rpc.example/?api-key=s3cr3tkey"


def samples(metrics: Metrics, name: str) -> dict[tuple[str, ...], float]:
    families = text_string_to_metric_families(metrics.exposition().decode())
    return {
        tuple(sample.labels.values()): sample.value
        for family in families
        for sample in family.samples
        if sample.name == name
    }


class Network:
    """Reading of a snapshot: a state, an error, or nothing for ever."""

    def __init__(self) -> None:
        self.state: NetworkState | Exception | None = network()
        self.reads = 0
        self.now = 1_000.0
        self.metrics = Metrics()
        self.board = HealthBoard(clock=lambda: self.now)
        self.keeper = SnapshotKeeper(
            self.read, self.metrics, self.board, every_s=0.001, timeout_s=0.2, stale_s=300, clock=lambda: self.now
        )

    async def read(self) -> NetworkState:
        self.reads += 1
        if self.state is None:
            await asyncio.Event().wait()
        if isinstance(self.state, Exception):
            raise self.state
        assert self.state is not None
        return self.state


async def test_keeper__refreshed__has_the_status_and_the_gauges_of_the_state() -> None:
    net = Network()
    assert net.keeper.latest is None
    assert samples(net.metrics, "forester_snapshot_age_seconds") == {(): -1}
    assert await net.keeper.refresh()
    assert net.keeper.latest is not None
    assert json.loads(net.keeper.latest.status) == json.loads(json.dumps(status_object(network())))
    net.now += 12
    assert net.keeper.age_s == 12
    assert samples(net.metrics, "forester_snapshot_age_seconds") == {(): 12}
    lengths = {
        ("StateV1", str(STATE_V1)): 4,
        ("StateV2.Append", str(STATE_V2)): 22,
        ("StateV2.Nullify", str(STATE_V2)): 15,
        ("AddressV2", str(ADDRESS_V2)): 9,
    }
    assert samples(net.metrics, "queue_length") == {(tree, kind): value for (kind, tree), value in lengths.items()}
    assert samples(net.metrics, "queue_capacity")[str(STATE_V1), "StateV1"] == 28_807
    assert samples(net.metrics, "forester_sol_balance") == {(str(item),): 1 for item in FORESTERS}


async def test_keeper__state_without_what_was_there__loses_its_series() -> None:
    net = Network()
    await net.keeper.refresh()
    whole = network(registered={2: (0,), 3: (1,)}, balances={FORESTERS[0]: 5})
    net.state = NetworkState(
        whole.slot, whole.protocol, whole.registrations, whole.registered_weights, whole.balances, whole.trees[:1]
    )
    await net.keeper.refresh()
    assert samples(net.metrics, "queue_length") == {(str(STATE_V1), "StateV1"): 4}
    assert samples(net.metrics, "forester_sol_balance") == {(str(FORESTERS[0]),): 5e-9}
    assert len(samples(net.metrics, "registered_foresters")) == 1, "registrations of epoch 3 open at slot 600"


async def test_keeper__read_fails_and_hangs__keeps_the_last_state_and_says_why() -> None:
    net = Network()
    await net.keeper.refresh()
    good = net.keeper.latest
    net.state = EndpointUnreachable(f"RPC node {SECRET_URL} cannot be reached")
    assert not await net.keeper.refresh()
    assert net.keeper.latest is good
    assert net.keeper.error is not None
    assert "cannot be reached" in net.keeper.error
    assert "s3cr3tkey" not in net.keeper.error
    net.state = None
    assert not await net.keeper.refresh()
    assert net.keeper.error == "the network could not be read within 0.2 s"
    assert not net.board.problems
    net.now += 300
    await net.keeper.refresh()
    assert [problem.condition for problem in net.board.problems] == ["snapshot"]
    net.state = network(slot=560)
    assert await net.keeper.refresh()
    assert net.keeper.error is None
    assert not net.board.problems


async def test_keeper__node_away_from_the_start__is_a_problem_soon() -> None:
    net = Network()
    net.state = EndpointUnreachable("away")
    await net.keeper.refresh()
    assert not net.board.problems
    net.now += 60
    await net.keeper.refresh()
    (problem,) = net.board.problems
    assert problem.reason == "the network could not be read for 60 s: away"


async def test_keeper__wall_clock_set_back__is_stale_at_the_same_time(monkeypatch: pytest.MonkeyPatch) -> None:
    net, wall = Network(), 1_700_000_000.0
    monkeypatch.setattr("time.time", lambda: wall)
    await net.keeper.refresh()
    assert net.keeper.latest is not None
    assert net.keeper.latest.taken_at == wall
    wall -= 3600
    net.state = EndpointUnreachable("away")
    net.now += 300
    await net.keeper.refresh()
    assert net.keeper.age_s == 300
    assert [problem.condition for problem in net.board.problems] == ["snapshot"]


async def test_keeper__running__continues_after_failures_until_cancelled() -> None:
    net = Network()
    seen: list[int] = []
    net.keeper.subscribe(lambda state: seen.append(state.slot))
    net.state = EndpointUnreachable("away")
    task = asyncio.create_task(net.keeper.run())
    async with asyncio.timeout(60):
        while net.reads < 3:  # noqa: ASYNC110 - the reads have no event of their own
            await asyncio.sleep(0.001)
        net.state = network(slot=570)
        while len(seen) < 2:  # noqa: ASYNC110
            await asyncio.sleep(0.001)
    task.cancel()
    await asyncio.wait([task])
    assert set(seen) == {570}


V1_QUEUE = (
    QUEUE_V1_DISCRIMINATOR
    + bytes(232 - 8)
    + (2).to_bytes(8, "little")
    + bytes(QUEUE_HEAD_BYTES - 240)
    + b"".join(tag.to_bytes(8, "little") + bytes(40) for tag in (0, 2))
)


class Reads:
    """Counts the whole accounts that are read."""

    def __init__(self) -> None:
        self.counted: Counter[Pubkey] = Counter()

    async def existing_account(self, address: Pubkey, what: str) -> Account:
        self.counted[address] += 1
        return Account(address, key(0), 1, V1_QUEUE)


async def test_queue_counts__many_queues__are_read_a_few_at_a_time() -> None:
    client, counts = Reads(), QueueCounts(2)
    queues = [key(number) for number in range(5)]
    first = await counts.read(client, queues)  # type: ignore[arg-type]
    assert first == dict.fromkeys(queues, QueueCount(1, 2))
    assert client.counted.total() == 5
    for _ in range(5):
        assert set(await counts.read(client, queues)) == set(queues)  # type: ignore[arg-type]
    assert client.counted.total() == 5 + 5 * 2
    assert set(client.counted.values()) == {3}
    assert set(await counts.read(client, queues[:1])) == {queues[0]}  # type: ignore[arg-type]


ME, OTHER = FORESTERS[0], FORESTERS[1]


@pytest.mark.parametrize(
    ("slot", "registered", "lamports", "conditions"),
    [
        (550, {2: (0, 1)}, 10**9, []),
        (550, {2: (0, 1)}, 10**6, ["balance"]),
        (550, {2: (1,)}, 10**9, ["registration"]),
        (620, {2: (0, 1)}, 10**9, []),
        (650, {2: (0, 1)}, 10**9, ["registration"]),
        (650, {2: (0, 1), 3: (0,)}, 10**9, []),
        (750, {2: (0, 1), 3: (1,)}, 0, ["balance", "registration"]),
    ],
)
def test_fitness__balance_and_registration__are_problems_when_short_or_late(
    slot: int, registered: dict[int, tuple[int, ...]], lamports: int, conditions: list[str]
) -> None:
    board = HealthBoard()
    state = network(slot, registered=registered, balances={ME: lamports})
    watch = FitnessWatch(board, payer=ME, derivation=key(50))
    watch.show(state)
    assert "registration" not in [problem.condition for problem in board.problems], "it may be on its way"
    watch.show(state)
    assert [problem.condition for problem in board.problems] == conditions
    for problem in board.problems:
        assert ("insufficient funds" if problem.condition == "balance" else "not registered") in problem.reason


def test_fitness__registration_found_in_time__clears_the_problem() -> None:
    board = HealthBoard()
    watch = FitnessWatch(board, payer=ME, derivation=ME)
    for slot in (550, 560, 610):
        watch.show(network(slot, registered={2: (1,)}))
    assert board.problems, "a registration in progress is not reported"
    watch.show(network(620, registered={2: (1,), 3: (0,)}))
    assert not board.problems


def test_judge_registration__each_case__has_its_message() -> None:
    mine = registration(3, 0, weight=2)
    assert judge_registration(3, mine, None, ME).message == "registered for epoch 3 with weight 2"
    assert not judge_registration(3, None, mine, ME).fine
    assert "but for epoch 2" in judge_registration(3, None, mine, ME).message
    assert f"is {ME} the derivation key" in judge_registration(3, None, None, ME).message


def test_show_progress__states_one_after_another__report_who_moves() -> None:
    now = 0.0
    metrics, board = Metrics(), HealthBoard()
    watch = ProgressWatch(metrics, board, patience=StandstillLimits(10, 30, 60), clock=lambda: now)
    show_progress(watch, network(), ours=lambda item: item.tree.address != STATE_V1)
    now = 70.0
    show_progress(watch, network(sequence_number=8), ours=lambda item: item.tree.address != STATE_V1)
    watch.check()
    ages = samples(metrics, "forester_seconds_since_progress")
    assert ages == {(str(STATE_V2), "StateV2"): 0, (str(ADDRESS_V2), "AddressV2"): 0}, "nine addresses fill no batch"
    assert not board.problems
    now = 140.0
    show_progress(watch, network(sequence_number=8, appends=queue(5, 1)))
    watch.check()
    assert samples(metrics, "forester_seconds_since_progress")[str(STATE_V2), "StateV2"] == 70
    assert board.problems
