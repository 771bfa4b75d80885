"""Commands that control a running network over its JSON-RPC interface."""

import asyncio
import base64
import json
import secrets
import time
from pathlib import Path
from typing import Any

import aiohttp
import click
from solders.pubkey import Pubkey

from localnet.chain import addresses
from localnet.chain.snapshots import write_whole

LAMPORTS_PER_SOL = 10**9
EPOCH_CONFIG = 41
"""Offset of the protocol config in its account (forester/docs/reference/accounts.md, "Registry accounts")."""

url_option = click.option(
    "--url", default="http://127.0.0.1:8899", show_default=True, envvar="RPC_URL", help="URL of the network's JSON-RPC."
)
PHASES = ("registration", "active", "report")
_TIMEOUT = aiohttp.ClientTimeout(total=None, sock_connect=10)
"""Without a limit of the call: traffic with proofs of a prover may take longer than any."""


async def _request(url: str, method: str, params: list[Any]) -> Any:
    body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
    async with aiohttp.ClientSession(timeout=_TIMEOUT) as session, session.post(url, json=body) as response:
        return await response.json()


def call(url: str, method: str, *params: Any) -> Any:
    """Return the result of a call; raise click.ClickException with the reason if there is none."""
    try:
        answer = asyncio.run(_request(url, method, list(params)))
    except (aiohttp.ClientError, ValueError) as error:
        message = f"no network answers at {url} ({error}); start one with `localnet up`, or pass its URL with --url"
        raise click.ClickException(message) from error
    if "error" in answer:
        raise click.ClickException(answer["error"]["message"])
    return answer["result"]


@click.command()
@click.argument("slots", type=click.IntRange(min=1), default=1)
@url_option
def advance(url: str, slots: int) -> None:
    """Close the open slot, or SLOTS of them. Print the slot that is open then."""
    click.echo(call(url, "localnet_advance", slots))


@click.command()
@click.argument("slot", type=click.IntRange(min=1), required=False)
@click.option("--by", type=click.IntRange(min=1), help="Number of slots to advance instead.")
@url_option
def warp(url: str, slot: int | None, by: int | None) -> None:
    """Jump to SLOT; the slots between are skipped."""
    if (slot is None) == (by is None):
        raise click.UsageError("name a slot, or how far to go with --by")
    target = slot if slot is not None else call(url, "getSlot", {"commitment": "processed"}) + by
    click.echo(call(url, "localnet_warp", target))


def _epoch_numbers(url: str) -> dict[str, int]:
    """Return the lengths of the protocol's phases, from its account."""
    config = {"encoding": "base64", "dataSlice": {"offset": EPOCH_CONFIG, "length": 48}}
    value = call(url, "getAccountInfo", str(addresses.PROTOCOL_CONFIG), config)["value"]
    if value is None:
        raise click.ClickException(f"the network at {url} has no protocol config")
    data = base64.b64decode(value["data"][0])
    names = ("genesis", "min_weight", "slot_length", "registration", "active", "report")
    return {name: int.from_bytes(data[8 * at : 8 * at + 8], "little") for at, name in enumerate(names)}


