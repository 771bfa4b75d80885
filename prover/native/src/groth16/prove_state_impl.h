/* groth16/prove_state_impl.h - the state of a running proof and its memory layout; included by groth16/prove_tasks_impl.h. */
#ifndef G16_GROTH16_PROVE_STATE_IMPL_H
#define G16_GROTH16_PROVE_STATE_IMPL_H

#include <time.h>

#include "msm/sums_impl.h"
#include "key/key.h"
#include "groth16/assemble_impl.h"
#include "groth16/quotient_cut_impl.h"

enum {
    PROVE_GROUP_RECODE_W,
    PROVE_GROUP_COLUMNS,
    PROVE_GROUP_TRANSFORMS,
    PROVE_GROUP_PRODUCT,
    PROVE_GROUP_COMBINE,
    PROVE_GROUP_RECODE_H,
    PROVE_GROUP_SORT_W,
    PROVE_GROUP_SORT_H,
    PROVE_GROUP_A,
    PROVE_GROUP_B,
    PROVE_GROUP_KZ,
    PROVE_GROUP_JOIN_A,
    PROVE_GROUP_JOIN
};

#define PROVE_RECODE_TASKS 256
#define PROVE_RECODE_MIN 2048
/* The `wait` of msm_cut_for(): a thread that has no task left in one list takes tasks from the next, except for K and Z, which wait
 * for the quotient. */
#define PROVE_WAIT 0.125
#define PROVE_WAIT_LAST 1.0
/* Maximum number of entries of the task list. */
#define PROVE_MAX_ENTRIES 20

/* The cuts of bucket sets, and the sums of their pieces; one block of memory that is wiped at the end. */
typedef struct prove_sums {
    msm_cut cut_a, cut_kz, cut_b2;
    g1_xyzz *a, *kz;
    g2_xyzz *b2;
    uint8_t *memory;
    size_t bytes;
} prove_sums;

struct prove_state;
typedef void (*prove_task_fn)(struct prove_state *p, uint32_t index, uint32_t worker);

/* An entry of the task list, whose time counts for a stage. */
typedef struct prove_step {
    struct prove_state *state;
    prove_task_fn run;
    g16_stage stage;
} prove_step;

