/* groth16/prove_tasks_impl.h - the tasks of a proof after its witness: digits, sums, and their dependencies; included by
 * groth16/prove_impl.h. */
#ifndef G16_GROTH16_PROVE_TASKS_IMPL_H
#define G16_GROTH16_PROVE_TASKS_IMPL_H

#include "groth16/prove_quotient_impl.h"

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
    if (!prove_has_tables(p->key) || p->blinding.method == G16_BLINDING_CLASSICAL) {
        msm_recode(p->w_digits, &p->plan, p->wires, unit, count, first, last);
    }
    prove_add_time(p, G16_STAGE_MSM_SORT, start);
}

static void prove_task_recode_h(void *argument, uint32_t index, uint32_t worker) {
    prove_state *p = argument;
    const uint64_t start = prove_now_ns();
    const size_t count = prove_h_count(p->key), first = (size_t)index * p->h_chunk;
    const size_t last = first + p->h_chunk < count ? first + p->h_chunk : count;
    (void)worker;
    if (prove_has_tables(p->key)) {
        msm_table_recode(p->h_table_digits, &p->key->pk.tables, p->h, p->h_unit, count, first, last);
    } else {
        msm_recode(p->h_digits, &p->plan, p->h, p->h_unit, count, first, last);
    }
    prove_add_time(p, G16_STAGE_QUOTIENT, start);
}

/* ---- entries of the wires, sorted once for all lists ---------------------------------------------- */

static msm_sort_digits prove_grouped(const prove_state *p, msm_sort_digits in) {
    const wire_groups *groups = &p->key->groups;
    in.scalars = groups->wires;
    in.ends = groups->ends;
    in.groups = groups->count;
    return in;
}

/* Task `index` sorts half index % 2 of window index / 2. */
static void prove_task_sort_w(void *argument, uint32_t index, uint32_t worker) {
    prove_state *p = argument;
    const uint64_t start = prove_now_ns();
    const uint32_t window = index / 2;
    (void)worker;
    const msm_sort_digits in = prove_grouped(p, msm_half_digits(p->w_digits, &p->plan, p->key->cs.wires, window, index % 2));
    msm_sort_window(&p->sorted_w, index, msm_window_buckets(&p->plan, window), &in);
    prove_add_time(p, G16_STAGE_MSM_SORT, start);
}

/* The same for the quotient, where windows are wide. */
static void prove_task_sort_h(void *argument, uint32_t index, uint32_t worker) {
    prove_state *p = argument;
    const uint64_t start = prove_now_ns();
    const uint32_t window = index / 2, count = (uint32_t)prove_h_count(p->key);
    (void)worker;
    msm_sort_digits in = msm_half_digits(p->h_digits, &p->plan, count, window, index % 2);
    in.ends = &count;
    in.groups = 1;
    msm_sort_window(&p->sorted_h, index, msm_window_buckets(&p->plan, window), &in);
    prove_add_time(p, G16_STAGE_MSM_K, start);
}

static void prove_task_sort_w_table(void *argument, uint32_t set, uint32_t worker) {
    prove_state *p = argument;
    const uint64_t start = prove_now_ns();
    const msm_table_shape *shape = &p->key->pk.tables;
    (void)worker;
    const msm_sort_digits in = prove_grouped(p, msm_table_set_digits(shape, p->w_table_digits, p->key->cs.wires, set));
    msm_sort_window(&p->sorted_w_table, set, msm_table_buckets(shape), &in);
    prove_add_time(p, G16_STAGE_MSM_SORT, start);
}

static void prove_task_sort_h_table(void *argument, uint32_t set, uint32_t worker) {
    prove_state *p = argument;
    const uint64_t start = prove_now_ns();
    const msm_table_shape *shape = &p->key->pk.tables;
    const uint32_t count = (uint32_t)prove_h_count(p->key);
    (void)worker;
    msm_sort_digits in = msm_table_set_digits(shape, p->h_table_digits, count, set);
    in.ends = &count;
    in.groups = 1;
    msm_sort_window(&p->sorted_h_table, set, msm_table_buckets(shape), &in);
    prove_add_time(p, G16_STAGE_MSM_Z, start);
}

