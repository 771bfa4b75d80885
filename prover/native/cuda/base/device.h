/* cuda/base/device.h - one text for the GPU and for the tests on the host.
 *
 * Everything in cuda/ but *.cu compiles as CUDA C++ and as C11. On the GPU a kernel is a __global__ function;
 * on the host it is a loop over blocks, phases and threads, so that all index arithmetic runs under the sanitizers
 * without a GPU. A kernel's body is cut into phases at its barriers: within a phase no thread may read what another one
 * writes, except through device_add(). The host runs the threads of a phase forwards or backwards
 * (device_order), which finds bodies that break that rule.
 *
 * Buffers belong to the device: plain pointers, never followed by the other side.
 */
#ifndef CUDA_BASE_DEVICE_H
#define CUDA_BASE_DEVICE_H

#if defined(__CUDACC__)
#include "cuda/base/cuda_queue.h"
#else
#include "host_gpu/queue.h" /* prover/native/tests */
#endif

static inline int device_is_cancelled(const int32_t *cancel) { return cancel && __atomic_load_n(cancel, __ATOMIC_RELAXED); }

/* Waits until the bytes are there. */
static inline void device_read(device_queue *queue, void *to_host, const void *from, size_t bytes) {
    device_read_later(queue, to_host, from, bytes);
    device_finish(queue);
}

/* For kernels whose threads do not meet: the number of this one in the grid. */
DEVICE uint64_t device_index(grid_place place) { return (uint64_t)place.block * place.threads + place.thread; }

/* Blocks of `threads` threads for `count` pieces of work. */
static inline uint64_t device_blocks(uint64_t count, uint32_t threads) { return (count + threads - 1) / threads; }

#endif
