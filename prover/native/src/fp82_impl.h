/* fp82_impl.h - eight elements of Fp2 at once; included by the backends with AVX-512 only. See fp8_impl.h.
 *
 * Bounds: a "wide" element has components below 7.4p. Products of a wide element with one below 6.1p are wide.
 */
#ifndef G16_FP82_IMPL_H
#define G16_FP82_IMPL_H

#include "fp2.h"
#include "fp8_impl.h"

typedef struct fp82 {
    fp8 c0, c1;
} fp82;

static inline void fp82_set_one(fp82 *r) {
    fp8_set(&r->c0, FP8_ONE);
    for (int i = 0; i < 5; i++) r->c1.v[i] = _mm512_setzero_si512();
}

static inline void fp82_sub(fp82 *r, const fp82 *a, const fp82 *b) {
    fp8_sub(&r->c0, &a->c0, &b->c0);
    fp8_sub(&r->c1, &a->c1, &b->c1);
}

static inline void fp82_add(fp82 *r, const fp82 *a, const fp82 *b) {
    fp8_add(&r->c0, &a->c0, &b->c0);
    fp8_add(&r->c1, &a->c1, &b->c1);
}

#if defined(LANES_IFMA)

/* The three products of Karatsuba's method: a0 b0, a1 b1, (a0 + a1)(b0 + b1). For wide a and b the first two are
 * below 1.7p and the third below 3.6p. */
static inline __attribute__((always_inline)) void fp82_products(fp8 *low, fp8 *high, fp8 *mid, const fp82 *a,
                                                                const fp82 *b) {
    fp8 sum_a, sum_b;
    fp8_add(&sum_a, &a->c0, &a->c1);
    fp8_add(&sum_b, &b->c0, &b->c1);
    fp8_mul(low, &a->c0, &b->c0);
    fp8_mul(high, &a->c1, &b->c1);
    fp8_mul(mid, &sum_a, &sum_b);
}

/* low - high + 4p and mid - low - high + 4p, both non-negative as integers: products are. */
static inline __attribute__((always_inline)) void fp82_mul(fp82 *r, const fp82 *a, const fp82 *b) {
    fp8 low, high, mid;
    fp82_products(&low, &high, &mid, a, b);
    fp8_sub(&r->c0, &low, &high);
    for (int i = 0; i < 5; i++) high.v[i] = _mm512_add_epi64(high.v[i], low.v[i]);
    fp8_sub(&r->c1, &mid, &high);
}

#else

/* Four products and two reductions: where additions cost as much as a step of a product, fewer than Karatsuba's method
 * with three reductions takes. a < 8p; for wide a and b < 6.1p the components are below 2.2p. */
static inline void fp82_mul(fp82 *r, const fp82 *a, const fp82 *b) {
    fp8 negative, c0;
    for (int i = 0; i < 5; i++) negative.v[i] = _mm512_setzero_si512();
    fp8_sub_wide(&negative, &negative, &a->c1);
    fp8_mul_sum(&c0, &a->c0, &b->c0, &negative, &b->c1);
    fp8_mul_sum(&r->c1, &a->c0, &b->c1, &a->c1, &b->c0);
    r->c0 = c0;
}

#endif

/* r = a^2, components below 3.4p for wide a. */
static inline __attribute__((always_inline)) void fp82_sqr(fp82 *r, const fp82 *a) {
    fp8 sum, difference, twice;
    fp8_add(&sum, &a->c0, &a->c1);
    fp8_sub_wide(&difference, &a->c0, &a->c1);
    fp8_add(&twice, &a->c0, &a->c0);
    fp8_mul(&r->c1, &twice, &a->c1);
    fp8_mul(&r->c0, &sum, &difference);
}

/* r = 1/a (components below 6p) in each lane and 1; or 0 when some lane is zero. */
static inline int fp82_inv(fp82 *r, const fp82 *a) {
    fp8 norm, square;
    fp8_sqr(&norm, &a->c0);
    fp8_sqr(&square, &a->c1);
    fp8_add(&norm, &norm, &square);
    if (!fp8_inv(&norm, &norm)) return 0;
    fp8_mul(&r->c0, &a->c0, &norm);
    fp8_mul(&square, &a->c1, &norm);
    for (int i = 0; i < 5; i++) r->c1.v[i] = _mm512_setzero_si512();
    fp8_sub(&r->c1, &r->c1, &square);
    return 1;
}

#endif
