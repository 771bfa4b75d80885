/* cuda/base/device.h - one source text for the GPU and for tests on the host.
 *
 * All files in cuda/ except *.cu compile as CUDA C++ and as C11. On the GPU a kernel is a __global__ function. In tests it is a
 * loop over blocks, phases and threads (prover/native/tests/gpu/host_gpu), so that sanitizers check all index arithmetic without a
 * GPU. The body of a kernel is divided into phases at its barriers: within a phase no thread may read what another one writes,
 * except through device_add(). The host runs the threads of a phase in ascending or descending order (device_order), which
 * exposes violations of that rule.
 *
 * Buffers belong to the device: the host never dereferences their pointers.
 */
#ifndef CUDA_BASE_DEVICE_H
#define CUDA_BASE_DEVICE_H

#if defined(__CUDACC__)
#include "cuda/base/cuda_queue.h"
#else
#include "host_gpu/queue.h" /* prover/native/tests/gpu */
#endif

static inline int device_is_cancelled(const int32_t *cancel) { return cancel && __atomic_load_n(cancel, __ATOMIC_RELAXED); }

/* Memory that is released at once. Zero it before use. A batch of proofs has 48 blocks, the most of all. */
#define DEVICE_OWNED 64
typedef struct device_owner {
    void *blocks[DEVICE_OWNED];
    uint32_t count;
} device_owner;

static inline void *device_own(device_queue *queue, device_owner *owner, size_t bytes) {
    void *block = device_allocate(queue, bytes);
    if (!block) return NULL;
    if (owner->count == DEVICE_OWNED) {
        device_release(block);
        queue->status = DEVICE_OUT_OF_MEMORY;
        return NULL;
    }
    owner->blocks[owner->count++] = block;
    return block;
}

/* Allocates a copy of the host's bytes; a queue that measures writes nothing. */
static inline void *device_own_copy(device_queue *queue, device_owner *owner, const void *from_host, size_t bytes) {
    void *block = device_own(queue, owner, bytes);
    if (block) device_write(queue, block, from_host, bytes);
    return block;
}

static inline void device_release_all(device_owner *owner) {
    while (owner->count) device_release(owner->blocks[--owner->count]);
}

/* Returns the index of the thread in the grid. */
DEVICE uint64_t device_index(grid_place place) { return (uint64_t)place.block * place.threads + place.thread; }

/* Returns the number of blocks of `threads` threads for `count` items. */
static inline uint64_t device_blocks(uint64_t count, uint32_t threads) { return (count + threads - 1) / threads; }

#endif
