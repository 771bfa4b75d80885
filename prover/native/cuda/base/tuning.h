/* cuda/base/tuning.h - settings by which tests and measurements override the plans; every choice gives the same bytes.
 *
 * GROTH16_CUDA_TUNING is a comma-separated list of setting=number, as in window=7,piece=33,ntt_last=3. It is read once, when a
 * device is opened (cuda/library/tuning_read.h, which has the ranges). The plans choose the settings that are not listed:
 * window: bits of a digit, in both groups
 * sets: bucket sets of a table of shifted bases, without a limit on its memory; 0: no table
 * low_bits: low bits of a bucket number, which select a bucket within a partition
 * tile: digits per block in the first sorting pass
 * piece: maximum additions of one thread; longer buckets are divided
 * threads: per block that sums or reduces buckets, or computes a row of a table
 * joins: blocks that add the pieces of long buckets
 * reduce: log2 of the buckets of a node in the first level
 * level: maximum log2 of the children of other nodes
 * ntt_last: stages of the last pass of a transform
 * ntt_levels: maximum stages of the other passes
 * ntt_columns: maximum log2 of the adjacent elements that a pass loads
 * ntt_threads: per block of a pass
 * batch: maximum proofs of a batch
 * g2: sums in G2 with products inline (0) or out of line (1), or by two threads for a point (2)
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
    TUNING_BATCH,
    TUNING_G2
} device_setting;
#define DEVICE_SETTINGS 15

#define DEVICE_NOT_TUNED UINT32_MAX

typedef struct device_tuning {
    uint32_t values[DEVICE_SETTINGS]; /* DEVICE_NOT_TUNED: chosen by the plan */
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

/* Returns the value of a setting, or `otherwise` when it is not set. */
static inline uint32_t device_tuned(const device_tuning *tuning, device_setting setting, uint32_t otherwise) {
    return device_is_tuned(tuning, setting) ? tuning->values[setting] : otherwise;
}

#endif
