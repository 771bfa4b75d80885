/* fold_check_impl.h - whether folded bases that a device helped to make are those of the key; included by backend.c.
 *
 * What the bases are for (docs/explanation/folded-keys.md) is tried once, by the sums of proofs: under the plain and the folded key
 *   sum w_i K_i + sum h_k Z_k  =  sum w_i K^_i + sum A(x) B(x) T_x
 * must hold for all wires w and all rows with a_j b_j = c_j = C_j(w), whatever solves them. Here the wires and one factor of each row
 * are random, of 253 bits; which factor is random too, since where c_j = 0 the other one is 0. The difference of the sides, times the
 * random factors, is a polynomial in these numbers of degree below m + 4 (m rows): where it is not zero, as for any wrong base, it comes
 * out as zero with a probability below 2^-220. (Several wrong bases whose errors cancel but in products of rows with c_j = 0 pass once
 * in two times at most.)
 */
#ifndef G16_FOLD_CHECK_IMPL_H
#define G16_FOLD_CHECK_IMPL_H

#include "device_handle.h"
#include "fold_impl.h"
#include "groth16_prove_impl.h"
#include "os_random.h"

typedef struct fold_check {
    const constraint_system *cs;
    fr *wires, *a, *b, *c;   /* of all wires; of all rows */
    const g1_affine *points; /* of which each must be on the curve */
    size_t count;            /* of what the present tasks go through */
    int failed;              /* there were no random numbers */
    int unfit;               /* some base, or their sum, is not what it must be */
} fold_check;

static uint32_t fold_check_length(const fold_check *check, uint32_t index) {
    const size_t left = check->count - (size_t)index * FOLD_CHUNK;
    return (uint32_t)(left < FOLD_CHUNK ? left : FOLD_CHUNK);
}

/* Numbers below 2^253 that are not 0, and with each a bit. */
static int fold_check_draw(fold_check *check, fr *values, uint8_t *bits, uint32_t count) {
    if (!os_random_fill((uint8_t *)values, count * sizeof *values)) {
        __atomic_store_n(&check->failed, 1, __ATOMIC_RELAXED);
        return 0;
    }
    for (uint32_t i = 0; i < count; i++) {
        bits[i] = (uint8_t)(values[i].v[3] >> 63);
        values[i].v[3] &= UINT64_MAX >> 3;
        if (fr_is_zero(&values[i])) values[i] = FR_ONE;
    }
    return 1;
}

static void fold_check_wires(void *argument, uint32_t index, uint32_t worker) {
    fold_check *check = argument;
    uint8_t bits[FOLD_CHUNK];
    (void)worker;
    fold_check_draw(check, check->wires + (size_t)index * FOLD_CHUNK, bits, fold_check_length(check, index));
}

/* C_j(w) */
static void fold_check_product(fr *r, const fold_check *check, size_t row) {
    const constraint_system *cs = check->cs;
    const uint32_t out = cs->rows[row].out;
    *r = FR_ZERO;
    for (uint32_t i = cs->expression_start[out]; i < cs->expression_start[out + 1]; i++) {
        fr t;
        fr_mul(&t, &cs->coefficients[cs->terms[i].coefficient], &check->wires[cs->terms[i].wire]);
        fr_add(r, r, &t);
    }
}

static void fold_check_rows(void *argument, uint32_t index, uint32_t worker) {
    fold_check *check = argument;
    const size_t first = (size_t)index * FOLD_CHUNK;
    const uint32_t count = fold_check_length(check, index);
    fr inverses[FOLD_CHUNK], scratch[FOLD_CHUNK];
    fr *const a = check->a + first, *const b = check->b + first, *const c = check->c + first;
    uint8_t bits[FOLD_CHUNK];
    (void)worker;
    if (!fold_check_draw(check, a, bits, count)) return;
    memcpy(inverses, a, count * sizeof *inverses);
    fold_invert(inverses, scratch, count);
    for (uint32_t i = 0; i < count; i++) {
        fold_check_product(&c[i], check, first + i);
        fr_mul(&b[i], &c[i], &inverses[i]);
        if (!bits[i]) continue;
        const fr t = a[i];
        a[i] = b[i];
        b[i] = t;
    }
}

