/* cuda/msm/plan.h - sizes of a multi-scalar multiplication on the device; plain numbers, chosen on the host.
 *
 * Scalars are split into signed digits of window_bits bits, -2^(window_bits - 1) .. 2^(window_bits - 1) - 1. Window w belongs to bucket
 * set w mod sets and uses the bases in row w / sets of a table of shifted bases. Without a table there are as many sets as windows,
 * and the only row is the bases. Every choice gives the same sum.
 *
 * A plan may cover several multiplications with the same bases. Each has its own bucket sets, and all share launches. Only the
 * sort knows which scalars belong to which multiplication; entries refer to bases.
 */
#ifndef CUDA_MSM_PLAN_H
#define CUDA_MSM_PLAN_H

#include <stdint.h>

#include "cuda/base/tuning.h"

#define DEVICE_MSM_SCALAR_BITS 255 /* 254, and one for the sign of the last digit */
#define DEVICE_MSM_MIN_WINDOW 2
#define DEVICE_MSM_MAX_WINDOW 23
#define DEVICE_MSM_MAX_SETS 128 /* the number of windows of two bits */
#define DEVICE_MSM_MAX_LOW_BITS 11    /* the counters of a partition are in shared memory */
#define DEVICE_MSM_MIN_PARTITION_BITS 8 /* minimum log2 of the blocks that sort at once */
#define DEVICE_MSM_TILE 8192          /* digits per block in the first sorting pass */
#define DEVICE_MSM_MIN_PIECE 8
#define DEVICE_MSM_MAX_PIECE 256
#define DEVICE_MSM_FULL_GPU 65536 /* fewer threads leave multiprocessors idle */
#define DEVICE_MSM_REDUCE_LOG2 4
#define DEVICE_MSM_LEVEL_LOG2 2
#define DEVICE_MSM_THREADS 128
#define DEVICE_MSM_JOIN_BLOCKS 528

#define DEVICE_MSM_G2_SMALL 1  /* products out of line */
#define DEVICE_MSM_G2_HALVES 2 /* two threads for a point */

typedef struct device_msm_plan {
    uint32_t window_bits, windows, sets, shifts; /* sets: per multiplication */
    uint32_t multiplications, all_sets;          /* with the same bases; sets of all multiplications */
    uint32_t buckets;    /* per set */
    uint32_t partitions; /* per set: buckets with equal high bits, sorted by one block */
    uint32_t low_bits;   /* low bits of a bucket number, which select a bucket within a partition */
    uint32_t count;      /* bases per row of the table */
    uint32_t tile, tiles; /* digits per block in the first sorting pass; such blocks per window */
    uint32_t piece;      /* maximum additions of one thread; longer buckets are divided */
    uint32_t reduce_log2; /* log2 of the buckets of a node in the first level; small enough that the nodes fill the GPU */
    uint32_t level_log2;  /* maximum log2 of the children of other nodes */
    uint32_t threads;     /* per block that sums or reduces buckets, or computes a row of the table */
    uint32_t joins;       /* blocks that add pieces */
    uint32_t g2;          /* kernel for the sums in G2: 0, or one of the next */
} device_msm_plan;

static inline uint32_t device_msm_at_most(uint64_t value, uint32_t limit) {
    return value < limit ? (uint32_t)value : limit;
}

/* Returns the number of buckets in all sets. */
static inline uint64_t device_msm_keys(const device_msm_plan *plan) { return (uint64_t)plan->all_sets * plan->buckets; }
/* Returns the log2 of the sets of a multiplication, rounded up. */
static inline uint32_t device_msm_sets_log2(const device_msm_plan *plan) {
    uint32_t log2 = 0;
    while (1u << log2 < plan->sets) log2++;
    return log2;
}
/* Returns the maximum number of non-zero digits. */
static inline uint64_t device_msm_entries(const device_msm_plan *plan) {
    return (uint64_t)plan->multiplications * plan->windows * plan->count;
}

/* Extends a plan to several multiplications; chooses pieces and nodes that fill the GPU. tuning here and below: NULL, or settings
 * that override the plan. */
static inline device_msm_plan device_msm_plan_batch(device_msm_plan plan, uint32_t multiplications, const device_tuning *tuning) {
    plan.multiplications = multiplications;
    plan.all_sets = multiplications * plan.sets;
    const uint64_t entries = device_msm_entries(&plan), keys = device_msm_keys(&plan);
    const uint64_t filling = entries / DEVICE_MSM_FULL_GPU, unsplit = 4 * (entries / keys);
    plan.piece = device_msm_at_most(filling < unsplit ? filling : unsplit, DEVICE_MSM_MAX_PIECE);
    if (plan.piece < DEVICE_MSM_MIN_PIECE) plan.piece = DEVICE_MSM_MIN_PIECE;
    plan.reduce_log2 = DEVICE_MSM_REDUCE_LOG2;
    while (plan.reduce_log2 > plan.window_bits - 1) plan.reduce_log2--;
    while (plan.reduce_log2 > 1 && keys >> plan.reduce_log2 < DEVICE_MSM_FULL_GPU) plan.reduce_log2--;
    plan.piece = device_tuned(tuning, TUNING_PIECE, plan.piece);
    plan.reduce_log2 = device_tuned(tuning, TUNING_REDUCE, plan.reduce_log2);
    return plan;
}

