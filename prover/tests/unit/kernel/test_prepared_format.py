"""The prepared key of the tiny key: what it holds, and that nothing but whole and fitting files become keys."""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from golden_vectors import load
from msgspec.structs import asdict
from prepared_file import (
    HEADER,
    HEADER_FIELDS,
    INFO_WORDS,
    SECTION,
    SPARE,
    TYPES,
    UNCHECKED,
    PreparedFile,
    Section,
    in_memory,
    xxh64,
)

from prover.errors import Cancelled, KernelMisused, MalformedKey, UnsupportedKey
from prover.kernel.cancellation import CancelFlag, Progress
from prover.kernel.engine import Backend, Encoding, Engine, LoadedKey, PointFormat
from prover.kernel.prepared import (
    describe_prepared,
    open_prepared,
    prepared_bytes,
    verify_prepared,
    write_prepared,
)

CORPUS = Path(__file__).resolve().parents[3] / "native/tests/fuzz/corpus/prepared"
TINY = load("gnark/tiny.json")
KEYS = {name: bytes.fromhex(TINY[f"key_v{name.replace('.', '_')}_hex"]) for name in ("0.8", "0.14")}
P = 21888242871839275222246405745257275088696311157297823662689037894645226208583
R = 21888242871839275222246405745257275088548364400416034343698204186575808495617
MONTGOMERY = 2**256
REFUSED = (MalformedKey, UnsupportedKey)


def scalars(texts: list[str]) -> bytes:
    return b"".join(int(text, 16).to_bytes(32, "big") for text in texts)


def inputs(case: dict[str, Any]) -> bytes:
    return scalars(case["public"]) + scalars(case["secret"])


CASES = list(TINY["cases"].values())


def engine_of(backend: Backend) -> Engine:
    try:
        return Engine(threads=2, backend=backend)
    except KernelMisused:
        pytest.skip(f"the {backend.name} backend does not run on this CPU")


@pytest.fixture(scope="module")
def engine() -> Iterator[Engine]:
    with Engine(threads=2, backend=Backend.PORTABLE) as engine:
        yield engine


def prepared(engine: Engine, key: LoadedKey, digest: bytes) -> bytes:
    out = in_memory(bytes(prepared_bytes(key)))
    write_prepared(engine, key, out, digest, Progress(), CancelFlag())
    return out[:]


@pytest.fixture(scope="module")
def files(engine: Engine) -> dict[str, bytes]:
    made = {}
    for format_version, data in KEYS.items():
        with engine.load_key(data) as key:
            made[format_version] = prepared(engine, key, hashlib.sha256(data).digest())
    return made


@pytest.fixture
def file(files: dict[str, bytes]) -> PreparedFile:
    return PreparedFile.read(files["0.14"])


def opened(engine: Engine, data: bytes) -> LoadedKey:
    return open_prepared(engine, in_memory(data))


def refused(engine: Engine, data: bytes, match: str | None = None, kind: Any = REFUSED) -> None:
    with pytest.raises(kind, match=match):
        opened(engine, data)


@pytest.mark.parametrize(
    ("data", "value"), [(b"", 0xEF46DB3751D8E999), (b"a", 0xD24EC4F1A98C6E5B), (b"abc", 0x44BC2CF5AD770999)]
)
def test_xxh64__published_values__are_those_of_our_reading(data: bytes, value: int) -> None:
    assert xxh64(data) == value


@pytest.mark.parametrize("format_version", list(KEYS))
def test_file__header_and_directory__are_as_documented(files: dict[str, bytes], format_version: str) -> None:
    data, source = files[format_version], KEYS[format_version]
    header = PreparedFile.read(data).header
    assert header["magic"] == b"\x89G16KEY\n"
    assert (header["version"], header["byte_order"], header["header_bytes"]) == (1, 0x01020304, HEADER.size)
    assert header["file_bytes"] == len(data)
    assert (header["source_bytes"], header["source_sha256"]) == (len(source), hashlib.sha256(source).digest())
    assert header["checksum"] == xxh64(data[: HEADER.size - 8])
    directory = data[HEADER.size : HEADER.size + SECTION.size * header["section_count"]]
    assert header["directory_checksum"] == xxh64(directory)
    sections = PreparedFile.read(data).sections
    assert [section.type for section in sections] == sorted(TYPES.values())
    for section in sections:
        assert section.fields["offset"] % 64 == 0
        assert section.fields["checksum"] == xxh64(bytes(section.data))
    info = describe_prepared(in_memory(data))
    assert (info.version, info.point_format, info.sections) == (1, PointFormat.R256.value, len(TYPES))
    assert (info.file_bytes, info.source_bytes) == (len(data), len(source))
    assert info.source_sha256 == hashlib.sha256(source).digest()


