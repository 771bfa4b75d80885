"""Whole proofs on a device that the host simulates: equal to the CPU's bit for bit, within a budget, typed failures."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from device_library import TIMED, Device, DeviceKey, Refused, Stages, count_devices
from golden_vectors import UNBLINDED, load, proof_points
from kernel_library import BACKENDS, Kernel, Key, R

TINY = load("gnark/tiny.json")
KEYS = {format_version: bytes.fromhex(TINY[f"key_v{format_version}_hex"]) for format_version in ("0_8", "0_14")}
CASES = list(TINY["cases"].values())
PLENTY = 2**20
BLINDINGS = [(1, 0), (R - 1, 5), (R - 2, R - 1)]
FAULTS, MEMORY, DEVICES = "GROTH16_CUDA_HOST_FAULTS", "GROTH16_CUDA_HOST_MEMORY", "GROTH16_CUDA_HOST_DEVICES"
ORDER = "GROTH16_CUDA_HOST_ORDER"

pytestmark = pytest.mark.usefixtures("quick_sums")


def scalars(texts: list[str]) -> bytes:
    return b"".join(int(text, 16).to_bytes(32, "big") for text in texts)


def inputs_of(case: dict[str, Any]) -> bytes:
    return scalars(case["public"]) + scalars(case["secret"])


INPUTS = inputs_of(CASES[0])


def loaded(kernel: Kernel, data: bytes) -> Key:
    outcome, key = kernel.load_key(data)
    assert key is not None, outcome.message
    return key


def prepared(kernel: Kernel, data: bytes) -> Key:
    outcome, key = kernel.load_prepared(data)
    assert key is not None, outcome.message
    return key


@pytest.fixture(scope="module")
def key(kernel: Kernel) -> Iterator[Key]:
    key = loaded(kernel, KEYS["0_14"])
    yield key
    key.destroy()


@pytest.fixture
def on_device(device: Device, key: Key) -> Iterator[DeviceKey]:
    with device.load(key) as on_device:
        yield on_device


def proofs_on_cpu(key: Key, inputs: bytes) -> list[bytes]:
    proofs = []
    for rho, sigma in BLINDINGS:
        outcome, proof = key.prove_with_blinding(inputs, rho.to_bytes(32, "big"), sigma.to_bytes(32, "big"))
        assert outcome.status == "ok", outcome.message
        proofs.append(proof)
    return proofs


def proofs_on_device(key: DeviceKey, inputs: bytes) -> list[bytes]:
    return [
        key.prove_with_blinding(inputs, rho.to_bytes(32, "big"), sigma.to_bytes(32, "big")) for rho, sigma in BLINDINGS
    ]


def sizes(kernel: Kernel, library: Path, key: Key) -> tuple[int, int]:
    """Return device memory of the key and of a proof under a budget that leaves no room for tables."""
    with Device(kernel, library, budget=2**20) as device:
        return device.key_bytes(key), device.proof_bytes(key)


def refusal(call: Callable[[], object]) -> tuple[str, str]:
    with pytest.raises(Refused) as refused:
        call()
    return refused.value.status, str(refused.value)


# ---- proofs ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("format_version", list(KEYS))
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.sampled(3, checked=2)
@pytest.mark.usefixtures("own_plans")
def test_prove__without_blinding_on_every_point_form__equals_the_golden_proof(
    testing_library: Path, library: Path, backend: str, format_version: str
) -> None:
    kernel = Kernel(testing_library, backend)
    key = loaded(kernel, KEYS[format_version])
    with Device(kernel, library) as device, device.load(key) as on_device:
        for case in CASES:
            proof = on_device.prove_with_blinding(inputs_of(case), *UNBLINDED)
            assert proof == proof_points(case["unblinded"])
    key.destroy()
    kernel.close()


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("fold", [False, True])
@pytest.mark.sampled(3, checked=1)
@pytest.mark.usefixtures("own_plans")
def test_prove__prepared_keys_with_tables_and_folded__equals_the_cpu(
    testing_library: Path, library: Path, backend: str, fold: bool
) -> None:
    kernel = Kernel(testing_library, backend)
    source = loaded(kernel, KEYS["0_14"])
    key = prepared(kernel, source.prepared(table_bytes=PLENTY, fold=fold))
    info = key.describe()
    assert info["table_bytes"] > 0
    assert (info["fold_bytes"] > 0) == fold
    with Device(kernel, library) as device, device.load(key) as on_device:
        assert proofs_on_device(on_device, INPUTS) == proofs_on_cpu(source, INPUTS)
    key.destroy()
    source.destroy()
    kernel.close()


@pytest.mark.usefixtures("own_plans")
def test_prove__with_and_without_tables_on_the_device__equals_the_cpu(kernel: Kernel, library: Path, key: Key) -> None:
    expected = proofs_on_cpu(key, INPUTS)
    sizes = set()
    for budget in (2**23, 2**33):
        with Device(kernel, library, budget=budget) as device, device.load(key) as on_device:
            sizes.add(device.key_bytes(key))
            assert proofs_on_device(on_device, INPUTS) == expected
    assert len(sizes) == 2


@pytest.mark.usefixtures("own_plans")
def test_tables__of_keys_loaded_one_after_another__take_a_part_of_what_is_left(
    kernel: Kernel, library: Path, key: Key
) -> None:
    """In software a key takes a 65536th at most of what other keys and a proof leave."""
    expected = proofs_on_cpu(key, INPUTS)
    with Device(kernel, library, budget=2**33) as device:
        largest, proof = device.key_bytes(key), device.proof_bytes(key)
    plain, _ = sizes(kernel, library, key)
    with Device(kernel, library, budget=2**16 * largest + proof) as device:
        with device.load(key) as first:
            assert device.describe().used_bytes == largest
            assert plain < device.key_bytes(key) < largest
            with device.load(key) as second:
                assert plain < device.describe().used_bytes - largest < largest
                assert proofs_on_device(first, INPUTS) == proofs_on_device(second, INPUTS) == expected
        assert device.key_bytes(key) == largest


@pytest.mark.usefixtures("own_plans")
def test_tables__for_which_memory_is_missing__are_not_made(
    kernel: Kernel, library: Path, key: Key, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another process may use what the budget allows."""
    plain, _ = sizes(kernel, library, key)
    monkeypatch.setenv(FAULTS, "key_load=out_of_memory@1")
    with Device(kernel, library, budget=2**33) as device:
        assert device.key_bytes(key) > plain
        with device.load(key) as on_device:
            assert device.describe().used_bytes == plain
            assert proofs_on_device(on_device, INPUTS) == proofs_on_cpu(key, INPUTS)


