/* recording_thread_pool.h - what recording_thread_pool.c noted. */
#ifndef RECORDING_THREAD_POOL_H
#define RECORDING_THREAD_POOL_H

#include <stddef.h>

#include "base/thread_pool.h"

typedef struct recorded_task {
    uint32_t job, entry, group, after; /* jobs run one after the other; the rest as in thread_pool_task */
    uint64_t ns;
} recorded_task;

/* Processor time of this thread. */
uint64_t recorded_now_ns(void);

void recorded_reset(void);

/* Tasks since the last reset in the order in which they ran, valid until the next one runs. */
size_t recorded_tasks(const recorded_task **tasks);

#endif
