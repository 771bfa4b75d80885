/* groth16_prove_impl.h - a Groth16 proof (Groth 2016) under a gnark key; included by backend.c.
 *
 * With wires w and blinding r, s (gnark-format.md section 12):
 *   Ar  = alpha + sum w_i A_i + r delta
 *   Bs  = beta  + sum w_i B_i + s delta           (in G2, and in G1 as Bs1)
 *   Krs = sum_{private} w_i K_i + sum h_j Z_j + s Ar + r Bs1 - r s delta
 * or, from the same proof with r = s = 0, re-randomised by rho and sigma (kernel-performance.md section 2.4e):
 *   Ar / rho,   rho (Bs + sigma delta),   Krs + sigma Ar
 * which needs no Bs1 and so no multiplication over B in G1.
 * The witness is solved first; then one job of tasks does the rest: digits of w, quotient, digits of h, and one
 * task per multi-scalar multiplication and window. w has one digit table, shared by A, B, B1 and K.
 * Under a folded key (fold.h) K covers all wires and h_j Z_j is a sum over products of A and B at points.
 * Where the key has tables of its bases (msm_table.h), A, B in G2, and K together with Z are sums over those instead: their
 * entries are sorted in one task per bucket set, and then a task sums one part of the buckets.
 */
#ifndef G16_GROTH16_PROVE_IMPL_H
#define G16_GROTH16_PROVE_IMPL_H

#include <time.h>

#include "msm_impl.h"
#include "os_random.h"
#include "quotient_impl.h"
#include "witness_solver_impl.h"

enum {
    PROVE_GROUP_RECODE_W,
    PROVE_GROUP_TRANSFORMS,
    PROVE_GROUP_COMBINE,
    PROVE_GROUP_RECODE_H,
    PROVE_GROUP_SORT_A,
    PROVE_GROUP_SORT_KZ,
    PROVE_GROUP_SORT_B2,
    PROVE_GROUP_MSM
};

#define PROVE_RECODE_TASKS 256
#define PROVE_RECODE_MIN 2048
/* Parts of a bucket set: enough that the threads end together. At least two, for MSM_MAX_LINES. */
#define PROVE_PARTS_PER_THREAD 4
#define PROVE_MIN_PARTS 2
#define PROVE_MAX_PARTS 32

typedef struct prove_sums {
    g1_xyzz a[MSM_MAX_WINDOWS], b1[MSM_MAX_WINDOWS], k[MSM_MAX_WINDOWS], z[MSM_MAX_WINDOWS];
    g2_xyzz b2[MSM_MAX_WINDOWS];
    g1_msm_table_sum table_a[MSM_TABLE_MAX_SETS * PROVE_MAX_PARTS], table_kz[MSM_TABLE_MAX_SETS * PROVE_MAX_PARTS];
    g2_msm_table_sum table_b2[MSM_TABLE_MAX_SETS * PROVE_MAX_PARTS];
} prove_sums;

/* Sorted entries of the bucket sets of one table, set after set. */
typedef struct prove_sorted {
    uint32_t *entries, *ends;
    size_t width, entries_stride, ends_stride;
} prove_sorted;

/* Everything a running proof touches; arrays lie in the caller's scratch memory. */
typedef struct prove_state {
    const struct g16_key *key;
    int folded; /* the quotient is summed at the points of `shape`, and c is not needed */
    fold_shape shape;
    g16_blinding form;
    const g16_cancel *cancel;
    uint64_t *stage_ns; /* G16_STAGE_COUNT, or NULL */
    msm_plan w_plan, h_plan;
    uint32_t w_chunk, w_chunks, h_chunk, h_chunks;
    uint64_t h_unit[4];
    uint32_t parts;      /* of a bucket set, with tables */
    msm_plan parts_plan; /* of which only the buckets count */
    prove_sorted sorted_a, sorted_kz, sorted_b2;
    int16_t *w_table_digits, *h_table_digits;
    fr *wires, *a, *b, *c;
    int16_t *w_digits, *h_digits;
    prove_sums *sums;
    thread_pool_task *tasks;
    uint8_t *worker_memory;
    size_t worker_bytes;
} prove_state;

static uint64_t prove_now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void prove_add_time(prove_state *p, g16_stage stage, uint64_t since) {
    if (p->stage_ns) __atomic_fetch_add(&p->stage_ns[stage], prove_now_ns() - since, __ATOMIC_RELAXED);
}

