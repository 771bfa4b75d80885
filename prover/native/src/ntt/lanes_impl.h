/* ntt/lanes_impl.h - the transforms of ntt/transform_impl.h in eight SIMD lanes.
 *
 * Passes over blocks of at least 16 elements process eight neighbours at once, which share their twiddle factors. The three
 * stages of blocks of 8 elements process eight blocks at once, one per lane. Between passes values are loose (field/fr8_impl.h);
 * the bounds noted at the right are multiples of r.
 */
#ifndef G16_NTT_LANES_IMPL_H
#define G16_NTT_LANES_IMPL_H

#include "field/fr8_impl.h"
#include "ntt/roots_impl.h"

/* Elements that one call of the three last (or first) stages processes. */
#define NTT_LANES_REGION 64

/* Reduces loose values to those below r. */
static void ntt_lanes_reduce(fr *a, size_t count) {
    for (size_t i = 0; i < count; i += FP8_LANES) {
        fr8 x;
        fr8_load(&x, a + i);
        fr8_reduce(&x);
        fr8_store(a + i, &x);
    }
}

/* ---- inverse -------------------------------------------------------------------- */

static void ntt_lanes_inverse_radix4_first(fr *a, size_t quarter, size_t width, const fr *table) {
    fr8 w, x0, x1, x2, x3, s02, d02, s13, d13;
    fr8_broadcast_factor(&w, &table[1]); /* psi^(n/2) = -1/psi^(n/2) */
    for (size_t i = 0; i < width; i += FP8_LANES) {
        fr8_load(&x0, a + i);
        fr8_load(&x1, a + i + quarter);
        fr8_load(&x2, a + i + 2 * quarter);
        fr8_load(&x3, a + i + 3 * quarter);
        fr8_add_raw(&s02, &x0, &x2);
        fr8_sub_raw(&d02, &x0, &x2, FR8_4R);
        fr8_add_raw(&s13, &x1, &x3);
        fr8_sub_raw(&d13, &x1, &x3, FR8_4R);
        fr8_reduce_loose(&s02);
        fr8_reduce_loose(&d02);
        fr8_reduce_loose(&s13);
        fr8_carry(&d13);          /* < 6.2 */
        fr8_mul(&d13, &d13, &w);  /* < 2.2 */
        fr8_add_raw(&x0, &s02, &s13);
        fr8_sub_raw(&x1, &s02, &s13, FR8_4R);
        fr8_sub_raw(&x2, &d02, &d13, FR8_4R);
        fr8_add_raw(&x3, &d02, &d13);
        fr8_reduce_loose(&x0);
        fr8_reduce_loose(&x1);
        fr8_reduce_loose(&x2);
        fr8_reduce_loose(&x3);
        fr8_store(a + i, &x0);
        fr8_store(a + i + quarter, &x1);
        fr8_store(a + i + 2 * quarter, &x2);
        fr8_store(a + i + 3 * quarter, &x3);
    }
}

