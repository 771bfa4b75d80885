/* field/fp82_impl.h - eight elements of Fp2 at once; included only by backends with SIMD lanes. See field/fp8_impl.h.
 *
 * Bounds: a "wide" element has components below 7.4p. Products of a wide element with one below 6.1p are wide.
 */
#ifndef G16_FIELD_FP82_IMPL_H
#define G16_FIELD_FP82_IMPL_H

#include "field/fp2.h"
#include "field/fp8_impl.h"

typedef struct fp82 {
    fp8 c0, c1;
} fp82;

FP8_INLINE void fp82_set_one(fp82 *r) {
    fp8_set(&r->c0, FP8_ONE);
    for (int i = 0; i < 5; i++) r->c1.v[i] = lanes_zero();
}

FP8_INLINE void fp82_sub(fp82 *r, const fp82 *a, const fp82 *b) {
    fp8_sub(&r->c0, &a->c0, &b->c0);
    fp8_sub(&r->c1, &a->c1, &b->c1);
}

FP8_INLINE void fp82_add(fp82 *r, const fp82 *a, const fp82 *b) {
    fp8_add(&r->c0, &a->c0, &b->c0);
    fp8_add(&r->c1, &a->c1, &b->c1);
}

#if LANES_PARTS > 1

/* r = a b: c0 = a0 b0 + a1 (10p - b1), c1 = a0 b1 + a1 b0, with one reduction each. Karatsuba's method needs a seventh fewer
 * operations, but its code does not fit the cache of decoded instructions and is slower here. b < 10p; for wide a and b < 6.1p
 * the components are below 2.5p and 2.1p. */
static __attribute__((noinline)) void fp82_mul(fp82 *r, const fp82 *a, const fp82 *b) {
    enum { A0, A1, B0, B1, LESS_B1 };
    static const uint8_t second_of[2] = {LESS_B1, B0}; /* factor of a1 in c0 and c1 */
    lanes52_factor factors[LANES_PARTS][5][5];
    lanes_part columns[FP8_TWO_PARTS][10];
    LANES_IN_REGION;
    LANES52_EACH_PART(h) {
        lanes_part less[5];
        lanes52_factors_of_part(factors[h][A0], a->c0.v, h);
        lanes52_factors_of_part(factors[h][A1], a->c1.v, h);
        lanes52_factors_of_part(factors[h][B0], b->c0.v, h);
        lanes52_factors_of_part(factors[h][B1], b->c1.v, h);
        LANES52_UNROLL
        for (int k = 0; k < 5; k++) less[k] = lanes_part_sub(lanes_part_set(fp8_lifted(10, k)), LANES_PART(b->c1.v[k], h));
        lanes52_carry_part(less, 0);
        LANES52_UNROLL
        for (int k = 0; k < 5; k++) factors[h][LESS_B1][k] = lanes52_factor_of(less[k]);
    }
    FP8_EACH_PART(j) {
        const lanes52_factor(*const f)[5] = (const lanes52_factor(*)[5])factors[j % LANES_PARTS];
        const int component = j / LANES_PARTS;
        lanes52_add_product(columns[j], f[A0], f[B0 + component], 2, &FP8_MODULUS);
        lanes52_add_product(columns[j], f[A1], f[second_of[component]], 0, &FP8_MODULUS);
    }
    fp8_reduce_two(&r->c0, &r->c1, columns);
}

#else

/* t += a b for one part; a is given as factors. */
static inline __attribute__((always_inline)) void fp82_add_product(lanes_part t[10], const lanes52_factor a[5], const lanes_part b[5]) {
    LANES52_UNROLL
    for (int i = 0; i < 5; i++) {
        const lanes52_factor factor = lanes52_factor_of(b[i]);
        LANES52_UNROLL
        for (int k = 0; k < 5; k++) lanes52_accumulate(&t[i + k], &t[i + k + 1], a[k], factor);
    }
}

static inline __attribute__((always_inline)) void fp82_part_factors(lanes52_factor factors[5], const lanes_part a[5]) {
    LANES52_UNROLL
    for (int k = 0; k < 5; k++) factors[k] = lanes52_factor_of(a[k]);
}