/* Describes the entries of a list in a window, from bucket `skipped` + 1 on. Returns the number of runs, at most WIRE_RUNS_MAX. */
static uint32_t prove_runs(msm_run *runs, const prove_state *p, const void *bases, const msm_sorted *sorted, size_t window,
                           uint32_t skipped, wire_list list) {
    const wire_groups *groups = &p->key->groups;
    for (uint32_t r = 0; r < groups->runs_count[list]; r++) {
        const wire_run *run = &groups->runs[list][r];
        runs[r] = msm_run_of(bases, sorted, window, skipped, run->first, run->end, groups->places[list], run->place);
    }
    return groups->runs_count[list];
}

/* ---- sums of windows: task index sums part index % parts of window index / parts -------------------- */

/* Part `part` of a window, which has `buckets` buckets in all parts, and its sorted entries of a list. */
typedef struct prove_part {
    msm_halves sorted;
    uint32_t window, part, buckets;
} prove_part;

static prove_part prove_part_of(const prove_state *p, uint32_t window, uint32_t part, uint32_t parts, const void *bases, wire_list list) {
    prove_part found = {.window = window, .part = part, .buckets = msm_window_buckets(&p->plan, window)};
    const uint32_t skipped = found.buckets / parts * part;
    for (uint32_t half = 0; half < 2; half++) {
        found.sorted.count = prove_runs(found.sorted.runs[half], p, bases, &p->sorted_w, 2 * (size_t)window + half, skipped, list);
    }
    return found;
}

static void prove_window_g1(prove_state *p, g1_xyzz *out, const g1_affine *bases, const msm_cut *cut, wire_list list, uint32_t index,
                            uint32_t worker) {
    const prove_part part = prove_part_of(p, index / cut->parts, index % cut->parts, cut->parts, bases, list);
    g1_msm_scratch scratch;
    g1_msm_scratch_lay_out(&scratch, arena_over(p->worker_memory + (size_t)worker * p->worker_bytes), &p->plan, 0);
    g1_msm_part(&out[index], &scratch, part.buckets, part.part, cut->parts, &part.sorted, NULL);
}

static void prove_task_a(void *argument, uint32_t index, uint32_t worker) {
    prove_state *p = argument;
    const uint64_t start = prove_now_ns();
    prove_window_g1(p, p->sums.a, p->key->pk.a, &p->sums.cut_a, WIRE_LIST_A, index, worker);
    prove_add_time(p, G16_STAGE_MSM_A, start);
}

static void prove_task_b1(void *argument, uint32_t index, uint32_t worker) {
    prove_state *p = argument;
    const uint64_t start = prove_now_ns();
    prove_window_g1(p, p->sums.b1, p->key->pk.b1, &p->sums.cut_b1, WIRE_LIST_B, index, worker);
    prove_add_time(p, G16_STAGE_MSM_B1, start);
}

static void prove_task_b2(void *argument, uint32_t index, uint32_t worker) {
    prove_state *p = argument;
    const uint64_t start = prove_now_ns();
    const uint32_t parts = p->sums.cut_b2.parts;
    const prove_part part = prove_part_of(p, index / parts, index % parts, parts, p->key->pk.b2, WIRE_LIST_B);
    g2_msm_scratch scratch;
    g2_msm_scratch_lay_out(&scratch, arena_over(p->worker_memory + (size_t)worker * p->worker_bytes), &p->plan, 0);
    g2_msm_part(&p->sums.b2[index], &scratch, part.buckets, part.part, parts, &part.sorted, NULL);
    prove_add_time(p, G16_STAGE_MSM_B2, start);
}

/* Task `index` sums one piece of one window over K and Z, which share buckets. Only this sum uses the digits of the quotient, so
 * it sorts them itself; those of wide windows are sorted before, because each part would read all of them. */
