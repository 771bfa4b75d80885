/* host_gpu/queue.h - kernels, queues, marks and graphs in software: work is done immediately, or when a schedule runs it. */
#ifndef HOST_GPU_QUEUE_H
#define HOST_GPU_QUEUE_H

#include <stdlib.h>
#include <string.h>

#include "host_gpu/faults.h"
#include "host_gpu/schedule.h"

static inline int device_queue_is_current(device_queue *queue) {
    if (queue->status == DEVICE_OK && queue->device != device_current) queue->status = DEVICE_FAILED;
    return queue->status == DEVICE_OK;
}

/* Runs the step now, or gives it to the schedule. */
static inline void device_enqueue(device_queue *queue, schedule_step *step) {
    step->queue = queue;
    if (queue->status != DEVICE_OK) return;
    if (queue->schedule) {
        schedule_enqueue(queue->schedule, step);
    } else {
        schedule_execute(step);
    }
}

static inline void device_launch(device_queue *queue, schedule_kernel kernel, uint64_t blocks, uint32_t threads, size_t shared_bytes,
                                 const void *arguments, size_t arguments_bytes) {
    schedule_step step;
    if (blocks == 0 || !device_queue_is_current(queue)) return;
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
        schedule_fail_queue(queue);
        return;
    }
    memcpy(step.arguments, arguments, arguments_bytes);
    device_enqueue(queue, &step);
}

DEVICE uint32_t device_add(uint32_t *counter, uint32_t value) {
    const uint32_t before = *counter;
    *counter += value;
    return before;
}

/* Filled with a pattern, so that reading uninitialised memory changes results. */
static inline void *device_allocate(device_queue *queue, size_t bytes) {
    if (queue->status != DEVICE_OK) return NULL;
    queue->bytes += device_allocation(bytes);
    if (queue->measuring || !device_queue_is_current(queue)) return NULL;
    void *memory = malloc(bytes ? bytes : 1);
    if (memory) {
        memset(memory, 0xa5, bytes);
    } else {
        queue->status = DEVICE_OUT_OF_MEMORY;
    }
    return memory;
}

static inline void device_release(void *memory) {
    faults_wait_at_gate();
    free(memory);
}

static inline void device_zero(device_queue *queue, void *memory, size_t bytes) {
    schedule_step step;
    memset(&step, 0, sizeof step);
    step.kind = SCHEDULE_ZERO;
    step.to = memory;
    step.bytes = bytes;
    if (bytes) device_enqueue(queue, &step);
}

static inline void device_copy(device_queue *queue, void *to, const void *from, size_t bytes) {
    schedule_step step;
    memset(&step, 0, sizeof step);
    step.kind = SCHEDULE_COPY;
    step.to = to;
    step.from = from;
    step.bytes = bytes;
    if (bytes) device_enqueue(queue, &step);
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
    device_enqueue(queue, &step);
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

/* Without a schedule a graph has no effect. */
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
    device_enqueue(queue, &step);
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
