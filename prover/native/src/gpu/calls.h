/* gpu/calls.h - the functions that compute the sums of proofs on a GPU, as backends call them; implemented in gpu/device.c. */
#ifndef G16_GPU_CALLS_H
#define G16_GPU_CALLS_H

#include "base/types.h"
#include "gpu/abi.h"
#include "gpu/chains.h"

/* The functions for one key on a GPU. */
typedef struct device_calls {
    void *handle;
    g16_status (*sum)(void *handle, device_abi_sums *sums, device_abi_times *times,
                      const device_abi_witness *witnesses, uint32_t count, const g16_cancel *cancel, g16_error *error);
    /* If the GPU solves witnesses, else NULL: the chains, memory for cs_chains_values() values, and the sums from those. */
    const cs_chains *chains;
    fr *values;
    g16_status (*sum_inputs)(void *handle, device_abi_sums *sums, device_abi_times *times,
                             const device_abi_inputs *inputs, const g16_cancel *cancel, g16_error *error);
} device_calls;

#endif
