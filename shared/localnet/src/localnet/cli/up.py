"""``localnet up``: its options."""

import asyncio
from pathlib import Path

import click

from localnet.chain.network import FIRST_SLOT
from localnet.cli.options import Options
from localnet.cli.running import FAILURES, run
from localnet.indexer.running import DEFAULT_PORT
from shared.process.logs import configure_logs

PROVER_URL = "http://127.0.0.1:3001"
_EXISTING_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)


@click.command()
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option(
    "--rpc-port",
    type=click.IntRange(0, 65534),
    default=8899,
    show_default=True,
    help="Port of JSON-RPC and WebSocket; the next port serves them as well, where clients look for WebSocket. "
    "0 uses free ports.",
)
@click.option(
    "--prover-port",
    type=click.IntRange(0, 65535),
    show_default="3001; with --keys-dir 3101",
    help="Port of the simulated prover; with --keys-dir, of a proxy that forwards calls to --prover-url.",
)
@click.option(
    "--indexer-port",
    type=click.IntRange(0, 65535),
    default=DEFAULT_PORT,
    show_default=True,
    help="Port of the indexer.",
)
@click.option(
    "--indexer-db",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Database of the indexer, continued if it belongs to the same chain; without it, a temporary one.",
)
@click.option(
    "--slot-ms",
    type=click.FloatRange(min=0),
    default=400,
    show_default=True,
    help="Milliseconds per slot; 0 stops the clock until `localnet advance` or `localnet warp`.",
)
@click.option(
    "--first-slot", type=click.IntRange(min=1), default=FIRST_SLOT, show_default=True, help="First slot of the chain."
)
@click.option(
    "--keys-dir",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="Folder of proving keys: the programs accept proofs under them, from a prover that you start with the same "
    "folder. Without it they accept simulated proofs.",
)
@click.option("--prover-url", default=PROVER_URL, show_default=True, help="URL of that prover (with --keys-dir).")
@click.option(
    "--restore",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Initial state, which `localnet save` wrote under the same keys.",
)
@click.option(
    "--states-dir",
    type=click.Path(exists=True, file_okay=False, resolve_path=True, path_type=Path),
    help="Folder of the states that localnet_save writes; without it, a temporary one.",
)
@click.option(
    "--allow-host",
    multiple=True,
    metavar="NAME",
    help="Name of this machine that requests may have in their Host header, in addition to localhost; repeatable.",
)
@click.option(
    "--allow-origin",
    multiple=True,
    metavar="ORIGIN",
    help="Origin whose pages may send requests, in addition to those of this machine; * for any; repeatable.",
)
@click.option(
    "--program",
    "programs",
    type=(str, _EXISTING_FILE),
    multiple=True,
    metavar="ADDRESS FILE",
    help="Program to load: its address, or a key file with it, and the .so that the build made; repeatable.",
)
@click.option(
    "--account",
    "accounts",
    type=(str, _EXISTING_FILE),
    multiple=True,
    metavar="ADDRESS FILE",
    help="Account to load, in the format of `solana account --output json`; - is the address in the file; repeatable.",
)
@click.option(
    "--clone",
    "clones",
    type=_EXISTING_FILE,
    multiple=True,
    metavar="FILE",
    help="Accounts to load from another cluster: a saved answer to getProgramAccounts in base64; repeatable.",
)
@click.option(
    "--key-file",
    type=click.Path(dir_okay=False, path_type=Path),
    help="File to write the key of the funded user to, for wallets; without it, a temporary one.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the ready message as one line of JSON.")
def up(**options: object) -> None:
    """Start a network; Ctrl-C stops it.

    When it is ready, it prints its addresses, a key file with funds, and the environment for a forester. The keys are
    public: use them for this network only.
    """
    configure_logs(level="warning")
    try:
        asyncio.run(run(Options(**options)))  # type: ignore[arg-type]
    except FAILURES as error:
        raise click.ClickException(str(error)) from error
