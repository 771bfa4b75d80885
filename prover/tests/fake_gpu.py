"""A GPU that is none: sizes as told, proofs by the processor, faults on demand."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, cast

from golden_vectors import load
from prometheus_client import CollectorRegistry

from prover.kernel.cancellation import CancelFlag
from prover.kernel.device import Device, DeviceInfo
from prover.kernel.engine import Engine, KernelProof, LoadedKey
from prover.observability.metrics import Metrics
from prover.proving.assignment import Assignment
from prover.proving.gpu import Gpu
from prover.proving.request import ProofTask
from shared.circuit_id import CircuitId, CircuitKind

TINY = load("gnark/tiny.json")


def tiny_key(engine: Engine) -> LoadedKey:
    """A key of a few constraints."""
    return engine.load_key(bytes.fromhex(TINY["key_v0_14_hex"]))


def tiny_task() -> ProofTask:
    """What the tiny key proves, under the name of some circuit."""
    case = TINY["cases"]["z6"]
    public, secret = (
        b"".join(int(text, 16).to_bytes(32, "big") for text in case[part]) for part in ("public", "secret")
    )
    return ProofTask(CircuitId(CircuitKind.INCLUSION, 2, (32,), (1,)), Assignment(public + secret, public, ()))


def wrong(proof: KernelProof) -> KernelProof:
    """A proof of well-formed points that does not hold: the last point is the first."""
    return KernelProof(proof.points[:192] + proof.points[:64], proof.stage_seconds)


class FakeCopy:
    """A key on the device."""

    def __init__(self, device: FakeDevice, key: LoadedKey) -> None:
        self.key = key
        self.closed = False
        self._device = device
        self.scratch_bytes = 64

    def prove(self, inputs: bytes, cancel: CancelFlag | None = None) -> KernelProof:
        """Prove on the processor, or fail."""
        return self._device.next_proof(self.key.prove(inputs, cancel))

    def close(self) -> None:
        """Leave the device."""
        assert not self.closed
        self.closed = True


class FakeDevice:
    """A device of ``budget`` bytes on which keys take ``key_bytes`` and a proof ``proof_bytes``."""

    def __init__(self, budget: int = 1000, key_bytes: int = 100, proof_bytes: int = 10) -> None:
        self.budget = budget
        self.sizes = key_bytes, proof_bytes
        self.copies: list[FakeCopy] = []
        self.closed = False
        self.load_faults: list[BaseException] = []
        """Raised by the next loads of keys."""
        self.proof_faults: list[BaseException | Callable[[KernelProof], KernelProof]] = []
        """Raised by the next proofs, or done to them."""
        self.may_load = threading.Event()
        self.may_load.set()

    def describe(self) -> DeviceInfo:
        """Tell what was told."""
        return DeviceInfo("fake", 0, (9, 0), 1, 12040, 12040, 2 * self.budget, self.budget, self.budget, 0)

    def key_bytes(self, key: LoadedKey) -> int:
        """Bytes of any key."""
        return self.sizes[0]

    def proof_bytes(self, key: LoadedKey) -> int:
        """Bytes of any proof."""
        return self.sizes[1]

    def load_key(self, key: LoadedKey, cancel: CancelFlag | None = None) -> FakeCopy:
        """Copy a key, or fail."""
        assert self.may_load.wait(60)
        if self.load_faults:
            raise self.load_faults.pop(0)
        self.copies.append(FakeCopy(self, key))
        return self.copies[-1]

    def next_proof(self, proof: KernelProof) -> KernelProof:
        """Do to a proof what was asked for."""
        if not self.proof_faults:
            return proof
        fault = self.proof_faults.pop(0)
        if isinstance(fault, BaseException):
            raise fault
        return fault(proof)

    def held(self) -> list[LoadedKey]:
        """The keys on the device, in the order of their arrival."""
        return [copy.key for copy in self.copies if not copy.closed]

    def close(self) -> None:
        """Close the device; keys in use may still be on it."""
        assert not self.closed
        self.closed = True


class FakeGpus:
    """GPUs over fake devices; every opening takes the next of ``devices`` or fails as it says."""

    def __init__(self, *devices: FakeDevice | BaseException) -> None:
        self._devices = list(devices)
        self.metrics = Metrics(CollectorRegistry())

    def make(self, index: int = 0, pause_s: float = 0.0) -> Gpu:
        """Open one."""
        return Gpu(index, self._open, self.metrics, pause_s)

    def _open(self) -> Device:
        device: Any = self._devices.pop(0)
        if isinstance(device, BaseException):
            raise device
        return cast("Device", device)