@pytest.mark.usefixtures("own_plans")
def test_tables__beyond_the_limit_of_a_key__are_smaller_or_not_made(kernel: Kernel, library: Path, key: Key) -> None:
    expected = proofs_on_cpu(key, INPUTS)
    plain, _ = sizes(kernel, library, key)
    with Device(kernel, library, budget=2**33) as device:
        largest = device.key_bytes(key)
        cases = ((0, largest, largest), (largest - 1, plain + 1, largest - 1), (1, plain, plain))
        for limit, smallest, allowed in cases:
            with device.load(key, table_limit=limit) as on_device:
                assert smallest <= on_device.key_bytes() <= allowed
                assert device.describe().used_bytes == on_device.key_bytes()
                assert proofs_on_device(on_device, INPUTS) == expected


@pytest.mark.parametrize("order", ["lazy", "eager"])
def test_prove__queues_in_extreme_orders__equals_the_cpu(
    kernel: Kernel, library: Path, key: Key, monkeypatch: pytest.MonkeyPatch, order: str
) -> None:
    """A queue that does not wait for what it needs comes too early or too late; later proofs run as one graph."""
    expected = {inputs_of(case): proofs_on_cpu(key, inputs_of(case)) for case in CASES}
    monkeypatch.setenv(ORDER, order)
    with Device(kernel, library) as device, device.load(key) as on_device:
        stages: Stages = []
        for inputs in (*expected, *expected):
            assert proofs_on_device(on_device, inputs) == expected[inputs]
        on_device.prove(INPUTS, stages)
        assert not any(stages[0][name] for name in ("ntt", "msm_a", "msm_b1", "msm_b2")), "not one graph"


@pytest.mark.usefixtures("own_plans")
def test_prove__fresh_blinding__verifies_differs_and_says_times(key: Key, on_device: DeviceKey) -> None:
    stages: Stages = []
    made = [on_device.prove(INPUTS, stages), on_device.prove(INPUTS)]
    assert made[0] != made[1]
    for proof in made:
        assert key.verifying_key.verify(proof, [int(x, 16) for x in CASES[0]["public"]]).status == "ok"
    assert {name for name, ns in stages[0].items() if ns} >= TIMED
    assert stages[0]["msm_sort"] == stages[0]["msm_z"] == 0
    assert stages[0]["msm_b1"] < stages[0]["msm_a"]


