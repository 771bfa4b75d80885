"""Prepared keys in the test library: sealed files with wrong contents end in a status, also in the checked build."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from kernel_library import BACKENDS, Kernel
from key_file import proof_bytes, tiny_key, vectors
from prepared_file import SPARE, TYPES, UNCHECKED, PreparedFile

CASE: dict[str, Any] = vectors("tiny.json")["cases"]["z6"]
INPUTS = b"".join(int(value, 16).to_bytes(32, "big") for value in (*CASE["public"], *CASE["secret"]))
PUBLIC = [int(value, 16) for value in CASE["public"]]
SPARE_TYPES = [TYPES[name] for name in SPARE]
CHECKED = [name for name in TYPES if name not in UNCHECKED]
WORDS = (0, 1, 2, 3, 5, 31, 2**16, 2**31 - 1, 2**31, 2**32 - 1)
FILES = 400
TABLE_BYTES = 22_000
"""The least that makes tables of the tiny key."""
STEP = 97


@pytest.fixture(params=BACKENDS)
def kernel(testing_library: Path, request: pytest.FixtureRequest) -> Iterator[Kernel]:
    kernel = Kernel(testing_library, request.param)
    yield kernel
    kernel.close()


def prepared(kernel: Kernel, format_version: str = "0.14", table_bytes: int = 0, *, fold: bool = False) -> bytes:
    _, key = kernel.load_key(tiny_key(format_version))
    assert key is not None
    data = key.prepared(table_bytes=table_bytes, fold=fold)
    key.destroy()
    return data


@pytest.mark.parametrize("format_version", ["0.8", "0.14"])
def test_prepared__whole_file__proves_like_its_source(kernel: Kernel, format_version: str) -> None:
    data = prepared(kernel, format_version)
    assert kernel.verify_prepared(data).status == "ok"
    outcome, key = kernel.load_prepared(data)
    assert outcome.status == "ok"
    assert key is not None
    proved, proof = key.prove(INPUTS)
    assert proved.status == "ok"
    assert key.verifying_key.verify(proof, PUBLIC).status == "ok"
    assert key.verifying_key.verify(proof_bytes(CASE["proof"]), PUBLIC).status == "ok"
    assert key.prepared() == data
    key.destroy()


def test_prepared__folded_with_a_checkpoint_and_continued__is_the_same(kernel: Kernel) -> None:
    _, key = kernel.load_key(tiny_key("0.14"))
    assert key is not None
    plain, kept = key.prepared(fold=True), key.fold_checkpoint()
    assert key.prepared(fold=True, checkpoint=kept) == plain  # leaves its last two states
    last = bytes(kept[: len(kept) // 2])
    for half in (last, bytes(len(last))):
        kept[: len(last)] = half
        assert key.prepared(fold=True, checkpoint=kept) == plain
    key.destroy()


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.sampled(6, checked=4)
def test_prepared__sealed_file_with_wrong_words__is_refused_or_safe_to_prove_with(kernel: Kernel, seed: int) -> None:
    """Words of everything but points are overwritten under right checksums. No false proof comes out of it."""
    choose = random.Random(seed)
    folded = seed >= 2
    data = prepared(kernel, table_bytes=seed % 2 * TABLE_BYTES, fold=folded)
    names = [*CHECKED, *["fold_wires"] * folded]
    loaded = 0
    for _ in range(FILES // 4):
        file = PreparedFile.read(data)
        for _ in range(choose.randint(1, 3)):
            section = file.section(choose.choice(names))
            index = choose.randrange(len(section.data) // 4)
            near = (section.word(index) + choose.choice((-1, 1))) % 2**32
            section.word(index, choose.choice((*WORDS, near, near, near)))
        outcome, key = kernel.load_prepared(file.write())
        if key is None:
            assert outcome.status in ("malformed_key", "unsupported_key")
            assert outcome.message
            continue
        loaded += 1
        proved, _ = key.prove(INPUTS)
        assert proved.status in ("ok", "unsatisfied_constraint", "invalid_argument", "unsupported_key")
        key.destroy()
    assert loaded


def test_prepared__cut_off_or_with_a_flipped_bit__is_refused(kernel: Kernel) -> None:
    data = prepared(kernel)
    sections = PreparedFile.read(data).sections
    starts = [section.fields["offset"] for section in sections]
    used = [range(start, start + len(section.data)) for start, section in zip(starts, sections, strict=True)]
    spare = [part for part, section in zip(used, sections, strict=True) if section.type in SPARE_TYPES]
    used.append(range(starts[0]))
    for place in range(0, len(data), STEP):
        assert kernel.load_prepared(data[:place])[0].status == "malformed_key"
        flipped = bytearray(data)
        flipped[place] ^= 0x10
        is_used, is_spare = (any(place in part for part in parts) for parts in (used, spare))
        assert (kernel.verify_prepared(bytes(flipped)).status == "malformed_key") == is_used
        _, key = kernel.load_prepared(bytes(flipped))
        assert (key is None) == (is_used and not is_spare)
        if key is not None:  # the bit was in a gap between sections, or where no load looks
            key.destroy()
