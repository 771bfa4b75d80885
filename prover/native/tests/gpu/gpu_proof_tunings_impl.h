/* gpu_proof_tunings_impl.h - the same proofs whatever is tuned, and on whichever GPU; included by gpu_proof.c. */
#ifndef G16_GPU_PROOF_TUNINGS_IMPL_H
#define G16_GPU_PROOF_TUNINGS_IMPL_H

#include "gpu_tunings.h"
#include "cuda/base/tuning.h"

#define TUNED_THREADS 3
#define TOGETHER_ON_A_GPU 2u

static void tune(const char *tuning) {
    if (*tuning ? setenv(DEVICE_TUNING_VARIABLE, tuning, 1) : unsetenv(DEVICE_TUNING_VARIABLE)) stop(DEVICE_TUNING_VARIABLE, NULL);
}

/* Proofs alone, at once and in batches by what devices make that are opened from now on. */
static void check_tuned(const setting *s, uint32_t number, uint8_t expected[BLINDING_COUNT][G16_PROOF_BYTES]) {
    char detail[64];
    g16_device *device = open_device(s, 0);
    g16_device_key *key = load_key(s, device);
    for (size_t i = 0; i < BLINDING_COUNT; i++) {
        snprintf(detail, sizeof detail, "tuning %u, blinding %zu", number, i);
        report(s, detail, 1, same_proof(s, key, i, expected[i]));
    }
    snprintf(detail, sizeof detail, "tuning %u, threads at once", number);
    report(s, detail, TUNED_THREADS, race_all(s, &key, 1, expected, TUNED_THREADS));
    check_batches(s, device, key, expected);
    g16_device_key_destroy(key);
    g16_device_close(device);
}

static void check_refusal(const setting *s) {
    g16_device *device = NULL;
    g16_error error;
    tune("piece=33,window=99");
    const g16_status status = g16_device_open(&device, s->library, 0, 0, &error);
    report(s, "a tuning out of range is refused", 1,
           status == G16_DEVICE_UNAVAILABLE && strstr(error.message, DEVICE_TUNING_VARIABLE ": window=99") &&
               strstr(error.message, "2 to 23"));
    g16_device_close(device);
}

static void check_tunings(const setting *s) {
    uint8_t expected[BLINDING_COUNT][G16_PROOF_BYTES];
    expect_proofs(s, expected);
    for (uint32_t number = 0; number <= ODD_TUNINGS; number++) {
        tune(number ? ODD_TUNING[number - 1] : ""); /* 0: the plans' own choices */
        check_tuned(s, number, expected);
    }
    check_refusal(s);
}

/* The proofs of every key, which are on one GPU each. */
static void check_each(const setting *s, g16_device_key *const *keys, uint32_t first, uint32_t count, const char *when,
                       uint8_t expected[BLINDING_COUNT][G16_PROOF_BYTES]) {
    char detail[64];
    for (size_t i = 0; i < BLINDING_COUNT; i++) {
        int ok = 1;
        for (uint32_t index = first; index < count; index++) ok &= same_proof(s, keys[index], i, expected[i]);
        snprintf(detail, sizeof detail, "GPU by GPU, blinding %zu%s", i, when);
        report(s, detail, count - first, ok);
    }
}

/* One key on all GPUs: the same bytes from each of them, one after another, at once, and when one was closed. */
static void check_devices(const setting *s) {
    uint8_t expected[BLINDING_COUNT][G16_PROOF_BYTES];
    uint32_t count = 0;
    g16_error error;
    must("GPUs", g16_device_count(s->library, &count, &error), &error);
    if (count < 2) {
        printf("{\"check\": \"devices\", \"key\": \"%s\", \"detail\": \"one GPU only: skipped\"}\n", s->name);
        return;
    }
    const uint32_t threads = TOGETHER_ON_A_GPU * count;
    g16_device **devices = take(count * sizeof *devices);
    g16_device_key **keys = take(count * sizeof *keys);
    expect_proofs(s, expected);
    for (uint32_t index = 0; index < count; index++) {
        devices[index] = open_device_at(s, index, 0);
        keys[index] = load_key(s, devices[index]);
    }
    check_each(s, keys, 0, count, "", expected);
    report(s, "threads at once, on all GPUs", threads, race_all(s, keys, count, expected, threads < MAX_THREADS ? threads : MAX_THREADS));
    for (uint32_t index = 0; index < count; index++) check_batches(s, devices[index], keys[index], expected);
    g16_device_key_destroy(keys[0]);
    g16_device_close(devices[0]);
    check_each(s, keys, 1, count, ", the first one closed", expected);
    for (uint32_t index = 1; index < count; index++) {
        g16_device_key_destroy(keys[index]);
        g16_device_close(devices[index]);
    }
    free(devices);
    free(keys);
}

#endif
