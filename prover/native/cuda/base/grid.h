/* cuda/base/grid.h - names that both implementations of cuda/base/device.h share: statuses, sizes of allocations, kernels, thread
 * indices. */
#ifndef CUDA_BASE_GRID_H
#define CUDA_BASE_GRID_H

#include <stddef.h>
#include <stdint.h>

typedef enum device_status {
    DEVICE_OK = 0,
    DEVICE_OUT_OF_MEMORY = 1,
    DEVICE_FAILED = 2 /* a launch, a copy, or the device itself */
} device_status;

/* Returns the memory that an allocation occupies: the runtime rounds up to multiples of 512. */
static inline uint64_t device_allocation(size_t bytes) { return bytes ? ((uint64_t)bytes + 511) / 512 * 512 : 512; }

#define KERNEL_NAME_(name) name##_kernel
#define KERNEL_NAME(name) KERNEL_NAME_(name)

/* The indices of a thread. */
typedef struct grid_place {
    uint32_t block, thread, blocks, threads;
} grid_place;

#endif
