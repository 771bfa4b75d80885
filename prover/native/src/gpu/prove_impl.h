/* gpu/prove_impl.h - one or several proofs whose sums a GPU computes together; witness, blinding and assembly as in
 * groth16/prove_impl.h; included by backend.c.
 *
 * Each witness is solved by one thread, that of a proof alone by all of them or, in part, by the GPU. Each proof is assembled by one
 * thread.
 */
#ifndef G16_GPU_PROVE_IMPL_H
#define G16_GPU_PROVE_IMPL_H

#include "groth16/blinding.h"
#include "groth16/prove_impl.h"
#include "gpu/abi.h"
#include "gpu/batch.h"
#include "gpu/chains_impl.h"

_Static_assert(sizeof(((device_abi_sums *)0)->a) == sizeof(g1_xyzz), "sums in G1 are g1_xyzz");
_Static_assert(sizeof(((device_abi_sums *)0)->b2) == sizeof(g2_xyzz), "sums in G2 are g2_xyzz");
_Static_assert(sizeof(((device_abi_key *)0)->quotient_unit) == 4 * sizeof(uint64_t), "a number below r");
_Static_assert((int)DEVICE_ABI_R256 == G16_POINTS_R256 && (int)DEVICE_ABI_R260_LOOSE == G16_POINTS_R260_LOOSE, "point forms");

_Static_assert(DEVICE_ABI_COSETS == FOLD_MAX_PARTS, "a coset for each part of a shape");

/* Replaces K and Z by the lists of a folded key. */
static void groth16_device_fold(const struct g16_key *key, device_abi_key *data) {
    const proving_key *pk = &key->pk;
    const fold_shape shape = fold_shape_for(key->cs.constraints, pk->domain_log2);
    data->k_count = pk->fold_k_count;
    data->z_count = pk->fold_t_count;
    data->k_wires = pk->fold_wires;
    data->k = pk->fold_k;
    data->z = pk->fold_t;
    data->cosets_count = shape.parts_count;
    for (uint32_t i = 0; i < shape.parts_count; i++) {
        data->cosets[i] = (device_abi_coset){shape.parts[i].log2, shape.parts[i].residue, shape.parts[i].first};
    }
}

static void groth16_device_key(const struct g16_key *key, device_abi_key *data) {
    const proving_key *pk = &key->pk;
    uint64_t unit[4];
    fr scale;
    quotient_unit(unit, pk->domain_log2, key_is_folded(pk));
    quotient_product_scale(&scale, pk->domain_log2);
    *data = (device_abi_key){
        .wires = key->cs.wires,
        .public_wires = key->cs.public_wires,
        .rows = key->cs.constraints,
        .domain_log2 = pk->domain_log2,
        .a_count = pk->a_count,
        .b_count = pk->b_count,
        .k_count = pk->k_count,
        .z_count = pk->z_count,
        .point_format = (uint32_t)key->backend->point_format,
        .a_wires = pk->a_wires,
        .b_wires = pk->b_wires,
        .a = pk->a,
        .k = pk->k,
        .z = pk->z,
        .b2 = pk->b2,
        .roots = pk->twiddles,
    };
    if (key_is_folded(pk)) groth16_device_fold(key, data);
    memcpy(data->product_scale, &scale, sizeof scale);
    memcpy(data->quotient_unit, unit, sizeof unit);
}

static size_t groth16_device_lay_out(device_arrays *arrays, arena at, const struct g16_key *key) {
    arrays->wires = arena_take(&at, key->cs.wires * sizeof(fr));
    arrays->a = arena_take(&at, key->cs.constraints * sizeof(fr));
    arrays->b = arena_take(&at, key->cs.constraints * sizeof(fr));
    return at.used;
}

/* Returns 1 when all coordinates are below p. The following code relies on that, and the GPU is not trusted. */
static int groth16_device_sums_are_reduced(const uint64_t *words, size_t count) {
    for (size_t i = 0; i < count; i += 4) {
        if (mont256_compare_var(words + i, FP_MODULUS.p) >= 0) return 0;
    }
    return 1;
}

