"""Several GPUs by index, which the host plays: the same proofs from each; what befalls one is nothing to the others."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import pytest
from device_library import Device, DeviceKey, Refused, count_devices
from golden_vectors import load
from kernel_library import Kernel, Key, R

TINY = load("gnark/tiny.json")
KEY = bytes.fromhex(TINY["key_v0_14_hex"])
CASE = next(iter(TINY["cases"].values()))
INPUTS = b"".join(int(text, 16).to_bytes(32, "big") for text in (*CASE["public"], *CASE["secret"]))
VALUES = [(R - 1, 5), (1, 0), (R - 2, R - 1)]
COUNT, MEMORY, FAULTS = "GROTH16_CUDA_HOST_DEVICES", "GROTH16_CUDA_HOST_MEMORY", "GROTH16_CUDA_HOST_FAULTS"
ORDER, WITNESS = "GROTH16_CUDA_HOST_ORDER", "GROTH16_CUDA_WITNESS"
GPUS = 3

pytestmark = pytest.mark.usefixtures("quick_sums")


@pytest.fixture(autouse=True)
def several(monkeypatch: pytest.MonkeyPatch) -> None:
    """As many GPUs as GPUS."""
    monkeypatch.setenv(COUNT, str(GPUS))


@pytest.fixture(scope="module")
def key(kernel: Kernel) -> Iterator[Key]:
    outcome, key = kernel.load_key(KEY)
    assert key is not None, outcome.message
    yield key
    key.destroy()


@pytest.fixture
def devices(kernel: Kernel, library: Path, several: None) -> Iterator[list[Device]]:
    """All GPUs, open."""
    with ExitStack() as stack:
        yield [stack.enter_context(Device(kernel, library, index)) for index in range(GPUS)]


@pytest.fixture
def keys(devices: list[Device], key: Key) -> Iterator[list[DeviceKey]]:
    """The key on each of them."""
    with ExitStack() as stack:
        yield [stack.enter_context(device.load(key)) for device in devices]


def proofs_on_cpu(key: Key) -> list[bytes]:
    proofs = []
    for rho, sigma in VALUES:
        outcome, proof = key.prove_with_blinding(INPUTS, rho.to_bytes(32, "big"), sigma.to_bytes(32, "big"))
        assert outcome.status == "ok", outcome.message
        proofs.append(proof)
    return proofs


def proof(key: DeviceKey, place: int = 0) -> bytes:
    return key.prove_with_blinding(INPUTS, *(value.to_bytes(32, "big") for value in VALUES[place]))


def refusal(call: Callable[[], object]) -> tuple[str, str]:
    with pytest.raises(Refused) as refused:
        call()
    return refused.value.status, str(refused.value)


# ---- proofs ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("order", ["", "lazy"])
@pytest.mark.parametrize("witness", ["", "device"])
@pytest.mark.sampled(2, checked=1)
def test_proofs__of_one_key_on_every_gpu__equal_the_cpu(
    kernel: Kernel, library: Path, key: Key, monkeypatch: pytest.MonkeyPatch, order: str, witness: str
) -> None:
    """One after another in one thread, which so changes its GPU with every proof; alone and in batches."""
    monkeypatch.setenv(ORDER, order)
    monkeypatch.setenv(WITNESS, witness)
    with ExitStack() as stack:
        devices = [stack.enter_context(Device(kernel, library, index)) for index in range(GPUS)]
        keys = [stack.enter_context(device.load(key)) for device in devices]
        assert [device.describe().index for device in devices] == list(range(GPUS))
        expected = proofs_on_cpu(key)
        for place in range(len(VALUES)):
            assert [proof(on_device, place) for on_device in keys] == [expected[place]] * GPUS
        for on_device in (*keys, *keys):
            batch = on_device.prove_many_with_blinding([INPUTS] * len(VALUES), VALUES)
            assert (batch.status, batch.proofs) == ("ok", expected)


def test_proofs__of_several_threads_on_changing_gpus__equal_the_cpu(key: Key, keys: list[DeviceKey]) -> None:
    expected = proofs_on_cpu(key)
    asked = [(index, place) for index in range(GPUS) for place in range(len(VALUES))] * 5
    with ThreadPoolExecutor(5) as pool:
        made = [(place, pool.submit(proof, keys[index], place)) for index, place in asked]
        assert all(one.result() == expected[place] for place, one in made)


def test_gpu__closed__leaves_the_others_with_their_keys(
    kernel: Kernel, library: Path, key: Key, keys: list[DeviceKey]
) -> None:
    expected = proofs_on_cpu(key)[0]
    for index in (1, 0):
        with Device(kernel, library, index) as again, again.load(key) as on_device:
            assert proof(on_device) == expected
        assert [proof(other) for other in keys] == [expected] * GPUS


# ---- budgets ---------------------------------------------------------------------------------------


def test_budget__of_each_gpu__is_nine_tenths_of_its_own_memory(
    kernel: Kernel, library: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(MEMORY, "1000,3000")
    for index, memory in enumerate((1000, 3000, 3000)):
        with Device(kernel, library, index) as device:
            info = device.describe()
            assert (info.index, info.memory_bytes, info.budget_bytes) == (index, memory, memory // 10 * 9)


def test_budget__taken_on_one_gpu__is_free_on_the_others(kernel: Kernel, library: Path, key: Key) -> None:
    with Device(kernel, library, budget=2**20) as device:
        needed = device.key_bytes(key) + device.proof_bytes(key)
    with ExitStack() as stack:
        little, plenty = (
            stack.enter_context(Device(kernel, library, index, budget)) for index, budget in ((0, needed), (2, 2**24))
        )
        first = stack.enter_context(little.load(key))
        first.prove(INPUTS)
        assert refusal(lambda: little.load(key))[0] == "device_out_of_memory"
        taken = little.describe().used_bytes
        assert plenty.describe().used_bytes == 0
        stack.enter_context(plenty.load(key)).prove(INPUTS)
        assert little.describe().used_bytes == taken
        first.prove(INPUTS)


# ---- faults ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("lost", range(GPUS))
def test_gpu__lost__is_lost_alone_until_it_is_opened_again(
    kernel: Kernel, library: Path, key: Key, monkeypatch: pytest.MonkeyPatch, lost: int
) -> None:
    monkeypatch.setenv(FAULTS, f"{lost}:prove=lost@2")
    expected = proofs_on_cpu(key)[0]
    with ExitStack() as others:
        keys: dict[int, DeviceKey] = {}
        for index in range(GPUS):
            if index != lost:
                device = others.enter_context(Device(kernel, library, index))
                keys[index] = others.enter_context(device.load(key))
        with Device(kernel, library, lost) as device, device.load(key) as on_device:
            assert proof(on_device) == expected
            for _ in range(3):
                status, message = refusal(lambda: proof(on_device))
                assert (status, f"GPU {lost} failed" in message) == ("device_lost", True)
                assert [proof(other) for other in keys.values()] == [expected] * (GPUS - 1)
            assert refusal(device.describe)[0] == "device_lost"
        with Device(kernel, library, lost) as device, device.load(key) as on_device:
            assert proof(on_device) == expected
            assert [proof(other) for other in keys.values()] == [expected] * (GPUS - 1)


def test_gpu__lost_under_threads__costs_no_proof_of_the_others(
    key: Key, keys: list[DeviceKey], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(FAULTS, "1:prove=lost@4")
    expected = proofs_on_cpu(key)[0]
    with ThreadPoolExecutor(6) as pool:
        made = [(i % GPUS, pool.submit(proof, keys[i % GPUS])) for i in range(24)]
    assert all(one.result() == expected for index, one in made if index != 1)
    failed = [error for index, one in made if index == 1 and (error := one.exception())]
    assert len(failed) == 5
    assert {getattr(error, "status", repr(error)) for error in failed} == {"device_lost"}


def test_faults__with_an_index__are_counted_by_the_calls_of_that_gpu(
    keys: list[DeviceKey], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(FAULTS, "0:prove=out_of_memory@2,2:prove=out_of_memory@1,prove=out_of_memory@3")
    outcomes = []
    for _ in range(3):
        for on_device in keys:
            try:
                on_device.prove(INPUTS)
            except Refused as refused:
                outcomes.append(refused.status)
            else:
                outcomes.append("ok")
    full = "device_out_of_memory"
    assert outcomes == ["ok", "ok", full, full, "ok", "ok", full, full, full]


def load_key(device: Device, key: Key) -> None:
    device.load(key).__exit__()


def prove(device: Device, key: Key) -> None:
    with device.load(key) as on_device:
        on_device.prove(INPUTS)


PLACES: dict[str, Callable[[Device, Key], object]] = {
    "key_load": load_key,
    "prove": prove,
}


@pytest.mark.parametrize("place", list(PLACES))
def test_fault__with_an_index__befalls_that_gpu_whichever_the_thread_used_before(
    devices: list[Device], key: Key, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    monkeypatch.setenv(FAULTS, f"1:{place}=out_of_memory")
    for index, before in ((1, 0), (0, 1), (2, 1), (1, 2)):
        devices[before].describe()
        call = partial(PLACES[place], devices[index], key)
        if index == 1:
            assert refusal(call)[0] == "device_out_of_memory"
        else:
            call()


@pytest.mark.parametrize(
    ("fault", "status"),
    [("1:open=lost", "device_lost"), ("1:open=unavailable", "device_unavailable")],
)
def test_gpu__that_does_not_open__leaves_the_others(
    kernel: Kernel, library: Path, key: Key, monkeypatch: pytest.MonkeyPatch, fault: str, status: str
) -> None:
    monkeypatch.setenv(FAULTS, fault)
    assert refusal(partial(Device, kernel, library, 1))[0] == status
    for index in (0, 2):
        with Device(kernel, library, index) as device, device.load(key) as on_device:
            on_device.prove(INPUTS)


# ---- indices ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [1, 2, 3])
def test_index__past_the_last_gpu__is_refused_with_how_many_there_are(
    kernel: Kernel, library: Path, monkeypatch: pytest.MonkeyPatch, count: int
) -> None:
    monkeypatch.setenv(COUNT, str(count))
    assert count_devices(kernel, library) == count
    for index in (count, count + 6):
        status, message = refusal(partial(Device, kernel, library, index))
        assert (status, f"there is no GPU {index}: " in message) == ("device_unavailable", True)
        assert f"{count} were found" in message
    with Device(kernel, library, count - 1) as device:
        assert device.describe().index == count - 1
