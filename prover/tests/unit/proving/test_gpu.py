"""One GPU of a prover: keys within its budget, faults, and opening it again."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager

import pytest
from fake_gpu import FakeDevice, FakeGpus, tiny_key

from prover.errors import (
    Cancelled,
    DeviceBudgetExceeded,
    DeviceLost,
    DeviceOutOfMemory,
    DevicePaused,
    DeviceUnavailable,
    KernelMisused,
    ShuttingDown,
)
from prover.kernel.cancellation import CancelFlag
from prover.kernel.engine import Engine, LoadedKey
from prover.proving.gpu.gpu import Gpu


@pytest.fixture
def keys(engine: Engine) -> Iterator[list[LoadedKey]]:
    """Three keys, which count as different."""
    keys = [tiny_key(engine) for _ in range(3)]
    yield keys
    for key in keys:
        key.close()


def use(gpu: Gpu, key: LoadedKey, *, wait: bool = False) -> None:
    with gpu.lease(key, CancelFlag(), wait=wait):
        pass


@contextmanager
def slow_free(device: FakeDevice) -> Iterator[None]:
    """Let no key leave during the block."""
    device.may_free.clear()
    try:
        yield
    finally:
        device.may_free.set()


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_key__used_twice__is_copied_once_and_stays(keys: list[LoadedKey]) -> None:
    device = FakeDevice()
    gpu = FakeGpus(device).make()
    use(gpu, keys[0])
    use(gpu, keys[0])
    assert device.held() == [keys[0]]
    assert (gpu.describe().keys, gpu.describe().key_bytes) == (1, 100)
    gpu.close()
    assert device.closed
    assert not device.held()


def test_keys__more_than_fit__leave_by_the_longest_disuse(keys: list[LoadedKey]) -> None:
    first, second, third = keys
    device = FakeDevice(budget=210)
    gpu = FakeGpus(device).make()
    for key in (first, second, first, third):
        use(gpu, key)
    assert device.held() == [first, third]


def test_keys__that_leave_no_room_for_a_proof__make_others_go(keys: list[LoadedKey]) -> None:
    device = FakeDevice(budget=209)
    gpu = FakeGpus(device).make()
    use(gpu, keys[0])
    use(gpu, keys[1])
    assert device.held() == [keys[1]]


def test_key__that_can_never_fit__is_refused_with_the_numbers(keys: list[LoadedKey]) -> None:
    mib = 2**20
    gpu = FakeGpus(FakeDevice(budget=200 * mib, key_bytes=150 * mib, proof_bytes=60 * mib)).make()
    with pytest.raises(DeviceBudgetExceeded, match=r"150\.0 MiB .* 60\.0 MiB .*cuda:0 is 200\.0 MiB") as caught:
        use(gpu, keys[0], wait=True)
    assert not caught.value.retryable
    assert gpu.leases == 0


def test_memory__in_use__is_refused_or_waited_for(keys: list[LoadedKey]) -> None:
    device = FakeDevice(budget=110)
    gpu = FakeGpus(device).make()
    with ThreadPoolExecutor(1) as pool:
        with gpu.lease(keys[0], CancelFlag(), wait=False):
            with pytest.raises(DeviceOutOfMemory, match="keys of other proofs use the memory") as caught:
                use(gpu, keys[1])
            assert caught.value.retryable
            waiting = pool.submit(use, gpu, keys[1], wait=True)
            assert device.held() == [keys[0]]
        waiting.result(60)
    assert device.held() == [keys[1]]


def test_memory__in_use_without_end__is_freed_with_its_present_users(
    keys: list[LoadedKey], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("prover.proving.gpu.gpu._EVICTION_DELAY_S", 0.0)
    device = FakeDevice(budget=110)
    gpu = FakeGpus(device).make()
    with ThreadPoolExecutor(1) as pool:
        with gpu.lease(keys[0], CancelFlag(), wait=False):
            waiting = pool.submit(use, gpu, keys[1], wait=True)
            while gpu.holds(keys[0]):  # until no new request gets it
                threading.Event().wait(0.01)
            assert device.held() == [keys[0]]
        waiting.result(60)
    assert device.held() == [keys[1]]


def test_key__that_needs_the_memory_of_several_always_in_use__gets_it_and_they_are_copied_once_more(
    engine: Engine, keys: list[LoadedKey], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("prover.proving.gpu.gpu._EVICTION_DELAY_S", 0.2)
    device = FakeDevice(budget=100, key_bytes=30, proof_bytes=0)
    gpu = FakeGpus(device).make()
    stop, cancel = threading.Event(), CancelFlag()

    def keep_using(key: LoadedKey) -> None:
        while not stop.is_set():
            with gpu.lease(key, CancelFlag(), wait=True):
                stop.wait(0.05)

    with tiny_key(engine) as large, ThreadPoolExecutor(7) as pool:
        device.bytes_of[large] = 80
        users = [pool.submit(keep_using, key) for key in keys * 2]
        deadline = threading.Timer(20, cancel.raise_flag)
        deadline.start()
        try:
            with gpu.lease(large, cancel, wait=True):
                assert device.held() == [large]
        finally:
            deadline.cancel()
            stop.set()
        for user in users:
            user.result(60)
        assert len(device.copies) <= 2 * len(keys) + 1
        gpu.close()


def test_key__with_room_for_tables_when_it_is_copied__leaves_room_for_one_admitted_before(
    keys: list[LoadedKey], monkeypatch: pytest.MonkeyPatch
) -> None:
    device, grown = FakeDevice(budget=210), threading.Event()
    gpu = FakeGpus(device).make()
    measured: list[LoadedKey] = []

    def key_bytes(key: LoadedKey) -> int:
        measured.append(key)
        if measured.count(keys[0]) < 2 or key is not keys[0]:
            return 60
        assert grown.wait(60)
        return 190

    monkeypatch.setattr(device, "key_bytes", key_bytes)
    with ThreadPoolExecutor(2) as pool, ExitStack() as leases:
        first = pool.submit(leases.enter_context, gpu.lease(keys[0], CancelFlag(), wait=True))
        until(lambda: measured.count(keys[0]) == 2)
        leases.enter_context(gpu.lease(keys[1], CancelFlag(), wait=False))
        grown.set()
        first.result(60)
        assert [copy.bytes for copy in device.copies] == [60, 140]
        assert gpu.describe().key_bytes == 200


def test_key__whose_copy_takes_more_than_announced__is_counted_in_full(keys: list[LoadedKey]) -> None:
    device = FakeDevice(budget=220)
    gpu = FakeGpus(device).make()
    device.chains_bytes = 20
    use(gpu, keys[0])
    assert gpu.describe().key_bytes == 120
    use(gpu, keys[1])
    assert device.held() == [keys[1]]


def test_key__freed_slowly__delays_only_the_key_that_needs_its_memory_and_is_reported_as_stuck(
    keys: list[LoadedKey], monkeypatch: pytest.MonkeyPatch
) -> None:
    device = FakeDevice(budget=210)
    gpu = FakeGpus(device).make()
    for key in keys[:2]:
        use(gpu, key)
    with ThreadPoolExecutor(4) as pool, slow_free(device):
        waiting = [pool.submit(use, gpu, keys[2]) for _ in range(2)]
        until(lambda: gpu.holds(keys[2]))
        assert pool.submit(gpu.describe).result(10).key_bytes == 300  # that of the first is not free yet
        pool.submit(use, gpu, keys[1]).result(10)
        assert gpu.calls.problem() is None
        monkeypatch.setattr("prover.proving.gpu.driver_calls.STUCK_S", -200.0)
        assert "has not returned from the driver" in (gpu.calls.problem() or "")
        assert not any(done.done() for done in waiting)
        device.may_free.set()
        for done in waiting:
            done.result(60)
    assert device.held() == [keys[1], keys[2]]
    assert gpu.describe().key_bytes == 200


def test_key__that_cannot_be_freed__fails_all_that_wait_for_its_memory(keys: list[LoadedKey]) -> None:
    device = FakeDevice(budget=110)
    gpu = FakeGpus(device).make()
    use(gpu, keys[0])
    device.free_faults = [MemoryError()]
    with ThreadPoolExecutor(2) as pool:
        with slow_free(device):
            waiting = [pool.submit(use, gpu, keys[1])]
            until(lambda: gpu.holds(keys[1]))
            waiting.append(pool.submit(use, gpu, keys[1]))
            until(lambda: gpu.leases == len(waiting))
        for done in waiting:
            with pytest.raises(MemoryError):
                done.result(60)
    use(gpu, keys[1])


def test_keys__of_which_one_cannot_be_freed__all_leave(keys: list[LoadedKey]) -> None:
    device = FakeDevice(budget=210)
    gpu = FakeGpus(device, FakeDevice()).make()
    use(gpu, keys[0])
    use(gpu, keys[1])
    device.bytes_of[keys[2]] = 200
    device.free_faults = [MemoryError("the first"), MemoryError("the second")]
    with pytest.raises(MemoryError, match="the first"):
        use(gpu, keys[2])
    assert not device.held()
    assert gpu.describe().key_bytes == 0
    use(gpu, keys[2])
    device.free_faults = [MemoryError("again")]
    with pytest.raises(MemoryError, match="again"):
        gpu.disable("an ECC error")
    assert device.closed
    use(gpu, keys[0])


def test_lease__whose_key_cannot_be_freed__ends(keys: list[LoadedKey]) -> None:
    device = FakeDevice()
    gpu = FakeGpus(device, FakeDevice()).make()
    device.free_faults = [MemoryError()]
    with pytest.raises(MemoryError), gpu.lease(keys[0], CancelFlag(), wait=False):
        gpu.disable("an ECC error")
    assert gpu.leases == 0
    use(gpu, keys[0])


def test_key__being_freed__delays_no_report(keys: list[LoadedKey]) -> None:
    device = FakeDevice(budget=310)
    gpu = FakeGpus(device).make()
    use(gpu, keys[0])
    use(gpu, keys[1])
    with ThreadPoolExecutor(4) as pool, slow_free(device):
        freed = pool.submit(keys[0].close)
        until(lambda: device.frees == 1)
        measured = pool.submit(use, gpu, keys[2])
        assert pool.submit(lambda: gpu.problem).result(10) is None
        assert pool.submit(gpu.describe).result(10).keys == 2
        pool.submit(use, gpu, keys[1]).result(10)
        assert not measured.done()
        device.may_free.set()
        freed.result(60)
        measured.result(60)


@pytest.mark.parametrize("is_in_use", [True, False], ids=["in_use", "idle"])
def test_key__that_waits_for_one_being_freed__evicts_no_other_and_is_not_refused(
    keys: list[LoadedKey], monkeypatch: pytest.MonkeyPatch, *, is_in_use: bool
) -> None:
    device = FakeDevice(budget=210)
    gpu = FakeGpus(device).make()
    use(gpu, keys[0])
    use(gpu, keys[1])
    monkeypatch.setattr(device, "key_bytes", lambda _: 100)  # the lock of the device would hide the wait
    with ThreadPoolExecutor(3) as pool, ExitStack() as leases, slow_free(device):
        if is_in_use:
            leases.enter_context(gpu.lease(keys[1], CancelFlag(), wait=False))
        freed = pool.submit(keys[0].close)
        until(lambda: device.frees == 1)
        waiting = pool.submit(use, gpu, keys[2])
        with pytest.raises(TimeoutError):
            waiting.result(0.3)
        device.may_free.set()
        freed.result(60)
        waiting.result(60)
    assert device.held() == [keys[1], keys[2]]


def test_key__that_waits_for_one_that_is_never_freed__is_refused(
    keys: list[LoadedKey], monkeypatch: pytest.MonkeyPatch
) -> None:
    device = FakeDevice(budget=110)
    gpu = FakeGpus(device).make()
    use(gpu, keys[0])
    monkeypatch.setattr(device, "key_bytes", lambda _: 100)
    with ThreadPoolExecutor(2) as pool, slow_free(device):
        freed = pool.submit(keys[0].close)
        until(lambda: device.frees == 1)
        waiting = pool.submit(use, gpu, keys[1])
        with pytest.raises(TimeoutError):
            waiting.result(0.3)
        monkeypatch.setattr("prover.proving.gpu.driver_calls.STUCK_S", -200.0)
        with pytest.raises(DevicePaused, match="has not returned from the driver"):
            waiting.result(10)
        device.may_free.set()
        freed.result(60)


def test_key__that_waits_for_one_in_use__delays_none_that_fits_next_to_it(
    engine: Engine, keys: list[LoadedKey], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("prover.proving.gpu.gpu._EVICTION_DELAY_S", 0.1)
    device = FakeDevice(budget=260)
    device.bytes_of = {keys[0]: 150, keys[1]: 150, keys[2]: 50}
    gpu = FakeGpus(device).make()
    with tiny_key(engine) as large, ThreadPoolExecutor(2) as pool:
        with gpu.lease(keys[0], CancelFlag(), wait=True):
            waiting = pool.submit(use, gpu, keys[1], wait=True)
            until(lambda: not gpu.holds(keys[0]))  # retired
            pool.submit(use, gpu, keys[2]).result(10)
            with pytest.raises(DeviceOutOfMemory):
                use(gpu, large)  # fits neither now nor next to the key that waits
        waiting.result(60)
        assert device.held() == [keys[2], keys[1]]


def test_waiting__for_memory__ends_with_its_request(keys: list[LoadedKey]) -> None:
    gpu = FakeGpus(FakeDevice(budget=110)).make()
    cancel = CancelFlag()
    cancel.raise_flag()
    with gpu.lease(keys[0], CancelFlag(), wait=False), pytest.raises(Cancelled), gpu.lease(keys[1], cancel, wait=True):
        pass
    assert gpu.leases == 0


def test_key__wanted_by_several_while_it_is_copied__is_copied_once(keys: list[LoadedKey]) -> None:
    device = FakeDevice()
    device.may_load.clear()
    gpu = FakeGpus(device).make()
    with ThreadPoolExecutor(4) as pool:
        uses = [pool.submit(use, gpu, keys[0]) for _ in range(4)]
        device.may_load.set()
        for done in uses:
            done.result(60)
    assert len(device.copies) == 1


def test_key__closed__takes_its_copy_with_it(keys: list[LoadedKey]) -> None:
    device = FakeDevice()
    gpu = FakeGpus(device).make()
    use(gpu, keys[0])
    keys[0].close()
    assert not device.held()
    with gpu.lease(keys[1], CancelFlag(), wait=False):
        keys[1].close()
        assert device.held() == [keys[1]]
    assert not device.held()
    assert (gpu.describe().keys, gpu.describe().key_bytes) == (0, 0)


def test_copy__without_memory__is_tried_again_once_idle_keys_left(keys: list[LoadedKey]) -> None:
    device = FakeDevice()
    gpu = FakeGpus(device).make()
    use(gpu, keys[0])
    device.load_faults = [DeviceOutOfMemory()]
    use(gpu, keys[1])
    assert device.held() == [keys[1]]
    device.load_faults = [DeviceOutOfMemory(), DeviceOutOfMemory()]
    with pytest.raises(DeviceOutOfMemory):
        use(gpu, keys[2])
    use(gpu, keys[2])
    assert device.held() == [keys[2]]


def test_fault__of_a_proof__closes_the_device_after_its_users_and_opens_another(keys: list[LoadedKey]) -> None:
    first, second = FakeDevice(), FakeDevice()
    gpu = FakeGpus(first, second).make()
    use(gpu, keys[0])
    with gpu.lease(keys[1], CancelFlag(), wait=False):
        gpu.disable("an ECC error")
        gpu.disable("an ECC error")
        assert first.held() == [keys[1]]
        with pytest.raises(DeviceUnavailable, match="an ECC error"):
            use(gpu, keys[0])  # not while somebody uses what is left
    assert first.closed
    assert not first.held()
    use(gpu, keys[0])
    assert second.held() == [keys[0]]


def test_fault__while_a_key_is_copied__gives_the_device_up(keys: list[LoadedKey]) -> None:
    first, second = FakeDevice(), FakeDevice()
    first.load_faults = [DeviceLost("a copy failed")]
    gpu = FakeGpus(first, second).make()
    with pytest.raises(DeviceLost, match="a copy failed"):
        use(gpu, keys[0])
    assert first.closed
    use(gpu, keys[0])
    assert second.held() == [keys[0]]


def test_faults__in_a_row__make_the_pauses_longer_until_a_proof_succeeds(
    keys: list[LoadedKey], monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 1000.0
    monkeypatch.setattr("prover.proving.gpu.gpu.time.monotonic", lambda: now)
    gpu = FakeGpus(FakeDevice(), DeviceUnavailable("no driver"), FakeDevice(), FakeDevice()).make(pause_s=1)
    gpu.disable("it fell off the bus")
    assert gpu.problem == "cuda:0: it fell off the bus"
    with pytest.raises(DeviceUnavailable, match="it fell off the bus"):
        use(gpu, keys[0])
    now += 1.5
    assert gpu.problem is None  # it may be tried
    with pytest.raises(DeviceUnavailable, match="no driver"):
        use(gpu, keys[0])
    now += 1.5
    assert gpu.problem == "cuda:0: no driver"  # two seconds this time
    now += 1
    use(gpu, keys[0])
    gpu.note_success()
    gpu.disable("again")
    now += 1.5
    use(gpu, keys[0])


def test_faults__without_number__end_in_the_longest_pause(
    keys: list[LoadedKey], monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 1000.0
    monkeypatch.setattr("prover.proving.gpu.gpu.time.monotonic", lambda: now)
    gpu = FakeGpus(FakeDevice(), *[DeviceUnavailable("no driver")] * 1200, FakeDevice()).make(pause_s=1)
    gpu.disable("it fell off the bus")
    for _ in range(1200):
        now += 60
        with pytest.raises(DeviceUnavailable, match="no driver"):
            use(gpu, keys[0])
    now += 60
    use(gpu, keys[0])


def test_device__given_up_while_a_key_is_on_its_way__is_no_defect(keys: list[LoadedKey]) -> None:
    device = FakeDevice()
    gpu = FakeGpus(device, FakeDevice()).make()
    device.load_faults = [KernelMisused("the device is closed")]
    with pytest.raises(KernelMisused):
        use(gpu, keys[0])  # nobody gave it up: that is a defect
    device.may_load.clear()
    device.load_faults = [KernelMisused("the device is closed")]
    with ThreadPoolExecutor(1) as pool:
        late = pool.submit(use, gpu, keys[0])
        while not gpu.holds(keys[0]):
            threading.Event().wait(0.01)
        gpu.disable("an ECC error")
        device.may_load.set()
        with pytest.raises(DevicePaused, match="an ECC error"):
            late.result(60)
    use(gpu, keys[0])


def test_lease__after_the_end__is_refused(keys: list[LoadedKey]) -> None:
    gpu = FakeGpus(FakeDevice()).make()
    gpu.close()
    with pytest.raises(ShuttingDown):
        use(gpu, keys[0])


def test_device__that_does_not_open_or_describe_itself__is_no_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(DeviceUnavailable):
        FakeGpus(DeviceUnavailable()).make()
    device = FakeDevice()

    def fail() -> None:
        raise DeviceLost

    monkeypatch.setattr(device, "describe", fail)
    with pytest.raises(DeviceLost):
        FakeGpus(device).make()
    assert device.closed
