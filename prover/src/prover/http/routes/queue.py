"""``/queue/``: counts, health and clean-up of the queue."""

import time
from typing import Literal

from aiohttp import web

from prover.errors import QueueUnavailable
from prover.http.routes.queue_answers import CleanupOutcome, QueueCounts, QueueHealth, SweepOutcome, respond
from prover.http.state import STATE, queue_of
from prover.queue.jobs import QueueStats, SweepKind

_MANY_FAILURES = 50
"""Maximum failed jobs of a healthy queue, as in the reference."""


async def stats(request: web.Request) -> web.Response:
    """Answer with the number of jobs."""
    counts = await queue_of(request).stats()
    answer = QueueCounts(
        queues=_lengths(counts),
        timestamp=int(counts.timestamp),
        total_active=counts.total_active,
        total_failed=counts.failed,
        total_pending=counts.total_pending,
    )
    return respond(answer)


async def health(request: web.Request) -> web.Response:
    """Answer with the number of jobs and a verdict."""
    counts = await queue_of(request).stats()
    answer = QueueHealth(
        queue_lengths=_lengths(counts),
        status=verdict(counts),
        stuck_jobs=counts.stuck,
        timestamp=int(counts.timestamp),
        total_failed=counts.failed,
        total_pending=counts.total_pending,
        total_processing=counts.total_active,
        total_results=counts.results,
    )
    return respond(answer)


async def cleanup(request: web.Request) -> web.Response:
    """Run all sweeps now; answer 200 even if some fail."""
    answer = CleanupOutcome(
        old_failed_cleanup=await _sweep(request, SweepKind.FAILED),
        old_requests_cleanup=await _sweep(request, SweepKind.OLD_REQUESTS),
        old_result_keys_cleanup=await _sweep(request, SweepKind.RESULTS),
        stuck_jobs_cleanup=await _sweep(request, SweepKind.STUCK),
        timestamp=int(time.time()),
    )
    return respond(answer)


def verdict(counts: QueueStats) -> Literal["healthy", "degraded", "unhealthy"]:
    """Return the verdict of the reference: many failures outweigh slow jobs."""
    if counts.failed > _MANY_FAILURES:
        return "unhealthy"
    return "degraded" if counts.stuck else "healthy"


async def _sweep(request: web.Request, kind: SweepKind) -> SweepOutcome:
    try:
        swept = await queue_of(request).sweep(kind)
    except QueueUnavailable as error:
        return SweepOutcome(success=False, error=error.detail)
    request.app[STATE].metrics.count_sweep(kind.value, swept)
    return SweepOutcome(success=True)


def _lengths(counts: QueueStats) -> dict[str, int]:
    lengths = {"zk_failed_queue": counts.failed, "zk_results_queue": counts.results}
    for queue, queue_counts in counts.queues.items():
        lengths[queue.queue_name] = queue_counts.waiting_without_tree
        lengths[f"{queue.queue_name}_tree_subqueues"] = queue_counts.waiting_with_tree
        lengths[f"{queue.queue_name}_tree_count"] = queue_counts.trees
        lengths[queue.processing_name] = queue_counts.processing
    return lengths
