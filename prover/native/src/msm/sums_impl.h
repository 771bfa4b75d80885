/* msm/sums_impl.h - multi-scalar multiplication over G1 and G2; included by backend.c.
 *
 * msm_recode() splits scalars into signed digits. msm_sort_entries() sorts the entries of a bucket set, once for all lists of
 * bases that share the digits. {g1,g2}_msm_part() sums a set or a part of it from sorted entries, {g1,g2}_msm_piece() from these and
 * from unsorted digits; all are independent tasks. {g1,g2}_msm_join_sets() adds the results.
 */
#ifndef G16_MSM_SUMS_IMPL_H
#define G16_MSM_SUMS_IMPL_H

#include "base/arena.h"
#include "base/random.h"
#include "base/thread_pool.h"
#include "curve/encoding_impl.h"
#include "curve/g1.h"
#include "curve/g2.h"
#include "msm/cut.h"
#include "msm/glv_impl.h"
#include "msm/plan.h"
#include "msm/table.h"
#if defined(G16_LANES)
#include "msm/glv_lanes_impl.h"
#endif

/* Average pairs per inversion, and summands per slab of trees. They affect speed only. The state of the pairs must fit the
 * second-level cache, which is smaller where there is no IFMA. */
#ifndef MSM_PAIRS
#if defined(LANES_IFMA)
#define MSM_PAIRS 1536
#else
#define MSM_PAIRS 768
#endif
#endif
#ifndef MSM_SLAB
#define MSM_SLAB 8192
#endif
/* A batch has less than MSM_PAIRS * 3 / 2 pairs, plus up to 7 at the end of a tree level. */
#define MSM_MAX_PAIRS (MSM_PAIRS * 3 / 2 + 8)
/* Elements beyond the last pair that complete a block of lanes. */
#define MSM_PAIRS_PADDING 8
/* Owners are written in groups of this size. */
#define MSM_OWNERS_STEP 16
/* Owners are compared with their neighbours 64 at a time. */
#define MSM_OWNERS_PADDING 65
/* Points are prefetched this many pairs ahead. */
#define MSM_PREFETCH_PAIRS 24
/* Hook of the kernel's benchmark: counts additions of pairs. */
#ifndef MSM_COUNT
#define MSM_COUNT(additions) ((void)(additions))
#endif
/* An entry: number of the base, then a sign bit. */
#define MSM_ENTRY(base, negative) ((uint32_t)(base) << 1 | (uint32_t)(negative))
/* Lines of the two-level bucket sum: at most 2^ceil(log2(MSM_PART_BUCKETS) / 2). */
#define MSM_LINE_BITS 7
#define MSM_MAX_LINES (1 << MSM_LINE_BITS)

/* Sums of a few multiples: points, bits of a digit, and multiples of each point, for digits of up to half of the range. */
#define MSM_MULTIPLES_MAX 3
#define MSM_MULTIPLES_WINDOW 4
#define MSM_MULTIPLES 8

/* Fixed bases (trusted setup): scalars have 254 bits, and signed recoding needs one more. A chunk of sums fits a slab for every
 * window size. */
#define FIXED_BASE_BITS 255
#define FIXED_BASE_MIN_WINDOW 8
#define FIXED_BASE_CHUNK (MSM_SLAB / 32)
#define FIXED_BASE_POLL_EVERY 256

/* |digit| without a branch, which would be mispredicted half of the time. */
static inline uint32_t msm_magnitude(int32_t digit) {
    const int32_t sign = digit >> 31;
    return (uint32_t)((digit ^ sign) - sign);
}

/* Writes digits[(w * 2 + half) * count + i] for scalars i in [first, last). Scalar i is values[i] * unit, where unit is a plain
 * number: {1, 0, 0, 0} for the values themselves. */
