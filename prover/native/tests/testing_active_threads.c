/* testing_active_threads.c - hooks that count the tasks which a pool under a limit runs at once. */
#include <pthread.h>
#include <stdlib.h>
#include <time.h>

#include "base/thread_pool.h"

#define DEADLINE_S 120
#define MAX_CALLERS 16

typedef struct count_record {
    thread_pool *pool;
    uint32_t rounds;
    uint32_t running, most, ran; /* tasks: now, at once at most, in all */
} count_record;

static uint32_t count_enter(count_record *record) {
    const uint32_t now = __atomic_add_fetch(&record->running, 1, __ATOMIC_SEQ_CST);
    uint32_t most = __atomic_load_n(&record->most, __ATOMIC_SEQ_CST);
    while (now > most && !__atomic_compare_exchange_n(&record->most, &most, now, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST)) {
    }
    return now;
}

static void count_task(void *argument, uint32_t index, uint32_t worker) {
    count_record *record = argument;
    const struct timespec while_others_start = {0, 20000};
    (void)index;
    (void)worker;
    count_enter(record);
    nanosleep(&while_others_start, NULL);
    __atomic_fetch_add(&record->ran, 1, __ATOMIC_SEQ_CST);
    __atomic_fetch_sub(&record->running, 1, __ATOMIC_SEQ_CST);
}

enum { COUNT_TASKS = 24 };

/* A job of two groups, the second after the first. */
static void *count_main(void *argument) {
    count_record *record = argument;
    for (uint32_t round = 0; round < record->rounds; round++) {
        thread_pool_task tasks[2] = {{count_task, record, COUNT_TASKS / 2, 0, 0, 0},
                                     {count_task, record, COUNT_TASKS / 2, 1, THREAD_POOL_AFTER(0), 0}};
        if (thread_pool_run(record->pool, tasks, 2, NULL) != G16_OK) return record;
    }
    return NULL;
}

/* Callers run jobs in a pool of `threads` while its limit is `limit`, or goes through 0 .. threads where `limit` is above. Returns
 * the most tasks that ran at once, or a negative number when one did not run. */
int32_t t_pool_active(uint32_t threads, uint32_t callers, uint32_t limit, uint32_t rounds) {
    count_record record = {NULL, rounds, 0, 0, 0};
    pthread_t ids[MAX_CALLERS];
    int32_t faults = 0;
    if (callers > MAX_CALLERS || thread_pool_create(&record.pool, threads) != G16_OK) return -2;
    thread_pool_set_active(record.pool, limit <= threads ? limit : 0);
    for (uint32_t i = 0; i < callers; i++) {
        if (pthread_create(&ids[i], NULL, count_main, &record) != 0) return -3;
    }
    const uint32_t all = callers * rounds * COUNT_TASKS;
    for (uint32_t next = 0; limit > threads && __atomic_load_n(&record.ran, __ATOMIC_SEQ_CST) < all; next++) {
        const struct timespec pause = {0, 100000};
        thread_pool_set_active(record.pool, next % (threads + 1));
        nanosleep(&pause, NULL);
    }
    for (uint32_t i = 0; i < callers; i++) {
        void *failed;
        pthread_join(ids[i], &failed);
        faults += failed != NULL;
    }
    thread_pool_destroy(record.pool);
    return faults || record.ran != all ? -4 : (int32_t)record.most;
}

/* ---- a limit that changes inside a job ------------------------------------------------- */

typedef struct change_record {
    count_record before, after;
    uint32_t together; /* tasks at the beginning, or at the end, that wait until all of them run at once */
    uint32_t limit;
    int late;
} change_record;

/* Waits until so many tasks run, so that each has a thread of its own. */
static void wait_for_all(change_record *record, const uint32_t *running, uint32_t wanted) {
    const time_t deadline = time(NULL) + DEADLINE_S;
    while (__atomic_load_n(running, __ATOMIC_SEQ_CST) < wanted && !__atomic_load_n(&record->late, __ATOMIC_SEQ_CST)) {
        if (time(NULL) > deadline) __atomic_store_n(&record->late, 1, __ATOMIC_SEQ_CST);
    }
}

