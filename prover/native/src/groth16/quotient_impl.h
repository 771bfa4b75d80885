/* groth16/quotient_impl.h - the quotient polynomial h = (A B - C) / (X^n - 1); included by backend.c.
 *
 * A B = C holds on the domain, and deg C < n. On the coset psi * omega^j, where X^n = -1, the interpolant P of the products A B
 * satisfies P = C - 2h as polynomials of degree below n, so h = (C - P) / 2. C therefore needs no coset transform: six transforms
 * in all. Factors of n are removed at the end.
 */
#ifndef G16_GROTH16_QUOTIENT_IMPL_H
#define G16_GROTH16_QUOTIENT_IMPL_H

#include "ntt/transform_impl.h"
#include "key/fold_shape.h"

/* values on omega^j (natural order) -> n times the values on psi * omega^j (natural order). */
static void quotient_to_coset(fr *values, uint32_t log2, const fr *table) {
    ntt_inverse(values, log2, table);
    ntt_scale(values, table, (size_t)1 << log2);
    ntt_forward(values, log2, table);
}

/* 1 / n^2, which scales products of two values that each carry a factor of n. */
static void quotient_product_scale(fr *scale, uint32_t log2) {
    fr_from_u64(scale, (uint64_t)1 << log2);
    fr_sqr(scale, scale);
    fr_inv(scale, scale);
}

/* a, b: n times the values on the coset; c: n times the coefficients, bit-reversed. The result in a is 2n times the coefficients
 * of h, bit-reversed and reduced. b and c are overwritten. */
static void quotient_combine(fr *a, const fr *b, fr *c, uint32_t log2, const fr *table) {
    fr scale;
    quotient_product_scale(&scale, log2);
    ntt_multiply(a, b, &scale, (size_t)1 << log2);
    ntt_inverse(a, log2, table);
    ntt_from_coset(a, c, 0, (size_t)1 << log2, table);
}

/* ---- folded keys ------------------------------------------------------------------- */

/* From this size on all parts of a shape are large enough for SIMD lanes. */
#define QUOTIENT_LANES_LOG2 (NTT_LANES_MIN_LOG2 + 5)

static inline int quotient_is_whole_coset(uint32_t log2, const fold_shape *shape) {
    return shape->parts_count == 1 && shape->parts[0].log2 == log2;
}

/* Splits the coefficients of block `block`, of `size` elements, into those of the block's parts of the shape, which have `points`
 * elements together. At the end of a part a polynomial modulo X^2s - c^2 is split into those modulo X^s - c (this part) and X^s +
 * c. spare: size / 2 elements. */
static void quotient_split(fr *values, fr *spare, size_t size, size_t points, size_t block, const fr *table) {
    fr *from = values, *to = values;
    for (size_t half = size / 2, left = points; left; half /= 2) {
        if (2 * half == NTT_LANES_MIN) ntt_reduce(from, NTT_LANES_MIN_LOG2); /* scalar code continues, which needs reduced values */
        if (left & half) {
            left -= half;
            ntt_split(to, left ? spare : NULL, from, half, table + block * half);
            to += half;
        } else {
            ntt_split(spare, NULL, from, half, table + block * half);
        }
        from = spare;
    }
}

/* values on omega^j (natural order) -> n times the values at the points of the shape. spare: n / 2 elements. */
static void quotient_to_parts(fr *values, fr *spare, uint32_t log2, const fold_shape *shape, const fr *table) {
    const size_t n = (size_t)1 << log2;
    ntt_inverse(values, log2, table);
    ntt_scale(values, table, n);
    if (quotient_is_whole_coset(log2, shape)) {
        ntt_forward(values, log2, table);
        return;
    }
    quotient_split(values, spare, n, shape->points, 0, table);
    for (uint32_t i = 0; i < shape->parts_count; i++) {
        ntt_forward(values + shape->parts[i].first, shape->parts[i].log2, table);
    }
}

/* a[i] *= b[i] at all points, reduced. */
static void quotient_multiply_parts(fr *a, fr *b, uint32_t log2, const fold_shape *shape) {
    if (log2 >= QUOTIENT_LANES_LOG2) {
        ntt_multiply_reduced(a, b, shape->points);
        return;
    }
    for (uint32_t i = 0; i < shape->parts_count; i++) {
        ntt_reduce(a + shape->parts[i].first, shape->parts[i].log2);
        ntt_reduce(b + shape->parts[i].first, shape->parts[i].log2);
    }
    for (uint32_t i = 0; i < shape->points; i++) fr_mul(&a[i], &a[i], &b[i]);
}

/* The plain number mod r that scales the result to h, 1 / (2n), or, with a folded key, to products of values, 1 / n^2. */
static void quotient_unit(uint64_t unit[4], uint32_t log2, int folded) {
    fr t;
    fr_from_u64(&t, (uint64_t)(folded ? 1 : 2) << log2);
    if (folded) fr_sqr(&t, &t);
    fr_inv(&t, &t);
    fr_to_limbs(unit, &t);
}

#endif
