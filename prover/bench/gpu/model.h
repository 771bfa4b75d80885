/* model.h - times by instructions: what the multipliers of an H200 need for the counted kernels. Bounds of the counts are in
 * tests/integration/native/test_gpu_instructions.py, which reads them here; prover/docs/explanation/cuda.md explains the model. */
#ifndef BENCH_GPU_MODEL_H
#define BENCH_GPU_MODEL_H

#include "cuda/msm/plan.h"

/* Wide multiply-adds that a multiprocessor starts per clock, multiprocessors, and clocks per second under load. */
#define MODEL_SLOTS_PER_CLOCK 32.0
#define MODEL_MULTIPROCESSORS 132.0
#define MODEL_HERTZ 1.7e9

/* Multiplier slots (prover/tests/support/gpu/gpu_counts.py) of a product and of an addition to a bucket; "halves": of both threads. */
#define MODEL_PRODUCT 133.0
#define MODEL_SQUARE 104.0
#define MODEL_G1_ADD 1270.0
#define MODEL_G2_ADD 3194.0
#define MODEL_G2_HALVES_ADD 3196.0
/* A complete addition has 14 products, an addition to a bucket ten. */
#define MODEL_COMPLETE 1.4

#define MODEL_BYTES_PER_MS 2.4e9 /* half of an H200's bandwidth, in tables too large for the cache */
#define MODEL_WITNESS_MS 5.5     /* chains of append 500: "Witnesses" */
#define MODEL_CHAIN_PRODUCT_MS 3e-4

static inline double model_per_second(double slots) {
    return MODEL_SLOTS_PER_CLOCK * MODEL_MULTIPROCESSORS * MODEL_HERTZ / slots;
}
static inline double model_ms(double count, double slots) { return 1e3 * count / model_per_second(slots); }

/* Additions to buckets. */
static inline double model_sums_ms(const device_msm_plan *plan, double add) { return model_ms((double)device_msm_entries(plan), add); }

/* Two complete additions for each bucket. */
static inline double model_reduction_ms(const device_msm_plan *plan, double add) {
    return model_ms(2.0 * (double)device_msm_keys(plan), MODEL_COMPLETE * add);
}

/* Entries of four bytes, moved six times. */
static inline double model_sort_ms(const device_msm_plan *plan) {
    return 24.0 * (double)device_msm_entries(plan) / MODEL_BYTES_PER_MS;
}

static inline double model_transform_ms(uint32_t log2) { return model_ms(0.5 * log2 * (double)((uint64_t)1 << log2), MODEL_PRODUCT); }

#endif
