/* device.h - one text for the GPU and for the tests on the host.
 *
 * Everything in this folder but *.cu compiles as CUDA C++ and as C11. On the GPU a kernel is a __global__ function;
 * on the host it is a loop over blocks, phases and threads, so that all index arithmetic runs under the sanitizers
 * without a GPU. A kernel's body is cut into phases at its barriers: within a phase no thread may read what another one
 * writes, except through the atomics below. The host runs the threads of a phase forwards or backwards
 * (device_order), which finds bodies that break that rule.
 *
 * Buffers belong to the device: plain pointers, never followed by the other side.
 */
#ifndef G16_DEVICE_H
#define G16_DEVICE_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

typedef enum device_status {
    DEVICE_OK = 0,
    DEVICE_OUT_OF_MEMORY = 1,
    DEVICE_FAILED = 2 /* a launch, a copy, or the device itself */
} device_status;

#define KERNEL_NAME_(name) name##_kernel
#define KERNEL_NAME(name) KERNEL_NAME_(name)

/* Where a thread is. */
typedef struct grid_place {
    uint32_t block, thread, blocks, threads;
} grid_place;

#if defined(__CUDACC__)

#define DEVICE static __device__ __forceinline__
#define DEVICE_COLD static __device__ __noinline__ /* rare: must not cost the callers registers */
#if defined(DEVICE_SMALL_CODE)
#define DEVICE_PRODUCT DEVICE_COLD /* for builds that only check: minutes less in the assembler */
#else
#define DEVICE_PRODUCT DEVICE
#endif
#define DEVICE_UNROLL _Pragma("unroll")

DEVICE grid_place device_here(void) {
    grid_place place = {blockIdx.x, threadIdx.x, gridDim.x, blockDim.x};
    return place;
}

DEVICE uint32_t device_add(uint32_t *counter, uint32_t value) { return atomicAdd(counter, value); }

/* A queue of work on the current GPU, and the first thing that went wrong in it. */
typedef struct device_queue {
    cudaStream_t stream;
    device_status status;
    cudaError_t error;
} device_queue;

static inline void device_note(device_queue *queue, cudaError_t error) {
    if (error == cudaSuccess || queue->status != DEVICE_OK) return;
    queue->error = error;
    queue->status = error == cudaErrorMemoryAllocation ? DEVICE_OUT_OF_MEMORY : DEVICE_FAILED;
}

static inline void *device_allocate(device_queue *queue, size_t bytes) {
    void *memory = NULL;
    if (queue->status != DEVICE_OK) return NULL;
    device_note(queue, cudaMalloc(&memory, bytes ? bytes : 1));
    return memory;
}

static inline void device_release(void *memory) { cudaFree(memory); }

static inline void device_zero(device_queue *queue, void *memory, size_t bytes) {
    if (queue->status == DEVICE_OK) device_note(queue, cudaMemsetAsync(memory, 0, bytes, queue->stream));
}

static inline void device_write(device_queue *queue, void *to, const void *from_host, size_t bytes) {
    if (queue->status != DEVICE_OK) return;
    device_note(queue, cudaMemcpyAsync(to, from_host, bytes, cudaMemcpyHostToDevice, queue->stream));
}

/* Waits until the bytes are there. */
static inline void device_read(device_queue *queue, void *to_host, const void *from, size_t bytes) {
    if (queue->status != DEVICE_OK) return;
    device_note(queue, cudaMemcpyAsync(to_host, from, bytes, cudaMemcpyDeviceToHost, queue->stream));
    device_note(queue, cudaStreamSynchronize(queue->stream));
}

/* KERNEL: body(grid_place, const arguments *, shared memory, phase), of which the block runs all phases in order. The number of
 * phases is an expression over `place` and `arguments`, the same for all threads of a block. */
#define KERNEL(name, arguments_type, threads_per_block, blocks_per_sm, phases)                                         \
    __global__ void __launch_bounds__(threads_per_block, blocks_per_sm) KERNEL_NAME(name)(const arguments_type a) {    \
        extern __shared__ uint4 device_shared_memory[];                                                                \
        const grid_place place = device_here();                                                                        \
        const arguments_type *const arguments = &a;                                                                    \
        const uint32_t last = (phases);                                                                                \
        for (uint32_t phase = 0; phase < last; phase++) {                                                              \
            if (phase > 0) __syncthreads();                                                                            \
            name(place, arguments, device_shared_memory, phase);                                                       \
        }                                                                                                              \
    }

