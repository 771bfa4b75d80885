/* cuda/base/cuda_queue.h - kernels, queues, marks and graphs, implemented with CUDA. */
#ifndef CUDA_BASE_CUDA_QUEUE_H
#define CUDA_BASE_CUDA_QUEUE_H

#include <string.h>

#include "cuda/base/grid.h"

#define DEVICE static __device__ __forceinline__
#define DEVICE_COLD static __device__ __noinline__ /* rare code, which must not cost its callers registers */
#if defined(DEVICE_SMALL_CODE)
#define DEVICE_PRODUCT DEVICE_COLD /* for builds that only check: it saves minutes in the assembler */
#else
#define DEVICE_PRODUCT DEVICE
#endif
#define DEVICE_UNROLL _Pragma("unroll")

DEVICE grid_place device_here(void) {
    grid_place place = {blockIdx.x, threadIdx.x, gridDim.x, blockDim.x};
    return place;
}

DEVICE uint32_t device_add(uint32_t *counter, uint32_t value) { return atomicAdd(counter, value); }

/* A stream of the current GPU, and its first error. */
typedef struct device_queue {
    cudaStream_t stream;
    device_status status;
    cudaError_t error;
    uint64_t bytes; /* allocated so far */
    int measuring;  /* count bytes without allocating */
} device_queue;

static inline void device_record_error(device_queue *queue, cudaError_t error) {
    if (error == cudaSuccess) return;
    (void)cudaGetLastError(); /* otherwise the next launch of this thread would report the error */
    if (queue->status != DEVICE_OK) return;
    queue->error = error;
    queue->status = error == cudaErrorMemoryAllocation ? DEVICE_OUT_OF_MEMORY : DEVICE_FAILED;
}

static inline void *device_allocate(device_queue *queue, size_t bytes) {
    void *memory = NULL;
    if (queue->status != DEVICE_OK) return NULL;
    queue->bytes += device_allocation(bytes);
    if (queue->measuring) return NULL;
    device_record_error(queue, cudaMalloc(&memory, bytes ? bytes : 1));
    return memory;
}

static inline void device_release(void *memory) { cudaFree(memory); }

static inline void device_zero(device_queue *queue, void *memory, size_t bytes) {
    if (queue->status == DEVICE_OK) device_record_error(queue, cudaMemsetAsync(memory, 0, bytes, queue->stream));
}

static inline void device_write(device_queue *queue, void *to, const void *from_host, size_t bytes) {
    if (queue->status != DEVICE_OK) return;
    device_record_error(queue, cudaMemcpyAsync(to, from_host, bytes, cudaMemcpyHostToDevice, queue->stream));
}

/* The bytes are valid once the queue is finished. */
static inline void device_read_later(device_queue *queue, void *to_host, const void *from, size_t bytes) {
    if (queue->status != DEVICE_OK) return;
    device_record_error(queue, cudaMemcpyAsync(to_host, from, bytes, cudaMemcpyDeviceToHost, queue->stream));
}

/* Waits for all queued work, also after a failure. */
static inline void device_finish(device_queue *queue) { device_record_error(queue, cudaStreamSynchronize(queue->stream)); }

static inline void device_queue_create(device_queue *queue) {
    memset(queue, 0, sizeof *queue);
    device_record_error(queue, cudaStreamCreateWithFlags(&queue->stream, cudaStreamNonBlocking));
}

static inline void device_queue_destroy(device_queue *queue) {
    if (queue->stream) cudaStreamDestroy(queue->stream);
}

/* An event in a queue, on which other queues can wait, and which records the time. */
typedef struct device_mark {
    cudaEvent_t event;
} device_mark;

static inline void device_mark_create(device_queue *queue, device_mark *mark) {
    if (queue->status == DEVICE_OK) device_record_error(queue, cudaEventCreate(&mark->event));
}

static inline void device_mark_destroy(device_mark *mark) {
    if (mark->event) cudaEventDestroy(mark->event);
}

static inline void device_mark_set(device_queue *queue, device_mark *mark) {
    if (queue->status == DEVICE_OK) device_record_error(queue, cudaEventRecord(mark->event, queue->stream));
}

/* Work queued later begins after the mark. */
static inline void device_wait_for(device_queue *queue, device_mark *mark) {
    if (queue->status == DEVICE_OK) device_record_error(queue, cudaStreamWaitEvent(queue->stream, mark->event, 0));
}

/* Returns the time between two marks that were reached. */
static inline uint64_t device_nanoseconds(const device_mark *from, const device_mark *to) {
    float milliseconds = 0;
    if (cudaEventElapsedTime(&milliseconds, from->event, to->event) == cudaSuccess) return (uint64_t)(milliseconds * 1e6f);
    (void)cudaGetLastError();
    return 0;
}

/* Page-locked memory of the host, or NULL. */
static inline void *device_host_allocate(size_t bytes) {
    void *memory = NULL;
    if (cudaHostAlloc(&memory, bytes ? bytes : 1, cudaHostAllocPortable) == cudaSuccess) return memory;
    (void)cudaGetLastError();
    return NULL;
}

static inline void device_host_release(void *memory) {
    if (memory) cudaFreeHost(memory);
}

/* Work that is captured once and launched repeatedly as a whole. */
typedef struct device_graph {
    cudaGraphExec_t executable;
    int ready;
} device_graph;

/* Starts a capture: work queued from here on becomes the graph instead of running. Another queue joins the capture when it waits
 * for a mark of it, and this queue must wait for the ends of those. Returns 0 when the device cannot capture. */
static inline int device_capture_begin(device_queue *queue, device_graph *graph) {
    (void)graph;
    if (queue->status != DEVICE_OK) return 0;
    if (cudaStreamBeginCapture(queue->stream, cudaStreamCaptureModeThreadLocal) == cudaSuccess) return 1;
    (void)cudaGetLastError();
    return 0;
}

/* On failure the graph is not ready. */
static inline void device_capture_end(device_queue *queue, device_graph *graph) {
    cudaGraph_t captured = NULL;
    if (cudaStreamEndCapture(queue->stream, &captured) == cudaSuccess && captured) {
        graph->ready = cudaGraphInstantiate(&graph->executable, captured, 0) == cudaSuccess;
    }
    if (captured) cudaGraphDestroy(captured);
    (void)cudaGetLastError();
}

static inline void device_graph_launch(device_queue *queue, device_graph *graph) {
    if (queue->status == DEVICE_OK) device_record_error(queue, cudaGraphLaunch(graph->executable, queue->stream));
}

static inline void device_graph_release(device_graph *graph) {
    if (graph->ready) cudaGraphExecDestroy(graph->executable);
    graph->ready = 0;
}

/* KERNEL: body(grid_place, const arguments *, shared memory, phase). A block runs all phases in order, with a barrier between
 * them. The number of phases is an expression over `place` and `arguments` that must be the same for all threads of a block. */
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
                device_record_error(queue, cudaFuncSetAttribute(KERNEL_NAME(name), cudaFuncAttributeMaxDynamicSharedMemorySize,\
                                                        (int)launch_bytes_));                                          \
            }                                                                                                          \
            KERNEL_NAME(name)<<<(uint32_t)(blocks), threads_per_block, launch_bytes_, (queue)->stream>>>(*(arguments));\
            device_record_error(queue, cudaGetLastError());                                                                    \
        }                                                                                                              \
    } while (0)

#endif
