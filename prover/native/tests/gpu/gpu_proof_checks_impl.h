/* gpu_proof_checks_impl.h - proofs on a GPU, bit for bit the CPU's; included by gpu_proof.c. */
#ifndef G16_GPU_PROOF_CHECKS_IMPL_H
#define G16_GPU_PROOF_CHECKS_IMPL_H

/* The last bytes of rho and of sigma. */
static const uint8_t BLINDINGS[][2] = {{1, 0}, {200, 199}};
#define BLINDING_COUNT (sizeof BLINDINGS / sizeof *BLINDINGS)

static void fill_blinding(uint8_t blinding[BLINDING_SIZE], size_t i) {
    memset(blinding, 0, BLINDING_SIZE);
    blinding[31] = BLINDINGS[i][0];
    blinding[63] = BLINDINGS[i][1];
}

static void expect_proofs(const setting *s, uint8_t proofs[BLINDING_COUNT][G16_PROOF_BYTES]) {
    const size_t size = g16_prove_scratch_bytes(s->engine, s->key);
    uint8_t *scratch = take(size);
    g16_error error;
    for (size_t i = 0; i < BLINDING_COUNT; i++) {
        uint8_t blinding[BLINDING_SIZE];
        fill_blinding(blinding, i);
        must("proof on the CPU", g16_prove(s->engine, s->key, proofs[i], NULL, blinding, s->inputs.data, s->count, scratch, size, NULL,
             &error), &error);
    }
    free(scratch);
}

static int same_proof(const setting *s, g16_device_key *key, size_t i, const uint8_t expected[G16_PROOF_BYTES]) {
    batch b = take_batch(s, key, 1);
    fill_blinding(b.blinding, i);
    g16_device_prove(s->engine, key, b.proofs, b.statuses, NULL, b.blinding, b.inputs, s->count, 1, b.scratch, b.scratch_size, NULL,
                     b.errors);
    if (b.statuses[0] != G16_OK) fprintf(stderr, "gpu_proof: %s\n", b.errors[0].message);
    const int same = b.statuses[0] == G16_OK && !memcmp(b.proofs, expected, G16_PROOF_BYTES);
    release_batch(&b);
    return same;
}

typedef struct racer {
    const setting *s;
    g16_device_key *key;
    uint8_t (*expected)[G16_PROOF_BYTES];
    int ok;
} racer;

static void *race(void *argument) {
    racer *r = argument;
    r->ok = 1;
    for (int round = 0; round < 2; round++) {
        for (size_t i = 0; i < BLINDING_COUNT; i++) r->ok &= same_proof(r->s, r->key, i, r->expected[i]);
    }
    return NULL;
}

/* Threads at once, with one of the keys after another. */
static int race_all(const setting *s, g16_device_key *const *keys, uint32_t count, uint8_t expected[BLINDING_COUNT][G16_PROOF_BYTES],
                    uint32_t threads) {
    pthread_t started[MAX_THREADS];
    racer racers[MAX_THREADS];
    int ok = 1;
    for (uint32_t i = 0; i < threads; i++) {
        racers[i] = (racer){s, keys[i % count], expected, 0};
        if (pthread_create(&started[i], NULL, race, &racers[i]) != 0) stop("threads", NULL);
    }
    for (uint32_t i = 0; i < threads; i++) {
        pthread_join(started[i], NULL);
        ok &= racers[i].ok;
    }
    return ok;
}

/* The proof in the middle has inputs that break the circuit. */
static int same_batch(const setting *s, g16_device_key *key, size_t size, uint8_t expected[BLINDING_COUNT][G16_PROOF_BYTES]) {
    batch b = take_batch(s, key, size);
    uint8_t *wrong = take(s->inputs.size);
    const size_t bad = size / 2;
    memset(wrong, 0, s->inputs.size);
    for (size_t i = 0; i < size; i++) fill_blinding(b.blinding + BLINDING_SIZE * i, i % BLINDING_COUNT);
    b.inputs[bad] = wrong;
    const g16_status status =
        g16_device_prove(s->engine, key, b.proofs, b.statuses, NULL, b.blinding, b.inputs, s->count, size, b.scratch, b.scratch_size,
                         NULL, NULL);
    int ok = status == G16_OK && b.statuses[bad] != G16_OK;
    for (size_t i = 0; i < size; i++) {
        if (i == bad) continue;
        ok &= b.statuses[i] == G16_OK && !memcmp(b.proofs + i * G16_PROOF_BYTES, expected[i % BLINDING_COUNT], G16_PROOF_BYTES);
    }
    free(wrong);
    release_batch(&b);
    return ok;
}

static void check_batches(const setting *s, const g16_device *device, g16_device_key *key,
                          uint8_t expected[BLINDING_COUNT][G16_PROOF_BYTES]) {
    const size_t limit = sizes_of(s, device).batch_limit, sizes[] = {2, 3, limit};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        if (sizes[i] < 2 || sizes[i] > limit) continue;
        report(s, "batch of proofs", (uint32_t)sizes[i], same_batch(s, key, sizes[i], expected));
    }
}

static void check(const setting *s, uint32_t threads) {
    uint8_t expected[BLINDING_COUNT][G16_PROOF_BYTES];
    expect_proofs(s, expected);
    for (int tables = 1; tables >= 0; tables--) {
        g16_device *device = open_device(s, 0);
        if (!tables) {
            /* Room for a key without tables and a proof of each thread, without waiting. */
            const g16_device_sizes sizes = sizes_of(s, device);
            const uint64_t bytes = sizes.key_bytes + threads * sizes.proof_bytes;
            g16_device_close(device);
            device = open_device(s, bytes);
        }
        g16_device_key *key = load_key(s, device);
        char detail[64];
        g16_device_witness witness;
        g16_device_key_witness(key, &witness);
        report(s, witness.on_device ? "chains of the witness on the device" : "witness on the CPU", witness.chains, 1);
        for (size_t i = 0; i < BLINDING_COUNT; i++) {
            snprintf(detail, sizeof detail, "blinding %zu, %s", i, tables ? "whole budget" : "small budget");
            report(s, detail, 1, same_proof(s, key, i, expected[i]));
        }
        snprintf(detail, sizeof detail, "threads at once, %s", tables ? "whole budget" : "small budget");
        report(s, detail, threads, race_all(s, &key, 1, expected, threads));
        check_batches(s, device, key, expected);
        g16_device_key_destroy(key);
        g16_device_close(device);
    }
}

#endif
