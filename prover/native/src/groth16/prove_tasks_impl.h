/* groth16/prove_tasks_impl.h - the tasks of a proof after its witness: digits, sums, and their dependencies; included by
 * groth16/prove_impl.h. */
#ifndef G16_GROTH16_PROVE_TASKS_IMPL_H
#define G16_GROTH16_PROVE_TASKS_IMPL_H

#include "groth16/prove_quotient_impl.h"

static void prove_task_recode_w(prove_state *p, uint32_t index, uint32_t worker) {
    static const uint64_t unit[4] = {1, 0, 0, 0};
    const size_t count = p->key->cs.wires, first = (size_t)index * p->w_chunk;
    const size_t last = first + p->w_chunk < count ? first + p->w_chunk : count;
    (void)worker;
    msm_recode(p->w_digits, &p->plan, p->wires, unit, count, first, last);
}

static void prove_task_recode_h(prove_state *p, uint32_t index, uint32_t worker) {
    const size_t count = prove_h_count(p->key), first = (size_t)index * p->h_chunk;
    const size_t last = first + p->h_chunk < count ? first + p->h_chunk : count;
    (void)worker;
    msm_recode(p->h_digits, &p->plan, p->h, p->h_unit, count, first, last);
}

/* ---- entries of the wires, sorted once for all lists ---------------------------------------------- */

/* Task `index` sorts half index % 2 of set index / 2. */
static void prove_task_sort_w(prove_state *p, uint32_t index, uint32_t worker) {
    const wire_groups *groups = &p->key->groups;
    (void)worker;
    msm_sort_digits in = msm_half_digits(p->w_digits, &p->plan, p->key->cs.wires, index);
    in.scalars = groups->wires;
    in.ends = groups->ends;
    in.groups = groups->count;
    msm_sort_entries(&p->sorted_w, index, msm_set_buckets(&p->plan, index / 2), &in);
}

/* The same for the quotient. */
static void prove_task_sort_h(prove_state *p, uint32_t index, uint32_t worker) {
    const uint32_t count = (uint32_t)prove_h_count(p->key);
    (void)worker;
    msm_sort_digits in = msm_half_digits(p->h_digits, &p->plan, count, index);
    in.ends = &count;
    in.groups = 1;
    msm_sort_entries(&p->sorted_h, index, msm_set_buckets(&p->plan, index / 2), &in);
}

/* ---- sums of sets: task index sums part index % parts of set index / parts -------------------------- */

/* Returns the table of a list if the proof uses tables, else its bases. */
static msm_bases prove_bases_of(const prove_state *p, const void *bases, const void *table, size_t width) {
    return prove_has_tables(p) ? (msm_bases){table, width} : (msm_bases){bases, 0};
}

/* Part `part` of a set, which has `buckets` buckets in all parts, and its sorted entries of a list. */
typedef struct prove_part {
    msm_halves sorted;
    uint32_t set, part, buckets;
} prove_part;

static prove_part prove_part_of(const prove_state *p, uint32_t set, uint32_t part, uint32_t parts, msm_bases bases, wire_list list) {
    prove_part found = {.set = set, .part = part, .buckets = msm_set_buckets(&p->plan, set)};
    const wire_groups *groups = &p->key->groups;
    const uint32_t skipped = found.buckets / parts * part;
    found.sorted.count = groups->runs_count[list];
    for (uint32_t half = 0; half < 2; half++) {
        for (uint32_t r = 0; r < groups->runs_count[list]; r++) {
            const wire_run *run = &groups->runs[list][r];
            found.sorted.runs[half][r] = msm_run_of(bases, &p->sorted_w, p->key->cs.wires, 2 * (size_t)set + half, skipped, run->first,
                                                    run->end, groups->places[list], run->place);
        }
    }
    return found;
}

