"""The kernel's Python objects on the tiny key: answers, failures, and lifetimes under threads."""

import contextlib
import ctypes
import gc
import mmap
import threading
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from golden_vectors import UNBLINDED, load, proof_points
from quotients import quotient_coefficients

from prover.errors import (
    Cancelled,
    KernelMisused,
    MalformedKey,
    MalformedProof,
    OutOfMemory,
    ProofRejected,
    WitnessRejected,
)
from prover.kernel import status
from prover.kernel._native import ffi, lib
from prover.kernel.buffers import ScratchPool
from prover.kernel.cancellation import CancelFlag
from prover.kernel.engine import STAGES, Backend, Encoding, Engine, LoadedKey, kernel_version
from prover.kernel.handles import Handle

TINY = load("gnark/tiny.json")
KEY = bytes.fromhex(TINY["key_v0_14_hex"])
EARLIER_KEY = bytes.fromhex(TINY["key_v0_8_hex"])


def scalars(texts: list[str]) -> bytes:
    return b"".join(int(text, 16).to_bytes(32, "big") for text in texts)


def inputs(case: dict[str, Any]) -> bytes:
    return scalars(case["public"]) + scalars(case["secret"])


TO_NEAREST = 0
"""FE_TONEAREST of <fenv.h>."""
Z0, Z6 = TINY["cases"]["z0"], TINY["cases"]["z6"]


@pytest.fixture(scope="module")
def engine() -> Iterator[Engine]:
    with Engine(threads=2) as engine:
        yield engine


@pytest.fixture(scope="module", params=["0.8", "0.14"])
def key(engine: Engine, request: pytest.FixtureRequest) -> Iterator[LoadedKey]:
    with engine.load_key(EARLIER_KEY if request.param == "0.8" else KEY) as key:
        yield key


def test_status_table__covers_every_status_but_success() -> None:
    assert set(status.EXCEPTIONS) == set(range(lib.G16_STATUS_COUNT)) - {lib.G16_OK}
    assert len(STAGES) == lib.G16_STAGE_COUNT


def test_engine__of_each_backend__says_its_name_and_threads() -> None:
    with Engine(threads=3, backend=Backend.PORTABLE) as engine:
        assert engine.threads == 3
        assert engine.backend == "portable"
    assert kernel_version().count(".") == 2


def test_engine__automatic_backend__is_the_fastest_that_runs_here() -> None:
    runnable = []
    for backend in (Backend.IFMA, Backend.AVX512, Backend.AVX2, Backend.ADX, Backend.PORTABLE):
        with contextlib.suppress(KernelMisused), Engine(threads=1, backend=backend) as engine:
            assert engine.backend == backend.name.lower()
            runnable.append(engine.backend)
    with Engine(threads=1) as engine:
        assert engine.backend == runnable[0]


def test_prove__by_backends_that_round_in_their_own_way__leaves_the_rounding_of_the_caller() -> None:
    rounding = ctypes.CDLL(None).fegetround
    for backend in (Backend.AVX512, Backend.AVX2):
        with contextlib.suppress(KernelMisused), Engine(threads=1, backend=backend) as engine:
            with engine.load_key(KEY) as loaded:
                loaded.prove(inputs(Z0))
            assert rounding() == TO_NEAREST


@pytest.mark.parametrize("case", [Z0, Z6], ids=["z0", "z6"])
def test_prove__without_blinding__gives_the_golden_proof(key: LoadedKey, case: dict[str, Any]) -> None:
    proof = key.prove(inputs(case), blinding=UNBLINDED)
    assert proof.points == proof_points(case["unblinded"])
    assert set(proof.stage_seconds) == set(STAGES)


@pytest.mark.parametrize("case", [Z0, Z6], ids=["z0", "z6"])
def test_prove__twice__gives_different_proofs_that_hold(key: LoadedKey, case: dict[str, Any]) -> None:
    first, second = key.prove(inputs(case)).points, key.prove(inputs(case)).points
    assert first != second
    for proof in (first, second):
        key.verifying_key.verify(proof, scalars(case["public"]))