static inline size_t prove_h_count(const struct g16_key *key) {
    return key_is_folded(&key->pk) ? key->pk.fold_t_count : key->pk.z_count;
}

static void prove_chunks(uint32_t *chunk, uint32_t *chunks, size_t count) {
    size_t size = (count + PROVE_RECODE_TASKS - 1) / PROVE_RECODE_TASKS;
    if (size < PROVE_RECODE_MIN) size = PROVE_RECODE_MIN;
    *chunk = (uint32_t)size;
    *chunks = (uint32_t)((count + size - 1) / size);
}

static size_t prove_max(size_t a, size_t b) { return a > b ? a : b; }

static int prove_has_tables(const struct g16_key *key) { return key->pk.tables.windows != 0; }

static void prove_place_sorted(prove_sorted *sorted, arena *a, const msm_table_shape *shape, size_t width) {
    sorted->width = width;
    sorted->entries_stride = msm_table_entries(shape, width);
    sorted->ends_stride = (size_t)msm_table_buckets(shape) + 2;
    sorted->entries = arena_take(a, shape->sets * sorted->entries_stride * sizeof *sorted->entries);
    sorted->ends = arena_take(a, shape->sets * sorted->ends_stride * sizeof *sorted->ends);
}

/* What a key with tables needs, and the number of tasks that sort and sum. */
static size_t prove_place_tables(prove_state *p, arena *a, uint32_t threads) {
    const proving_key *pk = &p->key->pk;
    const msm_table_shape *shape = &pk->tables;
    const msm_table_counts counts = key_table_counts(pk);
    p->parts = PROVE_MIN_PARTS;
    while (p->parts < PROVE_MAX_PARTS && p->parts < threads * PROVE_PARTS_PER_THREAD) p->parts *= 2;
    p->parts_plan = msm_plan_of_window(shape->window_bits);
    p->parts_plan.buckets = msm_table_buckets(shape) / p->parts;
    p->w_table_digits = arena_take(a, msm_table_digits_bytes(shape, p->key->cs.wires));
    p->h_table_digits = arena_take(a, msm_table_digits_bytes(shape, prove_h_count(p->key)));
    prove_place_sorted(&p->sorted_a, a, shape, counts.a);
    prove_place_sorted(&p->sorted_kz, a, shape, counts.kz);
    prove_place_sorted(&p->sorted_b2, a, shape, counts.b2);
    p->worker_bytes = prove_max(p->worker_bytes, g1_msm_scratch_bytes(&p->parts_plan, 0));
    p->worker_bytes = prove_max(p->worker_bytes, g2_msm_scratch_bytes(&p->parts_plan, 0));
    return 3 * (size_t)shape->sets * (1 + p->parts);
}

/* Places (or, on a measuring arena, measures) all arrays. */
static size_t prove_place(prove_state *p, arena a, uint32_t threads) {
    const struct g16_key *key = p->key;
    const size_t wires = key->cs.wires, n = (size_t)1 << key->pk.domain_log2, h_count = prove_h_count(key);
    p->w_plan = msm_plan_for(wires);
    p->h_plan = msm_plan_for(h_count);
    prove_chunks(&p->w_chunk, &p->w_chunks, wires);
    prove_chunks(&p->h_chunk, &p->h_chunks, h_count);
    p->sums = arena_take(&a, sizeof *p->sums);
    p->wires = arena_take(&a, wires * sizeof(fr));
    p->a = arena_take(&a, n * sizeof(fr));
    p->b = arena_take(&a, n * sizeof(fr));
    p->c = arena_take(&a, n * sizeof(fr));
    p->w_digits = arena_take(&a, msm_digits_bytes(&p->w_plan, wires));
    size_t tasks = p->w_chunks + p->h_chunks + 4;
    /* With tables only B1 needs these digits, and its sums. */
    p->worker_bytes = g1_msm_scratch_bytes(&p->w_plan, wires);
    if (prove_has_tables(key)) {
        p->h_digits = NULL;
        tasks += p->w_plan.windows + prove_place_tables(p, &a, threads);
    } else {
        p->h_digits = arena_take(&a, msm_digits_bytes(&p->h_plan, h_count));
        tasks += 4 * (size_t)p->w_plan.windows + p->h_plan.windows;
        p->worker_bytes = prove_max(p->worker_bytes, g2_msm_scratch_bytes(&p->w_plan, wires));
        p->worker_bytes = prove_max(p->worker_bytes, g1_msm_scratch_bytes(&p->h_plan, h_count));
    }
    p->tasks = arena_take(&a, tasks * sizeof *p->tasks);
    p->worker_memory = arena_take(&a, p->worker_bytes * threads);
    return a.used;
}

