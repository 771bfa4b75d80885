"""One GPU of a prover: holds keys within its budget, is closed after a fault and opened again after a pause.

Keys are copied on first use and stay until the budget is short: the least recently used one is then evicted. A copy is
also released when its key is closed.
"""

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import NoReturn
from weakref import WeakSet

from prover.errors import (
    DeviceBudgetExceeded,
    DeviceLost,
    DeviceOutOfMemory,
    DevicePaused,
    KernelMisused,
    ProverError,
    ShuttingDown,
)
from prover.kernel.cancellation import CancelFlag
from prover.kernel.device import Device, DeviceInfo, DeviceKey, cuda_version
from prover.kernel.engine import LoadedKey
from prover.kernel.handles import end_all
from prover.observability.metrics import Metrics
from prover.proving.devices import DeviceReport
from prover.proving.gpu.driver_calls import GpuCalls
from prover.proving.gpu.gpu_keys import GpuKeys, GpuSlot
from prover.proving.gpu.launches import Launches
from prover.units import gibibytes
from shared.process.logs import get_logger

_log = get_logger(__name__)

FIRST_PAUSE_S = 1.0
MAXIMUM_PROOFS = 64
"""Default maximum of proofs in one call."""
_MAXIMUM_PAUSE_S = 60.0
_MAXIMUM_FAULTS = 16
"""Faults beyond this are not counted: the pause has reached its maximum."""
_ROOM_POLL_S = 0.25
_EVICTION_DELAY_S = 2.0
"""Seconds after which a key that waits for memory gets that of a key in use, once its users have left."""


