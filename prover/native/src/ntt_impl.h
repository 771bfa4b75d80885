/* ntt_impl.h - number-theoretic transforms over Fr for one domain; included by backend.c.
 *
 * Let n = 2^k, psi a root of unity of order 2n and omega = psi^2. The table holds psi^bitrev(i) for i < n in
 * bit-reversed order. Its first half serves every stage of a cyclic transform of size n with one twiddle
 * factor per block of butterflies; the whole of it is the coset factors psi^k in bit-reversed order. Inverse
 * powers are the negated entries of the same power-of-two segment read backwards.
 *
 * inverse: values on omega^j, natural order -> n times the coefficients, bit-reversed order.
 * forward: coefficients, bit-reversed order -> values, natural order.
 * So a forward after an inverse needs no reordering, and key files store Z in bit-reversed order.
 *
 * Time does not depend on values.
 */
#ifndef G16_NTT_IMPL_H
#define G16_NTT_IMPL_H

#include "fr.h"
#include "key.h"

/* Blocks up to this many elements run all their stages while they are in the first-level caches. */
#define NTT_CACHED_LOG2 9

static inline size_t ntt_reverse_bits(size_t value, uint32_t bits) {
    size_t r = 0;
    for (uint32_t i = 0; i < bits; i++) r |= ((value >> i) & 1) << (bits - 1 - i);
    return r;
}

/* A root of unity of order 2^log2, for log2 <= FR_TWO_ADICITY. */
static inline void ntt_root(fr *r, uint32_t log2) {
    *r = FR_ROOT_28;
    for (uint32_t i = log2; i < FR_TWO_ADICITY; i++) fr_sqr(r, r);
}

/* table[i] = psi^bitrev(i) for i < 2^log2, where psi has order 2^(log2 + 1). Segment [2^s, 2^(s+1)) is the
 * segment before it times psi^(n / 2^(s+1)). */
static void ntt_fill_table(fr *table, uint32_t log2) {
    table[0] = FR_ONE;
    for (uint32_t s = 0; s < log2; s++) {
        fr step;
        ntt_root(&step, s + 2); /* psi^(n / 2^(s+1)) has order 2^(s+2) */
        for (size_t i = 0; i < ((size_t)1 << s); i++) fr_mul(&table[((size_t)1 << s) + i], &table[i], &step);
    }
}

/* The place whose entry is -1/table[i], for i > 0. */
static inline size_t ntt_negated_inverse_place(size_t i) {
    const size_t segment = (size_t)1 << (63 - __builtin_clzll(i));
    return 3 * segment - 1 - i;
}

/* One inverse butterfly block: (u, v) -> (u + w v, u - w v) where w = -twiddle, so signs are swapped. */
static inline void ntt_inverse_block(fr *low, fr *high, size_t half, const fr *negated) {
    for (size_t i = 0; i < half; i++) {
        fr t, u = low[i];
        fr_mul(&t, &high[i], negated);
        fr_sub(&low[i], &u, &t);
        fr_add(&high[i], &u, &t);
    }
}

static inline void ntt_inverse_block_one(fr *low, fr *high, size_t half) {
    for (size_t i = 0; i < half; i++) {
        fr u = low[i], v = high[i];
        fr_add(&low[i], &u, &v);
        fr_sub(&high[i], &u, &v);
    }
}

static inline void ntt_forward_block(fr *low, fr *high, size_t half, const fr *twiddle) {
    for (size_t i = 0; i < half; i++) {
        fr t, u = low[i], v = high[i];
        fr_add(&low[i], &u, &v);
        fr_sub(&t, &u, &v);
        fr_mul(&high[i], &t, twiddle);
    }
}

/* Two inverse stages at once on the first `width` columns of block `block`, four rows of `quarter` elements: radix 4 halves the
 * memory traffic. */
