"""Devices that make proofs, and the target that is selected for each proof.

The CPU is here; GPUs are in ``prover.proving.gpu``, which only ``device_selection`` imports.
"""

import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Final, Protocol

from msgspec import Struct

from prover.errors import DeviceUnavailable, SelfVerificationFailed
from prover.kernel.cancellation import CancelFlag
from prover.kernel.engine import LoadedKey
from prover.observability.metrics import CPU, Metrics
from prover.proving.admission import Demand, Permit
from prover.proving.proof_making import Proof, prove_with_key
from prover.proving.request import ProofTask

_FAILURE_KEPT_S = 60.0


class DeviceChoice(Struct, frozen=True):
    """Device policy that was requested (cpu, cuda, auto), device that was selected (cpu, cuda), and the reason.

    ``cause`` is a label of the metric, ``reason`` a sentence.
    """

    requested: str
    selected: str
    cause: str
    reason: str


_CPU_CHOICE: Final = DeviceChoice(CPU, CPU, "requested", "proofs are made on the CPU (--device)")


class DeviceReport(Struct, frozen=True):
    """Properties of a device other than the CPU, its memory in bytes, and the keys on it.

    ``driver`` is the version that its driver supports; ``problem`` is the reason for which it is not used now.
    """

    device: str
    model: str
    capability: str
    driver: str
    memory_bytes: int
    budget_bytes: int
    key_bytes: int
    keys: int
    problem: str | None


class ProofTarget(Protocol):
    """Device that makes one proof, with the key of the proof."""

    def demand(self, task: ProofTask) -> Demand:
        """Return what the proof of a task needs."""

    def prove(self, permit: Permit, task: ProofTask) -> Proof:
        """Return a verified proof of a task, whose demand was granted ``permit``.

        Raises WitnessRejected, Cancelled, OutOfMemory, DeviceUnavailable or SelfVerificationFailed.
        """


class CpuTarget:
    """The CPU."""

    def __init__(self, key: LoadedKey) -> None:
        self._key = key

    def demand(self, task: ProofTask) -> Demand:  # noqa: ARG002 - all proofs of a key need the same
        """Return the working memory of a proof."""
        return Demand(self._key.scratch_bytes)

    def prove(self, permit: Permit, task: ProofTask) -> Proof:
        """Return a verified proof of a task; see ProofTarget."""
        return prove_with_key(self._key, task, permit.cancel)


class Devices:
    """Devices of a process: the CPU, or in a subclass others. Close it after its last proof."""

    def __init__(self, metrics: Metrics, choice: DeviceChoice = _CPU_CHOICE) -> None:
        self.choice = choice
        self._failure: tuple[float, str] | None = None
        metrics.device_info.labels(choice.requested, choice.selected, choice.cause).set(1)

    @property
    def call_capacity(self) -> int:
        """Proofs that calls for several proofs may make at once, in addition to the permits."""
        return 0

    @contextmanager
    def target(self, key: LoadedKey, cancel: CancelFlag) -> Iterator[ProofTarget]:
        """Select the device for a proof with a key, and keep the key there for the block, which makes the proof.

        Raises UnsupportedKey, DeviceUnavailable, DeviceOutOfMemory or DeviceLost when no device accepts the key;
        ShuttingDown or Cancelled. A device that fails in the block is a ``problem`` until a proof succeeds, or for a
        minute: it is then tried again.
        """
        with self._select(key, cancel) as target:
            try:
                yield target
            except (SelfVerificationFailed, DeviceUnavailable) as error:
                self._failure = time.monotonic(), error.detail
                raise
            self._failure = None

    def is_ready(self, key: LoadedKey) -> bool:  # noqa: ARG002 - the CPU needs no copy
        """Return whether a proof with a loaded key would not wait for a copy of it."""
        return True

    def preload(self, key: LoadedKey) -> None:
        """Copy a key to the devices that have memory of their own. Raises what ``target`` does."""

    def describe(self) -> list[DeviceReport]:
        """Return a report of each device other than the CPU."""
        return []

    def problem(self) -> str | None:
        """Return the reason for which requests should go to other instances now; None without one."""
        failure = self._failure
        return failure[1] if failure is not None and time.monotonic() - failure[0] <= _FAILURE_KEPT_S else None

    def stuck(self) -> str | None:
        """Return which devices block a thread of this process, which only a restart ends; None if there are none."""
        return None

    def close(self) -> None:
        """Close all devices."""

    def _select(self, key: LoadedKey, cancel: CancelFlag) -> AbstractContextManager[ProofTarget]:  # noqa: ARG002
        return nullcontext(CpuTarget(key))
