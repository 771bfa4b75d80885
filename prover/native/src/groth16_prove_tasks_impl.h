/* groth16_prove_tasks_impl.h - the tasks of a proof after its witness: digits, sums, and the list of all; included by
 * groth16_prove_impl.h, which says what they are parts of. */
#ifndef G16_GROTH16_PROVE_TASKS_IMPL_H
#define G16_GROTH16_PROVE_TASKS_IMPL_H

#include "groth16_prove_quotient_impl.h"

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

static void prove_task_recode_h(void *argument, uint32_t index, uint32_t worker) {
    prove_state *p = argument;
    const uint64_t start = prove_now_ns();
    const size_t count = prove_h_count(p->key), first = (size_t)index * p->h_chunk;
    const size_t last = first + p->h_chunk < count ? first + p->h_chunk : count;
    (void)worker;
    if (prove_has_tables(p->key)) {
        msm_table_recode(p->h_table_digits, &p->key->pk.tables, p->h, p->h_unit, count, first, last);
    } else {
        msm_recode(p->h_digits, &p->h_plan, p->h, p->h_unit, count, first, last);
    }
    prove_add_time(p, G16_STAGE_QUOTIENT, start);
}

/* One list of bases, and the digits of their scalars: of scalar i in window 0, half 0, at digits[i]. */
typedef struct prove_list {
    const msm_plan *plan;
    const msm_cut *cut;
    const uint32_t *scalars;
    uint32_t count;
    const int16_t *digits;
    size_t stride;
} prove_list;

static prove_list prove_list_of_w(const prove_state *p, const msm_cut *cut, const uint32_t *wires, uint32_t count) {
    return (prove_list){&p->w_plan, cut, wires, count, p->w_digits, p->key->cs.wires};
}

/* Task `index` sums one piece of one window. */
static void prove_piece_g1(prove_state *p, g1_xyzz *out, const g1_affine *bases, const prove_list *list, uint32_t index,
                           uint32_t worker) {
    const uint32_t pieces = msm_cut_pieces(list->cut), window = index / pieces;
    g1_msm_scratch scratch;
    g1_msm_scratch_place(&scratch, arena_over(p->worker_memory + (size_t)worker * p->worker_bytes), list->plan, list->count);
    g1_msm_piece(&out[index], &scratch, msm_window_buckets(list->plan, window), list->cut, index % pieces, bases, list->scalars,
                 list->count, msm_digits(list->digits, list->stride, window, 0),
                 msm_digits(list->digits, list->stride, window, 1));
}

static void prove_task_a(void *argument, uint32_t index, uint32_t worker) {
    prove_state *p = argument;
    const uint64_t start = prove_now_ns();
    const proving_key *pk = &p->key->pk;
    const prove_list list = prove_list_of_w(p, &p->sums.cut_a, pk->a_wires, pk->a_count);
    prove_piece_g1(p, p->sums.a, pk->a, &list, index, worker);
    prove_add_time(p, G16_STAGE_MSM_A, start);
}

static void prove_task_b1(void *argument, uint32_t index, uint32_t worker) {
    prove_state *p = argument;
    const uint64_t start = prove_now_ns();
    const proving_key *pk = &p->key->pk;
    const prove_list list = prove_list_of_w(p, &p->sums.cut_b1, pk->b_wires, pk->b_count);
    prove_piece_g1(p, p->sums.b1, pk->b1, &list, index, worker);
    prove_add_time(p, G16_STAGE_MSM_B1, start);
}

static void prove_task_k(void *argument, uint32_t index, uint32_t worker) {
    prove_state *p = argument;
    const uint64_t start = prove_now_ns();
    const proving_key *pk = &p->key->pk;
    if (p->folded) {
        const prove_list list = prove_list_of_w(p, &p->sums.cut_k, pk->fold_wires, pk->fold_k_count);
        prove_piece_g1(p, p->sums.k, pk->fold_k, &list, index, worker);
    } else {
        prove_list list = prove_list_of_w(p, &p->sums.cut_k, NULL, pk->k_count);
        list.digits += p->key->cs.public_wires;
        prove_piece_g1(p, p->sums.k, pk->k, &list, index, worker);
    }
    prove_add_time(p, G16_STAGE_MSM_K, start);
}