/* Two stages of the first `width` columns (a multiple of 8) of block `block`: four rows of `quarter` elements. */
static void ntt_lanes_inverse_radix4(fr *a, size_t quarter, size_t width, size_t block, const fr *table) {
    if (block == 0) {
        ntt_lanes_inverse_radix4_first(a, quarter, width, table);
        return;
    }
    fr8 w, w0, w1, x0, x1, x2, x3, s13, d13;
    fr8_broadcast_factor(&w, &table[ntt_negated_inverse_index(block)]);
    fr8_broadcast_factor(&w0, &table[ntt_negated_inverse_index(2 * block)]);
    fr8_broadcast_factor(&w1, &table[ntt_negated_inverse_index(2 * block + 1)]);
    for (size_t i = 0; i < width; i += FP8_LANES) {
        fr8_load(&x2, a + i + 2 * quarter);
        fr8_load(&x3, a + i + 3 * quarter);
        fr8_mul_two(&x2, &x2, &w, &x3, &x3, &w); /* < 1.5 */
        fr8_load(&x0, a + i);
        fr8_load(&x1, a + i + quarter);
        fr8_sub_raw(&s13, &x1, &x3, FR8_2R);   /* < 4.2 */
        fr8_add_raw(&d13, &x1, &x3);           /* < 3.7 */
        fr8_carry(&s13);
        fr8_carry(&d13);
        fr8_mul_two(&s13, &s13, &w0, &d13, &d13, &w1); /* < 1.9 */
        fr8_sub_raw(&x1, &x0, &x2, FR8_2R);    /* < 4.2 */
        fr8_add_raw(&x3, &x0, &x2);            /* < 3.7 */
        fr8_sub_raw(&x0, &x1, &s13, FR8_2R);   /* < 6.2 */
        fr8_add_raw(&x1, &x1, &s13);
        fr8_sub_raw(&x2, &x3, &d13, FR8_2R);
        fr8_add_raw(&x3, &x3, &d13);
        fr8_reduce_loose(&x0);
        fr8_reduce_loose(&x1);
        fr8_reduce_loose(&x2);
        fr8_reduce_loose(&x3);
        fr8_store(a + i, &x0);
        fr8_store(a + i + quarter, &x1);
        fr8_store(a + i + 2 * quarter, &x2);
        fr8_store(a + i + 3 * quarter, &x3);
    }
}

/* One stage of a block of 16 elements. */
static void ntt_lanes_inverse_radix2(fr *a, size_t block, const fr *table) {
    fr8 w, u, v, t;
    fr8_load(&u, a);
    fr8_load(&v, a + FP8_LANES);
    if (block == 0) {
        fr8_add_raw(&t, &u, &v);
        fr8_sub_raw(&v, &u, &v, FR8_4R);
    } else {
        fr8_broadcast_factor(&w, &table[ntt_negated_inverse_index(block)]);
        fr8_mul(&v, &v, &w);                /* < 1.5 */
        fr8_sub_raw(&t, &u, &v, FR8_2R);
        fr8_add_raw(&v, &u, &v);
    }
    fr8_reduce_loose(&t);
    fr8_reduce_loose(&v);
    fr8_store(a, &t);
    fr8_store(a + FP8_LANES, &v);
}

/* (u, v) -> (u - t, u + t); values are loose before and after. */
LANES_INLINE void ntt_lanes_inverse_sums(fr8 *u, fr8 *v, const fr8 *t) {
    fr8_add_raw(v, u, t);
    fr8_sub_raw(u, u, t, FR8_4R);
    fr8_reduce_loose(u);
    fr8_reduce_loose(v);
}

/* (u, v) -> (u - w v, u + w v) for two pairs, given -1/w; values are loose before and after. */
LANES_INLINE void ntt_lanes_inverse_two(fr8 *u0, fr8 *v0, const fr8 *w0, fr8 *u1, fr8 *v1, const fr8 *w1) {
    fr8 t0, t1;
    fr8_mul_two(&t0, v0, w0, &t1, v1, w1); /* < 1.5 */
    ntt_lanes_inverse_sums(u0, v0, &t0);
    ntt_lanes_inverse_sums(u1, v1, &t1);
}

/* The last three stages of blocks block .. block + 7, of 8 elements each; `block` is a positive multiple of 8. */
static void ntt_lanes_inverse_end(fr *a, size_t block, const fr *table) {
    fr8 x[8], w[4];
    for (int i = 0; i < 8; i += 2) fr8_load_pairs(&x[i], &x[i + 1], a + i, 8);
    fr8_load_factor_pairs(&w[1], &w[0], &table[ntt_negated_inverse_index(block) - 1], -1);
    for (int i = 0; i < 4; i += 2) ntt_lanes_inverse_two(&x[i], &x[i + 4], &w[0], &x[i + 1], &x[i + 5], &w[0]);
    fr8_load_factor_pairs(&w[1], &w[0], &table[ntt_negated_inverse_index(2 * block) - 1], -2);
    for (int i = 0; i < 8; i += 4) ntt_lanes_inverse_two(&x[i], &x[i + 2], &w[i / 4], &x[i + 1], &x[i + 3], &w[i / 4]);
    fr8_load_factor_pairs(&w[1], &w[0], &table[ntt_negated_inverse_index(4 * block) - 1], -4);
    fr8_load_factor_pairs(&w[3], &w[2], &table[ntt_negated_inverse_index(4 * block) - 3], -4);
    for (int i = 0; i < 8; i += 4) ntt_lanes_inverse_two(&x[i], &x[i + 1], &w[i / 2], &x[i + 2], &x[i + 3], &w[i / 2 + 1]);
    for (int i = 0; i < 8; i += 2) fr8_store_pairs(a + i, 8, &x[i], &x[i + 1]);
}

