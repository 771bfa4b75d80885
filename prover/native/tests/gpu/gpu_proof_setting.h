/* gpu_proof_setting.h - what the commands of gpu_proof.c share: files, the key, reports, devices and the memory of batches. */
#ifndef G16_GPU_PROOF_SETTING_H
#define G16_GPU_PROOF_SETTING_H

#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "groth16.h"

#define MAX_THREADS 256

typedef struct file {
    const uint8_t *data;
    size_t size;
} file;

typedef struct setting {
    const char *library, *name;
    file inputs;
    size_t count; /* of inputs */
    g16_engine *engine;
    g16_key *key;
    g16_key_info info;
} setting;

static int failures;

static void stop(const char *what, const g16_error *error) {
    fprintf(stderr, "gpu_proof: %s: %s\n", what, error ? error->message : "failed");
    exit(2);
}

static void must(const char *what, g16_status status, const g16_error *error) {
    if (status != G16_OK) stop(what, error);
}

static void *take(size_t bytes) {
    void *memory = aligned_alloc(64, (bytes + 64) / 64 * 64);
    if (!memory) stop("no memory", NULL);
    return memory;
}

static file map(const char *path) {
    struct stat status;
    const int descriptor = open(path, O_RDONLY | O_CLOEXEC);
    if (descriptor < 0 || fstat(descriptor, &status) != 0 || status.st_size == 0) stop(path, NULL);
    void *data = mmap(NULL, (size_t)status.st_size, PROT_READ, MAP_PRIVATE, descriptor, 0);
    if (data == MAP_FAILED) stop(path, NULL);
    close(descriptor);
    return (file){data, (size_t)status.st_size};
}

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void report(const setting *s, const char *detail, uint32_t count, int ok) {
    printf("{\"check\": \"proof\", \"key\": \"%s\", \"detail\": \"%s\", \"count\": %u, \"ok\": %s}\n", s->name, detail, count,
           ok ? "true" : "false");
    fflush(stdout);
    failures += !ok;
}

static int verifies(const setting *s, const uint8_t *proof) {
    return g16_verify(s->engine, g16_key_verifying_key(s->key), proof, s->inputs.data, s->info.public_inputs, NULL) == G16_OK;
}

static g16_device *open_device_at(const setting *s, uint32_t index, uint64_t budget) {
    g16_device *device;
    g16_error error;
    must("device", g16_device_open(&device, s->library, index, budget, &error), &error);
    return device;
}

static g16_device *open_device(const setting *s, uint64_t budget) { return open_device_at(s, 0, budget); }

static g16_device_key *load_key(const setting *s, g16_device *device) {
    g16_device_key *key;
    g16_error error;
    must("key on the device", g16_device_key_load(device, &key, s->key, 0, NULL, &error), &error);
    return key;
}

static g16_device_sizes sizes_of(const setting *s, const g16_device *device) {
    g16_device_sizes sizes;
    g16_device_key_sizes(device, s->key, &sizes);
    return sizes;
}

#define BLINDING_SIZE 64 /* rho, then sigma */

/* The memory of a batch, whose proofs all have the setting's inputs. */
typedef struct batch {
    size_t size, scratch_size;
    uint8_t *proofs, *scratch, *blinding;
    const uint8_t **inputs;
    g16_status *statuses;
    g16_error *errors;
} batch;

static batch take_batch(const setting *s, const g16_device_key *key, size_t size) {
    batch b = {.size = size, .scratch_size = g16_device_prove_scratch_bytes(key, size)};
    b.proofs = take(size * G16_PROOF_BYTES);
    b.scratch = take(b.scratch_size);
    b.blinding = take(BLINDING_SIZE * size);
    b.inputs = take(size * sizeof *b.inputs);
    b.statuses = take(size * sizeof *b.statuses);
    b.errors = take(size * sizeof *b.errors);
    for (size_t i = 0; i < size; i++) b.inputs[i] = s->inputs.data;
    return b;
}

static void release_batch(batch *b) {
    free(b->proofs), free(b->scratch), free(b->blinding), free(b->inputs), free(b->statuses), free(b->errors);
}

#endif
