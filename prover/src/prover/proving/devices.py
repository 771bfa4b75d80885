"""Where proofs are made: on GPUs, or on the processor, which is also what the policy ``auto`` falls back to.

Whatever a GPU makes is verified on the processor before anyone sees it. A proof that does not hold is a fault of the
GPU, which is given up and opened again; under ``auto`` the processor then makes the proof, under ``cuda`` the request
is refused.
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
"""What a device says instead of taking a key; DeviceLost is one of them."""
_LASTING = ("unsupported", "too_large")
"""Reasons that hold for a key as long as it is loaded, and are logged once."""


@dataclass(frozen=True)
class Choice:
    """What was asked for (cpu, cuda, auto) and what was chosen (cpu, cuda), and why.

    ``cause`` is a label of the metric, ``reason`` a sentence.
    """

    asked: str
    taken: str
    cause: str
    reason: str


class Devices:
    """The GPUs of a prover, or none; and what happens when they fail. Close it after its last proof."""

    def __init__(self, choice: Choice, gpus: Sequence[Gpu], metrics: Metrics) -> None:
        """Take GPUs that are open, and close them in the end."""
        self.choice = choice
        self.gpus = tuple(gpus)
        self._metrics = metrics
        self._falls_back = choice.asked == "auto"
        self._already_logged: WeakKeyDictionary[LoadedKey, set[str]] = WeakKeyDictionary()
        metrics.device_info.labels(choice.asked, choice.taken, choice.cause).set(1)

    @classmethod
    def processor(cls, metrics: Metrics) -> "Devices":
        """Choose the processor alone, as is done where nothing else is asked for."""
        return cls(Choice("cpu", "cpu", "asked", "proofs are made on the processor (--device)"), (), metrics)

    @property
    def places(self) -> int:
        """How many requests launches of several proofs may hold, on all GPUs, beside the permits of the processor."""
        return sum(gpu.launches.places for gpu in self.gpus)

    @contextmanager
    def place(self, key: LoadedKey, cancel: CancelFlag) -> Iterator["ProofTarget"]:
        """Find out where a proof with a key will be made, and hold what it needs there for the block.

        Raises UnsupportedKey, DeviceUnavailable, DeviceOutOfMemory or DeviceLost unless the processor may take over;
        ShuttingDown, or Cancelled.
        """
        if not self.gpus:
            yield ProofTarget(self, key)
            return
        with ExitStack() as stack:
            try:
                gpu, copy = self._lease(stack, key, cancel)
            except _REFUSALS as refusal:
                if not self._falls_back:
                    raise
                self.note_fallback(key, refusal)
                place = ProofTarget(self, key)
            else:
                place = ProofTarget(self, key, gpu, copy)
            yield place

    def preload(self, key: LoadedKey) -> None:
        """Copy a key to every GPU that has room for it, so that its first proof need not wait.

        Raises the refusal when no GPU took it and the processor may not take over.
        """
        refusals = []
        for gpu in self.gpus:
            try:
                with gpu.lease(key, CancelFlag(), wait=False):
                    pass
            except ProverError as error:
                _log.warning("gpu_key_not_preloaded", device=gpu.name, error=error.detail)
                refusals.append(error)
        if refusals and len(refusals) == len(self.gpus) and not self._falls_back:
            raise refusals[0]

    def problem(self) -> str | None:
        """Say why nothing can be proved now, if so: every GPU failed, and the processor may not take over."""
        if self._falls_back or not self.gpus:
            return None
        problems = [gpu.problem for gpu in self.gpus]
        return "; ".join(filter(None, problems)) if all(problems) else None

    def stuck(self) -> str | None:
        """Say which GPU holds a thread of this process for ever, if one does: only a new process gets over that."""
        problems = [f"{gpu.name}: {problem}" for gpu in self.gpus if (problem := gpu.calls.problem()) is not None]
        return "; ".join(problems) or None

    def close(self) -> None:
        """Close all GPUs."""
        for gpu in self.gpus:
            gpu.close()

    def _lease(self, stack: ExitStack, key: LoadedKey, cancel: CancelFlag) -> tuple[Gpu, DeviceKey]:
        """Lease the GPU that has least to do and, of several, has the key already; others when it refuses."""
        refusals: list[ProverError] = []
        for gpu in sorted(self.gpus, key=lambda gpu: (gpu.leases, not gpu.holds(key))):
            try:
                return gpu, stack.enter_context(gpu.lease(key, cancel, wait=not self._falls_back))
            except (DeviceUnavailable, DeviceOutOfMemory) as refusal:
                self._metrics.device_faults.labels(gpu.name, _reason(refusal)).inc()
                refusals.append(refusal)
        raise refusals[0]

    def fault(self, gpu: Gpu, key: LoadedKey, error: ProverError) -> None:
        """Draw the consequences of a proof that a GPU could not make; raises unless the processor takes over."""
        reason = _reason(error)
        self._metrics.device_faults.labels(gpu.name, reason).inc()
        if isinstance(error, DeviceLost | SelfVerificationFailed):
            gpu.give_up(error.detail)
        elif isinstance(error, DeviceOutOfMemory):
            gpu.make_room()
        if self._falls_back:
            self.note_fallback(key, error)
        elif isinstance(error, SelfVerificationFailed):
            raise DeviceLost(f"{gpu.name}: {error.detail} The GPU is opened again.") from error
        else:
            raise error

    def note_fallback(self, key: LoadedKey, error: ProverError) -> None:
        """Count and log that the processor makes a proof that was meant for a GPU."""
        reason = _reason(error)
        self._metrics.device_fallbacks.labels(reason).inc()
        if reason in _LASTING:
            told = self._already_logged.setdefault(key, set())
            if reason in told:
                return
            told.add(reason)
        _log.warning("cpu_fallback_used", reason=reason, error=error.detail)

    def note_proof(self, device: str) -> None:
        """Count a proof that was made and verified."""
        self._metrics.device_proofs.labels(device).inc()


class ProofTarget:
    """Where one proof is made: on a GPU that holds the key, or on the processor."""

    def __init__(self, devices: Devices, key: LoadedKey, gpu: Gpu | None = None, copy: DeviceKey | None = None) -> None:
        self._devices = devices
        self._key = key
        self._gpu = gpu
        self._copy = copy

    @property
    def scratch_bytes(self) -> int:
        """Working memory of the proof on this machine, in bytes; the processor may have to take over."""
        return max(self._key.scratch_bytes, self._copy.scratch_bytes if self._copy else 0)

    def prove(self, task: ProofTask, cancel: CancelFlag, turn: AdmissionRequest) -> Proof:
        """Prove and verify a task once it has a permit.

        Raises what prove_with_key and Admission.permit do, DeviceUnavailable or DeviceOutOfMemory.
        """
        proof = self._prove_on_gpu(self._gpu, self._copy, task, cancel, turn) if self._gpu and self._copy else None
        if proof is None:
            proof = self._prove_on_processor(task, cancel, turn)
        self._devices.note_proof(proof.device)
        return proof

    def _prove_on_processor(self, task: ProofTask, cancel: CancelFlag, turn: AdmissionRequest) -> Proof:
        """Prove there. A request that a GPU has failed has waited for its permit before, and is not refused one."""
        since = (time.perf_counter(),) if self._gpu else ()
        with turn.admission.permit(turn.kind, cancel, self._key.scratch_bytes, since) as waited_s:
            turn.begin()
            proof = prove_with_key(self._key, task, cancel)
        proof.timings.wait_s += waited_s
        return proof

    def _prove_on_gpu(
        self, gpu: Gpu, copy: DeviceKey, task: ProofTask, cancel: CancelFlag, turn: AdmissionRequest
    ) -> Proof | None:
        """Prove there; None when it failed and the processor may take over."""

        def make(inputs: bytes, cancel: CancelFlag) -> UnverifiedProof:
            return gpu.launches.prove(copy, inputs, cancel, turn)

        try:
            proof = prove_with_key(self._key, task, cancel, make, gpu.name)
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
