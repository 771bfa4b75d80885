"""Whole proofs with witnesses of a device that the host simulates: equal to the CPU's bit for bit, and refusals."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from circuit_inputs import KEY_FILES, circuit_inputs
from device_library import Device, DeviceKey, Refused, Stages
from golden_vectors import PUBLISHED, load, provable_with
from kernel_library import BACKENDS, Kernel, Key, R
from prepared_file import PreparedFile

TINY = load("gnark/tiny.json")
CASES = list(TINY["cases"].values())
BLINDINGS = [(R - 1, 5), (R - 2, R - 1)]
WITNESS, ORDER = "GROTH16_CUDA_WITNESS", "GROTH16_CUDA_HOST_ORDER"

pytestmark = pytest.mark.usefixtures("quick_sums")


def inputs_of(case: dict[str, Any]) -> bytes:
    return b"".join(int(text, 16).to_bytes(32, "big") for text in [*case["public"], *case["secret"]])


INPUTS = inputs_of(CASES[0])


@pytest.fixture(scope="module", params=[BACKENDS[0], BACKENDS[-1]])
def kernel(testing_library: Path, request: pytest.FixtureRequest) -> Iterator[Kernel]:
    kernel = Kernel(testing_library, request.param, threads=2)
    yield kernel
    kernel.close()


@pytest.fixture
def on_device(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(WITNESS, "device")


def loaded(kernel: Kernel, data: bytes) -> Key:
    outcome, key = kernel.load_key(data)
    assert key is not None, outcome.message
    return key


def tiny(kernel: Kernel, format_version: str) -> Key:
    return loaded(kernel, bytes.fromhex(TINY[f"key_v{format_version}_hex"]))


def assert_same_proofs(key: Key, on_device: DeviceKey, inputs: bytes) -> None:
    for values in BLINDINGS:
        rho, sigma = (value.to_bytes(32, "big") for value in values)
        outcome, proof = key.prove_with_blinding(inputs, rho, sigma)
        assert outcome.status == "ok", outcome.message
        assert on_device.prove_with_blinding(inputs, rho, sigma) == proof


@pytest.mark.usefixtures("on_device")
@pytest.mark.parametrize("format_version", ["0_8", "0_14"])
@pytest.mark.parametrize("order", ["", "lazy", "eager"])
@pytest.mark.sampled(4, checked=2)
def test_prove__witness_on_the_device__equals_the_cpu(
    kernel: Kernel, library: Path, monkeypatch: pytest.MonkeyPatch, format_version: str, order: str
) -> None:
    monkeypatch.setenv(ORDER, order)
    key = tiny(kernel, format_version)
    with Device(kernel, library) as device, device.load(key) as on_device:
        assert on_device.witness().on_device
        for case in CASES * 2:  # the second proof is a graph
            assert_same_proofs(key, on_device, inputs_of(case))
        stages: Stages = []
        on_device.prove(INPUTS, stages)
        assert stages[0]["witness"] > 0
    key.destroy()


@pytest.mark.unchecked
@pytest.mark.usefixtures("on_device", "own_plans")
def test_prove__published_key_with_its_witness_on_the_device__equals_the_cpu(
    testing_library: Path, library: Path, reference_keys_dir: Path
) -> None:
    vector = next(vector for vector in provable_with(PUBLISHED) if vector.circuit == "v2_inclusion_32_1")
    inputs = b"".join(value.to_bytes(32, "big") for value in circuit_inputs(vector.request))
    kernel = Kernel(testing_library, BACKENDS[-1], threads=2)
    key = loaded(kernel, (reference_keys_dir / KEY_FILES[vector.circuit]).read_bytes())
    with Device(kernel, library) as device, device.load(key) as on_device:
        witness = on_device.witness()
        assert (witness.on_device, witness.chains) == (1, 1)
        assert witness.device_rows + witness.processor_rows + witness.check_rows == key.describe()["constraints"]
        rho, sigma = (5).to_bytes(32, "big"), (7).to_bytes(32, "big")
        _, expected = key.prove_with_blinding(inputs, rho, sigma)
        assert on_device.prove_with_blinding(inputs, rho, sigma) == expected
        spoiled = bytearray(inputs)
        spoiled[31] ^= 1
        outcome, _ = key.prove(bytes(spoiled))
        with pytest.raises(Refused) as refused:
            on_device.prove(bytes(spoiled))
        assert (refused.value.status, str(refused.value)) == ("unsatisfied_constraint", outcome.message)
    key.destroy()
    kernel.close()


@pytest.mark.usefixtures("on_device")
def test_prove__inputs_that_break_a_row__says_which_and_continues(kernel: Kernel, library: Path) -> None:
    key = tiny(kernel, "0_14")
    outcome, _ = key.prove(bytes(len(INPUTS)))
    with Device(kernel, library) as device, device.load(key) as on_device:
        for _ in range(2):
            with pytest.raises(Refused) as refused:
                on_device.prove(bytes(len(INPUTS)))
            assert (refused.value.status, str(refused.value)) == (outcome.status, outcome.message)
            assert_same_proofs(key, on_device, INPUTS)
        assert device.describe().used_bytes > 0
    key.destroy()


@pytest.mark.usefixtures("on_device")
def test_prove__inputs_that_are_no_field_elements__are_refused_by_number(kernel: Kernel, library: Path) -> None:
    key = tiny(kernel, "0_14")
    outcome, _ = key.prove(b"\xff" * len(INPUTS))
    with Device(kernel, library) as device, device.load(key) as on_device:
        with pytest.raises(Refused) as refused:
            on_device.prove(b"\xff" * len(INPUTS))
        assert (refused.value.status, str(refused.value)) == (outcome.status, outcome.message)
    key.destroy()


@pytest.mark.usefixtures("on_device")
def test_prove__several_threads__each_gets_the_proof_of_its_inputs(kernel: Kernel, library: Path) -> None:
    key = tiny(kernel, "0_14")
    with Device(kernel, library) as device, device.load(key) as on_device, ThreadPoolExecutor(4) as pool:
        for job in [pool.submit(assert_same_proofs, key, on_device, inputs_of(case)) for case in CASES * 4]:
            job.result()
    key.destroy()


@pytest.mark.usefixtures("on_device")
def test_prove__cancelled__ends(kernel: Kernel, library: Path) -> None:
    key = tiny(kernel, "0_14")
    with Device(kernel, library) as device, device.load(key) as on_device:
        with pytest.raises(Refused) as refused:
            on_device.prove(INPUTS, cancel=kernel._ffi.new("int32_t *", 1))
        assert refused.value.status == "cancelled"
        assert_same_proofs(key, on_device, INPUTS)
    key.destroy()


@pytest.mark.usefixtures("on_device")
def test_key_bytes__witness_on_the_device__count_the_chains(kernel: Kernel, library: Path) -> None:
    key = tiny(kernel, "0_14")
    with Device(kernel, library) as device, device.load(key) as on_device:
        assert on_device.witness().on_device
        assert device.key_bytes(key) < on_device.key_bytes() == device.describe().used_bytes
    key.destroy()


@pytest.mark.usefixtures("on_device")
def test_load__budget_without_room_for_the_chains__leaves_them_to_the_cpu(kernel: Kernel, library: Path) -> None:
    key = tiny(kernel, "0_14")
    with Device(kernel, library, budget=2**20) as device:
        needed = device.key_bytes(key) + device.proof_bytes(key)
    with Device(kernel, library, budget=needed) as device, device.load(key) as on_device:
        witness = on_device.witness()
        assert not witness.on_device
        assert b"budget" in kernel._ffi.string(witness.reason)
        public = [int(text, 16) for text in CASES[0]["public"]]
        assert key.verifying_key.verify(on_device.prove(INPUTS), public).status == "ok"
    key.destroy()


def test_load__small_circuit__keeps_the_cpu_and_says_why(kernel: Kernel, library: Path) -> None:
    key = tiny(kernel, "0_14")
    with Device(kernel, library) as device, device.load(key) as on_device:
        witness = on_device.witness()
        assert not witness.on_device
        assert b"ms on the device" in kernel._ffi.string(witness.reason)
    key.destroy()


@pytest.mark.usefixtures("on_device")
def test_load__program_out_of_order__leaves_it_to_the_cpu(kernel: Kernel, library: Path) -> None:
    source = tiny(kernel, "0_14")
    file = PreparedFile.read(source.prepared())
    program = file.section("program")
    count = file.section("component_start").word(-1)
    words = [program.word(place) for place in range(count)]
    for place, word in enumerate(reversed(words)):
        program.word(place, word)
    outcome, key = kernel.load_prepared(file.write())
    assert key is not None, outcome.message
    with Device(kernel, library) as device, device.load(key) as on_device:
        witness = on_device.witness()
        assert not witness.on_device
        assert b"solves a wire after" in kernel._ffi.string(witness.reason)
    key.destroy()
    source.destroy()
