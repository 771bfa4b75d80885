/* testing_thread_pool.c - hooks that drive the pool: counts, orders, cancellation, many callers. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "thread_pool.h"

typedef struct loop_record {
    uint32_t *runs; /* per index */
    uint32_t *busy; /* per worker number */
    uint32_t clashes;
    g16_cancel *cancel;
    uint32_t cancel_at;
} loop_record;

static void loop_task(void *argument, uint32_t index, uint32_t worker) {
    loop_record *record = argument;
    if (__atomic_fetch_add(&record->busy[worker], 1, __ATOMIC_SEQ_CST) != 0) {
        __atomic_fetch_add(&record->clashes, 1, __ATOMIC_SEQ_CST);
    }
    __atomic_fetch_add(&record->runs[index], 1, __ATOMIC_SEQ_CST);
    if (record->cancel && index == record->cancel_at) __atomic_store_n(record->cancel, 1, __ATOMIC_SEQ_CST);
    for (volatile int i = 0; i < 200; i++) {
    }
    __atomic_fetch_sub(&record->busy[worker], 1, __ATOMIC_SEQ_CST);
}

/* Runs a loop, without a pool for no threads; runs[count] counts calls per index. cancel_at below count raises the flag there.
 * Returns the status, or -1 when one worker number ran two tasks at once. */
int32_t t_pool_for(uint32_t threads, uint32_t count, uint32_t cancel_at, uint32_t *runs) {
    thread_pool *pool = NULL;
    g16_cancel cancel = 0;
    if (threads && thread_pool_create(&pool, threads) != G16_OK) return -2;
    loop_record record = {runs, calloc(threads + 1, sizeof(uint32_t)), 0, &cancel, cancel_at};
    int32_t status = (int32_t)thread_pool_for(pool, count, loop_task, &record, &cancel);
    thread_pool_destroy(pool);
    free(record.busy);
    return record.clashes ? -1 : status;
}

typedef struct order_record {
    uint32_t *finished_group; /* tasks done per group */
    uint32_t violations;
    const uint32_t *group_size;
    thread_pool_task *tasks;
} order_record;

static void order_task(void *argument, uint32_t index, uint32_t worker) {
    order_record *record = argument;
    (void)worker;
    for (uint32_t g = 0; g < THREAD_POOL_GROUPS; g++) {
        if ((record->tasks[index].after >> g & 1) &&
            __atomic_load_n(&record->finished_group[g], __ATOMIC_SEQ_CST) != record->group_size[g]) {
            __atomic_fetch_add(&record->violations, 1, __ATOMIC_SEQ_CST);
        }
    }
    __atomic_fetch_add(&record->finished_group[record->tasks[index].group], 1, __ATOMIC_SEQ_CST);
}

/* Runs tasks with groups[i] and after[i]; returns the number of tasks that started too early, or a negative
 * status. */
int32_t t_pool_run(uint32_t threads, uint32_t count, const uint32_t *groups, const uint32_t *after) {
    thread_pool *pool;
    uint32_t finished[THREAD_POOL_GROUPS] = {0}, sizes[THREAD_POOL_GROUPS] = {0};
    if (thread_pool_create(&pool, threads) != G16_OK) return -2;
    order_record record = {finished, 0, sizes, calloc(count, sizeof(thread_pool_task))};
    for (uint32_t i = 0; i < count; i++) {
        thread_pool_task task = {order_task, &record, i, groups[i], after[i], 0};
        record.tasks[i] = task;
        sizes[groups[i]]++;
    }
    g16_status status = thread_pool_run(pool, record.tasks, count, NULL);
    for (uint32_t g = 0; g < THREAD_POOL_GROUPS; g++) record.violations += finished[g] != sizes[g];
    thread_pool_destroy(pool);
    free(record.tasks);
    return status == G16_OK ? (int32_t)record.violations : -(int32_t)status;
}

typedef struct caller_record {
    thread_pool *pool;
    uint32_t threads;
    uint32_t rounds;
    int32_t wrong;
} caller_record;

static void *caller_main(void *argument) {
    caller_record *caller = argument;
    enum { COUNT = 37 };
    for (uint32_t round = 0; round < caller->rounds; round++) {
        uint32_t runs[COUNT] = {0};
        loop_record record = {runs, calloc(caller->threads, sizeof(uint32_t)), 0, NULL, 0};
        if (thread_pool_for(caller->pool, COUNT, loop_task, &record, NULL) != G16_OK) caller->wrong++;
        for (int i = 0; i < COUNT; i++) caller->wrong += runs[i] != 1;
        caller->wrong += (int32_t)record.clashes;
        free(record.busy);
    }
    return NULL;
}

/* `callers` threads share one pool, each running `rounds` loops. Returns the number of faults seen. */
int32_t t_pool_callers(uint32_t threads, uint32_t callers, uint32_t rounds) {
    thread_pool *pool;
    if (callers > 16 || thread_pool_create(&pool, threads) != G16_OK) return -2;
    caller_record records[16];
    pthread_t ids[16];
    int32_t wrong = 0;
    for (uint32_t i = 0; i < callers; i++) {
        caller_record record = {pool, threads, rounds, 0};
        records[i] = record;
        if (pthread_create(&ids[i], NULL, caller_main, &records[i]) != 0) return -3;
    }
    for (uint32_t i = 0; i < callers; i++) {
        pthread_join(ids[i], NULL);
        wrong += records[i].wrong;
    }
    thread_pool_destroy(pool);
    return wrong;
}