static void groth16_prepare_key(struct g16_key *key) {
    proving_key *pk = &key->pk;
    ntt_fill_table(pk->twiddles, pk->domain_log2);
    g1_msm_prepare(pk->a, pk->a_count);
    g1_msm_prepare(pk->b1, pk->b_count);
    g1_msm_prepare(pk->k, pk->k_count);
    g1_msm_prepare(pk->z, pk->z_count);
    g2_msm_prepare(pk->b2, pk->b_count);
}

static size_t groth16_prove_scratch_bytes(const struct g16_key *key, uint32_t threads) {
    prove_state p;
    p.key = key;
    return prove_place(&p, arena_measure(), threads) + ARENA_ALIGNMENT;
}

/* ---- tasks -------------------------------------------------------------------- */

static void prove_task_recode_w(void *argument, uint32_t index, uint32_t worker) {
    static const uint64_t unit[4] = {1, 0, 0, 0};
    prove_state *p = argument;
    const uint64_t start = prove_now_ns();
    const size_t count = p->key->cs.wires, first = (size_t)index * p->w_chunk;
    const size_t last = first + p->w_chunk < count ? first + p->w_chunk : count;
    (void)worker;
    if (prove_has_tables(p->key)) {
        msm_table_recode(p->w_table_digits, &p->key->pk.tables, p->wires, unit, count, first, last);
    }
    if (!prove_has_tables(p->key) || p->form == G16_BLINDING_CLASSICAL) {
        msm_recode(p->w_digits, &p->w_plan, p->wires, unit, count, first, last);
    }
    prove_add_time(p, G16_STAGE_WITNESS, start);
}

static void prove_task_transform(void *argument, uint32_t index, uint32_t worker) {
    prove_state *p = argument;
    const uint64_t start = prove_now_ns();
    const uint32_t log2 = p->key->pk.domain_log2;
    (void)worker;
    if (p->folded) {
        quotient_to_parts(index == 0 ? p->a : p->b, index == 0 ? p->c : p->c + ((size_t)1 << log2) / 2, log2, &p->shape,
                          p->key->pk.twiddles);
    } else if (index == 2) {
        ntt_inverse(p->c, log2, p->key->pk.twiddles);
    } else {
        quotient_to_coset(index == 0 ? p->a : p->b, log2, p->key->pk.twiddles);
    }
    prove_add_time(p, G16_STAGE_QUOTIENT, start);
}

static void prove_task_combine(void *argument, uint32_t index, uint32_t worker) {
    prove_state *p = argument;
    const uint64_t start = prove_now_ns();
    (void)index;
    (void)worker;
    if (p->folded) {
        quotient_multiply_parts(p->a, p->b, p->key->pk.domain_log2, &p->shape);
    } else {
        quotient_combine(p->a, p->b, p->c, p->key->pk.domain_log2, p->key->pk.twiddles);
    }
    prove_add_time(p, G16_STAGE_QUOTIENT, start);
}

static void prove_task_recode_h(void *argument, uint32_t index, uint32_t worker) {
    prove_state *p = argument;
    const uint64_t start = prove_now_ns();
    const size_t count = prove_h_count(p->key), first = (size_t)index * p->h_chunk;
    const size_t last = first + p->h_chunk < count ? first + p->h_chunk : count;
    (void)worker;
    if (prove_has_tables(p->key)) {
        msm_table_recode(p->h_table_digits, &p->key->pk.tables, p->a, p->h_unit, count, first, last);
    } else {
        msm_recode(p->h_digits, &p->h_plan, p->a, p->h_unit, count, first, last);
    }
    prove_add_time(p, G16_STAGE_QUOTIENT, start);
}

static void prove_window_g1(prove_state *p, g1_xyzz *out, const msm_plan *plan, const g1_affine *bases,
                            const uint32_t *scalars, uint32_t count, const int16_t *digits, size_t stride,
                            size_t first, uint32_t window, uint32_t worker) {
    g1_msm_scratch scratch;
    g1_msm_scratch_place(&scratch, arena_over(p->worker_memory + (size_t)worker * p->worker_bytes), plan, count);
    g1_msm_window(&out[window], &scratch, plan, bases, scalars, count,
                  msm_digits(digits, stride, window, 0) + first, msm_digits(digits, stride, window, 1) + first);
}

