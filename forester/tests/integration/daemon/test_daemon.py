"""The composed daemon: its reports about itself, and its end when no service answers."""

from __future__ import annotations

import asyncio
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from chain_accounts import TreeAccount
from pydantic import SecretStr
from scripted_node import serving
from solders.keypair import Keypair
from start_options import Network, until

from forester.chain.tree_metadata import TreeKind, decode_tree_metadata
from forester.daemon import daemon as daemon_module
from forester.daemon.clock import STUCK_S, SlotClock
from forester.daemon.daemon import Daemon
from forester.daemon.epochs import EpochKeeper
from forester.daemon.funds import Funds
from forester.daemon.services import open_services
from forester.daemon.supervisor import Supervisor
from forester.daemon.watches import heartbeat as heartbeat_module
from forester.daemon.watches.heartbeat import SLOT_STALE_S, Heartbeat
from forester.daemon.watches.key_watch import KeyWatch
from forester.epoch.phases import SlotRange
from forester.errors import ChainWentBack, EndpointUnreachable
from forester.observability.health import HealthBoard
from forester.observability.metrics import Metrics
from forester.scheduling.eligibility_window import EligibilityWindow, ProcessingResult
from forester.settings import Settings, SigningKey
from shared.process.shutdown import Shutdown

KEY = SigningKey(Keypair.from_seed(bytes([5]) * 32))


def settings(folder: Path) -> Settings:
    return Settings(
        rpc_url=SecretStr("http://127.0.0.1:1"),
        ws_rpc_url=SecretStr("ws://127.0.0.1:1"),
        indexer_url=SecretStr("http://127.0.0.1:1"),
        payer=KEY,
        derivation=KEY.pubkey,
        journal_path=str(folder / "journal.sqlite"),
    )


def conditions(board: HealthBoard) -> dict[str, str]:
    return {problem.condition: problem.reason for problem in board.problems}


async def test_daemon__no_node_answers__ends_at_once_when_asked_and_gives_the_journal_back(tmp_path: Path) -> None:
    for _ in range(2):
        shutdown = Shutdown()
        async with asyncio.timeout(60), open_services(settings(tmp_path), Metrics()) as services:
            running = asyncio.create_task(Daemon(services, HealthBoard()).run(shutdown))
            await asyncio.sleep(0.05)
            assert not running.done()
            shutdown.request()
            await running


async def test_daemon__at_work__watches_who_else_signs_with_its_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(daemon_module, "KeyWatch", partial(KeyWatch, every_s=0.01))
    shutdown, node = Shutdown(), Network(answers={"getSignaturesForAddress": []})
    async with asyncio.timeout(60), serving(node):
        chosen = settings(tmp_path).model_copy(update={"rpc_url": SecretStr(node.url)})
        async with open_services(chosen, Metrics()) as services:
            running = asyncio.create_task(Daemon(services, HealthBoard()).run(shutdown))
            await until(lambda: node.counted["getSignaturesForAddress"] >= 2)
            shutdown.request()
            await running