static void prove_task_z(void *argument, uint32_t index, uint32_t worker) {
    prove_state *p = argument;
    const uint64_t start = prove_now_ns();
    const uint32_t count = (uint32_t)prove_h_count(p->key);
    const prove_list list = {&p->h_plan, &p->sums.cut_z, NULL, count, p->h_digits, count};
    prove_piece_g1(p, p->sums.z, p->folded ? p->key->pk.fold_t : p->key->pk.z, &list, index, worker);
    prove_add_time(p, G16_STAGE_MSM_Z, start);
}

static void prove_task_b2(void *argument, uint32_t index, uint32_t worker) {
    prove_state *p = argument;
    const uint64_t start = prove_now_ns();
    const proving_key *pk = &p->key->pk;
    const prove_list list = prove_list_of_w(p, &p->sums.cut_b2, pk->b_wires, pk->b_count);
    const uint32_t pieces = msm_cut_pieces(list.cut), window = index / pieces;
    g2_msm_scratch scratch;
    g2_msm_scratch_place(&scratch, arena_over(p->worker_memory + (size_t)worker * p->worker_bytes), list.plan, list.count);
    g2_msm_piece(&p->sums.b2[index], &scratch, msm_window_buckets(list.plan, window), list.cut, index % pieces, pk->b2,
                 list.scalars, list.count, msm_digits(list.digits, list.stride, window, 0),
                 msm_digits(list.digits, list.stride, window, 1));
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
    prove_part_g1(p, p->sums.table_a, p->key->pk.table_a, &p->sorted_a, index, worker);
    prove_add_time(p, G16_STAGE_MSM_A, start);
}

static void prove_task_part_kz(void *argument, uint32_t index, uint32_t worker) {
    prove_state *p = argument;
    const uint64_t start = prove_now_ns();
    prove_part_g1(p, p->sums.table_kz, p->key->pk.table_kz, &p->sorted_kz, index, worker);
    prove_add_time(p, G16_STAGE_MSM_K, start);
}

static void prove_task_part_b2(void *argument, uint32_t index, uint32_t worker) {
    prove_state *p = argument;
    const uint64_t start = prove_now_ns();
    const prove_sorted *sorted = &p->sorted_b2;
    const size_t set = index / p->parts;
    g2_msm_scratch scratch;
    g2_msm_scratch_place(&scratch, arena_over(p->worker_memory + (size_t)worker * p->worker_bytes), &p->parts_plan, 0);
    g2_msm_table_part(&p->sums.table_b2[index], &scratch, &p->parts_plan, p->key->pk.table_b2,
                      sorted->entries + set * sorted->entries_stride, sorted->ends + set * sorted->ends_stride,
                      index % p->parts);
    prove_add_time(p, G16_STAGE_MSM_B2, start);
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
    const prove_sums *s = &p->sums;
    thread_pool_task *next = p->tasks;
    next = prove_push(next, p, prove_task_recode_w, p->w_chunks, PROVE_GROUP_RECODE_W, 0);
    next = prove_list_quotient(next, p);
    next = prove_push(next, p, prove_task_recode_h, p->h_chunks, PROVE_GROUP_RECODE_H,
                      THREAD_POOL_AFTER(PROVE_GROUP_PRODUCT) | THREAD_POOL_AFTER(PROVE_GROUP_COMBINE));
    if (prove_has_tables(p->key)) {
        next = prove_list_table_tasks(next, p);
    } else {
        next = prove_push(next, p, prove_task_b2, windows * msm_cut_pieces(&s->cut_b2), PROVE_GROUP_MSM, w_ready);
        next = prove_push(next, p, prove_task_k, windows * msm_cut_pieces(&s->cut_k), PROVE_GROUP_MSM, w_ready);
        next = prove_push(next, p, prove_task_a, windows * msm_cut_pieces(&s->cut_a), PROVE_GROUP_MSM, w_ready);
    }
    if (p->form == G16_BLINDING_CLASSICAL) {
        next = prove_push(next, p, prove_task_b1, windows * msm_cut_pieces(&s->cut_b1), PROVE_GROUP_MSM, w_ready);
    }
    if (!prove_has_tables(p->key)) {
        next = prove_push(next, p, prove_task_z, p->h_plan.windows * msm_cut_pieces(&s->cut_z), PROVE_GROUP_MSM,
                          THREAD_POOL_AFTER(PROVE_GROUP_RECODE_H));
    }
    return (uint32_t)(next - p->tasks);
}

#endif
