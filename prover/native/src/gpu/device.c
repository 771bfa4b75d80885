/* gpu/device.c - proofs on a GPU: opens the library that drives GPUs, and implements the functions of groth16.h that use it. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/random.h"
#include "key/key.h"
#include "groth16/blinding.h"
#include "gpu/batch.h"
#include "gpu/chains.h"
#include "gpu/calls.h"

struct g16_device {
    const device_abi_library *library;
    void *handle;
};

struct g16_device_key {
    const g16_device *device;
    const g16_key *key;
    void *handle;
    uint32_t batch_limit;
    cs_chains *chains;                     /* of the circuit, if the GPU solves witnesses, else NULL */
    char witness_reason[CS_CHAINS_REASON]; /* why the CPU solves them */
};

/* ---- the library ------------------------------------------------------------------ */

/* Converts a status and message of the library. */
static g16_status device_result(device_abi_status status, const char *message, g16_error *error) {
    switch (status) {
    case DEVICE_ABI_OK: return G16_OK;
    case DEVICE_ABI_UNAVAILABLE: return g16_fail(error, G16_DEVICE_UNAVAILABLE, 0, "%s", message);
    case DEVICE_ABI_OUT_OF_MEMORY: return g16_fail(error, G16_DEVICE_OUT_OF_MEMORY, 0, "%s", message);
    case DEVICE_ABI_CANCELLED: return g16_fail(error, G16_CANCELLED, 0, "the call was cancelled");
    case DEVICE_ABI_HOST_OUT_OF_MEMORY: return g16_fail(error, G16_OUT_OF_MEMORY, 0, "no host memory for the GPU");
    case DEVICE_ABI_UNSATISFIED: return g16_fail(error, G16_UNSATISFIED_CONSTRAINT, 0, "a constraint is not satisfied");
    case DEVICE_ABI_LOST: break;
    }
    return g16_fail(error, G16_DEVICE_LOST, 0, "%s", message);
}

/* The library is never unloaded: the driver may have started threads and registered exit handlers. */
static g16_status device_library_open(const device_abi_library **library, const char *path, g16_error *error) {
    if (!path) return g16_fail(error, G16_INVALID_ARGUMENT, 0, "the path of the CUDA library is missing");
    void *object = dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (!object) {
        const char *reason = dlerror();
        return g16_fail(error, G16_DEVICE_UNAVAILABLE, 0, "the CUDA library cannot be loaded: %s", reason ? reason : path);
    }
    device_abi_entry entry = NULL;
    /* The conversion that POSIX recommends; ISO C has none from an object pointer to a function pointer. */
    *(void **)&entry = dlsym(object, DEVICE_ABI_SYMBOL);
    const device_abi_library *found = entry ? entry() : NULL;
    if (found && found->version == DEVICE_ABI_VERSION && found->bytes == sizeof *found) {
        *library = found;
        return G16_OK;
    }
    dlclose(object);
    return g16_fail(error, G16_DEVICE_UNAVAILABLE, 0, "%s is not the CUDA library of this kernel (interface %d)", path,
                    DEVICE_ABI_VERSION);
}

g16_status g16_device_count(const char *library, uint32_t *count, g16_error *error) {
    char message[DEVICE_ABI_MESSAGE] = "";
    const device_abi_library *opened;
    if (!count) return g16_fail(error, G16_INVALID_ARGUMENT, 0, "a required buffer is missing");
    g16_status status = device_library_open(&opened, library, error);
    return status == G16_OK ? device_result(opened->count(count, message), message, error) : status;
}

g16_status g16_device_open(g16_device **device, const char *library, uint32_t index, uint64_t budget_bytes,
                           g16_error *error) {
    char message[DEVICE_ABI_MESSAGE] = "";
    if (!device) return g16_fail(error, G16_INVALID_ARGUMENT, 0, "a required buffer is missing");
    g16_device *made = calloc(1, sizeof *made);
    if (!made) return g16_fail(error, G16_OUT_OF_MEMORY, 0, "no memory for a device");
    g16_status status = device_library_open(&made->library, library, error);
    if (status == G16_OK) {
        status = device_result(made->library->open(&made->handle, index, budget_bytes, message), message, error);
    }
    if (status != G16_OK) {
        free(made);
        return status;
    }
    *device = made;
    return G16_OK;
}

void g16_device_close(g16_device *device) {
    if (!device) return;
    device->library->close(device->handle);
    free(device);
}

g16_status g16_device_describe(const g16_device *device, g16_device_info *info, g16_error *error) {
    char message[DEVICE_ABI_MESSAGE] = "";
    if (!device || !info) return g16_fail(error, G16_INVALID_ARGUMENT, 0, "a required buffer or handle is missing");
    memset(info, 0, sizeof *info);
    return device_result(device->library->describe(device->handle, info, message), message, error);
}

/* ---- keys --------------------------------------------------------------------------- */

