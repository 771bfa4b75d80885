"""The server of ``prover start``: its parts are built from settings and closed in order."""

from __future__ import annotations

import asyncio
import gc
import signal
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

from prover.errors import KeyDownloadFailed, SettingsInvalid
from prover.http.app import serve, start_metrics_server
from prover.http.server.metrics_server import MetricsServer
from prover.http.state import ServerState
from prover.kernel.cancellation import CancelFlag
from prover.kernel.engine import Engine, kernel_version
from prover.keys.catalogue.circuits import PUBLISHED_CIRCUITS, UnknownCircuit, circuits_named, smallest_first
from prover.keys.catalogue.published_digests import read_pinned_manifest
from prover.keys.catalogue.run_modes import KeySet, RunMode, circuits_of
from prover.keys.catalogue.selection import CircuitSelection
from prover.keys.files.key_folder import folder_fault
from prover.keys.files.memory_budget import key_budget_bytes
from prover.keys.prepared.preparation import PreparedKeys
from prover.keys.prepared.prepared_keys import Digests
from prover.keys.store.key_store import Fetch, KeyStore
from prover.keys.store.preload import Preloader
from prover.keys.verify import accepted_digests
from prover.observability.metrics import Metrics
from prover.proving.device_selection import open_devices
from prover.settings import KeySettings, Settings
from prover.versions import INTERFACE_VERSION, VERSION
from shared.process.logs import get_logger
from shared.process.metrics import new_registry
from shared.process.shutdown import Shutdown, end_by_sigterm
from shared.requests.circuit_id import CircuitId

if TYPE_CHECKING:
    from prover.cli.serving.queue_part import QueuePart

_log = get_logger(__name__)

_LIST_WITHIN_S = 5.0
"""Maximum seconds for the list of published keys while a request waits: without a network it gets the reason."""

_NO_KEYS_REMEDY = (
    "every proof is answered 503 until there are keys: run `prover download --keys-dir` with that folder, start with "
    "--auto-download, or put keys into it"
)


async def run_server(settings: Settings) -> int:
    """Serve until a signal requests a stop, and return the exit code. Raises SettingsInvalid."""
    selection, fetch, accepted = selection_of(settings.keys), fetch_of(settings.keys), digests_of(settings.keys)
    required = required_circuits(settings.keys, selection)
    _require_directory(settings.keys)
    registry = new_registry()
    metrics = Metrics(registry)
    shutdown = Shutdown()
    shutdown.install()
    # By default SIGHUP ends the process without draining. The API reloads its keys instead.
    asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, lambda: None)
    with (
        Engine(settings.proving.threads) as engine,
        closing(open_devices(settings, metrics)) as devices,
    ):
        budget_bytes = key_budget_bytes(settings.keys.memory_gib, settings.keys.total_memory_gib)
        prepared_keys = PreparedKeys(settings.keys.prepared_folder) if settings.keys.prepare else None
        # A GPU has copies of loaded keys, which it would have to make again.
        on_cpu = not devices.describe()
        keys = KeyStore(
            settings.keys.directory, engine, metrics, budget_bytes, fetch, prepared_keys, accepted, map_written=on_cpu
        )
        preloader = Preloader(keys, required, fetch, on_loaded=devices.preload)
        queue = _open_queue(settings, metrics)
        store = queue.store if queue else None
        state = ServerState(settings, keys, metrics, selection, preloader.missing_required, store, devices)
        _log.info(
            "starting",
            kernel=kernel_version(),
            backend=engine.backend,
            device=devices.choice.selected,
            threads=engine.threads,
            concurrency=settings.proving.permits,
            keys_dir=str(settings.keys.directory),
            key_budget_bytes=budget_bytes,
            circuits=len(selection.published()),
            preload=len(required),
            auto_download=settings.keys.auto_download,
        )
        if fetch is None and not any(map(selection.includes, keys.installed())):
            _log.warning("keys_missing", keys_dir=str(keys.directory.absolute()), remedy=_NO_KEYS_REMEDY)
        metrics.active_threads.set(engine.threads)
        metrics.build_info.labels(VERSION, INTERFACE_VERSION, kernel_version(), engine.backend).set(1)
        metrics_server = start_metrics_server(state, registry)
        _freeze_collector()
        try:
            await _serve_all(state, queue, metrics_server, shutdown, preloader.start)
        finally:
            preloader.close()
            if queue is not None:
                await queue.close()
            keys.close()
            state.close()
            metrics_server.close()
    shutdown.uninstall()
    end_by_sigterm()  # a second signal has the same exit code when the loop is closed
    _log.info("stopped")
    return 0


