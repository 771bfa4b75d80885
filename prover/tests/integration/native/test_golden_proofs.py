"""Published keys: proofs before blinding equal the reference's bit for bit, on every backend; memory of loading."""

from __future__ import annotations

import hashlib
import json
import mmap
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from circuit_inputs import circuit_inputs
from golden_vectors import UNBLINDED, load, proof_points
from py_ecc import optimized_bn128 as bn128
from quotients import quotient_coefficients

from prover.errors import KernelMisused
from prover.kernel.engine import Backend, Encoding, Engine

EVERY_BACKEND = [backend for backend in Backend if backend is not Backend.AUTO]
GOLDEN = ("inclusion_32_1", "mainnet_inclusion_26_1", "non-inclusion_40_1")
PEAK_FACTOR = 2.5

MEASURE_PEAK = """
import json, mmap, sys, threading, time
from prover.kernel.engine import Engine

def anonymous_bytes():
    for line in open("/proc/self/status"):
        if line.startswith("RssAnon:"):
            return int(line.split()[1]) * 1024

def watch():
    while not done.is_set():
        peaks.append(anonymous_bytes())
        done.wait(0.002)

engine, peaks, done = Engine(), [], threading.Event()
with open(sys.argv[1], "rb") as file:
    data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
before = anonymous_bytes()
watcher = threading.Thread(target=watch)
watcher.start()
key = engine.load_key(data)
peaks.append(anonymous_bytes())
done.set()
watcher.join()
print(json.dumps({"added": max(peaks) - before, "resident": key.info.resident_bytes}))
"""


def scalars(values: list[int]) -> bytes:
    return b"".join(value.to_bytes(32, "big") for value in values)


def inclusion(keys_dir: Path) -> tuple[bytes, bytes, bytes]:
    """Return a published key, inputs, and the golden proof."""
    vector = load("gnark/inclusion_32_1.json")
    data = (keys_dir / "inclusion_32_1.key").read_bytes()
    return data, scalars(circuit_inputs(vector["request"])), proof_points(vector["unblinded"])


def engine_of(backend: Backend, threads: int = 0) -> Engine:
    try:
        return Engine(threads=threads, backend=backend)
    except KernelMisused:
        pytest.skip(f"the {backend.name} backend does not run on this CPU")


@pytest.mark.parametrize("backend", EVERY_BACKEND, ids=lambda b: b.name.lower())
@pytest.mark.parametrize("name", GOLDEN)
@pytest.mark.sampled(7)
def test_prove__published_key_without_blinding__equals_the_golden_proof(
    reference_keys_dir: Path, testing_library: Path, name: str, backend: Backend
) -> None:
    vector = load(f"gnark/{name}.json")
    inputs = scalars(circuit_inputs(vector["request"]))
    data = (reference_keys_dir / f"{name}.key").read_bytes()
    with engine_of(backend) as engine, engine.load_key(data) as key:
        assert key.prove(inputs, blinding=UNBLINDED).points == proof_points(vector["unblinded"])
        witness = key.solve(inputs)
        sides = (witness.a, witness.b, witness.c)
        quotient = quotient_coefficients(testing_library, backend.name.lower(), sides)
        assert hashlib.sha256(quotient).hexdigest() == vector["h"]["sha256_natural_order"]
        assert quotient[:32] == int(vector["h"]["h0"], 16).to_bytes(32, "big")


def g1_point(data: bytes) -> Any:
    x, y = (int.from_bytes(data[i : i + 32], "big") for i in (0, 32))
    return bn128.FQ(x), bn128.FQ(y), bn128.FQ(1)


def g2_point(data: bytes) -> Any:
    x1, x0, y1, y0 = (int.from_bytes(data[i : i + 32], "big") for i in (0, 32, 64, 96))
    return bn128.FQ2([x0, x1]), bn128.FQ2([y0, y1]), bn128.FQ2([1, 0])


