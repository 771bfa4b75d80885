/* msm/table.h - shapes of precomputed tables of bases.
 *
 * A scalar has `windows` signed digits of `window_bits` bits. Window w = j * sets + k belongs to bucket set k, and the table
 * holds 2^(window_bits * sets * j) P for each base P and each shift j. So all windows of a set share buckets, and the sum of set
 * k has weight 2^(window_bits * k). One set needs the most memory and the fewest additions.
 * Entry j * width + i of a table is shift j of base i, where width is the number of bases.
 */
#ifndef G16_MSM_TABLE_H
#define G16_MSM_TABLE_H

#include "msm/plan.h"

/* Scalars have 254 bits, and the signed recoding needs one more. */
#define MSM_TABLE_SCALAR_BITS 255
#define MSM_TABLE_MIN_WINDOW 8
#define MSM_TABLE_MAX_WINDOW 16 /* digits are -2^15 .. 2^15 - 1 */
#define MSM_TABLE_MAX_SETS 8
/* Entries hold a shift, the number of a scalar and a sign in 32 bits. */
#define MSM_TABLE_NUMBER_BITS 31

typedef struct msm_table_shape {
    uint32_t window_bits;
    uint32_t sets;
    uint32_t windows; /* 0: no table */
    uint32_t shifts;
} msm_table_shape;

/* Lengths of the lists that share a shape (A, K with Z, B in G2), and the number of scalars that are sorted together. */
typedef struct msm_table_counts {
    uint64_t a, kz, b2, scalars;
} msm_table_counts;

static inline msm_table_shape msm_table_shape_of(uint32_t window_bits, uint32_t sets) {
    const uint32_t windows = (MSM_TABLE_SCALAR_BITS + window_bits - 1) / window_bits;
    msm_table_shape shape = {window_bits, sets, windows, (windows + sets - 1) / sets};
    return shape;
}

static inline uint32_t msm_table_buckets(const msm_table_shape *shape) { return 1u << (shape->window_bits - 1); }

static inline uint64_t msm_table_bytes(const msm_table_shape *shape, const msm_table_counts *counts) {
    return shape->shifts * (64 * (counts->a + counts->kz) + 128 * counts->b2);
}

/* Returns the number of bits of an index below `scalars`. */
static inline uint32_t msm_table_number_bits(uint64_t scalars) {
    uint32_t bits = 0;
    while (scalars > (uint64_t)1 << bits) bits++;
    return bits;
}

/* Returns 1 when entries have enough bits for every shift of every scalar. */
static inline int msm_table_fits(const msm_table_shape *shape, const msm_table_counts *counts) {
    return msm_table_number_bits(shape->shifts) + msm_table_number_bits(counts->scalars) <= MSM_TABLE_NUMBER_BITS;
}

/* Returns the shape with the fewest additions in at most `budget` bytes; windows is 0 when none fits or saves anything. An
 * addition in G2 takes as long as 2.2 in G1, and a bucket costs about 1.3 additions. */
static inline msm_table_shape msm_table_choose(const msm_table_counts *counts, uint64_t budget) {
    msm_table_shape best = {0, 0, 0, 0};
    const msm_plan plain = msm_plan_for(counts->kz / 2);
    const double points = (double)counts->a + (double)counts->kz + 2.2 * (double)counts->b2;
    double best_cost = plain.windows * (2.0 * points + 5.2 * 2.2 * plain.buckets);
    for (uint32_t sets = 1; sets <= MSM_TABLE_MAX_SETS; sets++) {
        for (uint32_t bits = MSM_TABLE_MIN_WINDOW; bits <= MSM_TABLE_MAX_WINDOW; bits++) {
            const msm_table_shape shape = msm_table_shape_of(bits, sets);
            const double cost = shape.windows * points + 4.2 * 1.3 * sets * msm_table_buckets(&shape);
            if (!msm_table_fits(&shape, counts) || msm_table_bytes(&shape, counts) > budget) continue;
            if (cost < best_cost) {
                best = shape;
                best_cost = cost;
            }
        }
    }
    return best;
}

#endif
