"""GPUs that make proofs, and what happens when one fails.

The CPU verifies every proof of a GPU before it is returned. An invalid proof is a fault of the GPU, which is closed and
opened again. Under ``auto`` the CPU then makes the proof; under ``cuda`` the request is refused.
"""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from weakref import WeakKeyDictionary, WeakSet

from prover.errors import (
    DeviceBudgetExceeded,
    DeviceLost,
    DeviceOutOfMemory,
    DeviceUnavailable,
    ProverError,
    SelfVerificationFailed,
    UnsupportedKey,
)
from prover.kernel.cancellation import CancelFlag
from prover.kernel.device import DeviceKey
from prover.kernel.engine import LoadedKey
from prover.observability.metrics import Metrics
from prover.proving.admission import Demand, Permit
from prover.proving.devices import CpuTarget, DeviceChoice, DeviceReport, Devices, ProofTarget
from prover.proving.gpu.gpu import Gpu
from prover.proving.proof_making import Proof, verified
from prover.proving.request import ProofTask
from shared.process.logs import get_logger

_log = get_logger(__name__)

_REFUSALS = (DeviceUnavailable, DeviceOutOfMemory, UnsupportedKey)
"""Errors of a device that cannot hold a key; DeviceLost is a DeviceUnavailable."""
_PERMANENT_REASONS = ("unsupported", "too_large")
"""Reasons that apply to a key as long as it is loaded; they are logged once per key."""


class GpuDevices(Devices):
    """GPUs of a process, with the CPU as fallback under ``auto``."""

    def __init__(self, metrics: Metrics, choice: DeviceChoice, gpus: Sequence[Gpu]) -> None:
        """Own open GPUs: ``close`` closes them."""
        super().__init__(metrics, choice)
        self.gpus = tuple(gpus)
        self._metrics = metrics
        self._may_fall_back = choice.requested == "auto"
        self._already_logged: WeakKeyDictionary[LoadedKey, set[str]] = WeakKeyDictionary()
        self._kept_off: WeakSet[LoadedKey] = WeakSet()
        """Keys for which the last lease found no room, as other keys are in use."""

    @property
    def call_capacity(self) -> int:
        """Proofs that launches of several may make at once; see Devices."""
        return sum(gpu.launches.capacity for gpu in self.gpus)

    def is_ready(self, key: LoadedKey) -> bool:
        """Return whether the GPU that the next proof gets has the key; see Devices.

        A key that no GPU can hold is ready, as the CPU makes its proofs; under ``auto`` also one that others keep off.
        """
        if key in self._already_logged:
            return True
        gpu = self._in_order(key)[0]
        return gpu.is_ready(key) or (self._may_fall_back and key in self._kept_off and not gpu.holds(key))

    def preload(self, key: LoadedKey) -> None:
        """Copy a key to every GPU that has room for it, so that its first proof does not wait.

        Raises the first refusal when all GPUs refuse and the CPU is no fallback.
        """
        refusals = []
        for gpu in self.gpus:
            try:
                with gpu.lease(key, CancelFlag(), wait=False):
                    pass
            except ProverError as error:
                _log.warning("gpu_key_not_preloaded", device=gpu.name, error=error.detail)
                refusals.append(error)
        if len(refusals) == len(self.gpus) and not self._may_fall_back:
            raise refusals[0]

    def describe(self) -> list[DeviceReport]:
        """Return a report of each GPU."""
        return [gpu.describe() for gpu in self.gpus]

    def problem(self) -> str | None:
        """Return why proofs fail now, also if all GPUs failed and the CPU is no fallback; see Devices."""
        problems = [gpu.problem for gpu in self.gpus]
        are_lost = all(problems) and not self._may_fall_back
        return super().problem() or ("; ".join(filter(None, problems)) if are_lost else None)

    def stuck(self) -> str | None:
        """Return which GPUs block a thread of this process; see Devices."""
        problems = [f"{gpu.name}: {problem}" for gpu in self.gpus if (problem := gpu.calls.problem()) is not None]
        return "; ".join(problems) or None

    def close(self) -> None:
        """Close all GPUs."""
        for gpu in self.gpus:
            gpu.close()

    @contextmanager
    def _select(self, key: LoadedKey, cancel: CancelFlag) -> Iterator[ProofTarget]:
        with ExitStack() as stack:
            target: ProofTarget
            try:
                gpu, copy = self._lease(stack, key, cancel)
                target = _GpuTarget(self, gpu, key, copy)
            except _REFUSALS as refusal:
                if not self._may_fall_back:
                    raise
                self._note_fallback(key, refusal)
                target = CpuTarget(key)
            yield target

    def _lease(self, stack: ExitStack, key: LoadedKey, cancel: CancelFlag) -> tuple[Gpu, DeviceKey]:
        """Lease the GPU with the fewest leases, preferably one that has the key; the next one if it refuses."""
        refusals: list[ProverError] = []
        for gpu in self._in_order(key):
            try:
                copy = stack.enter_context(gpu.lease(key, cancel, wait=not self._may_fall_back))
            except (DeviceUnavailable, DeviceOutOfMemory) as refusal:
                self._metrics.device_faults.labels(gpu.name, _reason(refusal)).inc()
                refusals.append(refusal)
            else:
                self._kept_off.discard(key)
                return gpu, copy
        if isinstance(refusals[0], DeviceOutOfMemory):
            self._kept_off.add(key)
        raise refusals[0]

    def _in_order(self, key: LoadedKey) -> list[Gpu]:
        return sorted(self.gpus, key=lambda gpu: (gpu.leases, not gpu.holds(key)))

    def handle_fault(self, gpu: Gpu, key: LoadedKey, error: ProverError) -> None:
        """Handle a proof that a GPU could not make. Raises unless the CPU is the fallback."""
        self._metrics.device_faults.labels(gpu.name, _reason(error)).inc()
        if isinstance(error, DeviceLost | SelfVerificationFailed):
            gpu.disable(error.detail)
        elif isinstance(error, DeviceOutOfMemory):
            gpu.evict_idle_keys()
        if self._may_fall_back:
            self._note_fallback(key, error)
        elif isinstance(error, SelfVerificationFailed):
            raise DeviceLost(f"{gpu.name}: {error.detail} The GPU is opened again.") from error
        else:
            raise error

    def _note_fallback(self, key: LoadedKey, error: ProverError) -> None:
        """Count and log that the CPU makes a proof that a GPU was selected for."""
        reason = _reason(error)
        self._metrics.device_fallbacks.labels(reason).inc()
        if reason in _PERMANENT_REASONS:
            logged = self._already_logged.setdefault(key, set())
            if reason in logged:
                return
            logged.add(reason)
        _log.warning("cpu_fallback_used", reason=reason, error=error.detail)


