/* cuda/base/tuning.h - what tests and measurements decide in the place of the plans; every choice gives the same bytes.
 *
 * GROTH16_CUDA_TUNING is a list of setting=number with commas between, as in window=7,piece=33,ntt_last=3; it is read once, when a
 * device is opened (cuda/library/tuning_read.h, which knows the ranges). Settings that it does not name are left to the plans:
 *   window        bits of a digit, in both groups
 *   sets          bucket sets of a table of shifted bases, whatever memory that takes; 0: no table
 *   low_bits      of a bucket's number: its place in a partition, which one block sorts
 *   tile          digits of a block of the first sorting pass
 *   piece         additions of one thread at most; longer buckets are cut
 *   threads       of a block that sums or reduces buckets, or makes a row of a table
 *   joins         blocks that join the pieces of long buckets
 *   reduce        logarithm of the buckets of a node of the first level
 *   level         logarithm of the children of other nodes, at most
 *   ntt_last      stages of the last pass of a transform
 *   ntt_levels    stages of each other pass, at most
 *   ntt_columns   logarithm of the neighbours in memory that a pass takes, at most
 *   ntt_threads   of a block of a pass
 *   batch         proofs of a batch, at most
 */
#ifndef CUDA_BASE_TUNING_H
#define CUDA_BASE_TUNING_H

#include <stdint.h>

#define DEVICE_TUNING_VARIABLE "GROTH16_CUDA_TUNING"

typedef enum device_setting {
    TUNING_WINDOW,
    TUNING_SETS,
    TUNING_LOW_BITS,
    TUNING_TILE,
    TUNING_PIECE,
    TUNING_THREADS,
    TUNING_JOINS,
    TUNING_REDUCE,
    TUNING_LEVEL,
    TUNING_NTT_LAST,
    TUNING_NTT_LEVELS,
    TUNING_NTT_COLUMNS,
    TUNING_NTT_THREADS,
    TUNING_BATCH
} device_setting;
#define DEVICE_SETTINGS 14

#define DEVICE_NOT_TUNED UINT32_MAX

typedef struct device_tuning {
    uint32_t values[DEVICE_SETTINGS]; /* DEVICE_NOT_TUNED: the plan's choice */
} device_tuning;

static inline device_tuning device_untuned(void) {
    device_tuning tuning;
    for (int i = 0; i < DEVICE_SETTINGS; i++) tuning.values[i] = DEVICE_NOT_TUNED;
    return tuning;
}

/* tuning: may be NULL here and below, for none. */
static inline int device_is_tuned(const device_tuning *tuning, device_setting setting) {
    return tuning && tuning->values[setting] != DEVICE_NOT_TUNED;
}

/* The number of a setting, or what the plan has in its place. */
static inline uint32_t device_tuned(const device_tuning *tuning, device_setting setting, uint32_t otherwise) {
    return device_is_tuned(tuning, setting) ? tuning->values[setting] : otherwise;
}

#endif