static void fold_check_points(void *argument, uint32_t index, uint32_t worker) {
    fold_check *check = argument;
    const g1_affine *points = check->points + (size_t)index * FOLD_CHUNK;
    const uint32_t count = fold_check_length(check, index);
    (void)worker;
    for (uint32_t i = 0; i < count; i++) {
        g1_affine point;
        g1_msm_leave(&point, &points[i]);
        if (!g1_affine_on_curve(&point)) __atomic_store_n(&check->unfit, 1, __ATOMIC_RELAXED);
    }
}

static g16_status fold_check_run(fold_check *check, thread_pool *pool, size_t count, thread_pool_fn task, const g16_cancel *cancel) {
    check->count = count;
    return thread_pool_for(pool, (uint32_t)((count + FOLD_CHUNK - 1) / FOLD_CHUNK), task, check, cancel);
}

/* The terms of K and of the quotient under the state's key, from its wires, a, b and, of a plain key, c, which all change. */
static g16_status fold_check_sum(g1_xyzz *sum, prove_state *p, thread_pool *pool, uint32_t share) {
    const proving_key *pk = &p->key->pk;
    const prove_sums *s = &p->sums;
    const uint32_t k_tasks = p->w_plan.windows * s->cut_k.parts, z_tasks = p->h_plan.windows * msm_cut_pieces(&s->cut_z);
    const uint32_t h_ready = THREAD_POOL_AFTER(PROVE_GROUP_PRODUCT) | THREAD_POOL_AFTER(PROVE_GROUP_COMBINE);
    thread_pool_task *next = p->tasks;
    p->folded = key_is_folded(pk);
    p->shape = fold_shape_for(p->key->cs.constraints, pk->domain_log2);
    prove_plan_quotient(p, share);
    quotient_unit(p->h_unit, pk->domain_log2, p->folded);
    next = prove_push(next, p, prove_task_recode_w, p->w_chunks, PROVE_GROUP_RECODE_W, 0);
    next = prove_list_quotient(next, p);
    next = prove_push(next, p, prove_task_recode_h, p->h_chunks, PROVE_GROUP_RECODE_H, h_ready);
    next = prove_push_sort_w(next, p);
    next = prove_push(next, p, prove_task_k, k_tasks, PROVE_GROUP_MSM, THREAD_POOL_AFTER(PROVE_GROUP_SORT_W));
    next = prove_push(next, p, prove_task_z, z_tasks, PROVE_GROUP_MSM, THREAD_POOL_AFTER(PROVE_GROUP_RECODE_H));
    const g16_status status = thread_pool_run(pool, p->tasks, (uint32_t)(next - p->tasks), p->cancel);
    if (status != G16_OK) return status;
    g1_xyzz quotient;
    g1_msm_join_windows(sum, s->k, msm_cut_pieces(&s->cut_k), &p->w_plan);
    g1_msm_join_windows(&quotient, s->z, msm_cut_pieces(&s->cut_z), &p->h_plan);
    g1_xyzz_add(sum, sum, &quotient);
    return G16_OK;
}

/* Random wires and rows: c in its place, wires, a and b in `values`, for both sums. */
static g16_status fold_check_fill(fold_check *check, const prove_state *p, thread_pool *pool, fr *values, const g16_cancel *cancel) {
    check->wires = values;
    check->a = values + check->cs->wires;
    check->b = check->a + check->cs->constraints;
    check->c = p->c;
    g16_status status = fold_check_run(check, pool, check->cs->wires, fold_check_wires, cancel);
    if (status == G16_OK) status = fold_check_run(check, pool, check->cs->constraints, fold_check_rows, cancel);
    return status == G16_OK && check->failed ? G16_RANDOMNESS_UNAVAILABLE : status;
}

