"""The network, its indexer and its prover, in one process, until a signal."""

import asyncio
import contextlib
import json
import tempfile
import time
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import click
from aiohttp import web
from solders.keypair import Keypair
from solders.pubkey import Pubkey

from localnet.chain.account_files import AccountFileInvalid, read_account, read_accounts
from localnet.chain.artefacts import DEFAULT_VERSION, Artefacts, ArtefactsMissing, load_artefacts
from localnet.chain.network import Network, ProgramUnusable
from localnet.chain.simulated_proofs import with_simulated_keys
from localnet.chain.snapshots import SnapshotInvalid, load_state
from localnet.chain.verifying_keys import VerifyingKeyInvalid, with_verifying_keys
from localnet.cli.clock import run_clock
from localnet.cli.harness import Harness
from localnet.cli.options import Options
from localnet.development import (
    AUTHORITY,
    FORESTER,
    LAMPORTS_EACH,
    USER,
    NetworkUnusable,
    forester_environment,
    furnish,
)
from localnet.hosts import reachable
from localnet.indexer.running import running_indexer
from localnet.prover import proxy, simulated
from localnet.prover.faults import ProverFaults
from localnet.prover.key_folder import KeyFolderUnusable, verifying_keys_of
from localnet.rpc.dispatch import calling
from localnet.rpc.saved_states import SavedStates
from localnet.rpc.server import METHODS, make_app, serving
from localnet.users.proofs import IndexedProofs, SimulatedProofs
from localnet.users.traffic import Traffic
from shared.process.shutdown import Shutdown

PROVER_PORT, PROXY_PORT = 3001, 3101
KEYS = {"authority": AUTHORITY, "forester": FORESTER, "user": USER}
FAILURES = (
    AccountFileInvalid,
    ArtefactsMissing,
    KeyFolderUnusable,
    NetworkUnusable,
    ProgramUnusable,
    SnapshotInvalid,
    VerifyingKeyInvalid,
    OSError,
)


def _artefacts(options: Options) -> Artefacts:
    published = load_artefacts(DEFAULT_VERSION).with_protocol_authority(AUTHORITY.pubkey())
    own = {_address(text): path.read_bytes() for text, path in options.programs}
    published = replace(published, own_programs=own)
    if options.keys_dir is None:
        return with_simulated_keys(published)
    return with_verifying_keys(published, verifying_keys_of(options.keys_dir, published))


def _address(text: str) -> Pubkey:
    """Return an address, given itself or as a key file."""
    try:
        if Path(text).is_file():
            return Keypair.from_json(Path(text).read_text()).pubkey()
        return Pubkey.from_string(text)
    except ValueError as error:
        raise click.UsageError(f"{text} is neither an address nor a key file: {error}") from error


def _network(options: Options) -> Network:
    network = Network(_artefacts(options), first_slot=options.first_slot)
    if options.restore is not None:
        network.restore(load_state(options.restore))
    else:
        furnish(network)
    accounts = [entry for path in options.clones for entry in read_accounts(path)]
    for text, path in options.accounts:
        address, account = read_account(path)
        accounts.append((address if text == "-" else _address(text), account))
    for address, account in accounts:
        network.set_account(address, account)
    return network


