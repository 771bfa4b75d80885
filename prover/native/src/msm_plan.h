/* msm_plan.h - window choice and digit layout of the multi-scalar multiplications.
 *
 * Scalars are split by the endomorphism phi(x, y) = (beta*x, y) = lambda*(x, y) into two halves below
 * 2^127 in absolute value (Gallant, Lambert, Vanstone 2001), and each half into signed digits of
 * `window_bits` bits. Tuning changes speed only: every choice gives the same sum.
 */
#ifndef G16_MSM_PLAN_H
#define G16_MSM_PLAN_H

#include <stdint.h>

/* Halves are below 2^127; the signed recoding needs one bit more. */
#define MSM_HALF_BITS 128
#define MSM_MIN_WINDOW 2
#define MSM_MAX_WINDOW 15 /* digits are stored as int16_t and may be negated */
#define MSM_MAX_WINDOWS ((MSM_HALF_BITS + MSM_MIN_WINDOW - 1) / MSM_MIN_WINDOW)

typedef struct msm_plan {
    uint32_t window_bits;
    uint32_t windows;
    uint32_t buckets; /* 2^(window_bits - 1): digits are -buckets .. buckets */
} msm_plan;

static inline msm_plan msm_plan_of_window(uint32_t window_bits) {
    msm_plan plan = {window_bits, (MSM_HALF_BITS + window_bits - 1) / window_bits, 1u << (window_bits - 1)};
    return plan;
}

/* The plan with the fewest additions for `count` scalars: one per half and window, and
 * about 2.2 per bucket and window to weigh the buckets. */
static inline msm_plan msm_plan_for(uint64_t count) {
    msm_plan best = msm_plan_of_window(MSM_MIN_WINDOW);
    double best_cost = 0;
    for (uint32_t bits = MSM_MIN_WINDOW; bits <= MSM_MAX_WINDOW; bits++) {
        msm_plan plan = msm_plan_of_window(bits);
        double cost = plan.windows * (2.0 * (double)count + 2.2 * plan.buckets);
        if (bits == MSM_MIN_WINDOW || cost < best_cost) {
            best = plan;
            best_cost = cost;
        }
    }
    return best;
}

#endif
