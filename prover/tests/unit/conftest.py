"""Fixtures of several unit tests."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from device_library import Device
from golden_vectors import load
from kernel_library import Kernel, runs
from pytest_socket import disable_socket
from redis_twin import RedisTwin

from prover.kernel.engine import Backend, Engine
from prover.keys.prepared import prepared_keys


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Refuse sockets, except the Unix ones that event loops need, and Redis: integration tests use them."""
    disable_socket(allow_unix_socket=True)
    if redis := [name for name in getattr(item, "fixturenames", ()) if name.startswith("redis_")]:
        pytest.fail(f"unit tests do not use {', '.join(redis)}; move this one to tests/integration", pytrace=False)


@pytest.fixture
def twin() -> RedisTwin:
    """An empty Redis in this process."""
    return RedisTwin()


@pytest.fixture(scope="session")
def engine() -> Iterator[Engine]:
    """An engine with one thread; modules that need another have their own."""
    with Engine(threads=1) as engine:
        yield engine


@pytest.fixture(scope="session")
def portable_engine() -> Iterator[Engine]:
    """An engine whose prepared keys have the same format on all CPUs."""
    with Engine(threads=1, backend=Backend.PORTABLE) as engine:
        yield engine


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """The file of the tiny key."""
    path = tmp_path / "tiny.key"
    path.write_bytes(bytes.fromhex(load("gnark/tiny.json")["key_v0_14_hex"]))
    return path


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Folder of the prepared keys."""
    return tmp_path / prepared_keys.FOLDER


@pytest.fixture(scope="module")
def hooks(testing_library: Path, request: pytest.FixtureRequest) -> Any:
    """The hooks of the test library that the `ffi` of a module declares; modules that need others have their own."""
    return request.module.ffi.dlopen(str(testing_library))


@pytest.fixture(params=["portable", "adx", "avx2", "avx512", "ifma"])
def backend(request: pytest.FixtureRequest, testing_library: Path) -> str:
    """A backend that the test library runs here, IFMA in emulation too."""
    name = str(request.param)
    if not runs(testing_library, name):
        pytest.skip(f"the {name} backend does not run on this CPU")
    return name


# ---- of tests of the CUDA code ------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def library(testing_library: Path) -> Path:
    """The CUDA library with the host in the place of a GPU."""
    return testing_library.with_name("libgroth16_cuda_host.so")


@pytest.fixture(scope="module")
def kernel(testing_library: Path) -> Iterator[Kernel]:
    """An engine of the test library with two threads; modules that need another have their own."""
    kernel = Kernel(testing_library, threads=2)
    yield kernel
    kernel.close()


@pytest.fixture
def device(kernel: Kernel, library: Path) -> Iterator[Device]:
    """A device without a budget."""
    with Device(kernel, library) as device:
        yield device


@pytest.fixture
def quick_sums(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sums on devices use tables of bases, as GPUs with room for them do: proofs of the tiny key are ten times faster.

    For modules about something else than sums; their tests that need the plans' own choices use `own_plans`.
    """
    monkeypatch.setenv("GROTH16_CUDA_TUNING", "window=4,sets=8")


@pytest.fixture
def own_plans(quick_sums: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sums on devices are as the plans choose, which takes no tables for the tiny key."""
    monkeypatch.delenv("GROTH16_CUDA_TUNING")
