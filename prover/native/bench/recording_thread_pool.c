/* recording_thread_pool.c - the pool of base/thread_pool.h on one thread: says that it has as many threads as asked for, so that work is
 * cut for them, runs all tasks on the calling thread and notes the processor time of each. */
#include "recording_thread_pool.h"

#include <stdlib.h>
#include <time.h>

struct thread_pool {
    uint32_t threads;
};

static recorded_task *recorded;
static size_t recorded_count, recorded_room;
static uint32_t recorded_jobs;

uint64_t recorded_now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

void recorded_reset(void) {
    recorded_count = 0;
    recorded_jobs = 0;
}

size_t recorded_tasks(const recorded_task **tasks) {
    *tasks = recorded;
    return recorded_count;
}

static void record(thread_pool_fn run, void *argument, uint32_t index, uint32_t entry, uint32_t group, uint32_t after) {
    if (recorded_count == recorded_room) {
        recorded_room = recorded_room ? 2 * recorded_room : 1024;
        recorded = realloc(recorded, recorded_room * sizeof *recorded);
        if (!recorded) abort();
    }
    const uint64_t start = recorded_now_ns();
    run(argument, index, 0);
    recorded[recorded_count++] = (recorded_task){recorded_jobs, entry, group, after, recorded_now_ns() - start};
}

g16_status thread_pool_create(thread_pool **pool, uint32_t threads) {
    *pool = malloc(sizeof **pool);
    if (!*pool) return G16_OUT_OF_MEMORY;
    (*pool)->threads = threads ? threads : 1;
    return G16_OK;
}

void thread_pool_destroy(thread_pool *pool) { free(pool); }

uint32_t thread_pool_threads(const thread_pool *pool) { return pool->threads; }

uint32_t thread_pool_share(thread_pool *pool) { return pool->threads; }

/* One task at a time runs anyway. */
void thread_pool_set_active(thread_pool *pool, uint32_t tasks) {
    (void)pool;
    (void)tasks;
}

g16_status thread_pool_for(thread_pool *pool, uint32_t count, thread_pool_fn run, void *argument, const g16_cancel *cancel) {
    (void)pool;
    (void)cancel;
    for (uint32_t i = 0; i < count; i++) record(run, argument, i, 0, 0, 0);
    recorded_jobs += count != 0;
    return G16_OK;
}

/* Entry after entry, each as soon as what it waits for is done. */
g16_status thread_pool_run(thread_pool *pool, thread_pool_task *tasks, uint32_t entries, const g16_cancel *cancel) {
    uint32_t left[THREAD_POOL_GROUPS] = {0}, done = 0;
    (void)pool;
    (void)cancel;
    for (uint32_t i = 0; i < entries; i++) left[tasks[i].group]++;
    for (uint32_t ran = 0; ran < entries;) {
        for (uint32_t g = 0; g < THREAD_POOL_GROUPS; g++) done |= left[g] == 0 ? THREAD_POOL_AFTER(g) : 0;
        uint32_t next = 0;
        while (tasks[next].taken || tasks[next].after & ~done) next++;
        thread_pool_task *task = &tasks[next];
        task->taken = 1;
        for (uint32_t i = 0; i < task->count; i++) record(task->run, task->argument, i, next, task->group, task->after);
        left[task->group]--;
        ran++;
    }
    recorded_jobs++;
    return G16_OK;
}