/* All stages of a block of 2^log2 elements, log2 >= NTT_LANES_MIN_LOG2. Values are loose before and after. */
static void ntt_lanes_inverse_stages(fr *a, uint32_t log2, size_t block, const fr *table) {
    const size_t size = (size_t)1 << log2;
    if (log2 > NTT_CACHED_LOG2) {
        const size_t quarter = size / 4;
        ntt_lanes_inverse_radix4(a, quarter, quarter, block, table);
        for (size_t i = 0; i < 4; i++) ntt_lanes_inverse_stages(a + i * quarter, log2 - 2, 4 * block + i, table);
        return;
    }
    uint32_t left = log2;
    size_t blocks = 1;
    for (; left >= 5; left -= 2, blocks *= 4) {
        const size_t quarter = (size_t)1 << (left - 2);
        for (size_t b = 0; b < blocks; b++) {
            ntt_lanes_inverse_radix4(a + (b << left), quarter, quarter, block * blocks + b, table);
        }
    }
    if (left == 4) {
        for (size_t b = 0; b < blocks; b++) ntt_lanes_inverse_radix2(a + 16 * b, block * blocks + b, table);
        blocks *= 2;
    }
    const size_t first = block * blocks;
    if (first == 0) { /* the table has no negated inverse for block 0 */
        ntt_lanes_reduce(a, NTT_LANES_REGION);
        for (size_t b = 0; b < NTT_LANES_REGION / 8; b++) ntt_inverse_stages(a + 8 * b, 3, b, table);
    }
    for (size_t i = first == 0 ? NTT_LANES_REGION : 0; i < size; i += NTT_LANES_REGION) {
        ntt_lanes_inverse_end(a + i, first + i / 8, table);
    }
}

/* ---- forward, with the stages in reverse order ------------------------------------ */

/* difference = u - v, normalised and below 6.2; u = u + v, loose. */
LANES_INLINE void ntt_lanes_forward_sums(fr8 *difference, fr8 *u, const fr8 *v) {
    fr8_sub_raw(difference, u, v, FR8_4R);
    fr8_add_raw(u, u, v);
    fr8_carry(difference);
    fr8_reduce_loose(u);
}

/* (u, v) -> (u + v, w (u - v)); values are loose before and after. */
LANES_INLINE void ntt_lanes_forward_pair(fr8 *u, fr8 *v, const fr8 *w) {
    fr8 difference;
    ntt_lanes_forward_sums(&difference, u, v);
    fr8_mul(v, &difference, w); /* < 2.2 */
}

/* The same for two pairs. */
LANES_INLINE void ntt_lanes_forward_two(fr8 *u0, fr8 *v0, const fr8 *w0, fr8 *u1, fr8 *v1, const fr8 *w1) {
    fr8 difference0, difference1;
    ntt_lanes_forward_sums(&difference0, u0, v0);
    ntt_lanes_forward_sums(&difference1, u1, v1);
    fr8_mul_two(v0, &difference0, w0, v1, &difference1, w1);
}

