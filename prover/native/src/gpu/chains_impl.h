/* gpu/chains_impl.h - the sums of a proof whose witness is solved on the GPU, except for the CPU's parts (gpu/chains.h); included
 * by gpu/prove_impl.h. */
#ifndef G16_GPU_CHAINS_IMPL_H
#define G16_GPU_CHAINS_IMPL_H

#include "groth16/prove_impl.h"
#include "gpu/abi.h"
#include "gpu/chains.h"
#include "gpu/solver_part_impl.h"
#include "gpu/calls.h"

typedef struct device_arrays {
    fr *wires, *a, *b;
} device_arrays;

/* The second part, which the CPU solves while the GPU works. */
typedef struct device_rest {
    const constraint_system *cs;
    const cs_chains *chains;
    thread_pool *pool;
    const device_arrays *arrays;
    fr *values;
    const g16_cancel *cancel;
    int failed;
} device_rest;

static int groth16_device_rest(void *context) {
    device_rest *rest = context;
    const device_arrays *arrays = rest->arrays;
    const int solved = witness_solver_solve_part(rest->chains, 1, rest->cs, rest->pool, arrays->wires, arrays->a, arrays->b,
                                                 rest->values, rest->cancel);
    rest->failed = !solved;
    return solved;
}

/* Solves a witness that the GPU found unsatisfied on the CPU, which determines the failing constraint. */
static g16_status groth16_device_unsatisfied(const constraint_system *cs, thread_pool *pool, const device_arrays *arrays,
                                             const uint8_t *inputs, size_t count, const g16_cancel *cancel, g16_error *error) {
    const g16_status status =
        witness_solver_solve(cs, pool, arrays->wires, arrays->a, arrays->b, NULL, inputs, count, cancel, error);
    if (status != G16_OK) return status;
    return g16_fail(error, G16_DEVICE_LOST, 0, "the GPU found an unsatisfied constraint, but the CPU found none");
}

static g16_status groth16_device_sum_inputs(const constraint_system *cs, thread_pool *pool, const device_calls *calls,
                                            const device_arrays *arrays, device_abi_sums *sums, device_abi_times *times,
                                            const uint8_t *inputs, size_t count, uint64_t *solving_ns,
                                            const g16_cancel *cancel, g16_error *error) {
    const cs_chains *chains = calls->chains;
    const uint64_t start = prove_now_ns();
    fr *first = calls->values + chains->device.inputs, *second = first + device_abi_part_values(&chains->device.parts[0]);
    g16_status status = witness_solver_read_inputs(cs, arrays->wires, inputs, count, error);
    if (status != G16_OK) return status;
    memcpy(calls->values, arrays->wires, chains->device.inputs * sizeof *calls->values);
    int solved = witness_solver_solve_part(chains, 0, cs, pool, arrays->wires, arrays->a, arrays->b, first, cancel);
    *solving_ns = prove_now_ns() - start;
    if (solved) {
        device_rest rest = {cs, chains, pool, arrays, second, cancel, 0};
        const device_abi_inputs given = {calls->values, {first, second}, groth16_device_rest, &rest};
        status = calls->sum_inputs(calls->handle, sums, times, &given, cancel, error);
        solved = !rest.failed && status != G16_UNSATISFIED_CONSTRAINT;
    }
    if (g16_is_cancelled(cancel)) return g16_fail(error, G16_CANCELLED, 0, "cancelled while solving the witness");
    return solved ? status : groth16_device_unsatisfied(cs, pool, arrays, inputs, count, cancel, error);
}

#endif
