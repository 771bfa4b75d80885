/* cuda/msm/plan.h - sizes of a multi-scalar multiplication on the device; plain numbers, decided on the host.
 *
 * Scalars are cut into signed digits of window_bits bits, -2^(window_bits - 1) .. 2^(window_bits - 1) - 1, as by the host's
 * msm_table_recode(). Window w belongs to bucket set w mod sets and takes its bases from row w / sets of a table of shifted
 * bases (msm/table.h); without a table there are as many sets as windows, and the only row is the bases themselves.
 * Every choice gives the same sum.
 *
 * A plan may be of several multiplications with the same bases: each has bucket sets of its own, one after another, and
 * all go through the same launches. Only the sort knows which scalars are whose; entries name bases, whatever the multiplication.
 */
#ifndef CUDA_MSM_PLAN_H
#define CUDA_MSM_PLAN_H

#include <stdint.h>

#include "cuda/base/tuning.h"

#define DEVICE_MSM_SCALAR_BITS 255 /* 254, and one for the sign of the last digit */
#define DEVICE_MSM_MIN_WINDOW 2
#define DEVICE_MSM_MAX_WINDOW 23
#define DEVICE_MSM_MAX_LOW_BITS 11    /* counters of a partition lie in shared memory */
#define DEVICE_MSM_MIN_PARTITION_BITS 8 /* blocks that sort at the same time */
#define DEVICE_MSM_TILE 8192          /* digits of a block of the first sorting pass */
#define DEVICE_MSM_MIN_PIECE 8
#define DEVICE_MSM_MAX_PIECE 256
#define DEVICE_MSM_FULL_GPU 65536 /* threads below which multiprocessors stand idle */
#define DEVICE_MSM_REDUCE_LOG2 4
#define DEVICE_MSM_LEVEL_LOG2 2
#define DEVICE_MSM_THREADS 128
#define DEVICE_MSM_JOIN_BLOCKS 528

typedef struct device_msm_plan {
    uint32_t window_bits, windows, sets, shifts; /* sets: of a multiplication */
    uint32_t multiplications, all_sets;          /* with the same bases; sets of all */
    uint32_t buckets;    /* of a set */
    uint32_t partitions; /* of a set: buckets with equal high bits, sorted by one block */
    uint32_t low_bits;   /* of a bucket's number: its place in the partition */
    uint32_t count;      /* bases in a row of the table */
    uint32_t tile, tiles; /* digits of a block of the first sorting pass; such blocks per window */
    uint32_t piece;      /* additions of one thread at most; longer buckets are cut */
    uint32_t reduce_log2; /* buckets of a node of the first level, few enough that the nodes fill the GPU */
    uint32_t level_log2;  /* children of a node of other levels, at most */
    uint32_t threads;     /* of a block that sums or reduces buckets, or makes a row of the table */
    uint32_t joins;       /* blocks that join pieces */
} device_msm_plan;

static inline uint32_t device_msm_at_most(uint64_t value, uint32_t limit) {
    return value < limit ? (uint32_t)value : limit;
}

/* Buckets of all sets. */
static inline uint64_t device_msm_keys(const device_msm_plan *plan) { return (uint64_t)plan->all_sets * plan->buckets; }
/* Digits that are not zero, at most. */
static inline uint64_t device_msm_entries(const device_msm_plan *plan) {
    return (uint64_t)plan->multiplications * plan->windows * plan->count;
}

/* The plan for several multiplications, and what fills the GPU with these. tuning: NULL, or what decides instead, here and below. */
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

/* The first of a plan's multiplications: fits in the memory of all, since piece and reduce_log2 stay. */
static inline device_msm_plan device_msm_plan_first(device_msm_plan plan, uint32_t multiplications) {
    plan.multiplications = multiplications;
    plan.all_sets = multiplications * plan.sets;
    return plan;
}

/* sets 0: no table. A tuning may ask for what does not fit the window: device_msm_fits(). */
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
    return device_msm_plan_batch(plan, 1, tuning);
}

/* Counters of the first sorting pass. */
static inline uint64_t device_msm_counters(const device_msm_plan *plan) {
    return (uint64_t)plan->all_sets * plan->partitions * plan->shifts * plan->tiles;
}
/* Runs of entries that one thread sums, at most. */
static inline uint64_t device_msm_pieces(const device_msm_plan *plan) {
    const uint64_t keys = device_msm_keys(plan), entries = device_msm_entries(plan);
    return (keys < entries ? keys : entries) + entries / plan->piece;
}
/* Pieces of buckets that have several, at most, and such buckets. */
static inline uint64_t device_msm_partials(const device_msm_plan *plan) {
    return 2 * (device_msm_entries(plan) / plan->piece);
}
static inline uint64_t device_msm_longs(const device_msm_plan *plan) { return device_msm_entries(plan) / plan->piece; }

/* Whether buckets are enough for partitions and nodes, and partitions few enough for the shared memory of a block. */
static inline int device_msm_divides(const device_msm_plan *plan) {
    const uint32_t bits = plan->window_bits - 1;
    return plan->low_bits <= bits && bits - plan->low_bits <= DEVICE_MSM_MAX_LOW_BITS && plan->reduce_log2 <= bits;
}

/* Whether the plan can be, and all numbers of places fit 31 bits, next to a sign. */
static inline int device_msm_fits(const device_msm_plan *plan) {
    return device_msm_divides(plan) && (uint64_t)plan->shifts * plan->count < (uint64_t)1 << 31 &&
           device_msm_entries(plan) < (uint64_t)1 << 32 &&
           device_msm_keys(plan) + device_msm_partials(plan) < (uint64_t)1 << 32;
}

/* Whether a window is one to choose from. */
static inline int device_msm_may_be(const device_tuning *tuning, uint32_t window_bits) {
    return device_tuned(tuning, TUNING_WINDOW, window_bits) == window_bits;
}

/* The window with the fewest products: ten per entry; 28 per bucket, which is met twice by complete additions. Where none fits, one that
 * does not. */
static inline device_msm_plan device_msm_plan_for(uint32_t count, uint32_t sets, const device_tuning *tuning) {
    device_msm_plan best = device_msm_plan_of(count, device_tuned(tuning, TUNING_WINDOW, DEVICE_MSM_MIN_WINDOW), sets, tuning);
    double best_cost = -1;
    for (uint32_t bits = DEVICE_MSM_MIN_WINDOW; bits <= DEVICE_MSM_MAX_WINDOW; bits++) {
        const device_msm_plan plan = device_msm_plan_of(count, bits, sets, tuning);
        const double cost = 10.0 * (double)device_msm_entries(&plan) + 28.0 * (double)device_msm_keys(&plan);
        if (!device_msm_may_be(tuning, bits) || !device_msm_fits(&plan)) continue;
        if (best_cost < 0 || cost < best_cost) {
            best = plan;
            best_cost = cost;
        }
    }
    return best;
}

#endif