#define LAUNCH(queue, name, blocks, threads_per_block, shared_bytes, arguments)                                        \
    do {                                                                                                               \
        if ((queue)->status == DEVICE_OK && (blocks) > 0) {                                                            \
            const size_t launch_bytes_ = (shared_bytes);                                                               \
            if (launch_bytes_ > 48 * 1024) {                                                                           \
                device_note(queue, cudaFuncSetAttribute(KERNEL_NAME(name), cudaFuncAttributeMaxDynamicSharedMemorySize,\
                                                        (int)launch_bytes_));                                          \
            }                                                                                                          \
            KERNEL_NAME(name)<<<(uint32_t)(blocks), threads_per_block, launch_bytes_, (queue)->stream>>>(*(arguments));\
            device_note(queue, cudaGetLastError());                                                                    \
        }                                                                                                              \
    } while (0)

#else

#include <stdlib.h>

#define DEVICE static inline
#define DEVICE_COLD static inline
#define DEVICE_PRODUCT static inline
#define DEVICE_UNROLL

/* How the host runs the threads of a phase. */
typedef enum device_order { DEVICE_FORWARDS = 0, DEVICE_BACKWARDS = 1 } device_order;

typedef struct device_queue {
    device_status status;
    device_order order;
    uint64_t launches;
} device_queue;

DEVICE uint32_t device_add(uint32_t *counter, uint32_t value) {
    const uint32_t before = *counter;
    *counter += value;
    return before;
}

/* Filled, so that reading what nobody wrote changes results. */
static inline void *device_allocate(device_queue *queue, size_t bytes) {
    if (queue->status != DEVICE_OK) return NULL;
    void *memory = malloc(bytes ? bytes : 1);
    if (memory) {
        memset(memory, 0xa5, bytes);
    } else {
        queue->status = DEVICE_OUT_OF_MEMORY;
    }
    return memory;
}

static inline void device_release(void *memory) { free(memory); }

static inline void device_zero(device_queue *queue, void *memory, size_t bytes) {
    if (queue->status == DEVICE_OK) memset(memory, 0, bytes);
}

static inline void device_write(device_queue *queue, void *to, const void *from_host, size_t bytes) {
    if (queue->status == DEVICE_OK && bytes) memcpy(to, from_host, bytes);
}

static inline void device_read(device_queue *queue, void *to_host, const void *from, size_t bytes) {
    if (queue->status == DEVICE_OK && bytes) memcpy(to_host, from, bytes);
}

#define KERNEL(name, arguments_type, threads_per_block, blocks_per_sm, phases)                                         \
    static void KERNEL_NAME(name)(device_queue *queue, uint32_t blocks, uint32_t threads, size_t shared_bytes,         \
                              const arguments_type *arguments) {                                                       \
        void *shared = device_allocate(queue, shared_bytes);                                                           \
        queue->launches++;                                                                                             \
        for (uint32_t block = 0; shared && block < blocks; block++) {                                                  \
            grid_place place = {block, 0, blocks, threads};                                                            \
            memset(shared, 0x5a, shared_bytes);                                                                        \
            const uint32_t last = (phases);                                                                            \
            for (uint32_t phase = 0; phase < last; phase++) {                                                          \
                for (uint32_t i = 0; i < threads; i++) {                                                               \
                    place.thread = queue->order == DEVICE_FORWARDS ? i : threads - 1 - i;                              \
                    name(place, arguments, shared, phase);                                                             \
                }                                                                                                      \
            }                                                                                                          \
        }                                                                                                              \
        device_release(shared);                                                                                        \
    }

#define LAUNCH(queue, name, blocks, threads_per_block, shared_bytes, arguments)                                        \
    do {                                                                                                               \
        if ((queue)->status == DEVICE_OK && (blocks) > 0) {                                                            \
            KERNEL_NAME(name)(queue, (uint32_t)(blocks), threads_per_block, shared_bytes, arguments);                  \
        }                                                                                                              \
    } while (0)

#endif

/* For kernels whose threads do not meet: the number of this one in the grid. */
DEVICE uint64_t device_index(grid_place place) { return (uint64_t)place.block * place.threads + place.thread; }

/* Blocks of `threads` threads for `count` pieces of work. */
static inline uint64_t device_blocks(uint64_t count, uint32_t threads) { return (count + threads - 1) / threads; }

#endif