static inline void ntt_inverse_radix4(fr *a, size_t quarter, size_t width, size_t block, const fr *table) {
    fr *a0 = a, *a1 = a + quarter, *a2 = a + 2 * quarter, *a3 = a + 3 * quarter;
    if (block == 0) {
        const fr *w = &table[1]; /* psi^(n/2) = -1/psi^(n/2) */
        for (size_t i = 0; i < width; i++) {
            fr s02, d02, s13, d13, t;
            fr_add(&s02, &a0[i], &a2[i]);
            fr_sub(&d02, &a0[i], &a2[i]);
            fr_add(&s13, &a1[i], &a3[i]);
            fr_sub(&d13, &a1[i], &a3[i]);
            fr_mul(&t, &d13, w);
            fr_add(&a0[i], &s02, &s13);
            fr_sub(&a1[i], &s02, &s13);
            fr_sub(&a2[i], &d02, &t);
            fr_add(&a3[i], &d02, &t);
        }
        return;
    }
    const fr w = table[ntt_negated_inverse_place(block)];
    const fr w0 = table[ntt_negated_inverse_place(2 * block)];
    const fr w1 = table[ntt_negated_inverse_place(2 * block + 1)];
    for (size_t i = 0; i < width; i++) {
        fr t2, t3, s02, d02, s13, d13;
        fr_mul(&t2, &a2[i], &w);
        fr_mul(&t3, &a3[i], &w);
        fr_sub(&s02, &a0[i], &t2);
        fr_add(&d02, &a0[i], &t2);
        fr_sub(&s13, &a1[i], &t3);
        fr_add(&d13, &a1[i], &t3);
        fr_mul(&s13, &s13, &w0);
        fr_mul(&d13, &d13, &w1);
        fr_sub(&a0[i], &s02, &s13);
        fr_add(&a1[i], &s02, &s13);
        fr_sub(&a2[i], &d02, &d13);
        fr_add(&a3[i], &d02, &d13);
    }
}

/* Two forward stages at once, the mirror image. */
static inline void ntt_forward_radix4(fr *a, size_t quarter, size_t width, size_t block, const fr *table) {
    fr *a0 = a, *a1 = a + quarter, *a2 = a + 2 * quarter, *a3 = a + 3 * quarter;
    const fr w0 = table[2 * block], w1 = table[2 * block + 1], w = table[block];
    for (size_t i = 0; i < width; i++) {
        fr s01, d01, s23, d23;
        fr_add(&s01, &a0[i], &a1[i]);
        fr_sub(&d01, &a0[i], &a1[i]);
        fr_add(&s23, &a2[i], &a3[i]);
        fr_sub(&d23, &a2[i], &a3[i]);
        if (block) fr_mul(&d01, &d01, &w0);
        fr_mul(&d23, &d23, &w1);
        fr_add(&a0[i], &s01, &s23);
        fr_add(&a1[i], &d01, &d23);
        fr_sub(&s01, &s01, &s23);
        fr_sub(&d01, &d01, &d23);
        if (block) {
            fr_mul(&a2[i], &s01, &w);
            fr_mul(&a3[i], &d01, &w);
        } else {
            a2[i] = s01;
            a3[i] = d01;
        }
    }
}

/* All stages of block `block` (of 2^log2 elements) of an inverse transform, depth first: four quarters, each
 * done to the end while it is in cache. */
static void ntt_inverse_stages(fr *a, uint32_t log2, size_t block, const fr *table) {
    if (log2 == 0) return;
    if (log2 == 1) {
        if (block == 0) {
            ntt_inverse_block_one(a, a + 1, 1);
        } else {
            ntt_inverse_block(a, a + 1, 1, &table[ntt_negated_inverse_place(block)]);
        }
        return;
    }
    if (log2 > NTT_CACHED_LOG2) {
        const size_t quarter = (size_t)1 << (log2 - 2);
        ntt_inverse_radix4(a, quarter, quarter, block, table);
        for (size_t i = 0; i < 4; i++) ntt_inverse_stages(a + i * quarter, log2 - 2, 4 * block + i, table);
        return;
    }
    uint32_t left = log2;
    size_t blocks = 1;
    for (; left >= 2; left -= 2, blocks *= 4) {
        const size_t quarter = (size_t)1 << (left - 2);
        for (size_t b = 0; b < blocks; b++) {
            ntt_inverse_radix4(a + (b << left), quarter, quarter, block * blocks + b, table);
        }
    }
    if (left) {
        for (size_t b = 0; b < blocks; b++) ntt_inverse_stages(a + 2 * b, 1, block * blocks + b, table);
    }
}