def phase_start(numbers: dict[str, int], phase: str, slot: int) -> tuple[int, int]:
    """Return the first slot after ``slot`` at which a phase of some epoch opens, and that epoch.

    Source: forester/docs/reference/programs.md, "Epoch phases".
    """
    opens = {"registration": 0, "active": numbers["registration"]}
    opens["report"] = numbers["registration"] + numbers["active"]
    offset = opens[phase]
    epoch = max(0, (slot - numbers["genesis"] - offset) // numbers["active"] + 1)
    return numbers["genesis"] + offset + epoch * numbers["active"], epoch


@click.command()
@click.argument("phase", type=click.Choice(PHASES))
@url_option
def epoch(url: str, phase: str) -> None:
    """Jump to the next slot at which PHASE of a forester epoch opens. Print the slot and the epoch."""
    start, number = phase_start(_epoch_numbers(url), phase, call(url, "getSlot", {"commitment": "processed"}))
    call(url, "localnet_warp", start)
    click.echo(f"slot {start}: {phase} phase of epoch {number}")


@click.command()
@click.argument("address")
@click.argument("sol", type=click.FloatRange(min=0, min_open=True), default=1.0)
@url_option
def airdrop(url: str, address: str, sol: float) -> None:
    """Send SOL to ADDRESS. Print the signature."""
    try:
        Pubkey.from_string(address)
    except ValueError as error:
        raise click.BadParameter(f"{address} is not an address: {error}") from error
    click.echo(call(url, "requestAirdrop", address, int(sol * LAMPORTS_PER_SOL)))


def _state_file(url: str, name: str) -> Path:
    """Return the path of a state in the network's own folder."""
    folder = Path(call(url, "localnet_statesFolder"))
    if not folder.is_dir():
        message = f"the network at {url} stores states in {folder}, which this machine does not have"
        raise click.ClickException(f"{message}; run the command where the network runs")
    return folder / name


path_argument = click.argument("path", type=click.Path(path_type=Path, dir_okay=False))


@click.command()
@path_argument
@url_option
def save(url: str, path: Path) -> None:
    """Write the state of the network to the file PATH."""
    # The network writes only to its own folder; this command can write wherever its user may.
    own = _state_file(url, _random_name())
    try:
        slot = call(url, "localnet_save", own.name)["slot"]
        write_whole(path, own.read_bytes())
    except OSError as error:
        raise click.ClickException(f"cannot copy the state from {own} to {path}: {error.strerror}") from error
    finally:
        own.unlink(missing_ok=True)
    click.echo(f"slot {slot}")


@click.command()
@path_argument
@url_option
def restore(url: str, path: Path) -> None:
    """Restore the state in the file PATH, which makes a fork."""
    own = _state_file(url, _random_name())
    try:
        write_whole(own, path.read_bytes())
        slot = call(url, "localnet_restore", own.name)["slot"]
    except OSError as error:
        raise click.ClickException(f"cannot copy the state from {path} to {own}: {error.strerror}") from error
    finally:
        own.unlink(missing_ok=True)
    click.echo(f"slot {slot}")


def _random_name() -> str:
    return f"command-{secrets.token_hex(16)}"


@click.command()
@click.option("--compress", type=click.IntRange(min=0), default=0, help="New accounts in the V2 output queue.")
@click.option("--spend", type=click.IntRange(min=0), default=0, help="Queued accounts to spend.")
@click.option("--addresses", type=click.IntRange(min=0), default=0, help="New V2 addresses.")
@click.option("--v1", "v1_compress", type=click.IntRange(min=0), default=0, help="New accounts in the V1 state tree.")
@click.option("--v1-spend", type=click.IntRange(min=0), default=0, help="V1 accounts to spend.")
@click.option("--v1-addresses", type=click.IntRange(min=0), default=0, help="New V1 addresses.")
@click.option(
    "--every", type=click.FloatRange(min=0, min_open=True), help="Interval in seconds at which to repeat, until Ctrl-C."
)
@url_option
def seed(url: str, every: float | None, **counts: int) -> None:
    """Send transactions as users do. The queues of the fixtures hold 100 elements; a forester must empty them."""
    if not any(counts.values()):
        raise click.UsageError("nothing to send; pass counts, for example --compress 20 --spend 5")
    while True:
        click.echo(json.dumps(call(url, "localnet_seed", counts)))
        if every is None:
            return
        time.sleep(every)


@click.command()
@click.option("--indexer-lag", "indexerLag", type=click.IntRange(min=0), help="Slots that the indexer stays behind.")
@click.option(
    "--indexer-429/--no-indexer-429",
    "indexerTooManyRequests",
    default=None,
    help="The indexer refuses every call with status 429.",
)
@click.option(
    "--drop-every",
    "dropEvery",
    type=click.IntRange(min=0),
    help="Lose every N-th transaction; 0 loses none.",
)
@click.option("--prover-down/--prover-up", "proverDown", default=None, help="The prover answers with status 503.")
@click.option(
    "--prover-cut/--no-prover-cut",
    "proverCut",
    default=None,
    help="The prover closes connections without an answer.",
)
@click.option(
    "--prover-delay-ms", "proverDelayMs", type=click.IntRange(min=0), help="Delay of each call of the prover."
)
@click.option("--none", "clear", is_flag=True, help="Clear all faults first.")
@url_option
def faults(url: str, clear: bool, **wanted: int | bool | None) -> None:
    """Set or clear faults. Print all faults; without options, change none.

    Two further faults have commands: `localnet warp` jumps the clock, and `localnet restore` makes a fork.
    """
    changes = {name: value for name, value in wanted.items() if value is not None}
    if clear:
        state = call(url, "localnet_faults", {})
        changes = {name: False if isinstance(value, bool) else 0 for name, value in state.items()} | changes
    click.echo(json.dumps(call(url, "localnet_faults", changes)))
