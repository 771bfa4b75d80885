/* msm/plan.h - window sizes and digit layout of multi-scalar multiplications.
 *
 * Scalars are split by the endomorphism phi(x, y) = (beta*x, y) = lambda*(x, y) into two halves of at most 2^126 in absolute
 * value (Gallant, Lambert, Vanstone 2001), and each half into signed digits. Window sizes differ by at most one bit, so that no
 * window is nearly empty. The choice affects speed only.
 *
 * Digits of up to MSM_NARROW_WINDOW bits are stored in 16 bits, wider ones in 32. Buckets of wide windows are summed in parts.
 */
#ifndef G16_MSM_PLAN_H
#define G16_MSM_PLAN_H

#include <stddef.h>
#include <stdint.h>

/* Halves are at most 2^126; the signed recoding needs one bit more. */
#define MSM_HALF_BITS 127
#define MSM_MIN_WINDOW 2
#define MSM_NARROW_WINDOW 15 /* digits are stored as int16_t and may be negated */
#define MSM_MAX_WINDOW 19
/* Maximum buckets that a worker sums at once; these and the points that are added stay in the cache. A power of two. */
#define MSM_PART_BUCKETS ((uint32_t)1 << (MSM_NARROW_WINDOW - 1))
#define MSM_MAX_WINDOWS ((MSM_HALF_BITS + MSM_MIN_WINDOW - 1) / MSM_MIN_WINDOW)
/* Cost of a bucket in additions, measured: one addition (see msm_plan_cost), its share of the sort and of phi, and summands
 * without a partner. */
#ifndef MSM_BUCKET_COST
#define MSM_BUCKET_COST 1.7
#endif
/* The same in wide windows: their buckets have fewer entries, and parts have sums of their own. */
#ifndef MSM_WIDE_BUCKET_COST
#define MSM_WIDE_BUCKET_COST 2.0
#endif

typedef struct msm_plan {
    uint32_t windows;
    uint32_t wide;    /* windows [0, wide) have one bit more than the others */
    uint32_t bits;    /* of the others */
    uint32_t buckets; /* of the widest */
} msm_plan;

static inline uint32_t msm_window_bits(const msm_plan *plan, uint32_t window) { return plan->bits + (window < plan->wide); }

/* Digits of a window are -buckets .. buckets. */
static inline uint32_t msm_window_buckets(const msm_plan *plan, uint32_t window) {
    return 1u << (msm_window_bits(plan, window) - 1);
}

/* Returns 1 when digits take 32 bits. */
static inline int msm_plan_is_wide(const msm_plan *plan) { return plan->buckets > MSM_PART_BUCKETS; }

static inline size_t msm_digit_bytes(const msm_plan *plan) { return msm_plan_is_wide(plan) ? sizeof(int32_t) : sizeof(int16_t); }

static inline msm_plan msm_plan_of_windows(uint32_t windows) {
    msm_plan plan = {windows, MSM_HALF_BITS % windows, MSM_HALF_BITS / windows, 0};
    plan.buckets = msm_window_buckets(&plan, 0);
    return plan;
}

/* Returns the plan with the fewest windows of at most `bits` bits. */
static inline msm_plan msm_plan_of_window(uint32_t bits) {
    return msm_plan_of_windows((MSM_HALF_BITS + bits - 1) / bits);
}

/* Returns the cost of `count` scalars in additions. Each half of a scalar is added to a bucket, except the first of a bucket. The
 * two halves of a bucket are added, and each bucket is added twice in the bucket sum. Together: one addition per half, and one
 * per bucket. */
static inline double msm_plan_cost(const msm_plan *plan, uint64_t count) {
    const double buckets = (double)plan->buckets * (plan->wide ? (plan->windows + plan->wide) / 2.0 : plan->windows);
    return 2.0 * (double)count * plan->windows + (msm_plan_is_wide(plan) ? MSM_WIDE_BUCKET_COST : MSM_BUCKET_COST) * buckets;
}

/* Returns the plan with the lowest cost for `count` scalars. */
static inline msm_plan msm_plan_for(uint64_t count) {
    msm_plan best = msm_plan_of_window(MSM_MAX_WINDOW);
    for (uint32_t windows = best.windows + 1; windows <= MSM_MAX_WINDOWS; windows++) {
        const msm_plan plan = msm_plan_of_windows(windows);
        if (msm_plan_cost(&plan, count) < msm_plan_cost(&best, count)) best = plan;
    }
    return best;
}

#endif
