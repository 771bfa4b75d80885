"""Samples of a real run for the dashboard's curves and pictures; run as a program, it records them (ten minutes).

A forester with a journal works on a local network whose traffic swells and ebbs as on a day with an hour's pause. The
chain runs at its own pace; the clock of the samples runs 150 times as fast, so that the run fills 24 hours of it.
"""

from __future__ import annotations

import asyncio
import json
import math
import os
import sys
import tempfile
import time
from pathlib import Path

from localnet_process import Localnet, running_localnet

from forester.api.monitoring import watching
from forester.daemon.daemon import Daemon
from forester.daemon.services import open_services
from forester.dashboard.history import STEP_MINUTES, Sampler
from forester.dashboard.own_activity import balance_of
from forester.journal.samples import KEPT_MINUTES, MINUTE_S, Sample, SampleStore
from forester.observability.health import HealthBoard
from forester.observability.metrics import Metrics
from forester.settings import given, load_settings
from shared.process.shutdown import Shutdown

RECORDED = Path(__file__).resolve().parents[2] / "vectors" / "day_of_samples.json"
POINT_S = 2.0
POINTS = KEPT_MINUTES // STEP_MINUTES
PAUSE = range(POINTS * 5 // 8, POINTS * 5 // 8 + 12)
"""Points without traffic."""


def recorded(last_minute: int) -> list[Sample]:
    """Return the samples of the recorded day, as if it had ended at a minute (Unix time / 60)."""
    return [Sample(last_minute + minute, *rest) for minute, *rest in json.loads(RECORDED.read_text())]


async def record(net: Localnet, folder: Path) -> list[Sample]:
    """Run a forester under traffic, and return what its journal has at the end."""
    shutdown, metrics, board = Shutdown(), Metrics(), HealthBoard()
    settings = load_settings(environment=os.environ | net.environment).settings.model_copy(
        update={"journal_path": str(folder / "journal.sqlite"), "api_server_port": 0}
    )
    payer = str(given(settings.payer).pubkey)
    began = time.time()
    async with (
        open_services(settings, metrics) as services,
        watching(settings, metrics, board, services.rpc, budget=services.sender.budget) as watcher,
    ):
        store = SampleStore(services.journal)
        sampler = Sampler(
            *(store, metrics, watcher.state.snapshots, lambda: balance_of(metrics, payer)),
            clock=lambda: began + (time.time() - began) * STEP_MINUTES * MINUTE_S / POINT_S,
        )
        running = asyncio.create_task(Daemon(services, board, watcher.worked, watcher.probes).run(shutdown))
        for point in range(POINTS):
            due = began + (point + 1) * POINT_S
            if point not in PAUSE:
                await asyncio.to_thread(net.call, "localnet_seed", traffic(point))
            await watcher.state.snapshots.refresh()
            await asyncio.sleep(max(0.0, due - time.time()))
            await sampler.sample()
        samples = await store.recent(int(began // MINUTE_S) + KEPT_MINUTES + STEP_MINUTES)
        shutdown.request()
        await running
    return samples


def traffic(point: int) -> dict[str, int]:
    """Return the traffic of a point: most at noon, with bursts."""
    day = math.sin(math.pi * point / POINTS) ** 2
    count = round(1 + 7 * day + (12 if point % 37 == 0 else 0))
    return {"compress": count, "spend": count // 2, "addresses": count // 3}


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as name, running_localnet("--slot-ms", "100", "--first-slot", "570") as local:
        found = asyncio.run(record(local, Path(name)))
    steps = range(-STEP_MINUTES * (len(found) - 1), 1, STEP_MINUTES)  # a late sample takes no other one's point
    rows = [[at, i.backlog, i.proofs, i.elements, i.lamports] for at, i in zip(steps, found, strict=True)]
    RECORDED.write_text("[\n" + ",\n".join(json.dumps(row) for row in rows) + "\n]\n")
    sys.stdout.write(f"{len(rows)} samples\n")