class _GpuTarget:
    """A GPU that holds the key of a proof, with the CPU as fallback under ``auto``."""

    def __init__(self, devices: GpuDevices, gpu: Gpu, key: LoadedKey, copy: DeviceKey) -> None:
        self._devices = devices
        self._gpu = gpu
        self._key = key
        self._copy = copy

    def demand(self, task: ProofTask) -> Demand:
        """Return what a launch with the proof of a task needs on the host."""
        return self._gpu.launches.demand(self._copy, task.assignment.inputs)

    def prove(self, permit: Permit, task: ProofTask) -> Proof:
        """Return a verified proof of a task; see ProofTarget."""
        gpu = self._gpu
        try:
            proof = verified(self._key, task, gpu.name, lambda: gpu.launches.prove(permit))
        except (DeviceUnavailable, DeviceOutOfMemory, SelfVerificationFailed) as error:
            self._devices.handle_fault(gpu, self._key, error)
        else:
            gpu.note_success()
            return proof
        fallback = CpuTarget(self._key)
        permit.renew(fallback.demand(task))
        return fallback.prove(permit, task)


def _reason(error: ProverError) -> str:
    """Return the label of a failure."""
    match error:
        case UnsupportedKey():
            return "unsupported"
        case DeviceBudgetExceeded():
            return "too_large"
        case DeviceOutOfMemory():
            return "out_of_memory"
        case DeviceLost():
            return "lost"
        case SelfVerificationFailed():
            return "wrong_proof"
        case _:
            return "unavailable"
