/* host_gpu/schedule.h - queues that run late, in an order that a test chooses, so that a missing wait between two queues changes
 * results. Without a schedule a queue does everything immediately.
 *
 * Lazy: a queue runs when it is finished, and other queues only as far as it waits for them. Eager: other queues run as far as
 * they can. A captured graph is a list of its own that runs again with each launch. As on a GPU, a queue joins a capture when it
 * waits for a mark of it, and all captured work must precede the end of the queue that began the capture.
 */
#ifndef HOST_GPU_SCHEDULE_H
#define HOST_GPU_SCHEDULE_H

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "host_gpu/step.h"

#define SCHEDULE_QUEUES 4
#define SCHEDULE_NO_STEP SIZE_MAX

typedef enum schedule_order { SCHEDULE_LAZY, SCHEDULE_EAGER } schedule_order;

typedef struct schedule_list {
    schedule_step *steps;
    size_t count, room;
    device_queue *queues[SCHEDULE_QUEUES]; /* that take part; the first one began the list */
    uint32_t queue_count;
} schedule_list;

typedef struct device_schedule {
    schedule_order order;
    schedule_list now, *capture; /* capture: NULL, or the list of a graph */
} device_schedule;

static inline int schedule_takes_part(const schedule_list *list, const device_queue *queue) {
    for (uint32_t i = 0; i < list->queue_count; i++) {
        if (list->queues[i] == queue) return 1;
    }
    return 0;
}

static inline void schedule_join(schedule_list *list, device_queue *queue) {
    if (schedule_takes_part(list, queue)) return;
    if (list->queue_count < SCHEDULE_QUEUES) {
        list->queues[list->queue_count++] = queue;
    } else {
        schedule_fail_queue(queue);
    }
}

/* Returns the last step of the list that sets a mark. */
static inline size_t schedule_last_mark(const schedule_list *list, const device_mark *mark) {
    for (size_t i = list->count; i-- > 0;) {
        if (list->steps[i].kind == SCHEDULE_MARK && list->steps[i].mark == mark) return i;
    }
    return SCHEDULE_NO_STEP;
}

static inline void schedule_append(schedule_list *list, const schedule_step *step) {
    if (list->count == list->room) {
        const size_t room = list->room ? 2 * list->room : 64;
        schedule_step *steps = (schedule_step *)aligned_alloc(16, room * sizeof *steps);
        if (!steps) {
            schedule_fail_queue(step->queue);
            return;
        }
        if (list->count) memcpy(steps, list->steps, list->count * sizeof *steps);
        free(list->steps);
        list->steps = steps;
        list->room = room;
    }
    list->steps[list->count++] = *step;
}

/* Appends a step to the graph that is being captured, or to the list that runs next. */
static inline void schedule_enqueue(device_schedule *schedule, schedule_step *step) {
    schedule_list *capture = schedule->capture;
    if (capture && step->kind == SCHEDULE_WAIT && schedule_last_mark(capture, step->mark) != SCHEDULE_NO_STEP) {
        schedule_join(capture, step->queue);
    }
    schedule_list *list = capture && schedule_takes_part(capture, step->queue) ? capture : &schedule->now;
    if (step->kind == SCHEDULE_WAIT) {
        step->after = schedule_last_mark(list, step->mark);
        /* A capture cannot wait for work before it. */
        if (list == capture && step->after == SCHEDULE_NO_STEP) schedule_fail_queue(step->queue);
    }
    if (list != capture) schedule_join(list, step->queue);
    schedule_append(list, step);
}

static void schedule_run_graph(schedule_list *list, schedule_order order);

static inline void schedule_run_step(schedule_step *step, schedule_order order) {
    if (step->kind == SCHEDULE_GRAPH) {
        schedule_run_graph(step->graph, order);
    } else {
        schedule_execute(step);
    }
    step->done = 1;
}

/* Runs a queue up to step `last`, and of other queues what it waits for. */
static void schedule_run(schedule_list *list, const device_queue *queue, size_t last, schedule_order order) {
    for (size_t i = 0; i < last; i++) {
        schedule_step *step = &list->steps[i];
        if (step->queue != queue || step->done) continue;
        if (step->kind == SCHEDULE_WAIT && step->after != SCHEDULE_NO_STEP && !list->steps[step->after].done) {
            schedule_run(list, list->steps[step->after].queue, step->after + 1, order);
        }
        schedule_run_step(step, order);
    }
}

/* Runs a queue until it has to wait; returns 1 when it ran anything. */
static inline int schedule_advance(schedule_list *list, const device_queue *queue, schedule_order order) {
    int moved = 0;
    for (size_t i = 0; i < list->count; i++) {
        schedule_step *step = &list->steps[i];
        if (step->queue != queue || step->done) continue;
        if (step->kind == SCHEDULE_WAIT && step->after != SCHEDULE_NO_STEP && !list->steps[step->after].done) break;
        schedule_run_step(step, order);
        moved = 1;
    }
    return moved;
}

/* Runs one queue; in eager order other queues first. */
static inline void schedule_finish_list(schedule_list *list, const device_queue *queue, schedule_order order) {
    int moved = order == SCHEDULE_EAGER;
    while (moved) {
        moved = 0;
        for (uint32_t i = list->queue_count; i-- > 0;) {
            if (list->queues[i] != queue) moved |= schedule_advance(list, list->queues[i], order);
        }
        /* One step of the queue would be enough; all that wait for nothing are as good. */
        if (!moved) moved = schedule_advance(list, queue, order);
    }
    schedule_run(list, queue, list->count, order);
}

static inline int schedule_is_done(const schedule_list *list) {
    for (size_t i = 0; i < list->count; i++) {
        if (!list->steps[i].done) return 0;
    }
    return 1;
}

/* Marks the steps that schedule_run() would run. */
static void schedule_reach(schedule_list *list, const device_queue *queue, size_t last) {
    for (size_t i = 0; i < last; i++) {
        schedule_step *step = &list->steps[i];
        if (step->queue != queue || step->done) continue;
        if (step->kind == SCHEDULE_WAIT) schedule_reach(list, list->steps[step->after].queue, step->after + 1);
        step->done = 1;
    }
}

/* Returns 1 when the end of a captured graph's first queue comes after all its other work. */
static inline int schedule_is_joined(schedule_list *list) {
    for (size_t i = 0; i < list->count; i++) list->steps[i].done = 0;
    schedule_reach(list, list->queues[0], list->count);
    return schedule_is_done(list);
}

static void schedule_run_graph(schedule_list *list, schedule_order order) {
    for (size_t i = 0; i < list->count; i++) list->steps[i].done = 0;
    schedule_finish_list(list, list->queues[0], order);
}

static inline void schedule_finish(device_schedule *schedule, const device_queue *queue) {
    schedule_finish_list(&schedule->now, queue, schedule->order);
    if (schedule_is_done(&schedule->now)) schedule->now.count = 0;
}

static inline void schedule_release(schedule_list *list) {
    free(list->steps);
    memset(list, 0, sizeof *list);
}

#endif
