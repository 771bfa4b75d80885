/* testing_thread_pool.c - hooks that drive the pool: counts, orders, cancellation, many callers. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/thread_pool.h"

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
    uint32_t *violations;
    const uint32_t *group_size;
    uint32_t group, after, count;
    uint32_t *runs; /* per index */
} order_record;

static void order_task(void *argument, uint32_t index, uint32_t worker) {
    order_record *record = argument;
    (void)worker;
    for (uint32_t g = 0; g < THREAD_POOL_GROUPS; g++) {
        if ((record->after >> g & 1) &&
            __atomic_load_n(&record->finished_group[g], __ATOMIC_SEQ_CST) != record->group_size[g]) {
            __atomic_fetch_add(record->violations, 1, __ATOMIC_SEQ_CST);
        }
    }
    if (index >= record->count || __atomic_fetch_add(&record->runs[index], 1, __ATOMIC_SEQ_CST) != 0) {
        __atomic_fetch_add(record->violations, 1, __ATOMIC_SEQ_CST);
    }
    __atomic_fetch_add(&record->finished_group[record->group], 1, __ATOMIC_SEQ_CST);
}

/* Runs entries of counts[i] tasks with groups[i] and after[i]; returns the number of tasks that started too early, ran twice or not
 * at all, or a negative status. */
int32_t t_pool_run(uint32_t threads, uint32_t entries, const uint32_t *counts, const uint32_t *groups, const uint32_t *after) {
    thread_pool *pool;
    uint32_t finished[THREAD_POOL_GROUPS] = {0}, sizes[THREAD_POOL_GROUPS] = {0}, violations = 0;
    if (thread_pool_create(&pool, threads) != G16_OK) return -2;
    thread_pool_task *tasks = calloc(entries, sizeof *tasks);
    order_record *records = calloc(entries, sizeof *records);
    for (uint32_t i = 0; i < entries; i++) {
        order_record record = {finished, &violations, sizes, groups[i], after[i], counts[i], calloc(counts[i] + 1, sizeof(uint32_t))};
        records[i] = record;
        thread_pool_task task = {order_task, &records[i], counts[i], groups[i], after[i], 0};
        tasks[i] = task;
        sizes[groups[i]] += counts[i];
    }
    g16_status status = thread_pool_run(pool, tasks, entries, 0, NULL);
    for (uint32_t g = 0; g < THREAD_POOL_GROUPS; g++) violations += finished[g] != sizes[g];
    thread_pool_destroy(pool);
    for (uint32_t i = 0; i < entries; i++) free(records[i].runs);
    free(records);
    free(tasks);
    return status == G16_OK ? (int32_t)violations : -(int32_t)status;
}

typedef struct share_record {
    thread_pool *pool;
    uint32_t inside, in_series;
} share_record;

static void share_task(void *argument, uint32_t index, uint32_t worker) {
    share_record *record = argument;
    (void)index;
    (void)worker;
    record->inside = thread_pool_share(record->pool, 0);
    record->in_series = thread_pool_share(record->pool, 1);
}

/* shares[0]: what a job may count on in a pool without others; shares[1]: together with one, of series 1; shares[2]: after it;
 * shares[3]: a job of series 1 together with that one. */
int32_t t_pool_share(uint32_t threads, uint32_t *shares) {
    share_record record = {NULL, 0, 0};
    thread_pool_task task = {share_task, &record, 1, 0, 0, 0};
    if (thread_pool_create(&record.pool, threads) != G16_OK) return -2;
    shares[0] = thread_pool_share(record.pool, 0);
    g16_status status = thread_pool_run(record.pool, &task, 1, 1, NULL);
    shares[1] = record.inside;
    shares[3] = record.in_series;
    shares[2] = thread_pool_share(record.pool, 0);
    thread_pool_destroy(record.pool);
    return (int32_t)status;
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

enum { SERIES_TASKS = 200 };

typedef struct series_record {
    thread_pool *pool;
    uint32_t series;
    g16_cancel cancel;
    uint32_t started;
    const struct series_record *earlier; /* or NULL */
    uint32_t early;                      /* tasks that started before all of the earlier job were taken */
    uint32_t cancel_from;                /* the earlier job's tasks from this one on cancel `later` */
    struct series_record *later;
    g16_status status;
    uint32_t earlier_started; /* when the job ended */
} series_record;

static void series_task(void *argument, uint32_t index, uint32_t worker) {
    series_record *record = argument;
    const struct timespec pause = {0, 1000000};
    (void)worker;
    __atomic_fetch_add(&record->started, 1, __ATOMIC_SEQ_CST);
    if (record->later && index >= record->cancel_from) __atomic_store_n(&record->later->cancel, 1, __ATOMIC_SEQ_CST);
    if (record->earlier) {
        /* Tasks of the earlier job may have been taken without having begun, one by each thread. */
        const uint32_t begun = __atomic_load_n(&record->earlier->started, __ATOMIC_SEQ_CST);
        if (begun + thread_pool_threads(record->pool) < SERIES_TASKS) __atomic_fetch_add(&record->early, 1, __ATOMIC_SEQ_CST);
    }
    nanosleep(&pause, NULL);
}

static void *series_main(void *argument) {
    series_record *record = argument;
    thread_pool_task task = {series_task, record, SERIES_TASKS, 0, 0, 0};
    record->status = thread_pool_run(record->pool, &task, 1, record->series, &record->cancel);
    if (record->earlier) record->earlier_started = __atomic_load_n(&record->earlier->started, __ATOMIC_SEQ_CST);
    return NULL;
}

/* Two callers, the second one from the first task of the first one on. early: tasks of the second job that started while the first
 * one had others that had not. cancel_from: task of the first job that cancels the second one. Returns how many tasks of the first job
 * had started when the second one ended, or a negative number when a status is not the expected one. */
int32_t t_pool_series(uint32_t threads, const uint32_t *series, uint32_t cancel_from, uint32_t *early) {
    series_record first = {.series = series[0], .cancel_from = cancel_from}, second = {.series = series[1], .earlier = &first};
    pthread_t ids[2];
    first.later = &second;
    if (thread_pool_create(&first.pool, threads) != G16_OK) return -2;
    second.pool = first.pool;
    if (pthread_create(&ids[0], NULL, series_main, &first) != 0) return -3;
    while (__atomic_load_n(&first.started, __ATOMIC_SEQ_CST) == 0) {
    }
    if (pthread_create(&ids[1], NULL, series_main, &second) != 0) return -3;
    for (int i = 0; i < 2; i++) pthread_join(ids[i], NULL);
    thread_pool_destroy(first.pool);
    *early = second.early;
    const g16_status expected = cancel_from < SERIES_TASKS ? G16_CANCELLED : G16_OK;
    return first.status == G16_OK && second.status == expected ? (int32_t)second.earlier_started : -1;
}
