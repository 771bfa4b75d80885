/* msm/lanes_impl.h - helpers to add eight pairs of points in SIMD lanes: pairing of summands, and field operations between
 * products.
 *
 * Bounds follow field/fp8_impl.h: packed coordinates are below 2p + 2^212, hence below 2.1p.
 */
#ifndef G16_MSM_LANES_IMPL_H
#define G16_MSM_LANES_IMPL_H

#include "field/fp82_impl.h"

/* Loops over blocks or parts, and their bodies, are neither unrolled nor inlined where they are long: they would displace each
 * other and the products from the cache of decoded instructions. */
#define MSM_EACH(i, count) _Pragma("GCC unroll 1") for (int i = 0; i < (count); i++)
#if LANES_PARTS > 1
#define MSM_PART static __attribute__((noinline))
#else
#define MSM_PART static inline __attribute__((always_inline))
#endif

/* ---- pairs of summands ------------------------------------------------------------------------------ */

/* Bit i is set when owners[i] == owners[i + 1]. Reads 65 elements. */
FP8_INLINE uint64_t msm_same_owners(const uint32_t *owners) {
    uint64_t same = 0;
    for (int i = 0; i < 64; i += 16) same |= (uint64_t)lanes_equal_u32(owners + i, owners + i + 1) << i;
    return same;
}

/* Selects every other bit of each run of ones, starting with the first; in a run that starts at bit 0 with the second if `halved`
 * is 1. */
FP8_INLINE uint64_t msm_first_of_pairs(uint64_t same, uint32_t halved) {
    const uint64_t even = 0x5555555555555555u;
    const uint64_t starts = same & ~(same << 1);
    /* Adding the start of a run to the run clears it and sets the bit after it, which was zero. */
    const uint64_t even_starts = (starts & even) ^ (same & halved);
    const uint64_t even_runs = same & ~(same + even_starts);
    return (even_runs & even) | (same & ~even_runs & ~even);
}

/* ---- parts of elements between products ---------------------------------------------------------- */

/* r = a - b + multiple * p, normalised and non-negative. */
FP8_INLINE void fp8_part_sub(lanes_part r[5], const lanes_part a[5], const lanes_part b[5], unsigned multiple) {
    for (int i = 0; i < 5; i++) r[i] = lanes_part_sub(lanes_part_add(a[i], lanes_part_set(fp8_lifted(multiple, i))), b[i]);
    lanes52_carry_part(r, 0);
}

/* Reduces a value in [0, `bound` p) to a normalised one below 2p + 2^212. Its limbs are those of fp8_lifted(multiple up to 9),
 * plus up to two and minus up to three normalised values, or of fp8_lifted(1) plus three and minus two. The value is FP8_LIFT_CARRY
 * times 2^208 more than the top limb indicates, with an error below 7 times that; so the top limb decides. */
FP8_INLINE void fp8_part_reduce_packed(lanes_part r[5], unsigned bound) {
    LANES52_UNROLL
    for (unsigned multiple = 8; multiple >= 2; multiple /= 2) {
        if (bound <= multiple) continue;
        const uint64_t highest = multiple / 2 * FP8_2P[4] + multiple / 2;
        const lanes_part_choice above = lanes_part_above(r[4], lanes_part_set(highest + 7 - FP8_LIFT_CARRY));
        for (int i = 0; i < 5; i++) r[i] = lanes_part_sub_where(above, r[i], lanes_part_set(FP8_2P[i] * (multiple / 2)));
    }
    lanes52_carry_part(r, 0);
}

/* ---- slopes ------------------------------------------------------------------------------------------ */

/* The norm of an x difference, given its conjugate, below 1.9p; nothing in G1. */
FP8_INLINE void g1_lanes_norm(fp8 *norm, const fp8 *difference) { (void)norm, (void)difference; }

FP8_INLINE void g2_lanes_norm(fp8 *norm, const fp82 *difference) {
    fp8_mul_sum(norm, &difference->c0, &difference->c0, &difference->c1, &difference->c1);
}

/* slope[i] = y[i] / x[i] for one or two differences; x[i] is a conjugate in G2, and inverse[i] the inverse of its divisor. Components
 * of slope are below 1.2p. */
FP8_INLINE void g1_lanes_slopes(fp8 slope[2], const fp8 inverse[2], const fp8 *const x[2], const fp8 *const y[2], int count) {
    (void)x;
    if (count == 2) {
        fp8_mul_two(&slope[0], &inverse[0], y[0], &slope[1], &inverse[1], y[1]);
    } else {
        fp8_mul(slope, inverse, y[0]);
    }
}

FP8_INLINE void g2_lanes_slopes(fp82 slope[2], const fp8 inverse[2], const fp82 *const x[2], const fp82 *const y[2], int count) {
    MSM_EACH(i, count) {
        fp82_mul(&slope[i], y[i], x[i]);
        fp8_mul_two(&slope[i].c0, &slope[i].c0, &inverse[i], &slope[i].c1, &slope[i].c1, &inverse[i]);
    }
}

/* square[i] = slope[i]^2 for one or two slopes; for G2 the component c1 is half of that. Components of square are below 1.2p and
 * 1.1p. */
FP8_INLINE void g1_lanes_square(fp8 square[2], const fp8 slope[2], int count) {
    if (count == 2) {
        fp8_sqr_two(&square[0], &slope[0], &square[1], &slope[1]);
    } else {
        fp8_sqr(square, slope);
    }
}

FP8_INLINE void g2_lanes_square(fp82 square[2], const fp82 slope[2], int count) {
    MSM_EACH(i, count) {
        fp8 sum, difference;
        fp8_add(&sum, &slope[i].c0, &slope[i].c1);
        fp8_sub(&difference, &slope[i].c0, &slope[i].c1);
        fp8_mul_two(&square[i].c0, &sum, &difference, &square[i].c1, &slope[i].c0, &slope[i].c1);
    }
}

#endif
