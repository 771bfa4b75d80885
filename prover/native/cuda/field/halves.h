/* cuda/field/halves.h - Fp2 by two adjacent threads of a warp: the even one has the coefficients of 1, the odd one those of u.
 *
 * All threads of a warp call these functions together, because values cross from thread to thread. On the host one thread has both
 * coefficients, and a step of two threads is a loop over them: the same text, with HALVES coefficients in a thread.
 */
#ifndef CUDA_FIELD_HALVES_H
#define CUDA_FIELD_HALVES_H

#include "cuda/field/fields.h"

#if defined(__CUDACC__)
#define HALVES 1
#define HALVES_WARP 0xffffffffu

/* The number of the coefficient that a thread has as its own number i. */
DEVICE uint32_t half_number(uint32_t i) { return (threadIdx.x + i) & 1; }
/* Returns 1 for threads whose coefficients another thread has. */
DEVICE int half_is_idle(uint32_t thread) { return (void)thread, 0; }
/* to = the words of the other thread's coefficient. */
DEVICE void halves_exchange(uint32_t *to, const uint32_t *from, uint32_t words) {
    DEVICE_UNROLL
    for (uint32_t i = 0; i < words; i++) to[i] = __shfl_xor_sync(HALVES_WARP, from[i], 1);
}
/* Returns the flags that both threads of the pair have. */
DEVICE uint32_t halves_both(const uint32_t flags[HALVES]) { return flags[0] & __shfl_xor_sync(HALVES_WARP, flags[0], 1); }
/* Returns 1 when a flag is set in both threads of any pair of the warp. */
DEVICE int halves_any(const uint32_t flags[HALVES]) { return __any_sync(HALVES_WARP, halves_both(flags) != 0); }
/* Returns the maximum over the warp. */
DEVICE uint32_t halves_maximum(uint32_t value) { return __reduce_max_sync(HALVES_WARP, value); }
#else
#define HALVES 2
DEVICE uint32_t half_number(uint32_t i) { return i; }
DEVICE int half_is_idle(uint32_t thread) { return thread & 1; }
DEVICE void halves_exchange(uint32_t *to, const uint32_t *from, uint32_t words) {
    for (uint32_t i = 0; i < words; i++) {
        to[i] = from[words + i];
        to[words + i] = from[i];
    }
}
DEVICE uint32_t halves_both(const uint32_t flags[HALVES]) { return flags[0] & flags[1]; }
DEVICE int halves_any(const uint32_t flags[HALVES]) { return halves_both(flags) != 0; }
DEVICE uint32_t halves_maximum(uint32_t value) { return value; }
#endif

typedef struct fp2_half {
    fp c[HALVES];
} fp2_half;

typedef struct wide_half {
    uint32_t v[HALVES][2 * LIMBS];
} wide_half;

DEVICE void fp2_half_exchange(fp2_half *r, const fp2_half *a) { halves_exchange(r->c[0].v, a->c[0].v, LIMBS); }

DEVICE void fp2_half_sub(fp2_half *r, const fp2_half *a, const fp2_half *b) {
    for (int i = 0; i < HALVES; i++) fp_sub(&r->c[i], &a->c[i], &b->c[i]);
}

/* As fp2_sqr(): (c0 + c1)(c0 - c1) in one thread, 2 c1 c0 in the other. */
DEVICE void fp2_half_sqr(fp2_half *r, const fp2_half *a) {
    fp2_half other;
    fp2_half_exchange(&other, a);
    for (int i = 0; i < HALVES; i++) {
        fp first, difference;
        const uint32_t odd = half_number((uint32_t)i);
        fp_sub(&difference, &a->c[i], &other.c[i]);
        DEVICE_UNROLL
        for (int j = 0; j < LIMBS; j++) {
            first.v[j] = odd ? a->c[i].v[j] : other.c[i].v[j];
            difference.v[j] = odd ? other.c[i].v[j] : difference.v[j];
        }
        fp_add_lazy(&first, &a->c[i], &first);
        fp_mul(&r->c[i], &first, &difference);
    }
}

/* As fp2_mul(): each thread has its own product c = a_i b_i and half of the one of the sums, (a_0 + a_1) times four limbs of b_0 + b_1,
 * and passes on what the other's coefficient lacks. Differences wrap around 2^512; what is left of them in the end is not negative,
 * but for a_0 b_0 - a_1 b_1. */
DEVICE void fp2_half_mul(fp2_half *r, const fp2_half *a, const fp2_half *b) {
    const uint32_t m[LIMBS] = FP_MODULUS;
    fp2_half other_a, other_b;
    wide_half own, mid, sent, got;
    fp2_half_exchange(&other_a, a);
    fp2_half_exchange(&other_b, b);
    for (int i = 0; i < HALVES; i++) {
        const uint32_t odd = half_number((uint32_t)i);
        uint32_t part[2 * LIMBS], factor[LIMBS / 2];
        fp sum_a, sum_b;
        limbs_mul_wide(own.v[i], a->c[i].v, b->c[i].v);
        fp_add_lazy(&sum_a, &a->c[i], &other_a.c[i]);
        fp_add_lazy(&sum_b, &b->c[i], &other_b.c[i]);
        DEVICE_UNROLL
        for (int j = 0; j < LIMBS / 2; j++) factor[j] = odd ? sum_b.v[j + LIMBS / 2] : sum_b.v[j];
        limbs_mul_some(part, sum_a.v, factor, LIMBS / 2);
        DEVICE_UNROLL
        for (int j = 0; j < 2 * LIMBS; j++) {
            mid.v[i][j] = odd ? (j < LIMBS / 2 ? 0 : part[j - LIMBS / 2]) : part[j];
        }
        limbs_sub_wide(mid.v[i], own.v[i]);
        DEVICE_UNROLL
        for (int j = 0; j < 2 * LIMBS; j++) sent.v[i][j] = odd ? own.v[i][j] : ~mid.v[i][j];
    }
    halves_exchange(got.v[0], sent.v[0], 2 * LIMBS);
    for (int i = 0; i < HALVES; i++) {
        const uint32_t odd = half_number((uint32_t)i);
        uint32_t masked[LIMBS], wide[2 * LIMBS];
        /* x + y = x - ~y - 1: both threads subtract. */
        const uint32_t one[2 * LIMBS] = {odd};
        DEVICE_UNROLL
        for (int j = 0; j < 2 * LIMBS; j++) wide[j] = odd ? mid.v[i][j] : own.v[i][j];
        limbs_sub_wide(wide, one);
        const uint32_t below = limbs_sub_wide(wide, got.v[i]) & (odd - 1);
        DEVICE_UNROLL
        for (int j = 0; j < LIMBS; j++) masked[j] = m[j] & below;
        limbs_add_wrapping(wide + LIMBS, wide + LIMBS, masked);
        limbs_reduce_wide(r->c[i].v, wide, m, FP_INVERSE);
    }
}

#endif
