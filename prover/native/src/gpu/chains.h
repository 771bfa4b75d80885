/* gpu/chains.h - a constraint system cut for a device with thousands of slow threads (gpu/abi.h).
 *
 * The processor keeps what has no width: hints, rows whose wire is in a factor, and the ends that few others are as deep as (a serial
 * hash chain), each with all that it reads. Of that, the first part is what the device reads. Everything else falls into chains that
 * share no wire but inputs and those of the first part: in the batch circuits one per Merkle path. Rows that only check are
 * checked on the device when all is known.
 */
#ifndef G16_GPU_CHAINS_H
#define G16_GPU_CHAINS_H

#include "r1cs/constraint_system.h"
#include "gpu/abi.h"

#define CS_CHAINS_REASON 160

typedef struct cs_chains {
    uint32_t *program;     /* instructions of both parts, task after task */
    uint32_t *task_start;  /* [tasks of both parts + 1] into program */
    uint32_t first_task[3]; /* of a part; the last entry is past the end. Tasks of a part may run in parallel */
    uint32_t *targets;     /* of device.parts */
    device_abi_chains device; /* own memory; what is not targets is gone after cs_chains_forget() */
    uint32_t chains;
    uint32_t device_rows;      /* solved in chains */
    uint64_t products;         /* of all chains */
    uint64_t longest_products; /* of one chain */
} cs_chains;

/* Cuts a system that has short forms. *chains is NULL where the processor would be as fast, or the device cannot: reason says why.
 * domain_log2: of the key, whose memory on the device the parts must fit. */
g16_status cs_chains_make(cs_chains **chains, const constraint_system *cs, uint32_t domain_log2, const device_abi_costs *costs,
                          char reason[CS_CHAINS_REASON], const g16_cancel *cancel, g16_error *error);
/* Frees what only the device needs, which has it by now. */
void cs_chains_forget(cs_chains *chains);
void cs_chains_free(cs_chains *chains);

/* Values that cross the bus for a proof: inputs and parts. */
uint64_t cs_chains_values(const cs_chains *chains);

#endif
