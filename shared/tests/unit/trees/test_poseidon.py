"""Poseidon against golden values of the reference and against its definition in Python integers."""

from __future__ import annotations

import itertools
import json
import random
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shared._native import ffi, lib
from shared.trees import poseidon

SHARED = Path(__file__).resolve().parents[3]
VECTORS = SHARED / "tests" / "vectors" / "circuits"
GENERATOR = SHARED / "native" / "tools" / "generate_poseidon_constants.py"
R = 21888242871839275222246405745257275088548364400416034343698204186575808495617

sys.path.insert(0, str(GENERATOR.parent))
import generate_poseidon_constants as definition  # noqa: E402 - found through the line above

elements = st.one_of(st.sampled_from([0, 1, 2, R - 1, R - 2, 2**253]), st.integers(0, R - 1))


def load(name: str) -> Any:
    return json.loads((VECTORS / name).read_text())


def to_bytes(values: list[int]) -> bytes:
    return b"".join(value.to_bytes(32, "big") for value in values)


def number(text: str) -> int:
    return int(text, 16)


def runnable() -> dict[str, Any]:
    """Return the backends of this CPU by name."""
    tables = itertools.takewhile(lambda table: table != ffi.NULL, map(lib.poseidon_runnable, itertools.count()))
    return {bytes(ffi.string(table.name)).decode(): table for table in tables}


BACKENDS = runnable()
any_backend = pytest.mark.parametrize("backend", ["portable", "adx", "avx512", "ifma"])


