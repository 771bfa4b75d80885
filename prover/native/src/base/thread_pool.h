/* base/thread_pool.h - the thread pool; no other file starts threads.
 *
 * A pool of `threads` workers includes the calling thread: it starts threads - 1 of its own. Several callers may run jobs at
 * once. Each caller works on its own job, and the pool's threads help any job with ready tasks. A task must not start a job on
 * the same pool; it may run a loop with pool = NULL.
 */
#ifndef G16_BASE_THREAD_POOL_H
#define G16_BASE_THREAD_POOL_H

#include "groth16.h"

typedef struct thread_pool thread_pool;

/* One task. `worker` is below thread_pool_threads(), and no two tasks of a job run at the same time with the same worker number,
 * so it may index scratch memory of a worker. */
typedef void (*thread_pool_fn)(void *argument, uint32_t index, uint32_t worker);

#define THREAD_POOL_GROUPS 32
#define THREAD_POOL_AFTER(group) ((uint32_t)1 << (group))

/* An entry of a job with dependencies: tasks run(argument, i, worker) for i < count. They are ready when all tasks of each group
 * in the set `after` have finished. Of several ready entries the first one in the list is started first. */
typedef struct thread_pool_task {
    thread_pool_fn run;
    void *argument;
    uint32_t count;
    uint32_t group; /* below THREAD_POOL_GROUPS */
    uint32_t after; /* union of THREAD_POOL_AFTER(group); must not contain cycles */
    uint32_t taken; /* used by the pool; zero at the start */
} thread_pool_task;

g16_status thread_pool_create(thread_pool **pool, uint32_t threads);
void thread_pool_destroy(thread_pool *pool);
uint32_t thread_pool_threads(const thread_pool *pool);

/* Returns the number of threads that one more job of a series, or with 0 of none, may expect: an equal share, at least 1. Jobs of
 * its series do not count. */
uint32_t thread_pool_share(thread_pool *pool, uint32_t series);

/* Runs run(argument, i, worker) for all i < count in any order and returns when all are done. pool: NULL to use the calling
 * thread alone. Returns G16_CANCELLED when the flag was set before the last task started. */
g16_status thread_pool_for(thread_pool *pool, uint32_t count, thread_pool_fn run, void *argument,
                           const g16_cancel *cancel);

/* Runs the tasks of all entries in an order that respects their dependencies. Jobs of one series run one after the other: a later
 * one starts tasks only while no earlier one has a ready task. series: any number; 0 for none. */
g16_status thread_pool_run(thread_pool *pool, thread_pool_task *tasks, uint32_t entries, uint32_t series, const g16_cancel *cancel);

/* Returns 1 when a cancel flag (may be NULL) is set. */
static inline int g16_is_cancelled(const g16_cancel *cancel) {
    return cancel != NULL && __atomic_load_n(cancel, __ATOMIC_RELAXED) != 0;
}

#endif
