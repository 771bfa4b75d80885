"""Proofs by keys with known secrets against their logarithms: all backends and forms of keys, the worst bases."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from kernel_library import Kernel, Key, R, runs
from kernel_setup import Setup
from known_secrets import KnownKey, words
from sampling import examples
from small_systems import System
from twin_systems import INPUTS, TAUS, Shape, inputs_of, twin_system

from prover.kernel.setup import SetupSecrets

BACKENDS = ("portable", "adx", "avx2", "avx512", "ifma")
HEADER = [1, 2]
FORMAT_014 = 2
PLENTY = 2**22
BLINDING = (0x1234567890ABCDEF1234567890ABCDEF, R - 0xFEDCBA0987654321)
# Domains that are full, filled in part, and filled by a little more than half; more twins than a block of lanes.
SHAPES = [Shape(32, 5, 30), Shape(41, 3, 21), Shape(17, 1, 9)]
FORMS = {"plain": (0, False), "tables": (PLENTY, False), "folded": (0, True), "folded tables": (PLENTY, True)}


def secrets_of(tau: int, seed: int = 1) -> SetupSecrets:
    draw = random.Random(seed)
    alpha, beta, gamma, delta = (draw.randrange(1, R) for _ in range(4))
    return SetupSecrets(tau, alpha, beta, gamma, draw.choice((1, R - 1, delta)))


@pytest.fixture(scope="module", params=BACKENDS)
def backend(request: pytest.FixtureRequest, testing_library: Path) -> str:
    name = str(request.param)
    if not runs(testing_library, name):
        pytest.skip(f"the {name} backend does not run on this CPU")
    return name


@contextmanager
def opened(kernel: Kernel, known: KnownKey) -> Iterator[dict[str, Key]]:
    """The key in all forms, each with what it is said to have."""
    with Setup(kernel, known.system.encode(FORMAT_014), HEADER) as setup:
        outcome, source = kernel.load_key(setup.run(known.secrets.to_bytes()))
    assert source is not None, outcome.message
    keys = {}
    for name, (table_bytes, fold) in FORMS.items():
        outcome, key = kernel.load_prepared(source.prepared(table_bytes=table_bytes, fold=fold))
        assert key is not None, outcome.message
        info = key.describe()
        assert ((info["table_bytes"] > 0), (info["fold_bytes"] > 0)) == ("tables" in name, "folded" in name)
        keys[name] = key
    yield {"source": source, **keys}
    for key in (source, *keys.values()):
        key.destroy()


def assert_proofs(keys: dict[str, Key], known: KnownKey, inputs: list[int]) -> None:
    """Compare proofs by every representation of the key."""
    proof = known.rerandomised(known.system.solve(inputs)[0], *BLINDING).to_bytes()
    rho, sigma = (words(value) for value in BLINDING)
    for name, key in keys.items():
        outcome, made = key.prove_with_blinding(words(*inputs), rho, sigma)
        assert outcome.status == "ok", f"{name}: {outcome.message}"
        assert made == proof, name


@pytest.mark.parametrize("threads", [1, 16])
@pytest.mark.parametrize("tau", list(TAUS))
@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: f"{shape.rows}x{shape.twins}")
@pytest.mark.sampled(12, checked=4)
def test_prove__worst_bases_and_scalars__are_the_known_multiples(
    testing_library: Path, backend: str, shape: Shape, tau: str, threads: int
) -> None:
    system = twin_system(shape)
    known = KnownKey(system, secrets_of(TAUS[tau]))
    assert known.has_every_base
    kernel = Kernel(testing_library, backend, threads)
    with opened(kernel, known) as keys:
        for kind in INPUTS:
            assert_proofs(keys, known, inputs_of(system, kind))
    kernel.close()


def can_be_folded(library: Path, known: KnownKey) -> bool:
    """Return whether no folded base is infinity, which powers of tau that repeat can bring about."""
    kernel = Kernel(library, "portable", threads=1)
    try:
        with opened(kernel, known):
            return True
    except AssertionError as refusal:
        if "a base would be infinity" in str(refusal):
            return False
        raise
    finally:
        kernel.close()


@settings(max_examples=examples(12), deadline=None)
@given(
    shape=st.builds(Shape, rows=st.integers(2, 70), originals=st.integers(1, 6), twins=st.integers(0, 40)),
    seed=st.integers(0, 2**32),
    kind=st.sampled_from(INPUTS),
    tau=st.sampled_from(list(TAUS)),
)
def test_prove__random_twins__are_the_known_multiples(
    testing_library: Path, shape: Shape, seed: int, kind: str, tau: str
) -> None:
    system = twin_system(shape, seed)
    known = KnownKey(system, secrets_of(TAUS[tau], seed))
    assume(tau == "random" or can_be_folded(testing_library, known))
    for name in filter(lambda name: runs(testing_library, name), BACKENDS):
        kernel = Kernel(testing_library, name, threads=3)
        with opened(kernel, known) as keys:
            assert_proofs(keys, known, inputs_of(system, kind))
        kernel.close()


# ---- results at infinity -------------------------------------------------------------------------------


def product() -> System:
    """Return x * y = z, all secret but z."""
    system = System(public=1, secret=2)
    system.row([(1, 2)], [(1, 3)], [(1, 1)])
    system.row([(1, 3), (1, 0)], [(1, 2), (1, 0)], [(1, system.new_wire())])
    return system


def test_prove__witness_that_the_key_maps_to_infinity__is_refused(testing_library: Path, backend: str) -> None:
    """Alpha is chosen for it: A0 is infinity, which no multiple hides."""
    inputs = [35, 5, 7]
    system = product()
    wires = system.solve(inputs)[0]
    base = secrets_of(TAUS["random"])
    column = KnownKey(system, base).columns[0]
    alpha = -sum(w * x for w, x in zip(wires, column, strict=True)) % R
    known = KnownKey(system, SetupSecrets(base.tau, alpha, base.beta, base.gamma, base.delta))
    kernel = Kernel(testing_library, backend, 2)
    with opened_source(kernel, known) as key:
        rho, sigma = (words(value) for value in BLINDING)
        outcome, _ = key.prove_with_blinding(words(*inputs), rho, sigma)
        assert (outcome.status, "infinity" in outcome.message) == ("unsupported_key", True)
        assert key.prove(words(*inputs))[0].status == "unsupported_key"
    kernel.close()


@contextmanager
def opened_source(kernel: Kernel, known: KnownKey) -> Iterator[Key]:
    with Setup(kernel, known.system.encode(FORMAT_014), HEADER) as setup:
        outcome, key = kernel.load_key(setup.run(known.secrets.to_bytes()))
    assert key is not None, outcome.message
    yield key
    key.destroy()
