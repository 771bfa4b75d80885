/* gpu/batch_impl.h - several proofs whose sums a GPU computes together; each witness is solved, and each proof assembled, by one
 * thread; included by backend.c. */
#ifndef G16_GPU_BATCH_IMPL_H
#define G16_GPU_BATCH_IMPL_H

#include "groth16/blinding.h"
#include "gpu/batch.h"
#include "gpu/prove_impl.h"

typedef struct device_batch_run {
    const struct g16_key *key;
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

static size_t groth16_device_batch_scratch_bytes(const struct g16_key *key, size_t size) {
    device_batch_run run;
    return device_batch_lay_out(&run, arena_measure(), key, size) + ARENA_ALIGNMENT;
}

static g16_status device_batch_read_blinding(const device_batch *batch, size_t i, fr blinding[2]) {
    return prove_read_blinding(blinding, batch->blinding + BLINDING_BYTES * i, device_batch_error(batch, i));
}

/* Solves one witness on this thread. */
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
        status = witness_solver_solve(&run->key->cs, NULL, arrays->wires, arrays->a, arrays->b, NULL, batch->inputs[i],
                                      batch->count, run->cancel, device_batch_error(batch, i));
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
static g16_status device_batch_solve_all(device_batch_run *run, thread_pool *pool, g16_error *error) {
    const device_batch *batch = run->batch;
    const g16_status status = thread_pool_for(pool, (uint32_t)batch->size, device_batch_solve, run, run->cancel);
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
static g16_status device_batch_finish_all(device_batch_run *run, thread_pool *pool, g16_error *error) {
    const device_batch *batch = run->batch;
    g16_status status = thread_pool_for(pool, run->solved, device_batch_finish, run, NULL);
    for (uint32_t place = 0; place < run->solved && status == G16_OK; place++) {
        const uint32_t i = run->numbers[place];
        if (device_batch_is_own(batch->statuses[i])) continue;
        status = batch->statuses[i];
        if (status != G16_OK && batch->errors) *error = batch->errors[i];
    }
    return status;
}

static g16_status device_batch_sum(device_batch_run *run, const device_calls *calls, g16_error *error) {
    device_abi_times times;
    memset(&times, 0, sizeof times);
    memset(run->sums, 0, run->solved * sizeof *run->sums);
    const g16_status status = calls->sum(calls->handle, run->sums, &times, run->witnesses, run->solved, run->cancel, error);
    groth16_device_times(run->timer.stage_ns, &times);
    return status;
}

/* Returns G16_OK unless a failure affects all proofs, which then have that status. */
static g16_status groth16_device_prove_batch(const struct g16_key *key, thread_pool *pool, const device_calls *calls,
                                             const device_batch *batch, uint64_t *stage_ns, void *scratch, size_t scratch_size,
                                             const g16_cancel *cancel) {
    device_batch_run run = {.key = key, .batch = batch, .cancel = cancel, .timer = {.stage_ns = stage_ns}};
    g16_error error;
    memset(&error, 0, sizeof error);
    for (size_t i = 0; i < batch->size; i++) batch->statuses[i] = G16_OK;
    if (stage_ns) memset(stage_ns, 0, G16_STAGE_COUNT * sizeof *stage_ns);
    g16_status status = prove_check_scratch(scratch_size, groth16_device_batch_scratch_bytes(key, batch->size), &error);
    if (status == G16_OK) {
        device_batch_lay_out(&run, arena_over(scratch), key, batch->size);
        status = device_batch_solve_all(&run, pool, &error);
    }
    if (status == G16_OK && run.solved) {
        status = device_batch_sum(&run, calls, &error);
        if (status == G16_OK) status = device_batch_finish_all(&run, pool, &error);
        /* Sums without blinding would allow to test guesses of the witness against the proof. */
        os_random_wipe(run.sums, run.solved * sizeof *run.sums);
    }
    if (status != G16_OK) device_batch_fail(batch, status, &error);
    return status;
}

#endif
