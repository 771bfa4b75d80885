"""Folded bases in prepared keys: equal proofs on domains of all kinds, documented sections, hostile files."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from circuit_inputs import circuit_inputs
from golden_vectors import load
from prepared_file import FOLDS, TABLES, TYPES, PreparedFile, Section, in_memory

from prover.circuits.catalogue import compile_circuit
from prover.circuits.output.gnark_014 import write_constraint_system
from prover.cli.random_requests import RandomRequests
from prover.errors import Cancelled, KernelMisused, MalformedKey, UnsupportedKey
from prover.kernel.cancellation import CancelFlag, Progress
from prover.kernel.engine import Backend, Engine, LoadedKey
from prover.kernel.prepared import open_prepared, prepared_bytes, verify_prepared, write_prepared
from prover.kernel.setup import TrustedSetup
from prover.keys.files.key_description import header_of
from shared.requests.circuit_id import CircuitId, CircuitKind
from shared.requests.proof_wire import encode_request

CORPUS = Path(__file__).resolve().parents[3] / "native/tests/fuzz/corpus/prepared"
TINY = load("gnark/tiny.json")
KEYS = {name: bytes.fromhex(TINY[f"key_v{name.replace('.', '_')}_hex"]) for name in ("0.8", "0.14")}
PLENTY = 2**20
BACKENDS = [Backend.PORTABLE, Backend.ADX, Backend.AVX2, Backend.AVX512, Backend.IFMA]
BLINDING = (bytes(31) + b"\7", bytes(31) + b"\5")


def scalars(texts: list[str]) -> bytes:
    return b"".join(int(text, 16).to_bytes(32, "big") for text in texts)


TINY_INPUTS = [scalars(case["public"]) + scalars(case["secret"]) for case in TINY["cases"].values()]
PUBLIC_BYTES = 32


def engine_of(backend: Backend, threads: int = 2) -> Engine:
    try:
        return Engine(threads=threads, backend=backend)
    except KernelMisused:
        pytest.skip(f"the {backend.name} backend does not run on this CPU")


@pytest.fixture(scope="module")
def engine() -> Iterator[Engine]:
    with engine_of(Backend.PORTABLE) as engine:
        yield engine


def prepared(engine: Engine, key: LoadedKey, table_bytes: int = 0, *, fold: bool = True) -> bytes:
    out, progress = in_memory(bytes(prepared_bytes(key, table_bytes, fold=fold))), Progress()
    write_prepared(engine, key, out, bytes(32), progress, CancelFlag(), table_bytes=table_bytes, fold=fold)
    assert progress.permille == 1000
    return out[:]


@pytest.fixture(scope="module")
def data(engine: Engine) -> bytes:
    with engine.load_key(KEYS["0.14"]) as key:
        return prepared(engine, key, PLENTY)


@pytest.fixture
def file(data: bytes) -> PreparedFile:
    return PreparedFile.read(data)


def opened(engine: Engine, data: bytes) -> LoadedKey:
    return open_prepared(engine, in_memory(data))


def proofs(key: LoadedKey, inputs: list[bytes]) -> list[bytes]:
    """Return proofs with given blinding, and make some with fresh values; verify all."""
    made = []
    for values in inputs:
        public = values[: PUBLIC_BYTES * key.info.public_inputs]
        made.append(key.prove(values, blinding=BLINDING).points)
        key.verifying_key.verify(made[-1], public)
        key.verifying_key.verify(key.prove(values).points, public)
    return made


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("format_version", list(KEYS))
@pytest.mark.parametrize("backend", BACKENDS, ids=lambda b: b.name.lower())
def test_prove__folded_tiny_key__equals_the_proof_without(backend: Backend, format_version: str, threads: int) -> None:
    with engine_of(backend, threads) as own, own.load_key(KEYS[format_version]) as plain:
        expected = proofs(plain, TINY_INPUTS)
        for room in (0, PLENTY):
            with opened(own, prepared(own, plain, room)) as folded:
                assert folded.info.fold_bytes > 0 == plain.info.fold_bytes
                assert (folded.info.table_bytes > 0) == (room > 0)
                assert proofs(folded, TINY_INPUTS) == expected


@pytest.mark.parametrize(
    ("backend", "height", "domain", "points"),
    [
        (Backend.ADX, 1, 512, 512),
        (Backend.ADX, 2, 1024, 736),
        *((backend, *shape) for backend in BACKENDS[2:] for shape in ((1, 512, 512), (2, 1024, 736), (4, 2048, 1216))),
    ],
    ids=lambda value: value.name.lower() if isinstance(value, Backend) else str(value),
)
def test_prove__folded_keys_of_small_circuits__equals_the_proof_without(
    backend: Backend, height: int, domain: int, points: int
) -> None:
    circuit = CircuitId(CircuitKind.INCLUSION, 2, (height,), (1,))
    request = json.loads(encode_request(RandomRequests("fold").make(circuit)))
    inputs = [b"".join(value.to_bytes(32, "big") for value in circuit_inputs(request))]
    system = io.BytesIO()
    write_constraint_system(compile_circuit(circuit), system)
    with engine_of(backend) as own, TrustedSetup(own, system.getvalue(), header_of(circuit)) as setup:
        source = bytearray(setup.key_bytes)
        setup.run(source)
        with own.load_key(bytes(source)) as plain:
            assert plain.info.domain_size == domain
            folded_file = prepared(own, plain)
            assert len(PreparedFile.read(folded_file).section("fold_t").data) == 64 * points
            with opened(own, folded_file) as folded:
                assert proofs(folded, inputs) == proofs(plain, inputs)


def test_write__folded__is_the_same_on_any_threads_and_from_a_folded_key(engine: Engine, data: bytes) -> None:
    with engine_of(Backend.PORTABLE, threads=1) as alone, alone.load_key(KEYS["0.14"]) as key:
        assert prepared(alone, key, PLENTY) == data
        plain = prepared(alone, key, fold=False)
    with opened(engine, data) as mapped:
        assert prepared(engine, mapped, PLENTY) == data
        assert prepared(engine, mapped, fold=False) == plain
    assert [section.type for section in PreparedFile.read(plain).sections] == sorted(TYPES.values())


@pytest.mark.parametrize("name", ["r256", "r260_loose"])
def test_write__folded__has_the_bytes_of_the_fuzzing_corpus(name: str) -> None:
    """A change of these bytes is a new layout version of the sections: files of users must not be misread."""
    with engine_of(Backend.PORTABLE if name == "r256" else Backend.AVX512) as own, own.load_key(KEYS["0.14"]) as key:
        assert prepared(own, key) == (CORPUS / f"0_14_folded_{name}").read_bytes()[1:]


def words(section: Section) -> list[int]:
    return [section.word(i) for i in range(len(section.data) // 4)]


def in_groups(wires: list[int], of_a: set[int], of_b: set[int]) -> list[int]:
    """Return ascending wires of K in the order of native/src/key/wire_groups.h: of B alone, both, A alone, neither."""
    order = [(False, True), (True, True), (True, False), (False, False)]
    return sorted(wires, key=lambda wire: order.index((wire in of_a, wire in of_b)))


@pytest.mark.parametrize("name", ["", "folded_", "tables_"])
def test_load__bases_in_ascending_order__proves_the_same(engine: Engine, name: str) -> None:
    """Wires may be in any order: positions of bases are looked up where they do not follow from the groups."""
    ascending = (CORPUS / f"0_14_ascending_{name}r256").read_bytes()[1:]
    grouped = (CORPUS / f"0_14_{name}r256").read_bytes()[1:]
    listed = words(PreparedFile.read(ascending).section("wires_a"))
    assert listed == sorted(listed) != words(PreparedFile.read(grouped).section("wires_a"))
    with opened(engine, ascending) as one, opened(engine, grouped) as other:
        assert one.info.table_bytes == other.info.table_bytes
        assert (one.info.table_bytes > 0) == (name == "tables_")
        assert proofs(one, TINY_INPUTS) == proofs(other, TINY_INPUTS)


def test_load__tables_of_an_earlier_layout__proves_without_them(engine: Engine) -> None:
    earlier = (CORPUS / "0_14_earlier_tables_r256").read_bytes()[1:]
    with opened(engine, earlier) as key, engine.load_key(KEYS["0.14"]) as plain:
        assert {PreparedFile.read(earlier).section(name).fields["version"] for name in TABLES} == {1}
        assert key.info.table_bytes == 0
        assert proofs(key, TINY_INPUTS) == proofs(plain, TINY_INPUTS)


def test_write__folded__lists_public_wires_that_are_products_and_all_private_ones(
    engine: Engine, file: PreparedFile
) -> None:
    wires, rows, terms = (file.section(name) for name in ("fold_wires", "rows", "terms"))
    starts = file.section("expression_start")
    products = set()
    for row in range(len(rows.data) // 28):
        out = rows.word(7 * row + 2)
        products |= {terms.word(2 * i + 1) for i in range(starts.word(out), starts.word(out + 1))}
    with engine.load_key(KEYS["0.14"]) as key:
        publics = key.info.public_inputs + 1
        expected = [wire for wire in range(key.info.wires) if wire >= publics or wire in products]
    listed = words(wires)
    assert sorted(listed) == expected
    assert listed == in_groups(expected, set(words(file.section("wires_a"))), set(words(file.section("wires_b"))))
    assert {name: file.section(name).fields["flags"] for name in FOLDS} == dict.fromkeys(FOLDS, 0)
    assert {file.section(name).fields["version"] for name in TABLES} == {4}


def test_write__fold_cancelled__stops(engine: Engine) -> None:
    cancel = CancelFlag()
    cancel.raise_flag()
    with engine.load_key(KEYS["0.14"]) as key:
        out = in_memory(bytes(prepared_bytes(key, fold=True)))
        with pytest.raises(Cancelled):
            write_prepared(engine, key, out, bytes(32), Progress(), cancel, fold=True)


# ---- hostile files ---------------------------------------------------------------------------------


@pytest.mark.parametrize("name", list(FOLDS))
def test_fold__bit_flipped__is_seen_by_load_and_verify(engine: Engine, data: bytes, name: str) -> None:
    section = PreparedFile.read(data).section(name)
    for place in (0, len(section.data) // 2, len(section.data) - 1):
        broken = bytearray(data)
        broken[section.fields["offset"] + place] ^= 1
        with pytest.raises(MalformedKey, match="fold"):
            verify_prepared(in_memory(bytes(broken)), CancelFlag())
        with pytest.raises(MalformedKey, match="checksum"):
            opened(engine, bytes(broken))


def shortened(file: PreparedFile, name: str) -> None:
    section = file.section(name)
    del section.data[-section.fields["element_bytes"] :]


def first_wires(file: PreparedFile, *wires: int) -> None:
    for place, wire in enumerate(wires):
        file.section("fold_wires").word(place, wire)


@pytest.mark.parametrize(
    ("damage", "match"),
    [
        *((lambda file, name=name: file.sections.remove(file.section(name)), "missing") for name in FOLDS),
        *((lambda file, name=name: shortened(file, name), "wrong size") for name in FOLDS),
        (lambda file: first_wires(file, 5, 5), "twice"),
        (lambda file: first_wires(file, 2**32 - 1), "too high"),
    ],
)
def test_folds__sealed_with_wrong_contents__are_refused(
    engine: Engine, file: PreparedFile, damage: Callable[[PreparedFile], None], match: str
) -> None:
    damage(file)
    with pytest.raises(MalformedKey, match=match):
        opened(engine, file.write())


def test_folds__of_a_later_layout__are_omitted_with_their_tables_unless_required(
    engine: Engine, file: PreparedFile
) -> None:
    for name in FOLDS:
        file.section(name).fields["version"] = 2
    with opened(engine, file.write()) as key, engine.load_key(KEYS["0.14"]) as plain:
        assert key.info.fold_bytes == key.info.table_bytes == 0
        assert proofs(key, TINY_INPUTS) == proofs(plain, TINY_INPUTS)
    file.section("fold_t").fields["flags"] = 1
    with pytest.raises(UnsupportedKey, match="is required"):
        opened(engine, file.write())


def test_folds__with_wrong_points__give_no_proof_that_holds(engine: Engine) -> None:
    with engine.load_key(KEYS["0.14"]) as plain:
        file = PreparedFile.read(prepared(engine, plain))
    points = file.section("fold_t")
    points.data[:] = points.data[64:] + points.data[:64]
    values = TINY_INPUTS[0]
    with opened(engine, file.write()) as key, pytest.raises(Exception, match="proof"):
        key.verifying_key.verify(key.prove(values).points, values[: PUBLIC_BYTES * key.info.public_inputs])
