"""A small V2 tree in a simulated environment, with a journal, and tree processors that start and end on it."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from pathlib import Path

from v2_world import TREE, World

from forester.journal.database import Journal
from forester.journal.proofs import ProofStore
from forester.observability.metrics import Metrics
from forester.pipeline_v2.processor import V2Processor
from forester.pipeline_v2.services import V2Limits


@dataclass
class Bench:
    """A world with a journal; ``start`` returns the tree processor of a new process on it."""

    path: Path
    world: World = field(default_factory=World)
    metrics: Metrics = field(default_factory=Metrics)
    journal: Journal | None = None
    processor: V2Processor | None = None

    async def start(self, limits: V2Limits | None = None) -> V2Processor:
        await self.stop()
        self.journal = await Journal.open(self.path)
        self.processor = self.world.processor(self.journal, self.metrics, limits)
        return self.processor

    async def stop(self) -> None:
        """End a process; what it had under way is lost, but for what was kept."""
        if self.processor is not None and self.journal is not None:
            await self.processor.close(0.0)
            await self.journal.close()
        self.processor = self.journal = None

    async def kept(self) -> list[int]:
        """Return sequence numbers of the proofs in the journal."""
        assert self.journal is not None
        return [proof.sequence for proof in await ProofStore(self.journal).of_tree(bytes(TREE))]

    def processed(self) -> float:
        name = "forester_transactions_processed_total"
        return self.metrics.registry.get_sample_value(name, {"epoch": "7"}) or 0.0


@contextlib.asynccontextmanager
async def running_bench(folder: Path) -> AsyncIterator[Bench]:
    """A bench whose last process ends with the block."""
    made = Bench(folder / "journal")
    try:
        yield made
    finally:
        await made.stop()


async def until(true: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not true():  # noqa: ASYNC110 - what is played has no events
            await asyncio.sleep(0.01)
