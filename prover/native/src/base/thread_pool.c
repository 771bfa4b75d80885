/* base/thread_pool.c - jobs of tasks with dependencies between groups, shared by all callers of one engine.
 *
 * Tasks are coarse (tens of microseconds and up), so one mutex protects all state. A job is on its caller's stack and in the
 * pool's list until it is finished.
 */
#include "base/thread_pool.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

typedef struct job {
    struct job *next;
    thread_pool_task *tasks; /* NULL for a plain loop */
    thread_pool_fn run;      /* plain loop */
    void *argument;
    uint32_t entries;  /* of tasks */
    uint32_t count;    /* of all tasks */
    uint32_t started;  /* tasks started or skipped */
    uint32_t finished; /* tasks finished or skipped */
    uint32_t first_untaken; /* first entry with tasks that have not started */
    uint32_t group_left[THREAD_POOL_GROUPS];
    uint32_t groups_done;
    uint32_t workers_inside;
    uint32_t series;
    const g16_cancel *cancel;
    int cancelled;
    pthread_cond_t done; /* signals the caller: all tasks or a group are done, or it may be its turn */
} job;

/* A helper keeps its number for life and works on one job at a time, so worker numbers are unique within a job. The job's caller
 * is number 0. */
typedef struct helper {
    struct thread_pool *pool;
    pthread_t thread;
    uint32_t number;
} helper;

struct thread_pool {
    pthread_mutex_t mutex;
    pthread_cond_t work;
    job *jobs;
    helper *helpers;
    uint32_t started; /* helpers */
    uint32_t size;    /* threads, the caller's included */
    int stopping;
};

/* Returns the first entry with a task that is ready, or NULL. */
static thread_pool_task *job_ready_entry(const job *j) {
    for (uint32_t i = j->first_untaken; i < j->entries; i++) {
        thread_pool_task *task = &j->tasks[i];
        if (task->taken < task->count && (task->after & ~j->groups_done) == 0) return task;
    }
    return NULL;
}

/* Takes a ready task and returns its index, or -1 when there is none. Sets *entry for a job with dependencies. The caller holds
 * the mutex. */
static int64_t job_take(job *j, thread_pool_task **entry) {
    if (j->started == j->count) return -1;
    if (!j->cancelled && g16_is_cancelled(j->cancel)) j->cancelled = 1;
    if (j->cancelled) {
        /* Tasks that have not started are skipped; running ones are awaited. */
        j->finished += j->count - j->started;
        j->started = j->count;
        return -1;
    }
    if (!j->tasks) return (int64_t)j->started++;
    while (j->first_untaken < j->entries && j->tasks[j->first_untaken].taken == j->tasks[j->first_untaken].count) {
        j->first_untaken++;
    }
    *entry = job_ready_entry(j);
    if (!*entry) return -1;
    j->started++;
    return (int64_t)(*entry)->taken++;
}

static int job_has_ready_task(const job *j) {
    return j->started < j->count && (!j->tasks || job_ready_entry(j) != NULL);
}

/* Returns 1 when an earlier job of the same series has a ready task, which goes first. */
static int job_must_wait(const thread_pool *pool, const job *j) {
    for (const job *earlier = pool->jobs; j->series && earlier != j; earlier = earlier->next) {
        if (earlier->series == j->series && job_has_ready_task(earlier)) return 1;
    }
    return 0;
}

/* Wakes the callers of later jobs of the series when this one has no ready task, and those of cancelled ones. */
static void job_wake_later(const job *j) {
    for (job *later = j->next; j->series && later; later = later->next) {
        if (later->series != j->series) continue;
        if (g16_is_cancelled(later->cancel) || !job_has_ready_task(j)) pthread_cond_broadcast(&later->done);
    }
}

/* Runs tasks of a job until none is ready, or an earlier job goes first. The mutex is held on entry and on return. */
static void job_work(thread_pool *pool, job *j, uint32_t worker) {
    while (g16_is_cancelled(j->cancel) || !job_must_wait(pool, j)) {
        thread_pool_task *entry = NULL;
        int64_t index = job_take(j, &entry);
        job_wake_later(j);
        if (index < 0) break;
        pthread_mutex_unlock(&pool->mutex);
        if (entry) {
            entry->run(entry->argument, (uint32_t)index, worker);
        } else {
            j->run(j->argument, (uint32_t)index, worker);
        }
        pthread_mutex_lock(&pool->mutex);
        j->finished++;
        if (entry && --j->group_left[entry->group] == 0) {
            j->groups_done |= THREAD_POOL_AFTER(entry->group);
            pthread_cond_broadcast(&pool->work);
            pthread_cond_broadcast(&j->done);
        }
    }
}

