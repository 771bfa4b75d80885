/* msm/plan.h - window sizes and digit layout of multi-scalar multiplications.
 *
 * Scalars are split by the endomorphism phi(x, y) = (beta*x, y) = lambda*(x, y) into two halves of at most 2^126 in absolute
 * value (Gallant, Lambert, Vanstone 2001), and each half into signed digits. Window sizes differ by at most one bit, so that no
 * window is nearly empty. The choice affects speed only.
 *
 * Window w has the buckets of set w mod sets. Without a table of bases each window has its own set. With one (msm/table.h), windows
 * of a set are summed over shifted bases, 2^(distance from the set's lowest window) P.
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
    uint32_t windows; /* a multiple of sets */
    uint32_t sets;    /* of buckets */
    uint32_t wide;    /* windows of sets [0, wide) have one bit more than the others */
    uint32_t bits;    /* of the others */
    uint32_t excess;  /* bits by which all windows together exceed MSM_HALF_BITS; below `bits` */
    uint32_t buckets; /* of the largest set */
} msm_plan;

/* Returns the bits of each window of a set. */
static inline uint32_t msm_set_bits(const msm_plan *plan, uint32_t set) { return plan->bits + (set < plan->wide); }

/* Digits of a set's windows are -buckets .. buckets. */
static inline uint32_t msm_set_buckets(const msm_plan *plan, uint32_t set) { return 1u << (msm_set_bits(plan, set) - 1); }

/* Returns the bits of a window's digits: the last window ends at MSM_HALF_BITS. */
static inline uint32_t msm_window_bits(const msm_plan *plan, uint32_t window) {
    return msm_set_bits(plan, window % plan->sets) - (window + 1 == plan->windows ? plan->excess : 0);
}

/* Returns the windows of a set: the number of shifts of each base. */
static inline uint32_t msm_plan_shifts(const msm_plan *plan) { return plan->windows / plan->sets; }

/* Returns the bits from a window to the next one of the same set. */
static inline uint32_t msm_shift_bits(const msm_plan *plan) { return plan->sets * plan->bits + plan->wide; }

/* Returns 1 when digits take 32 bits. */
static inline int msm_plan_is_wide(const msm_plan *plan) { return plan->buckets > MSM_PART_BUCKETS; }

static inline size_t msm_digit_bytes(const msm_plan *plan) { return msm_plan_is_wide(plan) ? sizeof(int32_t) : sizeof(int16_t); }

/* Returns the plan with `sets` sets of `shifts` windows each. Windows may be too wide (buckets is then 0), and the last one may have no
 * bits within MSM_HALF_BITS: msm_table_fits() refuses such plans. */
static inline msm_plan msm_plan_of_sets(uint32_t sets, uint32_t shifts) {
    const uint32_t shift_bits = (MSM_HALF_BITS + shifts - 1) / shifts;
    msm_plan plan = {sets * shifts, sets, shift_bits % sets, shift_bits / sets, shifts * shift_bits - MSM_HALF_BITS, 0};
    if (msm_set_bits(&plan, 0) <= MSM_MAX_WINDOW) plan.buckets = msm_set_buckets(&plan, 0);
    return plan;
}

static inline msm_plan msm_plan_of_windows(uint32_t windows) { return msm_plan_of_sets(windows, 1); }

/* Returns the plan without tables that has the fewest windows of at most `bits` bits. */
static inline msm_plan msm_plan_of_window(uint32_t bits) {
    return msm_plan_of_windows((MSM_HALF_BITS + bits - 1) / bits);
}

/* Returns the buckets of all sets. */
static inline double msm_plan_buckets(const msm_plan *plan) {
    return (double)plan->buckets * (plan->wide ? (plan->sets + plan->wide) / 2.0 : plan->sets);
}

/* Returns the cost of `count` scalars in additions. Each half of a scalar is added to a bucket, except the first of a bucket. The
 * two halves of a bucket are added, and each bucket is added twice in the bucket sum. Together: one addition per half, and one
 * per bucket. */
static inline double msm_plan_cost(const msm_plan *plan, uint64_t count) {
    const double cost = msm_plan_is_wide(plan) ? MSM_WIDE_BUCKET_COST : MSM_BUCKET_COST;
    return 2.0 * (double)count * plan->windows + cost * msm_plan_buckets(plan);
}

/* Returns the plan without tables that has the lowest cost for `count` scalars. */
static inline msm_plan msm_plan_for(uint64_t count) {
    msm_plan best = msm_plan_of_window(MSM_MAX_WINDOW);
    for (uint32_t windows = best.windows + 1; windows <= MSM_MAX_WINDOWS; windows++) {
        const msm_plan plan = msm_plan_of_windows(windows);
        if (msm_plan_cost(&plan, count) < msm_plan_cost(&best, count)) best = plan;
    }
    return best;
}

#endif
