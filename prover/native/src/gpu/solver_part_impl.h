/* gpu/solver_part_impl.h - the parts of a witness that the CPU solves when the GPU solves the chains (gpu/chains.h); included by
 * backend.c. */
#ifndef G16_GPU_SOLVER_PART_IMPL_H
#define G16_GPU_SOLVER_PART_IMPL_H

#include "r1cs/solver_impl.h"
#include "gpu/chains.h"

/* Solves part 0 or 1 into wires, a and b, and copies the results to values, in the order of device_abi_part_values(). Returns 0
 * when the flag was set or a constraint fails. */
static int witness_solver_solve_part(const cs_chains *chains, uint32_t part, const constraint_system *cs, thread_pool *pool,
                                     fr *wires, fr *a, fr *b, fr *values, const g16_cancel *cancel) {
    const uint32_t first = chains->first_task[part], tasks = chains->first_task[part + 1] - first;
    const device_abi_part *solved = &chains->device.parts[part];
    witness_solver_job job = {cs, wires, a, b, NULL, cancel, chains->program, chains->task_start, first,
                              WITNESS_SOLVER_NO_FAILURE};
    if (thread_pool_for(pool, tasks, witness_solver_component_task, &job, cancel) != G16_OK || g16_is_cancelled(cancel)) return 0;
    const uint32_t *rows = solved->targets + solved->wires;
    for (uint32_t i = 0; i < solved->wires; i++) *values++ = wires[solved->targets[i]];
    for (uint32_t i = 0; i < solved->rows; i++) *values++ = a[rows[i]];
    for (uint32_t i = 0; i < solved->rows; i++) *values++ = b[rows[i]];
    return job.first_failure == WITNESS_SOLVER_NO_FAILURE;
}

#endif