def _open_queue(settings: Settings, metrics: Metrics) -> QueuePart | None:
    """Return the queue part, None without a queue: the Redis client takes memory and a fifth of the start's time."""
    if not settings.queue.url:
        return None
    from prover.cli.serving.queue_part import QueuePart

    return QueuePart.open(settings.queue.url.reveal(), settings, metrics)


def _freeze_collector() -> None:
    """Exclude the objects of the start from garbage collection: a full collection blocked all requests for 50 ms."""
    gc.collect()
    gc.freeze()


async def _serve_all(
    state: ServerState,
    queue: QueuePart | None,
    metrics_server: MetricsServer,
    shutdown: Shutdown,
    preload: Callable[[], None],
) -> None:
    """Serve; keys load and jobs begin once the addresses are bound, so that a taken one ends the process at once."""
    if queue is None:
        await serve(state, metrics_server, shutdown, preload)
        return
    from prover.cli.serving.queue_part import serve_queue_only, together

    def begin() -> None:
        preload()
        queue.start(state)

    serving = serve if state.settings.queue.http else serve_queue_only
    await together(
        asyncio.ensure_future(serving(state, metrics_server, shutdown, begin)),
        asyncio.ensure_future(queue.drain_on(shutdown)),
    )


def _require_directory(settings: KeySettings) -> None:
    """Raise SettingsInvalid for a chosen keys directory that does not exist and that no download makes."""
    folder = settings.directory
    fault = folder_fault(folder)
    if folder == KeySettings().directory or settings.auto_download or fault is None:
        return
    raise SettingsInvalid(
        f"keys directory {folder} {fault}; create it, pass another --keys-dir, or download keys with --auto-download"
    )


def selection_of(settings: KeySettings) -> CircuitSelection:
    """Return the circuits that this instance proves; raises SettingsInvalid."""
    mode = RunMode(settings.run_mode) if settings.run_mode else None
    try:
        return CircuitSelection.of(mode, _names(settings.circuits), KeySet(settings.key_set))
    except UnknownCircuit as error:
        raise SettingsInvalid(f"PROVER_KEYS__CIRCUITS: {error}") from error


def required_circuits(settings: KeySettings, selection: CircuitSelection) -> list[CircuitId]:
    """Return the circuits to preload, the smallest keys first; raises SettingsInvalid."""
    try:
        wanted = set(circuits_named(_names(settings.preload_circuits)))
    except UnknownCircuit as error:
        raise SettingsInvalid(f"PROVER_KEYS__PRELOAD_CIRCUITS: {error}") from error
    if settings.preload == "all":
        wanted |= PUBLISHED_CIRCUITS
    elif settings.preload != "none":
        wanted |= set(circuits_of(RunMode(settings.preload), KeySet(settings.key_set)))
    excluded = [circuit for circuit in wanted if not selection.includes(circuit)]
    if excluded:
        _log.warning("preload_excluded", keys=len(excluded), detail="--run-mode and --circuit exclude them")
    return smallest_first(wanted.difference(excluded))


def fetch_of(settings: KeySettings) -> Fetch | None:
    """Return the function that downloads missing keys, None if downloads are disabled. Raises SettingsInvalid."""
    if not settings.auto_download:
        return None
    from prover.cli.download_display import LogLines
    from prover.keys.download.download import download_keys
    from prover.keys.download.source import DownloadSource

    source = DownloadSource(
        settings.download_url,
        attempts=settings.download_max_retries,
        parallel=settings.download_parallel,
        manifest=settings.manifest,
        list_within_s=_LIST_WITHIN_S,
    )
    source.base()

    def fetch(circuits: Sequence[CircuitId], cancel: CancelFlag) -> None:
        try:
            download_keys(settings.directory, circuits, source, cancel, LogLines())
        except SettingsInvalid as error:  # the manifest of the start cannot be read now, and may be again later
            raise KeyDownloadFailed(f"proving key file not found: {circuits[0].key_file}; {error.detail}") from error

    return fetch


def digests_of(settings: KeySettings) -> Callable[[Path], Digests]:
    """Return the accepted digests by key file. Raises SettingsInvalid for a manifest that cannot be read."""
    if settings.manifest is not None:
        read_pinned_manifest(settings.manifest)
    return accepted_digests(settings.directory, settings.manifest)


def _names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]
