/* msm_lanes_impl.h - loads, stores and the end of an addition for eight points of G1 and G2; backends with lanes only.
 *
 * Bounds follow fp8_impl.h: packed coordinates are below 2p + 2^212, and so below 2.1p.
 */
#ifndef G16_MSM_LANES_IMPL_H
#define G16_MSM_LANES_IMPL_H

#include "fp82_impl.h"

/* Blocks whose sums are ended at once: with two registers a limb their products take turns (lanes52.h). */
#define MSM_BLOCKS_AT_ONCE (LANES_PARTS > 1 ? 2 : 1)

/* ---- pairs of summands ------------------------------------------------------------------------------ */

/* Bit i: owners[i] and owners[i + 1] are the same. Reads 65 places. */
FP8_INLINE uint64_t msm_same_owners(const uint32_t *owners) {
    uint64_t same = 0;
    for (int i = 0; i < 64; i += 16) same |= (uint64_t)lanes_equal_u32(owners + i, owners + i + 1) << i;
    return same;
}

/* Every other bit of each run of ones, from the first on, or from the second on in a run that starts at bit 0 where `halved`
 * is 1. */
FP8_INLINE uint64_t msm_first_of_pairs(uint64_t same, uint32_t halved) {
    const uint64_t even = 0x5555555555555555u;
    const uint64_t starts = same & ~(same << 1);
    /* Adding the start of a run to it clears the run and sets the bit after it, which was zero. */
    const uint64_t even_starts = (starts & even) ^ (same & halved);
    const uint64_t even_runs = same & ~(same + even_starts);
    return (even_runs & even) | (same & ~even_runs & ~even);
}

/* ---- points ---------------------------------------------------------------------------------------- */

/* px, py: eight affine points; the y of the lanes in `negate` changes sign. */
static inline __attribute__((always_inline)) void g1_lanes_load(fp8 *x, fp8 *y, const g1_affine *const at[8],
                                                                uint8_t negate) {
    fp8_load2(x, y, (const void *const *)at);
    if (negate) fp8_negate_lanes(y, negate);
}

static inline __attribute__((always_inline)) void g1_lanes_store(g1_affine *const at[8], const fp8 *x, const fp8 *y) {
    fp8_store2((void *const *)at, x, y);
}

static inline __attribute__((always_inline)) void g2_lanes_load(fp82 *x, fp82 *y, const g2_affine *const at[8],
                                                                uint8_t negate) {
    const void *at_x[8], *at_y[8];
    for (int i = 0; i < 8; i++) {
        at_x[i] = &at[i]->x;
        at_y[i] = &at[i]->y;
    }
    fp8_load2(&x->c0, &x->c1, at_x);
    fp8_load2(&y->c0, &y->c1, at_y);
    if (!negate) return;
    fp8_negate_lanes(&y->c0, negate);
    fp8_negate_lanes(&y->c1, negate);
}

static inline __attribute__((always_inline)) void g2_lanes_store(g2_affine *const at[8], const fp82 *x,
                                                                 const fp82 *y) {
    void *at_x[8], *at_y[8];
    for (int i = 0; i < 8; i++) {
        at_x[i] = &at[i]->x;
        at_y[i] = &at[i]->y;
    }
    fp8_store2(at_x, &x->c0, &x->c1);
    fp8_store2(at_y, &y->c0, &y->c1);
}

/* r = a - b + 2p * multiple as unnormalised limbs. */
FP8_INLINE void fp8_sub_raw(fp8 *r, const fp8 *a, const fp8 *b, int multiple) {
    for (int i = 0; i < 5; i++) {
        const lanes_u64 offset = lanes_set(FP8_2P[i] * (uint64_t)multiple);
        r->v[i] = lanes_sub(lanes_add(a->v[i], offset), b->v[i]);
    }
}

/* r = a - (px + qx) + 6p as unnormalised limbs, from px and difference = qx - px + 4p. */
FP8_INLINE void fp8_sub_both_raw(fp8 *r, const fp8 *a, const fp8 *px, const fp8 *difference) {
    for (int i = 0; i < 5; i++) {
        const lanes_u64 offset = lanes_set(FP8_2P[i] * 5);
        const lanes_u64 both = lanes_add(lanes_add(px->v[i], px->v[i]), difference->v[i]);
        r->v[i] = lanes_sub(lanes_add(a->v[i], offset), both);
    }
}

