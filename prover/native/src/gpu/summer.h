/* gpu/summer.h - the sums of proofs as backends ask for them (gpu/device.c makes them). */
#ifndef G16_GPU_SUMMER_H
#define G16_GPU_SUMMER_H

#include "base/types.h"
#include "gpu/abi.h"
#include "gpu/chains.h"

/* What makes the sums of `count` proofs on a device. */
typedef struct device_summer {
    void *handle;
    g16_status (*sum)(void *handle, device_abi_sums *sums, device_abi_times *times,
                      const device_abi_witness *witnesses, uint32_t count, int with_b1, const g16_cancel *cancel,
                      g16_error *error);
    /* Where the device makes witnesses, else NULL: the chains, cs_chains_values() to fill, and sums from those. */
    const cs_chains *chains;
    fr *values;
    g16_status (*sum_inputs)(void *handle, device_abi_sums *sums, device_abi_times *times,
                             const device_abi_inputs *inputs, int with_b1, const g16_cancel *cancel, g16_error *error);
} device_summer;

#endif
