"""Points of keys from a device, which the host plays: the processor's bytes of setup and folding; typed failures."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from device_library import Device, Refused
from device_points import PointLibrary, Setup, folded
from golden_vectors import load
from kernel_library import BACKENDS, Kernel, Key, R
from reference_curve import G1, G2, add, multiply
from small_systems import System

TINY = load("gnark/tiny.json")
GOLDEN = bytes.fromhex(TINY["key_v0_14_hex"])
GOLDEN_SECRETS = b"".join(
    int(TINY["toxic_waste"][name], 16).to_bytes(32, "big") for name in ("tau", "alpha", "beta", "gamma", "delta")
)
SECRETS = b"".join((7**n % R).to_bytes(32, "big") for n in range(200, 205))
FAULTS, THREADS = "GROTH16_CUDA_HOST_FAULTS", "GROTH16_CUDA_HOST_THREADS"
LAMBDA = 0xB3C4D79D41A917585BFC41088D8DAAA78B17EA66B99C90DD
"""Of the endomorphism."""
EDGES = [
    0,
    1,
    2,
    3,
    R - 1,
    R - 2,
    (R + 1) // 2,
    LAMBDA,
    R - LAMBDA,
    LAMBDA + 1,
    LAMBDA**2 % R,
    2**128,
    2**253,
    2**127 - 1,
]


@cache
def chain(rows: int, unused: int = 0) -> bytes:
    """A system of so many rows with products by 1, -1 and 2; `unused` secret wires take part in none."""
    system = System(public=1, secret=1 + unused)
    wire = 2
    for number in range(rows - 1):
        new = system.new_wire()
        system.row(
            [(1, wire)], [(2, wire), (1, 0)] if number % 2 else [(1, wire), (3, 0)], [((1, 3, 2)[number % 3], new)]
        )
        wire = new
    system.row([(1, wire)], [(1, 0)], [(1, 1)])
    return system.encode(2)


@contextmanager
def key_of(kernel: Kernel, system: bytes) -> Iterator[Key]:
    with Setup(kernel, system, [1, 2]) as setup:
        outcome, key = kernel.load_key(setup.run(SECRETS)[0])
    assert key is not None, outcome.message
    yield key
    key.destroy()


def golden_system(kernel: Kernel) -> bytes:
    _, key = kernel.load_key(GOLDEN)
    assert key is not None
    offset = int(key.describe()["constraint_system_offset"])
    key.destroy()
    return GOLDEN[offset:]


def refusal(call: Callable[[], object]) -> tuple[str, str]:
    with pytest.raises(Refused) as refused:
        call()
    return refused.value.status, str(refused.value)


# ---- the library's functions -----------------------------------------------------------------------


def flat(point: Any) -> tuple[int, ...]:
    """Coordinates as the library has them, zeros for infinity in G1."""
    if point is None:
        return (0, 0)
    x, y = point
    return (x, y) if isinstance(x, int) else (*x, *y)


@pytest.mark.parametrize("order", ["forwards", "backwards"])
@pytest.mark.parametrize("expected", [0, 10**6], ids=["small table", "larger table"])
@pytest.mark.sampled(2, checked=1)
def test_multiples__of_edge_scalars__are_those_of_the_curve(
    library: Path, monkeypatch: pytest.MonkeyPatch, order: str, expected: int
) -> None:
    monkeypatch.setenv(THREADS, order)
    budget = 2**19 if expected else 2**28
    in_g1 = [flat(multiply(G1, scalar)) for scalar in EDGES]
    in_g2 = [flat(multiply(G2, scalar)) if scalar else (0, 0, 0, 0) for scalar in EDGES]
    assert PointLibrary(library, budget).multiples(1, flat(G1), EDGES * 2, expected) == in_g1 * 2
    assert PointLibrary(library, 2 * budget).multiples(2, flat(G2), EDGES * 2, expected) == in_g2 * 2


def test_multiples__of_infinity_and_of_more_scalars_than_a_piece__are_right(library: Path) -> None:
    points = PointLibrary(library)
    assert points.multiples(1, (0, 0), EDGES) == [(0, 0)] * len(EDGES)
    many = list(range(600))
    found = PointLibrary(library, 2**19).multiples(1, flat(G1), many, 10**6)
    expected: list[Any] = [None]
    for _ in many[1:]:
        expected.append(add(expected[-1], G1))
    assert found == [flat(point) for point in expected]


@pytest.mark.parametrize("order", ["forwards", "backwards"])
def test_scale__edge_scalars_and_infinity__is_right(library: Path, monkeypatch: pytest.MonkeyPatch, order: str) -> None:
    monkeypatch.setenv(THREADS, order)
    points = [multiply(G1, number % 3 + 1) if number % 4 else None for number in range(len(EDGES))]
    points += [multiply(G1, 5)] * len(EDGES)
    scalars = [*EDGES, *reversed(EDGES)]
    expected = [flat(multiply(point, scalar)) for point, scalar in zip(points, scalars, strict=True)]
    assert PointLibrary(library).scale([flat(point) for point in points], scalars) == expected


def reverse(number: int, bits: int) -> int:
    return int(f"{number:0{bits}b}"[::-1], 2) if bits else 0


@pytest.mark.parametrize("order", ["forwards", "backwards"])
@pytest.mark.parametrize("log2", [0, 1, 3])
def test_transform__of_points_with_equal_opposite_and_infinite_ones__is_its_definition(
    library: Path, monkeypatch: pytest.MonkeyPatch, log2: int, order: str
) -> None:
    monkeypatch.setenv(THREADS, order)
    n = 1 << log2
    psi = pow(5, (R - 1) >> (log2 + 1), R)
    omega = psi * psi % R
    roots = [pow(psi, reverse(i, log2), R) for i in range(n)]
    values = [3, 0, 7, 3, R - 3, 11, 3, 0][:n]
    points = [flat(multiply(G1, value)) for value in values]
    inverse = PointLibrary(library).transform(points, roots, forward=False)
    for k in range(n):
        total = sum(value * pow(omega, -j * k, R) for j, value in enumerate(values)) % R
        assert inverse[reverse(k, log2)] == flat(multiply(G1, total))
    forward = PointLibrary(library).transform(points, roots, forward=True)
    for j in range(n):
        total = sum(values[reverse(k, log2)] * pow(omega, j * k, R) for k in range(n)) % R
        assert forward[j] == flat(multiply(G1, total))


# ---- setup -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("order", ["forwards", "backwards"])
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.sampled(3, checked=1)
def test_setup__on_the_device__gives_the_golden_key_and_the_processors(
    testing_library: Path, library: Path, monkeypatch: pytest.MonkeyPatch, backend: str, order: str
) -> None:
    monkeypatch.setenv(THREADS, order)
    kernel = Kernel(testing_library, backend, threads=2)
    with Device(kernel, library) as device:
        with Setup(kernel, golden_system(kernel), TINY["header"]) as setup:
            assert setup.run(GOLDEN_SECRETS, device) == (GOLDEN, 1000)
        with Setup(kernel, chain(20), [1, 2]) as setup:
            assert setup.run(SECRETS, device) == setup.run(SECRETS)
        assert device.describe().used_bytes == 0
    kernel.close()


def test_setup__within_a_small_budget__works_in_pieces_and_gives_the_same_key(kernel: Kernel, library: Path) -> None:
    with Setup(kernel, chain(300), [1, 2, 3, 4]) as setup:
        expected = setup.run(SECRETS)
        with Device(kernel, library, budget=3 * 2**17) as device:
            assert setup.run(SECRETS, device) == expected
        with Device(kernel, library, budget=2**16) as device:
            status, message = refusal(lambda: setup.run(SECRETS, device))
    assert status == "device_out_of_memory"
    assert "budget" in message


def test_setup__fresh_secrets__keys_differ(kernel: Kernel, device: Device) -> None:
    with Setup(kernel, chain(5), [1, 2]) as setup:
        null = kernel._ffi.NULL
        assert setup.run(null, device) != setup.run(null, device)


def test_setup__wire_in_no_row__is_refused_as_by_the_processor(kernel: Kernel, device: Device) -> None:
    with Setup(kernel, chain(5, unused=2), [1, 2]) as setup:
        refused = refusal(lambda: setup.run(SECRETS, device))
        assert refused == refusal(lambda: setup.run(SECRETS))
    assert refused == ("unsupported_key", "2 wires take part in no constraint")


@pytest.mark.parametrize("number", range(1, 9))
@pytest.mark.parametrize(("fault", "status"), [("out_of_memory", "device_out_of_memory"), ("lost", "device_lost")])
@pytest.mark.sampled(6, checked=3)
def test_setup__fault_at_any_call__is_typed_and_leaves_nothing_taken(
    kernel: Kernel, library: Path, monkeypatch: pytest.MonkeyPatch, fault: str, status: str, number: int
) -> None:
    """Both tables, then A, B, B in G2, K, Z and the public K."""
    monkeypatch.setenv(FAULTS, f"setup={fault}@{number}")
    with ExitStack() as stack:
        device = stack.enter_context(Device(kernel, library))
        setup = stack.enter_context(Setup(kernel, chain(5), [1, 2]))
        assert refusal(lambda: setup.run(SECRETS, device))[0] == status
        if fault == "lost":
            assert refusal(lambda: setup.run(SECRETS, device))[0] == status
        else:
            assert device.describe().used_bytes == 0
            assert setup.run(SECRETS, device) == setup.run(SECRETS)


@pytest.mark.parametrize("number", range(3, 9))
@pytest.mark.parametrize("fault", ["wrong", "astray", "garbage"])
@pytest.mark.sampled(4, checked=2)
def test_setup__wrong_point_in_any_list__is_never_in_a_key(
    kernel: Kernel, device: Device, monkeypatch: pytest.MonkeyPatch, fault: str, number: int
) -> None:
    monkeypatch.setenv(FAULTS, f"setup={fault}@{number}")
    with Setup(kernel, chain(5), [1, 2]) as setup:
        status, message = refusal(lambda: setup.run(SECRETS, device))
    assert status == "device_lost"
    assert "GPU 0 (GPU in software) returned points that are not those of the key" in message
    assert "--device cpu" in message


def test_setup__cancelled__stops_and_gives_everything_back(kernel: Kernel, device: Device) -> None:
    with Setup(kernel, chain(5), [1, 2]) as setup:
        assert refusal(lambda: setup.run(SECRETS, device, cancelled=True))[0] == "cancelled"
    assert device.describe().used_bytes == 0


# ---- folding ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("backend", BACKENDS)
def test_fold__domains_full_and_in_part__has_the_processors_bytes(
    testing_library: Path, library: Path, backend: str
) -> None:
    kernel = Kernel(testing_library, backend, threads=2)
    with Device(kernel, library) as device:
        for rows in (8, 20, 32):  # 7 of 8 and 19 of 32 points, in three parts each; all 32
            with key_of(kernel, chain(rows)) as key:
                assert folded(device, key) == (key.prepared(fold=True), 1000)
        assert device.describe().used_bytes == 0
    kernel.close()


def test_fold__threads_backwards_and_tables__has_the_processors_bytes(
    kernel: Kernel, library: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(THREADS, "backwards")
    with Device(kernel, library) as device, key_of(kernel, chain(20)) as key:
        assert folded(device, key, 2**20)[0] == key.prepared(table_bytes=2**20, fold=True)


def test_fold__key_with_tables__is_checked_without_them(kernel: Kernel, library: Path) -> None:
    with Device(kernel, library) as device, key_of(kernel, chain(20)) as source:
        outcome, key = kernel.load_prepared(source.prepared(table_bytes=2**20))
        assert key is not None, outcome.message
        assert folded(device, key)[0] == source.prepared(fold=True)
        key.destroy()


@pytest.mark.parametrize(
    ("fault", "rows", "calls"),
    [
        ("astray", 8, range(2, 29, 3)),
        ("wrong", 8, range(2, 29, 4)),
        ("garbage", 8, range(2, 29, 8)),
        ("astray", 32, range(2, 7, 2)),
        ("wrong", 32, range(3, 7, 2)),
    ],
)
def test_fold__wrong_point_from_a_call__is_never_in_a_key(
    kernel: Kernel, library: Path, monkeypatch: pytest.MonkeyPatch, fault: str, rows: int, calls: range
) -> None:
    """In the first place of a list; the key may be as it must be where nothing reads that, or the same point was there.

    The first call opens the lists; 27 more make bases of a part of 8 places, 5 those of all of 32.
    """
    refused = []
    with key_of(kernel, chain(rows)) as key:
        expected = key.prepared(fold=True)
        for number in calls:
            monkeypatch.setenv(FAULTS, f"fold={fault}@{number}")
            with Device(kernel, library) as device:
                try:
                    assert folded(device, key)[0] == expected, number
                except Refused as error:
                    refused.append((error.status, str(error)))
    assert {status for status, _ in refused} == {"device_lost"}
    assert all(message.startswith("GPU 0 (GPU in software) returned ") for _, message in refused)
    assert all(message.endswith("make the key with --device cpu, and test the GPU") for _, message in refused)
    assert len(refused) == len(calls) - (fault == "wrong" and rows == 8)


@pytest.mark.parametrize("number", [1, 2, 3])
@pytest.mark.parametrize(("fault", "status"), [("out_of_memory", "device_out_of_memory"), ("lost", "device_lost")])
@pytest.mark.sampled(3, checked=2)
def test_fold__fault_at_a_call__is_typed_and_leaves_nothing_taken(
    kernel: Kernel, library: Path, monkeypatch: pytest.MonkeyPatch, fault: str, status: str, number: int
) -> None:
    monkeypatch.setenv(FAULTS, f"fold={fault}@{number}")
    with Device(kernel, library) as device, key_of(kernel, chain(8)) as key:
        assert refusal(lambda: folded(device, key))[0] == status
        if fault == "lost":
            assert refusal(lambda: folded(device, key))[0] == status
        else:
            assert device.describe().used_bytes == 0
            assert folded(device, key)[0] == key.prepared(fold=True)


def test_fold__budget_too_small_or_cancelled__is_typed(kernel: Kernel, library: Path, device: Device) -> None:
    with key_of(kernel, chain(8)) as key:
        with Device(kernel, library, budget=2**10) as little:
            assert refusal(lambda: folded(little, key))[0] == "device_out_of_memory"
        assert refusal(lambda: folded(device, key, cancelled=True))[0] == "cancelled"
        assert device.describe().used_bytes == 0