/* The first three stages of blocks block .. block + 7, of 8 elements each. */
static void ntt_lanes_forward_start(fr *a, size_t block, const fr *table) {
    fr8 x[8], w[4];
    for (int i = 0; i < 8; i += 2) fr8_load_pairs(&x[i], &x[i + 1], a + i, 8);
    fr8_load_factor_pairs(&w[0], &w[1], &table[4 * block], 4);
    fr8_load_factor_pairs(&w[2], &w[3], &table[4 * block + 2], 4);
    for (int i = 0; i < 8; i += 4) ntt_lanes_forward_two(&x[i], &x[i + 1], &w[i / 2], &x[i + 2], &x[i + 3], &w[i / 2 + 1]);
    fr8_load_factor_pairs(&w[0], &w[1], &table[2 * block], 2);
    for (int i = 0; i < 8; i += 4) ntt_lanes_forward_two(&x[i], &x[i + 2], &w[i / 4], &x[i + 1], &x[i + 3], &w[i / 4]);
    fr8_load_factor_pairs(&w[0], &w[1], &table[block], 1);
    for (int i = 0; i < 4; i += 2) ntt_lanes_forward_two(&x[i], &x[i + 4], &w[0], &x[i + 1], &x[i + 5], &w[0]);
    for (int i = 0; i < 8; i += 2) fr8_store_pairs(a + i, 8, &x[i], &x[i + 1]);
}

static void ntt_lanes_forward_radix2(fr *a, size_t block, const fr *table) {
    fr8 w, u, v;
    fr8_broadcast_factor(&w, &table[block]);
    fr8_load(&u, a);
    fr8_load(&v, a + FP8_LANES);
    ntt_lanes_forward_pair(&u, &v, &w);
    fr8_store(a, &u);
    fr8_store(a + FP8_LANES, &v);
}

static void ntt_lanes_forward_radix4(fr *a, size_t quarter, size_t width, size_t block, const fr *table) {
    fr8 w, w0, w1, x0, x1, x2, x3;
    fr8_broadcast_factor(&w, &table[block]);
    fr8_broadcast_factor(&w0, &table[2 * block]);
    fr8_broadcast_factor(&w1, &table[2 * block + 1]);
    for (size_t i = 0; i < width; i += FP8_LANES) {
        fr8 s01, s23, d01, d23;
        fr8_load(&x0, a + i);
        fr8_load(&x1, a + i + quarter);
        fr8_load(&x2, a + i + 2 * quarter);
        fr8_load(&x3, a + i + 3 * quarter);
        fr8_add_raw(&s01, &x0, &x1);
        fr8_sub_raw(&d01, &x0, &x1, FR8_4R);
        fr8_add_raw(&s23, &x2, &x3);
        fr8_sub_raw(&d23, &x2, &x3, FR8_4R);
        fr8_carry(&d23);
        if (block) {
            fr8_carry(&d01);                     /* < 6.2 */
            fr8_mul_two(&d01, &d01, &w0, &d23, &d23, &w1); /* < 2.2 */
        } else {
            fr8_reduce_loose(&d01);
            fr8_mul(&d23, &d23, &w1);
        }
        fr8_subtract_above(&s01, FR8_2R);                 /* < 2.4 */
        fr8_subtract_above(&s23, FR8_2R);
        fr8_add_raw(&x0, &s01, &s23);            /* < 4.8 */
        fr8_add_raw(&x1, &d01, &d23);
        fr8_sub_raw(&x2, &s01, &s23, FR8_4R);    /* < 6.4 */
        fr8_sub_raw(&x3, &d01, &d23, FR8_4R);
        fr8_reduce_loose(&x0);
        fr8_reduce_loose(&x1);
        fr8_reduce_loose(&x2);
        fr8_reduce_loose(&x3);
        if (block) {
            fr8_mul_two(&x2, &x2, &w, &x3, &x3, &w);
        }
        fr8_store(a + i, &x0);
        fr8_store(a + i + quarter, &x1);
        fr8_store(a + i + 2 * quarter, &x2);
        fr8_store(a + i + 3 * quarter, &x3);
    }
}