static void prove_task_a(void *argument, uint32_t window, uint32_t worker) {
    prove_state *p = argument;
    const uint64_t start = prove_now_ns();
    const proving_key *pk = &p->key->pk;
    prove_window_g1(p, p->sums->a, &p->w_plan, pk->a, pk->a_wires, pk->a_count, p->w_digits, p->key->cs.wires, 0,
                    window, worker);
    prove_add_time(p, G16_STAGE_MSM_A, start);
}

static void prove_task_b1(void *argument, uint32_t window, uint32_t worker) {
    prove_state *p = argument;
    const uint64_t start = prove_now_ns();
    const proving_key *pk = &p->key->pk;
    prove_window_g1(p, p->sums->b1, &p->w_plan, pk->b1, pk->b_wires, pk->b_count, p->w_digits, p->key->cs.wires,
                    0, window, worker);
    prove_add_time(p, G16_STAGE_MSM_B1, start);
}

static void prove_task_k(void *argument, uint32_t window, uint32_t worker) {
    prove_state *p = argument;
    const uint64_t start = prove_now_ns();
    const proving_key *pk = &p->key->pk;
    if (p->folded) {
        prove_window_g1(p, p->sums->k, &p->w_plan, pk->fold_k, pk->fold_wires, pk->fold_k_count, p->w_digits,
                        p->key->cs.wires, 0, window, worker);
    } else {
        prove_window_g1(p, p->sums->k, &p->w_plan, pk->k, NULL, pk->k_count, p->w_digits, p->key->cs.wires,
                        p->key->cs.public_wires, window, worker);
    }
    prove_add_time(p, G16_STAGE_MSM_K, start);
}

static void prove_task_z(void *argument, uint32_t window, uint32_t worker) {
    prove_state *p = argument;
    const uint64_t start = prove_now_ns();
    const uint32_t count = (uint32_t)prove_h_count(p->key);
    const g1_affine *bases = p->folded ? p->key->pk.fold_t : p->key->pk.z;
    prove_window_g1(p, p->sums->z, &p->h_plan, bases, NULL, count, p->h_digits, count, 0, window, worker);
    prove_add_time(p, G16_STAGE_MSM_Z, start);
}

static void prove_task_b2(void *argument, uint32_t window, uint32_t worker) {
    prove_state *p = argument;
    const uint64_t start = prove_now_ns();
    const proving_key *pk = &p->key->pk;
    const size_t wires = p->key->cs.wires;
    g2_msm_scratch scratch;
    g2_msm_scratch_place(&scratch, arena_over(p->worker_memory + (size_t)worker * p->worker_bytes), &p->w_plan,
                         pk->b_count);
    g2_msm_window(&p->sums->b2[window], &scratch, &p->w_plan, pk->b2, pk->b_wires, pk->b_count,
                  msm_digits(p->w_digits, wires, window, 0), msm_digits(p->w_digits, wires, window, 1));
    prove_add_time(p, G16_STAGE_MSM_B2, start);
}

/* ---- tasks over tables: of one bucket set, or of part index % parts of set index / parts ---------- */

static void prove_sort(const prove_state *p, const prove_sorted *sorted, const msm_table_list *lists, uint32_t count,
                       uint32_t set) {
    msm_table_sort(sorted->entries + set * sorted->entries_stride, sorted->ends + set * sorted->ends_stride, lists, count,
                   &p->key->pk.tables, sorted->width, set);
}

static void prove_task_sort_a(void *argument, uint32_t set, uint32_t worker) {
    prove_state *p = argument;
    const uint64_t start = prove_now_ns();
    const proving_key *pk = &p->key->pk;
    const msm_table_list list = {p->w_table_digits, p->key->cs.wires, pk->a_wires, pk->a_count, 0};
    (void)worker;
    prove_sort(p, &p->sorted_a, &list, 1, set);
    prove_add_time(p, G16_STAGE_MSM_A, start);
}

static void prove_task_sort_b2(void *argument, uint32_t set, uint32_t worker) {
    prove_state *p = argument;
    const uint64_t start = prove_now_ns();
    const proving_key *pk = &p->key->pk;
    const msm_table_list list = {p->w_table_digits, p->key->cs.wires, pk->b_wires, pk->b_count, 0};
    (void)worker;
    prove_sort(p, &p->sorted_b2, &list, 1, set);
    prove_add_time(p, G16_STAGE_MSM_B2, start);
}

