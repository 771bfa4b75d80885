/* msm/lanes_impl.h - what additions of eight points of G1 and G2 take between their products; backends with lanes only.
 *
 * Bounds follow field/fp8_impl.h: packed coordinates are below 2p + 2^212, and so below 2.1p.
 */
#ifndef G16_MSM_LANES_IMPL_H
#define G16_MSM_LANES_IMPL_H

#include "field/fp82_impl.h"

/* A loop over blocks or their parts, and what it does. Both are long: unrolled and inlined they would push each other and the
 * products out of the processor's cache of decoded instructions. */
#define MSM_EACH(i, count) _Pragma("GCC unroll 1") for (int i = 0; i < (count); i++)
#if LANES_PARTS > 1
#define MSM_PART static __attribute__((noinline))
#else
#define MSM_PART static inline __attribute__((always_inline))
#endif

/* Blocks whose sums are ended at once: with two registers a limb their products take turns (field/lanes52.h). */
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

/* ---- parts of elements between products ---------------------------------------------------------- */

/* r = a - b + multiple * p, normalised; non-negative. */
FP8_INLINE void fp8_part_sub(lanes_part r[5], const lanes_part a[5], const lanes_part b[5], unsigned multiple) {
    for (int i = 0; i < 5; i++) r[i] = lanes_part_sub(lanes_part_add(a[i], lanes_part_set(fp8_lifted(multiple, i))), b[i]);
    lanes52_carry_part(r, 0);
}

/* Takes limbs of a value from 0 to `bound` p to a normalised value below 2p + 2^212. They are those of a lifted multiple of up to
 * 9p, with up to two normalised ones added and up to three subtracted; so the value is FP8_LIFT_CARRY times 2^208 more than its highest
 * limb says, give or take 7 times that, and that limb decides. */
FP8_INLINE void fp8_part_fit(lanes_part r[5], unsigned bound) {
    LANES52_UNROLL
    for (unsigned multiple = 8; multiple >= 2; multiple /= 2) {
        if (bound <= multiple) continue;
        const uint64_t highest = multiple / 2 * FP8_2P[4] + multiple / 2;
        const lanes_part_choice above = lanes_part_above(r[4], lanes_part_set(highest + 7 - FP8_LIFT_CARRY));
        for (int i = 0; i < 5; i++) r[i] = lanes_part_sub_where(above, r[i], lanes_part_set(FP8_2P[i] * (multiple / 2)));
    }
    lanes52_carry_part(r, 0);
}

/* ---- squares of slopes ------------------------------------------------------------------------------ */

/* square[i] = slope[i]^2, one or two. For G2 the part c1 is half of that. slope: components below 5.8p and 8.4p; square: below 3.6p and
 * 1.6p. */
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
        for (int k = 0; k < 5; k++) {
            difference.v[k] = lanes_sub(lanes_add(slope[i].c0.v[k], lanes_set(fp8_lifted(9, k))), slope[i].c1.v[k]);
        }
        fp8_carry_unsigned(&difference);
        fp8_mul_two(&square[i].c0, &sum, &difference, &square[i].c1, &slope[i].c0, &slope[i].c1);
    }
}

#endif
