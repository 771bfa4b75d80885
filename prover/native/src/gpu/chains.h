/* gpu/chains.h - divides a constraint system between the CPU and a GPU with thousands of slow threads (gpu/abi.h).
 *
 * The CPU keeps what cannot run in parallel: hints, rows whose unknown wire is in a factor, and final rows whose depth few others
 * share (a serial hash chain), each with all rows that they read. The first part of these is what the GPU reads. All other rows
 * form chains that share no wire except inputs and those of the first part; in the batch circuits there is one chain per Merkle
 * path. The GPU evaluates the rows that only check at the end.
 */
#ifndef G16_GPU_CHAINS_H
#define G16_GPU_CHAINS_H

#include "r1cs/constraint_system.h"
#include "gpu/abi.h"

#define CS_CHAINS_REASON 160

typedef struct cs_chains {
    uint32_t *program;     /* instructions of both parts, task by task */
    uint32_t *task_start;  /* [tasks of both parts + 1] into program */
    uint32_t first_task[3]; /* by part; one extra entry marks the end. Tasks of a part may run in parallel */
    uint32_t *targets;     /* of device.parts */
    device_abi_chains device; /* owns its arrays; cs_chains_free_device_data() frees all but the targets */
    uint32_t chains;
    uint32_t device_rows;      /* rows solved in chains */
    uint64_t products;         /* of all chains */
    uint64_t longest_products; /* of the longest chain */
} cs_chains;

/* Divides a system that has short forms. *chains is NULL when the CPU would be as fast or the GPU cannot solve it; `reason` then
 * says why. domain_log2: of the key; the parts must fit its memory on the GPU. forced: ignores the time that chains take, for tests. */
g16_status cs_chains_build(cs_chains **chains, const constraint_system *cs, uint32_t domain_log2, int forced,
                          char reason[CS_CHAINS_REASON], const g16_cancel *cancel, g16_error *error);
/* Frees the data that have been copied to the GPU. */
void cs_chains_free_device_data(cs_chains *chains);
void cs_chains_free(cs_chains *chains);

/* Returns the number of values copied to the GPU per proof: inputs and parts. */
uint64_t cs_chains_values(const cs_chains *chains);

#endif