def test_prove__inputs_that_break_a_row__says_which_as_the_cpu_does(key: Key, on_device: DeviceKey) -> None:
    outcome, _ = key.prove(bytes(len(INPUTS)))
    assert refusal(lambda: on_device.prove(bytes(len(INPUTS)))) == (outcome.status, outcome.message)


def test_prove__several_threads__each_gets_the_proof_of_its_inputs(key: Key, device: Device) -> None:
    expected = {inputs_of(case): proofs_on_cpu(key, inputs_of(case)) for case in CASES}
    with device.load(key) as on_device, ThreadPoolExecutor(6) as pool:
        jobs = [(inputs, pool.submit(proofs_on_device, on_device, inputs)) for inputs in list(expected) * 3]
        assert all(job.result() == expected[inputs] for inputs, job in jobs)
    assert device.describe().used_bytes == 0


# ---- memory ----------------------------------------------------------------------------------------


def test_budget__of_one_proof__is_kept_by_several_threads(kernel: Kernel, library: Path, key: Key) -> None:
    needed = sum(sizes(kernel, library, key))
    with Device(kernel, library, budget=needed) as device, device.load(key) as on_device:
        seen = []
        with ThreadPoolExecutor(4) as pool:
            for job in [pool.submit(on_device.prove, INPUTS) for _ in range(12)]:
                job.result()
                seen.append(device.describe().used_bytes)
        assert 0 < max(seen) <= needed == device.describe().budget_bytes


def test_budget__too_small_for_key_and_proof__is_refused_with_numbers(kernel: Kernel, library: Path, key: Key) -> None:
    with Device(kernel, library, budget=2**16) as device:
        status, message = refusal(lambda: device.load(key))
        assert status == "device_out_of_memory"
        assert "budget" in message
        assert device.describe().used_bytes == 0


def test_budget__of_one_key__second_key_is_refused_until_the_first_is_gone(
    kernel: Kernel, library: Path, key: Key
) -> None:
    needed = sum(sizes(kernel, library, key))
    with Device(kernel, library, budget=needed) as device:
        with device.load(key) as on_device:
            on_device.prove(INPUTS)
            assert refusal(lambda: device.load(key))[0] == "device_out_of_memory"
            on_device.prove(INPUTS)
        with device.load(key) as on_device:
            on_device.prove(INPUTS)


def test_budget__memory_of_idle_proofs__makes_room_for_another_key(kernel: Kernel, library: Path, key: Key) -> None:
    key_bytes, proof_bytes = sizes(kernel, library, key)
    needed = 2 * key_bytes + proof_bytes
    with Device(kernel, library, budget=needed) as device, device.load(key) as first:
        first.prove(INPUTS)
        with device.load(key) as second:
            second.prove(INPUTS)
            first.prove(INPUTS)
            assert device.describe().used_bytes <= needed


# ---- failures --------------------------------------------------------------------------------------


def test_open__no_library_or_another_one__says_why(kernel: Kernel, testing_library: Path, tmp_path: Path) -> None:
    status, message = refusal(lambda: Device(kernel, tmp_path / "libgroth16_cuda.so"))
    assert status == "device_unavailable"
    assert "libgroth16_cuda.so" in message
    status, message = refusal(lambda: count_devices(kernel, testing_library))
    assert status == "device_unavailable"
    assert "is not the CUDA library" in message