static void prove_task_sort_kz(void *argument, uint32_t set, uint32_t worker) {
    prove_state *p = argument;
    const uint64_t start = prove_now_ns();
    const proving_key *pk = &p->key->pk;
    const uint32_t h_count = (uint32_t)prove_h_count(p->key);
    const msm_table_list plain = {p->w_table_digits + p->key->cs.public_wires, p->key->cs.wires, NULL, pk->k_count, 0};
    const msm_table_list folded = {p->w_table_digits, p->key->cs.wires, pk->fold_wires, pk->fold_k_count, 0};
    const msm_table_list k = p->folded ? folded : plain;
    const msm_table_list lists[2] = {k, {p->h_table_digits, h_count, NULL, h_count, k.count}};
    (void)worker;
    prove_sort(p, &p->sorted_kz, lists, 2, set);
    prove_add_time(p, G16_STAGE_MSM_K, start);
}

static void prove_part_g1(prove_state *p, g1_msm_table_sum *sums, const g1_affine *table, const prove_sorted *sorted,
                          uint32_t index, uint32_t worker) {
    const size_t set = index / p->parts;
    g1_msm_scratch scratch;
    g1_msm_scratch_place(&scratch, arena_over(p->worker_memory + (size_t)worker * p->worker_bytes), &p->parts_plan, 0);
    g1_msm_table_part(&sums[index], &scratch, &p->parts_plan, table, sorted->entries + set * sorted->entries_stride,
                      sorted->ends + set * sorted->ends_stride, index % p->parts);
}

static void prove_task_part_a(void *argument, uint32_t index, uint32_t worker) {
    prove_state *p = argument;
    const uint64_t start = prove_now_ns();
    prove_part_g1(p, p->sums->table_a, p->key->pk.table_a, &p->sorted_a, index, worker);
    prove_add_time(p, G16_STAGE_MSM_A, start);
}

static void prove_task_part_kz(void *argument, uint32_t index, uint32_t worker) {
    prove_state *p = argument;
    const uint64_t start = prove_now_ns();
    prove_part_g1(p, p->sums->table_kz, p->key->pk.table_kz, &p->sorted_kz, index, worker);
    prove_add_time(p, G16_STAGE_MSM_K, start);
}

static void prove_task_part_b2(void *argument, uint32_t index, uint32_t worker) {
    prove_state *p = argument;
    const uint64_t start = prove_now_ns();
    const prove_sorted *sorted = &p->sorted_b2;
    const size_t set = index / p->parts;
    g2_msm_scratch scratch;
    g2_msm_scratch_place(&scratch, arena_over(p->worker_memory + (size_t)worker * p->worker_bytes), &p->parts_plan, 0);
    g2_msm_table_part(&p->sums->table_b2[index], &scratch, &p->parts_plan, p->key->pk.table_b2,
                      sorted->entries + set * sorted->entries_stride, sorted->ends + set * sorted->ends_stride,
                      index % p->parts);
    prove_add_time(p, G16_STAGE_MSM_B2, start);
}

static thread_pool_task *prove_push(thread_pool_task *next, prove_state *p, thread_pool_fn run, uint32_t count,
                                    uint32_t group, uint32_t after) {
    for (uint32_t i = 0; i < count; i++) {
        thread_pool_task task = {run, p, i, group, after, 0};
        *next++ = task;
    }
    return next;
}

static thread_pool_task *prove_list_table_tasks(thread_pool_task *next, prove_state *p) {
    const uint32_t sets = p->key->pk.tables.sets, w_ready = THREAD_POOL_AFTER(PROVE_GROUP_RECODE_W);
    next = prove_push(next, p, prove_task_sort_kz, sets, PROVE_GROUP_SORT_KZ,
                      w_ready | THREAD_POOL_AFTER(PROVE_GROUP_RECODE_H));
    next = prove_push(next, p, prove_task_sort_b2, sets, PROVE_GROUP_SORT_B2, w_ready);
    next = prove_push(next, p, prove_task_part_b2, sets * p->parts, PROVE_GROUP_MSM,
                      THREAD_POOL_AFTER(PROVE_GROUP_SORT_B2));
    next = prove_push(next, p, prove_task_sort_a, sets, PROVE_GROUP_SORT_A, w_ready);
    next = prove_push(next, p, prove_task_part_a, sets * p->parts, PROVE_GROUP_MSM,
                      THREAD_POOL_AFTER(PROVE_GROUP_SORT_A));
    return prove_push(next, p, prove_task_part_kz, sets * p->parts, PROVE_GROUP_MSM,
                      THREAD_POOL_AFTER(PROVE_GROUP_SORT_KZ));
}