@pytest.mark.parametrize(("rho", "sigma"), [(1, 0), (2, 1), (bn128.curve_order - 1, bn128.curve_order - 2), (7**80, 3)])
def test_prove__rerandomised__equals_the_formula_over_the_unblinded_proof(
    reference_keys_dir: Path, rho: int, sigma: int
) -> None:
    """Ar / rho, rho (Bs + sigma delta), Krs + sigma Ar, computed by py_ecc from the golden proof."""
    data, inputs, base = inclusion(reference_keys_dir)
    order = bn128.curve_order
    rho %= order
    with Engine() as engine, engine.load_key(data) as key:
        values = (rho.to_bytes(32, "big"), sigma.to_bytes(32, "big"))
        proof = key.prove(inputs, blinding=values).points
        key.verifying_key.verify(proof, inputs[:32])
        delta = g2_point(key.verifying_key.write(Encoding.RAW)[64 + 64 + 128 + 128 + 64 :][:128])
    ar, bs, krs = g1_point(base), g2_point(base[64:192]), g1_point(base[192:])
    expected_ar = bn128.multiply(ar, pow(rho, -1, order))
    expected_bs = bn128.multiply(bn128.add(bs, bn128.multiply(delta, sigma)), rho)
    expected_krs = bn128.add(krs, bn128.multiply(ar, sigma))
    assert bn128.eq(g1_point(proof), expected_ar)
    assert bn128.eq(g2_point(proof[64:192]), expected_bs)
    assert bn128.eq(g1_point(proof[192:]), expected_krs)


def test_prove__rho_zero__is_refused(reference_keys_dir: Path) -> None:
    data, inputs, _ = inclusion(reference_keys_dir)
    with Engine() as engine, engine.load_key(data) as key, pytest.raises(KernelMisused, match="rho"):
        key.prove(inputs, blinding=(bytes(32), bytes(32)))


@pytest.mark.parametrize(
    ("backend", "threads"),
    [*((Backend.AUTO, threads) for threads in (1, 2, 3, 48)), *((backend, 16) for backend in EVERY_BACKEND)],
    ids=lambda value: value.name.lower() if isinstance(value, Backend) else str(value),
)
def test_prove__other_thread_counts__give_the_same_proof(
    reference_keys_dir: Path, backend: Backend, threads: int
) -> None:
    """More threads than CPUs also work: the division of the work follows from their number."""
    data, inputs, expected = inclusion(reference_keys_dir)
    with engine_of(backend, threads) as engine, engine.load_key(data) as key:
        assert key.prove(inputs, blinding=UNBLINDED).points == expected


def test_prove__many_at_once_on_many_threads__give_the_same_proof(reference_keys_dir: Path) -> None:
    """Proofs that start while others run count on a part of the threads, and are divided for it."""
    data, inputs, expected = inclusion(reference_keys_dir)
    with Engine(threads=16) as engine, engine.load_key(data) as key, ThreadPoolExecutor(5) as callers:
        made = [callers.submit(key.prove, inputs, blinding=UNBLINDED) for _ in range(10)]
        assert {one.result().points for one in made} == {expected}


def peak_while_loading(path: Path) -> dict[str, int]:
    """Return anonymous memory that loading adds at its peak, in a process of its own."""
    result = subprocess.run(
        [sys.executable, "-c", MEASURE_PEAK, str(path)], check=True, capture_output=True, timeout=300
    )
    peak: dict[str, int] = json.loads(result.stdout)
    return peak


@pytest.mark.parametrize("name", ["inclusion_32_4", "combined_32_40_1_2"])
def test_load__large_published_key__stays_within_its_memory(reference_keys_dir: Path, name: str) -> None:
    path = reference_keys_dir / f"{name}.key"
    peak = peak_while_loading(path)
    assert peak["added"] <= PEAK_FACTOR * path.stat().st_size
    assert peak["resident"] <= peak["added"] * 1.1


def test_load__batch_key__stays_within_its_memory(reference_batch_keys_dir: Path) -> None:
    path = reference_batch_keys_dir / "update_32_10.key"
    assert peak_while_loading(path)["added"] <= PEAK_FACTOR * path.stat().st_size


def test_load__mapped_file__may_be_unmapped_afterwards(reference_keys_dir: Path) -> None:
    vector = load("gnark/inclusion_32_1.json")
    with Engine() as engine:
        with (reference_keys_dir / "inclusion_32_1.key").open("rb") as file:
            data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        key = engine.load_key(data)
        data.close()
        inputs = circuit_inputs(vector["request"])
        proof = key.prove(scalars(inputs))
        key.verifying_key.verify(proof.points, scalars(inputs[: key.info.public_inputs]))
        key.close()