static void *thread_main(void *argument) {
    const helper *self = argument;
    thread_pool *pool = self->pool;
    pthread_mutex_lock(&pool->mutex);
    while (!pool->stopping) {
        job *j = pool->jobs;
        while (j && !job_has_ready_task(j)) j = j->next;
        if (!j) {
            pthread_cond_wait(&pool->work, &pool->mutex);
            continue;
        }
        j->workers_inside++;
        job_work(pool, j, self->number);
        j->workers_inside--;
        if (j->finished == j->count && j->workers_inside == 0) pthread_cond_broadcast(&j->done);
    }
    pthread_mutex_unlock(&pool->mutex);
    return NULL;
}

g16_status thread_pool_create(thread_pool **out, uint32_t threads) {
    thread_pool *pool = calloc(1, sizeof *pool);
    if (!pool) return G16_OUT_OF_MEMORY;
    pool->size = threads ? threads : 1;
    pool->helpers = calloc(pool->size, sizeof *pool->helpers);
    if (!pool->helpers) {
        free(pool);
        return G16_OUT_OF_MEMORY;
    }
    pthread_mutex_init(&pool->mutex, NULL);
    pthread_cond_init(&pool->work, NULL);
    /* The host's threads handle signals, the pool's never do. */
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    for (uint32_t i = 0; i + 1 < pool->size; i++) {
        pool->helpers[i].pool = pool;
        pool->helpers[i].number = i + 1;
        if (pthread_create(&pool->helpers[i].thread, NULL, thread_main, &pool->helpers[i]) != 0) break;
        pool->started++;
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (pool->started + 1 != pool->size) {
        thread_pool_destroy(pool);
        return G16_THREADS_UNAVAILABLE;
    }
    *out = pool;
    return G16_OK;
}

void thread_pool_destroy(thread_pool *pool) {
    if (!pool) return;
    pthread_mutex_lock(&pool->mutex);
    pool->stopping = 1;
    pthread_cond_broadcast(&pool->work);
    pthread_mutex_unlock(&pool->mutex);
    for (uint32_t i = 0; i < pool->started; i++) pthread_join(pool->helpers[i].thread, NULL);
    pthread_cond_destroy(&pool->work);
    pthread_mutex_destroy(&pool->mutex);
    free(pool->helpers);
    free(pool);
}

uint32_t thread_pool_threads(const thread_pool *pool) { return pool->size; }

uint32_t thread_pool_share(thread_pool *pool, uint32_t series) {
    uint32_t jobs = 1;
    pthread_mutex_lock(&pool->mutex);
    for (const job *j = pool->jobs; j; j = j->next) jobs += !series || j->series != series;
    pthread_mutex_unlock(&pool->mutex);
    return jobs < pool->size ? pool->size / jobs : 1;
}

static g16_status job_run(thread_pool *pool, job *j) {
    if (j->count == 0) return g16_is_cancelled(j->cancel) ? G16_CANCELLED : G16_OK;
    pthread_cond_init(&j->done, NULL);
    pthread_mutex_lock(&pool->mutex);
    /* Jobs are appended, so that an earlier one keeps its helpers until it has no ready task. */
    job **tail = &pool->jobs;
    while (*tail) tail = &(*tail)->next;
    *tail = j;
    if (j->count > 1) pthread_cond_broadcast(&pool->work);
    for (;;) {
        job_work(pool, j, 0);
        if (j->finished == j->count && j->workers_inside == 0) break;
        pthread_cond_wait(&j->done, &pool->mutex);
    }
    for (tail = &pool->jobs; *tail != j; tail = &(*tail)->next) {
    }
    *tail = j->next;
    pthread_mutex_unlock(&pool->mutex);
    pthread_cond_destroy(&j->done);
    return j->cancelled ? G16_CANCELLED : G16_OK;
}

static g16_status loop_alone(uint32_t count, thread_pool_fn run, void *argument, const g16_cancel *cancel) {
    for (uint32_t i = 0; i < count; i++) {
        if (g16_is_cancelled(cancel)) return G16_CANCELLED;
        run(argument, i, 0);
    }
    return count == 0 && g16_is_cancelled(cancel) ? G16_CANCELLED : G16_OK;
}

g16_status thread_pool_for(thread_pool *pool, uint32_t count, thread_pool_fn run, void *argument,
                           const g16_cancel *cancel) {
    if (!pool) return loop_alone(count, run, argument, cancel);
    job j;
    memset(&j, 0, sizeof j);
    j.run = run;
    j.argument = argument;
    j.count = count;
    j.cancel = cancel;
    return job_run(pool, &j);
}

g16_status thread_pool_run(thread_pool *pool, thread_pool_task *tasks, uint32_t entries, uint32_t series, const g16_cancel *cancel) {
    job j;
    memset(&j, 0, sizeof j);
    j.tasks = tasks;
    j.entries = entries;
    j.series = series;
    j.cancel = cancel;
    for (uint32_t i = 0; i < entries; i++) {
        j.count += tasks[i].count;
        j.group_left[tasks[i].group] += tasks[i].count;
    }
    for (uint32_t g = 0; g < THREAD_POOL_GROUPS; g++) {
        if (j.group_left[g] == 0) j.groups_done |= THREAD_POOL_AFTER(g);
    }
    return job_run(pool, &j);
}
