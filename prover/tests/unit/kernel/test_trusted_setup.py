"""The kernel's trusted setup against golden keys with known secrets, and against its own prover and verifier."""

from __future__ import annotations

import io
import mmap
import threading
import time
from collections.abc import Iterator
from concurrent.futures import Executor, ThreadPoolExecutor
from typing import Any

import pytest
from constraint_system_hooks import FORMAT_014
from golden_vectors import load
from small_systems import System

from prover.circuits.catalogue import compile_circuit
from prover.circuits.output.gnark_014 import write_constraint_system
from prover.cli.random_requests import RandomRequests
from prover.errors import Cancelled, KernelMisused, MalformedKey, ProofRejected, UnsupportedKey
from prover.kernel._native import ffi
from prover.kernel.cancellation import CancelFlag, Progress
from prover.kernel.engine import Backend, Engine
from prover.kernel.setup import SetupSecrets, TrustedSetup
from prover.keys.files.key_description import header_of
from prover.proving.request import read_envelope, read_task
from shared.requests.circuit_id import CircuitId, CircuitKind
from shared.requests.proof_wire import encode_request

TINY: dict[str, Any] = load("gnark/tiny.json")
KEY = bytes.fromhex(TINY["key_v0_14_hex"])
HEADER_WORDS = TINY["header"]
SECRETS = SetupSecrets(**{name: int(value, 16) for name, value in TINY["toxic_waste"].items()})

CHUNKED = CircuitId(CircuitKind.INCLUSION, 2, (20,), (1,))
"""A circuit whose scalars and points are computed in several chunks."""
FINISHED = 1000
WRITING_POINTS = 350
"""Progress in thousandths: of a finished setup, and when the points of A are written and most work is left."""
CANCELLATIONS = 5
"""Attempts: on a busy machine the thread that cancels may be late."""

EVERY_BACKEND = [backend for backend in Backend if backend is not Backend.AUTO]


@pytest.fixture(scope="module", params=EVERY_BACKEND, ids=lambda b: b.name.lower())
def engine(request: pytest.FixtureRequest) -> Iterator[Engine]:
    try:
        engine = Engine(backend=request.param)
    except KernelMisused:
        pytest.skip(f"the {request.param.name} backend does not run on this CPU")
    with engine:
        yield engine


@pytest.fixture(scope="module")
def system(engine: Engine) -> bytes:
    with engine.load_key(KEY) as key:
        return KEY[key.info.constraint_system_offset :]


def inputs(case: dict[str, Any]) -> bytes:
    return b"".join(int(text, 16).to_bytes(32, "big") for text in [*case["public"], *case["secret"]])


def test_setup__known_secrets__gives_the_golden_key_byte_for_byte(engine: Engine, system: bytes) -> None:
    progress = Progress()
    with TrustedSetup(engine, system, HEADER_WORDS) as setup:
        file = bytearray(setup.key_bytes)
        setup.run(file, SECRETS, progress)
        offset = setup.verifying_key_offset
    assert bytes(file) == KEY
    assert progress.permille == FINISHED
    with engine.load_key(KEY) as key:
        assert offset == key.info.verifying_key_offset


def test_setup__fresh_secrets__keys_differ_and_prove(engine: Engine, system: bytes) -> None:
    files = []
    with TrustedSetup(engine, system, HEADER_WORDS) as setup:
        for _ in range(2):
            file = bytearray(setup.key_bytes)
            setup.run(file)
            files.append(bytes(file))
    assert files[0] != files[1]
    case = TINY["cases"]["z6"]
    with engine.load_key(files[0]) as ours, engine.load_key(files[1]) as other:
        proof = ours.prove(inputs(case)).points
        public = inputs(case)[:32]
        ours.verifying_key.verify(proof, public)
        with pytest.raises(ProofRejected):
            other.verifying_key.verify(proof, public)


@pytest.fixture(scope="module")
def chunked() -> bytes:
    """The constraint system of CHUNKED."""
    system = io.BytesIO()
    write_constraint_system(compile_circuit(CHUNKED), system)
    return system.getvalue()


def test_setup__of_a_circuit_that_is_computed_in_chunks__proves(engine: Engine, chunked: bytes) -> None:
    task = read_task(read_envelope(encode_request(RandomRequests("setup").make(CHUNKED))), known=None)
    with TrustedSetup(engine, chunked, header_of(CHUNKED)) as setup:
        file = bytearray(setup.key_bytes)
        setup.run(file)
    with engine.load_key(bytes(file)) as key:
        assert key.info.domain_size == 8192
        proof = key.prove(task.assignment.inputs).points
        key.verifying_key.verify(proof, task.assignment.public_inputs)