def test_open__index_past_the_last_gpu__is_refused(
    kernel: Kernel, library: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for count in (0, 2):
        monkeypatch.setenv(DEVICES, str(count))
        assert count_devices(kernel, library) == count
        assert refusal(partial(Device, kernel, library, count))[0] == "device_unavailable"
    with Device(kernel, library, 1) as device:
        assert device.describe().index == 1


def test_describe__default_budget__is_nine_tenths_of_what_is_free(
    kernel: Kernel, library: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(MEMORY, "1000")
    with Device(kernel, library) as device:
        info = device.describe()
        assert (info.memory_bytes, info.budget_bytes, info.used_bytes) == (1000, 900, 0)
        assert kernel._ffi.string(info.name) == b"GPU in software"


@pytest.mark.parametrize("place", ["count", "open"])
def test_open__driver_or_code_missing__is_unavailable(
    kernel: Kernel, library: Path, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    monkeypatch.setenv(FAULTS, f"{place}=unavailable")
    assert refusal(lambda: Device(kernel, library))[0] == "device_unavailable"


@pytest.mark.usefixtures("own_plans")
def test_key_load__out_of_memory__leaves_the_device_as_it_was(
    device: Device, key: Key, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(FAULTS, "key_load=out_of_memory@1")
    assert refusal(lambda: device.load(key))[0] == "device_out_of_memory"
    assert device.describe().used_bytes == 0
    with device.load(key) as on_device:
        assert proofs_on_device(on_device, INPUTS) == proofs_on_cpu(key, INPUTS)


def test_prove__out_of_memory__spares_the_proofs_before_and_after(
    key: Key, on_device: DeviceKey, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(FAULTS, "prove=out_of_memory@2,prove=out_of_memory@4")
    outcomes = []
    for _ in range(5):
        try:
            on_device.prove(INPUTS)
        except Refused as refused:
            outcomes.append(refused.status)
        else:
            outcomes.append("ok")
    assert outcomes == ["ok", "device_out_of_memory", "ok", "device_out_of_memory", "ok"]


def test_prove__lost_device__stays_lost_until_it_is_opened_again(
    kernel: Kernel, library: Path, key: Key, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(FAULTS, "prove=lost@2")
    with Device(kernel, library) as device, device.load(key) as on_device:
        on_device.prove(INPUTS)
        for call in (lambda: on_device.prove(INPUTS), device.describe, lambda: device.load(key)):
            status, message = refusal(call)
            assert status == "device_lost"
            assert "GPU 0 failed" in message
        assert refusal(lambda: on_device.prove(INPUTS))[0] == "device_lost"
    with Device(kernel, library) as device, device.load(key) as on_device:
        on_device.prove(INPUTS)


def test_prove__lost_while_others_wait__ends_them_all(
    kernel: Kernel, library: Path, key: Key, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(FAULTS, "prove=lost@3")
    needed = sum(sizes(kernel, library, key))
    with Device(kernel, library, budget=needed) as device, device.load(key) as on_device:
        with ThreadPoolExecutor(6) as pool:
            jobs = [pool.submit(on_device.prove, INPUTS) for _ in range(12)]
        errors = [error for job in jobs if (error := job.exception())]
        assert {getattr(error, "status", repr(error)) for error in errors} == {"device_lost"}


@pytest.mark.parametrize(("fault", "refused"), [("wrong", False), ("garbage", True)])
def test_prove__wrong_result__never_verifies(
    key: Key, on_device: DeviceKey, monkeypatch: pytest.MonkeyPatch, fault: str, refused: bool
) -> None:
    monkeypatch.setenv(FAULTS, f"prove={fault}@2+")
    public = [int(x, 16) for x in CASES[0]["public"]]
    assert key.verifying_key.verify(on_device.prove(INPUTS), public).status == "ok"
    for _ in range(2):
        if refused:
            assert refusal(lambda: on_device.prove(INPUTS))[0] == "device_lost"
        else:
            assert key.verifying_key.verify(on_device.prove(INPUTS), public).status == "proof_rejected"


def test_cancel__before_load_and_proof__ends_them(device: Device, key: Key) -> None:
    assert refusal(lambda: device.load(key, cancelled=True))[0] == "cancelled"
    with device.load(key) as on_device:
        raised = device.kernel._ffi.new("int32_t *", 1)
        assert refusal(lambda: on_device.prove(INPUTS, cancel=raised))[0] == "cancelled"
        on_device.prove(INPUTS)
    assert device.describe().used_bytes == 0


def test_cancel__while_waiting_for_memory__ends_the_wait(kernel: Kernel, library: Path, key: Key) -> None:
    """Proofs keep the only memory busy until the one that waits was cancelled."""
    needed = sum(sizes(kernel, library, key))
    with Device(kernel, library, budget=needed) as device, device.load(key) as on_device:
        cancel, stop = kernel._ffi.new("int32_t *"), threading.Event()

        def busy() -> None:
            while not stop.is_set():
                on_device.prove(INPUTS)

        def cancelled() -> str:
            for _ in range(100_000):
                try:
                    on_device.prove(INPUTS, cancel=cancel)
                except Refused as refused:
                    return refused.status
            return "never"

        with ThreadPoolExecutor(4) as pool:
            others = [pool.submit(busy) for _ in range(3)]
            waiting = pool.submit(cancelled)
            on_device.prove(INPUTS)
            cancel[0] = 1
            assert waiting.result() == "cancelled"
            stop.set()
            assert all(job.result() is None for job in others)