static uint32_t device_batch_limit(uint32_t limit) { return limit < DEVICE_BATCH_MAX ? limit : DEVICE_BATCH_MAX; }

void g16_device_key_sizes(const g16_device *device, const g16_key *key, g16_device_sizes *sizes) {
    device_abi_key data;
    key->backend->device_key(key, &data);
    device->library->sizes(device->handle, &data, sizes);
    sizes->batch_limit = device_batch_limit(sizes->batch_limit);
}

/* Loads the chains of the circuit if they reduce the time and fit the memory. Otherwise the CPU solves witnesses. With
 * GROTH16_CUDA_WITNESS=device, for tests, chains are used whatever time they take. */
static g16_status device_load_chains(g16_device_key *key, const g16_cancel *cancel, g16_error *error) {
    char message[DEVICE_ABI_MESSAGE] = "";
    const device_abi_library *library = key->device->library;
    const char *witness = getenv("GROTH16_CUDA_WITNESS");
    const int forced = witness && strcmp(witness, "device") == 0;
    g16_status status =
        cs_chains_build(&key->chains, &key->key->cs, key->key->pk.domain_log2, forced, key->witness_reason, cancel, error);
    if (status == G16_OK && key->chains) {
        status = device_result(library->chains_load(key->handle, &key->chains->device, message), message, error);
        cs_chains_free_device_data(key->chains);
    }
    if (status == G16_OK) return status;
    cs_chains_free(key->chains);
    key->chains = NULL;
    if (status != G16_OUT_OF_MEMORY && status != G16_DEVICE_OUT_OF_MEMORY) return status;
    snprintf(key->witness_reason, sizeof key->witness_reason, "%.150s",
             *message ? message : "there was too little memory to cut the circuit into chains");
    return G16_OK;
}

g16_status g16_device_key_load(g16_device *device, g16_device_key **device_key, const g16_key *key, uint64_t table_limit,
                               const g16_cancel *cancel, g16_error *error) {
    char message[DEVICE_ABI_MESSAGE] = "";
    device_abi_key data;
    if (!device || !device_key || !key) {
        return g16_fail(error, G16_INVALID_ARGUMENT, 0, "a required buffer or handle is missing");
    }
    g16_device_key *made = calloc(1, sizeof *made);
    if (!made) return g16_fail(error, G16_OUT_OF_MEMORY, 0, "no memory for a key on a device");
    made->device = device;
    made->key = key;
    key->backend->device_key(key, &data);
    const device_abi_status status =
        device->library->key_load(device->handle, &made->handle, &made->batch_limit, &data, table_limit, cancel, message);
    if (status != DEVICE_ABI_OK) {
        free(made);
        return device_result(status, message, error);
    }
    made->batch_limit = device_batch_limit(made->batch_limit);
    const g16_status loaded = device_load_chains(made, cancel, error);
    if (loaded != G16_OK) {
        g16_device_key_destroy(made);
        return loaded;
    }
    *device_key = made;
    return G16_OK;
}

void g16_device_key_destroy(g16_device_key *key) {
    if (!key) return;
    key->device->library->key_destroy(key->handle);
    cs_chains_free(key->chains);
    free(key);
}

uint64_t g16_device_key_bytes(const g16_device_key *key) { return key->device->library->key_bytes(key->handle); }

uint32_t g16_device_key_batch_limit(const g16_device_key *key) { return key->batch_limit; }

void g16_device_key_witness(const g16_device_key *key, g16_device_witness *witness) {
    const constraint_system *cs = &key->key->cs;
    const cs_chains *chains = key->chains;
    memset(witness, 0, sizeof *witness);
    witness->check_rows = cs->instructions_count - cs->checks_start;
    witness->processor_rows = cs->constraints - witness->check_rows;
    witness->bus_bytes = 32 * ((uint64_t)cs->wires + 2 * (uint64_t)cs->constraints);
    snprintf(witness->reason, sizeof witness->reason, "%s", key->witness_reason);
    if (!chains) return;
    witness->on_device = 1;
    witness->chains = chains->chains;
    witness->shapes = chains->device.shapes_count;
    witness->device_rows = chains->device_rows;
    witness->processor_rows -= chains->device_rows;
    witness->products = chains->products;
    witness->longest_products = chains->longest_products;
    witness->bus_bytes = 32 * cs_chains_values(chains);
}

/* ---- proofs ------------------------------------------------------------------------- */

/* Adds to *times. When memory is short, the halves of a batch are proved one after the other. */
static g16_status device_sum(void *handle, device_abi_sums *sums, device_abi_times *times,
                             const device_abi_witness *witnesses, uint32_t count, const g16_cancel *cancel, g16_error *error) {
    const g16_device_key *key = handle;
    char message[DEVICE_ABI_MESSAGE] = "";
    const device_abi_status done = key->device->library->prove(key->handle, sums, times, witnesses, count, cancel, message);
    if (done != DEVICE_ABI_OUT_OF_MEMORY || count == 1) return device_result(done, message, error);
    const uint32_t half = count / 2;
    const g16_status status = device_sum(handle, sums, times, witnesses, half, cancel, error);
    if (status != G16_OK) return status;
    return device_sum(handle, sums + half, times, witnesses + half, count - half, cancel, error);
}

