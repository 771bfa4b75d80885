/* groth16/prove_quotient_impl.h - the tasks of a proof that compute the quotient, from whole vectors or in parts; included by
 * groth16/prove_tasks_impl.h. */
#ifndef G16_GROTH16_PROVE_QUOTIENT_IMPL_H
#define G16_GROTH16_PROVE_QUOTIENT_IMPL_H

#include "groth16/prove_state_impl.h"

static inline fr *prove_vector(const prove_state *p, uint32_t index) { return index == 0 ? p->a : index == 1 ? p->b : p->c; }

/* Half of c, which a folded key does not use, as scratch memory for a or b. */
static inline fr *prove_spare(const prove_state *p, uint32_t index) {
    return index == 0 ? p->c : p->c + ((size_t)1 << p->key->pk.domain_log2) / 2;
}

/* ---- whole vectors: one task per vector, and one for the product ------------------- */

static void prove_task_transform(prove_state *p, uint32_t index, uint32_t worker) {
    const proving_key *pk = &p->key->pk;
    const size_t used = p->key->cs.constraints, n = (size_t)1 << pk->domain_log2;
    fr *values = prove_vector(p, index);
    (void)worker;
    memset(values + used, 0, (n - used) * sizeof *values);
    if (p->folded) {
        quotient_to_parts(values, prove_spare(p, index), pk->domain_log2, &p->shape, pk->twiddles);
    } else if (index == 2) {
        ntt_inverse(values, pk->domain_log2, pk->twiddles);
    } else {
        quotient_to_coset(values, pk->domain_log2, pk->twiddles);
    }
}

static void prove_task_combine(prove_state *p, uint32_t index, uint32_t worker) {
    (void)index;
    (void)worker;
    if (p->folded) {
        quotient_multiply_parts(p->a, p->b, p->key->pk.domain_log2, &p->shape);
    } else {
        quotient_combine(p->a, p->b, p->c, p->key->pk.domain_log2, p->key->pk.twiddles);
    }
}

/* ---- vectors in parts: see groth16/quotient_cut_impl.h ------------------------------------- */

static void prove_task_enter(prove_state *p, uint32_t index, uint32_t worker) {
    const uint32_t tasks = quotient_column_tasks(&p->cut);
    (void)worker;
    quotient_enter_columns(prove_vector(p, index / tasks), p->key->cs.constraints, &p->cut, index % tasks, p->key->pk.twiddles);
}

static void prove_task_row(prove_state *p, uint32_t index, uint32_t worker) {
    const uint32_t vector = index / p->cut.rows, row = index % p->cut.rows;
    const fr *table = p->key->pk.twiddles;
    fr *values = prove_vector(p, vector);
    (void)worker;
    if (p->folded) {
        quotient_parts_row(values, prove_spare(p, vector), &p->cut, row, &p->shape, table);
    } else if (vector == 2) {
        quotient_inverse_row(values, &p->cut, row, table);
    } else {
        quotient_coset_row(values, &p->cut, row, table);
    }
}

static void prove_task_product(prove_state *p, uint32_t index, uint32_t worker) {
    const fr *table = p->key->pk.twiddles;
    (void)worker;
    if (p->folded) {
        quotient_point_columns(p->c, p->a, p->b, &p->cut, index, &p->shape, table);
    } else {
        quotient_product_columns(p->a, p->b, &p->product_scale, &p->cut, index, table);
    }
}

static void prove_task_leave(prove_state *p, uint32_t index, uint32_t worker) {
    (void)worker;
    quotient_from_coset_row(p->a, p->c, &p->cut, index, p->key->pk.twiddles);
}

/* Appends tasks to the state's list. */
static thread_pool_task *prove_push(thread_pool_task *next, prove_state *p, prove_task_fn run, g16_stage stage, uint32_t count,
                                    uint32_t group, uint32_t after) {
    prove_step *step = &p->steps[next - p->tasks];
    *step = (prove_step){p, run, stage};
    *next = (thread_pool_task){prove_run_step, step, count, group, after, 0};
    return next + 1;
}

/* The result is complete after the groups PRODUCT and COMBINE. */
static thread_pool_task *prove_list_quotient(thread_pool_task *next, prove_state *p) {
    const uint32_t vectors = p->folded ? 2 : 3, transformed = THREAD_POOL_AFTER(PROVE_GROUP_TRANSFORMS);
    const quotient_cut *cut = &p->cut;
    if (cut->passes == 0) {
        next = prove_push(next, p, prove_task_transform, G16_STAGE_QUOTIENT, vectors, PROVE_GROUP_TRANSFORMS, 0);
        return prove_push(next, p, prove_task_combine, G16_STAGE_QUOTIENT, 1, PROVE_GROUP_COMBINE, transformed);
    }
    const uint32_t products = p->folded ? quotient_point_tasks(cut, &p->shape) : quotient_column_tasks(cut);
    next = prove_push(next, p, prove_task_enter, G16_STAGE_QUOTIENT, vectors * quotient_column_tasks(cut), PROVE_GROUP_COLUMNS, 0);
    next = prove_push(next, p, prove_task_row, G16_STAGE_QUOTIENT, vectors * cut->rows, PROVE_GROUP_TRANSFORMS,
                      THREAD_POOL_AFTER(PROVE_GROUP_COLUMNS));
    next = prove_push(next, p, prove_task_product, G16_STAGE_QUOTIENT, products, PROVE_GROUP_PRODUCT, transformed);
    if (p->folded) return next;
    return prove_push(next, p, prove_task_leave, G16_STAGE_QUOTIENT, cut->rows, PROVE_GROUP_COMBINE,
                      THREAD_POOL_AFTER(PROVE_GROUP_PRODUCT));
}

#endif
