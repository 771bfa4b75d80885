/* gpu/batch.h - a batch: the proofs of one key that a GPU computes together, or one proof. */
#ifndef G16_GPU_BATCH_H
#define G16_GPU_BATCH_H

#include "groth16.h"

#define DEVICE_BATCH_MAX 64

typedef struct device_batch {
    size_t size, count; /* number of proofs, and of inputs per proof */
    const uint8_t *blinding; /* BLINDING_BYTES per proof */
    const uint8_t *const *inputs;
    uint8_t *proofs;
    g16_status *statuses;
    g16_error *errors; /* NULL, or one per proof */
} device_batch;

static inline g16_error *device_batch_error(const device_batch *batch, size_t proof) {
    return batch->errors ? &batch->errors[proof] : NULL;
}

/* Gives the failure of the call to every proof that has not failed individually. */
static inline void device_batch_fail(const device_batch *batch, g16_status status, const g16_error *error) {
    for (size_t i = 0; i < batch->size; i++) {
        if (batch->statuses[i] != G16_OK) continue;
        batch->statuses[i] = status;
        if (batch->errors) batch->errors[i] = *error;
    }
}

/* Returns 1 when a status affects one proof and its inputs, and not the whole batch. */
static inline int device_batch_is_own(g16_status status) {
    return status == G16_INVALID_ARGUMENT || status == G16_UNSATISFIED_CONSTRAINT || status == G16_UNSUPPORTED_KEY;
}

#endif