static inline __attribute__((always_inline)) void fp82_sum_part(lanes_part sum[5], const fp82 *a, int h) {
    (void)h; /* unused when there is one part */
    LANES52_UNROLL
    for (int k = 0; k < 5; k++) sum[k] = lanes_part_add(LANES_PART(a->c0.v[k], h), LANES_PART(a->c1.v[k], h));
    lanes52_carry_part(sum, 0);
}

/* r = a b: Karatsuba's three products and two reductions. For wide a and b < 6.1p the components are below 2.6p and 2.2p. */
static __attribute__((noinline)) void fp82_mul(fp82 *r, const fp82 *a, const fp82 *b) {
    LANES_IN_REGION;
    LANES52_EACH_PART(h) {
        lanes52_factor factors[5];
        lanes_part low[10], high[10], mid[10], limbs[5];
        /* low = a0 b0 + p R, which exceeds high = a1 b1. In low - high the constants that lanes52_start() adds cancel; mid - low
         * - high contains them once with the opposite sign. */
        LANES52_UNROLL
        for (int k = 0; k < 10; k++) {
            const uint64_t none = lanes52_start(0, k, &FP8_MODULUS), start = none + (k < 5 ? 0 : FP8_P[k < 5 ? 0 : k - 5]);
            low[k] = lanes_part_set(start);
            high[k] = lanes_part_set(0);
            mid[k] = lanes_part_set(2 * none - lanes52_start(1, k, &FP8_MODULUS) + start);
        }
        LANES52_TAKE(limbs, a->c0.v, h);
        fp82_part_factors(factors, limbs);
        LANES52_TAKE(limbs, b->c0.v, h);
        fp82_add_product(low, factors, limbs);
        LANES52_TAKE(limbs, a->c1.v, h);
        fp82_part_factors(factors, limbs);
        LANES52_TAKE(limbs, b->c1.v, h);
        fp82_add_product(high, factors, limbs);
        LANES52_UNROLL
        for (int k = 0; k < 10; k++) {
            mid[k] = lanes_part_sub(mid[k], lanes_part_add(low[k], high[k]));
            low[k] = lanes_part_sub(low[k], high[k]);
        }
        fp82_sum_part(limbs, a, h);
        fp82_part_factors(factors, limbs);
        fp82_sum_part(limbs, b, h);
        fp82_add_product(mid, factors, limbs);
        LANES52_UNROLL
        for (int i = 0; i < 5; i++) {
            lanes52_finish_row(low, i, &FP8_MODULUS);
            lanes52_finish_row(mid, i, &FP8_MODULUS);
        }
        lanes52_finish(low + 5);
        lanes52_finish(mid + 5);
        LANES52_PUT(r->c0.v, low + 5, h);
        LANES52_PUT(r->c1.v, mid + 5, h);
    }
}

#endif

/* Two products one after the other: each contains two reductions, which already overlap. */
FP8_INLINE void fp82_mul_two(fp82 *r0, const fp82 *a0, const fp82 *b0, fp82 *r1, const fp82 *a1, const fp82 *b1) {
    fp82_mul(r0, a0, b0);
    fp82_mul(r1, a1, b1);
}

/* r = a^2, components below 3.4p for wide a. */
static inline __attribute__((always_inline)) void fp82_sqr(fp82 *r, const fp82 *a) {
    fp8 sum, difference, twice;
    fp8_add(&sum, &a->c0, &a->c1);
    fp8_sub_wide(&difference, &a->c0, &a->c1);
    fp8_add(&twice, &a->c0, &a->c0);
    fp8_mul(&r->c1, &twice, &a->c1);
    fp8_mul(&r->c0, &sum, &difference);
}

/* Sets r = 1/a in each lane, components below 6p, and returns 1; or returns 0 when some lane is zero. */
static inline int fp82_inv(fp82 *r, const fp82 *a) {
    fp8 norm, square;
    fp8_sqr(&norm, &a->c0);
    fp8_sqr(&square, &a->c1);
    fp8_add(&norm, &norm, &square);
    if (!fp8_inv(&norm, &norm)) return 0;
    fp8_mul(&r->c0, &a->c0, &norm);
    fp8_mul(&square, &a->c1, &norm);
    for (int i = 0; i < 5; i++) r->c1.v[i] = lanes_zero();
    fp8_sub(&r->c1, &r->c1, &square);
    return 1;
}

#endif
