"""Fr, Fp and the tower over Fp against Python's integers and py_ecc, in all backends and in the device code of CUDA."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kernel_library import BACKENDS, Arithmetic, NotCanonical, P, R
from py_ecc import optimized_bn128 as bn
from reference_curve import (
    Fp2,
    fp2_add,
    fp2_bytes,
    fp2_inverse,
    fp2_is_square,
    fp2_mul,
    fp2_sub,
    fq12_bytes,
    fq12_from_bytes,
    word,
    words,
)
from sampling import examples

MODULI = {"fr": R, "fp": P}
X = 4965661367192848881


@pytest.fixture(scope="module", params=BACKENDS)
def arithmetic(request: pytest.FixtureRequest, testing_library: Path) -> Arithmetic:
    return Arithmetic(testing_library, request.param)


@pytest.fixture(scope="module", params=[*BACKENDS, "cuda"])
def shared_arithmetic(request: pytest.FixtureRequest, testing_library: Path) -> Arithmetic:
    """Of what the device has, too: its code compiled for the host."""
    return Arithmetic(testing_library, request.param)


def values(modulus: int) -> st.SearchStrategy[int]:
    """Return canonical values with those that stress carries and reductions."""
    edges = [0, 1, 2, 3, modulus - 1, modulus - 2, (modulus - 1) // 2, (modulus + 1) // 2, 2**64 - 1, 2**64]
    edges += [2**128 - 1, 2**192, 2**253, pow(2, 256, modulus), modulus - pow(2, 256, modulus), modulus - 2**64]
    limbs = st.lists(st.sampled_from([0, 1, 2**63, 2**64 - 1]), min_size=4, max_size=4)
    packed = limbs.map(lambda parts: sum(limb << 64 * i for i, limb in enumerate(parts)) % modulus)
    return st.one_of(st.sampled_from(edges), packed, st.integers(0, modulus - 1))


FP = values(P)
FP2: st.SearchStrategy[Fp2] = st.tuples(FP, FP)
FP12 = st.lists(FP, min_size=12, max_size=12).map(bn.FQ12)
any_field = pytest.mark.parametrize("field", ["fr", "fp"])


@any_field
@settings(max_examples=examples(100), deadline=None)
@given(data=st.data())
def test_prime_field__two_operands__equal_integers(
    shared_arithmetic: Arithmetic, field: str, data: st.DataObject
) -> None:
    modulus = MODULI[field]
    a, b = data.draw(values(modulus)), data.draw(values(modulus))

    def result(name: str) -> int:
        return words(shared_arithmetic.compute(f"field_{field}_{name}", word(a), word(b), out_bytes=32))[0]

    assert result("add") == (a + b) % modulus
    assert result("sub") == (a - b) % modulus
    assert result("mul") == a * b % modulus
    if field == "fr":
        assert result("pow") == pow(a, b, modulus)
    assert shared_arithmetic.predicate(f"field_{field}_equal", word(a), word(b)) == (a == b)


@any_field
@settings(max_examples=examples(100), deadline=None)
@given(data=st.data())
def test_prime_field__one_operand__equals_integers(
    shared_arithmetic: Arithmetic, field: str, data: st.DataObject
) -> None:
    modulus = MODULI[field]
    a = data.draw(values(modulus))

    def result(name: str) -> int:
        return words(shared_arithmetic.compute(f"field_{field}_{name}", word(a), out_bytes=32))[0]

    assert result("sqr") == a * a % modulus
    assert result("neg") == -a % modulus
    assert result("double") == 2 * a % modulus
    assert result("inv") == pow(a, modulus - 2, modulus)
    assert shared_arithmetic.predicate(f"field_{field}_is_zero", word(a)) == (a == 0)
    assert shared_arithmetic.predicate(f"field_{field}_equal", word(a), word(a))


@any_field
@pytest.mark.parametrize("excess", [0, 1, 2**64])
def test_prime_field__value_at_or_above_the_modulus__is_refused(
    shared_arithmetic: Arithmetic, field: str, excess: int
) -> None:
    for value in (MODULI[field] + excess, 2**256 - 1 - excess):
        with pytest.raises(NotCanonical):
            shared_arithmetic.compute(f"field_{field}_neg", word(value), out_bytes=32)


@settings(max_examples=examples(100), deadline=None)
@given(a=FP, b=FP, c=FP, d=FP)
def test_fp__product_of_sums_without_reduction__equals_integers(
    arithmetic: Arithmetic, a: int, b: int, c: int, d: int
) -> None:
    out = arithmetic.compute("field_fp_mul_lazy_sums", *map(word, (a, b, c, d)), out_bytes=32)
    assert words(out) == [(a + b) * (c + d) % P]


@settings(max_examples=examples(100), deadline=None)
@given(a=FP)
def test_fp__half_and_order__equal_integers(arithmetic: Arithmetic, a: int) -> None:
    assert words(arithmetic.compute("field_fp_halve", word(a), out_bytes=32)) == [a * pow(2, -1, P) % P]
    assert arithmetic.predicate("field_fp_is_larger_half", word(a)) == (a > (P - 1) // 2)


@settings(max_examples=examples(100), deadline=None)
@given(batch=st.lists(FP, min_size=16, max_size=16))
def test_fp__several_roots_at_once__are_the_power_of_each(arithmetic: Arithmetic, batch: list[int]) -> None:
    out = arithmetic.compute("field_fp_sqrt_lanes", *map(word, batch), out_bytes=32 * 16)
    assert words(out) == [pow(a, (P + 1) // 4, P) for a in batch]


def fp2_result(arithmetic: Arithmetic, name: str, *operands: bytes) -> Fp2:
    c0, c1 = words(arithmetic.compute(f"field_fp2_{name}", *operands, out_bytes=64))
    return (c0, c1)


@settings(max_examples=examples(100), deadline=None)
@given(a=FP2, b=FP2)
def test_fp2__field_operations__equal_integers(shared_arithmetic: Arithmetic, a: Fp2, b: Fp2) -> None:
    x, y = fp2_bytes(a), fp2_bytes(b)
    assert fp2_result(shared_arithmetic, "add", x, y) == fp2_add(a, b)
    assert fp2_result(shared_arithmetic, "sub", x, y) == fp2_sub(a, b)
    assert fp2_result(shared_arithmetic, "mul", x, y) == fp2_mul(a, b)
    assert fp2_result(shared_arithmetic, "sqr", x) == fp2_mul(a, a)
    assert fp2_result(shared_arithmetic, "neg", x) == fp2_sub((0, 0), a)
    assert fp2_result(shared_arithmetic, "double", x) == fp2_add(a, a)
    assert fp2_result(shared_arithmetic, "inv", x) == fp2_inverse(a)
    assert shared_arithmetic.predicate("field_fp2_is_zero", x) == (a == (0, 0))
    assert shared_arithmetic.predicate("field_fp2_equal", x, y) == (a == b)


@settings(max_examples=examples(100), deadline=None)
@given(a=FP2, c=FP)
def test_fp2__operations_of_the_host__equal_integers(arithmetic: Arithmetic, a: Fp2, c: int) -> None:
    x = fp2_bytes(a)
    half = pow(2, -1, P)
    assert fp2_result(arithmetic, "halve", x) == fp2_mul(a, (half, 0))
    assert fp2_result(arithmetic, "conj", x) == (a[0], -a[1] % P)
    assert fp2_result(arithmetic, "mul_xi", x) == fp2_mul(a, (9, 1))
    assert fp2_result(arithmetic, "mul_fp", x, word(c)) == fp2_mul(a, (c, 0))
    assert arithmetic.predicate("field_fp2_is_larger_half", x) == ((a[1] or a[0]) > (P - 1) // 2)


SHAPES = st.sampled_from(["square", "any", "real", "imaginary"])


@settings(max_examples=examples(100), deadline=None)
@given(batch=st.lists(st.tuples(FP2, SHAPES), min_size=16, max_size=16))
def test_fp2__square_roots__exist_exactly_for_squares(arithmetic: Arithmetic, batch: list[tuple[Fp2, str]]) -> None:
    shapes: dict[str, Callable[[Fp2], Fp2]] = {
        "square": lambda a: fp2_mul(a, a),
        "any": lambda a: a,
        "real": lambda a: (a[0], 0),
        "imaginary": lambda a: (0, a[1]),
    }
    squares = [shapes[shape](a) for a, shape in batch]
    found, out = arithmetic.answer("field_fp2_sqrt_lanes", *map(fp2_bytes, squares), out_bytes=64 * 16)
    roots = words(out)
    for i, value in enumerate(squares):
        assert bool(found >> i & 1) == fp2_is_square(value)
        if fp2_is_square(value):
            root = (roots[2 * i], roots[2 * i + 1])
            assert fp2_mul(root, root) == value


def fp6(value: Any) -> bytes:
    """Return the part of an element of Fp12 without odd powers of w."""
    return fq12_bytes(value)[:192]


def even(coefficients: list[int]) -> Any:
    """Return an element of Fp6 as one of Fp12: six values at w^0, w^2, ..., w^10."""
    return bn.FQ12([coefficients[i // 2] if i % 2 == 0 else 0 for i in range(12)])


FP6 = st.lists(FP, min_size=6, max_size=6).map(even)
W = bn.FQ12([0, 1, *([0] * 10)])


@settings(max_examples=examples(100), deadline=None)
@given(a=FP6, b=FP6)
def test_fp6__operations__equal_py_ecc(arithmetic: Arithmetic, a: Any, b: Any) -> None:
    def result(name: str, *operands: bytes) -> bytes:
        return arithmetic.compute(f"field_fp6_{name}", *operands, out_bytes=192)

    assert result("mul", fp6(a), fp6(b)) == fp6(a * b)
    assert result("mul_v", fp6(a)) == fp6(a * W * W)
    sparse = fq12_from_bytes(fp6(b)[:128] + bytes(256))
    assert result("mul_sparse", fp6(a), fp6(b)[:128]) == fp6(a * sparse)
    inverse = result("inv", fp6(a))
    if a == bn.FQ12.zero():
        assert inverse == bytes(192)
    else:
        assert fq12_from_bytes(inverse + bytes(192)) * a == bn.FQ12.one()


@settings(max_examples=examples(100), deadline=None)
@given(a=FP12, b=FP12, line=st.tuples(FP2, FP2, FP2))
def test_fp12__operations__equal_py_ecc(arithmetic: Arithmetic, a: Any, b: Any, line: tuple[Fp2, Fp2, Fp2]) -> None:
    def result(name: str, *operands: bytes) -> Any:
        return fq12_from_bytes(arithmetic.compute(f"field_fp12_{name}", *operands, out_bytes=384))

    x, y = fq12_bytes(a), fq12_bytes(b)
    assert result("mul", x, y) == a * b
    assert result("sqr", x) == a * a
    odd_negated = [c if i % 2 == 0 else -c for i, c in enumerate(a.coeffs)]
    assert result("conj", x) == bn.FQ12(odd_negated)
    zero = bytes(64)
    at_w0, at_w1, at_w3 = map(fp2_bytes, line)
    sparse = fq12_from_bytes(at_w0 + zero + zero + at_w1 + at_w3 + zero)
    assert result("mul_line", x, at_w0, at_w1, at_w3) == a * sparse
    assert arithmetic.predicate("field_fp12_equal", x, y) == (a == b)
    if a == bn.FQ12.zero():
        assert result("inv", x) == a
    else:
        assert result("inv", x) * a == bn.FQ12.one()


@settings(max_examples=examples(10), deadline=None)
@given(a=FP12)
def test_fp12__frobenius__is_the_power_p(arithmetic: Arithmetic, a: Any) -> None:
    out = arithmetic.compute("field_fp12_frobenius", fq12_bytes(a), out_bytes=384)
    assert fq12_from_bytes(out) == a**P


@settings(max_examples=examples(5), deadline=None)
@given(a=FP12.filter(lambda a: a != bn.FQ12.zero()))
def test_fp12__cyclotomic_operations__equal_general_ones(arithmetic: Arithmetic, a: Any) -> None:
    power = a ** (P**6 - 1)
    cyclotomic = power ** (P**2 + 1)
    x = fq12_bytes(cyclotomic)
    assert fq12_from_bytes(arithmetic.compute("field_fp12_sqr_cyclotomic", x, out_bytes=384)) == cyclotomic**2
    assert fq12_from_bytes(arithmetic.compute("field_fp12_pow_x", x, out_bytes=384)) == cyclotomic**X
