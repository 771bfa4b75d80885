"""``forester status``: epochs, foresters, trees and queues as they are on the chain."""

import asyncio
import contextlib
import json
import signal
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

import aiohttp
import click

from forester.chain.rpc_client import RpcClient
from forester.chain.rpc_pool import RetryPolicy, RpcPool
from forester.checks.result import CheckResult, run_check
from forester.checks.tokens import check_tokens
from forester.cli.options import output_option, refused_options, setting_options
from forester.compressible.scan import count_accounts
from forester.compressible.sources import sources
from forester.compressible.view import numbers_of
from forester.errors import EndpointError
from forester.indexer.client import IndexerClient, IndexerTimes
from forester.journal.compressible import LABELS, TrackedCounts, program_kind
from forester.network_status import text
from forester.network_status.gauges import set_gauges
from forester.network_status.reader import read_network
from forester.network_status.report import status_object
from forester.network_status.state import NetworkState
from forester.network_status.table import table as table_of
from forester.observability.metrics import Metrics
from forester.observability.push_gateway import push_exposition
from forester.settings import Settings, load_settings, require
from shared.process.command_line import Command
from shared.process.retries import Backoff

_SETTINGS = ("rpc_url", "fallback_rpc_url", "rpc_rate_limit", "push_gateway_url")
_INDEXER_TIMES = IndexerTimes(call_s=8.0, deadline_s=20.0, attempts=3)
_RETRY = RetryPolicy(5, Backoff(0.5, 4.0))
_WATCH_S = 5.0
_PUSHED = ("queue_length", "queue_capacity", "forester_sol_balance", "registered_foresters")
"""Metrics of a status alone: zeros of the others would replace those that a daemon has pushed to the same group."""

_CLEAR = "\x1b[H\x1b[2J"
"""Moves a terminal's cursor to the top and clears the screen."""
_EVERY_QUEUE = ("StateV1", "AddressV1", "StateV2.Append", "StateV2.Nullify", "AddressV2")
_KINDS = {
    **{label.lower(): (label,) for label in _EVERY_QUEUE},
    "all": _EVERY_QUEUE,
    "v1": _EVERY_QUEUE[:2],
    "v2": _EVERY_QUEUE[2:],
    "statev2": ("StateV2.Append", "StateV2.Nullify"),
    "append": ("StateV2.Append",),
    "nullify": ("StateV2.Nullify",),
    "address": ("AddressV2",),
}


@click.command(
    cls=Command,
    examples=(
        "forester status --rpc-url https://api.devnet.solana.com",
        "forester status --queue append --queue address",
        "forester status --table --watch",
        "forester status --output json | jq .aggregate_queue_stats",
    ),
)
@click.option("--rpc-url", "--RPC_URL", "rpc_url", metavar="URL", help="RPC node to read from. [RPC_URL]")
@setting_options("fallback_rpc_url", "rpc_rate_limit", "indexer_url", "payer", "derivation", "push_gateway_url")
@setting_options("light_pda_programs", "helius_rpc")
@refused_options({"--pagerduty-routing-key": "only forester start sends alerts; leave it out"})
@click.option("--protocol-config", is_flag=True, help="Print the protocol configuration.")
@click.option(
    "--full",
    is_flag=True,
    help="Print everything: all epochs, schedules, protocol configuration, all queues, compressed token accounts.",
)
@click.option(
    "--queue",
    "kinds",
    type=click.Choice(list(_KINDS), case_sensitive=False),
    multiple=True,
    is_flag=False,
    flag_value="all",
    help="Print the queues, or those of one kind. Repeatable.",
)
@click.option(
    "--compressible",
    is_flag=True,
    help="Print the numbers of compressible accounts too, all of which are read.",
)
@click.option("--table", is_flag=True, help="Print one line per tree instead.")
@click.option(
    "--watch",
    "every_s",
    type=click.FloatRange(1.0),
    metavar="[SECONDS]",
    is_flag=False,
    flag_value=_WATCH_S,
    help=f"With --table: print it again every {_WATCH_S:g} s, or the given number of seconds, until Ctrl-C.",
)
@output_option
def status(
    protocol_config: bool,
    full: bool,
    kinds: tuple[str, ...],
    compressible: bool,
    table: bool,
    every_s: float | None,
    output: str,
    **flags: Any,
) -> None:
    """Print epochs, foresters, queues and trees; without a selector all of these."""
    if table and (protocol_config or full or kinds or compressible or output == "json"):
        raise click.UsageError("--table has no other selectors and no JSON format; leave them out")
    if every_s is not None and not table:
        raise click.UsageError("--watch needs --table")
    if table:
        _print_table(load_settings(flags, only=_SETTINGS).settings, every_s)
        return
    more: tuple[str, ...] = ("indexer_url", "payer", "derivation") if full else ()
    more += ("light_pda_programs", "helius_rpc") if compressible else ()
    settings = load_settings(flags, only=(*_SETTINGS, *more)).settings
    require(settings, "rpc_url")
    if full or not (protocol_config or kinds or compressible):
        kinds = ("all",)
        with_trees = True
    else:
        with_trees = False
    labels = frozenset(label for kind in kinds for label in _KINDS[kind.lower()])
    state, tokens = asyncio.run(_read(settings, full))
    accounts = asyncio.run(_compressible(settings, state.slot)) if compressible else None
    if output == "json":
        content = _object(state, tokens)
        click.echo(json.dumps(content if accounts is None else content | {"compressible": accounts}, indent=2))
    else:
        for line in _lines(state, protocol_config or full, full, labels, with_trees):
            click.echo(line)
        for name, numbers in (accounts or {}).items():
            click.echo(f"Compressible accounts, {name}: {numbers['tracked']} ({numbers['ready']} ready)")
        if tokens is not None:
            click.echo(f"Compressed tokens: {'OK' if tokens.success else 'FAIL'}: {tokens.message}")
    if settings.push_gateway_url is not None:
        asyncio.run(_push(settings.push_gateway_url.get_secret_value(), state))
    if tokens is not None and not tokens.success:
        sys.exit(1)


