"""Launches of one GPU: its calls that make proofs, several of one key if they waited together.

An idle GPU starts a proof at once. While it is busy, proofs wait for a permit (prover.proving.admission). The next
launch makes the oldest of them and all others of the same key, up to the maximum of one call. So no key starves, and no
proof is delayed to fill a launch. Keys of which one proof fills the GPU have launches of one proof each; permits alone
limit their number. If GPU memory is short, the library splits the proofs of a call into smaller parts.
"""

from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from contextlib import ExitStack, contextmanager

from prover.errors import Cancelled
from prover.kernel.cancellation import CancelFlag
from prover.kernel.device import DeviceKey
from prover.kernel.engine import KernelProof
from prover.observability.metrics import Metrics
from prover.proving.admission import Demand, Permit
from prover.proving.gpu.driver_calls import GpuCalls
from prover.proving.proof_making import UnverifiedProof

LAUNCHES_AT_ONCE = 2
"""Concurrent launches of several proofs: the CPU solves witnesses for one while the GPU computes the other."""


class _PendingProof(Demand):
    """A proof that waits for a launch. Its outcome is set by the thread that makes the launch."""

    calls_at_once = LAUNCHES_AT_ONCE

    def __init__(self, launches: "Launches", key: DeviceKey, inputs: bytes, maximum: int) -> None:
        super().__init__()
        self.key = key
        self.inputs = inputs
        self.maximum = maximum
        self.device = launches if maximum > 1 else None
        self.outcome: Future[UnverifiedProof] = Future()

    def memory_of(self, proofs: int) -> int:
        """Return the working memory on the host, in bytes, of a launch of ``proofs`` proofs."""
        return self.key.scratch_bytes_of(proofs)

    def shares_call_with(self, other: Demand) -> bool:
        """Return True if one launch can make both proofs."""
        return isinstance(other, _PendingProof) and self.key is other.key and len(self.inputs) == len(other.inputs)


class Launches:
    """Launches of one GPU. ``prove`` blocks and may be called by several threads."""

    def __init__(self, name: str, calls: GpuCalls, metrics: Metrics, maximum: int) -> None:
        """Make at most ``maximum`` proofs in one call."""
        self.capacity = maximum * LAUNCHES_AT_ONCE if maximum > 1 else 0
        """Maximum proofs in launches of several, not counting those that wait."""
        self._name = name
        self._calls = calls
        self._metrics = metrics
        self._maximum = maximum

    def demand(self, key: DeviceKey, inputs: bytes) -> Demand:
        """Return what a launch with a proof needs; ``prove`` takes the permit that is granted for it."""
        return _PendingProof(self, key, inputs, min(self._maximum, key.batch_limit))

    def prove(self, permit: Permit) -> UnverifiedProof:
        """Return an unverified proof. One thread makes the launch for all that share the permit; the others wait.

        A raised flag ends a launch only if those of all its proofs are raised. Raises what DeviceKey.prove does.
        """
        proof = permit.demand
        assert isinstance(proof, _PendingProof)  # noqa: S101 - for the type checker
        if permit.begin_call():
            self._launch(proof.key, permit)
        return proof.outcome.result()

    def _launch(self, key: DeviceKey, permit: Permit) -> None:
        """Make the proofs of a launch and set their outcomes; those that were cancelled before are skipped."""
        pending: list[_PendingProof] = []
        flags: list[CancelFlag] = []
        for sharer in permit.sharers:
            assert isinstance(sharer.demand, _PendingProof)  # noqa: S101 - for the type checker
            if sharer.cancel.is_raised:
                sharer.demand.outcome.set_exception(Cancelled())
            else:
                pending.append(sharer.demand)
                flags.append(sharer.cancel)
        outcomes: Sequence[KernelProof | BaseException] = ()
        try:
            if pending:
                with _all_raised(flags) as cancel, self._calls.proof(cancel):
                    outcomes = key.prove([proof.inputs for proof in pending], cancel)
                self._metrics.device_launch_proofs.labels(self._name).observe(len(pending))
        except BaseException as error:  # noqa: BLE001 - raised by the threads of all proofs
            outcomes = [error] * len(pending)
        permit.end_call()
        for proof, outcome in zip(pending, outcomes, strict=True):
            if isinstance(outcome, KernelProof):
                proof.outcome.set_result(UnverifiedProof(outcome, len(pending)))
            else:
                proof.outcome.set_exception(outcome)


@contextmanager
def _all_raised(flags: Sequence[CancelFlag]) -> Iterator[CancelFlag]:
    """Yield a flag that is raised when all of ``flags`` are."""
    joint = CancelFlag()

    def check() -> None:
        if all(flag.is_raised for flag in flags):
            joint.raise_flag()

    with ExitStack() as watches:
        for flag in flags:
            watches.enter_context(flag.watch(check))
        yield joint
