/* ntt/transform_impl.h - number-theoretic transforms over Fr for one domain; included by backend.c.
 *
 * For n, psi, omega and the table see ntt/roots_impl.h.
 * inverse: values on omega^j in natural order -> n times the coefficients in bit-reversed order.
 * forward: coefficients in bit-reversed order -> values in natural order.
 * A forward transform after an inverse one needs no reordering, and key files store Z in bit-reversed order.
 * Time does not depend on values.
 */
#ifndef G16_NTT_TRANSFORM_IMPL_H
#define G16_NTT_TRANSFORM_IMPL_H

#include "ntt/roots_impl.h"
#include "ntt/scalar_impl.h"
#if defined(G16_LANES)
#include "ntt/lanes_impl.h"
#endif

/* Smaller transforms and lists use scalar code. */
#define NTT_LANES_MIN_LOG2 6
#define NTT_LANES_MIN ((size_t)1 << NTT_LANES_MIN_LOG2)

#if defined(G16_LANES)
#define NTT_REGION LANES_REGION
#else
#define NTT_REGION ((void)0)
#endif

/* Tests count the butterflies of a call. */
#ifndef NTT_COUNT
#define NTT_COUNT(butterflies) ((void)0)
#endif

/* In backends with SIMD lanes the following functions take and return loose values (field/fr8_impl.h) when 2^log2, or count, is
 * at least 64; reduced values are loose too. ntt_reduce() reduces them. Counts from 64 on are multiples of 64. */

static inline void ntt_reduce(fr *a, uint32_t log2) {
#if defined(G16_LANES)
    if (log2 >= NTT_LANES_MIN_LOG2) ntt_lanes_reduce(a, (size_t)1 << log2);
#else
    (void)a, (void)log2;
#endif
}

/* All inverse stages of block `block`, of 2^log2 elements. */
static inline void ntt_inverse_block_stages(fr *a, uint32_t log2, size_t block, const fr *table) {
    NTT_COUNT((size_t)log2 << log2 >> 1);
#if defined(G16_LANES)
    if (log2 >= NTT_LANES_MIN_LOG2) {
        LANES_REGION;
        ntt_lanes_inverse_stages(a, log2, block, table);
        return;
    }
#endif
    ntt_inverse_stages(a, log2, block, table);
}

static inline void ntt_forward_block_stages(fr *a, uint32_t log2, size_t block, const fr *table) {
    NTT_COUNT((size_t)log2 << log2 >> 1);
#if defined(G16_LANES)
    if (log2 >= NTT_LANES_MIN_LOG2) {
        LANES_REGION;
        ntt_lanes_forward_stages(a, log2, block, table);
        return;
    }
#endif
    ntt_forward_stages(a, log2, block, table);
}

/* In place: values on omega^j in natural order -> n times the coefficients in bit-reversed order. */
static inline void ntt_inverse(fr *a, uint32_t log2, const fr *table) { ntt_inverse_block_stages(a, log2, 0, table); }

/* In place: coefficients in bit-reversed order -> values on omega^j in natural order. */
static inline void ntt_forward(fr *a, uint32_t log2, const fr *table) { ntt_forward_block_stages(a, log2, 0, table); }

/* a[i] *= factors[i]. With the table as factors: the coefficient of X^bitrev(i) is multiplied by psi^bitrev(i), so that a forward
 * transform then gives values on psi * omega^j. */
static inline void ntt_scale(fr *a, const fr *factors, size_t count) {
#if defined(G16_LANES)
    if (count >= NTT_LANES_MIN) {
        LANES_REGION;
        ntt_lanes_multiply(a, factors, count);
        return;
    }
#endif
    for (size_t i = 0; i < count; i++) fr_mul(&a[i], &a[i], &factors[i]);
}

/* a[i] *= b[i] * factor */
static inline void ntt_multiply(fr *a, const fr *b, const fr *factor, size_t count) {
#if defined(G16_LANES)
    if (count >= NTT_LANES_MIN) {
        LANES_REGION;
        ntt_lanes_multiply_scaled(a, b, factor, count);
        return;
    }
#endif
    for (size_t i = 0; i < count; i++) {
        fr_mul(&a[i], &a[i], &b[i]);
        fr_mul(&a[i], &a[i], factor);
    }
}

/* even[i] = from[2i] + from[2i + 1], odd[i] = (from[2i] - from[2i + 1]) table[i] for i < half. Either output may start at `from`;
 * odd may be NULL. Values are loose only when half is at least 64. */
static inline void ntt_split(fr *even, fr *odd, const fr *from, size_t half, const fr *table) {
#if defined(G16_LANES)
    if (half >= NTT_LANES_MIN) {
        LANES_REGION;
        ntt_lanes_split(even, odd, from, half, table);
        return;
    }
#endif
    for (size_t i = 0; i < half; i++) {
        const fr u = from[2 * i], v = from[2 * i + 1];
        fr_add(&even[i], &u, &v);
        if (!odd) continue;
        fr_sub(&odd[i], &u, &v);
        fr_mul(&odd[i], &odd[i], &table[i]);
    }
}

/* a[i] *= b[i], reduced; count is a multiple of 64. */
static inline void ntt_multiply_reduced(fr *a, const fr *b, size_t count) {
#if defined(G16_LANES)
    LANES_REGION;
    ntt_lanes_multiply(a, b, count);
    ntt_lanes_reduce(a, count);
#else
    for (size_t i = 0; i < count; i++) fr_mul(&a[i], &a[i], &b[i]);
#endif
}

/* a[i] = c[i] - psi^-bitrev(i) a[i] for first <= i < end, reduced. c may change from loose to reduced values. */
static inline void ntt_from_coset(fr *a, fr *c, size_t first, size_t end, const fr *table) {
#if defined(G16_LANES)
    if (end - first >= NTT_LANES_MIN) {
        LANES_REGION;
        const size_t lanes_first = first ? first : 2 * FP8_LANES;
        ntt_lanes_from_coset(a, c, lanes_first, end, table);
        if (first) return;
        end = lanes_first;
        ntt_lanes_reduce(a, end);
        ntt_lanes_reduce(c, end);
    }
#endif
    if (first == 0) fr_sub(&a[0], &c[0], &a[0]);
    for (size_t i = first ? first : 1; i < end; i++) {
        fr t; /* psi^-k is the negated entry: the two signs cancel */
        fr_mul(&t, &a[i], &table[ntt_negated_inverse_index(i)]);
        fr_add(&a[i], &c[i], &t);
    }
}

#endif