@contextlib.contextmanager
def _remembered_interrupts() -> Iterator[list[int]]:
    """Yield a list of the interrupts so far: Python drops the exception of one that arrives in a destructor."""
    interrupts: list[int] = []

    def interrupt(number: int, _: object) -> None:
        interrupts.append(number)
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGINT, interrupt)
    try:
        yield interrupts
    finally:
        signal.signal(signal.SIGINT, before)


def _print_table(settings: Settings, every_s: float | None) -> None:
    require(settings, "rpc_url")
    with _remembered_interrupts() as interrupts:
        _print_tables(settings, every_s, interrupts)


def _print_tables(settings: Settings, every_s: float | None, interrupts: list[int]) -> None:
    while not interrupts:
        try:
            state, _ = asyncio.run(_read(settings, full=False))
            clear = _CLEAR if every_s is not None and sys.stdout.isatty() else ""
            click.echo(clear + "\n".join(table_of(state)))
            if settings.push_gateway_url is not None:
                asyncio.run(_push(settings.push_gateway_url.get_secret_value(), state))
        except EndpointError as error:
            if every_s is None:
                raise
            click.echo(f"{time.strftime('%H:%M:%S')} {error.detail}", err=True)
        if every_s is None:
            return
        time.sleep(every_s)
    raise KeyboardInterrupt


async def _read(settings: Settings, full: bool) -> tuple[NetworkState, CheckResult | None]:
    async with RpcPool.from_settings(settings, retry=_RETRY) as pool:
        state = await read_network(RpcClient(pool), all_epochs=full)
    return state, await run_check("compressed_tokens", lambda: _tokens(settings)) if full else None


async def _compressible(settings: Settings, slot: int) -> dict[str, dict[str, int]]:
    """Return the numbers of compressible accounts by the names of their kinds."""
    tracked = sources(settings.light_pda_programs)
    async with RpcPool.from_settings(settings, retry=_RETRY) as pool:
        counts = await count_accounts(RpcClient(pool), tracked, slot=slot, paged=settings.helius_rpc)
    names = dict(LABELS)
    for named in settings.light_pda_programs:
        names[program_kind(bytes(named.program), named.discriminator)] = str(named.program)
    return {name: numbers_of(counts.get(kind, TrackedCounts())) for kind, name in names.items()}


async def _push(url: str, state: NetworkState) -> None:
    metrics = Metrics()
    set_gauges(metrics, state)
    async with aiohttp.ClientSession() as session:
        await push_exposition(session, url, metrics.exposition(_PUSHED))


async def _tokens(settings: Settings) -> str:
    owner = settings.derivation or (settings.payer.pubkey if settings.payer is not None else None)
    if settings.indexer_url is None or owner is None:
        return "not checked; set INDEXER_URL, and PAYER or DERIVATION_PUBKEY"
    async with aiohttp.ClientSession() as session:
        indexer = IndexerClient(session, settings.indexer_url.get_secret_value(), times=_INDEXER_TIMES)
        return await check_tokens(indexer, owner)


def _object(state: NetworkState, tokens: CheckResult | None) -> dict[str, Any]:
    config = {"authority": str(state.protocol.authority), **asdict(state.protocol.config)}
    answer = status_object(state) | {"protocol_config": config}
    return answer if tokens is None else answer | {"compressed_tokens": asdict(tokens)}


def _lines(
    state: NetworkState, protocol_config: bool, full: bool, labels: frozenset[str], with_trees: bool
) -> Iterator[str]:
    yield from text.overview(state, all_epochs=full)
    if protocol_config:
        yield ""
        yield from text.protocol_config(state)
    if labels:
        yield ""
        yield from text.queues(state, labels)
    if with_trees:
        yield from text.trees(state, full=full)
