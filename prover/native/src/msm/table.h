/* msm/table.h - the shape of precomputed tables of bases.
 *
 * A table of a plan (msm/plan.h) holds 2^(b j) P for each base P and each shift j, where b is msm_shift_bits(). So all windows of a
 * set share buckets. Few sets need much memory and few additions. Entry j * width + i of a table is shift j of base i, where width
 * is the number of bases.
 */
#ifndef G16_MSM_TABLE_H
#define G16_MSM_TABLE_H

#include "msm/plan.h"

#define MSM_TABLE_MIN_WINDOW 4
#define MSM_TABLE_MAX_SETS 16
#define MSM_TABLE_MAX_SHIFTS 16
/* What a bucket costs more than without tables, in additions: the tables leave buckets less of the cache. */
#define MSM_TABLE_BUCKET_COST 0.5
/* Entries hold a shift, the number of a scalar and a sign in 32 bits. */
#define MSM_TABLE_NUMBER_BITS 31

/* Lengths of the lists that share a plan (A, K with Z, B in G2), and the number of scalars that are sorted together. */
typedef struct msm_table_counts {
    uint64_t a, kz, b2, scalars;
} msm_table_counts;

static inline uint64_t msm_table_bytes(const msm_plan *plan, const msm_table_counts *counts) {
    return msm_plan_shifts(plan) * (64 * (counts->a + counts->kz) + 128 * counts->b2);
}

/* Returns the number of bits of an index below `count`. */
static inline uint32_t msm_number_bits(uint64_t count) {
    uint32_t bits = 0;
    while (count > (uint64_t)1 << bits) bits++;
    return bits;
}

/* Returns 1 when a table may have this plan: windows have a supported size, the last one is not empty, and entries have enough bits
 * for every shift of every scalar. */
static inline int msm_table_fits(const msm_plan *plan, const msm_table_counts *counts) {
    return plan->bits >= MSM_TABLE_MIN_WINDOW && msm_set_bits(plan, 0) <= MSM_MAX_WINDOW && plan->excess < plan->bits &&
           msm_number_bits(msm_plan_shifts(plan)) + msm_number_bits(counts->scalars) <= MSM_TABLE_NUMBER_BITS;
}

/* Returns the average number of bases of a sum. An addition in G2 takes as long as two in G1. */
static inline uint64_t msm_table_average(const msm_table_counts *counts) { return (counts->a + counts->kz + 2 * counts->b2) / 4; }

/* Returns the cost of the sums with a plan, as msm_plan_cost(). read_cost: what reading a point of a table takes longer than reading a
 * base, in additions. */
static inline double msm_table_cost(const msm_plan *plan, const msm_table_counts *counts, double read_cost) {
    const uint64_t average = msm_table_average(counts);
    const double extra = read_cost * 2.0 * (double)average * plan->windows + MSM_TABLE_BUCKET_COST * msm_plan_buckets(plan);
    return msm_plan_cost(plan, average) + (msm_plan_shifts(plan) > 1 ? extra : 0);
}

/* Returns 1 when sums with the tables of a plan cost less than sums without tables. */
static inline int msm_table_saves(const msm_plan *plan, const msm_table_counts *counts, double read_cost) {
    const msm_plan plain = msm_plan_for(msm_table_average(counts));
    return msm_table_cost(plan, counts, read_cost) < msm_table_cost(&plain, counts, read_cost);
}

/* Returns the plan with the lowest cost whose tables take at most `budget` bytes; windows is 0 when none of them saves anything. */
static inline msm_plan msm_table_choose(const msm_table_counts *counts, uint64_t budget, double read_cost) {
    msm_plan best = {0};
    for (uint32_t sets = 1; sets <= MSM_TABLE_MAX_SETS; sets++) {
        for (uint32_t shifts = 2; shifts <= MSM_TABLE_MAX_SHIFTS; shifts++) {
            const msm_plan plan = msm_plan_of_sets(sets, shifts);
            if (!msm_table_fits(&plan, counts) || msm_table_bytes(&plan, counts) > budget) continue;
            if (best.windows ? msm_table_cost(&plan, counts, read_cost) < msm_table_cost(&best, counts, read_cost)
                             : msm_table_saves(&plan, counts, read_cost)) {
                best = plan;
            }
        }
    }
    return best;
}

#endif