@pytest.mark.parametrize("format_version", list(KEYS))
def test_file__of_this_version__has_the_bytes_of_the_fuzzing_corpus(
    files: dict[str, bytes], format_version: str
) -> None:
    """A change of these bytes is a new version of the format, or of a section: files of users must not be misread."""
    name = format_version.replace(".", "_")
    assert files[format_version] == (CORPUS / f"{name}_portable").read_bytes()[1:]
    with Engine(threads=1) as fastest, fastest.load_key(KEYS[format_version]) as key:
        data = prepared(fastest, key, hashlib.sha256(KEYS[format_version]).digest())
        assert data == (CORPUS / f"{name}_{fastest.point_format.name.lower()}").read_bytes()[1:]


@pytest.mark.parametrize("format_version", list(KEYS))
def test_file__taken_apart_and_written_again__is_the_same(files: dict[str, bytes], format_version: str) -> None:
    assert PreparedFile.read(files[format_version]).write() == files[format_version]


def numbers(data: bytes, modulus: int) -> list[int]:
    """Return values in Montgomery form, little-endian."""
    inverse = pow(MONTGOMERY, -1, modulus)
    return [int.from_bytes(data[i : i + 32], "little") * inverse % modulus for i in range(0, len(data), 32)]


def test_file__points_and_scalars__are_the_keys_in_montgomery_form(engine: Engine, file: PreparedFile) -> None:
    with engine.load_key(KEYS["0.14"]) as key:
        raw = key.verifying_key.write(Encoding.RAW)
    alpha, k = raw[:64], raw[3 * 64 + 3 * 128 + 4 :]
    coordinates = numbers(bytes(file.section("verifying_key").data), P)
    assert b"".join(value.to_bytes(32, "big") for value in coordinates[:2]) == alpha
    assert numbers(bytes(file.section("constants").data), P)[:2] == coordinates[:2]
    k_points = numbers(bytes(file.section("verifying_k").data), P)
    assert b"".join(value.to_bytes(32, "big") for value in k_points) == k[: 32 * len(k_points)]
    assert numbers(bytes(file.section("coefficients").data), R)[:5] == [0, 1, 2, R - 1, R - 2]
    twiddles = numbers(bytes(file.section("twiddles").data), R)
    psi = pow(5, (R - 1) // (2 * len(twiddles)), R)
    bits = len(twiddles).bit_length() - 1
    assert twiddles == [pow(psi, int(f"{i:0{bits}b}"[::-1], 2), R) for i in range(len(twiddles))]


@pytest.mark.parametrize("format_version", list(KEYS))
def test_key__opened_from_its_prepared_key__describes_itself_alike(
    engine: Engine, files: dict[str, bytes], format_version: str
) -> None:
    with engine.load_key(KEYS[format_version]) as plain, opened(engine, files[format_version]) as mapped:
        differing = {"resident_bytes", "mapped_bytes"}
        assert {k: v for k, v in asdict(mapped.info).items() if k not in differing} == {
            k: v for k, v in asdict(plain.info).items() if k not in differing
        }
        assert (plain.info.mapped_bytes, mapped.info.mapped_bytes) == (0, len(files[format_version]))
        assert mapped.info.resident_bytes < plain.info.resident_bytes
        assert mapped.scratch_bytes == plain.scratch_bytes
        for encoding in Encoding:
            assert mapped.verifying_key.write(encoding) == plain.verifying_key.write(encoding)


@pytest.mark.parametrize("format_version", list(KEYS))
@pytest.mark.parametrize(
    "backend", [Backend.PORTABLE, Backend.ADX, Backend.AVX2, Backend.AVX512, Backend.IFMA], ids=lambda b: b.name.lower()
)
def test_prove__prepared__equals_the_proof_of_the_source(backend: Backend, format_version: str) -> None:
    blinding = (bytes(31) + b"\7", bytes(31) + b"\5")
    with (
        engine_of(backend) as own,
        own.load_key(KEYS[format_version]) as plain,
        opened(own, prepared(own, plain, bytes(32))) as mapped,
    ):
        for case in CASES:
            proofs = [key.prove(inputs(case), blinding=blinding).points for key in (plain, mapped)]
            assert proofs[0] == proofs[1]
            mapped.verifying_key.verify(proofs[1], scalars(case["public"]))
            assert mapped.solve(inputs(case)) == plain.solve(inputs(case))


def test_write__of_a_prepared_key__gives_the_same_file(engine: Engine, files: dict[str, bytes]) -> None:
    with opened(engine, files["0.8"]) as mapped:
        assert prepared(engine, mapped, hashlib.sha256(KEYS["0.8"]).digest()) == files["0.8"]


def test_write__cancelled_or_into_a_wrong_size__writes_no_valid_file(engine: Engine) -> None:
    cancel = CancelFlag()
    cancel.raise_flag()
    with engine.load_key(KEYS["0.14"]) as key:
        out = in_memory(bytes(prepared_bytes(key)))
        with pytest.raises(Cancelled):
            write_prepared(engine, key, out, bytes(32), Progress(), cancel)
        refused(engine, out[:])
        with pytest.raises(KernelMisused, match="bytes given"):
            write_prepared(engine, key, in_memory(bytes(100)), bytes(32), Progress(), CancelFlag())


def test_write__counts_to_a_thousand(engine: Engine) -> None:
    progress = Progress()
    with engine.load_key(KEYS["0.14"]) as key:
        write_prepared(engine, key, in_memory(bytes(prepared_bytes(key))), bytes(32), progress, CancelFlag())
    assert progress.permille == 1000


def test_key__closed__gives_its_map_back(engine: Engine, files: dict[str, bytes]) -> None:
    memory = in_memory(files["0.14"])
    key = open_prepared(engine, memory)
    with pytest.raises(BufferError):
        memory.close()
    key.close()
    assert memory.closed


# ---- damaged files ---------------------------------------------------------------------------------


@pytest.mark.parametrize("offset", range(HEADER.size))
def test_header__any_byte_changed__is_refused(engine: Engine, files: dict[str, bytes], offset: int) -> None:
    data = bytearray(files["0.14"])
    data[offset] ^= 0x55
    refused(engine, bytes(data))


@pytest.mark.parametrize("offset", range(HEADER.size, HEADER.size + SECTION.size * len(TYPES), 7))
def test_directory__any_byte_changed__is_refused(engine: Engine, files: dict[str, bytes], offset: int) -> None:
    data = bytearray(files["0.14"])
    data[offset] ^= 0x01
    refused(engine, bytes(data), "directory", MalformedKey)


@pytest.mark.parametrize(
    ("field", "value", "kind"),
    [
        ("version", 0, UnsupportedKey),
        ("version", 2, UnsupportedKey),
        ("byte_order", 0x04030201, UnsupportedKey),
        ("point_format", 0, UnsupportedKey),
        ("point_format", 2, UnsupportedKey),
        ("point_format", 9, UnsupportedKey),
        ("file_bytes", 0, MalformedKey),
        ("file_bytes", 2**64 - 1, MalformedKey),
        ("header_bytes", 64, MalformedKey),
        ("section_count", 0, MalformedKey),
        ("section_count", 19, MalformedKey),
        ("section_count", 65, MalformedKey),
        ("section_count", 2**32 - 1, MalformedKey),
        ("directory_offset", 64, MalformedKey),
        ("directory_offset", 2**64 - 64, MalformedKey),
        ("directory_checksum", 1, MalformedKey),
    ],
)
def test_header__wrong_value_under_a_right_checksum__is_refused(
    engine: Engine, file: PreparedFile, field: str, value: int, kind: type[Exception]
) -> None:
    assert field in HEADER_FIELDS
    refused(engine, file.write(**{field: value}), kind=kind)


def test_file__cut_off_anywhere__is_refused(engine: Engine, files: dict[str, bytes]) -> None:
    data = files["0.14"]
    starts = [section.fields["offset"] for section in PreparedFile.read(data).sections]
    lengths = {0, 1, HEADER.size - 1, HEADER.size, HEADER.size + 1, len(data) - 1}
    lengths |= {start + more for start in starts for more in (-1, 0, 1, 33)}
    for length in sorted(length for length in lengths if length < len(data)):
        refused(engine, data[:length], kind=MalformedKey)
    refused(engine, data + b"\0", kind=MalformedKey)


@pytest.mark.parametrize("name", list(TYPES))
def test_section__cut_short_and_sealed__is_refused(engine: Engine, file: PreparedFile, name: str) -> None:
    section = file.section(name)
    if not section.data:
        pytest.skip("the tiny circuit has none of these")
    del section.data[-section.fields["element_bytes"] :]
    refused(engine, file.write(), kind=MalformedKey)


@pytest.mark.parametrize("name", list(TYPES))
def test_section__missing__is_refused(engine: Engine, file: PreparedFile, name: str) -> None:
    file.sections.remove(file.section(name))
    refused(engine, file.write(), "is missing", MalformedKey)


@pytest.mark.parametrize("name", list(TYPES))
def test_section__of_another_layout_version__is_refused(engine: Engine, file: PreparedFile, name: str) -> None:
    file.section(name).fields["version"] = 2
    refused(engine, file.write(), "layout version 2", UnsupportedKey)


@pytest.mark.parametrize("name", list(TYPES))
def test_section__bit_flipped__is_seen_by_verify_and_by_loads_that_read_it(
    engine: Engine, file: PreparedFile, name: str
) -> None:
    original = file.write()
    section = file.section(name)
    if not section.data:
        pytest.skip("the tiny circuit has none of these")
    place = section.fields["offset"] + len(section.data) // 2
    data = bytearray(original)
    data[place] ^= 1
    with pytest.raises(MalformedKey, match="checksum"):
        verify_prepared(in_memory(bytes(data)), CancelFlag())
    if name in SPARE:
        open_prepared(engine, in_memory(bytes(data))).close()
    else:
        refused(engine, bytes(data), "checksum", MalformedKey)
    if name in UNCHECKED:
        open_prepared(engine, in_memory(bytes(data)), check_points=False).close()
    else:
        with pytest.raises(MalformedKey, match="checksum"):
            open_prepared(engine, in_memory(bytes(data)), check_points=False)


@pytest.mark.parametrize(
    ("change", "match"),
    [
        (lambda s: s[3].fields.update(offset=s[3].fields["offset"] + 1), "misplaced"),
        (lambda s: s[3].fields.update(offset=s[3].fields["offset"] + 32), "misplaced"),
        (lambda s: s[3].fields.update(offset=s[2].fields["offset"]), "misplaced"),
        (lambda s: s[0].fields.update(offset=0), "misplaced"),
        (lambda s: s[0].fields.update(offset=128), "misplaced"),
        (lambda s: s[-1].fields.update(offset=2**64 - 64), "misplaced"),
        (lambda s: s[-1].fields.update(offset=2**40), "misplaced"),
        (lambda s: s[-1].fields.update(count=2**62), "passes the end"),
        (lambda s: s[-1].fields.update(count=2**64 - 1), "passes the end"),
        (lambda s: s[-1].fields.update(count=s[-1].fields["count"] + 1000), "passes the end"),
        (lambda s: s[5].fields.update(element_bytes=0), "passes the end"),
        (lambda s: s[5].fields.update(element_bytes=2**32 - 1), "passes the end|wrong size"),
        (lambda s: s[5].fields.update(element_bytes=32, count=2 * s[5].fields["count"]), "wrong size"),
        (lambda s: s[5].fields.update(type=s[4].type), "ascend"),
        (lambda s: s[5].fields.update(type=0), "ascend"),
        (lambda s: s.insert(4, s.pop(5)), "ascend|misplaced"),
    ],
)
def test_directory__wrong_entry_under_right_checksums__is_refused(
    engine: Engine, files: dict[str, bytes], file: PreparedFile, change: Callable[[list[Section]], None], match: str
) -> None:
    change(file.sections)
    refused(engine, file.seal(files["0.14"][HEADER.size + SECTION.size * len(TYPES) :]), match, MalformedKey)


def unknown_section(flags: int) -> Section:
    fields = {"type": 0x77, "version": 3, "flags": flags, "element_bytes": 5, "offset": 0, "count": 0, "checksum": 0}
    return Section({**fields, "parameter0": 1, "parameter1": 2, "parameter2": 3}, bytearray(b"later" * 3))


def test_unknown_section__optional__is_skipped(engine: Engine, file: PreparedFile) -> None:
    file.sections.append(unknown_section(flags=0))
    data = file.write()
    with opened(engine, data) as key:
        key.verifying_key.verify(key.prove(inputs(CASES[0])).points, scalars(CASES[0]["public"]))
    verify_prepared(in_memory(data), CancelFlag())


def test_unknown_section__required__is_refused(engine: Engine, file: PreparedFile) -> None:
    file.sections.append(unknown_section(flags=1))
    refused(engine, file.write(), "type 119.*is required", UnsupportedKey)


def test_unknown_section__damaged__is_seen_by_verify(file: PreparedFile) -> None:
    file.sections.append(unknown_section(flags=0))
    data = bytearray(file.write())
    data[-1] ^= 1
    with pytest.raises(MalformedKey, match="unknown section"):
        verify_prepared(in_memory(bytes(data)), CancelFlag())


def test_verify__cancelled__stops(files: dict[str, bytes]) -> None:
    cancel = CancelFlag()
    cancel.raise_flag()
    with pytest.raises(Cancelled):
        verify_prepared(in_memory(files["0.14"]), cancel)


# ---- sealed files whose numbers lead outside -------------------------------------------------------------

LAST = 2**32 - 1


@pytest.mark.parametrize("word", [name for name in INFO_WORDS if not name.startswith(("header", "reserved", "levels"))])
@pytest.mark.parametrize("value", [0, 1, 2**31, LAST])
def test_info__number_changed__is_refused_or_harmless(
    engine: Engine, file: PreparedFile, word: str, value: int
) -> None:
    section, index = file.section("info"), INFO_WORDS.index(word)
    section.word(index, value if section.word(index) != value else 2)
    if word == "batch_kind" or (word == "format_version" and value == 1):  # says what the key is for, places nothing
        opened(engine, file.write()).close()
    else:
        refused(engine, file.write(), kind=MalformedKey)


@pytest.mark.parametrize("step", [-1, 1])
@pytest.mark.parametrize(
    "word", ["wires", "public_wires", "secret_wires", "internal_wires", "constraints", "domain_log2"]
)
def test_info__number_off_by_one__is_refused(engine: Engine, file: PreparedFile, word: str, step: int) -> None:
    section, index = file.section("info"), INFO_WORDS.index(word)
    section.word(index, section.word(index) + step)
    refused(engine, file.write(), kind=MalformedKey)


INDICES = [
    ("wires_a", 0, LAST),
    ("wires_a", -1, LAST),
    ("wires_b", -1, LAST),
    ("wires_b", 1, 0),
    ("terms", 0, LAST),
    ("terms", 1, LAST),
    ("terms", -1, LAST),
    ("terms", -2, LAST),
    ("expression_start", 0, 1),
    ("expression_start", 1, LAST),
    ("expression_start", -1, LAST),
    ("expression_start", -1, 0),
    ("rows", 0, LAST),
    ("rows", 1, LAST),
    ("rows", 2, LAST),
    ("rows", 3, LAST),
    ("rows", 4, LAST),
    ("rows", 6, 4),
    ("hints", 0, 0),
    ("hints", 0, 3),
    ("hints", 1, LAST),
    ("hints", 2, 0),
    ("hints", 2, LAST),
    ("hints", 3, 0),
    ("hints", 3, 257),
    ("hints", 3, LAST),
    ("program", 0, LAST),
    ("program", 0, LAST >> 1),
    ("program", -1, LAST),
    ("program", -1, 1 << 31),
    ("component_start", 0, 1),
    ("component_start", -1, LAST),
    ("slice_start", 0, 1),
    ("slice_start", -1, LAST),
]


@pytest.mark.parametrize(("name", "index", "value"), INDICES)
def test_array__index_that_leads_outside__is_refused(
    engine: Engine, file: PreparedFile, name: str, index: int, value: int
) -> None:
    section = file.section(name)
    section.word(index % (len(section.data) // 4), value)
    refused(engine, file.write(), kind=MalformedKey)


@pytest.mark.parametrize(
    ("name", "modulus"), [("constants", P), ("verifying_key", P), ("verifying_k", P), ("coefficients", R)]
)
def test_values__not_below_the_modulus__are_refused(
    engine: Engine, file: PreparedFile, name: str, modulus: int
) -> None:
    section = file.section(name)
    section.data[-32:] = modulus.to_bytes(32, "little")
    refused(engine, file.write(), kind=MalformedKey)


def test_coefficients__fixed_ones_changed__are_refused(engine: Engine, file: PreparedFile) -> None:
    file.section("coefficients").data[32:64] = struct.pack("<4Q", 1, 0, 0, 0)
    refused(engine, file.write(), "0, 1, 2, -1, -2", MalformedKey)


def test_map__that_is_not_aligned__is_refused(engine: Engine, files: dict[str, bytes]) -> None:
    from prover.kernel._native import ffi, lib

    memory = in_memory(bytes(8) + files["0.14"])
    error, info = ffi.new("g16_error *"), ffi.new("g16_prepared_info *")
    with ffi.from_buffer("uint8_t[]", memory) as data:
        status = lib.g16_prepared_describe(info, data + 8, len(files["0.14"]), error)
    assert status == lib.G16_INVALID_ARGUMENT
    assert engine.point_format is PointFormat.R256
