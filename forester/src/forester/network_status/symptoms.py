"""Symptoms of failed rounds, and progress on the chain; no I/O."""

from collections.abc import Callable

from forester.chain.program_errors import ForesterRefusal
from forester.chain.programs.addresses import REGISTRY
from forester.errors import EndpointTimedOut, ForesterError, RateLimited, TransactionRefused
from forester.network_status.state import NetworkState, TreeState
from forester.observability.progress import Cause, ProgressWatch
from forester.prover_client.failures import lacks_key

_EPOCH_ENDED = 6003
_EPOCH_STILL_IN_PROGRESS = 6010
_EPOCH_CODES = (
    ForesterRefusal.NOT_IN_REPORT_WORK_PHASE,
    _EPOCH_ENDED,
    ForesterRefusal.FORESTER_NOT_ELIGIBLE,
    ForesterRefusal.NOT_IN_REGISTRATION_PERIOD,
    ForesterRefusal.INVALID_EPOCH,
    _EPOCH_STILL_IN_PROGRESS,
    ForesterRefusal.NOT_IN_ACTIVE_PHASE,
    ForesterRefusal.REGISTRATION_NOT_FINALIZED,
)
"""Codes of the registry for work outside the phase or the light slot that it belongs to.

Source: forester/docs/reference/programs.md, "Error codes".
"""

_FULL_CODES = (10007, 14310)
_PROOF_CODES = (10010, *range(11001, 11010), *range(13001, 13008))


def symptom_of(failure: ForesterError | None) -> Cause | None:
    """Return the likely cause of a failure; None if there is none in particular."""
    if isinstance(failure, RateLimited | EndpointTimedOut):
        return Cause.CONGESTION
    if lacks_key(failure):
        return Cause.NO_KEY
    if not isinstance(failure, TransactionRefused) or failure.code is None:
        return None
    if failure.code in _FULL_CODES:
        return Cause.ROLLOVER_NEEDED
    if failure.code in _PROOF_CODES:
        return Cause.INVALID_PROOF
    registry = failure.program in (None, str(REGISTRY))
    return Cause.EPOCH_TRANSITION if registry and failure.code in _EPOCH_CODES else None


def show_progress(
    watch: ProgressWatch, state: NetworkState, ours: Callable[[TreeState], bool] = lambda _: True
) -> None:
    """Report the progress of ``ours`` on the chain to ``watch``; other trees are not watched."""
    trees = [item for item in state.trees if ours(item)]
    watch.follow({str(item.tree.address): item.kind.label for item in trees})
    for item in trees:
        watch.observe(
            str(item.tree.address),
            waiting=_ready(item),
            position=item.head.sequence_number,
            zkp_batch_size=0 if item.batched is None else item.batched.queue.zkp_batch_size,
            rollover_due=not item.tree.metadata.is_rolled_over and 0 < item.threshold <= item.head.next_index,
        )
    active = state.epochs.active
    watch.set_epoch(in_transition=active is None or not state.registered_weights.get(active, 0))


def _ready(item: TreeState) -> int:
    """Return the elements that a forester could process now: of V2 only those of filled zkp batches."""
    if item.batched is None:
        return item.pending_cells
    return sum(queue.ready_zkp_batches * queue.zkp_batch_size for queue in item.queues.values())