static void prove_task_a(prove_state *p, uint32_t index, uint32_t worker) {
    const proving_key *pk = &p->key->pk;
    const uint32_t parts = p->sums.cut_a.parts;
    const msm_bases bases = prove_bases_of(p, pk->a, pk->table_a, pk->a_count);
    const prove_part part = prove_part_of(p, index / parts, index % parts, parts, bases, WIRE_LIST_A);
    g1_msm_scratch scratch;
    g1_msm_scratch_lay_out(&scratch, arena_over(p->worker_memory + (size_t)worker * p->worker_bytes), &p->plan, 0);
    g1_msm_part(&p->sums.a[index], &scratch, part.buckets, part.part, parts, &part.sorted, NULL);
}

static void prove_task_b2(prove_state *p, uint32_t index, uint32_t worker) {
    const proving_key *pk = &p->key->pk;
    const uint32_t parts = p->sums.cut_b2.parts;
    const msm_bases bases = prove_bases_of(p, pk->b2, pk->table_b2, pk->b_count);
    const prove_part part = prove_part_of(p, index / parts, index % parts, parts, bases, WIRE_LIST_B);
    g2_msm_scratch scratch;
    g2_msm_scratch_lay_out(&scratch, arena_over(p->worker_memory + (size_t)worker * p->worker_bytes), &p->plan, 0);
    g2_msm_part(&p->sums.b2[index], &scratch, part.buckets, part.part, parts, &part.sorted, NULL);
}

/* Task `index` sums one piece of one set over K and Z, which share buckets. Only this sum uses the digits of the quotient, so it sorts
 * them itself unless prove_sorts_h(). */
static void prove_task_kz(prove_state *p, uint32_t index, uint32_t worker) {
    const proving_key *pk = &p->key->pk;
    const msm_cut *cut = &p->sums.cut_kz;
    const uint32_t count = (uint32_t)prove_h_count(p->key), pieces = msm_cut_pieces(cut), set = index / pieces, piece = index % pieces;
    const size_t k_count = prove_k_count(p->key);
    const msm_bases k = prove_bases_of(p, p->folded ? pk->fold_k : pk->k, pk->table_kz, k_count + count);
    const msm_bases z = prove_bases_of(p, p->folded ? pk->fold_t : pk->z, pk->table_kz, k_count + count);
    prove_part part = prove_part_of(p, set, piece % cut->parts, cut->parts, k, WIRE_LIST_K);
    g1_msm_scratch scratch;
    g1_msm_scratch_lay_out(&scratch, arena_over(p->worker_memory + (size_t)worker * p->worker_bytes), &p->plan,
                           prove_sorts_h(p) ? 0 : msm_cut_range(cut, count));
    if (prove_sorts_h(p)) {
        const uint32_t skipped = part.buckets / cut->parts * part.part, last = part.sorted.count++;
        const uint32_t place = prove_has_tables(p) ? (uint32_t)k_count : 0;
        for (size_t half = 0; half < 2; half++) {
            part.sorted.runs[half][last] = msm_run_of(z, &p->sorted_h, count, 2 * (size_t)set + half, skipped, 0, 1, NULL, place);
        }
        g1_msm_part(&p->sums.kz[index], &scratch, part.buckets, part.part, cut->parts, &part.sorted, NULL);
    } else {
        const g1_msm_unsorted quotient = {
            z.points, {msm_digits(p->h_digits, count, set, 0), msm_digits(p->h_digits, count, set, 1)}, count};
        g1_msm_piece(&p->sums.kz[index], &scratch, part.buckets, cut, piece, &part.sorted, &quotient);
    }
}

/* ---- joins of sums, and blinding -------------------------------------------------------------------- */

static void prove_task_join_b(prove_state *p, uint32_t index, uint32_t worker) {
    const prove_sums *s = &p->sums;
    (void)index;
    (void)worker;
    g2_msm_join_sets(&p->base.bs, s->b2, msm_cut_pieces(&s->cut_b2), &p->plan);
    prove_blind_b(&p->blinding, &p->base.bs);
}

static void prove_task_join_a(prove_state *p, uint32_t index, uint32_t worker) {
    const prove_sums *s = &p->sums;
    (void)index;
    (void)worker;
    g1_msm_join_sets(&p->base.ar, s->a, msm_cut_pieces(&s->cut_a), &p->plan);
    prove_blind_a(&p->blinding, &p->base.ar);
}