static void prove_task_kz(void *argument, uint32_t index, uint32_t worker) {
    prove_state *p = argument;
    const uint64_t start = prove_now_ns();
    const proving_key *pk = &p->key->pk;
    const msm_cut *cut = &p->sums.cut_kz;
    const uint32_t count = (uint32_t)prove_h_count(p->key), pieces = msm_cut_pieces(cut), window = index / pieces, piece = index % pieces;
    const g1_affine *const bases = p->folded ? pk->fold_t : pk->z;
    const int wide = msm_plan_is_wide(&p->plan);
    prove_part part = prove_part_of(p, window, piece % cut->parts, cut->parts, p->folded ? pk->fold_k : pk->k, WIRE_LIST_K);
    g1_msm_scratch scratch;
    g1_msm_scratch_lay_out(&scratch, arena_over(p->worker_memory + (size_t)worker * p->worker_bytes), &p->plan,
                           wide ? 0 : msm_cut_range(cut, count));
    if (wide) {
        const uint32_t skipped = part.buckets / cut->parts * part.part, last = part.sorted.count++;
        for (size_t half = 0; half < 2; half++) {
            part.sorted.runs[half][last] = msm_run_of(bases, &p->sorted_h, 2 * (size_t)window + half, skipped, 0, 1, NULL, 0);
        }
        g1_msm_part(&p->sums.kz[index], &scratch, part.buckets, part.part, cut->parts, &part.sorted, NULL);
    } else {
        const g1_msm_unsorted quotient = {
            bases, {msm_digits(p->h_digits, count, window, 0), msm_digits(p->h_digits, count, window, 1)}, count};
        g1_msm_piece(&p->sums.kz[index], &scratch, part.buckets, cut, piece, &part.sorted, &quotient);
    }
    prove_add_time(p, G16_STAGE_MSM_K, start);
}

/* ---- sums with tables: task index sums part index % parts of set index / parts ----------------------- */

/* The runs of a list whose table has `width` bases. */
static uint32_t prove_table_runs(msm_run *runs, const prove_state *p, const void *table, uint32_t index, wire_list list,
                                 size_t width) {
    const uint32_t count = prove_runs(runs, p, table, &p->sorted_w_table, index / p->parts, index % p->parts * p->parts_plan.buckets, list);
    for (uint32_t r = 0; r < count; r++) {
        runs[r].width = width;
        runs[r].number_bits = msm_table_number_bits(p->key->cs.wires);
    }
    return count;
}

static void prove_part_g1(prove_state *p, g1_msm_table_sum *sums, const msm_run *runs, uint32_t runs_count, uint32_t index,
                          uint32_t worker) {
    g1_msm_scratch scratch;
    g1_msm_scratch_lay_out(&scratch, arena_over(p->worker_memory + (size_t)worker * p->worker_bytes), &p->parts_plan, 0);
    g1_msm_table_part(&sums[index], &scratch, &p->parts_plan, runs, runs_count);
}

static void prove_task_part_a(void *argument, uint32_t index, uint32_t worker) {
    prove_state *p = argument;
    const uint64_t start = prove_now_ns();
    msm_run runs[WIRE_RUNS_MAX];
    const uint32_t count = prove_table_runs(runs, p, p->key->pk.table_a, index, WIRE_LIST_A, p->key->pk.a_count);
    prove_part_g1(p, p->sums.table_a, runs, count, index, worker);
    prove_add_time(p, G16_STAGE_MSM_A, start);
}

static void prove_task_part_kz(void *argument, uint32_t index, uint32_t worker) {
    prove_state *p = argument;
    const uint64_t start = prove_now_ns();
    const size_t h_count = prove_h_count(p->key), width = key_table_counts(&p->key->pk, 0).kz;
    msm_run runs[WIRE_RUNS_MAX + 1];
    const uint32_t count = prove_table_runs(runs, p, p->key->pk.table_kz, index, WIRE_LIST_K, width);
    msm_run *quotient = &runs[count];
    *quotient = msm_run_of(p->key->pk.table_kz, &p->sorted_h_table, index / p->parts, index % p->parts * p->parts_plan.buckets, 0, 1, NULL,
                           (uint32_t)(width - h_count));
    quotient->width = width;
    quotient->number_bits = msm_table_number_bits(h_count);
    prove_part_g1(p, p->sums.table_kz, runs, count + 1, index, worker);
    prove_add_time(p, G16_STAGE_MSM_K, start);
}