static void ntt_lanes_forward_stages(fr *a, uint32_t log2, size_t block, const fr *table) {
    const size_t size = (size_t)1 << log2;
    if (log2 > NTT_CACHED_LOG2) {
        const size_t quarter = size / 4;
        for (size_t i = 0; i < 4; i++) ntt_lanes_forward_stages(a + i * quarter, log2 - 2, 4 * block + i, table);
        ntt_lanes_forward_radix4(a, quarter, quarter, block, table);
        return;
    }
    size_t blocks = size / 8;
    for (size_t i = 0; i < size; i += NTT_LANES_REGION) ntt_lanes_forward_start(a + i, block * blocks + i / 8, table);
    uint32_t done = 3;
    if ((log2 - done) & 1) {
        blocks /= 2;
        done++;
        for (size_t b = 0; b < blocks; b++) ntt_lanes_forward_radix2(a + 16 * b, block * blocks + b, table);
    }
    while (done < log2) {
        blocks /= 4;
        done += 2;
        const size_t quarter = (size_t)1 << (done - 2);
        for (size_t b = 0; b < blocks; b++) {
            ntt_lanes_forward_radix4(a + (b << done), quarter, quarter, block * blocks + b, table);
        }
    }
}

/* ---- element by element ------------------------------------------------------------ */

/* a[i] *= b[i] */
static void ntt_lanes_multiply(fr *a, const fr *b, size_t count) {
    for (size_t i = 0; i < count; i += FP8_LANES) {
        fr8 x, y;
        fr8_load(&x, a + i);
        fr8_load_factor(&y, b + i);
        fr8_mul(&x, &x, &y); /* < 2 */
        fr8_store(a + i, &x);
    }
}

/* a[i] *= b[i] * factor */
static void ntt_lanes_multiply_scaled(fr *a, const fr *b, const fr *factor, size_t count) {
    fr8 scale;
    fr8_broadcast_factor(&scale, factor);
    for (size_t i = 0; i < count; i += FP8_LANES) {
        fr8 x, y;
        fr8_load(&x, a + i);
        fr8_load_factor(&y, b + i);
        fr8_mul(&x, &x, &y);
        fr8_mul(&x, &x, &scale);
        fr8_store(a + i, &x);
    }
}

/* even[i] = from[2i] + from[2i + 1], odd[i] = (from[2i] - from[2i + 1]) table[i]; odd may be NULL. */
static void ntt_lanes_split(fr *even, fr *odd, const fr *from, size_t half, const fr *table) {
    static const uint8_t order[FP8_LANES] = {0, 2, 1, 3, 4, 6, 5, 7}; /* order of the elements in fr8_load */
    for (size_t i = 0; i < half; i += FP8_LANES) {
        lanes_u64 m[8];
        fr8 u, v, w, difference;
        for (int k = 0; k < FP8_LANES; k++) m[k] = lanes_load(from + 2 * (i + order[k]));
        lanes_transpose(m);
        fp8_unpack(&u, m);
        fp8_unpack(&v, m + 4);
        fr8_sub_raw(&difference, &u, &v, FR8_4R);
        fr8_add_raw(&u, &u, &v);
        fr8_reduce_loose(&u);
        fr8_store(even + i, &u);
        if (!odd) continue;
        fr8_load_factor(&w, table + i);
        fr8_carry(&difference);
        fr8_mul(&difference, &difference, &w);
        fr8_store(odd + i, &difference);
    }
}

/* a[i] = c[i] + a[i] * table[ntt_negated_inverse_index(i)] for first <= i < end; both are multiples of 16 and at least 16.
 * Results are reduced. */
static void ntt_lanes_from_coset(fr *a, const fr *c, size_t first, size_t end, const fr *table) {
    for (size_t i = first; i < end; i += 2 * FP8_LANES) {
        fr8 even, odd, c_even, c_odd, w_even, w_odd;
        fr8_load_pairs(&even, &odd, a + i, 2);
        fr8_load_pairs(&c_even, &c_odd, c + i, 2);
        fr8_load_factor_pairs(&w_odd, &w_even, &table[ntt_negated_inverse_index(i) - 1], -2);
        fr8_mul(&even, &even, &w_even);
        fr8_mul(&odd, &odd, &w_odd);
        fr8_add_raw(&even, &even, &c_even); /* < 3.7 */
        fr8_add_raw(&odd, &odd, &c_odd);
        fr8_reduce_loose(&even);
        fr8_reduce_loose(&odd);
        fr8_reduce(&even);
        fr8_reduce(&odd);
        fr8_store_pairs(a + i, 2, &even, &odd);
    }
}

#endif
