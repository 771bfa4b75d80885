/* cuda/curve/points.h - converts points of proving keys from the CPU backends' representation to that of the GPU. */
#ifndef CUDA_CURVE_POINTS_H
#define CUDA_CURVE_POINTS_H

#include "cuda/curve/groups.h"

#define POINTS_THREADS 256

typedef struct points_to_r256_arguments {
    fp *coordinates;
    uint64_t count;
} points_to_r256_arguments;

/* Converts coordinates in place from R = 2^260, below 2p + 2^212, to R = 2^256, below p: a Montgomery product with the plain
 * number 2^252. The product of both factors is within the bounds of fp_mul. */
DEVICE void points_to_r256(grid_place place, const points_to_r256_arguments *arguments, void *shared, uint32_t phase) {
    const uint32_t power[LIMBS] = {0, 0, 0, 0, 0, 0, 0, 0x10000000};
    const uint64_t i = device_index(place);
    (void)shared;
    (void)phase;
    if (i >= arguments->count) return;
    fp value = arguments->coordinates[i];
    fp_mul_plain(value.v, &value, power);
    arguments->coordinates[i] = value;
}
KERNEL(points_to_r256, points_to_r256_arguments, POINTS_THREADS, 4, 1)

static inline void points_to_r256_run(device_queue *queue, void *points, size_t bytes) {
    const points_to_r256_arguments arguments = {(fp *)points, bytes / sizeof(fp)};
    LAUNCH(queue, points_to_r256, device_blocks(arguments.count, POINTS_THREADS), POINTS_THREADS, 0, &arguments);
}

#endif