class Gpu:
    """A GPU by index. All methods may be called from several threads."""

    def __init__(
        self,
        index: int,
        open_device: Callable[[], Device],
        metrics: Metrics,
        pause_s: float = FIRST_PAUSE_S,
        maximum_proofs: int = MAXIMUM_PROOFS,
    ) -> None:
        """Open it by ``open_device``, and again after a fault and ``pause_s``, which doubles with every fault.

        ``maximum_proofs`` bounds the proofs of one call.
        Raises what ``open_device`` does: DeviceUnavailable, DeviceOutOfMemory or DeviceLost.
        """
        self.name = f"cuda:{index}"
        self._open_device = open_device
        self._metrics = metrics
        self._pause_s = pause_s
        self._changed = threading.Condition()  # not held while a key is copied or freed: the driver may hang
        self._keys = GpuKeys()
        self.calls = GpuCalls()
        """Calls in progress; a stuck one prevents new ones."""
        self.launches = Launches(self.name, self.calls, metrics, maximum_proofs)
        """Launches of its proofs, with leased keys."""
        self._watched: WeakSet[LoadedKey] = WeakSet()
        self._leases = 0
        self._faults = 0
        self._problem = ""
        self._retry_at = 0.0
        self._opening = False
        self._stopping = CancelFlag()
        self._device: Device | None = None
        self.info = self._open()
        """Description of the GPU when it was last opened."""

    @property
    def leases(self) -> int:
        """Number of proofs that it makes or will make."""
        return self._leases

    @property
    def problem(self) -> str | None:
        """Reason for which it is not used now; None while it is used, or may be tried again."""
        stuck = self.calls.problem()
        if stuck is not None:
            return f"{self.name}: {stuck}"
        with self._changed:
            waits = self._device is None and time.monotonic() < self._retry_at
            return self._problem if waits else None

    def holds(self, key: LoadedKey) -> bool:
        """Return True if a key is on the device or being copied to it."""
        return self._keys.find(key) is not None

    def is_ready(self, key: LoadedKey) -> bool:
        """Return whether a lease of a key would not wait for its copy: it is there, or the device refuses at once.

        Takes no lock, as the event loop calls it.
        """
        slot = self._keys.find(key)
        return self._device is None or (slot is not None and slot.copy.done())

    def describe(self) -> DeviceReport:
        """Return its properties, its memory and its problem."""
        with self._changed:
            info, (keys, key_bytes) = self.info, self._keys.occupancy()
        return DeviceReport(
            device=self.name,
            model=info.name,
            capability="{}.{}".format(*info.capability),
            driver=cuda_version(info.driver_version),
            memory_bytes=info.memory_bytes,
            budget_bytes=info.budget_bytes,
            key_bytes=key_bytes,
            keys=keys,
            problem=self.problem,
        )

    @contextmanager
    def lease(self, key: LoadedKey, cancel: CancelFlag, *, wait: bool) -> Iterator[DeviceKey]:
        """Yield the copy of a key, made if necessary; it stays on the device at least for the block.

        With ``wait`` the call waits for memory that others use, else only for memory that is being freed. Raises
        DevicePaused, DeviceOutOfMemory, DeviceBudgetExceeded when the key can never fit, DeviceLost, ShuttingDown or
        Cancelled.
        """
        slot, victims = self._enter(key, cancel, wait)
        try:
            if victims is not None:
                self._fill(slot, victims)
            yield cancel.result_of(slot.copy)
        finally:
            self._leave(slot)

    def disable(self, problem: str) -> None:
        """Close the device after a fault of a lease; it is opened again after a pause."""
        with self._changed:
            device, self._device = self._device, None
            if device is None:
                return
            pause_s = self._note_fault(problem)
            idle = self._keys.retire_all()
        _log.error("gpu_disabled", device=self.name, error=problem, again_in_s=pause_s)
        try:
            self._end(idle)
        finally:
            device.close()
            self._account()

    def note_success(self) -> None:
        """Reset the count of faults after a proof that was verified."""
        with self._changed:
            self._faults = 0

    def evict_idle_keys(self) -> None:
        """Evict all keys that are not in use, after the device ran out of memory within its budget."""
        with self._changed:
            idle = self._keys.retire_idle()
        self._end(idle)

    def close(self) -> None:
        """Close the device once its proofs have returned; cancel the copying of keys."""
        self._stopping.raise_flag()
        with self._changed:
            device, self._device = self._device, None
            idle = self._keys.retire_all()
            self._changed.notify_all()
        try:
            self._end(idle)
        finally:
            if device is not None:
                device.close()

    # ---- the device ------------------------------------------------------------------------------

    def _open(self) -> DeviceInfo:
        device = self._open_device()
        try:
            info = device.describe()
        except BaseException:
            device.close()
            raise
        with self._changed:
            is_wanted = not self._stopping.is_raised
            if is_wanted:
                self._device, self.info = device, info
        if not is_wanted:
            device.close()
            raise ShuttingDown
        _log.info(
            "gpu_opened",
            device=self.name,
            model=info.name,
            capability="{}.{}".format(*info.capability),
            driver=cuda_version(info.driver_version),
            memory_bytes=info.memory_bytes,
            budget_bytes=info.budget_bytes,
        )
        self._account()
        return info

    def _require_open(self) -> None:
        """Open the device again when it is due. Raises DevicePaused if it is not, fails, or a call is stuck."""
        self._require_responsive()
        with self._changed:
            if self._stopping.is_raised:
                raise ShuttingDown
            if self._device is not None:
                return
            # All leases of the earlier device must end first: both share the state of the driver.
            if self._opening or self._leases or time.monotonic() < self._retry_at:
                raise self._paused()
            self._opening = True
        try:
            self._open()
        except ProverError as error:
            with self._changed:
                pause_s = self._note_fault(error.detail)
            _log.error("gpu_open_failed", device=self.name, error=error.detail, again_in_s=pause_s)
            raise self._paused() from error
        finally:
            with self._changed:
                self._opening = False

    def _require_responsive(self) -> None:
        stuck = self.calls.problem()
        if stuck is not None:
            raise DevicePaused(f"{self.name}: {stuck}; this process must be restarted")

    def _note_fault(self, problem: str) -> float:
        """Begin a pause and return its seconds. The caller holds the lock."""
        pause_s = min(self._pause_s * 2.0**self._faults, _MAXIMUM_PAUSE_S)
        self._faults = min(self._faults + 1, _MAXIMUM_FAULTS)
        self._problem = f"{self.name}: {problem}"
        self._retry_at = time.monotonic() + pause_s
        return pause_s

    def _paused(self) -> DevicePaused:
        return DevicePaused(f"{self._problem}; it is opened again soon")

    # ---- keys on the device ----------------------------------------------------------------------

    def _enter(self, key: LoadedKey, cancel: CancelFlag, wait: bool) -> tuple[GpuSlot, Sequence[GpuSlot] | None]:
        """Return the slot of a key; and, if the caller must fill it, the slots to end before."""
        self._require_open()
        evict_at = time.monotonic() + _EVICTION_DELAY_S
        with self._changed:
            if self._device is None:
                raise self._paused()
            slot = self._keys.find(key)
            if slot is not None:
                return self._used(slot), None
            device, budget = self._device, self.info.budget_bytes
        new = self._measured(device, key, budget)
        with self._changed:
            try:
                while True:
                    if self._device is None:
                        raise self._paused()
                    slot = self._keys.find(key)
                    if slot is not None:
                        return self._used(slot), None
                    victims = self._keys.add(new, self.info.budget_bytes)
                    if victims is not None:
                        return self._used(new), victims
                    self._wait_for_room(new, cancel, evict_at, wait=wait)
            finally:
                if self._keys.first_waiting is new:
                    self._keys.first_waiting = None
                    self._changed.notify_all()

    def _used(self, slot: GpuSlot) -> GpuSlot:
        """Return a slot, with one user more. The caller holds the lock."""
        self._keys.use(slot)
        self._leases += 1
        return slot

    def _wait_for_room(self, new: GpuSlot, cancel: CancelFlag, evict_at: float, *, wait: bool) -> None:
        """Wait a moment; without ``wait`` only for slots that are being freed. The caller holds the lock.

        Raises DeviceOutOfMemory without ``wait``, Cancelled, or DevicePaused if a call is stuck.
        """
        budget = self.info.budget_bytes
        is_being_freed = self._keys.fits_after_frees(new, budget)
        if not wait and not is_being_freed:
            raise DeviceOutOfMemory(f"keys of other proofs use the memory of {self.name}")
        cancel.check()
        self._require_responsive()  # the driver may never return from a free
        if not is_being_freed and time.monotonic() > evict_at and self._keys.first_waiting in (None, new):
            self._keys.first_waiting = new
            self._keys.retire_busy(new, budget)
        self._changed.wait(_ROOM_POLL_S)

    def _measured(self, device: Device, key: LoadedKey, budget: int) -> GpuSlot:
        """Return a slot with the sizes of a key; raises DeviceBudgetExceeded if it can never fit.

        The caller does not hold the lock, because the library takes its own.
        """
        try:
            new = GpuSlot(key, device.key_bytes(key), device.proof_bytes(key))
        except KernelMisused as error:
            self._raise_misused(device, error)
        if new.bytes + new.proof_bytes > budget:
            raise DeviceBudgetExceeded(
                f"this proof needs {gibibytes(new.bytes)} of GPU memory for its key and {gibibytes(new.proof_bytes)} "
                f"to work in, and the budget of {self.name} is {gibibytes(budget)}: raise --cuda-memory-gb, use a GPU "
                "with more memory or smaller batches, or let the CPU prove it (--device auto)"
            )
        return new

    def _raise_misused(self, device: Device, error: KernelMisused) -> NoReturn:
        """Raise the error of a call of a device, or DevicePaused if it was disabled meanwhile."""
        with self._changed:
            if self._device is device:
                raise error
        raise self._paused() from error

    def _fill(self, slot: GpuSlot, victims: Sequence[GpuSlot]) -> None:
        """End slots, then copy the key of a slot. All threads that wait for the slot get the copy or the error."""
        started = time.perf_counter()
        try:
            self._end(victims)
            for victim in victims:
                _log.info("gpu_key_evicted", device=self.name, bytes=victim.bytes)
            try:
                copy = self._copied(slot)
            except DeviceOutOfMemory:
                self.evict_idle_keys()  # other processes use the device too, so the budget may not be free
                copy = self._copied(slot)
        except BaseException as error:  # noqa: BLE001 - passed to all threads that wait for the slot, including this one
            with self._changed:
                self._keys.retire(slot)
            slot.copy.set_exception(error)
            if isinstance(error, DeviceLost):
                self.disable(error.detail)
            return
        slot.copy.set_result(copy)
        seconds = round(time.perf_counter() - started, 3)
        _log.info("gpu_key_loaded", device=self.name, bytes=slot.bytes, load_s=seconds, witness=copy.witness_solver)
        if slot.key not in self._watched:
            self._watched.add(slot.key)
            key = slot.key
            key.handle.on_close(lambda: self._forget(key))
        self._account()

    def _copied(self, slot: GpuSlot) -> DeviceKey:
        with self._changed:
            device = self._device
        if device is None:
            raise self._paused()
        try:
            with self.calls.copy():
                size = device.key_bytes(slot.key)  # tables take a part of what is free now
                with self._changed:
                    slot.bytes = self._keys.growth(slot, size, self.info.budget_bytes)
                copy = device.load_key(slot.key, self._stopping, slot.bytes)
                with self._changed:
                    slot.bytes = copy.bytes
                return copy
        except KernelMisused as error:
            self._raise_misused(device, error)

    def _leave(self, slot: GpuSlot) -> None:
        with self._changed:
            last = self._keys.leave(slot)
        try:
            if last:
                self._end([slot])
        finally:
            with self._changed:
                self._leases -= 1
                self._changed.notify_all()

    def _forget(self, key: LoadedKey) -> None:
        """Release the copy of a key that is being closed."""
        with self._changed:
            slot = self._keys.find(key)
            ends = slot is not None and self._keys.retire(slot)
        if slot is not None and ends:
            self._end([slot])

    def _end(self, slots: Sequence[GpuSlot]) -> None:
        """End all slots that GpuKeys returned, then raise the first error. The caller does not hold the lock."""
        end_all(self._end_one, slots)

    def _end_one(self, slot: GpuSlot) -> None:
        try:
            with self.calls.free():
                slot.end()
        finally:
            with self._changed:
                self._keys.ended(slot)
                self._changed.notify_all()
            self._account()

    def _account(self) -> None:
        with self._changed:
            keys, used = self._keys.occupancy()
        self._metrics.device_up.labels(self.name).set(self._device is not None)
        self._metrics.device_keys.labels(self.name).set(keys)
        for part, size in (("keys", used), ("budget", self.info.budget_bytes), ("total", self.info.memory_bytes)):
            self._metrics.device_memory_bytes.labels(self.name, part).set(size)
