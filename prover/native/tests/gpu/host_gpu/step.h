/* host_gpu/step.h - a queue in software, and one step of its work. */
#ifndef HOST_GPU_STEP_H
#define HOST_GPU_STEP_H

#include <string.h>
#include <time.h>

#include "cuda/base/grid.h"

#define SCHEDULE_ARGUMENTS 512

#define DEVICE static inline
#define DEVICE_COLD static inline
#define DEVICE_PRODUCT static inline
#define DEVICE_UNROLL

/* Order in which the host runs the threads of a phase. */
typedef enum device_order { DEVICE_FORWARDS = 0, DEVICE_BACKWARDS = 1 } device_order;

/* The GPU that a thread uses. As with CUDA, a queue belongs to the GPU of the thread that created it, and using it in a thread
 * with another GPU fails. */
static _Thread_local uint32_t device_current;

typedef struct device_queue {
    device_status status;
    device_order order;
    uint64_t bytes;
    int measuring;
    struct device_schedule *schedule; /* NULL: steps run immediately */
    uint32_t device;                  /* GPU of the queue */
} device_queue;

typedef struct device_mark {
    uint64_t nanoseconds;
} device_mark;

typedef void (*schedule_kernel)(device_queue *, uint32_t, uint32_t, size_t, const void *);
typedef enum schedule_kind { SCHEDULE_KERNEL, SCHEDULE_ZERO, SCHEDULE_COPY, SCHEDULE_MARK, SCHEDULE_WAIT, SCHEDULE_GRAPH } schedule_kind;

typedef struct schedule_step {
    _Alignas(16) uint8_t arguments[SCHEDULE_ARGUMENTS]; /* of a kernel */
    device_queue *queue;
    schedule_kind kind;
    int done;
    schedule_kernel kernel;
    uint32_t blocks, threads;
    size_t bytes; /* of shared memory, or to clear or copy */
    void *to;
    const void *from;
    device_mark *mark;
    size_t after; /* wait: the step that sets the mark, or SCHEDULE_NO_STEP */
    struct schedule_list *graph;
} schedule_step;

static inline void device_mark_now(device_mark *mark) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    mark->nanoseconds = (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* Executes a step. */
static inline void schedule_execute(const schedule_step *step) {
    switch (step->kind) {
    case SCHEDULE_KERNEL: step->kernel(step->queue, step->blocks, step->threads, step->bytes, step->arguments); break;
    case SCHEDULE_ZERO: memset(step->to, 0, step->bytes); break;
    case SCHEDULE_COPY: memcpy(step->to, step->from, step->bytes); break;
    case SCHEDULE_MARK: device_mark_now(step->mark); break;
    case SCHEDULE_WAIT:
    case SCHEDULE_GRAPH: break;
    }
}

static inline void schedule_fail_queue(device_queue *queue) { queue->status = DEVICE_FAILED; }

#endif
