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

/* What an allocation takes: the runtime hands out multiples of this. */
static inline uint64_t device_allocation(size_t bytes) { return bytes ? ((uint64_t)bytes + 511) / 512 * 512 : 512; }

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
    uint64_t bytes; /* allocated so far */
    int measuring;  /* count bytes, allocate nothing */
} device_queue;

static inline void device_note(device_queue *queue, cudaError_t error) {
    if (error == cudaSuccess) return;
    (void)cudaGetLastError(); /* or the next launch of this thread would be blamed for it */
    if (queue->status != DEVICE_OK) return;
    queue->error = error;
    queue->status = error == cudaErrorMemoryAllocation ? DEVICE_OUT_OF_MEMORY : DEVICE_FAILED;
}

static inline void *device_allocate(device_queue *queue, size_t bytes) {
    void *memory = NULL;
    if (queue->status != DEVICE_OK) return NULL;
    queue->bytes += device_allocation(bytes);
    if (queue->measuring) return NULL;
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

/* The bytes are there when the queue is finished. */
static inline void device_read_later(device_queue *queue, void *to_host, const void *from, size_t bytes) {
    if (queue->status != DEVICE_OK) return;
    device_note(queue, cudaMemcpyAsync(to_host, from, bytes, cudaMemcpyDeviceToHost, queue->stream));
}

/* Waits for all that was queued, also after a failure. */
static inline void device_finish(device_queue *queue) { device_note(queue, cudaStreamSynchronize(queue->stream)); }

static inline void device_queue_create(device_queue *queue) {
    memset(queue, 0, sizeof *queue);
    device_note(queue, cudaStreamCreateWithFlags(&queue->stream, cudaStreamNonBlocking));
}

static inline void device_queue_destroy(device_queue *queue) {
    if (queue->stream) cudaStreamDestroy(queue->stream);
}

/* A place in a queue, for others to wait for, and for measuring time. */
typedef struct device_mark {
    cudaEvent_t event;
} device_mark;

static inline void device_mark_create(device_queue *queue, device_mark *mark) {
    if (queue->status == DEVICE_OK) device_note(queue, cudaEventCreate(&mark->event));
}

static inline void device_mark_destroy(device_mark *mark) {
    if (mark->event) cudaEventDestroy(mark->event);
}

static inline void device_mark_set(device_queue *queue, device_mark *mark) {
    if (queue->status == DEVICE_OK) device_note(queue, cudaEventRecord(mark->event, queue->stream));
}

/* What is queued from now on begins after the mark. */
static inline void device_wait_for(device_queue *queue, device_mark *mark) {
    if (queue->status == DEVICE_OK) device_note(queue, cudaStreamWaitEvent(queue->stream, mark->event, 0));
}

/* Between two marks that were reached. */
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

/* Work that was queued once, to be queued again as a whole. */
typedef struct device_graph {
    cudaGraphExec_t executable;
    int ready;
} device_graph;

/* From here to the end nothing runs: it becomes the graph. Other queues take part once they wait for a mark that was set since, and
 * this one must wait for their ends. 0 when the device cannot. */
static inline int device_capture_begin(device_queue *queue, device_graph *graph) {
    (void)graph;
    if (queue->status != DEVICE_OK) return 0;
    if (cudaStreamBeginCapture(queue->stream, cudaStreamCaptureModeThreadLocal) == cudaSuccess) return 1;
    (void)cudaGetLastError();
    return 0;
}

/* Failures are the graph's: it is not ready then. */
static inline void device_capture_end(device_queue *queue, device_graph *graph) {
    cudaGraph_t captured = NULL;
    if (cudaStreamEndCapture(queue->stream, &captured) == cudaSuccess && captured) {
        graph->ready = cudaGraphInstantiate(&graph->executable, captured, 0) == cudaSuccess;
    }
    if (captured) cudaGraphDestroy(captured);
    (void)cudaGetLastError();
}

static inline void device_graph_launch(device_queue *queue, device_graph *graph) {
    if (queue->status == DEVICE_OK) device_note(queue, cudaGraphLaunch(graph->executable, queue->stream));
}

static inline void device_graph_release(device_graph *graph) {
    if (graph->ready) cudaGraphExecDestroy(graph->executable);
    graph->ready = 0;
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
#include <time.h>

#include "device_schedule.h"

#define DEVICE static inline
#define DEVICE_COLD static inline
#define DEVICE_PRODUCT static inline
#define DEVICE_UNROLL

/* How the host runs the threads of a phase. */
typedef enum device_order { DEVICE_FORWARDS = 0, DEVICE_BACKWARDS = 1 } device_order;

/* The GPU that a thread uses. As with CUDA, a queue belongs to the one of the thread that created it, and work for it fails in a thread
 * that uses another. */
static _Thread_local uint32_t device_current;

struct device_queue {
    device_status status;
    device_order order;
    uint64_t launches;
    uint64_t bytes;
    int measuring;
    device_schedule *schedule; /* NULL: everything at once */
    uint32_t device;           /* that it belongs to */
};

struct device_mark {
    uint64_t nanoseconds;
};

static void schedule_broken(device_queue *queue) { queue->status = DEVICE_FAILED; }

static inline int device_is_here(device_queue *queue) {
    if (queue->status == DEVICE_OK && queue->device != device_current) queue->status = DEVICE_FAILED;
    return queue->status == DEVICE_OK;
}

static inline void device_mark_now(device_mark *mark) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    mark->nanoseconds = (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static void schedule_do(const schedule_step *step) {
    switch (step->kind) {
    case SCHEDULE_KERNEL: step->kernel(step->queue, step->blocks, step->threads, step->bytes, step->arguments); break;
    case SCHEDULE_ZERO: memset(step->to, 0, step->bytes); break;
    case SCHEDULE_COPY: memcpy(step->to, step->from, step->bytes); break;
    case SCHEDULE_MARK: device_mark_now(step->mark); break;
    case SCHEDULE_WAIT:
    case SCHEDULE_GRAPH: break;
    }
}

/* Now, or when the schedule says. */
static inline void device_step(device_queue *queue, schedule_step *step) {
    step->queue = queue;
    if (queue->status != DEVICE_OK) return;
    if (queue->schedule) {
        schedule_push(queue->schedule, step);
    } else {
        schedule_do(step);
    }
}

static inline void device_launch(device_queue *queue, schedule_kernel kernel, uint64_t blocks, uint32_t threads, size_t shared_bytes,
                                 const void *arguments, size_t arguments_bytes) {
    schedule_step step;
    if (blocks == 0 || !device_is_here(queue)) return;
    if (!queue->schedule) {
        kernel(queue, (uint32_t)blocks, threads, shared_bytes, arguments);
        return;
    }
    memset(&step, 0, sizeof step);
    step.kind = SCHEDULE_KERNEL;
    step.kernel = kernel;
    step.blocks = (uint32_t)blocks;
    step.threads = threads;
    step.bytes = shared_bytes;
    if (arguments_bytes > sizeof step.arguments) {
        schedule_broken(queue);
        return;
    }
    memcpy(step.arguments, arguments, arguments_bytes);
    device_step(queue, &step);
}

DEVICE uint32_t device_add(uint32_t *counter, uint32_t value) {
    const uint32_t before = *counter;
    *counter += value;
    return before;
}

/* Filled, so that reading what nobody wrote changes results. */
static inline void *device_allocate(device_queue *queue, size_t bytes) {
    if (queue->status != DEVICE_OK) return NULL;
    queue->bytes += device_allocation(bytes);
    if (queue->measuring || !device_is_here(queue)) return NULL;
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
    schedule_step step;
    memset(&step, 0, sizeof step);
    step.kind = SCHEDULE_ZERO;
    step.to = memory;
    step.bytes = bytes;
    if (bytes) device_step(queue, &step);
}

static inline void device_copy(device_queue *queue, void *to, const void *from, size_t bytes) {
    schedule_step step;
    memset(&step, 0, sizeof step);
    step.kind = SCHEDULE_COPY;
    step.to = to;
    step.from = from;
    step.bytes = bytes;
    if (bytes) device_step(queue, &step);
}

static inline void device_write(device_queue *queue, void *to, const void *from_host, size_t bytes) {
    device_copy(queue, to, from_host, bytes);
}

static inline void device_read_later(device_queue *queue, void *to_host, const void *from, size_t bytes) {
    device_copy(queue, to_host, from, bytes);
}

static inline void device_finish(device_queue *queue) {
    if (queue->schedule) schedule_finish(queue->schedule, queue);
}

static inline void device_queue_create(device_queue *queue) {
    memset(queue, 0, sizeof *queue);
    queue->device = device_current;
}
static inline void device_queue_destroy(device_queue *queue) { (void)queue; }

static inline void device_mark_create(device_queue *queue, device_mark *mark) {
    (void)queue;
    mark->nanoseconds = 0;
}
static inline void device_mark_destroy(device_mark *mark) { (void)mark; }

static inline void device_mark_step(device_queue *queue, schedule_kind kind, device_mark *mark) {
    schedule_step step;
    memset(&step, 0, sizeof step);
    step.kind = kind;
    step.mark = mark;
    device_step(queue, &step);
}

static inline void device_mark_set(device_queue *queue, device_mark *mark) { device_mark_step(queue, SCHEDULE_MARK, mark); }
static inline void device_wait_for(device_queue *queue, device_mark *mark) { device_mark_step(queue, SCHEDULE_WAIT, mark); }

static inline uint64_t device_nanoseconds(const device_mark *from, const device_mark *to) {
    return to->nanoseconds - from->nanoseconds;
}

static inline void *device_host_allocate(size_t bytes) { return malloc(bytes ? bytes : 1); }
static inline void device_host_release(void *memory) { free(memory); }

typedef struct device_graph {
    schedule_list steps;
    int ready;
} device_graph;

/* Without a schedule there is nothing to gain. */
static inline int device_capture_begin(device_queue *queue, device_graph *graph) {
    if (!queue->schedule || queue->status != DEVICE_OK) return 0;
    schedule_join(&graph->steps, queue);
    queue->schedule->capture = &graph->steps;
    return 1;
}

static inline void device_capture_end(device_queue *queue, device_graph *graph) {
    queue->schedule->capture = NULL;
    graph->ready = schedule_is_joined(&graph->steps);
}

static inline void device_graph_launch(device_queue *queue, device_graph *graph) {
    schedule_step step;
    memset(&step, 0, sizeof step);
    step.kind = SCHEDULE_GRAPH;
    step.graph = &graph->steps;
    device_step(queue, &step);
}

static inline void device_graph_release(device_graph *graph) {
    schedule_release(&graph->steps);
    graph->ready = 0;
}

#define KERNEL(name, arguments_type, threads_per_block, blocks_per_sm, phases)                                         \
    static void KERNEL_NAME(name)(device_queue *queue, uint32_t blocks, uint32_t threads, size_t shared_bytes,         \
                              const void *given) {                                                                     \
        const arguments_type *const arguments = (const arguments_type *)given;                                         \
        void *shared = malloc(shared_bytes ? shared_bytes : 1);                                                        \
        if (!shared) queue->status = DEVICE_FAILED;                                                                    \
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
        free(shared);                                                                                                  \
    }

#define LAUNCH(queue, name, blocks, threads_per_block, shared_bytes, arguments)                                        \
    device_launch(queue, KERNEL_NAME(name), blocks, threads_per_block, shared_bytes, arguments, sizeof *(arguments))

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