/* The quotient comes early because the last multiplication waits for it, G2 next because its tasks are the
 * longest. */
static uint32_t prove_list_tasks(prove_state *p) {
    const uint32_t w_ready = THREAD_POOL_AFTER(PROVE_GROUP_RECODE_W), windows = p->w_plan.windows;
    thread_pool_task *next = p->tasks;
    next = prove_push(next, p, prove_task_recode_w, p->w_chunks, PROVE_GROUP_RECODE_W, 0);
    next = prove_push(next, p, prove_task_transform, p->folded ? 2 : 3, PROVE_GROUP_TRANSFORMS, 0);
    next = prove_push(next, p, prove_task_combine, 1, PROVE_GROUP_COMBINE,
                      THREAD_POOL_AFTER(PROVE_GROUP_TRANSFORMS));
    next = prove_push(next, p, prove_task_recode_h, p->h_chunks, PROVE_GROUP_RECODE_H,
                      THREAD_POOL_AFTER(PROVE_GROUP_COMBINE));
    if (prove_has_tables(p->key)) {
        next = prove_list_table_tasks(next, p);
        if (p->form == G16_BLINDING_CLASSICAL) {
            next = prove_push(next, p, prove_task_b1, windows, PROVE_GROUP_MSM, w_ready);
        }
        return (uint32_t)(next - p->tasks);
    }
    next = prove_push(next, p, prove_task_b2, windows, PROVE_GROUP_MSM, w_ready);
    next = prove_push(next, p, prove_task_k, windows, PROVE_GROUP_MSM, w_ready);
    next = prove_push(next, p, prove_task_a, windows, PROVE_GROUP_MSM, w_ready);
    next = prove_push(next, p, prove_task_z, p->h_plan.windows, PROVE_GROUP_MSM,
                      THREAD_POOL_AFTER(PROVE_GROUP_RECODE_H));
    if (p->form == G16_BLINDING_CLASSICAL) {
        next = prove_push(next, p, prove_task_b1, windows, PROVE_GROUP_MSM, w_ready);
    }
    return (uint32_t)(next - p->tasks);
}

/* ---- the proof ---------------------------------------------------------------- */

/* The sums of the proof with r = s = 0. */
typedef struct prove_base {
    g1_xyzz ar, krs;
    g2_xyzz bs;
} prove_base;

static void prove_join(prove_state *p, prove_base *base) {
    const proving_key *pk = &p->key->pk;
    if (prove_has_tables(p->key)) {
        g1_msm_table_join(&base->ar, p->sums->table_a, &pk->tables, p->parts);
        g2_msm_table_join(&base->bs, p->sums->table_b2, &pk->tables, p->parts);
        g1_msm_table_join(&base->krs, p->sums->table_kz, &pk->tables, p->parts);
    } else {
        g1_xyzz t;
        g1_msm_join_windows(&base->ar, p->sums->a, &p->w_plan);
        g2_msm_join_windows(&base->bs, p->sums->b2, &p->w_plan);
        g1_msm_join_windows(&base->krs, p->sums->k, &p->w_plan);
        g1_msm_join_windows(&t, p->sums->z, &p->h_plan);
        g1_xyzz_add(&base->krs, &base->krs, &t);
    }
    g1_xyzz_add_affine(&base->ar, &base->ar, &pk->alpha);
    g2_xyzz_add_affine(&base->bs, &base->bs, &pk->beta2);
}