static void msm_recode(void *digits, const msm_plan *plan, const fr *values, const uint64_t unit[4], size_t count, size_t first,
                       size_t last) {
    const int wide = msm_plan_is_wide(plan);
    const size_t bytes = msm_digit_bytes(plan);
    uint8_t *const out = digits;
    uint64_t bias[2];
    glv_bias(bias, plan);
#if defined(G16_LANES)
    if (last - first >= LANES) {
        LANES_REGION;
        fr8 factor;
        fr8_broadcast(&factor, unit);
        for (; first + LANES <= last; first += LANES) {
            glv_lanes_digits(out + first * bytes, count, values + first, &factor, plan, bias, wide);
        }
    }
#endif
    for (size_t i = first; i < last; i++) {
        uint64_t limbs[4];
        glv_half halves[2];
        mont256_mul(limbs, values[i].v, unit, &FR_MODULUS);
        glv_split(halves, limbs);
        for (int half = 0; half < 2; half++) {
            void *const own = out + ((size_t)half * count + i) * bytes;
            if (wide) {
                glv_digits(own, 2 * count, &halves[half], plan, bias, 1);
            } else {
                glv_digits(own, 2 * count, &halves[half], plan, bias, 0);
            }
        }
    }
}

static size_t msm_digits_bytes(const msm_plan *plan, size_t count) {
    return 2 * (size_t)plan->windows * count * msm_digit_bytes(plan);
}

/* The digits of a half in a window that is not wide. */
static inline const int16_t *msm_digits(const int16_t *digits, size_t count, uint32_t window, int half) {
    return digits + ((size_t)window * 2 + (size_t)half) * count;
}

#include "msm/sort_impl.h"

#if defined(G16_LANES)
#include "field/fp82_impl.h"
#include "msm/lanes_impl.h"
#define MSM_PAIR_ADDITION "msm/vector_impl.h"
#else
#define MSM_PAIR_ADDITION "msm/scalar_impl.h"
#endif

#define FE fp
#define F(operation) fp_##operation
#define FE_ONE FP_ONE
#define AFFINE g1_affine
#define XYZZ g1_xyzz
#define C(name) g1_##name
#define MSM_KIND(name) G1_MSM_##name
#define MSM_BETA GLV_BETA_G1
#define MSM_SCALE(r, a, b) fp_mul(r, a, b)
#define MSM_NEGATE_PACKED(r) fp8_negate_packed(r, r)
#define MSM_DIVISOR(norm, d) ((void)(norm), (d))
#define MSM_QUOTIENT(r, n, d, inverse) ((void)(d), fp_mul(r, n, inverse))
#define VE fp8
#define V(operation) fp8_##operation
#define VE_ONE(r) fp8_set(r, FP8_ONE)
#define MSM_X_BOUND 7
#define MSM_Y_BOUND 7
#define MSM_BLOCKS_AT_ONCE 2 /* blocks of pairs whose sums are finished together; this affects speed only */
#define FIXED_BASE_BYTES G1_COMPRESSED_BYTES
#include "msm/sums_group_impl.h"

#define FE fp2
#define F(operation) fp2_##operation
#define FE_ONE FP2_ONE
#define AFFINE g2_affine
#define XYZZ g2_xyzz
#define C(name) g2_##name
#define MSM_KIND(name) G2_MSM_##name
#define MSM_BETA GLV_BETA_G2
#define MSM_SCALE(r, a, b) fp2_mul_fp(r, a, b)
#define MSM_DIVISOR(norm, d) (fp2_norm(norm, d), (norm))
#define MSM_QUOTIENT(r, n, d, inverse) (fp2_conj(r, d), fp2_mul(r, r, n), fp2_mul_fp(r, r, inverse))
#define MSM_NEGATE_PACKED(r) (fp8_negate_packed(&(r)->c0, &(r)->c0), fp8_negate_packed(&(r)->c1, &(r)->c1))
#define VE fp82
#define V(operation) fp82_##operation
#define VE_ONE(r) fp82_set_one(r)
#define MSM_X_BOUND 8
#define MSM_Y_BOUND 8
#define MSM_BLOCKS_AT_ONCE (LANES_PARTS > 1 ? 2 : 1)
#define FIXED_BASE_BYTES G2_COMPRESSED_BYTES
#include "msm/sums_group_impl.h"

#endif
