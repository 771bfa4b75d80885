"""Several proofs of one key in the same launches of a device, which the host plays: each as if it were made alone."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pytest
from device_library import TIMED, Batch, Device, DeviceKey, Refused, Stages
from golden_vectors import load
from kernel_library import BACKENDS, Kernel, Key, R

KEY = bytes.fromhex(load("gnark/tiny.json")["key_v0_14_hex"])
FAULTS, ORDER = "GROTH16_CUDA_HOST_FAULTS", "GROTH16_CUDA_HOST_ORDER"
SPACIOUS = 2**33
"""A budget with room for tables of bases and for the largest batches."""

pytestmark = pytest.mark.usefixtures("quick_sums")


def inputs_of(x: int, z: int) -> bytes:
    """Return inputs of the relation in tiny.json; x has four bits."""
    y = (x * x + 3 * (z == 0) + 5) * (z + 1) % R
    return b"".join(value.to_bytes(32, "big") for value in (y, x, z))


# Zero, one and values next to the modulus: digits of nothing but zeros, and of one bucket.
WITNESSES = [(0, 0), (1, R - 1), (15, R - 2), (13, 6), (0, 1), (11, 0), (7, R // 2), (2, 2**253)]
INPUTS = [inputs_of(x, z) for x, z in WITNESSES]
UNSATISFIED, MALFORMED = bytes(96), R.to_bytes(32, "big") + bytes(64)
VALUES = [(R - 1, 5), (1, 0), (R - 2, R - 1), (7, 7), (2, 3), (3, 0), (5, 1), (R - 5, 9)]


@pytest.fixture(scope="module")
def key(kernel: Kernel) -> Iterator[Key]:
    outcome, key = kernel.load_key(KEY)
    assert key is not None, outcome.message
    yield key
    key.destroy()


@pytest.fixture
def on_device(device: Device, key: Key) -> Iterator[DeviceKey]:
    with device.load(key) as on_device:
        yield on_device


@pytest.fixture(scope="module")
def expected(key: Key) -> list[bytes]:
    """The CPU's proofs."""
    return [on_cpu(key, i) for i in range(len(INPUTS))]


def on_cpu(key: Key, i: int) -> bytes:
    outcome, proof = key.prove_with_blinding(INPUTS[i], *(value.to_bytes(32, "big") for value in VALUES[i]))
    assert outcome.status == "ok", outcome.message
    return proof


def some_proofs(key: DeviceKey, size: int) -> list[bytes]:
    """Return the first proofs as one batch."""
    batch = key.prove_many_with_blinding(INPUTS[:size], VALUES[:size])
    assert (batch.status, set(batch.statuses)) == ("ok", {"ok"})
    return batch.proofs


def verifies(key: Key, inputs: bytes, proof: bytes) -> bool:
    return key.verifying_key.verify(proof, [int.from_bytes(inputs[:32], "big")]).status == "ok"


def budget_of_limit(kernel: Kernel, library: Path, key: Key, limit: int) -> int:
    """Return a budget under which batches have this limit."""
    budget = 2**20
    while True:
        with Device(kernel, library, budget=budget) as device:
            found = device.batch_limit(key)
        if found == limit:
            return budget
        assert found < limit, "no budget has this limit"
        budget += budget // 4


def keys_until_full(device: Device, key: Key) -> list[DeviceKey]:
    """Return the same key as often as the budget holds it."""
    keys = []
    with suppress(Refused):
        while True:
            keys.append(device.load(key))
    return keys


# ---- proofs ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("order", ["", "lazy", "eager"])
@pytest.mark.sampled(2, checked=1)
def test_prove_many__any_size_one_after_another__equals_the_cpu(
    kernel: Kernel,
    library: Path,
    key: Key,
    expected: list[bytes],
    monkeypatch: pytest.MonkeyPatch,
    order: str,
) -> None:
    """Smaller batches use what larger ones left in the same memory; queues run at once, late and early."""
    monkeypatch.setenv(ORDER, order)
    with Device(kernel, library) as device, device.load(key) as on_device:
        assert device.batch_limit(key) >= len(INPUTS)
        for size in (1, 3, 8, 5, 2, 7, 1):
            assert some_proofs(on_device, size) == expected[:size]


