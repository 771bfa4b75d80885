/* device_handle.h - an open GPU, for those who ask it for work. */
#ifndef G16_DEVICE_HANDLE_H
#define G16_DEVICE_HANDLE_H

#include "device_abi.h"
#include "groth16.h"

struct g16_device {
    const device_abi_library *library;
    void *handle;
};

/* What a status of the library and its message mean here. */
g16_status g16_device_result(device_abi_status status, const char *message, g16_error *error);

/* The failure of a device that returned what it must not while a key was made, with what to do about it. */
g16_status g16_device_wrong(const struct g16_device *device, const char *what, g16_error *error);

/* Whether a status is about a device: its message says more than the caller knows. */
static inline int g16_is_of_device(g16_status status) {
    return status == G16_DEVICE_UNAVAILABLE || status == G16_DEVICE_OUT_OF_MEMORY || status == G16_DEVICE_LOST;
}

#endif