@pytest.mark.parametrize("name", ["tau", "alpha", "beta", "gamma", "delta"])
def test_setup__secret_zero_or_too_large__is_refused(engine: Engine, system: bytes, name: str) -> None:
    order = 21888242871839275222246405745257275088548364400416034343698204186575808495617
    with TrustedSetup(engine, system, HEADER_WORDS) as setup:
        file = bytearray(setup.key_bytes)
        for bad in (0, order):
            values = {**vars(SECRETS), name: bad}
            with pytest.raises(KernelMisused, match="zero or not below r"):
                setup.run(file, SetupSecrets(**values))


def test_setup__tau_on_the_domain__is_refused(engine: Engine, system: bytes) -> None:
    with TrustedSetup(engine, system, HEADER_WORDS) as setup:
        file = bytearray(setup.key_bytes)
        with pytest.raises(KernelMisused, match="domain"):
            setup.run(file, SetupSecrets(**{**vars(SECRETS), "tau": 1}))


def test_setup__wrong_file_size_or_header__is_refused(engine: Engine, system: bytes) -> None:
    with TrustedSetup(engine, system, HEADER_WORDS) as setup, pytest.raises(KernelMisused):
        setup.run(bytearray(setup.key_bytes - 1), SECRETS)
    with pytest.raises(KernelMisused):
        TrustedSetup(engine, system, [1, 2, 3])


def test_setup__truncated_system__says_where(engine: Engine, system: bytes) -> None:
    with pytest.raises(MalformedKey):
        TrustedSetup(engine, system[:-1], HEADER_WORDS)


def test_setup__of_a_single_constraint__is_refused_because_no_key_has_one(engine: Engine) -> None:
    system = System()
    system.row([(1, 2)], [(1, 2)], [(1, 1)])
    with pytest.raises(UnsupportedKey, match="a setup takes 2 to "):
        TrustedSetup(engine, system.encode(FORMAT_014), HEADER_WORDS)


def test_setup__refused_system__may_be_released_at_once(engine: Engine, system: bytes) -> None:
    with mmap.mmap(-1, len(system) - 1) as data:
        data.write(system[:-1])
        with pytest.raises(MalformedKey):
            TrustedSetup(engine, data, HEADER_WORDS)
    assert data.closed


def test_setup__closed_during_a_call__keeps_its_system_until_the_call_returns(engine: Engine, system: bytes) -> None:
    data = bytearray(system)
    setup = TrustedSetup(engine, data, HEADER_WORDS)
    with setup._handle.use():
        setup.close()
        with pytest.raises(BufferError):
            data.clear()
    data.clear()
    setup.close()


def test_setup__cancelled__stops(engine: Engine, system: bytes) -> None:
    flag = CancelFlag()
    flag.raise_flag()
    with TrustedSetup(engine, system, HEADER_WORDS) as setup, pytest.raises(Cancelled):
        setup.run(bytearray(setup.key_bytes), SECRETS, cancel=flag)


def test_setup__cancelled_midway__stops_and_may_run_again(engine: Engine, chunked: bytes) -> None:
    """The first progress is the flag that cancels; then another thread cancels while points are written."""
    with TrustedSetup(engine, chunked, header_of(CHUNKED)) as setup, ThreadPoolExecutor(1) as pool:
        expected, file = bytearray(setup.key_bytes), bytearray(setup.key_bytes)
        setup.run(expected, SECRETS)
        progress, flag = Progress(), CancelFlag()
        flag.cell = ffi.cast("g16_cancel *", progress.cell)
        with pytest.raises(Cancelled):
            setup.run(file, SECRETS, progress, flag)
        assert 0 < progress.permille < WRITING_POINTS
        reached = [run_cancelled_at(pool, setup, file, WRITING_POINTS) for _ in range(CANCELLATIONS)]
        assert any(permille < FINISHED for permille in reached)
        setup.run(file, SECRETS)
    assert file == expected


def run_cancelled_at(pool: Executor, setup: TrustedSetup, file: bytearray, permille: int) -> int:
    """Cancel a setup as soon as it has progressed so far; return its last progress, FINISHED if it was faster."""
    progress, flag = Progress(), CancelFlag()
    run = pool.submit(setup.run, file, SECRETS, progress, flag)
    while progress.permille < permille and not run.done():
        time.sleep(0)
    flag.raise_flag()
    if run.exception() is not None:
        assert isinstance(run.exception(), Cancelled)
    return progress.permille


def test_setup__two_threads__do_not_disturb_each_other(engine: Engine, system: bytes) -> None:
    with TrustedSetup(engine, system, HEADER_WORDS) as setup:
        files = [bytearray(setup.key_bytes) for _ in range(4)]
        threads = [threading.Thread(target=setup.run, args=(file, SECRETS)) for file in files]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert all(bytes(file) == KEY for file in files)