@pytest.mark.parametrize("order", ["lazy", "eager"])
@pytest.mark.sampled(2, checked=1)
def test_prove_many__size_that_comes_again__is_made_by_a_graph_of_that_size(
    kernel: Kernel,
    library: Path,
    key: Key,
    expected: list[bytes],
    monkeypatch: pytest.MonkeyPatch,
    order: str,
) -> None:
    """Sizes 3 and 4 share memory, and so the place of one graph, of which only the whole time is known."""
    monkeypatch.setenv(ORDER, order)
    with Device(kernel, library) as device, device.load(key) as on_device:
        by_graph = []
        for size in (3, 3, 4, 3):
            stages: Stages = []
            assert on_device.prove_many(INPUTS[:size], stages=stages).status == "ok"
            by_graph.append(stages[0]["ntt"] == 0)
            assert some_proofs(on_device, size) == expected[:size]
    assert by_graph == [False, True, False, False]
    monkeypatch.setenv("GROTH16_CUDA_GRAPHS", "never")
    with Device(kernel, library) as device, device.load(key) as on_device:
        stages = []
        for _ in range(2):
            assert on_device.prove_many(INPUTS[:1], stages=stages).status == "ok"
    assert all(times["ntt"] > 0 for times in stages)


@pytest.mark.usefixtures("own_plans")
def test_prove_many__of_the_limit_with_tables__equals_the_cpu(
    kernel: Kernel, library: Path, key: Key, expected: list[bytes]
) -> None:
    with Device(kernel, library, budget=SPACIOUS) as device, device.load(key) as on_device:
        limit = device.batch_limit(key)
        assert limit == 64
        times = limit // len(INPUTS)
        batch = on_device.prove_many_with_blinding(INPUTS * times, VALUES * times)
        assert batch.proofs == expected * times


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("fold", [False, True])
@pytest.mark.sampled(3, checked=2)
def test_prove_many__every_point_form_and_folded_keys__equals_the_cpu(
    testing_library: Path, library: Path, expected: list[bytes], backend: str, fold: bool
) -> None:
    kernel = Kernel(testing_library, backend)
    _, source = kernel.load_key(KEY)
    assert source is not None
    outcome, key = kernel.load_prepared(source.prepared(fold=fold))
    assert key is not None, outcome.message
    with Device(kernel, library) as device, device.load(key) as on_device:
        assert some_proofs(on_device, 3) == expected[:3]
    key.destroy()
    source.destroy()
    kernel.close()


def test_prove_many__fresh_blinding__verifies_differs_and_says_times(key: Key, on_device: DeviceKey) -> None:
    stages: Stages = []
    given = [INPUTS[3], INPUTS[3], INPUTS[2]]
    batch = on_device.prove_many(given, stages=stages)
    assert batch.status == "ok"
    assert len(set(batch.proofs)) == 3
    assert all(verifies(key, inputs, proof) for inputs, proof in zip(given, batch.proofs, strict=True))
    assert {name for name, ns in stages[0].items() if ns} >= TIMED
    assert stages[0]["msm_sort"] == stages[0]["msm_z"] == 0


def test_prove_many__several_threads__each_gets_the_proofs_of_its_inputs(
    kernel: Kernel, library: Path, key: Key, expected: list[bytes]
) -> None:
    budget = budget_of_limit(kernel, library, key, 4)
    with Device(kernel, library, budget=budget) as device, device.load(key) as on_device:
        seen = []
        with ThreadPoolExecutor(6) as pool:
            jobs = [(size, pool.submit(some_proofs, on_device, size)) for size in (4, 3, 2, 1) * 3]
            for size, job in jobs:
                assert job.result() == expected[:size]
                seen.append(device.describe().used_bytes)
        assert 0 < max(seen) <= budget
    with Device(kernel, library, budget=budget) as device:
        device.load(key).__exit__()
        assert device.describe().used_bytes == 0