/* r and s are plain numbers, rs their product. */
static void prove_blind_classical(prove_state *p, groth16_proof *proof, prove_base *base, const uint64_t r[4],
                                  const uint64_t s[4], const uint64_t rs[4]) {
    const proving_key *pk = &p->key->pk;
    g1_xyzz bs1, t;
    g2_xyzz t2;
    g1_affine bs1_affine, minus_delta;

    g1_xyzz_mul_var(&t, &pk->delta, r);
    g1_xyzz_add(&base->ar, &base->ar, &t);
    g1_xyzz_to_affine(&proof->ar, &base->ar);

    g1_msm_join_windows(&bs1, p->sums->b1, &p->w_plan);
    g1_xyzz_add_affine(&bs1, &bs1, &pk->beta);
    g1_xyzz_mul_var(&t, &pk->delta, s);
    g1_xyzz_add(&bs1, &bs1, &t);
    g1_xyzz_to_affine(&bs1_affine, &bs1);

    g2_xyzz_mul_var(&t2, &pk->delta2, s);
    g2_xyzz_add(&base->bs, &base->bs, &t2);
    g2_xyzz_to_affine(&proof->bs, &base->bs);

    g1_xyzz_mul_var(&t, &proof->ar, s);
    g1_xyzz_add(&base->krs, &base->krs, &t);
    g1_xyzz_mul_var(&t, &bs1_affine, r);
    g1_xyzz_add(&base->krs, &base->krs, &t);
    g1_affine_neg(&minus_delta, &pk->delta);
    g1_xyzz_mul_var(&t, &minus_delta, rs);
    g1_xyzz_add(&base->krs, &base->krs, &t);
    g1_xyzz_to_affine(&proof->krs, &base->krs);

    os_random_wipe(&t, sizeof t);
    os_random_wipe(&t2, sizeof t2);
    os_random_wipe(&bs1, sizeof bs1);
    os_random_wipe(&bs1_affine, sizeof bs1_affine);
}

/* rho, its inverse and sigma are plain numbers, rho not zero. */
static void prove_blind_again(prove_state *p, groth16_proof *proof, prove_base *base, const uint64_t rho[4],
                              const uint64_t rho_inverse[4], const uint64_t sigma[4]) {
    g1_affine ar;
    g2_affine bs;
    g1_xyzz t;
    g2_xyzz t2;
    g1_xyzz_to_affine(&ar, &base->ar);
    g1_xyzz_mul_var(&t, &ar, rho_inverse);
    g1_xyzz_to_affine(&proof->ar, &t);

    g1_xyzz_mul_var(&t, &ar, sigma);
    g1_xyzz_add(&base->krs, &base->krs, &t);
    g1_xyzz_to_affine(&proof->krs, &base->krs);

    g2_xyzz_mul_var(&t2, &p->key->pk.delta2, sigma);
    g2_xyzz_add(&base->bs, &base->bs, &t2);
    g2_xyzz_to_affine(&bs, &base->bs);
    g2_xyzz_mul_var(&t2, &bs, rho);
    g2_xyzz_to_affine(&proof->bs, &t2);

    os_random_wipe(&t, sizeof t);
    os_random_wipe(&t2, sizeof t2);
    os_random_wipe(&ar, sizeof ar);
    os_random_wipe(&bs, sizeof bs);
}

/* From the sums of all windows to the blinded proof. */
static g16_status prove_assemble(prove_state *p, uint8_t *out, const fr *first, const fr *second, g16_error *error) {
    prove_base base;
    groth16_proof proof;
    uint64_t plain[3][4];
    fr third;
    prove_join(p, &base);
    if (p->form == G16_BLINDING_RERANDOMISED && g1_xyzz_is_infinity(&base.ar)) {
        /* No multiple of infinity hides anything. Whoever meets this knows the key's secrets. */
        return g16_fail(error, G16_UNSUPPORTED_KEY, 0, "this key maps the witness to the point at infinity");
    }
    fr_to_limbs(plain[0], first);
    fr_to_limbs(plain[1], second);
    if (p->form == G16_BLINDING_CLASSICAL) {
        fr_mul(&third, first, second);
        fr_to_limbs(plain[2], &third);
        prove_blind_classical(p, &proof, &base, plain[0], plain[1], plain[2]);
    } else {
        fr_inv(&third, first);
        fr_to_limbs(plain[2], &third);
        prove_blind_again(p, &proof, &base, plain[0], plain[2], plain[1]);
    }
    groth16_proof_encode(out, &proof);
    os_random_wipe(&base, sizeof base);
    os_random_wipe(plain, sizeof plain);
    os_random_wipe(&third, sizeof third);
    return G16_OK;
}

/* Solves the witness into the state's arrays and pads a, b, c to the domain. */
static g16_status prove_solve(prove_state *p, thread_pool *pool, const uint8_t *inputs, size_t count,
                              g16_error *error) {
    const struct g16_key *key = p->key;
    const size_t pad = ((size_t)1 << key->pk.domain_log2) - key->cs.constraints;
    fr *c = p->folded ? NULL : p->c;
    g16_status status = witness_solver_solve(&key->cs, pool, p->wires, p->a, p->b, c, inputs, count, p->cancel, error);
    if (status != G16_OK) return status;
    memset(p->a + key->cs.constraints, 0, pad * sizeof(fr));
    memset(p->b + key->cs.constraints, 0, pad * sizeof(fr));
    if (c) memset(c + key->cs.constraints, 0, pad * sizeof(fr));
    return G16_OK;
}

