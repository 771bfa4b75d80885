"""Selection of a device for each proof: a GPU, or the CPU, which is also the fallback of the policy ``auto``.

The CPU verifies every proof of a GPU before it is returned. An invalid proof is a fault of the GPU, which is closed and
opened again. Under ``auto`` the CPU then makes the proof; under ``cuda`` the request is refused.
"""

import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from weakref import WeakKeyDictionary

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
from prover.proving.admission import AdmissionRequest
from prover.proving.gpu.gpu import Gpu
from prover.proving.proof_making import Proof, UnverifiedProof, prove_with_key
from prover.proving.request import ProofTask
from shared.logs import get_logger

_log = get_logger(__name__)

_REFUSALS = (DeviceUnavailable, DeviceOutOfMemory, UnsupportedKey)
"""Errors of a device that cannot hold a key; DeviceLost is a DeviceUnavailable."""
_PERMANENT_REASONS = ("unsupported", "too_large")
"""Reasons that apply to a key as long as it is loaded; they are logged once per key."""


@dataclass(frozen=True)
class DeviceChoice:
    """Device policy that was requested (cpu, cuda, auto), device that was selected (cpu, cuda), and the reason.

    ``cause`` is a label of the metric, ``reason`` a sentence.
    """

    requested: str
    selected: str
    cause: str
    reason: str


class Devices:
    """GPUs of a prover, possibly none, with the handling of their faults. Close it after its last proof."""

    def __init__(self, choice: DeviceChoice, gpus: Sequence[Gpu], metrics: Metrics) -> None:
        """Own open GPUs: ``close`` closes them."""
        self.choice = choice
        self.gpus = tuple(gpus)
        self._metrics = metrics
        self._may_fall_back = choice.requested == "auto"
        self._already_logged: WeakKeyDictionary[LoadedKey, set[str]] = WeakKeyDictionary()
        metrics.device_info.labels(choice.requested, choice.selected, choice.cause).set(1)

    @classmethod
    def cpu(cls, metrics: Metrics) -> "Devices":
        """Return the CPU alone, the default."""
        return cls(DeviceChoice("cpu", "cpu", "asked", "proofs are made on the CPU (--device)"), (), metrics)

    @property
    def launch_capacity(self) -> int:
        """Requests that launches of several proofs may hold on all GPUs, in addition to the permits."""
        return sum(gpu.launches.launch_capacity for gpu in self.gpus)

    @contextmanager
    def target(self, key: LoadedKey, cancel: CancelFlag) -> Iterator["ProofTarget"]:
        """Select the device for a proof with a key, and hold the copy of the key there for the block.

        Raises UnsupportedKey, DeviceUnavailable, DeviceOutOfMemory or DeviceLost unless the CPU is the fallback;
        ShuttingDown or Cancelled.
        """
        if not self.gpus:
            yield ProofTarget(self, key)
            return
        with ExitStack() as stack:
            try:
                gpu, copy = self._lease(stack, key, cancel)
            except _REFUSALS as refusal:
                if not self._may_fall_back:
                    raise
                self.note_fallback(key, refusal)
                target = ProofTarget(self, key)
            else:
                target = ProofTarget(self, key, gpu, copy)
            yield target

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
        if refusals and len(refusals) == len(self.gpus) and not self._may_fall_back:
            raise refusals[0]

    def problem(self) -> str | None:
        """Return why no proof can be made now: all GPUs failed and the CPU is no fallback. None otherwise."""
        if self._may_fall_back or not self.gpus:
            return None
        problems = [gpu.problem for gpu in self.gpus]
        return "; ".join(filter(None, problems)) if all(problems) else None

    def stuck(self) -> str | None:
        """Return which GPUs block a thread of this process, which only a restart ends. None if there are none."""
        problems = [f"{gpu.name}: {problem}" for gpu in self.gpus if (problem := gpu.calls.problem()) is not None]
        return "; ".join(problems) or None

    def close(self) -> None:
        """Close all GPUs."""
        for gpu in self.gpus:
            gpu.close()

    def _lease(self, stack: ExitStack, key: LoadedKey, cancel: CancelFlag) -> tuple[Gpu, DeviceKey]:
        """Lease the GPU with the fewest leases, preferably one that has the key; the next one if it refuses."""
        refusals: list[ProverError] = []
        for gpu in sorted(self.gpus, key=lambda gpu: (gpu.leases, not gpu.holds(key))):
            try:
                return gpu, stack.enter_context(gpu.lease(key, cancel, wait=not self._may_fall_back))
            except (DeviceUnavailable, DeviceOutOfMemory) as refusal:
                self._metrics.device_faults.labels(gpu.name, _reason(refusal)).inc()
                refusals.append(refusal)
        raise refusals[0]

    def fault(self, gpu: Gpu, key: LoadedKey, error: ProverError) -> None:
        """Handle a proof that a GPU could not make. Raises unless the CPU is the fallback."""
        reason = _reason(error)
        self._metrics.device_faults.labels(gpu.name, reason).inc()
        if isinstance(error, DeviceLost | SelfVerificationFailed):
            gpu.disable(error.detail)
        elif isinstance(error, DeviceOutOfMemory):
            gpu.evict_idle_keys()
        if self._may_fall_back:
            self.note_fallback(key, error)
        elif isinstance(error, SelfVerificationFailed):
            raise DeviceLost(f"{gpu.name}: {error.detail} The GPU is opened again.") from error
        else:
            raise error

    def note_fallback(self, key: LoadedKey, error: ProverError) -> None:
        """Count and log that the CPU makes a proof that a GPU was selected for."""
        reason = _reason(error)
        self._metrics.device_fallbacks.labels(reason).inc()
        if reason in _PERMANENT_REASONS:
            logged = self._already_logged.setdefault(key, set())
            if reason in logged:
                return
            logged.add(reason)
        _log.warning("cpu_fallback_used", reason=reason, error=error.detail)

    def note_proof(self, device: str) -> None:
        """Count a proof that was made and verified."""
        self._metrics.device_proofs.labels(device).inc()