async def test_daemon__many_notifications_of_epochs__reads_them_once_a_second(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    woken: list[None] = []
    monkeypatch.setattr(EpochKeeper, "wake", lambda _: woken.append(None))
    shutdown, node = Shutdown(), Network()
    async with asyncio.timeout(60), serving(node):
        chosen = settings(tmp_path).model_copy(update={"rpc_url": SecretStr(node.url)})
        async with open_services(chosen, Metrics()) as services:
            daemon = Daemon(services, HealthBoard())
            running = asyncio.create_task(daemon.run(shutdown))
            await until(lambda: daemon._probes.missing == ("indexer",))
            for _ in range(50):
                daemon._listeners().epochs()
                await asyncio.sleep(0)
            assert len(woken) == 1
            await until(lambda: len(woken) == 2)
            shutdown.request()
            await running


@pytest.mark.parametrize(("words", "lamports"), [({}, None), ({"rollover_max_sol": 0.25}, 250_000_000)])
async def test_rollover_max_sol__of_the_settings__caps_one_rollover(
    tmp_path: Path, words: dict[str, float], lamports: int | None
) -> None:
    chosen = settings(tmp_path).model_copy(update={**words, "rent_lamports_per_byte_year": 7000})
    async with open_services(chosen, Metrics()) as services:
        rollovers = Daemon(services, HealthBoard())._rollovers
        assert rollovers._maximum_lamports == lamports
        assert rollovers._rent_lamports_per_byte_year == 7000


async def test_daemon__chain_turns_out_to_be_elsewhere__drains_and_reports_it(tmp_path: Path) -> None:
    node = Network(answers={"getSlot": 10**7})
    async with asyncio.timeout(60), serving(node):
        chosen = settings(tmp_path).model_copy(update={"rpc_url": SecretStr(node.url)})
        async with open_services(chosen, Metrics()) as services:
            daemon = Daemon(services, HealthBoard())
            running = asyncio.create_task(daemon.run(Shutdown()))
            await until(lambda: node.counted["getBalance"] >= 1)
            daemon._clock.went_back_by = 77
            daemon._clock.went_back.set()
            with pytest.raises(ChainWentBack, match="the chain is 77 slots behind an earlier answer"):
                await running
            assert not daemon._supervisor._tasks


async def test_daemon__epochs_and_funds_in_trouble__are_reported_to_the_board_until_they_are_well(
    tmp_path: Path,
) -> None:
    board = HealthBoard()
    async with open_services(settings(tmp_path), Metrics()) as services:
        daemon = Daemon(services, board)
        daemon._report_alert(3, "report failed: x")
        daemon._report_alert(4, "register failed: y")
        assert conditions(board) == {"epoch": "epoch 3: report failed: x; epoch 4: register failed: y"}
        daemon._report_alert(4, "")
        assert conditions(board) == {}, "what an earlier epoch suffered is over"
        services.sender.short_of_funds = True
        daemon._funds.notice()
        assert conditions(board) == {"funds": f"insufficient funds: processing stops until {KEY.pubkey} is topped up"}
        daemon._funds.available = True
        daemon._funds_changed()
        assert conditions(board) == {}


async def test_daemon__round_that_moved_elements_and_failed__counts_what_it_moved(tmp_path: Path) -> None:
    metrics = Metrics()
    results: list[ProcessingResult] = []
    async with open_services(settings(tmp_path), metrics) as services:
        daemon = Daemon(services, HealthBoard(), lambda _tree, done: results.append(done))
        eligibility = EligibilityWindow(7, SlotRange(0, 100), lambda: 10)
        for kind in (TreeKind.STATE_V1, TreeKind.STATE_V2):
            account = TreeAccount(kind, 1)
            tree = decode_tree_metadata(account.address, account.accounts()[0].data)
            daemon._progress(tree, eligibility, ProcessingResult(3, 3, failure=EndpointUnreachable()), 1.5)
    assert len(results) == 2
    name = "forester_transactions_processed_total"
    assert metrics.registry.get_sample_value(name, {"epoch": "7"}) == 3, "those of V2 are counted as they land"


class Log:
    """A log that stores lines."""

    def __init__(self) -> None:
        self.lines: list[dict[str, Any]] = []

    def info(self, event: str, **facts: Any) -> None:
        self.lines.append({"event": event} | facts)


async def test_heartbeat__node_is_silent__reports_to_the_board_and_takes_it_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = Log()
    monkeypatch.setattr(heartbeat_module, "_log", log)
    now, board, metrics = 0.0, HealthBoard(), Metrics()
    clock = SlotClock(silence_s=10, now=lambda: now)
    clock.read(500)
    async with open_services(settings(tmp_path), metrics) as services:
        daemon = Daemon(services, board)
        keeper: EpochKeeper = daemon._keeper
        funds: Funds = daemon._funds
        heartbeat = Heartbeat(clock, keeper, Supervisor(), funds, board)
        heartbeat.count(ProcessingResult(7, 1))
        heartbeat.count(ProcessingResult(failure=EndpointUnreachable()))
        heartbeat.beat()
        assert conditions(board) == {}
        now = SLOT_STALE_S + 1
        heartbeat.beat()
        assert conditions(board) == {"slots": "the node has reported no slot for 61 s"}
        clock.read(600)
        tasks = len(asyncio.all_tasks())
        heartbeat.beat()
        assert conditions(board) == {}
        now += STUCK_S + 1
        clock.read(600)
        heartbeat.beat()
        assert conditions(board) == {"slots": "the node has reported the same slot for 61 s"}
        clock.read(601)
        heartbeat.beat()
        assert conditions(board) == {}
        now += SLOT_STALE_S + 1
        clock.read(581)
        heartbeat.beat()
        assert conditions(board) == {"slots": "the node's slot is 20 behind an earlier one"}
        now += SLOT_STALE_S + 1
        heartbeat.beat()
        assert conditions(board) == {"slots": "the node has reported no slot for 122 s"}
        clock.read(800)
        heartbeat.beat()
        assert conditions(board) == {}
    results = [(line["elements"], line["failures"]) for line in log.lines if line["event"] == "heartbeat"]
    assert results == [(7, 1), *((0, 0) for _ in range(7))], "counted from line to line"
    assert log.lines[-1]["tasks"] == tasks