static g16_status groth16_prove(const struct g16_key *key, thread_pool *pool, uint8_t *proof, uint64_t *stage_ns,
                                g16_blinding form, const uint8_t *first, const uint8_t *second,
                                const uint8_t *inputs, size_t count, void *scratch, size_t scratch_size,
                                const g16_cancel *cancel, g16_error *error) {
    const uint32_t threads = thread_pool_threads(pool);
    const size_t needed = groth16_prove_scratch_bytes(key, threads);
    if (scratch_size < needed) {
        return g16_fail(error, G16_OUT_OF_MEMORY, 0, "the proof needs %zu bytes of scratch memory, %zu were given",
                        needed, scratch_size);
    }
    fr blinding[2];
    if (!fr_from_bytes(&blinding[0], first) || !fr_from_bytes(&blinding[1], second)) {
        return g16_fail(error, G16_INVALID_ARGUMENT, 0, "a blinding value is not below the scalar field order");
    }
    if (form != G16_BLINDING_CLASSICAL && (form != G16_BLINDING_RERANDOMISED || fr_is_zero(&blinding[0]))) {
        return g16_fail(error, G16_INVALID_ARGUMENT, 0, "the form of blinding is unknown or rho is zero");
    }
    prove_state p;
    memset(&p, 0, sizeof p);
    p.key = key;
    p.form = form;
    p.cancel = cancel;
    p.stage_ns = stage_ns;
    prove_place(&p, arena_over(scratch), threads);
    p.folded = key_is_folded(&key->pk);
    p.shape = fold_shape_for(key->cs.constraints, key->pk.domain_log2);
    quotient_unit(p.h_unit, key->pk.domain_log2, p.folded);
    if (stage_ns) memset(stage_ns, 0, G16_STAGE_COUNT * sizeof *stage_ns);

    uint64_t start = prove_now_ns();
    g16_status status = prove_solve(&p, pool, inputs, count, error);
    if (status == G16_OK) {
        prove_add_time(&p, G16_STAGE_WITNESS, start);
        status = thread_pool_run(pool, p.tasks, prove_list_tasks(&p), cancel);
        if (status == G16_OK) {
            start = prove_now_ns();
            status = prove_assemble(&p, proof, &blinding[0], &blinding[1], error);
            prove_add_time(&p, G16_STAGE_ASSEMBLE, start);
        } else {
            g16_fail(error, status, 0, "the proof was cancelled");
        }
    }
    /* Sums without blinding would link proofs to witnesses. */
    os_random_wipe(p.sums, sizeof *p.sums);
    os_random_wipe(blinding, sizeof blinding);
    return status;
}

static g16_status groth16_quotient(const struct g16_key *key, thread_pool *pool, uint8_t *h, const uint8_t *inputs,
                                   size_t count, const g16_cancel *cancel, g16_error *error) {
    const uint32_t log2 = key->pk.domain_log2;
    const size_t n = (size_t)1 << log2;
    prove_state p;
    memset(&p, 0, sizeof p);
    p.key = key;
    p.cancel = cancel;
    fr *memory = malloc((key->cs.wires + 3 * n) * sizeof(fr));
    if (!memory) return g16_fail(error, G16_OUT_OF_MEMORY, 0, "no memory for the quotient polynomial");
    p.wires = memory;
    p.a = memory + key->cs.wires;
    p.b = p.a + n;
    p.c = p.b + n;
    g16_status status = prove_solve(&p, pool, inputs, count, error);
    if (status == G16_OK) {
        for (uint32_t i = 0; i < 3; i++) prove_task_transform(&p, i, 0);
        prove_task_combine(&p, 0, 0);
        fr scale;
        fr_from_u64(&scale, (uint64_t)2 << log2);
        fr_inv(&scale, &scale);
        for (size_t i = 0; i < n; i++) {
            fr_mul(&p.b[i], &p.a[ntt_reverse_bits(i, log2)], &scale);
            fr_to_bytes(h + 32 * i, &p.b[i]);
        }
    }
    free(memory);
    return status;
}

#endif