/* The state of a running proof; the arrays are in the caller's scratch memory. */
typedef struct prove_state {
    const struct g16_key *key;
    int folded; /* the quotient is evaluated at the points of `shape`, and c is not needed */
    fold_shape shape;
    quotient_cut cut;
    fr product_scale; /* 1 / n^2, when the quotient is divided between tasks and not folded */
    const g16_cancel *cancel;
    uint64_t *stage_ns; /* G16_STAGE_COUNT, or NULL */
    msm_plan plan; /* of all sums */
    uint32_t w_chunk, w_chunks, h_chunk, h_chunks;
    uint64_t h_unit[4];
    msm_sorted sorted_w, sorted_h; /* by set and half; sorted_h only where prove_sorts_h() */
    fr *wires, *a, *b, *c;
    const fr *h; /* the quotient, or products at points; stored in a or c */
    void *w_digits, *h_digits;
    prove_sums sums;
    prove_base base;
    prove_blinding blinding;
    thread_pool_task tasks[PROVE_MAX_ENTRIES];
    prove_step steps[PROVE_MAX_ENTRIES]; /* of the tasks */
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

static void prove_run_step(void *argument, uint32_t index, uint32_t worker) {
    const prove_step *step = argument;
    const uint64_t start = prove_now_ns();
    step->run(step->state, index, worker);
    prove_add_time(step->state, step->stage, start);
}

static inline size_t prove_h_count(const struct g16_key *key) {
    return key_is_folded(&key->pk) ? key->pk.fold_t_count : key->pk.z_count;
}

static inline size_t prove_k_count(const struct g16_key *key) {
    return key_is_folded(&key->pk) ? key->pk.fold_k_count : key->pk.k_count;
}

/* Returns the average number of bases of a bucket set: of A, of K with Z, and of B in G2, which counts twice. */
static inline size_t prove_bases(const struct g16_key *key) {
    return (key->pk.a_count + prove_k_count(key) + prove_h_count(key) + 2 * (size_t)key->pk.b_count) / 4;
}

static void prove_chunks(uint32_t *chunk, uint32_t *chunks, size_t count) {
    size_t size = (count + PROVE_RECODE_TASKS - 1) / PROVE_RECODE_TASKS;
    if (size < PROVE_RECODE_MIN) size = PROVE_RECODE_MIN;
    *chunk = (uint32_t)size;
    *chunks = (uint32_t)((count + size - 1) / size);
}

static size_t prove_max(size_t a, size_t b) { return a > b ? a : b; }

/* Returns the plan of all sums. */
static msm_plan prove_plan(const struct g16_key *key) {
    return key->pk.tables.windows ? key->pk.tables : msm_plan_for(prove_bases(key));
}

static int prove_has_tables(const prove_state *p) { return msm_plan_shifts(&p->plan) > 1; }

/* Returns 1 when the entries of the quotient are sorted before they are summed: parts of wide windows would each read all of them, and
 * with tables the entries of several windows are added to the same buckets. */
static int prove_sorts_h(const prove_state *p) { return msm_plan_is_wide(&p->plan) || prove_has_tables(p); }

/* Digits of h may overwrite the two vectors that do not hold h, which are not read once h is computed. Returns NULL when these
 * vectors are large enough; prove_h_digits() then returns them. */
static void *prove_take_h_digits(const prove_state *p, arena *a, size_t bytes) {
    const size_t idle = 2 * sizeof(fr) << p->key->pk.domain_log2;
    return bytes <= idle ? NULL : arena_take(a, bytes);
}

static inline void *prove_h_digits(const prove_state *p, void *taken) {
    return taken ? taken : p->h == p->a ? p->b : p->a;
}

/* Returns the cut for a job that has `share` of `threads` threads; *sums becomes the number of sums that the cut for all threads
 * needs. */
static msm_cut prove_lay_out_cut(size_t *sums, const msm_plan *plan, size_t count, uint32_t threads, uint32_t share, double wait,
                               int sorted) {
    const uint64_t entries = (uint64_t)msm_plan_shifts(plan) * count;
    const msm_cut most = msm_cut_for(plan, entries, threads, wait, sorted);
    const msm_cut cut = msm_cut_for(plan, entries, share, wait, sorted);
    *sums = (size_t)plan->sets * msm_cut_pieces(&most);
    return msm_cut_pieces(&cut) <= msm_cut_pieces(&most) ? cut : most;
}

static void prove_lay_out_sums(prove_state *p, arena *a, uint32_t threads, uint32_t share) {
    const proving_key *pk = &p->key->pk;
    const size_t start = a->used, kz_count = prove_k_count(p->key) + prove_h_count(p->key);
    prove_sums *s = &p->sums;
    size_t n_a, n_kz, n_b2;
    s->cut_a = prove_lay_out_cut(&n_a, &p->plan, pk->a_count, threads, share, PROVE_WAIT, 1);
    s->cut_kz = prove_lay_out_cut(&n_kz, &p->plan, kz_count, threads, share, PROVE_WAIT_LAST, prove_sorts_h(p));
    s->cut_b2 = prove_lay_out_cut(&n_b2, &p->plan, pk->b_count, threads, share, PROVE_WAIT, 1);
    s->a = arena_take(a, n_a * sizeof *s->a);
    s->kz = arena_take(a, n_kz * sizeof *s->kz);
    s->b2 = arena_take(a, n_b2 * sizeof *s->b2);
    s->memory = a->base ? a->base + start : NULL;
    s->bytes = a->used - start;
}

/* Lays out (or, on a measuring arena, measures) all arrays for `threads` threads, of which the proof expects to use `share`. */
static size_t prove_lay_out(prove_state *p, arena a, uint32_t threads, uint32_t share) {
    const struct g16_key *key = p->key;
    const size_t wires = key->cs.wires, n = (size_t)1 << key->pk.domain_log2, h_count = prove_h_count(key);
    prove_chunks(&p->w_chunk, &p->w_chunks, wires);
    prove_chunks(&p->h_chunk, &p->h_chunks, h_count);
    /* The wires are not read after all their digits are computed, and entries are sorted only then. */
    arena sorted = a;
    p->wires = arena_take(&a, wires * sizeof(fr));
    msm_lay_out_sorted(&p->sorted_w, &sorted, &p->plan, p->plan.sets, wire_groups_positions(&key->groups), key->groups.count);
    a.used = prove_max(a.used, sorted.used);
    p->a = arena_take(&a, 3 * n * sizeof(fr));
    p->b = p->a ? p->a + n : NULL;
    p->c = p->a ? p->b + n : NULL;
    sorted = a;
    p->w_digits = arena_take(&a, msm_digits_bytes(&p->plan, wires));
    size_t own = 0; /* entries that a worker sorts: those of one range; with fewer threads there may be fewer ranges */
    if (prove_sorts_h(p)) {
        /* The digits of the wires are not read after their entries are sorted. */
        msm_lay_out_sorted(&p->sorted_h, &sorted, &p->plan, p->plan.sets, h_count, 1);
        a.used = prove_max(a.used, sorted.used);
    } else {
        const msm_cut least = msm_cut_least(&p->plan, prove_k_count(key) + h_count, 0);
        own = msm_cut_range(&least, h_count);
    }
    p->h_digits = prove_take_h_digits(p, &a, msm_digits_bytes(&p->plan, h_count));
    p->worker_bytes = prove_max(g2_msm_scratch_bytes(&p->plan, 0), g1_msm_scratch_bytes(&p->plan, own));
    prove_lay_out_sums(p, &a, threads, share);
    p->worker_memory = arena_take(&a, p->worker_bytes * threads);
    return a.used;
}

#endif
