/* fold/transform_impl.h - sums and transforms of lists of points, step by step on all threads; included by fold/bases_impl.h.
 *
 * Points are affine with R = 2^256. Transforms are like those of ntt/transform_impl.h, with the same table of roots.
 */
#ifndef G16_FOLD_TRANSFORM_IMPL_H
#define G16_FOLD_TRANSFORM_IMPL_H

#include <stdlib.h>
#include <string.h>

#include "ntt/transform_impl.h"
#include "key/fold_checkpoint.h"
#include "key/fold_shape.h"
#include "key/key.h"
#include "fold/scale_impl.h"

/* Points per task. */
#define FOLD_CHUNK 256
/* Tasks per thread between two checks of the clock, when progress is saved: a third of a second in eight lanes. */
#define FOLD_SLICE_TASKS 64

/* Iterations of other loops between two checks of the cancel flag. */
#define FOLD_POLL_EVERY 4096

typedef struct fold_job fold_job;
typedef void (*fold_step)(fold_job *job, size_t first, uint32_t count);

struct fold_job {
    const struct g16_key *key;
    thread_pool *pool;
    const g16_cancel *cancel;
    table_progress *progress;
    fold_checkpoint *checkpoint;     /* NULL: nothing is saved */
    const fold_checkpoint_header *resumed; /* position of an earlier fold, until this one reaches it: earlier runs are skipped; then NULL */
    fold_live live;                  /* of the lists: the points that the rest of the fold needs after the current run */
    uint64_t runs, start;            /* runs begun; progress before the first run */
    fold_shape shape;
    size_t n;
    g1_affine *z, *work, *spare, *sums; /* n each, spare 2n; z: bit-reversed, as in the key */
    g1_affine *t;                       /* the result, of shape.points points */
    fr *factors, *vanishing, *scratch;  /* n each */
    /* of the current step */
    fold_step step;
    g1_affine *points, *other;
    size_t first, end, shift, weight; /* of the current slice; weight: of a point, in units of progress */
    int has_infinity;                   /* set by a task that finds a base at infinity */
    uint32_t half_log2;
    const uint32_t *wires; /* of the wire bases */
    g1_xyzz *wire_sums;    /* of all wires */
    g16_status status;
};

/* ---- checkpoints (key/fold_checkpoint.h) -------------------------------------------------
 *
 * A fold is a sequence of runs, each of which applies one step to a list, with copies and scalar computations in between. Except
 * for the points, everything depends on the key alone. So to resume at a position in some run, all code before it is executed
 * again with its runs skipped, whatever the lists contain. At that run the lists are restored. */

static void fold_lists(const fold_job *job, const fold_live *live, fold_span lists[FOLD_CHECKPOINT_LISTS]) {
    lists[0] = (fold_span){job->work, live->work * sizeof(g1_affine)};
    lists[1] = (fold_span){job->sums, live->sums * sizeof(g1_affine)};
    lists[2] = (fold_span){job->spare, live->spare * sizeof(g1_affine)};
    lists[3] = (fold_span){job->spare + job->n, live->second * sizeof(g1_affine)};
    lists[4] = (fold_span){job->t, live->t * sizeof(g1_affine)};
}

/* Restores the position of the checkpoint, if it has one. */
static void fold_resume(fold_job *job) {
    fold_span lists[FOLD_CHECKPOINT_LISTS];
    job->start = job->progress->done;
    if (!job->checkpoint || !job->checkpoint->found) return;
    const fold_live *live = &job->checkpoint->found->live;
    if (live->work > job->n || live->sums > job->n || live->spare > job->n || live->second > job->n || live->t > job->shape.points) return;
    fold_lists(job, live, lists);
    if (fold_checkpoint_fits(job->checkpoint, lists)) job->resumed = job->checkpoint->found;
}

/* Returns how many points of a run an earlier fold has finished; restores the lists at the last run that it began. */
static size_t fold_skip(fold_job *job, uint64_t run, size_t count) {
    fold_span lists[FOLD_CHECKPOINT_LISTS];
    const fold_checkpoint_header *const resumed = job->resumed;
    if (!resumed) return 0;
    if (g16_is_cancelled(job->cancel)) job->status = G16_CANCELLED;
    if (run < resumed->place.run) return count;
    fold_lists(job, &resumed->live, lists);
    fold_checkpoint_restore(job->checkpoint, lists);
    table_progress_add(job->progress, resumed->work);
    job->resumed = NULL;
    return resumed->place.done < count ? (size_t)resumed->place.done : count;
}

static void fold_save_progress(fold_job *job, fold_place place) {
    fold_span lists[FOLD_CHECKPOINT_LISTS];
    if (!job->checkpoint || !fold_checkpoint_is_due(job->checkpoint) || g16_is_cancelled(job->cancel)) return;
    fold_lists(job, &job->live, lists);
    fold_checkpoint_save(job->checkpoint, place, &job->live, lists, job->progress->done - job->start);
}