static g16_status groth16_device_base(prove_base *base, const device_abi_sums *sums, g16_error *error) {
    if (!groth16_device_sums_are_reduced(sums->a, sizeof *sums / sizeof(uint64_t))) {
        return g16_fail(error, G16_DEVICE_LOST, 0, "the GPU returned a coordinate that is not below the modulus");
    }
    memcpy(&base->ar, sums->a, sizeof base->ar);
    memcpy(&base->krs, sums->kz, sizeof base->krs);
    memcpy(&base->bs, sums->b2, sizeof base->bs);
    return G16_OK;
}

static void groth16_device_times(uint64_t *stage_ns, const device_abi_times *times) {
    if (!stage_ns) return;
    stage_ns[G16_STAGE_QUOTIENT] = times->quotient;
    stage_ns[G16_STAGE_MSM_A] = times->a;
    stage_ns[G16_STAGE_MSM_B2] = times->b2;
    stage_ns[G16_STAGE_MSM_K] = times->kz;
}

typedef struct device_batch_run {
    const struct g16_key *key;
    thread_pool *pool;
    const device_batch *batch;
    const g16_cancel *cancel;
    prove_state timer;
    device_arrays *arrays; /* one per proof */
    /* The proofs whose witness was solved, without gaps: */
    uint32_t solved;
    uint32_t *numbers; /* index in the batch */
    device_abi_witness *witnesses;
    device_abi_sums *sums;
} device_batch_run;

static size_t device_batch_lay_out(device_batch_run *run, arena at, const struct g16_key *key, size_t size) {
    run->arrays = arena_take(&at, size * sizeof *run->arrays);
    run->numbers = arena_take(&at, size * sizeof *run->numbers);
    run->witnesses = arena_take(&at, size * sizeof *run->witnesses);
    run->sums = arena_take(&at, size * sizeof *run->sums);
    for (size_t i = 0; i < size; i++) {
        device_arrays arrays;
        at.used = groth16_device_lay_out(&arrays, at, key);
        if (at.base) run->arrays[i] = arrays;
    }
    return at.used;
}

static size_t groth16_device_scratch_bytes(const struct g16_key *key, size_t size) {
    device_batch_run run;
    return device_batch_lay_out(&run, arena_measure(), key, size) + ARENA_ALIGNMENT;
}

static g16_status device_batch_read_blinding(const device_batch *batch, size_t i, fr blinding[2]) {
    return prove_read_blinding(blinding, batch->blinding + BLINDING_BYTES * i, device_batch_error(batch, i));
}

/* Solves one witness on this thread, or that of a proof alone on all threads. */
static void device_batch_solve(void *argument, uint32_t i, uint32_t worker) {
    device_batch_run *run = argument;
    const device_batch *batch = run->batch;
    const device_arrays *arrays = &run->arrays[i];
    const uint64_t start = prove_now_ns();
    fr blinding[2];
    (void)worker;
    g16_status status = device_batch_read_blinding(batch, i, blinding);
    os_random_wipe(blinding, sizeof blinding);
    if (status == G16_OK) {
        thread_pool *const pool = batch->size == 1 ? run->pool : NULL;
        status = witness_solver_solve(&run->key->cs, pool, arrays->wires, arrays->a, arrays->b, NULL, batch->inputs[i], batch->count,
                                      run->cancel, device_batch_error(batch, i));
    }
    batch->statuses[i] = status;
    prove_add_time(&run->timer, G16_STAGE_WITNESS, start);
}

/* Assembles one proof from its sums. */
static void device_batch_finish(void *argument, uint32_t place, uint32_t worker) {
    device_batch_run *run = argument;
    const device_batch *batch = run->batch;
    const uint32_t i = run->numbers[place];
    const uint64_t start = prove_now_ns();
    g16_error *error = device_batch_error(batch, i);
    prove_base base;
    fr blinding[2];
    (void)worker;
    g16_status status = device_batch_read_blinding(batch, i, blinding);
    if (status == G16_OK) status = groth16_device_base(&base, &run->sums[place], error);
    if (status == G16_OK) {
        status = prove_finish(run->key, &base, batch->proofs + (size_t)i * G16_PROOF_BYTES, blinding, error);
    }
    os_random_wipe(blinding, sizeof blinding);
    batch->statuses[i] = status;
    prove_add_time(&run->timer, G16_STAGE_ASSEMBLE, start);
}

