/* ntt/scalar_impl.h - the stages of transforms without SIMD. Time does not depend on values. */
#ifndef G16_NTT_SCALAR_IMPL_H
#define G16_NTT_SCALAR_IMPL_H

#include "ntt/roots_impl.h"

/* One block of inverse butterflies: (u, v) -> (u + w v, u - w v) with w = -negated, so the signs are swapped. */
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

/* Two inverse stages at once (radix 4, half the memory traffic) on the first `width` columns of block `block`: four rows of
 * `quarter` elements. */
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
    const fr w = table[ntt_negated_inverse_index(block)];
    const fr w0 = table[ntt_negated_inverse_index(2 * block)];
    const fr w1 = table[ntt_negated_inverse_index(2 * block + 1)];
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

/* Two forward stages at once, the inverse of ntt_inverse_radix4() up to a factor. */
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

/* All inverse stages of block `block` of 2^log2 elements, depth first: each of four quarters is finished while it is in cache. */
static void ntt_inverse_stages(fr *a, uint32_t log2, size_t block, const fr *table) {
    if (log2 == 0) return;
    if (log2 == 1) {
        if (block == 0) {
            ntt_inverse_block_one(a, a + 1, 1);
        } else {
            ntt_inverse_block(a, a + 1, 1, &table[ntt_negated_inverse_index(block)]);
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

#endif
