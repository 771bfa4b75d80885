"""Sums of scalar multiples, plain and over tables, against py_ecc: points are known multiples of a generator."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import cffi
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from py_ecc import optimized_bn128 as bn128
from sampling import examples

R = bn128.curve_order
LAMBDA = 0x30644E72E131A029048B6E193FD84104CC37A73FEC2BC5E9B8CA0B2D36636F23
BACKENDS = ("portable", "adx", "avx2", "avx512", "ifma")
DECLARATIONS = """
void t_glv_split_{b}(uint64_t *magnitudes, int32_t *negative, const uint8_t *scalar);
uint32_t t_digits_{b}(int32_t *digits, uint32_t *bits, const uint8_t *scalar, uint32_t window_bits);
int32_t t_msm_g1_{b}(uint8_t *out, const uint8_t *points, const uint8_t *scalars, uint32_t count, uint32_t window,
                     uint32_t ranges, uint32_t parts);
int32_t t_msm_g2_{b}(uint8_t *out, const uint8_t *points, const uint8_t *scalars, uint32_t count, uint32_t window,
                     uint32_t ranges, uint32_t parts);
int32_t t_table_g1_{b}(uint8_t *out, const uint8_t *points, const uint8_t *scalars, uint32_t count, uint32_t sets,
                       uint32_t shifts, uint32_t parts);
int32_t t_table_g2_{b}(uint8_t *out, const uint8_t *points, const uint8_t *scalars, uint32_t count, uint32_t sets,
                       uint32_t shifts, uint32_t parts);