/* Solves all witnesses and lists those that succeeded. */
static g16_status device_batch_solve_all(device_batch_run *run, g16_error *error) {
    const device_batch *batch = run->batch;
    g16_status status = G16_OK;
    if (batch->size == 1) {
        device_batch_solve(run, 0, 0);
    } else {
        status = thread_pool_for(run->pool, (uint32_t)batch->size, device_batch_solve, run, run->cancel);
    }
    if (status != G16_OK || g16_is_cancelled(run->cancel)) {
        return g16_fail(error, G16_CANCELLED, 0, "cancelled while solving the witnesses");
    }
    for (uint32_t i = 0; i < batch->size; i++) {
        if (batch->statuses[i] != G16_OK) continue;
        const device_arrays *arrays = &run->arrays[i];
        run->numbers[run->solved] = i;
        run->witnesses[run->solved++] = (device_abi_witness){arrays->wires, arrays->a, arrays->b};
    }
    return G16_OK;
}

/* Assembles all proofs. If a sum is invalid, the device is faulty and no other result is used. */
static g16_status device_batch_finish_all(device_batch_run *run, g16_error *error) {
    const device_batch *batch = run->batch;
    g16_status status = thread_pool_for(run->pool, run->solved, device_batch_finish, run, NULL);
    for (uint32_t place = 0; place < run->solved && status == G16_OK; place++) {
        const uint32_t i = run->numbers[place];
        if (device_batch_is_own(batch->statuses[i])) continue;
        status = batch->statuses[i];
        if (status != G16_OK && batch->errors) *error = batch->errors[i];
    }
    return status;
}

/* Lets the GPU solve the witness of a proof alone, which it also sums. */
static g16_status device_batch_sum_inputs(device_batch_run *run, const device_calls *calls, device_abi_times *times, g16_error *error) {
    const device_batch *batch = run->batch;
    uint64_t solving_ns = 0;
    const g16_status status =
        groth16_device_sum_inputs(&run->key->cs, run->pool, calls, run->arrays, run->sums, times, batch->inputs[0], batch->count,
                                  &solving_ns, run->cancel, error);
    if (run->timer.stage_ns) run->timer.stage_ns[G16_STAGE_WITNESS] = solving_ns + times->witness;
    run->solved = status == G16_OK;
    if (!device_batch_is_own(status)) return status;
    batch->statuses[0] = status;
    if (batch->errors) batch->errors[0] = *error;
    return G16_OK;
}

static g16_status device_batch_sum(device_batch_run *run, const device_calls *calls, g16_error *error) {
    device_abi_times times;
    memset(&times, 0, sizeof times);
    memset(run->sums, 0, run->batch->size * sizeof *run->sums);
    const g16_status status =
        calls->chains ? device_batch_sum_inputs(run, calls, &times, error)
                      : calls->sum(calls->handle, run->sums, &times, run->witnesses, run->solved, run->cancel, error);
    groth16_device_times(run->timer.stage_ns, &times);
    return status;
}

/* Returns G16_OK unless a failure affects all proofs, which then have that status. */
static g16_status groth16_device_prove(const struct g16_key *key, thread_pool *pool, const device_calls *calls,
                                       const device_batch *batch, uint64_t *stage_ns, void *scratch, size_t scratch_size,
                                       const g16_cancel *cancel) {
    device_batch_run run = {.key = key, .pool = pool, .batch = batch, .cancel = cancel, .timer = {.stage_ns = stage_ns}};
    g16_error error;
    memset(&error, 0, sizeof error);
    for (size_t i = 0; i < batch->size; i++) batch->statuses[i] = G16_OK;
    if (stage_ns) memset(stage_ns, 0, G16_STAGE_COUNT * sizeof *stage_ns);
    g16_status status = prove_check_scratch(scratch_size, groth16_device_scratch_bytes(key, batch->size), &error);
    if (status == G16_OK) {
        device_batch_lay_out(&run, arena_over(scratch), key, batch->size);
        run.numbers[0] = 0;
        if (!calls->chains) status = device_batch_solve_all(&run, &error);
    }
    if (status == G16_OK && (run.solved || calls->chains)) {
        status = device_batch_sum(&run, calls, &error);
        if (status == G16_OK) status = device_batch_finish_all(&run, &error);
        /* Sums without blinding would allow to test guesses of the witness against the proof. */
        os_random_wipe(run.sums, batch->size * sizeof *run.sums);
    }
    if (status != G16_OK) device_batch_fail(batch, status, &error);
    return status;
}

#endif
