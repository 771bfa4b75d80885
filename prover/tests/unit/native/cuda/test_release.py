"""Release of device memory, which may take long: sizes do not wait for it, and it counts as used until then."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from device_library import Device
from golden_vectors import load
from kernel_library import Kernel, Key

TINY = load("gnark/tiny.json")
CASE = next(iter(TINY["cases"].values()))
INPUTS = b"".join(int(text, 16).to_bytes(32, "big") for text in CASE["public"] + CASE["secret"])
LIMIT_S = 60.0

pytestmark = pytest.mark.usefixtures("quick_sums")


@pytest.fixture(scope="module")
def key(kernel: Kernel) -> Iterator[Key]:
    outcome, key = kernel.load_key(bytes.fromhex(TINY["key_v0_14_hex"]))
    assert key is not None, outcome.message
    yield key
    key.destroy()


class Gate:
    """A FIFO at which releases of device memory wait."""

    def __init__(self, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self._path = path
        os.mkfifo(path)
        monkeypatch.setenv("GROTH16_CUDA_HOST_FREE_GATE", str(path))

    @contextmanager
    def held(self, released: Future[Any]) -> Iterator[None]:
        """Hold the release that a call has begun for the block, then let all pass."""
        writer = self._writer(time.monotonic() + LIMIT_S)
        try:
            assert not released.done()
            yield
        finally:
            self._path.unlink()
            os.close(writer)

    def _writer(self, until: float) -> int:
        while True:
            try:
                return os.open(self._path, os.O_WRONLY | os.O_NONBLOCK)
            except OSError:  # no release has opened the FIFO yet
                assert time.monotonic() < until, "no memory is released"
                time.sleep(0.001)


@pytest.fixture
def gate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Gate:
    return Gate(tmp_path / "gate", monkeypatch)


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(3) as pool:
        yield pool


def sizes(kernel: Kernel, library: Path, key: Key) -> tuple[int, int]:
    """Return device memory of the key and of a proof under a budget that leaves no room for tables."""
    with Device(kernel, library, budget=2**20) as device:
        return device.key_bytes(key), device.proof_bytes(key)


def test_sizes__while_a_key_is_released__do_not_wait(
    kernel: Kernel, library: Path, key: Key, gate: Gate, pool: ThreadPoolExecutor
) -> None:
    with Device(kernel, library) as device:
        loaded = device.load(key)
        loaded.prove(INPUTS)
        released = pool.submit(loaded.__exit__)
        with gate.held(released):
            assert pool.submit(device.key_bytes, key).result(LIMIT_S) > 0
            assert device.describe().used_bytes > 0
        released.result(LIMIT_S)
        assert device.describe().used_bytes == 0


def test_budget__of_a_key_that_is_released__is_free_afterwards(
    kernel: Kernel, library: Path, key: Key, gate: Gate, pool: ThreadPoolExecutor
) -> None:
    """Another key waits for the memory instead of taking it too early or being refused."""
    needed = sum(sizes(kernel, library, key))
    with Device(kernel, library, budget=needed) as device:
        released = pool.submit(device.load(key).__exit__)
        with gate.held(released):
            second = pool.submit(device.load, key)
            with pytest.raises(TimeoutError):
                second.result(0.2)
        with second.result(LIMIT_S) as loaded:
            loaded.prove(INPUTS)
        released.result(LIMIT_S)


def test_idle_memory__evicted_for_another_key__is_released_without_others_waiting(
    kernel: Kernel, library: Path, key: Key, gate: Gate, pool: ThreadPoolExecutor
) -> None:
    key_bytes, proof_bytes = sizes(kernel, library, key)
    needed = 2 * key_bytes + proof_bytes
    with Device(kernel, library, budget=needed) as device, device.load(key) as first:
        first.prove(INPUTS)
        loading = pool.submit(device.load, key)
        with gate.held(loading):
            assert pool.submit(device.key_bytes, key).result(LIMIT_S) == key_bytes
            waiting = pool.submit(first.prove, INPUTS)
            with pytest.raises(TimeoutError):
                waiting.result(0.2)
        with loading.result(LIMIT_S) as second:
            waiting.result(LIMIT_S)
            second.prove(INPUTS)
            assert device.describe().used_bytes <= needed
