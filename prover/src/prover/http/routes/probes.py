"""Liveness on the API address, and the probes of the metrics address."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING

from aiohttp import web

from prover.errors import QueueUnavailable, QueueUnusable
from prover.http.server.heartbeat import LIVE_SILENCE_S, READY_SILENCE_S
from prover.http.server.metrics_server import Probe
from prover.http.state import ServerState
from shared.process.logs import get_logger

if TYPE_CHECKING:
    from prover.queue.store import JobStore

_log = get_logger(__name__)

_QUEUE_TIMEOUT_S = 2.0
_NO_ANSWER = "the job queue does not answer; see --redis-url"


async def health(_: web.Request) -> web.Response:
    """Answer that the process is alive, for any keys and load, in the bytes of the reference."""
    return web.Response(body=b'{"status":"ok"}', headers={"Content-Type": "text/plain; charset=utf-8"})


def probes(state: ServerState) -> Mapping[str, Probe]:
    """Return the probes of a server by path."""

    def ready() -> tuple[bool, str]:
        try:
            missing = unmet_conditions(state)
            if missing:
                return False, f"not ready: {'; '.join(missing)}"
            return True, f"ready: {_installed_keys(state)} proving keys installed"
        except Exception as error:  # noqa: BLE001 - the probe must answer that the instance is not ready, with the reason
            _log.exception("readiness_unknown")
            reason = " ".join(f"{type(error).__name__}: {error}".split())
            return False, f"not ready: readiness is unknown: {reason}; see the log"

    def started() -> tuple[bool, str]:
        return (True, "started") if state.listening else (False, "not listening yet")

    def alive() -> tuple[bool, str]:
        silence_s = state.heartbeat.silence_s
        if silence_s > LIVE_SILENCE_S:
            return False, f"restart this process: {_silent(silence_s)}"
        stuck = state.devices.stuck()
        return (True, "alive") if stuck is None else (False, f"restart this process: {stuck}")

    return {"/livez": alive, "/readyz": ready, "/startupz": started}


def unmet_conditions(state: ServerState) -> list[str]:
    """Return the reasons for which this instance must get no requests now; empty if it is ready.

    With a queue the call waits for Redis, so it must not run on the event loop of the server.
    """
    if state.stop_announced or state.draining:
        return ["shutting down"]
    silence_s = state.heartbeat.silence_s
    if silence_s > READY_SILENCE_S:
        return [_silent(silence_s)]
    missing = [] if state.listening else ["not listening yet"]
    if not state.settings.keys.auto_download and not _installed_keys(state):
        of = " of the circuits that --run-mode and --circuit select" if state.selection.is_restricted else ""
        missing.append(f"no proving keys{of} in {state.settings.keys.directory}")
    missing += state.missing_required()
    problem = state.devices.problem() or state.devices.stuck()
    if problem is not None:
        missing.append(f"the device failed: {problem}")
    fault = None if state.queue is None else _fault_of(state.queue, state.loop)
    return missing if fault is None else [*missing, fault]


def _installed_keys(state: ServerState) -> int:
    """Return the number of installed keys of circuits that this instance proves; of all if workers prove its jobs."""
    installed = state.keys.installed()
    workers_prove = state.queue is not None and not state.settings.queue.workers
    return len(installed) if workers_prove else sum(map(state.selection.includes, installed))


def _silent(silence_s: float) -> str:
    return f"the event loop has not run for {silence_s:.0f} seconds"


def _fault_of(queue: JobStore, loop: asyncio.AbstractEventLoop) -> str | None:
    check = asyncio.run_coroutine_threadsafe(queue.check(), loop)
    try:
        check.result(_QUEUE_TIMEOUT_S)
    except QueueUnusable as error:
        return error.detail
    except QueueUnavailable:
        return _NO_ANSWER
    except TimeoutError:
        check.cancel()
        return _NO_ANSWER
    return None
