/* gpu/handle.h - the handle of an open GPU. */
#ifndef G16_GPU_HANDLE_H
#define G16_GPU_HANDLE_H

#include "groth16.h"
#include "gpu/abi.h"

struct g16_device {
    const device_abi_library *library;
    void *handle;
};

/* Converts a status and message of the library. */
g16_status g16_device_result(device_abi_status status, const char *message, g16_error *error);

#endif