/* All threads run a task each when the first sets the limit. Whatever begins later began under it. */
static void lower_task(void *argument, uint32_t index, uint32_t worker) {
    change_record *record = argument;
    if (index >= record->together) {
        count_task(&record->after, index, worker);
        return;
    }
    count_enter(&record->before);
    wait_for_all(record, &record->before.running, record->together);
    if (index == 0) {
        thread_pool_set_active(record->before.pool, record->limit);
        __atomic_fetch_add(&record->before.running, record->together, __ATOMIC_SEQ_CST);
    }
    wait_for_all(record, &record->before.running, 2 * record->together);
}

/* Returns the most tasks at once that began after the limit was set in a task. */
int32_t t_pool_lowered(uint32_t threads, uint32_t limit) {
    change_record record = {{NULL, 1, 0, 0, 0}, {NULL, 1, 0, 0, 0}, threads, limit, 0};
    if (thread_pool_create(&record.before.pool, threads) != G16_OK) return -2;
    g16_status status = thread_pool_for(record.before.pool, threads + 100, lower_task, &record, NULL);
    thread_pool_destroy(record.before.pool);
    return status != G16_OK || record.late || record.after.ran != 100 ? -4 : (int32_t)record.after.most;
}

/* The first task lifts the limit; the others wait for each other. */
static void lift_task(void *argument, uint32_t index, uint32_t worker) {
    change_record *record = argument;
    (void)worker;
    if (index == 0) thread_pool_set_active(record->after.pool, record->limit);
    count_enter(&record->after);
    wait_for_all(record, &record->after.running, record->together);
}

/* Returns how many tasks ran at once after the first one had raised a limit of one. */
int32_t t_pool_lifted(uint32_t threads, uint32_t limit) {
    const uint32_t together = limit && limit < threads ? limit : threads;
    change_record record = {{NULL, 1, 0, 0, 0}, {NULL, 1, 0, 0, 0}, together, limit, 0};
    if (thread_pool_create(&record.after.pool, threads) != G16_OK) return -2;
    thread_pool_set_active(record.after.pool, 1);
    g16_status status = thread_pool_for(record.after.pool, together, lift_task, &record, NULL);
    thread_pool_destroy(record.after.pool);
    return status != G16_OK || record.late ? -4 : (int32_t)record.after.most;
}

/* ---- turns ------------------------------------------------------------------------------ */

typedef struct turn_record {
    thread_pool *pool;
    pthread_t other;
    uint32_t ended, ran;
} turn_record;

static void short_task(void *argument, uint32_t index, uint32_t worker) {
    turn_record *record = argument;
    (void)index;
    (void)worker;
    __atomic_store_n(&record->ended, 1, __ATOMIC_SEQ_CST);
}

static void *short_main(void *argument) {
    turn_record *record = argument;
    thread_pool_for(record->pool, 1, short_task, record, NULL);
    return NULL;
}

/* A millisecond, until the short job has ended; the first one starts that job's caller. */
static void long_task(void *argument, uint32_t index, uint32_t worker) {
    turn_record *record = argument;
    const struct timespec pause = {0, 1000000};
    (void)worker;
    if (index == 0 && pthread_create(&record->other, NULL, short_main, record) != 0) abort();
    if (__atomic_load_n(&record->ended, __ATOMIC_SEQ_CST)) return;
    nanosleep(&pause, NULL);
    __atomic_fetch_add(&record->ran, 1, __ATOMIC_SEQ_CST);
}

/* A caller with one task comes to a pool in which one task may run at once, and another caller has 60,000. Returns 1 when its
 * task ran before all of those had. */
int32_t t_pool_turns(uint32_t threads) {
    enum { LONG_TASKS = 60000 };
    turn_record record = {NULL, 0, 0, 0};
    if (thread_pool_create(&record.pool, threads) != G16_OK) return -2;
    thread_pool_set_active(record.pool, 1);
    g16_status status = thread_pool_for(record.pool, LONG_TASKS, long_task, &record, NULL);
    pthread_join(record.other, NULL);
    thread_pool_destroy(record.pool);
    return status == G16_OK && record.ended && record.ran < LONG_TASKS;
}