/* Returns the number of points between two checks of the clock; the minimum when saving is always due. */
static size_t fold_slice(const fold_job *job, size_t count) {
    if (!job->checkpoint) return count;
    return job->checkpoint->interval_ns ? (size_t)thread_pool_threads(job->pool) * FOLD_SLICE_TASKS * FOLD_CHUNK : FOLD_CHUNK;
}

/* Returns 1 if iteration `i` of a loop that is not divided between threads may begin. */
static inline int fold_continues(fold_job *job, size_t i) {
    if (i % FOLD_POLL_EVERY == 0 && g16_is_cancelled(job->cancel)) job->status = G16_CANCELLED;
    return job->status == G16_OK;
}

static void fold_copy(fold_job *job, g1_affine *to, const g1_affine *from, size_t count) {
    for (size_t i = 0; i < count && fold_continues(job, i); i += FOLD_POLL_EVERY) {
        memcpy(to + i, from + i, (count - i < FOLD_POLL_EVERY ? count - i : FOLD_POLL_EVERY) * sizeof *to);
    }
}

/* ---- runs -------------------------------------------------------------------------- */

static void fold_task(void *argument, uint32_t index, uint32_t worker) {
    fold_job *job = argument;
    const size_t first = job->first + (size_t)index * FOLD_CHUNK, left = job->end - first;
    (void)worker;
    job->step(job, first, (uint32_t)(left < FOLD_CHUNK ? left : FOLD_CHUNK));
    table_progress_add(job->progress, (left < FOLD_CHUNK ? left : FOLD_CHUNK) * job->weight);
}

static size_t fold_smaller(size_t a, size_t b) { return a < b ? a : b; }

static void fold_run_weighted(fold_job *job, fold_step step, g1_affine *points, size_t count, size_t weight) {
    if (job->status != G16_OK) return;
    const uint64_t run = job->runs++;
    const size_t slice = fold_slice(job, count);
    size_t done = fold_skip(job, run, count);
    job->step = step;
    job->points = points;
    job->weight = weight;
    while (done < count && job->status == G16_OK) {
        job->first = done;
        job->end = done = done + fold_smaller(slice, count - done);
        const size_t tasks = (done - job->first + FOLD_CHUNK - 1) / FOLD_CHUNK;
        job->status = thread_pool_for(job->pool, (uint32_t)tasks, fold_task, job, job->cancel);
        if (job->status == G16_OK) fold_save_progress(job, (fold_place){run, done});
    }
}

/* fold_run() runs a step that multiplies points, fold_run_light() any other. */
static void fold_run(fold_job *job, fold_step step, g1_affine *points, size_t count) {
    fold_run_weighted(job, step, points, count, FOLD_WORK_BYTES);
}

static void fold_run_light(fold_job *job, fold_step step, g1_affine *points, size_t count) {
    fold_run_weighted(job, step, points, count, 0);
}

/* Returns psi^exponent. */
static fr fold_psi(const fold_job *job, uint64_t exponent) {
    const proving_key *pk = &job->key->pk;
    const uint64_t e = exponent & (2 * job->n - 1);
    fr r = pk->twiddles[ntt_reverse_bits(e & (job->n - 1), pk->domain_log2)];
    if (e >= job->n) fr_neg(&r, &r);
    return r;
}

/* ---- sums of points ------------------------------------------------------------- */

static void fold_add_one(g1_affine *r, const g1_affine *p, const g1_affine *q, int negative) {
    g1_affine second = *q;
    g1_xyzz sum;
    if (negative) g1_affine_neg(&second, q);
    g1_xyzz_from_affine(&sum, p);
    g1_xyzz_add_affine(&sum, &sum, &second);
    g1_xyzz_to_affine(r, &sum);
}

/* r = p + (qx, qy), given 1 / (qx - px). */
static inline void fold_finish_sum(g1_affine *r, const g1_affine *p, const fp *qx, const fp *qy, const fp *inverse) {
    fp slope, x, t;
    fp_sub(&slope, qy, &p->y);
    fp_mul(&slope, &slope, inverse);
    fp_sqr(&x, &slope);
    fp_sub(&x, &x, &p->x);
    fp_sub(&x, &x, qx);
    fp_sub(&t, &p->x, &x);
    fp_mul(&t, &t, &slope);
    fp_sub(&r->y, &t, &p->y);
    r->x = x;
}

