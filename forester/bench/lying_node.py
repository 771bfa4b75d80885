"""The cost to the payer of a node that lies about fees, rent, expiry and heights, one after the other.

Starts `localnet up` with simulated proofs, a proxy in front of its node, and a forester with a spending budget. Each
lie lasts for a while under users' traffic. At the end the node lies about fees until the budget is spent. The cost is
read from the balance on the chain itself. Exit status 1 if a bound is missed:

  - all lies together cost at most the budget of an hour
  - the forester works before the lies begin, and the process is the one that was started
- with `--exhaust`, the forester stops sending, and reports it in its log and as a condition of its health
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import struct
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from aiohttp import web
from bench_report import Report
from fault_cases import Stage
from fault_proxy import Call, Fault, Lie
from fault_runs import TRAFFIC, staged
from network import INITIAL_TRAFFIC, log_line
from proof_log import ProofLog

from forester.chain.tree_metadata import BATCHED_TREE_DISCRIMINATOR
from forester.epoch.decisions import Action
from forester.units import LAMPORTS_PER_SOL, sol

HONEST_PRICE = 1000
"""Microlamports for a compute unit."""

_BEGIN_DEADLINE_S = 120.0
_EXHAUST_DEADLINE_S = 120.0
_FAR = 10**6
_NEXT_INDEX_AT = 240
_HEIGHT_AT = 248
_RICH = 10**15


def answering(**results: Callable[[Call], Any]) -> Fault:
    """Answer the given methods by functions, and estimates of fees truthfully unless a function is given."""

    async def answer(call: Call) -> web.Response | None:
        answered = results.get(call.method)
        if answered is None and call.method == "getPriorityFeeEstimate":
            return _result(call, {"priorityFeeEstimate": HONEST_PRICE})
        return None if answered is None else _result(call, answered(call))

    return answer


def _result(call: Call, value: Any) -> web.Response:
    return web.json_response({"jsonrpc": "2.0", "id": call.body.get("id"), "result": value})


dear_fees = answering(getPriorityFeeEstimate=lambda _: {"priorityFeeEstimate": 1e12})
dear_rent = answering(getMinimumBalanceForRentExemption=lambda call: 100 * (128 + call.body["params"][0]) * 6960)


def no_status(call: Call, result: Any) -> None:
    """Claim that nothing has landed."""
    if call.method == "getSignatureStatuses":
        result["value"] = [None] * len(result["value"])


def expired(call: Call, result: Any) -> None:
    """Claim that every blockhash has expired, and nothing has landed."""
    no_status(call, result)
    if call.method == "getEpochInfo":
        result["blockHeight"] += _FAR


def past_heights(call: Call, result: Any) -> None:
    """Claim that new blockhashes expired long ago, and nothing has landed."""
    no_status(call, result)
    if call.method == "getLatestBlockhash":
        result["value"]["lastValidBlockHeight"] = 1


def full_trees(call: Call, result: Any) -> None:
    """Claim that all V2 trees are full, and every account is rich."""
    if call.method == "getBalance":
        result["value"] = _RICH
    if call.method != "getMultipleAccounts":
        return
    for account in result["value"]:
        data = bytearray(base64.b64decode(account["data"][0])) if account else bytearray()
        if data[:8] == BATCHED_TREE_DISCRIMINATOR and len(data) >= _HEIGHT_AT + 4:
            (height,) = struct.unpack_from("<I", data, _HEIGHT_AT)
            struct.pack_into("<Q", data, _NEXT_INDEX_AT, 1 << height)
            account["data"][0] = base64.b64encode(data).decode()


@dataclass(frozen=True)
class LyingCase:
    """A lie of the node."""

    name: str
    fault: Fault
    lie: Lie | None = None


CASES = (
    LyingCase("nothing", answering()),
    LyingCase("fees", dear_fees),
    LyingCase("rent", dear_rent, full_trees),
    LyingCase("full trees", answering(), full_trees),
    LyingCase("expiry", answering(), expired),
    LyingCase("heights", answering(), past_heights),
)


@dataclass
class Cost:
    """Outcome of a lie; ``signed`` counts different transactions."""

    lie: str
    seconds: float
    signed: int
    sol: float


class LyingRun:
    """Lies one after another before one process."""

    def __init__(self, stage: Stage, options: argparse.Namespace) -> None:
        self._stage = stage
        self._options = options
        self._signed: set[str] = set()

    async def report(self) -> Report:
        """Inject all lies, and check the outcome."""
        report, options, before = Report(), self._options, await self._balance()
        for counts in (INITIAL_TRAFFIC, *TRAFFIC):
            await self._stage.network.seed(counts)
        self._show(CASES[0])
        ends = time.monotonic() + _BEGIN_DEADLINE_S
        while not (works := self._works()) and time.monotonic() < ends:  # noqa: ASYNC110 - another process works
            await asyncio.sleep(0.25)
        report.require("the forester works before the lies", works, works)
        costs = []
        for case in CASES:
            costs.append(await self._cost_of(case, options.hold))
            self._show(CASES[0])
            await asyncio.sleep(options.rest if case.lie is not None else 0)
        if options.exhaust:
            costs.append(await self._exhausted())
            red = any(line["condition"] == "budget" for line in self._events("unhealthy"))
            stopped = self._stopped() and red and bool(self._events("spending_budget_exceeded"))
            report.require("the forester stops sending, and reports it", stopped, stopped)
        total = sol(before - await self._balance())
        report.require(f"at most the budget of {options.budget:g} SOL is spent", total <= options.budget, f"{total:g}")
        _ = self._stage.member.pid  # the process that was started
        report.tables["costs"] = [asdict(cost) for cost in costs]
        report.figures["sol"] = total
        return report

    def _show(self, case: LyingCase) -> None:
        async def counted(call: Call) -> web.StreamResponse | None:
            if call.method == "sendTransaction":
                self._signed.add(call.body["params"][0])
            return await case.fault(call)

        self._stage.proxies["rpc"].show(fault=counted, lie=case.lie)

    async def _cost_of(self, case: LyingCase, hold_s: float) -> Cost:
        began, signed, balance = time.monotonic(), len(self._signed), await self._balance()
        self._show(case)
        while (remaining_s := began + hold_s - time.monotonic()) > 0:
            for counts in TRAFFIC:
                if time.monotonic() < began + hold_s:
                    await self._stage.network.seed(counts)
            await asyncio.sleep(min(remaining_s, 1.0))
        seconds = round(time.monotonic() - began, 1)
        cost = Cost(case.name, seconds, len(self._signed) - signed, sol(balance - await self._balance()))
        log_line(f"{cost.lie}: {cost.signed} transactions, {cost.sol:.6f} SOL in {cost.seconds:g} s")
        return cost

    async def _exhausted(self) -> Cost:
        """Lie about fees until the budget has no room."""
        dear = next(case for case in CASES if case.fault is dear_fees)
        cost = Cost("fees until the budget is spent", 0.0, 0, 0.0)
        ends = time.monotonic() + _EXHAUST_DEADLINE_S
        while time.monotonic() < ends and not self._stopped():
            part = await self._cost_of(dear, 2.0)
            cost = Cost(cost.lie, cost.seconds + part.seconds, cost.signed + part.signed, cost.sol + part.sol)
        return cost

    def _works(self) -> bool:
        """Return True if work of a tree has landed, not only a registration."""
        actions = {action.value for action in Action}
        return any(line["purpose"] not in actions for line in self._events("transaction_confirmed"))

    def _stopped(self) -> bool:
        """Return True if the budget has no room for usual work, not only for a rollover."""
        reasons = [line["error"] for line in self._events("round_failed")]
        reasons += [line["reason"] for line in self._events("epoch_action")]
        return any("spending budget exceeded" in reason for reason in reasons)

    async def _balance(self) -> int:
        """Return the payer's balance on the network itself."""
        return await self._stage.network.rpc.balance(self._stage.member.payer.pubkey())

    def _events(self, event: str) -> list[dict[str, Any]]:
        return [line for line in self._stage.member.lines() if line["event"] == event]


async def run(options: argparse.Namespace, folder: Path) -> Report:
    """Run all lies."""
    spending = {"ENABLE_PRIORITY_FEES": "true", "SPENDING_BUDGET_SOL_PER_HOUR": f"{options.budget:.9f}"}
    async with staged(folder, ProofLog(), spending, slot_ms=options.slot_ms) as stage:
        return await LyingRun(stage, options).report()


def positive_sol(text: str) -> float:
    """Return an amount of SOL. Raises ArgumentTypeError unless it is positive."""
    amount = float(text)
    if not amount * LAMPORTS_PER_SOL > 0:
        raise argparse.ArgumentTypeError("a positive amount of SOL is needed")
    return amount


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    add = parser.add_argument
    add("--hold", type=float, default=30, help="seconds that each lie lasts (30)")
    add("--rest", type=float, default=30, help="seconds of honesty after each lie about the chain (30)")
    add("--budget", type=positive_sol, default=1, help="spending budget of the forester, SOL per hour (1)")
    add("--exhaust", action="store_true", help="lie about fees at last until the budget is spent")
    add("--slot-ms", type=float, default=400, help="milliseconds per slot, as a cluster has them (400)")