class ProofTarget:
    """Device of one proof: a GPU that holds the key, or the CPU."""

    def __init__(self, devices: Devices, key: LoadedKey, gpu: Gpu | None = None, copy: DeviceKey | None = None) -> None:
        self._devices = devices
        self._key = key
        self._gpu = gpu
        self._copy = copy

    @property
    def scratch_bytes(self) -> int:
        """Working memory of the proof on the host, in bytes, enough for the fallback to the CPU."""
        return max(self._key.scratch_bytes, self._copy.scratch_bytes if self._copy else 0)

    def prove(self, task: ProofTask, cancel: CancelFlag, admission_request: AdmissionRequest) -> Proof:
        """Return a verified proof of a task; waits for a permit.

        Raises what prove_with_key and Admission.permit do, DeviceUnavailable or DeviceOutOfMemory.
        """
        proof = (
            self._prove_on_gpu(self._gpu, self._copy, task, cancel, admission_request)
            if self._gpu and self._copy
            else None
        )
        if proof is None:
            proof = self._prove_on_cpu(task, cancel, admission_request)
        self._devices.note_proof(proof.device)
        return proof

    def _prove_on_cpu(self, task: ProofTask, cancel: CancelFlag, admission_request: AdmissionRequest) -> Proof:
        """Prove on the CPU. A request that failed on a GPU has waited before and is not refused a permit."""
        since = (time.perf_counter(),) if self._gpu else ()
        with admission_request.admission.permit(
            admission_request.kind, cancel, self._key.scratch_bytes, since
        ) as waited_s:
            admission_request.begin()
            proof = prove_with_key(self._key, task, cancel)
        proof.timings.wait_s += waited_s
        return proof

    def _prove_on_gpu(
        self, gpu: Gpu, copy: DeviceKey, task: ProofTask, cancel: CancelFlag, admission_request: AdmissionRequest
    ) -> Proof | None:
        """Prove on a GPU; None when it failed and the CPU is the fallback."""

        def make_proof(inputs: bytes, cancel: CancelFlag) -> UnverifiedProof:
            return gpu.launches.prove(copy, inputs, cancel, admission_request)

        try:
            proof = prove_with_key(self._key, task, cancel, make_proof, gpu.name)
        except (DeviceUnavailable, DeviceOutOfMemory, SelfVerificationFailed) as error:
            self._devices.fault(gpu, self._key, error)
            return None
        gpu.note_success()
        return proof


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