def test_solve__golden_case__gives_wires_and_sides(key: LoadedKey) -> None:
    witness = key.solve(inputs(Z6))
    assert witness.wires == scalars(Z6["wires"])
    assert (witness.a, witness.b, witness.c) == tuple(scalars(Z6[side]) for side in ("a", "b", "c"))


def test_quotient__golden_case__gives_its_coefficients(key: LoadedKey, testing_library: Path) -> None:
    witness = key.solve(inputs(Z0))
    found = quotient_coefficients(testing_library, "portable", (witness.a, witness.b, witness.c))
    assert found == scalars(Z0["h_coefficients"])


def test_prove__unsatisfied__says_the_row(key: LoadedKey) -> None:
    wrong = scalars(["0x1"]) + scalars(Z6["secret"])
    with pytest.raises(WitnessRejected, match=r"^constraint system error: constraint #\d+ is not satisfied$") as caught:
        key.prove(wrong)
    assert f"#{caught.value.constraint} " in caught.value.detail


def test_verify__other_public_input__is_rejected(key: LoadedKey) -> None:
    with pytest.raises(ProofRejected):
        key.verifying_key.verify(proof_points(Z6["proof"]), scalars(Z0["public"]))


def test_verify__points_off_the_curve__is_malformed(key: LoadedKey) -> None:
    with pytest.raises(MalformedProof):
        key.verifying_key.verify(bytes(255) + b"\1", scalars(Z6["public"]))


@pytest.mark.parametrize("encoding", list(Encoding))
def test_verifying_key__written_and_read__verifies_alone(engine: Engine, key: LoadedKey, encoding: Encoding) -> None:
    with engine.load_verifying_key(key.verifying_key.write(encoding)) as alone:
        assert alone.public_inputs == 1
        assert alone.write(Encoding.COMPRESSED) == key.verifying_key.write(Encoding.COMPRESSED)
        alone.verify(proof_points(Z6["proof"]), scalars(Z6["public"]))


@pytest.mark.parametrize("length", [0, 1, 8, 100, len(KEY) - 1])
def test_load__truncated_key__says_where(engine: Engine, length: int) -> None:
    with pytest.raises(MalformedKey, match=r"\(byte \d+ of the file\)"):
        engine.load_key(KEY[:length])
    with pytest.raises(MalformedKey):
        engine.load_key(KEY + b"\0")


def test_calls__with_wrong_sizes__break_the_contract(key: LoadedKey) -> None:
    with pytest.raises(KernelMisused):
        key.prove(inputs(Z6)[:-1])
    with pytest.raises(KernelMisused):
        key.prove(inputs(Z6)[:-32])
    with pytest.raises(KernelMisused):
        key.prove(b"\xff" * len(inputs(Z6)))
    with pytest.raises(KernelMisused):
        key.verifying_key.verify(bytes(255), scalars(Z6["public"]))
    with pytest.raises(KernelMisused):
        key.verifying_key.verify(proof_points(Z6["proof"]), b"")
    with pytest.raises(KernelMisused):
        key.prove(inputs(Z6), blinding=(b"", b""))


def test_calls__with_a_raised_flag__are_cancelled(engine: Engine, key: LoadedKey) -> None:
    cancel = CancelFlag()
    cancel.raise_flag()
    for call in (key.prove, key.solve):
        with pytest.raises(Cancelled):
            call(inputs(Z6), cancel)
    with pytest.raises(Cancelled):
        engine.load_key(KEY, cancel)


def test_calls__after_close__are_refused() -> None:
    engine = Engine(threads=1)
    key = engine.load_key(KEY)
    verifying_key = key.verifying_key
    key.close()
    key.close()
    for call in (lambda: key.prove(inputs(Z6)), lambda: key.scratch_bytes, verifying_key.write):
        with pytest.raises(KernelMisused, match="the key is closed"):
            call()
    other = engine.load_key(KEY)
    engine.close()
    engine.close()
    with pytest.raises(KernelMisused, match="the engine is closed"):
        other.prove(inputs(Z6))
    with pytest.raises(KernelMisused, match="the engine is closed"):
        engine.load_key(KEY)