static void prove_task_part_b2(void *argument, uint32_t index, uint32_t worker) {
    prove_state *p = argument;
    const uint64_t start = prove_now_ns();
    msm_run runs[WIRE_RUNS_MAX];
    const uint32_t count = prove_table_runs(runs, p, p->key->pk.table_b2, index, WIRE_LIST_B, p->key->pk.b_count);
    g2_msm_scratch scratch;
    g2_msm_scratch_lay_out(&scratch, arena_over(p->worker_memory + (size_t)worker * p->worker_bytes), &p->parts_plan, 0);
    g2_msm_table_part(&p->sums.table_b2[index], &scratch, &p->parts_plan, runs, count);
    prove_add_time(p, G16_STAGE_MSM_B2, start);
}

/* ---- joins of sums, and blinding -------------------------------------------------------------------- */

/* Adds the parts of a sum in G1: those from tables if the key has them, else those of windows. */
static void prove_join_g1(g1_xyzz *out, const prove_state *p, const g1_msm_table_sum *table_sums, const g1_xyzz *windows,
                          const msm_cut *cut) {
    if (prove_has_tables(p->key)) {
        g1_msm_table_join(out, table_sums, &p->key->pk.tables, p->parts);
    } else {
        g1_msm_join_windows(out, windows, msm_cut_pieces(cut), &p->plan);
    }
}

static void prove_task_join_b(void *argument, uint32_t index, uint32_t worker) {
    prove_state *p = argument;
    const uint64_t start = prove_now_ns();
    const prove_sums *s = &p->sums;
    (void)index;
    (void)worker;
    if (prove_has_tables(p->key)) {
        g2_msm_table_join(&p->base.bs, s->table_b2, &p->key->pk.tables, p->parts);
    } else {
        g2_msm_join_windows(&p->base.bs, s->b2, msm_cut_pieces(&s->cut_b2), &p->plan);
    }
    if (p->blinding.method == G16_BLINDING_CLASSICAL) {
        g1_msm_join_windows(&p->base.bs1, s->b1, msm_cut_pieces(&s->cut_b1), &p->plan);
    } else {
        prove_blind_b(&p->blinding, &p->base.bs);
    }
    prove_add_time(p, G16_STAGE_ASSEMBLE, start);
}

static void prove_task_join_a(void *argument, uint32_t index, uint32_t worker) {
    prove_state *p = argument;
    const uint64_t start = prove_now_ns();
    const prove_sums *s = &p->sums;
    (void)index;
    (void)worker;
    prove_join_g1(&p->base.ar, p, s->table_a, s->a, &s->cut_a);
    if (p->blinding.method == G16_BLINDING_RERANDOMISED) prove_blind_a(&p->blinding, &p->base.ar);
    prove_add_time(p, G16_STAGE_ASSEMBLE, start);
}

static void prove_task_blind_a(void *argument, uint32_t index, uint32_t worker) {
    prove_state *p = argument;
    const uint64_t start = prove_now_ns();
    (void)worker;
    if (index == 0) {
        prove_blind_ar(&p->blinding);
    } else {
        prove_blind_krs(&p->blinding);
    }
    prove_add_time(p, G16_STAGE_ASSEMBLE, start);
}

static void prove_task_join_kz(void *argument, uint32_t index, uint32_t worker) {
    prove_state *p = argument;
    const uint64_t start = prove_now_ns();
    const prove_sums *s = &p->sums;
    (void)index;
    (void)worker;
    prove_join_g1(&p->base.krs, p, s->table_kz, s->kz, &s->cut_kz);
    prove_add_time(p, G16_STAGE_ASSEMBLE, start);
}

/* ---- task list ------------------------------------------------------------------------------------------ */

