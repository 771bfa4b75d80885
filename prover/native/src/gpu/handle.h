/* gpu/handle.h - an open GPU, for those who ask it for work. */
#ifndef G16_GPU_HANDLE_H
#define G16_GPU_HANDLE_H

#include "groth16.h"
#include "gpu/abi.h"

struct g16_device {
    const device_abi_library *library;
    void *handle;
};

/* What a status of the library and its message mean here. */
g16_status g16_device_result(device_abi_status status, const char *message, g16_error *error);

#endif