static void ntt_forward_stages(fr *a, uint32_t log2, size_t block, const fr *table) {
    if (log2 == 0) return;
    if (log2 == 1) {
        ntt_forward_block(a, a + 1, 1, &table[block]);
        return;
    }
    if (log2 > NTT_CACHED_LOG2) {
        const size_t quarter = (size_t)1 << (log2 - 2);
        for (size_t i = 0; i < 4; i++) ntt_forward_stages(a + i * quarter, log2 - 2, 4 * block + i, table);
        ntt_forward_radix4(a, quarter, quarter, block, table);
        return;
    }
    const uint32_t odd = log2 & 1;
    size_t blocks = (size_t)1 << (log2 - odd);
    if (odd) {
        for (size_t b = 0; b < blocks; b++) ntt_forward_stages(a + 2 * b, 1, block * blocks + b, table);
    }
    for (uint32_t size = odd + 2; size <= log2; size += 2) {
        const size_t quarter = (size_t)1 << (size - 2);
        blocks /= 4;
        for (size_t b = 0; b < blocks; b++) {
            ntt_forward_radix4(a + (b << size), quarter, quarter, block * blocks + b, table);
        }
    }
}

/* Smaller transforms and lists are left to scalar code. */
#define NTT_LANES_MIN_LOG2 6
#define NTT_LANES_MIN ((size_t)1 << NTT_LANES_MIN_LOG2)

#if defined(G16_LANES)
#include "ntt_lanes_impl.h"
#define NTT_REGION LANES_REGION
#else
#define NTT_REGION ((void)0)
#endif

/* The rest works on values that are loose where the backend has lanes (fr8_impl.h) and 2^log2, or count, is at least 64; reduced
 * ones are loose too. ntt_reduce makes them reduced. Counts from 64 on are multiples of 64. */

static inline void ntt_reduce(fr *a, uint32_t log2) {
#if defined(G16_LANES)
    if (log2 >= NTT_LANES_MIN_LOG2) ntt_lanes_reduce(a, (size_t)1 << log2);
#else
    (void)a, (void)log2;
#endif
}

/* All stages of block `block`, of 2^log2 elements, of an inverse transform. */
static inline void ntt_inverse_block_stages(fr *a, uint32_t log2, size_t block, const fr *table) {
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
#if defined(G16_LANES)
    if (log2 >= NTT_LANES_MIN_LOG2) {
        LANES_REGION;
        ntt_lanes_forward_stages(a, log2, block, table);
        return;
    }
#endif
    ntt_forward_stages(a, log2, block, table);
}

/* Values on omega^j in natural order -> n times the coefficients in bit-reversed order, in place. */
static inline void ntt_inverse(fr *a, uint32_t log2, const fr *table) { ntt_inverse_block_stages(a, log2, 0, table); }

/* Coefficients in bit-reversed order -> values on omega^j in natural order, in place. */
static inline void ntt_forward(fr *a, uint32_t log2, const fr *table) { ntt_forward_block_stages(a, log2, 0, table); }

/* a[i] *= factors[i]. With the table: place i holds the coefficient of X^bitrev(i) and is multiplied by psi^bitrev(i), so that a
 * forward transform then gives values on psi * omega^j. */
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

/* even[i] = from[2i] + from[2i + 1], odd[i] = (from[2i] - from[2i + 1]) table[i] for i < half. Either may begin where from does; odd
 * may be NULL. Values are loose only where half is at least 64. */
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

/* a[i] = c[i] - psi^-bitrev(i) a[i] for first <= i < end, reduced. c may change, but only from loose to reduced. */
static inline void ntt_leave_coset(fr *a, fr *c, size_t first, size_t end, const fr *table) {
#if defined(G16_LANES)
    if (end - first >= NTT_LANES_MIN) {
        LANES_REGION;
        const size_t lanes_first = first ? first : 2 * FP8_LANES;
        ntt_lanes_leave_coset(a, c, lanes_first, end, table);
        if (first) return;
        end = lanes_first;
        ntt_lanes_reduce(a, end);
        ntt_lanes_reduce(c, end);
    }
#endif
    if (first == 0) fr_sub(&a[0], &c[0], &a[0]);
    for (size_t i = first ? first : 1; i < end; i++) {
        fr t; /* psi^-k is the negated entry: two signs cancel */
        fr_mul(&t, &a[i], &table[ntt_negated_inverse_place(i)]);
        fr_add(&a[i], &c[i], &t);
    }
}

#endif