static g16_status device_sum_inputs(void *handle, device_abi_sums *sums, device_abi_times *times, const device_abi_inputs *inputs,
                                    const g16_cancel *cancel, g16_error *error) {
    const g16_device_key *key = handle;
    char message[DEVICE_ABI_MESSAGE] = "";
    const device_abi_library *library = key->device->library;
    return device_result(library->prove_inputs(key->handle, sums, times, inputs, cancel, message), message, error);
}

size_t g16_device_prove_scratch_bytes(const g16_device_key *key, size_t batch) {
    return key->key->backend->device_scratch_bytes(key->key, batch);
}

/* Witnesses are solved in page-locked memory, or else in the caller's memory. The size is rounded up to that of a power of two of
 * proofs, so that batches of other sizes can reuse it. If the GPU solves the witness, page-locked memory holds only the values that
 * the GPU needs. */
static g16_status device_prove(g16_engine *engine, g16_device_key *key, uint64_t *stage_ns, const device_batch *batch, void *scratch,
                               size_t scratch_size, const g16_cancel *cancel) {
    const device_abi_library *library = key->device->library;
    const g16_backend *backend = key->key->backend;
    const cs_chains *chains = batch->size == 1 ? key->chains : NULL;
    device_calls calls = {.handle = key, .sum = device_sum, .sum_inputs = device_sum_inputs};
    size_t room = 1;
    while (room < batch->size) room *= 2;
    const size_t room_bytes = backend->device_scratch_bytes(key->key, room);
    const size_t staged = chains ? cs_chains_values(chains) * sizeof(fr) : room_bytes;
    const int enough = scratch_size >= backend->device_scratch_bytes(key->key, batch->size);
    void *staging = enough ? library->staging_take(key->handle, staged) : NULL;
    if (staging && chains) {
        calls.chains = chains;
        calls.values = staging;
    } else if (staging) {
        scratch = staging;
        scratch_size = room_bytes;
    }
    const g16_status status = backend->device_prove(key->key, engine->pool, &calls, batch, stage_ns, scratch, scratch_size, cancel);
    if (staging) library->staging_give_back(key->handle, staging);
    return status;
}

static g16_status device_draw_blinding(const device_batch *batch, uint8_t *blinding) {
    g16_error error;
    g16_status status = G16_OK;
    for (size_t i = 0; i < batch->size && status == G16_OK; i++) status = blinding_draw(blinding + BLINDING_BYTES * i, &error);
    if (status != G16_OK) device_batch_fail(batch, status, &error);
    return status;
}

/* Refuses a batch that cannot be started; each proof receives the reason. */
static g16_status device_check_batch(const g16_engine *engine, const g16_device_key *key, const device_batch *batch,
                                     const void *scratch) {
    g16_error error;
    g16_status status = G16_OK;
    int complete = engine && key && batch->proofs && batch->inputs && scratch;
    if (!batch->statuses) return G16_INVALID_ARGUMENT;
    for (size_t i = 0; i < batch->size && complete; i++) complete = batch->inputs[i] || !batch->count;
    memset(&error, 0, sizeof error);
    if (!complete) {
        status = g16_fail(&error, G16_INVALID_ARGUMENT, 0, "a required buffer or handle is missing");
    } else if (batch->size < 1 || batch->size > key->batch_limit) {
        status = g16_fail(&error, G16_INVALID_ARGUMENT, 0, "a batch of this key on this device has 1 to %u proofs, not %zu",
                          key->batch_limit, batch->size);
    }
    for (size_t i = 0; i < batch->size; i++) batch->statuses[i] = G16_OK;
    if (status != G16_OK) device_batch_fail(batch, status, &error);
    return status;
}

g16_status g16_device_prove(g16_engine *engine, g16_device_key *key, uint8_t *proofs, g16_status *statuses, uint64_t *stage_ns,
                            const uint8_t *blinding, const uint8_t *const *inputs, size_t count, size_t batch, void *scratch,
                            size_t scratch_size, const g16_cancel *cancel, g16_error *errors) {
    uint8_t drawn[BLINDING_BYTES * DEVICE_BATCH_MAX];
    const device_batch given = {batch, count, blinding ? blinding : drawn, inputs, proofs, statuses, errors};
    g16_status status = device_check_batch(engine, key, &given, scratch);
    if (status == G16_OK && !blinding) status = device_draw_blinding(&given, drawn);
    if (status == G16_OK) status = device_prove(engine, key, stage_ns, &given, scratch, scratch_size, cancel);
    os_random_wipe(drawn, sizeof drawn);
    return status;
}