def hash_with(backend: str, values: list[int], width: int) -> bytes:
    """Return groups of ``width`` elements hashed by one backend."""
    if backend not in BACKENDS:
        pytest.skip(f"the {backend} backend does not run on this CPU")
    out = ffi.new("uint8_t[]", len(values) // width * 32)
    place = lib.poseidon_hash_many(BACKENDS[backend], out, to_bytes(values), width, len(values) // width)
    if place:
        message = f"element {place - 1}"
        raise ValueError(message)
    return bytes(ffi.buffer(out))


@pytest.mark.parametrize(
    "entry", [entry for entry in load("poseidon.json")["hash"] if len(entry["inputs"]) <= poseidon.MAX_INPUTS]
)
def test_hash__golden_inputs__equals_the_reference(entry: dict[str, Any]) -> None:
    values = [number(text) for text in entry["inputs"]]
    expected = number(entry["output"]).to_bytes(32, "big")
    assert poseidon.hash_many(to_bytes(values), len(values)) == expected
    for backend in BACKENDS:
        assert hash_with(backend, values * 9, len(values)) == expected * 9


@settings(max_examples=40, deadline=None)
@given(values=st.lists(elements, min_size=1, max_size=poseidon.MAX_INPUTS))
def test_hash__any_inputs__every_backend_equals_the_definition(values: list[int]) -> None:
    expected = definition.naive_hash(values).to_bytes(32, "big")
    assert poseidon.hash_many(to_bytes(values), len(values)) == expected
    for backend in BACKENDS:
        assert hash_with(backend, values, len(values)) == expected


def test_backends__of_this_cpu__end_with_the_portable_one() -> None:
    assert next(iter(BACKENDS)) == ffi.string(lib.poseidon_runnable(0).name).decode()
    assert list(BACKENDS)[-1] == "portable"


@any_backend
@pytest.mark.parametrize("width", [1, 2, 3, 4, 7])
@settings(max_examples=15, deadline=None)
@given(data=st.data())
def test_hash_many__batch_of_any_size__equals_the_portable_backend(
    backend: str, width: int, data: st.DataObject
) -> None:
    count = data.draw(st.integers(0, 19))
    values = data.draw(st.lists(elements, min_size=count * width, max_size=count * width))
    assert hash_with(backend, values, width) == hash_with("portable", values, width)


@any_backend
@pytest.mark.parametrize("count", [1, 3, 4, 5, 8, 9, 16, 23])
def test_hash_many__one_element_not_below_the_order__is_named_wherever_it_lies(backend: str, count: int) -> None:
    for place in {0, count - 1, 2 * count - 1}:
        values = [R - 1] * (2 * count)
        values[place] = R
        with pytest.raises(ValueError, match=f"^element {place}$"):
            hash_with(backend, values, 2)


def chain_with(backend: str, values: list[int]) -> bytes:
    """Return a hash chain computed by one backend."""
    if backend not in BACKENDS:
        pytest.skip(f"the {backend} backend does not run on this CPU")
    out = ffi.new("uint8_t[]", 32)
    place = lib.poseidon_hash_chain(BACKENDS[backend], out, to_bytes(values), len(values))
    if place:
        raise ValueError(f"element {place - 1}")
    return bytes(ffi.buffer(out))


@any_backend
@settings(max_examples=40, deadline=None)
@given(values=st.lists(elements, max_size=12))
def test_hash_chain__of_any_elements__is_the_definition(backend: str, values: list[int]) -> None:
    expected = values[0] if values else 0
    for value in values[1:]:
        expected = definition.naive_hash([expected, value])
    assert chain_with(backend, values) == expected.to_bytes(32, "big")


@any_backend
@pytest.mark.parametrize("place", [0, 1, 2, 6])
def test_hash_chain__one_element_not_below_the_order__is_named(backend: str, place: int) -> None:
    values = [R - 1] * 7
    values[place] = R
    with pytest.raises(ValueError, match=f"^element {place}$"):
        chain_with(backend, values)


@given(rows=st.integers(0, 40), width=st.integers(1, 7), seed=st.integers())
def test_hash_columns__of_any_table__equals_its_rows(rows: int, width: int, seed: int) -> None:
    generator = random.Random(seed)
    columns = [[generator.randrange(R) for _ in range(rows)] for _ in range(width)]
    in_rows = [value for row in zip(*columns, strict=True) for value in row]
    assert poseidon.hash_columns(*map(to_bytes, columns)) == poseidon.hash_many(to_bytes(in_rows), width)


def test_hash_columns__element_not_below_the_order__is_named_by_its_row() -> None:
    columns = [[1] * 30, [1] * 19 + [R] + [1] * 10]
    with pytest.raises(ValueError, match=r"^element 39 is not below"):
        poseidon.hash_columns(*map(to_bytes, columns))


@pytest.mark.parametrize("columns", [(bytes(32), bytes(64)), (bytes(33),), (bytes(32),) * 8])
def test_hash_columns__ragged_or_too_many__are_refused(columns: tuple[bytes, ...]) -> None:
    with pytest.raises(ValueError, match="1 to 7 columns of equally many elements"):
        poseidon.hash_columns(*columns)


def test_zero_hashes__41_levels__equal_the_reference() -> None:
    levels = [number(text).to_bytes(32, "big") for text in load("zero_hashes.json")["levels"]]
    assert len(levels) == 41
    for below, above in itertools.pairwise(levels):
        assert poseidon.hash2(below, below) == above


@pytest.mark.parametrize("entry", load("hash_chains.json")["hash_chain"])
def test_hash_chain__golden_lists__equal_the_reference(entry: dict[str, Any]) -> None:
    values = [number(text) for text in entry["inputs"]]
    assert poseidon.hash_chain(to_bytes(values)) == number(entry["output"]).to_bytes(32, "big")


@pytest.mark.parametrize("entry", load("hash_chains.json")["nullifier"])
def test_hash3__golden_nullifiers__equal_the_reference(entry: dict[str, Any]) -> None:
    parts = [entry[name] for name in ("accountHash", "leafIndex", "txHash")]
    values = [value if isinstance(value, int) else number(value) for value in parts]
    output = entry["output"]
    assert poseidon.hash3(*(value.to_bytes(32, "big") for value in values)) == number(output).to_bytes(32, "big")


def test_hash_many__many_groups__equal_one_by_one() -> None:
    generator = random.Random(1)
    values = [generator.randrange(R) for _ in range(60)]
    for width in (1, 2, 3, 4, 5, 6):
        single = [poseidon.hash_many(to_bytes(values[i : i + width]), width) for i in range(0, 60, width)]
        assert poseidon.hash_many(to_bytes(values), width) == b"".join(single)
    assert poseidon.hash_many(b"", 2) == b""


@pytest.mark.parametrize("bad", [R, R + 1, 2**256 - 1])
@pytest.mark.parametrize("place", [0, 3, 5])
def test_hash_many__element_not_below_the_order__is_named(bad: int, place: int) -> None:
    values = [1] * 6
    values[place] = bad
    with pytest.raises(ValueError, match=f"element {place} is not below"):
        poseidon.hash_many(to_bytes(values), 2)
    with pytest.raises(ValueError, match=f"element {place} is not below"):
        poseidon.hash_chain(to_bytes(values))


@pytest.mark.parametrize(("length", "width"), [(63, 2), (32, 2), (64, 3), (31, 1)])
def test_hash_many__ragged_input__is_refused(length: int, width: int) -> None:
    with pytest.raises(ValueError, match="groups"):
        poseidon.hash_many(bytes(length), width)


def test_hash_many__wide_element_not_below_the_order__is_named() -> None:
    for place in (0, 6, 7, 13):
        values = [R - 1] * 14
        values[place] = R
        with pytest.raises(ValueError, match=f"element {place} is not below"):
            poseidon.hash_many(to_bytes(values), 7)


@pytest.mark.parametrize("width", [0, 8, -1])
def test_hash_many__unknown_width__is_refused(width: int) -> None:
    with pytest.raises(ValueError, match="1 to 7"):
        poseidon.hash_many(bytes(128), width)


def test_hash_many__several_threads__agree() -> None:
    values = to_bytes(list(range(4000)))
    expected = poseidon.hash_many(values, 2)
    results: list[bytes] = []
    threads = [threading.Thread(target=lambda: results.append(poseidon.hash_many(values, 2))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [expected] * 4


def test_constants__regenerated__equal_the_committed_headers(tmp_path: Path) -> None:
    subprocess.run([sys.executable, str(GENERATOR), str(tmp_path)], check=True)
    for name in ("constants.h", "lane_constants.h", "wide_constants.h"):
        assert (tmp_path / name).read_text() == (SHARED / "native/poseidon" / name).read_text()


@pytest.mark.parametrize("width", definition.PARTIAL_ROUNDS)
def test_parameters__from_the_lfsr__have_the_golden_digest_ends(width: int) -> None:
    golden = load("poseidon.json")["parameters"][str(width)]
    constants, matrix = definition.parameters(width)
    assert constants[0][0] == number(golden["firstRoundConstant"])
    assert constants[-1][-1] == number(golden["lastRoundConstant"])
    assert matrix[0][0] == number(golden["mds_0_0"])
