"""A simulated GPU: sizes as configured, proofs by the CPU, faults on demand."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, cast

from golden_vectors import load
from prometheus_client import CollectorRegistry

from prover.errors import ProverError
from prover.kernel.cancellation import CancelFlag
from prover.kernel.device import Device, DeviceInfo
from prover.kernel.engine import Engine, KernelProof, LoadedKey
from prover.observability.metrics import Metrics
from prover.proving.admission import Admission
from prover.proving.assignment import Assignment
from prover.proving.devices import Devices
from prover.proving.gpu.gpu import Gpu
from prover.proving.proof_making import Proof
from prover.proving.request import ProofTask
from shared.requests.circuit_id import CircuitId, CircuitKind

TINY = load("gnark/tiny.json")
KIND = CircuitKind.INCLUSION


def tiny_key(engine: Engine) -> LoadedKey:
    """Return a key of a few constraints."""
    return engine.load_key(bytes.fromhex(TINY["key_v0_14_hex"]))


def tiny_task(name: str = "z6") -> ProofTask:
    """Return the statement of the tiny key, a case of tiny.json under the name of some circuit."""
    case = TINY["cases"][name]
    public, secret = (
        b"".join(int(text, 16).to_bytes(32, "big") for text in case[part]) for part in ("public", "secret")
    )
    return ProofTask(CircuitId(KIND, 2, (32,), (1,)), Assignment(public + secret, public, ()))


def wrong(proof: KernelProof) -> KernelProof:
    """Return an invalid proof of well-formed points: the last point is the first."""
    return KernelProof(proof.points[:192] + proof.points[:64], proof.stage_seconds)


def prove_tiny(devices: Devices, key: LoadedKey, admission: Admission | None = None) -> Proof:
    """Prove the tiny task, with a separate admission unless one is given."""
    permits, task, cancel = admission or Admission(8, 0, Metrics(CollectorRegistry())), tiny_task(), CancelFlag()
    with devices.target(key, cancel) as target, permits.permit(KIND, cancel, target.demand(task)) as permit:
        return target.prove(permit, task)


class FakeLaunch(NamedTuple):
    """A call that made proofs, or did not."""

    key: LoadedKey
    inputs: list[bytes]
    cancel: CancelFlag


class FakeCopy:
    """A key on the device."""

    def __init__(self, device: FakeDevice, key: LoadedKey) -> None:
        self.key = key
        self.closed = False
        self.bytes = 0
        """Set by the device."""
        self.batch_limit = device.batch_limit
        self._device = device
        self.witness_solver = "this device is none"

    def scratch_bytes_of(self, proofs: int) -> int:
        """Return as much as for each alone."""
        return 64 * proofs

    def prove(self, inputs: Sequence[bytes], cancel: CancelFlag) -> list[KernelProof | ProverError]:
        """Prove on the CPU, or fail."""
        assert not self.closed
        assert 1 <= len(inputs) <= self.batch_limit
        return self._device.call(self, inputs, cancel)

    def prove_here(self, inputs: bytes, cancel: CancelFlag) -> KernelProof | ProverError:
        """Prove one on the CPU."""
        try:
            return self.key.prove(inputs, cancel)
        except ProverError as error:
            return error

    def close(self) -> None:
        """Leave the device, or fail. Holds the device's lock, as a library may."""
        with self._device.lock:
            self._device.frees += 1
            assert self._device.may_free.wait(60)
        assert not self.closed
        self.closed = True
        if self._device.free_faults:
            raise self._device.free_faults.pop(0)


class FakeDevice:
    """A device of ``budget`` bytes on which keys take ``key_bytes`` and a proof ``proof_bytes``."""

    def __init__(self, budget: int = 1000, key_bytes: int = 100, proof_bytes: int = 10, batch_limit: int = 1) -> None:
        self.budget = budget
        self.batch_limit = batch_limit
        self.sizes = key_bytes, proof_bytes
        self.bytes_of: dict[LoadedKey, int] = {}
        """Sizes of keys that have others."""
        self.chains_bytes = 0
        """Bytes that a copy takes in addition to its size."""
        self.copies: list[FakeCopy] = []
        self.closed = False
        self.load_faults: list[BaseException] = []
        """Raised by the next loads of keys."""
        self.proof_faults: list[BaseException | Callable[[KernelProof], KernelProof]] = []
        """What the next calls fail with, or what is done to their first proofs."""
        self.launches: list[FakeLaunch] = []
        self.on_launch: Callable[[], None] = lambda: None
        """Called in every call."""
        self.free_faults: list[BaseException] = []
        """Raised by the next keys that leave."""
        self.may_load = threading.Event()
        self.may_load.set()
        self.frees = 0
        """Keys that left or are being freed."""
        self.lock = threading.Lock()
        self.may_free = threading.Event()
        self.may_free.set()

    def describe(self) -> DeviceInfo:
        """Return the description of a GPU with twice the budget."""
        return DeviceInfo("fake", (9, 0), 12040, 2 * self.budget, self.budget, 0)

    def key_bytes(self, key: LoadedKey) -> int:
        """Return bytes of a key, once no key is being freed."""
        with self.lock:
            return self.bytes_of.get(key, self.sizes[0])

    def proof_bytes(self, key: LoadedKey) -> int:
        """Return bytes of any proof."""
        return self.sizes[1]

    def load_key(self, key: LoadedKey, cancel: CancelFlag | None = None, table_limit: int = 0) -> FakeCopy:
        """Copy a key, or fail. Its tables fill the limit."""
        assert self.may_load.wait(60)
        if self.load_faults:
            raise self.load_faults.pop(0)
        copy = FakeCopy(self, key)
        copy.bytes = min(self.key_bytes(key), table_limit or self.budget) + self.chains_bytes
        self.copies.append(copy)
        return copy

    def call(self, copy: FakeCopy, inputs: Sequence[bytes], cancel: CancelFlag) -> list[KernelProof | ProverError]:
        """Make proofs, but for what was asked for."""
        self.launches.append(FakeLaunch(copy.key, list(inputs), cancel))
        fault = self.proof_faults.pop(0) if self.proof_faults else None
        self.on_launch()
        outcomes = [copy.prove_here(one, cancel) for one in inputs]
        if isinstance(fault, ProverError):
            return [fault] * len(inputs)
        if isinstance(fault, BaseException):
            raise fault
        if fault is not None and isinstance(outcomes[0], KernelProof):
            outcomes[0] = fault(outcomes[0])
        return outcomes

    def held(self) -> list[LoadedKey]:
        """Return the keys on the device, in the order of their arrival."""
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

    def make(self, index: int = 0, pause_s: float = 0.0, maximum_proofs: int = 64) -> Gpu:
        """Open one."""
        return Gpu(index, self._open, self.metrics, pause_s, maximum_proofs)

    def _open(self) -> Device:
        device: Any = self._devices.pop(0)
        if isinstance(device, BaseException):
            raise device
        return cast("Device", device)