/* x = slope^2 - px - qx, y = slope (px - x) - py, where difference = qx - px + 4p; slope below 7.4p. */
static inline __attribute__((always_inline)) void g1_lanes_sum(fp8 *x, fp8 *y, const fp8 *slope, const fp8 *px,
                                                               const fp8 *py, const fp8 *difference) {
    fp8 t;
    fp8_sqr(&t, slope);              /* < 1.7p */
    fp8_sub_both_raw(x, &t, px, difference); /* px + qx < 4.2p: in (1.8p, 7.7p) */
    fp8_fit(x, 3);
    fp8_sub(&t, px, x);              /* < 6.1p */
    fp8_mul(&t, slope, &t);          /* < 1.6p */
    fp8_sub_raw(y, &t, py, 2);       /* in (1.9p, 5.6p) */
    fp8_fit(y, 2);
}

/* Two of them at once. */
static inline __attribute__((always_inline)) void g1_lanes_sum_two(fp8 x[2], fp8 y[2], const fp8 slope[2], const fp8 *const px[2],
                                                                   const fp8 *const py[2], const fp8 *const difference[2]) {
    fp8 t[2];
    for (int i = 0; i < 2; i++) fp8_sqr(&t[i], &slope[i]);
    for (int i = 0; i < 2; i++) fp8_sub_both_raw(&x[i], &t[i], px[i], difference[i]);
    for (int i = 0; i < 2; i++) fp8_fit(&x[i], 3);
    for (int i = 0; i < 2; i++) fp8_sub(&t[i], px[i], &x[i]);
    fp8_mul_two(&t[0], &slope[0], &t[0], &t[1], &slope[1], &t[1]);
    for (int i = 0; i < 2; i++) fp8_sub_raw(&y[i], &t[i], py[i], 2);
    for (int i = 0; i < 2; i++) fp8_fit(&y[i], 2);
}

static inline __attribute__((always_inline)) void g2_lanes_sum(fp82 *x, fp82 *y, const fp82 *slope, const fp82 *px,
                                                               const fp82 *py, const fp82 *difference) {
    fp82 t;
    fp82_sqr(&t, slope);                       /* < 3.4p */
    fp8_sub_both_raw(&x->c0, &t.c0, &px->c0, &difference->c0); /* in (1.8p, 9.4p) */
    fp8_sub_both_raw(&x->c1, &t.c1, &px->c1, &difference->c1);
    fp8_fit(&x->c0, 4);
    fp8_fit(&x->c1, 4);
    fp82_sub(&t, px, x);                       /* < 6.1p */
#if defined(LANES_IFMA)
    fp8 low, high, mid;
    fp82_products(&low, &high, &mid, slope, &t); /* < 1.6p, < 1.6p, < 3.2p */
    for (int i = 0; i < 5; i++) {
        mid.v[i] = lanes_sub(mid.v[i], low.v[i]);
        low.v[i] = lanes_sub(low.v[i], high.v[i]);
        mid.v[i] = lanes_sub(mid.v[i], high.v[i]);
    }
    fp8_sub_raw(&y->c0, &low, &py->c0, 2); /* in (0.2p, 5.6p) */
    fp8_sub_raw(&y->c1, &mid, &py->c1, 3); /* in (0.6p, 9.2p) */
    fp8_fit(&y->c0, 2);
    fp8_fit(&y->c1, 4);
#else
    fp82_mul(&t, slope, &t);               /* < 2.6p */
    fp8_sub_raw(&y->c0, &t.c0, &py->c0, 2); /* in (1.9p, 6.6p) */
    fp8_sub_raw(&y->c1, &t.c1, &py->c1, 2);
    fp8_fit(&y->c0, 3);
    fp8_fit(&y->c1, 3);
#endif
}

static inline __attribute__((always_inline)) void g2_lanes_sum_two(fp82 x[2], fp82 y[2], const fp82 slope[2], const fp82 *const px[2],
                                                                   const fp82 *const py[2], const fp82 *const difference[2]) {
    for (int i = 0; i < 2; i++) g2_lanes_sum(&x[i], &y[i], &slope[i], px[i], py[i], difference[i]);
}

#endif
