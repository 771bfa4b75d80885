"""The bootstrap of a forester's compressible accounts from a node that serves any number of them.

A process scans the node as a forester does at its first start, into a journal on disk, by getProgramAccounts and by the
pages of Helius; another one opens the journal as a restart does. Bounds: every account is stored with its slot, the
memory and the disk that each takes, and no scan after the restart.
"""

from __future__ import annotations

import argparse
import asyncio
import multiprocessing
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from account_node import AccountNode, prepaid_epochs
from aiohttp import web
from bench_report import Report
from process_figures import MIB, ProcessFigures

from forester.chain.rpc_client import RpcClient
from forester.chain.rpc_pool import RpcPool
from forester.compressible.rent import RENT_EPOCH_SLOTS
from forester.compressible.sources import sources
from forester.compressible.tracker import AccountTracker
from forester.journal.compressible import NEVER_SLOT, CompressibleStore, TrackedCounts
from forester.journal.database import Journal

BYTES_PER_ACCOUNT = 300
READY_EPOCH = 6
"""Rent epoch in which the accounts that have paid up to then are counted."""


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    parser.add_argument("--accounts", type=int, default=1_000_000, help="number of token accounts (1000000)")


async def run(options: argparse.Namespace, folder: Path) -> Report:
    """Bootstrap both ways, and restart."""
    report = Report()
    with _node(options.accounts) as url:
        for name, paged in (("getProgramAccounts", False), ("getProgramAccountsV2", True)):
            journal = folder / f"{name}.sqlite"
            first = await asyncio.to_thread(_in_process, _scanned, url, journal, paged)
            again = await asyncio.to_thread(_in_process, _restarted, journal)
            disk = await asyncio.to_thread(_bytes_of, journal)
            memory = first["peak_bytes"] - first["idle_bytes"]
            report.tables.setdefault("bootstraps", []).append(
                {
                    "method": name,
                    "accounts": options.accounts,
                    "seconds": first["seconds"],
                    "cpu seconds": first["cpu_s"],
                    "idle MiB": first["idle_bytes"] / MIB,
                    "peak MiB": first["peak_bytes"] / MIB,
                    "bytes of memory per account": memory / options.accounts,
                    "bytes of disk per account": disk / options.accounts,
                    "largest pause of the loop, s": first["pause_s"],
                    "counting, s": again["counting_s"],
                    "candidates, s": again["ready_s"],
                }
            )
            expected = sum(prepaid_epochs(number) <= READY_EPOCH for number in range(options.accounts))
            report.require(f"{name}: all accounts are stored", first["tracked"] == options.accounts, first["tracked"])
            report.require(f"{name}: ready ones as computed", first["ready"] == expected, first["ready"])
            report.require(f"{name}: kept over a restart", again["tracked"] == options.accounts, again["tracked"])
            report.require(f"{name}: no scan at the restart", not again["is_due"], again["is_due"])
            report.require(
                f"{name}: disk below {BYTES_PER_ACCOUNT} bytes an account",
                disk < BYTES_PER_ACCOUNT * max(options.accounts, 1000),
                round(disk / options.accounts),
            )
            if options.accounts >= 100_000:
                kept = memory < BYTES_PER_ACCOUNT * options.accounts
                bound = f"{name}: memory below {BYTES_PER_ACCOUNT} bytes an account"
                report.require(bound, kept, round(memory / options.accounts))
    return report


def _bytes_of(journal: Path) -> int:
    """Return the size of a journal with the files next to it."""
    return sum(path.stat().st_size for path in journal.parent.glob(f"{journal.name}*"))


@contextmanager
def _node(accounts: int) -> Iterator[str]:
    """Serve the accounts from another process."""
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe()
    process = context.Process(target=_serve, args=(accounts, there), daemon=True)
    process.start()
    try:
        yield here.recv()
    finally:
        process.kill()
        process.join()


def _serve(accounts: int, ready: Connection) -> None:
    async def serve() -> None:
        runner = web.AppRunner(AccountNode(accounts, paged=True).application)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        port = runner.addresses[0][1]
        ready.send(f"http://127.0.0.1:{port}")
        await asyncio.Event().wait()

    asyncio.run(serve())


def _in_process(work: Any, *arguments: Any) -> dict[str, Any]:
    """Return the result of asynchronous work in a process of its own."""
    context = multiprocessing.get_context("spawn")
    with context.Pool(1) as pool:
        result: dict[str, Any] = pool.apply(_run, (work, arguments))
        return result


def _run(work: Any, arguments: Any) -> Any:
    return asyncio.run(work(*arguments))


async def _scanned(url: str, path: Path, paged: bool) -> dict[str, Any]:
    process = ProcessFigures(os.getpid())
    async with RpcPool([url]) as pool, await Journal.open(path) as journal:
        store, [tokens, *_] = CompressibleStore(journal), sources([])
        tracker = AccountTracker(tokens, RpcClient(pool), store, current_slot=lambda: NEVER_SLOT, paged=paged)
        idle, cpu, began = process.resident_bytes, process.cpu_s, time.monotonic()
        watching = asyncio.create_task(_longest_pause())
        await tracker.scan()
        seconds = time.monotonic() - began
        watching.cancel()
        (pause,) = await asyncio.gather(watching)
        counts = sum((await store.counts(READY_EPOCH * RENT_EPOCH_SLOTS)).values(), TrackedCounts())
        return {
            "seconds": seconds,
            "cpu_s": process.cpu_s - cpu,
            "idle_bytes": idle,
            "peak_bytes": process.peak_resident_bytes,
            "pause_s": pause,
            "tracked": counts.tracked,
            "ready": counts.ready,
        }


async def _longest_pause() -> float:
    """Return, once cancelled, the longest time for which the loop ran nothing else."""
    longest, last = 0.0, time.monotonic()
    try:
        while True:
            await asyncio.sleep(0.005)
            now = time.monotonic()
            longest, last = max(longest, now - last - 0.005), now
    except asyncio.CancelledError:
        return longest


async def _restarted(path: Path) -> dict[str, Any]:
    async with await Journal.open(path) as journal:
        store, [tokens, *_] = CompressibleStore(journal), sources([])
        slot = READY_EPOCH * RENT_EPOCH_SLOTS
        began = time.monotonic()
        counts = sum((await store.counts(slot)).values(), TrackedCounts())
        counted = time.monotonic()
        await store.ready(tokens.kinds, slot, 100)
        return {
            "tracked": counts.tracked,
            "counting_s": counted - began,
            "ready_s": time.monotonic() - counted,
            "is_due": await store.last_scan_at(tokens.kinds) == 0,
        }
