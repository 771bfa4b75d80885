"""GROTH16_CUDA_TUNING on a device that the host plays: odd choices of every kind, equal bytes, and nothing ignored."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from device_hooks import GROUPS, Group, expected_sum, ffi, odd_tunings, require_transforms, sums_on_device
from device_library import Device, Refused
from golden_vectors import load
from kernel_library import Kernel, Key, R

TINY = load("gnark/tiny.json")
KEY = bytes.fromhex(TINY["key_v0_14_hex"])
CASE = next(iter(TINY["cases"].values()))
INPUTS = b"".join(int(text, 16).to_bytes(32, "big") for text in (*CASE["public"], *CASE["secret"]))
VALUES = [(R - 1, 5), (1, 0), (R - 2, R - 1), (7, 7), (2, 3)]
VARIABLE, ORDER = "GROTH16_CUDA_TUNING", "GROTH16_CUDA_HOST_ORDER"

ODD = odd_tunings()
ODD_NAMES = [f"odd {number}" for number in range(len(ODD))]
# Least, most and steps of every setting.
RANGES = {
    "window": (2, 23, 1),
    "sets": (0, 128, 1),
    "low_bits": (0, 11, 1),
    "tile": (32, 65536, 1),
    "piece": (1, 256, 1),
    "threads": (32, 128, 32),
    "joins": (1, 65535, 1),
    "reduce": (1, 8, 1),
    "level": (1, 4, 1),
    "ntt_last": (1, 10, 1),
    "ntt_levels": (1, 8, 1),
    "ntt_columns": (0, 2, 1),
    "ntt_threads": (32, 256, 32),
    "batch": (1, 64, 1),
    "g2": (0, 2, 1),
}
OF_SUMS = ("window", "sets", "low_bits", "tile", "piece", "threads", "joins", "reduce", "level")
OF_TRANSFORMS = ("ntt_last", "ntt_columns", "ntt_threads")

any_odd = pytest.mark.parametrize("tuning", ODD, ids=ODD_NAMES)


def settings_of(tuning: str) -> dict[str, int]:
    return {name: int(value) for name, value in (entry.split("=") for entry in tuning.split(","))}


@pytest.fixture
def tuned(hooks: Any, tuning: str) -> Iterator[Any]:
    """The hooks under a tuning."""
    assert hooks.t_cuda_tune(tuning.encode(), ffi.new("char[200]")) == 0
    yield hooks
    hooks.t_cuda_tune(b"", ffi.NULL)


@pytest.fixture(scope="module")
def key(kernel: Kernel) -> Iterator[Key]:
    outcome, key = kernel.load_key(KEY)
    assert key is not None, outcome.message
    yield key
    key.destroy()


def refusal(call: Callable[[], object]) -> tuple[str, str]:
    with pytest.raises(Refused) as refused:
        call()
    return refused.value.status, str(refused.value)


# ---- the same bytes --------------------------------------------------------------------------------


@any_odd
@pytest.mark.parametrize("group", GROUPS, ids=lambda group: group.name)
@pytest.mark.sampled(6, checked=3)
def test_sums__under_odd_tunings__equal_py_ecc(tuned: Any, group: Group) -> None:
    """Over several tiles, with equal and opposite bases, and scalars that fill one bucket."""
    count, first_list = 70, 23
    generator = random.Random(count)
    exponents = [(1, R - 1, 2, 1, 0)[i % 5] for i in range(count)]
    rows = [[generator.randrange(R) for _ in range(count)], [3] * count, [R - 1, *[0] * (count - 1)]]
    answers = sums_on_device(tuned, group, exponents, rows, (0, 0, 0), first_list, 4)
    assert answers == [expected_sum(group, exponents, scalars, first_list) for scalars in rows]


@any_odd
@pytest.mark.parametrize("log2", [0, 1, 5, 10])
@pytest.mark.sampled(8, checked=4)
def test_transforms__under_odd_tunings__equal_the_definition(tuned: Any, log2: int) -> None:
    require_transforms(tuned, (log2, 0, 0, 0))


def proofs_on_cpu(key: Key) -> list[bytes]:
    proofs = []
    for rho, sigma in VALUES:
        outcome, proof = key.prove_with_blinding(INPUTS, rho.to_bytes(32, "big"), sigma.to_bytes(32, "big"))
        assert outcome.status == "ok", outcome.message
        proofs.append(proof)
    return proofs


@any_odd
@pytest.mark.parametrize("order", ["", "lazy", "eager"])
@pytest.mark.sampled(8, checked=4)
def test_proofs__alone_and_in_batches_under_odd_tunings__equal_the_cpu(
    kernel: Kernel, library: Path, key: Key, monkeypatch: pytest.MonkeyPatch, tuning: str, order: str
) -> None:
    """A size that comes again is made by a graph where the queues have an order."""
    monkeypatch.setenv(VARIABLE, tuning)
    monkeypatch.setenv(ORDER, order)
    with Device(kernel, library) as device, device.load(key) as on_device:
        limit = device.batch_limit(key)
        assert limit == settings_of(tuning).get("batch", limit)
        expected = proofs_on_cpu(key)
        for (rho, sigma), proof in zip(VALUES[:2], expected, strict=False):
            values = (rho.to_bytes(32, "big"), sigma.to_bytes(32, "big"))
            assert on_device.prove_with_blinding(INPUTS, *values) == proof
        for size in {min(3, limit), min(5, limit)}:
            for _ in range(2 if order else 1):
                batch = on_device.prove_many_with_blinding([INPUTS] * size, VALUES[:size])
                assert (batch.status, batch.proofs) == ("ok", expected[:size])


# ---- nothing is ignored ----------------------------------------------------------------------------


def choices_of(hooks: Any, log2: int) -> Any:
    """Return what the plans decide for 5000 bases, and a transform."""
    choices, shape = ffi.new("t_choices *"), ffi.new("t_msm_shape *", (5000, 5000, 0, 0, 0, 1, 2))
    assert hooks.t_cuda_choices(choices, shape, log2) == 0
    return choices


@any_odd
def test_plan__under_odd_tunings__has_what_was_asked_for(tuned: Any, tuning: str) -> None:
    asked = settings_of(tuning)
    choices = choices_of(tuned, 20)
    for name in (*OF_SUMS, *OF_TRANSFORMS):
        if name in asked and asked.get(name) != 0:
            assert getattr(choices, name) == asked[name], name
    if asked.get("sets") == 0:
        assert choices.sets == -(-255 // asked["window"])
    assert choices.ntt_first <= asked["ntt_levels"]
    assert choices.ntt_passes == 1 - (-(20 - choices.ntt_last) // asked["ntt_levels"])


@pytest.mark.parametrize("low_bits", [0, 5, 11])
def test_window__not_named__is_one_that_the_rest_leaves(hooks: Any, low_bits: int) -> None:
    for reduce in (1, 8):
        text = f"low_bits={low_bits},reduce={reduce}"
        assert hooks.t_cuda_tune(text.encode(), ffi.new("char[200]")) == 0
        choices = choices_of(hooks, 3)
        hooks.t_cuda_tune(b"", ffi.NULL)
        assert (choices.low_bits, choices.reduce) == (low_bits, reduce)
        assert max(low_bits, reduce) < choices.window <= low_bits + 12


@pytest.mark.parametrize("text", ["window=7", "sets=2", "low_bits=5", "piece=1", "reduce=3"])
def test_memory__of_keys_and_proofs__is_that_of_the_tuning(
    kernel: Kernel, library: Path, key: Key, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    sizes = []
    for tuning in ("", text):
        monkeypatch.setenv(VARIABLE, tuning)
        with Device(kernel, library) as device:
            sizes.append((device.key_bytes(key), device.proof_bytes(key)))
    assert sizes[0] != sizes[1]


@pytest.mark.parametrize("name", list(RANGES))
def test_setting__at_the_ends_of_its_range__opens_and_beyond_is_refused(
    kernel: Kernel, library: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    least, most, step = RANGES[name]
    for value in (least, most):
        monkeypatch.setenv(VARIABLE, f"{name}={value}")
        Device(kernel, library).__exit__()
    steps = f" in steps of {step}" if step > 1 else ""
    beyond = {most + step, 10**9 - 1, *([least - step] if least >= step else []), *([least + 1] if step > 1 else [])}
    for value in beyond:
        monkeypatch.setenv(VARIABLE, f"{name}={value}")
        assert refusal(lambda: Device(kernel, library)) == (
            "device_unavailable",
            f"{VARIABLE}: {name}={value} is out of range; it takes {least} to {most}{steps}",
        )


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("window", "window has no number; it takes 2 to 23"),
        ("window=", "window has no number; it takes 2 to 23"),
        ("window=-7", "window has no number; it takes 2 to 23"),
        ("window= 7", "window has no number; it takes 2 to 23"),
        ("window=7;piece=3", "window has no number; it takes 2 to 23"),
        ("piece=4294967297", "piece has no number; it takes 1 to 256"),
        ("piece=3,window=7,piece=3", "piece is named twice; it takes 1 to 256"),
        ("window=7,low_bits=7", "low_bits=7 does not go with window=7; it takes 0 to 6"),
        ("low_bits=9,window=22", "low_bits=9 does not go with window=22; it takes 10 to 11"),
        ("window=4,reduce=4", "reduce=4 does not go with window=4; it takes 1 to 3"),
        ("windows=7", "unknown windows; known: " + " ".join(RANGES)),
        ("piece=3,WINDOW=7", "unknown WINDOW; known: " + " ".join(RANGES)),
        ("a name that is too long=7", "unknown a?name?that?; known: " + " ".join(RANGES)),
        (" window=7", "unknown ?window; known: " + " ".join(RANGES)),
        ("=7", "unknown ; known: " + " ".join(RANGES)),
        (",window=7", "unknown ; known: " + " ".join(RANGES)),
        ("window=7,", "unknown ; known: " + " ".join(RANGES)),
    ],
)
def test_text__that_is_not_a_tuning__is_refused_with_what_it_takes(
    kernel: Kernel, library: Path, monkeypatch: pytest.MonkeyPatch, text: str, words: str
) -> None:
    monkeypatch.setenv(VARIABLE, text)
    assert refusal(lambda: Device(kernel, library)) == ("device_unavailable", f"{VARIABLE}: {words}")


def test_tuning__that_no_memory_holds__is_refused_with_the_numbers(
    kernel: Kernel, library: Path, key: Key, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLE, "window=23,sets=0")
    with Device(kernel, library) as device:
        status, message = refusal(lambda: device.load(key))
        assert (status, "budget" in message) == ("device_out_of_memory", True)
        assert device.describe().used_bytes == 0


def test_tuning__changed_while_a_device_is_open__is_read_when_it_is_opened_again(
    kernel: Kernel, library: Path, key: Key, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLE, "batch=3")
    with Device(kernel, library) as device:
        monkeypatch.setenv(VARIABLE, "batch=0")
        assert device.batch_limit(key) == 3
        assert refusal(lambda: Device(kernel, library))[0] == "device_unavailable"
        monkeypatch.setenv(VARIABLE, "batch=5")
        with Device(kernel, library) as other:
            assert (device.batch_limit(key), other.batch_limit(key)) == (3, 5)