/* The first `multiplications` of a plan. It fits the memory of all, because piece and reduce_log2 are unchanged. */
static inline device_msm_plan device_msm_plan_first(device_msm_plan plan, uint32_t multiplications) {
    plan.multiplications = multiplications;
    plan.all_sets = multiplications * plan.sets;
    return plan;
}

/* sets 0: no table. A tuning may contradict the window; device_msm_fits() checks that. */
static inline device_msm_plan device_msm_plan_of(uint32_t count, uint32_t window_bits, uint32_t sets, const device_tuning *tuning) {
    device_msm_plan plan = {0};
    plan.window_bits = window_bits;
    plan.windows = (DEVICE_MSM_SCALAR_BITS + window_bits - 1) / window_bits;
    plan.sets = sets && sets < plan.windows ? sets : plan.windows;
    plan.shifts = (plan.windows + plan.sets - 1) / plan.sets;
    plan.buckets = 1u << (window_bits - 1);
    plan.low_bits = window_bits - 1 > DEVICE_MSM_MIN_PARTITION_BITS ? window_bits - 1 - DEVICE_MSM_MIN_PARTITION_BITS : 0;
    if (plan.low_bits > DEVICE_MSM_MAX_LOW_BITS) plan.low_bits = DEVICE_MSM_MAX_LOW_BITS;
    plan.low_bits = device_tuned(tuning, TUNING_LOW_BITS, plan.low_bits);
    plan.partitions = plan.buckets >> plan.low_bits;
    plan.count = count;
    plan.tile = device_tuned(tuning, TUNING_TILE, DEVICE_MSM_TILE);
    plan.tiles = count ? (uint32_t)(((uint64_t)count + plan.tile - 1) / plan.tile) : 1;
    plan.level_log2 = device_tuned(tuning, TUNING_LEVEL, DEVICE_MSM_LEVEL_LOG2);
    plan.threads = device_tuned(tuning, TUNING_THREADS, DEVICE_MSM_THREADS);
    plan.joins = device_tuned(tuning, TUNING_JOINS, DEVICE_MSM_JOIN_BLOCKS);
    plan.g2 = device_tuned(tuning, TUNING_G2, 0);
    return device_msm_plan_batch(plan, 1, tuning);
}

/* Returns the number of counters in the first sorting pass. */
static inline uint64_t device_msm_counters(const device_msm_plan *plan) {
    return (uint64_t)plan->all_sets * plan->partitions * plan->shifts * plan->tiles;
}
/* Returns the maximum number of pieces. */
static inline uint64_t device_msm_pieces(const device_msm_plan *plan) {
    const uint64_t keys = device_msm_keys(plan), entries = device_msm_entries(plan);
    return (keys < entries ? keys : entries) + entries / plan->piece;
}
/* Returns the maximum number of pieces of divided buckets, and of divided buckets. */
static inline uint64_t device_msm_partials(const device_msm_plan *plan) {
    return 2 * (device_msm_entries(plan) / plan->piece);
}
static inline uint64_t device_msm_longs(const device_msm_plan *plan) { return device_msm_entries(plan) / plan->piece; }

/* Returns 1 when there are enough buckets for partitions and nodes, and few enough partitions for the shared memory of a block. */
static inline int device_msm_divides(const device_msm_plan *plan) {
    const uint32_t bits = plan->window_bits - 1;
    return plan->low_bits <= bits && bits - plan->low_bits <= DEVICE_MSM_MAX_LOW_BITS && plan->reduce_log2 <= bits;
}

/* Returns 1 when the plan is possible and all indices fit 31 bits, next to a sign. */
static inline int device_msm_fits(const device_msm_plan *plan) {
    return device_msm_divides(plan) && (uint64_t)plan->shifts * plan->count < (uint64_t)1 << 31 &&
           device_msm_entries(plan) < (uint64_t)1 << 32 &&
           device_msm_keys(plan) + device_msm_partials(plan) < (uint64_t)1 << 32;
}

/* Returns 1 when the tuning allows the window. */
static inline int device_msm_is_allowed(const device_tuning *tuning, uint32_t window_bits) {
    return device_tuned(tuning, TUNING_WINDOW, window_bits) == window_bits;
}

/* Returns the plan with the fewest products: ten per entry, and 28 per bucket, for two complete additions. If none fits, returns
 * one that does not. */
static inline device_msm_plan device_msm_plan_for(uint32_t count, uint32_t sets, const device_tuning *tuning) {
    device_msm_plan best = device_msm_plan_of(count, device_tuned(tuning, TUNING_WINDOW, DEVICE_MSM_MIN_WINDOW), sets, tuning);
    double best_cost = -1;
    for (uint32_t bits = DEVICE_MSM_MIN_WINDOW; bits <= DEVICE_MSM_MAX_WINDOW; bits++) {
        const device_msm_plan plan = device_msm_plan_of(count, bits, sets, tuning);
        const double cost = 10.0 * (double)device_msm_entries(&plan) + 28.0 * (double)device_msm_keys(&plan);
        if (!device_msm_is_allowed(tuning, bits) || !device_msm_fits(&plan)) continue;
        if (best_cost < 0 || cost < best_cost) {
            best = plan;
            best_cost = cost;
        }
    }
    return best;
}

#endif