static thread_pool_task *prove_list_table_tasks(thread_pool_task *next, prove_state *p) {
    const uint32_t sets = p->key->pk.tables.sets, sorted = THREAD_POOL_AFTER(PROVE_GROUP_SORT_W_TABLE);
    next = prove_push(next, p, prove_task_sort_h_table, sets, PROVE_GROUP_SORT_H_TABLE, THREAD_POOL_AFTER(PROVE_GROUP_RECODE_H));
    next = prove_push(next, p, prove_task_sort_w_table, sets, PROVE_GROUP_SORT_W_TABLE, THREAD_POOL_AFTER(PROVE_GROUP_RECODE_W));
    next = prove_push(next, p, prove_task_part_b2, sets * p->parts, PROVE_GROUP_B, sorted);
    next = prove_push(next, p, prove_task_part_kz, sets * p->parts, PROVE_GROUP_KZ,
                      sorted | THREAD_POOL_AFTER(PROVE_GROUP_SORT_H_TABLE));
    return prove_push(next, p, prove_task_part_a, sets * p->parts, PROVE_GROUP_A, sorted);
}

/* Joins are short and come first: the last of them is all that remains to be done after the sums. */
static thread_pool_task *prove_list_joins(thread_pool_task *next, prove_state *p) {
    next = prove_push(next, p, prove_task_join_a, 1, PROVE_GROUP_JOIN_A, THREAD_POOL_AFTER(PROVE_GROUP_A));
    if (p->blinding.method == G16_BLINDING_RERANDOMISED) {
        next = prove_push(next, p, prove_task_blind_a, 2, PROVE_GROUP_JOIN, THREAD_POOL_AFTER(PROVE_GROUP_JOIN_A));
    }
    next = prove_push(next, p, prove_task_join_b, 1, PROVE_GROUP_JOIN, THREAD_POOL_AFTER(PROVE_GROUP_B));
    return prove_push(next, p, prove_task_join_kz, 1, PROVE_GROUP_JOIN, THREAD_POOL_AFTER(PROVE_GROUP_KZ));
}

static thread_pool_task *prove_push_sort_w(thread_pool_task *next, prove_state *p) {
    return prove_push(next, p, prove_task_sort_w, 2 * p->plan.windows, PROVE_GROUP_SORT_W, THREAD_POOL_AFTER(PROVE_GROUP_RECODE_W));
}

/* The quotient comes early because the sum over K and Z waits for it. The tasks of A are the shortest and come last, so that threads
 * finish at about the same time. */
static uint32_t prove_list_tasks(prove_state *p) {
    const uint32_t sorted = THREAD_POOL_AFTER(PROVE_GROUP_SORT_W), windows = p->plan.windows;
    const int tables = prove_has_tables(p->key), classical = p->blinding.method == G16_BLINDING_CLASSICAL;
    const prove_sums *s = &p->sums;
    thread_pool_task *next = prove_list_joins(p->tasks, p);
    next = prove_push(next, p, prove_task_recode_w, p->w_chunks, PROVE_GROUP_RECODE_W, 0);
    next = prove_list_quotient(next, p);
    next = prove_push(next, p, prove_task_recode_h, p->h_chunks, PROVE_GROUP_RECODE_H,
                      THREAD_POOL_AFTER(PROVE_GROUP_PRODUCT) | THREAD_POOL_AFTER(PROVE_GROUP_COMBINE));
    if (!tables || classical) next = prove_push_sort_w(next, p);
    if (tables) {
        next = prove_list_table_tasks(next, p);
    } else {
        uint32_t ready = sorted | THREAD_POOL_AFTER(PROVE_GROUP_RECODE_H);
        if (msm_plan_is_wide(&p->plan)) {
            next = prove_push(next, p, prove_task_sort_h, 2 * windows, PROVE_GROUP_SORT_H, ready);
            ready = THREAD_POOL_AFTER(PROVE_GROUP_SORT_H);
        }
        next = prove_push(next, p, prove_task_b2, windows * s->cut_b2.parts, PROVE_GROUP_B, sorted);
        next = prove_push(next, p, prove_task_kz, windows * msm_cut_pieces(&s->cut_kz), PROVE_GROUP_KZ, ready);
        next = prove_push(next, p, prove_task_a, windows * s->cut_a.parts, PROVE_GROUP_A, sorted);
    }
    if (classical) next = prove_push(next, p, prove_task_b1, windows * s->cut_b1.parts, PROVE_GROUP_B, sorted);
    return (uint32_t)(next - p->tasks);
}

#endif