/* sums[i] = p[i] + q[i], differences[i] = p[i] - q[i] for at most FOLD_CHUNK points; either may be NULL or one of the operands. */
static void fold_add_lists(g1_affine *sums, g1_affine *differences, const g1_affine *p, const g1_affine *q, uint32_t count) {
    fp prefix[FOLD_CHUNK], product = FP_ONE, inverse, x;
    uint8_t plain[FOLD_CHUNK];
    for (uint32_t i = 0; i < count; i++) {
        fp_sub(&x, &q[i].x, &p[i].x);
        plain[i] = !g1_affine_is_infinity(&p[i]) && !g1_affine_is_infinity(&q[i]) && !fp_is_zero(&x);
        prefix[i] = product;
        if (plain[i]) fp_mul(&product, &product, &x);
    }
    fp_inv(&product, &product);
    for (uint32_t i = count; i-- > 0;) {
        const g1_affine left = p[i], right = q[i];
        if (!plain[i]) {
            if (sums) fold_add_one(&sums[i], &left, &right, 0);
            if (differences) fold_add_one(&differences[i], &left, &right, 1);
            continue;
        }
        fp negative;
        fp_mul(&inverse, &product, &prefix[i]);
        fp_sub(&x, &right.x, &left.x);
        fp_mul(&product, &product, &x);
        fp_neg(&negative, &right.y);
        if (sums) fold_finish_sum(&sums[i], &left, &right.x, &right.y, &inverse);
        if (differences) fold_finish_sum(&differences[i], &left, &right.x, &negative, &inverse);
    }
}

/* ---- transforms ----------------------------------------------------------------- */

/* Pair i of a stage combines indices low and low + half. */
static inline size_t fold_low(const fold_job *job, size_t i) {
    return (i >> job->half_log2 << (job->half_log2 + 1)) | (i & (((size_t)1 << job->half_log2) - 1));
}

/* Scales the points of a chunk whose block is not the first; block 0 has the factor 1. */
static void fold_scale_blocks(const fold_job *job, g1_affine *points, size_t first, uint32_t count, int forward) {
    const fr *table = job->key->pk.twiddles;
    g1_affine chosen[FOLD_CHUNK];
    fr factors[FOLD_CHUNK];
    uint32_t places[FOLD_CHUNK], used = 0;
    for (uint32_t i = 0; i < count; i++) {
        const size_t block = (first + i) >> job->half_log2;
        if (block == 0) continue;
        places[used] = i;
        factors[used] = table[forward ? block : ntt_negated_inverse_index(block)];
        chosen[used++] = points[i];
    }
    if (used == 0) return;
    fold_scale(chosen, factors, used);
    for (uint32_t i = 0; i < used; i++) points[places[i]] = chosen[i];
}

/* Loads the two points of butterflies first, first + 1, ...; loads at least one. */
static void fold_take_pairs(g1_affine *low, g1_affine *high, const fold_job *job, size_t first, uint32_t count) {
    const g1_affine *upper = job->points + ((size_t)1 << job->half_log2);
    uint32_t i = 0;
    do {
        low[i] = job->points[fold_low(job, first + i)];
        high[i] = upper[fold_low(job, first + i)];
    } while (++i < count);
}

static void fold_put_pairs(const fold_job *job, const g1_affine *low, const g1_affine *high, size_t first, uint32_t count) {
    g1_affine *upper = job->points + ((size_t)1 << job->half_log2);
    for (uint32_t i = 0; i < count; i++) {
        job->points[fold_low(job, first + i)] = low[i];
        upper[fold_low(job, first + i)] = high[i];
    }
}

static void fold_step_inverse(fold_job *job, size_t first, uint32_t count) {
    g1_affine low[FOLD_CHUNK], high[FOLD_CHUNK];
    fold_take_pairs(low, high, job, first, count);
    for (uint32_t i = 0; i < count; i++) {
        if ((first + i) >> job->half_log2 == 0) g1_affine_neg(&high[i], &high[i]); /* all factors are negated, also 1 */
    }
    fold_scale_blocks(job, high, first, count, 0);
    fold_add_lists(high, low, low, high, count);
    fold_put_pairs(job, low, high, first, count);
}

static void fold_step_forward(fold_job *job, size_t first, uint32_t count) {
    g1_affine low[FOLD_CHUNK], high[FOLD_CHUNK];
    fold_take_pairs(low, high, job, first, count);
    fold_add_lists(low, high, low, high, count);
    fold_scale_blocks(job, high, first, count, 1);
    fold_put_pairs(job, low, high, first, count);
}

/* sum over j of omega^(-jk) points[j]: natural order -> bit-reversed order. */
static void fold_inverse(fold_job *job, g1_affine *points, uint32_t log2) {
    for (uint32_t stage = log2; stage-- > 0;) {
        job->half_log2 = stage;
        fold_run(job, fold_step_inverse, points, (size_t)1 << log2 >> 1);
    }
}

/* sum over k of omega^(jk) points[k]: bit-reversed order -> natural order. */
static void fold_forward(fold_job *job, g1_affine *points, uint32_t log2) {
    for (uint32_t stage = 0; stage < log2; stage++) {
        job->half_log2 = stage;
        fold_run(job, fold_step_forward, points, (size_t)1 << log2 >> 1);
    }
}

static void fold_reverse(fold_job *job, g1_affine *points, uint32_t log2) {
    for (size_t i = 0; i < (size_t)1 << log2 && fold_continues(job, i); i++) {
        const size_t j = ntt_reverse_bits(i, log2);
        if (i >= j) continue;
        const g1_affine t = points[i];
        points[i] = points[j];
        points[j] = t;
    }
}

#endif
