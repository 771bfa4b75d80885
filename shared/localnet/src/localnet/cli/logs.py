"""``localnet logs``: the transactions of a running network with the logs of their programs."""

import asyncio
import contextlib
from typing import Any

import aiohttp
import click
from solders.pubkey import Pubkey

from localnet.cli.control import url_option


def _websocket_url(url: str) -> str:
    return "ws" + url.removeprefix("http") if url.startswith("http") else url


async def _follow(url: str, mentions: str | None) -> None:
    wanted = "all" if mentions is None else {"mentions": [mentions]}
    request = {"jsonrpc": "2.0", "id": 1, "method": "logsSubscribe", "params": [wanted, {"commitment": "processed"}]}
    async with aiohttp.ClientSession() as session, session.ws_connect(_websocket_url(url)) as socket:
        await socket.send_json(request)
        click.echo(f"Streaming logs of {mentions or 'all transactions'} from {url}", err=True)
        async for message in socket:
            body = message.json()
            if "error" in body:
                raise click.ClickException(body["error"]["message"])
            if "params" in body:
                click.echo(describe(body["params"]["result"]))


def describe(result: dict[str, Any]) -> str:
    """Return a transaction as text, as `solana logs` prints it."""
    value = result["value"]
    status = "Ok" if value["err"] is None else f"Error: {value['err']}"
    lines = [f"Transaction executed in slot {result['context']['slot']}:"]
    lines += [f"  Signature: {value['signature']}", f"  Status: {status}", "  Log Messages:"]
    return "\n".join(lines + [f"    {line}" for line in value["logs"]])


@click.command()
@click.argument("address", required=False)
@url_option
def logs(url: str, address: str | None) -> None:
    """Print transactions with their programs' logs as they are executed, until Ctrl-C.

    With ADDRESS, print those that name it.
    """
    if address is not None:
        try:
            Pubkey.from_string(address)
        except ValueError as error:
            raise click.BadParameter(f"{address} is not an address: {error}") from error
    try:
        with contextlib.suppress(KeyboardInterrupt):
            asyncio.run(_follow(url, address))
            raise click.ClickException(f"the network at {url} has ended")
    except aiohttp.ClientError as error:
        message = f"no network answers at {url} ({error}); start one with `localnet up`, or pass its URL with --url"
        raise click.ClickException(message) from error
