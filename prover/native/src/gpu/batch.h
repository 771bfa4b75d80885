/* gpu/batch.h - several proofs of one key that are made together on a device. */
#ifndef G16_GPU_BATCH_H
#define G16_GPU_BATCH_H

#include "groth16.h"

#define DEVICE_BATCH_MOST 64

typedef struct device_batch {
    size_t size, count; /* proofs, and inputs of each */
    g16_blinding form;
    const uint8_t *first, *second; /* 32 bytes for each proof */
    const uint8_t *const *inputs;
    uint8_t *proofs;
    g16_status *statuses;
    g16_error *errors; /* NULL, or one for each proof */
} device_batch;

static inline g16_error *device_batch_error(const device_batch *batch, size_t proof) {
    return batch->errors ? &batch->errors[proof] : NULL;
}

/* What ended the call ends every proof that had not failed by itself. */
static inline void device_batch_fail(const device_batch *batch, g16_status status, const g16_error *error) {
    for (size_t i = 0; i < batch->size; i++) {
        if (batch->statuses[i] != G16_OK) continue;
        batch->statuses[i] = status;
        if (batch->errors) batch->errors[i] = *error;
    }
}

/* Whether a status is about one proof and its inputs, and says nothing about others. */
static inline int device_batch_is_own(g16_status status) {
    return status == G16_INVALID_ARGUMENT || status == G16_UNSATISFIED_CONSTRAINT || status == G16_UNSUPPORTED_KEY;
}

#endif
