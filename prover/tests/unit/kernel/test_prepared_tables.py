"""Tables of precomputed bases in the prepared key of the tiny key: equal proofs, documented bytes, hostile files."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from golden_vectors import load
from prepared_file import TABLES, TYPES, PreparedFile, Section, in_memory
from py_ecc import optimized_bn128 as bn128

from prover.errors import Cancelled, KernelMisused, MalformedKey, UnsupportedKey
from prover.kernel.cancellation import CancelFlag, Progress
from prover.kernel.engine import Backend, Engine, LoadedKey
from prover.kernel.prepared import open_prepared, prepared_bytes, verify_prepared, write_prepared

CORPUS = Path(__file__).resolve().parents[3] / "native/tests/fuzz/corpus/prepared"
TINY = load("gnark/tiny.json")
KEYS = {name: bytes.fromhex(TINY[f"key_v{name.replace('.', '_')}_hex"]) for name in ("0.8", "0.14")}
CASES = list(TINY["cases"].values())
P = bn128.field_modulus
PLENTY = 2**20
HALF_BITS = 127
WRONG_SETS = (0, 17, 2**32 + 1, 2**63)
WRONG_SHIFTS = (0, 1, 17, 2**32 + 8, 2**64 - 1)
SCARCE = 22000
BACKENDS = [Backend.PORTABLE, Backend.ADX, Backend.AVX2, Backend.AVX512, Backend.IFMA]


def scalars(texts: list[str]) -> bytes:
    return b"".join(int(text, 16).to_bytes(32, "big") for text in texts)


def inputs(case: dict[str, Any]) -> bytes:
    return scalars(case["public"]) + scalars(case["secret"])


def engine_of(backend: Backend, threads: int = 2) -> Engine:
    try:
        return Engine(threads=threads, backend=backend)
    except KernelMisused:
        pytest.skip(f"the {backend.name} backend does not run on this CPU")


@pytest.fixture(scope="module")
def engine() -> Iterator[Engine]:
    with engine_of(Backend.PORTABLE) as engine:
        yield engine


def prepared(engine: Engine, key: LoadedKey, table_bytes: int = PLENTY) -> bytes:
    out = in_memory(bytes(prepared_bytes(key, table_bytes)))
    write_prepared(engine, key, out, bytes(32), Progress(), CancelFlag(), table_bytes=table_bytes)
    return out[:]


@pytest.fixture(scope="module")
def data(engine: Engine) -> bytes:
    with engine.load_key(KEYS["0.14"]) as key:
        return prepared(engine, key)


@pytest.fixture
def file(data: bytes) -> PreparedFile:
    return PreparedFile.read(data)


def opened(engine: Engine, data: bytes) -> LoadedKey:
    return open_prepared(engine, in_memory(data))


def proofs(key: LoadedKey) -> list[bytes]:
    """Return proofs of all cases, each one verified."""
    blinding = (bytes(31) + b"\7", bytes(31) + b"\5")
    made = []
    for case in CASES:
        made.append(key.prove(inputs(case), blinding=blinding).points)
        key.verifying_key.verify(made[-1], scalars(case["public"]))
        key.verifying_key.verify(key.prove(inputs(case)).points, scalars(case["public"]))
    return made


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("format_version", list(KEYS))
@pytest.mark.parametrize("backend", BACKENDS, ids=lambda b: b.name.lower())
def test_prove__with_tables__equals_the_proof_without(backend: Backend, format_version: str, threads: int) -> None:
    with (
        engine_of(backend, threads) as own,
        own.load_key(KEYS[format_version]) as plain,
        opened(own, prepared(own, plain)) as mapped,
    ):
        assert plain.info.table_bytes == 0 < mapped.info.table_bytes
        assert proofs(mapped) == proofs(plain)


def test_write__any_room_for_tables__keeps_to_it_and_proves_the_same(engine: Engine) -> None:
    with engine.load_key(KEYS["0.14"]) as plain:
        without, expected = prepared_bytes(plain), proofs(plain)
        shapes = set()
        for room in (0, 1, 10_000, 22_000, 26_000, 29_000, 40_000, 58_000, 104_000, PLENTY, 2**64 - 1):
            file = prepared(engine, plain, room)
            with opened(engine, file) as mapped:
                size = mapped.info.table_bytes
                assert size <= room
                assert (size == 0) == (len(file) == without)
                if size not in shapes:
                    assert proofs(mapped) == expected
                shapes.add(size)
        assert 0 in shapes
        assert len(shapes) > 5


def test_write__with_tables__is_the_same_on_any_threads_and_from_a_prepared_key(engine: Engine, data: bytes) -> None:
    with engine_of(Backend.PORTABLE, threads=1) as alone, alone.load_key(KEYS["0.14"]) as key:
        assert prepared(alone, key) == data
        assert prepared(alone, key, 0) != data
    with opened(engine, data) as mapped:
        assert prepared(engine, mapped) == data


@pytest.mark.parametrize("name", ["r256", "r260_loose"])
def test_write__with_tables__has_the_bytes_of_the_fuzzing_corpus(name: str) -> None:
    """A change of these bytes is a new layout version of the sections: files of users must not be misread."""
    with engine_of(Backend.PORTABLE if name == "r256" else Backend.AVX512) as own, own.load_key(KEYS["0.14"]) as key:
        assert prepared(own, key, SCARCE) == (CORPUS / f"0_14_tables_{name}").read_bytes()[1:]


def test_write__tables_cancelled__stops(engine: Engine) -> None:
    progress, cancel = Progress(), CancelFlag()
    cancel.raise_flag()
    with engine.load_key(KEYS["0.14"]) as key:
        out = in_memory(bytes(prepared_bytes(key, PLENTY)))
        with pytest.raises(Cancelled):
            write_prepared(engine, key, out, bytes(32), progress, cancel, table_bytes=PLENTY)
        write_prepared(engine, key, out, bytes(32), progress, CancelFlag(), table_bytes=PLENTY)
    assert progress.permille == 1000


def points(data: bytes | bytearray, wide: bool) -> list[tuple[Any, Any]]:
    """Return affine points with Montgomery coordinates of 2^256."""
    inverse = pow(2**256, -1, P)
    values = [int.from_bytes(data[i : i + 32], "little") * inverse % P for i in range(0, len(data), 32)]
    if wide:
        pairs = [bn128.FQ2(values[i : i + 2]) for i in range(0, len(values), 2)]
        return [(pairs[i], pairs[i + 1]) for i in range(0, len(pairs), 2)]
    coordinates = [bn128.FQ(value) for value in values]
    return [(coordinates[i], coordinates[i + 1]) for i in range(0, len(coordinates), 2)]


@pytest.mark.parametrize(
    ("name", "lists"), [("table_a", ["points_a"]), ("table_kz", ["points_k", "points_z"]), ("table_b2", ["points_b2"])]
)
def test_table__its_places__are_the_documented_multiples(file: PreparedFile, name: str, lists: list[str]) -> None:
    wide = name == "table_b2"
    bases = [point for base in lists for point in points(file.section(base).data, wide)]
    section = file.section(name)
    shifts = section.fields["parameter1"]
    table = points(section.data, wide)
    assert section.fields["flags"] == 0
    assert len(table) == shifts * len(bases)
    one = bn128.FQ2.one() if wide else bn128.FQ.one()
    for j in (0, 1, shifts - 1):
        for i, (x, y) in enumerate(bases):
            multiple = bn128.multiply((x, y, one), 2 ** (math.ceil(HALF_BITS / shifts) * j))
            assert bn128.normalize(multiple) == table[j * len(bases) + i]


# ---- hostile files ---------------------------------------------------------------------------------


@pytest.mark.parametrize("name", list(TABLES))
def test_table__bit_flipped__is_seen_by_load_and_verify(engine: Engine, data: bytes, name: str) -> None:
    section = PreparedFile.read(data).section(name)
    for place in (0, len(section.data) // 2, len(section.data) - 1):
        broken = bytearray(data)
        broken[section.fields["offset"] + place] ^= 1
        with pytest.raises(MalformedKey, match="table"):
            verify_prepared(in_memory(bytes(broken)), CancelFlag())
        with pytest.raises(MalformedKey, match="checksum"):
            opened(engine, bytes(broken))
        open_prepared(engine, in_memory(bytes(broken)), check_points=False).close()


@pytest.mark.parametrize("name", ["points_a", "points_k", "points_z", "points_b2"])
def test_points__bit_flipped_in_a_file_with_tables__is_seen_by_load(engine: Engine, data: bytes, name: str) -> None:
    """Proofs on the CPU read the tables only, but a GPU copies these lists."""
    broken = bytearray(data)
    broken[PreparedFile.read(data).section(name).fields["offset"] + 3] ^= 1
    with pytest.raises(MalformedKey, match="checksum"):
        opened(engine, bytes(broken))


def test_file_with_tables__cut_off_anywhere__is_refused(engine: Engine, data: bytes, file: PreparedFile) -> None:
    starts = [file.section(name).fields["offset"] for name in TABLES]
    for length in [start + more for start in starts for more in (-1, 0, 1, 64)] + [len(data) - 1]:
        with pytest.raises(MalformedKey):
            opened(engine, data[:length])


def change(name: str, **fields: int) -> Callable[[PreparedFile], None]:
    return lambda file: file.section(name).fields.update(fields)


def shortened(file: PreparedFile, name: str, count: int) -> None:
    section = file.section(name)
    del section.data[-count * section.fields["element_bytes"] :]


def reshaped(file: PreparedFile, **fields: int) -> None:
    for name in TABLES:
        file.section(name).fields.update(fields)


@pytest.mark.parametrize(
    ("damage", "match"),
    [
        *((lambda file, name=name: file.sections.remove(file.section(name)), "missing") for name in TABLES),
        *((lambda file, name=name: shortened(file, name, 1), "wrong size") for name in TABLES),
        *((lambda file, sets=sets: reshaped(file, parameter0=sets), "shape") for sets in WRONG_SETS),
        *((lambda file, shifts=shifts: reshaped(file, parameter1=shifts), "shape") for shifts in WRONG_SHIFTS),
        (lambda file: reshaped(file, parameter2=1), "shape"),
        (lambda file: reshaped(file, parameter0=16, parameter1=16), "shape"),  # windows of less than a bit
        (lambda file: reshaped(file, parameter0=1, parameter1=2), "shape"),  # a window of 64 bits
        (lambda file: reshaped(file, parameter0=2, parameter1=15), "shape"),  # the last window is empty
        (lambda file: reshaped(file, parameter0=1, parameter1=9), "wrong size"),
        (change("table_b2", parameter0=4), "shape"),
        (change("table_kz", parameter1=9), "shape"),
        (change("table_kz", version=4), "missing"),
    ],
)
def test_tables__sealed_with_a_wrong_shape_or_size__are_refused(
    engine: Engine, file: PreparedFile, damage: Callable[[PreparedFile], None], match: str
) -> None:
    damage(file)
    with pytest.raises(MalformedKey, match=match):
        opened(engine, file.write())


def test_tables__wrong_element_bytes__are_refused(engine: Engine, file: PreparedFile) -> None:
    section = file.section("table_b2")
    section.fields["element_bytes"] = 64
    with pytest.raises(MalformedKey, match="wrong size"):
        opened(engine, file.write())


def test_tables__of_a_later_layout__are_omitted_unless_required(engine: Engine, file: PreparedFile) -> None:
    reshaped(file, version=5, parameter0=99)
    with opened(engine, file.write()) as key, engine.load_key(KEYS["0.14"]) as plain:
        assert key.info.table_bytes == 0
        assert proofs(key) == proofs(plain)
    reshaped(file, flags=1)
    with pytest.raises(UnsupportedKey, match="is required"):
        opened(engine, file.write())


def test_tables__that_save_nothing_on_this_backend__are_not_used(engine: Engine, file: PreparedFile) -> None:
    """Two rows with windows of 16 bits: far more buckets than a small key has wires. Their points are not read."""
    for name in TABLES:
        section = file.section(name)
        rows = section.fields["parameter1"]
        del section.data[2 * len(section.data) // rows :]
    reshaped(file, parameter0=4, parameter1=2)
    file.section("table_a").data[:64] = bytes(64)
    with opened(engine, file.write()) as key, engine.load_key(KEYS["0.14"]) as plain:
        assert key.info.table_bytes == 0
        assert proofs(key) == proofs(plain)


def test_tables__with_wrong_points__give_no_proof_that_holds(engine: Engine, file: PreparedFile) -> None:
    def swapped(section: Section) -> None:
        size = section.fields["element_bytes"]
        section.data[:] = section.data[size:] + section.data[:size]

    swapped(file.section("table_kz"))
    with opened(engine, file.write()) as key, pytest.raises(Exception, match="proof"):
        key.verifying_key.verify(key.prove(inputs(CASES[0])).points, scalars(CASES[0]["public"]))


def test_file_without_tables__has_the_sections_of_before(engine: Engine) -> None:
    with engine.load_key(KEYS["0.14"]) as key:
        file = PreparedFile.read(prepared(engine, key, 0))
    assert [section.type for section in file.sections] == sorted(TYPES.values())
