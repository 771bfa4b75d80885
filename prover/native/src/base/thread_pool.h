/* base/thread_pool.h - the only place that starts threads.
 *
 * A pool of `threads` workers counts the calling thread: it starts threads - 1 of its own. Many
 * callers may run jobs at once; each caller works on its own job and the pool's threads help
 * whichever job has work ready. Tasks must not start jobs on the same pool; a loop without a pool they may run.
 */
#ifndef G16_BASE_THREAD_POOL_H
#define G16_BASE_THREAD_POOL_H

#include "groth16.h"

typedef struct thread_pool thread_pool;

/* One unit of work. `worker` is below thread_pool_threads() and no two tasks of one job run at
 * the same time under the same worker number, so it may index per-worker scratch memory. */
typedef void (*thread_pool_fn)(void *argument, uint32_t index, uint32_t worker);

#define THREAD_POOL_GROUPS 32
#define THREAD_POOL_AFTER(group) ((uint32_t)1 << (group))

/* Tasks run(argument, 0 .. count - 1, worker) of a job with dependencies. They are ready when every task of each group in the
 * set `after` has finished; among ready tasks those of the earlier entry run first. */
typedef struct thread_pool_task {
    thread_pool_fn run;
    void *argument;
    uint32_t count;
    uint32_t group; /* below THREAD_POOL_GROUPS */
    uint32_t after; /* union of THREAD_POOL_AFTER(group); must not contain cycles */
    uint32_t taken; /* for the pool; zero at the start */
} thread_pool_task;

g16_status thread_pool_create(thread_pool **pool, uint32_t threads);
void thread_pool_destroy(thread_pool *pool);
uint32_t thread_pool_threads(const thread_pool *pool);

/* At most so many tasks run at once, those of callers included; what runs already goes on to its end. The pool's threads help where
 * callers leave room, and callers of which there are more take turns. 0 is no limit but the threads themselves: every caller
 * has its own beside the pool's. */
void thread_pool_set_active(thread_pool *pool, uint32_t tasks);

/* The threads that one more job may count on: its part of all that may be active, where others run. At least 1. */
uint32_t thread_pool_share(thread_pool *pool);

/* Runs run(argument, i, worker) for i = 0 .. count-1 in any order and returns when all are done. pool: NULL for the calling
 * thread alone. G16_CANCELLED when the flag was raised before the last one had started. */
g16_status thread_pool_for(thread_pool *pool, uint32_t count, thread_pool_fn run, void *argument,
                           const g16_cancel *cancel);

/* Runs the tasks of `entries` entries in an order that respects their dependencies. */
g16_status thread_pool_run(thread_pool *pool, thread_pool_task *tasks, uint32_t entries, const g16_cancel *cancel);

/* Whether a cancel flag (may be NULL) is raised. */
static inline int g16_is_cancelled(const g16_cancel *cancel) {
    return cancel != NULL && __atomic_load_n(cancel, __ATOMIC_RELAXED) != 0;
}

#endif
