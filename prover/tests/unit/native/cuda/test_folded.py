"""Folded keys on a device that the host simulates: proofs are those of the CPU, and memory and transforms are fewer."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from circuit_inputs import circuit_inputs
from device_library import Device
from kernel_library import Kernel, Key, R

from prover.circuits.catalogue import compile_circuit
from prover.circuits.output.gnark_014 import write_constraint_system
from prover.cli.random_requests import RandomRequests
from prover.kernel.engine import Backend, Engine
from prover.kernel.setup import TrustedSetup
from prover.keys.files.key_description import header_of
from shared.requests.circuit_id import CircuitId, CircuitKind
from shared.requests.proof_wire import encode_request

ORDER, WITNESS = "GROTH16_CUDA_HOST_ORDER", "GROTH16_CUDA_WITNESS"
CIRCUIT = CircuitId(CircuitKind.INCLUSION, 2, (2,), (1,))
DOMAIN, POINTS = 1024, 736  # four cosets: 512, 128, 64 and 32
VALUES = [(1, 0), (R - 2, R - 1), (7, 5)]


@pytest.fixture(scope="module")
def inputs() -> bytes:
    request = json.loads(encode_request(RandomRequests("fold").make(CIRCUIT)))
    return b"".join(value.to_bytes(32, "big") for value in circuit_inputs(request))


@pytest.fixture(scope="module")
def plain(kernel: Kernel) -> Iterator[Key]:
    system = io.BytesIO()
    write_constraint_system(compile_circuit(CIRCUIT), system)
    with (
        Engine(threads=1, backend=Backend.PORTABLE) as engine,
        TrustedSetup(engine, system.getvalue(), header_of(CIRCUIT)) as setup,
    ):
        file = bytearray(setup.key_bytes)
        setup.run(file)
    outcome, key = kernel.load_key(bytes(file))
    assert key is not None, outcome.message
    yield key
    key.destroy()


@pytest.fixture(scope="module")
def folded(kernel: Kernel, plain: Key) -> Iterator[Key]:
    outcome, key = kernel.load_prepared(plain.prepared(fold=True))
    assert key is not None, outcome.message
    yield key
    key.destroy()


def expected_proofs(plain: Key, inputs: bytes) -> list[bytes]:
    """Return the CPU's proofs under the key before it was folded."""
    proofs = []
    for rho, sigma in VALUES:
        outcome, proof = plain.prove_with_blinding(inputs, rho.to_bytes(32, "big"), sigma.to_bytes(32, "big"))
        assert outcome.status == "ok", outcome.message
        proofs.append(proof)
    return proofs


@pytest.mark.parametrize("witness", ["", "device"])
@pytest.mark.parametrize("order", ["", "lazy", "eager"])
@pytest.mark.sampled(1)
def test_prove__folded_key_with_padding__equals_the_cpu_alone_and_in_batches(
    library: Path,
    plain: Key,
    folded: Key,
    inputs: bytes,
    monkeypatch: pytest.MonkeyPatch,
    order: str,
    witness: str,
) -> None:
    """Where the queues have an order, a size that comes again is made by a graph."""
    monkeypatch.setenv(ORDER, order)
    monkeypatch.setenv(WITNESS, witness)
    expected = expected_proofs(plain, inputs)
    with Device(plain._kernel, library, budget=2**30) as device, device.load(folded) as on_device:
        rho, sigma = (value.to_bytes(32, "big") for value in VALUES[0])
        assert on_device.prove_with_blinding(inputs, rho, sigma) == expected[0]
        for size in (2, 2) if order else (3,):
            batch = on_device.prove_many_with_blinding([inputs] * size, VALUES[:size])
            assert (batch.status, batch.proofs) == ("ok", expected[:size])


@pytest.mark.unchecked
def test_key__folded__takes_the_memory_of_the_points_instead_of_the_domain(
    library: Path, plain: Key, folded: Key
) -> None:
    """A base of G1 has 64 bytes; K of a folded key also has the numbers of its wires and a few public ones."""
    with Device(plain._kernel, library, budget=2**23) as device:
        saved = device.key_bytes(plain) - device.key_bytes(folded)
        assert 0 <= 64 * (DOMAIN - 1 - POINTS) - saved <= 4 * plain.describe()["wires"] + 1024
        assert device.proof_bytes(folded) < device.proof_bytes(plain)