static void prove_task_blind_a(prove_state *p, uint32_t index, uint32_t worker) {
    (void)worker;
    if (index == 0) {
        prove_blind_ar(&p->blinding);
    } else {
        prove_blind_krs(&p->blinding);
    }
}

static void prove_task_join_kz(prove_state *p, uint32_t index, uint32_t worker) {
    const prove_sums *s = &p->sums;
    (void)index;
    (void)worker;
    g1_msm_join_sets(&p->base.krs, s->kz, msm_cut_pieces(&s->cut_kz), &p->plan);
}

/* ---- task list ------------------------------------------------------------------------------------------ */

/* Joins are short and come first: the last of them is all that remains to be done after the sums. */
static thread_pool_task *prove_list_joins(thread_pool_task *next, prove_state *p) {
    next = prove_push(next, p, prove_task_join_a, G16_STAGE_ASSEMBLE, 1, PROVE_GROUP_JOIN_A, THREAD_POOL_AFTER(PROVE_GROUP_A));
    next = prove_push(next, p, prove_task_blind_a, G16_STAGE_ASSEMBLE, 2, PROVE_GROUP_JOIN, THREAD_POOL_AFTER(PROVE_GROUP_JOIN_A));
    next = prove_push(next, p, prove_task_join_b, G16_STAGE_ASSEMBLE, 1, PROVE_GROUP_JOIN, THREAD_POOL_AFTER(PROVE_GROUP_B));
    return prove_push(next, p, prove_task_join_kz, G16_STAGE_ASSEMBLE, 1, PROVE_GROUP_JOIN, THREAD_POOL_AFTER(PROVE_GROUP_KZ));
}

/* The quotient comes early because the sum over K and Z waits for it. The tasks of A are the shortest and come last, so that threads
 * finish at about the same time. */
static uint32_t prove_list_tasks(prove_state *p) {
    const uint32_t sorted = THREAD_POOL_AFTER(PROVE_GROUP_SORT_W), sets = p->plan.sets;
    const prove_sums *s = &p->sums;
    uint32_t ready = sorted | THREAD_POOL_AFTER(PROVE_GROUP_RECODE_H);
    thread_pool_task *next = prove_list_joins(p->tasks, p);
    next = prove_push(next, p, prove_task_recode_w, G16_STAGE_MSM_SORT, p->w_chunks, PROVE_GROUP_RECODE_W, 0);
    next = prove_list_quotient(next, p);
    next = prove_push(next, p, prove_task_recode_h, G16_STAGE_QUOTIENT, p->h_chunks, PROVE_GROUP_RECODE_H,
                      THREAD_POOL_AFTER(PROVE_GROUP_PRODUCT) | THREAD_POOL_AFTER(PROVE_GROUP_COMBINE));
    next = prove_push(next, p, prove_task_sort_w, G16_STAGE_MSM_SORT, 2 * sets, PROVE_GROUP_SORT_W,
                      THREAD_POOL_AFTER(PROVE_GROUP_RECODE_W));
    if (prove_sorts_h(p)) {
        next = prove_push(next, p, prove_task_sort_h, G16_STAGE_MSM_K, 2 * sets, PROVE_GROUP_SORT_H, ready);
        ready = THREAD_POOL_AFTER(PROVE_GROUP_SORT_H);
    }
    next = prove_push(next, p, prove_task_b2, G16_STAGE_MSM_B2, sets * s->cut_b2.parts, PROVE_GROUP_B, sorted);
    next = prove_push(next, p, prove_task_kz, G16_STAGE_MSM_K, sets * msm_cut_pieces(&s->cut_kz), PROVE_GROUP_KZ, ready);
    next = prove_push(next, p, prove_task_a, G16_STAGE_MSM_A, sets * s->cut_a.parts, PROVE_GROUP_A, sorted);
    return (uint32_t)(next - p->tasks);
}

#endif