def test_key__closed_under_running_calls__ends_after_them() -> None:
    with Engine(threads=2) as engine:
        key = engine.load_key(KEY)
        outcomes: list[str] = []

        def work() -> None:
            for _ in range(10_000):
                try:
                    key.prove(inputs(Z6))
                except KernelMisused:
                    outcomes.append("refused")
                    return

        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        time.sleep(0.1)
        key.close()
        for thread in threads:
            thread.join()
        assert outcomes == ["refused"] * 4


def test_handle__dropped_or_closed__is_destroyed_exactly_once() -> None:
    from prover.kernel._native import ffi

    destroyed: list[int] = []
    for number, close in enumerate((True, False)):
        handle = Handle("thing", ffi.new("int *"), partial(_note, destroyed, number))
        if close:
            with handle.use():
                handle.close()
                assert not destroyed
            assert destroyed == [0]
        del handle
        gc.collect()
    assert destroyed == [0, 1]


def _note(destroyed: list[int], number: int, _: object) -> None:
    destroyed.append(number)


def test_flag__raised__wakes_its_watchers_once_inside_the_block() -> None:
    cancel = CancelFlag()
    calls: list[int] = []
    with cancel.watch(lambda: calls.append(1)):
        cancel.raise_flag()
    with cancel.watch(lambda: calls.append(2)):
        pass
    with pytest.raises(Cancelled):
        cancel.check()
    assert calls == [1, 2]


def test_scratch__lent_again__is_the_same_memory_and_never_too_small() -> None:
    pool = ScratchPool(keep=2)
    with pool.lend(10_000) as large, pool.lend(100) as small:
        assert len(large) >= 10_000
        assert len(small) >= 100
        large[0] = 7
    with pool.lend(5_000) as again:
        assert again[0] == 7
    with pool.lend(1), pool.lend(1), pool.lend(1):
        pass
    assert len(pool._free) == 2
    pool.close()
    assert not pool._free


def test_scratch__beyond_one_gibibyte__is_kept_but_offered_to_the_system() -> None:
    written = b"7" * 2**22
    pool = ScratchPool()
    with pool.lend(2**30 + 1) as giant, pool.lend(2**22) as large:
        ffi.memmove(giant, written, len(written))
        ffi.memmove(large, written, len(written))
    assert 2**21 < _offered_bytes() <= 2**22
    with pool.lend(2**30 + 1) as giant, pool.lend(2**22) as large:
        assert large[0] == written[0]
        ffi.memmove(giant, written, len(written))
        assert _offered_bytes() < 2**21
    pool.close()


def test_scratch__system_that_takes_nothing_back__keeps_one_gibibyte(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mmap, "MADV_FREE", -1)
    pool = ScratchPool()
    with pool.lend(2**30 + 1), pool.lend(2**21):
        pass
    assert [len(memory) for memory in pool._free] == [2**21]
    pool.close()


def _offered_bytes() -> int:
    """Return the memory of this process that the system may take back; it counts the last pages late."""
    fields = dict(line.split(":") for line in Path("/proc/self/smaps_rollup").read_text().splitlines()[1:])
    return int(fields["LazyFree"].split()[0]) * 1024


def test_scratch__more_than_the_machine_has__is_out_of_memory() -> None:
    with pytest.raises(OutOfMemory, match="bytes of working memory"), ScratchPool().lend(2**60):
        pass


def test_engine__threads_not_given__has_one_per_available_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("prover.kernel.engine.available_cpus", lambda: 3)
    with Engine() as chosen, Engine(1) as reported:
        assert (chosen.threads, reported.threads) == (3, 1)