/* Both sums. scratch: room for a proof under either key; values: of the wires, and twice of the rows. */
static g16_status fold_check_compare(fold_check *check, const struct g16_key *plain, const struct g16_key *folded, thread_pool *pool,
                                     void *scratch, fr *values, const g16_cancel *cancel) {
    const uint32_t threads = thread_pool_threads(pool), share = thread_pool_share(pool);
    const struct g16_key *const keys[2] = {plain, folded};
    const size_t bytes = check->cs->constraints * sizeof *values;
    g1_xyzz sums[2];
    prove_state p;
    for (int side = 0; side < 2; side++) {
        memset(&p, 0, sizeof p);
        p.key = keys[side];
        p.form = G16_BLINDING_RERANDOMISED;
        p.cancel = cancel;
        prove_place(&p, arena_over(scratch), threads, share);
        g16_status status = side == 0 ? fold_check_fill(check, &p, pool, values, cancel) : G16_OK;
        if (status != G16_OK) return status;
        memcpy(p.wires, check->wires, check->cs->wires * sizeof *values);
        memcpy(p.a, check->a, bytes);
        memcpy(p.b, check->b, bytes);
        status = fold_check_sum(&sums[side], &p, pool, share);
        if (status != G16_OK) return status;
    }
    g1_xyzz_neg(&sums[1], &sums[1]);
    g1_xyzz_add(&sums[0], &sums[0], &sums[1]);
    check->unfit = !g1_xyzz_is_infinity(&sums[0]);
    return G16_OK;
}

/* Whether the folded bases of a key that has both kinds are those of its K and Z; `plain` is the key without them. */
static g16_status fold_check_key(int *holds, const struct g16_key *plain, const struct g16_key *folded, thread_pool *pool,
                                 const g16_cancel *cancel) {
    const proving_key *pk = &folded->pk;
    const uint32_t threads = thread_pool_threads(pool);
    fold_check check = {.cs = &folded->cs, .points = pk->fold_k};
    g16_status status = fold_check_run(&check, pool, pk->fold_k_count, fold_check_points, cancel);
    check.points = pk->fold_t;
    if (status == G16_OK) status = fold_check_run(&check, pool, pk->fold_t_count, fold_check_points, cancel);
    if (status == G16_OK && !check.unfit) {
        const size_t scratch_bytes = prove_max(groth16_prove_scratch_bytes(plain, threads), groth16_prove_scratch_bytes(folded, threads));
        void *scratch = malloc(scratch_bytes);
        fr *values = malloc(((size_t)check.cs->wires + 2 * (size_t)check.cs->constraints) * sizeof *values);
        status = scratch && values ? fold_check_compare(&check, plain, folded, pool, scratch, values, cancel) : G16_OUT_OF_MEMORY;
        free(scratch);
        free(values);
    }
    *holds = status == G16_OK && !check.unfit;
    return status;
}

/* See backend.h. What a device multiplied is checked. Where a base is infinity that may be the device's doing, too: the processor finds
 * out, to which the message sends. */
static g16_status groth16_fold_checked(const struct g16_key *key, thread_pool *pool, const struct g16_device *device,
                                       struct fold_checkpoint *checkpoint, void *k, void *t, const uint32_t *wires, uint32_t count,
                                       table_progress *progress, const g16_cancel *cancel, g16_error *error) {
    int holds = 1;
    g16_status status = groth16_fold(key, pool, device, checkpoint, k, t, wires, count, progress, cancel, error);
    if (device && status == G16_UNSUPPORTED_KEY) return g16_device_wrong(device, "points that make no folded base", error);
    if (status != G16_OK || !device) return status;
    struct g16_key plain = *key, made;
    memset(&plain.pk.tables, 0, sizeof plain.pk.tables);
    plain.pk.fold_k_count = plain.pk.fold_t_count = 0;
    memset(&plain.groups, 0, sizeof plain.groups);
    made = plain;
    made.pk.fold_k = k;
    made.pk.fold_t = t;
    made.pk.fold_wires = wires;
    made.pk.fold_k_count = count;
    made.pk.fold_t_count = fold_shape_for(key->cs.constraints, key->pk.domain_log2).points;
    status = g16_key_group_wires(&plain, error);
    if (status == G16_OK) status = g16_key_group_wires(&made, error);
    if (status == G16_OK) status = fold_check_key(&holds, &plain, &made, pool, cancel);
    wire_groups_free(&plain.groups);
    wire_groups_free(&made.groups);
    if (status != G16_OK || holds) return status;
    return g16_device_wrong(device, "folded bases that are not those of the key", error);
}

#endif
