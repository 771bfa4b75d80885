/* field/fp82_impl.h - eight elements of Fp2 at once; included only by backends with SIMD lanes. See field/fp8_impl.h.
 *
 * Bounds: a "wide" element has components below 7.4p.
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

FP8_INLINE void fp82_add(fp82 *r, const fp82 *a, const fp82 *b) {
    fp8_add(&r->c0, &a->c0, &b->c0);
    fp8_add(&r->c1, &a->c1, &b->c1);
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

/* Initial values of the columns of both components: c0 = a0 b0 - a1 b1 + p R is not negative. The exponent bits of two products
 * cancel in c0; c1 = (a0 + a1)(b0 + b1) - a0 b0 - a1 b1 contains those of one with the opposite sign. */
FP8_INLINE uint64_t fp82_start_c0(int k) { return lanes52_start(0, k, &FP8_MODULUS) + (k < 5 ? 0 : FP8_P[k < 5 ? 0 : k - 5]); }
FP8_INLINE uint64_t fp82_start_c1(int k) { return 2 * lanes52_start(0, k, &FP8_MODULUS) - lanes52_start(1, k, &FP8_MODULUS); }

#if LANES_PARTS > 1

/* r = a b: Karatsuba's three products and two reductions. Products of all parts are computed by the same code, which would not fit
 * the cache of decoded instructions if it were repeated. For a < 9.2p and b < 6.1p the components are below 2.7p and 2.4p. */
static __attribute__((noinline)) void fp82_mul(fp82 *r, const fp82 *a, const fp82 *b) {
    const fp82 *const operands[2] = {a, b};
    lanes52_factor factors[LANES_PARTS][3][2][5]; /* the components and their sum */
    lanes_part columns[FP8_TWO_PARTS][10];
    LANES_IN_REGION;
    LANES52_EACH_PART(h) {
        LANES52_UNROLL
        for (int i = 0; i < 2; i++) {
            lanes_part sum[5];
            lanes52_factors_of_part(factors[h][0][i], operands[i]->c0.v, h);
            lanes52_factors_of_part(factors[h][1][i], operands[i]->c1.v, h);
            fp82_sum_part(sum, operands[i], h);
            fp82_part_factors(factors[h][2][i], sum);
        }
    }
    LANES52_EACH_PART(h) {
        lanes_part products[3][10];
        _Pragma("GCC unroll 1") for (int q = 0; q < 3; q++) lanes52_mul_factors(products[q], factors[h][q][0], factors[h][q][1]);
        LANES52_UNROLL
        for (int k = 0; k < 10; k++) {
            const lanes_part both = lanes_part_add(products[0][k], products[1][k]);
            const lanes_part difference = lanes_part_sub(products[0][k], products[1][k]);
            columns[h][k] = lanes_part_add(lanes_part_set(fp82_start_c0(k)), difference);
            columns[LANES_PARTS + h][k] = lanes_part_add(lanes_part_set(fp82_start_c1(k)), lanes_part_sub(products[2][k], both));
        }
    }
    fp8_reduce_two(&r->c0, &r->c1, columns);
}

#else

/* r = a b: Karatsuba's three products and two reductions. For a < 9.2p and b < 6.1p the components are below 2.7p and 2.4p. */
static __attribute__((noinline)) void fp82_mul(fp82 *r, const fp82 *a, const fp82 *b) {
    lanes52_factor left[2][5], right[2][5];
    lanes_part low[10], high[10], mid[10], sum[5];
    LANES_IN_REGION;
    fp82_part_factors(left[0], a->c0.v);
    fp82_part_factors(left[1], a->c1.v);
    fp82_part_factors(right[0], b->c0.v);
    fp82_part_factors(right[1], b->c1.v);
    LANES52_UNROLL
    for (int k = 0; k < 10; k++) {
        low[k] = lanes_part_set(fp82_start_c0(k));
        high[k] = lanes_part_set(0);
    }
    LANES52_UNROLL
    for (int i = 0; i < 5; i++) {
        LANES52_UNROLL
        for (int k = 0; k < 5; k++) {
            lanes52_accumulate(&low[i + k], &low[i + k + 1], left[0][k], right[0][i]);
            lanes52_accumulate(&high[i + k], &high[i + k + 1], left[1][k], right[1][i]);
        }
    }
    LANES52_UNROLL
    for (int k = 0; k < 10; k++) {
        /* `low` is subtracted with its initial value. */
        mid[k] = lanes_part_sub(lanes_part_set(fp82_start_c1(k) + fp82_start_c0(k)), lanes_part_add(low[k], high[k]));
        low[k] = lanes_part_sub(low[k], high[k]);
    }
    fp82_sum_part(sum, a, 0);
    fp82_part_factors(left[0], sum);
    fp82_sum_part(sum, b, 0);
    fp82_part_factors(right[0], sum);
    LANES52_UNROLL
    for (int i = 0; i < 5; i++) {
        LANES52_UNROLL
        for (int k = 0; k < 5; k++) lanes52_accumulate(&mid[i + k], &mid[i + k + 1], left[0][k], right[0][i]);
    }
    lanes_part both[2][10];
    LANES52_UNROLL
    for (int k = 0; k < 10; k++) both[0][k] = low[k], both[1][k] = mid[k];
    lanes52_reduce(both, 2, &FP8_MODULUS);
    lanes52_finish_parts(r->c0.v, &both[0]);
    lanes52_finish_parts(r->c1.v, &both[1]);
}

#endif

/* Two products one after the other: each contains two reductions, which already overlap. */
FP8_INLINE void fp82_mul_two(fp82 *r0, const fp82 *a0, const fp82 *b0, fp82 *r1, const fp82 *a1, const fp82 *b1) {
    fp82_mul(r0, a0, b0);
    fp82_mul(r1, a1, b1);
}

#endif