# ---- proofs that fail alone ------------------------------------------------------------------------


def preparation_lock(key: DeviceKey, inputs: bytes) -> tuple[str, str]:
    with pytest.raises(Refused) as refused:
        key.prove(inputs)
    return refused.value.status, str(refused.value)


def test_prove_many__unsatisfied_and_malformed_with_good_ones__fail_as_they_do_alone(
    on_device: DeviceKey, expected: list[bytes]
) -> None:
    given = [UNSATISFIED, INPUTS[1], INPUTS[2], MALFORMED, INPUTS[4], UNSATISFIED]
    batch = on_device.prove_many_with_blinding(given, VALUES[:6])
    assert batch.status == "ok"
    for place, inputs in enumerate(given):
        outcome = batch.outcomes[place]
        if inputs in (UNSATISFIED, MALFORMED):
            assert (outcome.status, outcome.message) == preparation_lock(on_device, inputs)
        else:
            assert (outcome.status, batch.proofs[place]) == ("ok", expected[place])
    assert {outcome.status for outcome in batch.outcomes} == {"ok", "unsatisfied_constraint", "invalid_argument"}


@pytest.mark.parametrize("size", [1, 3])
def test_prove_many__nothing_but_bad_inputs__does_not_ask_the_device(
    on_device: DeviceKey, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    monkeypatch.setenv(FAULTS, "prove=lost")
    batch = on_device.prove_many([UNSATISFIED] * size)
    assert (batch.status, batch.statuses) == ("ok", ["unsatisfied_constraint"] * size)


def test_prove_many__a_bad_blinding_value__fails_alone(on_device: DeviceKey, expected: list[bytes]) -> None:
    values = [VALUES[0], (0, 1), (R, 1)]
    batch = on_device.prove_many_with_blinding(INPUTS[:3], values)
    assert (batch.status, batch.statuses) == ("ok", ["ok", "invalid_argument", "invalid_argument"])
    assert batch.proofs[0] == expected[0]


def test_prove_many__wrong_result_for_one__is_reported_by_its_verification(
    key: Key, on_device: DeviceKey, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(FAULTS, "prove=wrong")
    batch = on_device.prove_many(INPUTS[:3])
    held = [verifies(key, inputs, proof) for inputs, proof in zip(INPUTS[:3], batch.proofs, strict=True)]
    assert (batch.status, held) == ("ok", [True, True, False])


# ---- what ends all of a batch ----------------------------------------------------------------------


def ended(batch: Batch) -> tuple[str, set[str]]:
    return batch.status, set(batch.statuses)


def test_prove_many__lost_device__ends_all_but_those_that_had_failed(
    kernel: Kernel, library: Path, key: Key, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(FAULTS, "prove=lost@2")
    with Device(kernel, library) as device, device.load(key) as on_device:
        assert ended(on_device.prove_many(INPUTS[:2])) == ("ok", {"ok"})
        batch = on_device.prove_many([INPUTS[0], UNSATISFIED, INPUTS[1]])
        assert batch.status == "device_lost"
        assert batch.statuses == ["device_lost", "unsatisfied_constraint", "device_lost"]
        assert "GPU 0 failed" in batch.outcomes[2].message
        assert ended(on_device.prove_many(INPUTS[:2])) == ("device_lost", {"device_lost"})


def test_prove_many__no_field_elements_for_one__loses_the_device(
    on_device: DeviceKey, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(FAULTS, "prove=garbage")
    batch = on_device.prove_many(INPUTS[:3])
    assert ended(batch) == ("device_lost", {"device_lost"})
    messages = {outcome.message for outcome in batch.outcomes}
    assert messages == {"the GPU returned a coordinate that is not below the modulus"}


def test_prove_many__out_of_memory__is_made_in_parts_while_some_fits(
    on_device: DeviceKey, expected: list[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    # Calls 1 and 2 are for five and two proofs: 3 and 4 make these one by one.
    monkeypatch.setenv(FAULTS, "prove=out_of_memory@1,prove=out_of_memory@2")
    assert some_proofs(on_device, 5) == expected[:5]
    monkeypatch.setenv(FAULTS, "prove=out_of_memory")
    assert ended(on_device.prove_many(INPUTS[:3])) == ("device_out_of_memory", {"device_out_of_memory"})
    monkeypatch.delenv(FAULTS)
    assert some_proofs(on_device, 3) == expected[:3]


@pytest.mark.usefixtures("own_plans")
def test_prove_many__memory_taken_by_other_keys__is_made_in_parts(
    kernel: Kernel, library: Path, key: Key, expected: list[bytes]
) -> None:
    """Of hundreds of keys, none has tables, which would take long to make."""
    budget = budget_of_limit(kernel, library, key, 4)
    with Device(kernel, library, budget=budget) as device:
        keys = keys_until_full(device, key)
        assert some_proofs(keys[0], 4) == expected[:4]
        assert device.describe().used_bytes <= budget
        for loaded in keys:
            loaded.__exit__()
        assert device.describe().used_bytes == 0


def test_prove_many__cancelled__ends_all_and_leaves_the_key_usable(on_device: DeviceKey) -> None:
    raised = on_device.kernel._ffi.new("int32_t *", 1)
    for size in (1, 3):
        assert ended(on_device.prove_many(INPUTS[:size], cancel=raised)) == ("cancelled", {"cancelled"})
        assert ended(on_device.prove_many(INPUTS[:size])) == ("ok", {"ok"})


# ---- sizes -----------------------------------------------------------------------------------------


def test_batch_limit__budget_of_one_proof__is_one_and_more_are_refused(
    kernel: Kernel, library: Path, key: Key, expected: list[bytes]
) -> None:
    with Device(kernel, library, budget=2**20) as device:
        needed = device.key_bytes(key) + device.proof_bytes(key)
    with Device(kernel, library, budget=needed) as device, device.load(key) as on_device:
        assert device.batch_limit(key) == 1
        assert some_proofs(on_device, 1) == expected[:1]
        batch = on_device.prove_many(INPUTS[:2])
        assert ended(batch) == ("invalid_argument", {"invalid_argument"})
        assert "1 to 1 proofs" in batch.outcomes[1].message


@pytest.mark.usefixtures("own_plans")
def test_batch_limit__growing_budgets__grows_by_powers_of_two_up_to_64(kernel: Kernel, library: Path, key: Key) -> None:
    found = []
    for log2 in range(16, 34):
        with Device(kernel, library, budget=1 << log2) as device:
            found.append(device.batch_limit(key))
    assert found == sorted(found)
    assert set(found) <= {1, 2, 4, 8, 16, 32, 64}
    assert (found[0], found[-1]) == (1, 64)


def test_batch_limit__of_a_loaded_key__is_that_which_its_batches_have(kernel: Kernel, library: Path, key: Key) -> None:
    budget = budget_of_limit(kernel, library, key, 4)
    with Device(kernel, library, budget=budget) as device, device.load(key) as on_device:
        assert on_device.batch_limit() == 4
        assert some_proofs(on_device, 4)
        assert ended(on_device.prove_many(INPUTS[:5])) == ("invalid_argument", {"invalid_argument"})


def test_prove_many__scratch_too_small__is_refused(on_device: DeviceKey) -> None:
    for size in (1, 3):
        batch = on_device.prove_many_with_blinding(INPUTS[:size], VALUES[:size], less_scratch=1)
        assert ended(batch) == ("out_of_memory", {"out_of_memory"})