async def run(options: Options) -> None:
    """Serve a network until a signal; raise one of ``FAILURES`` if it cannot start."""
    started = time.monotonic()
    shutdown = Shutdown()
    shutdown.install()
    network = _network(options)
    host = reachable(options.host)
    async with contextlib.AsyncExitStack() as stack:
        ports = (0,) if options.rpc_port == 0 else (options.rpc_port, options.rpc_port + 1)
        app = make_app(network, options.access)
        rpc_ports = await stack.enter_async_context(_serving(app, options.host, "--rpc-port", *ports))
        prover_faults = ProverFaults()
        if options.keys_dir is None:
            prover = simulated.make_app(prover_faults, options.access)
        else:
            prover = proxy.make_app(options.prover_url, prover_faults, options.access)
        default_port = PROVER_PORT if options.keys_dir is None else PROXY_PORT
        prover_port = default_port if options.prover_port is None else options.prover_port
        [port] = await stack.enter_async_context(_serving(prover, options.host, "--prover-port", prover_port))
        prover_url = f"http://{host}:{port}"
        rpc_url = f"http://{host}:{rpc_ports[0]}"
        indexer = await stack.enter_async_context(
            running_indexer(
                network,
                node=calling(network, app[METHODS]),
                prover_url=prover_url,
                path=options.indexer_db,
                host=options.host,
                port=options.indexer_port,
                access=options.access,
            )
        )
        network.transaction_listeners.append(lambda _done, _keys: indexer.follower.wake())
        network.slot_listeners.append(indexer.follower.wake)
        proofs = SimulatedProofs(network) if options.keys_dir is None else IndexedProofs(indexer.service.call)
        traffic = Traffic(network, proofs, fork=network.fork)
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="localnet-")))
        key_file = options.key_file or folder / "user.json"
        _write_key(key_file)
        states = options.states_dir or folder / "states"
        states.mkdir(exist_ok=True)
        app[METHODS].update(SavedStates(states).methods())
        app[METHODS].update(Harness(network, traffic, indexer.faults, prover_faults).methods())
        clock = None
        if options.slot_ms:
            clock = asyncio.create_task(run_clock(network, options.slot_ms / 1000))
        urls = {
            "RPC_URL": rpc_url,
            "WS_RPC_URL": f"ws://{host}:{rpc_ports[-1]}",
            "INDEXER_URL": indexer.url,
            "PROVER_URL": prover_url,
        }
        _announce(options, network, urls, key_file, time.monotonic() - started)
        await _until_stopped(shutdown, clock)


@contextlib.asynccontextmanager
async def _serving(app: web.Application, host: str, option: str, *ports: int) -> AsyncIterator[list[int]]:
    """Listen; name the option of a port that is in use."""
    async with contextlib.AsyncExitStack() as stack:
        try:
            found = await stack.enter_async_context(serving(app, host, *ports))
        except OSError as error:
            wanted = " or ".join(map(str, ports))
            message = f"cannot listen on port {wanted} of {host}: {error.strerror}; choose another with {option}"
            raise click.ClickException(message) from error
        yield found


async def _until_stopped(shutdown: Shutdown, clock: asyncio.Task[None] | None) -> None:
    """Wait for a signal; a clock that fails ends the network with its error."""
    stop = asyncio.create_task(shutdown.wait())
    await asyncio.wait({stop, clock} if clock else {stop}, return_when=asyncio.FIRST_COMPLETED)
    stop.cancel()
    if clock is not None:
        clock.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await clock


def _write_key(path: Path) -> None:
    """Write the key of the funded user as wallets store keys. The key is public, so others may read the file."""
    path.write_text(USER.to_json() + "\n")


def _announce(options: Options, network: Network, urls: dict[str, str], key_file: Path, seconds: float) -> None:
    environment = forester_environment(urls)
    proofs = "simulated" if options.keys_dir is None else f"under the keys of {options.keys_dir}"
    if options.as_json:
        report = {
            "rpcUrl": urls["RPC_URL"],
            "wsUrl": urls["WS_RPC_URL"],
            "indexerUrl": urls["INDEXER_URL"],
            "proverUrl": urls["PROVER_URL"],
            "proofs": proofs,
            "slot": network.slot,
            "genesisHash": str(network.genesis_hash),
            "readySeconds": round(seconds, 3),
            "keyFile": str(key_file),
            "keys": {name: list(bytes(key)) for name, key in KEYS.items()},
            "environment": environment,
        }
        click.echo(json.dumps(report))
        return
    click.echo(f"localnet is ready after {seconds:.1f} s, at slot {network.slot}; Ctrl-C ends it")
    click.echo(f"  JSON-RPC   {urls['RPC_URL']}")
    click.echo(f"  WebSocket  {urls['WS_RPC_URL']}")
    click.echo(f"  indexer    {urls['INDEXER_URL']}")
    click.echo(f"  prover     {urls['PROVER_URL']} (proofs {proofs})")
    click.echo(f"  key file   {key_file} ({USER.pubkey()}, {LAMPORTS_EACH // 10**9} SOL)")
    click.echo("environment for a forester:")
    for name, value in environment.items():
        click.echo(f"  export {name}='{value}'")
