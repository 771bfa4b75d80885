/* groth16_prove_tasks_impl.h - the tasks of a proof after its witness: digits, quotient, sums; included by
 * groth16_prove_impl.h, which says what they are parts of. */
#ifndef G16_GROTH16_PROVE_TASKS_IMPL_H
#define G16_GROTH16_PROVE_TASKS_IMPL_H

#include "groth16_prove_state_impl.h"

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
    g1_msm_window(&out[window], &scratch, msm_window_buckets(plan, window), bases, scalars, count,
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
    g2_msm_window(&p->sums->b2[window], &scratch, msm_window_buckets(&p->w_plan, window), pk->b2, pk->b_wires,
                  pk->b_count, msm_digits(p->w_digits, wires, window, 0), msm_digits(p->w_digits, wires, window, 1));
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

#endif