int32_t t_scale_g1_{b}(uint8_t *points, const uint8_t *scalars, uint32_t count);
"""
# Pieces of a window: ranges of points, and parts of the buckets.
CUTS = [(2, 1), (1, 2), (1, 8), (3, 4), pytest.param((32, 8), marks=pytest.mark.unchecked)]
# Of tables: bucket sets, windows of a set, parts of a bucket set. Windows of 8 to 19 bits, the last one shorter.
SHAPES = [(1, 16, 2), (8, 2, 4), (3, 4, 8), (2, 5, 1), (5, 2, 2), (1, 9, 8), (1, 8, 2), (1, 7, 16)]
# Those with windows of 4 to 12 bits of which the last one is not empty.
TABLES = [
    (sets, shifts)
    for shifts in range(2, 17)
    for sets in range(1, 17)
    if max(3, shifts * -(-127 // shifts) - 127) < -(-127 // shifts) // sets < 12
]
# Equal, opposite and repeated bases make buckets double and cancel.
EXPONENTS = [1, 1, R - 1, 2, R - 2, 3, 1, R - 1, 5, 5, 7]
EDGE_SCALARS = [0, 1, 2, R - 1, R - 2, (R - 1) // 2, LAMBDA, R - LAMBDA, 2**127, 2**128 - 1, 2**253]
# Bases that are images of each other by the endomorphism, or opposite: their halves meet in the buckets of both.
IMAGES = [e * f % R for e in range(1, 5) for f in (1, LAMBDA, LAMBDA**2, -1, -LAMBDA)]
ANY_EXPONENT = st.one_of(st.sampled_from([1, R - 1, 2, R - 2, LAMBDA, R - LAMBDA]), st.integers(1, 30))

ffi = cffi.FFI()
ffi.cdef("int32_t t_processor_runs(const char *backend);")
for backend_name in BACKENDS:
    ffi.cdef(DECLARATIONS.format(b=backend_name))


def encode(scalars: list[int]) -> bytes:
    return b"".join(s.to_bytes(32, "big") for s in scalars)


def g1_bytes(point: Any) -> bytes:
    if bn128.is_inf(point):
        return bytes(64)
    x, y = bn128.normalize(point)
    return encode([int(x), int(y)])


def g2_bytes(point: Any) -> bytes:
    if bn128.is_inf(point):
        return bytes(128)
    x, y = bn128.normalize(point)
    return encode([int(x.coeffs[1]), int(x.coeffs[0]), int(y.coeffs[1]), int(y.coeffs[0])])


class Group:
    def __init__(self, name: str, generator: Any, to_bytes: Any, width: int) -> None:
        self.name, self.generator, self.to_bytes, self.width = name, generator, to_bytes, width
        self.cache: dict[int, bytes] = {}

    def point(self, exponent: int) -> bytes:
        if exponent not in self.cache:
            self.cache[exponent] = self.to_bytes(bn128.multiply(self.generator, exponent % R))
        return self.cache[exponent]


GROUPS = [Group("g1", bn128.G1, g1_bytes, 64), Group("g2", bn128.G2, g2_bytes, 128)]


def msm(
    hooks: Any,
    backend: str,
    group: Group,
    exponents: list[int],
    scalars: list[int],
    window: int,
    cut: tuple[int, int] = (1, 1),
) -> bytes:
    out = ffi.new("uint8_t[]", group.width)
    points = b"".join(group.point(e) for e in exponents)
    call = getattr(hooks, f"t_msm_{group.name}_{backend}")
    assert call(out, points, encode(scalars), len(scalars), window, *cut) == 0
    return bytes(ffi.buffer(out))


def expected(group: Group, exponents: list[int], scalars: list[int]) -> bytes:
    total = sum(e * s for e, s in zip(exponents, scalars, strict=True)) % R
    return group.point(total)


@given(scalar=st.one_of(st.sampled_from(EDGE_SCALARS), st.integers(0, R - 1)))
def test_glv_split__any_scalar__halves_are_short_and_recombine(hooks: Any, scalar: int) -> None:
    magnitudes, negative = ffi.new("uint64_t[4]"), ffi.new("int32_t[2]")
    hooks.t_glv_split_portable(magnitudes, negative, scalar.to_bytes(32, "big"))
    halves = [(-1 if negative[i] else 1) * (magnitudes[2 * i] + (magnitudes[2 * i + 1] << 64)) for i in range(2)]
    assert (halves[0] + LAMBDA * halves[1]) % R == scalar
    assert all(abs(half) < 2**126 for half in halves)


@settings(max_examples=examples(300))
@given(scalar=st.one_of(st.sampled_from(EDGE_SCALARS), st.integers(0, R - 1)), bits=st.integers(2, 19))
def test_digits__any_window__recombine_and_stay_in_range(hooks: Any, scalar: int, bits: int) -> None:
    found = []
    for backend in BACKENDS:
        if not hooks.t_processor_runs(backend.encode()):
            continue
        digits, widths = ffi.new("int32_t[]", 2 * 64), ffi.new("uint32_t[]", 64)
        windows = getattr(hooks, f"t_digits_{backend}")(digits, widths, scalar.to_bytes(32, "big"), bits)
        assert windows, "the digits of a block of equal scalars differ from those of one"
        total = below = 0
        for w in range(windows):
            assert widths[w] <= bits
            assert abs(digits[2 * w]) <= 2 ** (widths[w] - 1)
            assert abs(digits[2 * w + 1]) <= 2 ** (widths[w] - 1)
            total += (digits[2 * w] + LAMBDA * digits[2 * w + 1]) << below
            below += widths[w]
        assert total % R == scalar
        found.append(list(digits))
    assert all(digits == found[0] for digits in found)


@pytest.mark.parametrize("group", GROUPS, ids=lambda g: g.name)
@pytest.mark.parametrize("window", [2, 3, 5, 8, 13, 15, 16, 19])
@pytest.mark.sampled(40, checked=12)
def test_msm__odd_windows_and_edge_scalars__equals_py_ecc(hooks: Any, backend: str, group: Group, window: int) -> None:
    for scalars in (EDGE_SCALARS, [1] * 11, [R - 1] * 11, [0] * 11, list(reversed(EDGE_SCALARS))):
        assert msm(hooks, backend, group, EXPONENTS, scalars, window) == expected(group, EXPONENTS, scalars)


@pytest.mark.parametrize("group", GROUPS, ids=lambda g: g.name)
@pytest.mark.parametrize("count", [0, 1, 2, 3, 17, 255])
def test_msm__odd_counts__equals_py_ecc(hooks: Any, backend: str, group: Group, count: int) -> None:
    generator = random.Random(count)
    exponents = [1 + i % 40 for i in range(count)]
    scalars = [generator.randrange(R) for _ in range(count)]
    assert msm(hooks, backend, group, exponents, scalars, 0) == expected(group, exponents, scalars)


@pytest.mark.parametrize("group", GROUPS, ids=lambda g: g.name)
def test_msm__buckets_longer_than_a_slab__equals_py_ecc(hooks: Any, backend: str, group: Group) -> None:
    count = 20_001  # one digit for all scalars: a single bucket cut into several slabs
    exponents = [1 + i % 7 for i in range(count)]
    assert msm(hooks, backend, group, exponents, [1] * count, 4) == expected(group, exponents, [1] * count)
    few = [(3, R - 5)[i % 2] for i in range(count)]
    assert msm(hooks, backend, group, exponents, few, 6) == expected(group, exponents, few)


@pytest.mark.parametrize("group", GROUPS, ids=lambda g: g.name)
@pytest.mark.parametrize("count", [1551, pytest.param(3100, marks=pytest.mark.unchecked)])
def test_msm__batches_of_every_size__equals_py_ecc(hooks: Any, backend: str, group: Group, count: int) -> None:
    generator = random.Random(count)
    distinct = [generator.randrange(1, 2**32) for _ in range(60)]  # few sums meet, so lanes are not left
    exponents = [distinct[i % 60] for i in range(count)]
    for window in (7, 10):
        scalars = [generator.randrange(R) for _ in range(count)]
        assert msm(hooks, backend, group, exponents, scalars, window) == expected(group, exponents, scalars)


@pytest.mark.parametrize("group", GROUPS, ids=lambda g: g.name)
@pytest.mark.parametrize("repeated", [0, 1, R - 1, LAMBDA, 2**127])
def test_msm__one_scalar_between_random_ones__equals_py_ecc(
    hooks: Any, backend: str, group: Group, repeated: int
) -> None:
    generator = random.Random(repeated)
    exponents = [(1 + i % 9, R - 1 - i % 9)[i // 9 % 2] for i in range(400)]  # all with their opposites
    scalars = [repeated if i % 3 else generator.randrange(R) for i in range(400)]
    assert msm(hooks, backend, group, exponents, scalars, 8) == expected(group, exponents, scalars)


@pytest.mark.parametrize("group", GROUPS, ids=lambda g: g.name)
@pytest.mark.parametrize(("window", "parts"), [(16, 2), (18, 16), (19, 32)])
@pytest.mark.sampled(8, checked=2)
def test_msm__wide_windows_in_parts__equals_py_ecc(
    hooks: Any, backend: str, group: Group, window: int, parts: int
) -> None:
    generator = random.Random(window)
    exponents = [(1 + i % 9, R - 1 - i % 9)[i // 9 % 2] for i in range(700)]  # all with their opposites
    scalars = [(generator.randrange(R), 2**127, generator.choice(EDGE_SCALARS))[i % 3] for i in range(700)]
    assert msm(hooks, backend, group, exponents, scalars, window, (1, parts)) == expected(group, exponents, scalars)


def image_scalars() -> Iterator[list[int]]:
    """Yield the same for all bases, some of each, and random ones."""
    generator, count = random.Random(3), len(IMAGES)
    for same in (1, R - 1, LAMBDA, R - LAMBDA, 2**127):
        yield [same] * count
    yield [generator.choice(EDGE_SCALARS) for _ in range(count)]
    yield [generator.randrange(R) for _ in range(count)]


@pytest.mark.parametrize("group", GROUPS, ids=lambda g: g.name)
def test_msm__bases_that_are_images_of_each_other__equals_py_ecc(hooks: Any, backend: str, group: Group) -> None:
    for scalars in image_scalars():
        for window in (3, 8):
            assert msm(hooks, backend, group, IMAGES, scalars, window) == expected(group, IMAGES, scalars)


@pytest.mark.parametrize("group", GROUPS, ids=lambda g: g.name)
@pytest.mark.parametrize("cut", CUTS, ids=str)
@pytest.mark.sampled(10, checked=4)
def test_msm__cut_windows_and_edge_scalars__equals_py_ecc(
    hooks: Any, backend: str, group: Group, cut: tuple[int, int]
) -> None:
    for scalars in (EDGE_SCALARS, [1] * 11, [R - 1] * 11, [0] * 11, list(reversed(EDGE_SCALARS))):
        for window in (5, 13, 15):
            assert msm(hooks, backend, group, EXPONENTS, scalars, window, cut) == expected(group, EXPONENTS, scalars)
    assert msm(hooks, backend, group, [], [], 5, cut) == expected(group, [], [])


@pytest.mark.parametrize("group", GROUPS, ids=lambda g: g.name)
@pytest.mark.parametrize("cut", CUTS, ids=str)
@pytest.mark.sampled(10, checked=4)
def test_msm__cut_windows_of_random_and_equal_scalars__equals_py_ecc(
    hooks: Any, backend: str, group: Group, cut: tuple[int, int]
) -> None:
    generator = random.Random(cut[0] * cut[1])
    exponents = [(1 + i % 9, R - 1 - i % 9)[i // 9 % 2] for i in range(700)]  # all with their opposites
    scalars = [2**127 if i % 3 else generator.randrange(R) for i in range(700)]
    for window in (5, 8, 12):
        assert msm(hooks, backend, group, exponents, scalars, window, cut) == expected(group, exponents, scalars)


@settings(max_examples=examples(40), deadline=None)
@given(data=st.data())
def test_msm__random_terms__both_backends_equal_py_ecc(hooks: Any, data: st.DataObject) -> None:
    group = data.draw(st.sampled_from(GROUPS))
    terms = data.draw(
        st.lists(
            st.tuples(ANY_EXPONENT, st.one_of(st.sampled_from(EDGE_SCALARS), st.integers(0, R - 1))),
            max_size=40,
        )
    )
    window, cut = data.draw(st.sampled_from([0, 2, 4, 7, 11])), (data.draw(st.integers(1, 5)), 1)
    exponents, scalars = [e for e, _ in terms], [s for _, s in terms]
    for backend in BACKENDS:
        if hooks.t_processor_runs(backend.encode()):
            assert msm(hooks, backend, group, exponents, scalars, window, cut) == expected(group, exponents, scalars)


# ---- tables ----------------------------------------------------------------------------------------


def table_sum(
    hooks: Any, backend: str, group: Group, exponents: list[int], scalars: list[int], shape: tuple[int, int, int]
) -> bytes:
    out = ffi.new("uint8_t[]", group.width)
    points = b"".join(group.point(e) for e in exponents)
    call = getattr(hooks, f"t_table_{group.name}_{backend}")
    assert call(out, points, encode(scalars), len(scalars), *shape) == 0
    return bytes(ffi.buffer(out))


@pytest.mark.parametrize("group", GROUPS, ids=lambda g: g.name)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.sampled(16, checked=6)
def test_table__any_shape_and_edge_scalars__equals_py_ecc(
    hooks: Any, backend: str, group: Group, shape: tuple[int, int, int]
) -> None:
    for scalars in (EDGE_SCALARS, [1] * 11, [R - 1] * 11, [0] * 11, list(reversed(EDGE_SCALARS))):
        assert table_sum(hooks, backend, group, EXPONENTS, scalars, shape) == expected(group, EXPONENTS, scalars)


@pytest.mark.parametrize("group", GROUPS, ids=lambda g: g.name)
@pytest.mark.parametrize("count", [0, 1, 2, 129, 300])
def test_table__odd_counts__equals_py_ecc(hooks: Any, backend: str, group: Group, count: int) -> None:
    generator = random.Random(count)
    exponents = [1 + i % 40 for i in range(count)]
    scalars = [generator.randrange(R) for _ in range(count)]
    assert table_sum(hooks, backend, group, exponents, scalars, (3, 5, 4)) == expected(group, exponents, scalars)


@pytest.mark.parametrize(
    ("group", "count"),
    [(GROUPS[0], 3001), pytest.param(GROUPS[1], 1101, marks=pytest.mark.unchecked)],
    ids=["g1", "g2"],
)
def test_table__buckets_longer_than_a_slab__equals_py_ecc(hooks: Any, backend: str, group: Group, count: int) -> None:
    exponents = [1 + i % 7 for i in range(count)]
    # Both halves have digit 1 in all windows but the last: a bucket of 15 times as many.
    scalars = [(1 + LAMBDA) * ((2**120 - 1) // 255) % R] * count
    assert table_sum(hooks, backend, group, exponents, scalars, (2, 8, 2)) == expected(group, exponents, scalars)


@pytest.mark.parametrize("group", GROUPS, ids=lambda g: g.name)
def test_table__bases_that_are_opposite_or_images_of_each_other__equals_py_ecc(
    hooks: Any, backend: str, group: Group
) -> None:
    for scalars in image_scalars():
        for shape in ((1, 16, 2), (3, 5, 8)):
            assert table_sum(hooks, backend, group, IMAGES, scalars, shape) == expected(group, IMAGES, scalars)


@settings(max_examples=examples(25), deadline=None)
@given(data=st.data())
def test_table__random_terms__all_backends_equal_py_ecc(hooks: Any, data: st.DataObject) -> None:
    group = data.draw(st.sampled_from(GROUPS))
    scalar = st.one_of(st.sampled_from(EDGE_SCALARS), st.integers(0, R - 1))
    terms = data.draw(st.lists(st.tuples(ANY_EXPONENT, scalar), max_size=30))
    shape = (*data.draw(st.sampled_from(TABLES)), data.draw(st.sampled_from([1, 2])))
    exponents, scalars = [e for e, _ in terms], [s for _, s in terms]
    for name in BACKENDS:
        if hooks.t_processor_runs(name.encode()):
            assert table_sum(hooks, name, group, exponents, scalars, shape) == expected(group, exponents, scalars)


# ---- points that each have a scalar of their own: what foldings of keys are made of ------------------------


def scaled(hooks: Any, backend: str, exponents: list[int], scalars: list[int]) -> list[bytes]:
    points = b"".join(GROUPS[0].point(e) for e in exponents)
    out = ffi.new("uint8_t[]", points + bytes(1))
    assert getattr(hooks, f"t_scale_g1_{backend}")(out, encode(scalars), len(scalars)) == 0
    return [bytes(ffi.buffer(out))[i : i + 64] for i in range(0, len(points), 64)]


def test_scale__edge_scalars_of_any_points__equals_py_ecc(hooks: Any, backend: str) -> None:
    """Also infinity, and fewer than fill a block of lanes; small ones make equal and opposite points meet."""
    scalars = [*EDGE_SCALARS, 3, 7, 8, 9, 15, 16, LAMBDA + 1, LAMBDA - 1, R - 3, 2**126]
    for exponent in (1, R - 1, LAMBDA, 5, 0):
        exponents = [exponent] * len(scalars)
        products = [GROUPS[0].point(exponent * s) for s in scalars]
        assert scaled(hooks, backend, exponents, scalars) == products
        for count in (1, 7, 8):
            assert scaled(hooks, backend, exponents[:count], scalars[:count]) == products[:count]
    mixed = [(0, 1, R - 1, LAMBDA, 2)[i % 5] for i in range(len(scalars))]
    assert scaled(hooks, backend, mixed, scalars) == [
        GROUPS[0].point(e * s) for e, s in zip(mixed, scalars, strict=True)
    ]


@settings(max_examples=examples(20), deadline=None)
@given(data=st.data())
def test_scale__random_blocks__all_backends_equal_py_ecc(hooks: Any, data: st.DataObject) -> None:
    scalar = st.one_of(st.sampled_from(EDGE_SCALARS), st.integers(0, 20), st.integers(0, R - 1))
    terms = data.draw(st.lists(st.tuples(st.one_of(st.just(0), ANY_EXPONENT), scalar), max_size=20))
    exponents, scalars = [e for e, _ in terms], [s for _, s in terms]
    products = [GROUPS[0].point(e * s) for e, s in terms]
    for name in BACKENDS:
        if hooks.t_processor_runs(name.encode()):
            assert scaled(hooks, name, exponents, scalars) == products
