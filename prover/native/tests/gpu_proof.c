/* gpu_proof.c - whole proofs on a GPU: the same as on the processor, and how long they take.
 *
 * gpu_proof check|bench|rate|soak|keys LIBRARY KEY INPUTS [NUMBER]
 *   check   bit for bit the processor's proofs for given blinding, with tables of bases and without; batches of several sizes, in
 *           which one proof fails; then NUMBER (4) threads at once
 *   bench   milliseconds of a proof, witness to bytes, one at a time; then proofs per second of NUMBER (8) threads
 *   rate    milliseconds of the largest batch; then proofs per second of NUMBER (3) threads that make such batches
 *   soak    NUMBER (10000) proofs in a row, the second half in batches, each of them verified
 *   keys    byte for byte the processor's trusted setup of the circuit for given secrets, and its folding of the key
 * LIBRARY: libgroth16_cuda.so. KEY: a key file or a prepared one; the prepared form of a key file is taken where the folder `prepared`
 * beside it has one. INPUTS: public, then secret inputs, 32 bytes each, big-endian.
 * Prints one JSON object per result; exit code 1 when a check failed.
 */
#define _GNU_SOURCE
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

#define REPEATS 20
#define DISCARDED 3
#define RATE_SECONDS 10.0
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

/* ---- check ------------------------------------------------------------------------------------------ */

/* Blinding values: the form, then the last byte of the first and of the second. */
static const uint8_t BLINDINGS[][3] = {{G16_BLINDING_CLASSICAL, 0, 0},
                                       {G16_BLINDING_CLASSICAL, 7, 5},
                                       {G16_BLINDING_RERANDOMISED, 1, 0},
                                       {G16_BLINDING_RERANDOMISED, 200, 199}};
#define BLINDING_COUNT (sizeof BLINDINGS / sizeof *BLINDINGS)

static void expect_proofs(const setting *s, uint8_t proofs[BLINDING_COUNT][G16_PROOF_BYTES]) {
    const size_t size = g16_prove_scratch_bytes(s->engine, s->key);
    uint8_t *scratch = take(size);
    g16_error error;
    for (size_t i = 0; i < BLINDING_COUNT; i++) {
        uint8_t first[32] = {0}, second[32] = {0};
        first[31] = BLINDINGS[i][1];
        second[31] = BLINDINGS[i][2];
        must("proof on the processor", g16_prove_with_blinding(s->engine, s->key, proofs[i], BLINDINGS[i][0], first, second,
             s->inputs.data, s->count, scratch, size, NULL, &error), &error);
    }
    free(scratch);
}

static int same_proof(const setting *s, g16_device_key *key, size_t i, const uint8_t expected[G16_PROOF_BYTES]) {
    const size_t size = g16_device_prove_scratch_bytes(s->engine, key);
    uint8_t *scratch = take(size), first[32] = {0}, second[32] = {0}, proof[G16_PROOF_BYTES];
    g16_error error;
    first[31] = BLINDINGS[i][1];
    second[31] = BLINDINGS[i][2];
    const g16_status status = g16_device_prove_with_blinding(s->engine, key, proof, BLINDINGS[i][0], first, second,
                                                             s->inputs.data, s->count, scratch, size, NULL, &error);
    if (status != G16_OK) fprintf(stderr, "gpu_proof: %s\n", error.message);
    free(scratch);
    return status == G16_OK && !memcmp(proof, expected, sizeof proof);
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

static int race_all(const setting *s, g16_device_key *key, uint8_t expected[BLINDING_COUNT][G16_PROOF_BYTES], uint32_t threads) {
    pthread_t started[MAX_THREADS];
    racer racers[MAX_THREADS];
    int ok = 1;
    for (uint32_t i = 0; i < threads; i++) {
        racers[i] = (racer){s, key, expected, 0};
        if (pthread_create(&started[i], NULL, race, &racers[i]) != 0) stop("threads", NULL);
    }
    for (uint32_t i = 0; i < threads; i++) {
        pthread_join(started[i], NULL);
        ok &= racers[i].ok;
    }
    return ok;
}

/* The memory of a batch, whose proofs all have the setting's inputs. */
typedef struct batch {
    size_t size, scratch_size;
    uint8_t *proofs, *scratch, *first, *second;
    const uint8_t **inputs;
    g16_status *statuses;
    g16_error *errors;
} batch;

static batch take_batch(const setting *s, const g16_device_key *key, size_t size) {
    batch b = {.size = size, .scratch_size = g16_device_prove_many_scratch_bytes(s->engine, key, size)};
    b.proofs = take(size * G16_PROOF_BYTES);
    b.scratch = take(b.scratch_size);
    b.first = take(32 * size);
    b.second = take(32 * size);
    b.inputs = take(size * sizeof *b.inputs);
    b.statuses = take(size * sizeof *b.statuses);
    b.errors = take(size * sizeof *b.errors);
    for (size_t i = 0; i < size; i++) b.inputs[i] = s->inputs.data;
    return b;
}

static void release_batch(batch *b) {
    free(b->proofs), free(b->scratch), free(b->first), free(b->second), free(b->inputs), free(b->statuses), free(b->errors);
}

/* Given blinding of one form; the proof in the middle has inputs that break the circuit. */
static int same_batch(const setting *s, g16_device_key *key, size_t size, g16_blinding form,
                      uint8_t expected[BLINDING_COUNT][G16_PROOF_BYTES]) {
    batch b = take_batch(s, key, size);
    uint8_t *wrong = take(s->inputs.size);
    const size_t bad = size / 2, begin = form == G16_BLINDING_CLASSICAL ? 0 : 2;
    memset(wrong, 0, s->inputs.size);
    memset(b.first, 0, 32 * size);
    memset(b.second, 0, 32 * size);
    for (size_t i = 0; i < size; i++) {
        b.first[32 * i + 31] = BLINDINGS[begin + i % 2][1];
        b.second[32 * i + 31] = BLINDINGS[begin + i % 2][2];
    }
    b.inputs[bad] = wrong;
    const g16_status status =
        g16_device_prove_many_with_blinding(s->engine, key, b.proofs, b.statuses, form, b.first, b.second, b.inputs, s->count, size,
                                            b.scratch, b.scratch_size, NULL, NULL);
    int ok = status == G16_OK && b.statuses[bad] != G16_OK;
    for (size_t i = 0; i < size; i++) {
        if (i == bad) continue;
        ok &= b.statuses[i] == G16_OK && !memcmp(b.proofs + i * G16_PROOF_BYTES, expected[begin + i % 2], G16_PROOF_BYTES);
    }
    free(wrong);
    release_batch(&b);
    return ok;
}

static void check_batches(const setting *s, const g16_device *device, g16_device_key *key,
                          uint8_t expected[BLINDING_COUNT][G16_PROOF_BYTES]) {
    const size_t limit = g16_device_batch_limit(device, s->key), sizes[] = {2, 3, limit};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        if (sizes[i] < 2 || sizes[i] > limit) continue;
        report(s, "batch, classical blinding", (uint32_t)sizes[i], same_batch(s, key, sizes[i], G16_BLINDING_CLASSICAL, expected));
        report(s, "batch, re-randomised", (uint32_t)sizes[i], same_batch(s, key, sizes[i], G16_BLINDING_RERANDOMISED, expected));
    }
}

static g16_device *open_device(const setting *s, uint64_t budget) {
    g16_device *device;
    g16_error error;
    must("device", g16_device_open(&device, s->library, 0, budget, &error), &error);
    return device;
}

static g16_device_key *load_key(const setting *s, g16_device *device) {
    g16_device_key *key;
    g16_error error;
    must("key on the device", g16_device_key_load(device, &key, s->key, NULL, &error), &error);
    return key;
}

static void check(const setting *s, uint32_t threads) {
    uint8_t expected[BLINDING_COUNT][G16_PROOF_BYTES];
    expect_proofs(s, expected);
    for (int tables = 1; tables >= 0; tables--) {
        g16_device *device = open_device(s, 0);
        if (!tables) {
            /* Room for keys without tables and for a few proofs. */
            const uint64_t bytes = g16_device_key_bytes(device, s->key) + 4 * g16_device_proof_bytes(device, s->key);
            g16_device_close(device);
            device = open_device(s, bytes);
        }
        g16_device_key *key = load_key(s, device);
        char detail[64];
        g16_device_witness witness;
        g16_device_key_witness(key, &witness);
        report(s, witness.on_device ? "chains of the witness on the device" : "witness on the processor", witness.chains, 1);
        for (size_t i = 0; i < BLINDING_COUNT; i++) {
            snprintf(detail, sizeof detail, "blinding %zu, %s", i, tables ? "whole budget" : "small budget");
            report(s, detail, 1, same_proof(s, key, i, expected[i]));
        }
        snprintf(detail, sizeof detail, "threads at once, %s", tables ? "whole budget" : "small budget");
        report(s, detail, threads, race_all(s, key, expected, threads));
        check_batches(s, device, key, expected);
        g16_device_key_destroy(key);
        g16_device_close(device);
    }
}

#include "gpu_keys_impl.h"

/* ---- bench and soak ----------------------------------------------------------------------------------- */

static int ascending(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *values, size_t count) {
    qsort(values, count, sizeof *values, ascending);
    return values[count / 2];
}

typedef struct runner {
    const setting *s;
    g16_device_key *key;
    double until;
    uint64_t proofs;
    size_t batch;
} runner;

static void *run_until(void *argument) {
    runner *r = argument;
    const size_t size = g16_device_prove_scratch_bytes(r->s->engine, r->key);
    uint8_t *scratch = take(size), proof[G16_PROOF_BYTES];
    g16_error error;
    while (now() < r->until) {
        must("proof", g16_device_prove(r->s->engine, r->key, proof, NULL, r->s->inputs.data, r->s->count, scratch, size, NULL,
                                       &error), &error);
        r->proofs++;
    }
    free(scratch);
    return NULL;
}

static void prove_batch(const setting *s, g16_device_key *key, batch *b, uint64_t *ns) {
    must("batch", g16_device_prove_many(s->engine, key, b->proofs, b->statuses, ns, b->inputs, s->count, b->size, b->scratch,
                                        b->scratch_size, NULL, b->errors), b->errors);
    for (size_t i = 0; i < b->size; i++) must("proof of a batch", b->statuses[i], &b->errors[i]);
}

static void *run_batches_until(void *argument) {
    runner *r = argument;
    batch b = take_batch(r->s, r->key, r->batch);
    while (now() < r->until) {
        prove_batch(r->s, r->key, &b, NULL);
        r->proofs += b.size;
    }
    release_batch(&b);
    return NULL;
}

/* size: proofs of a call, 0 for those of g16_device_prove(). */
static double proofs_per_second(const setting *s, g16_device_key *key, uint32_t threads, size_t size) {
    pthread_t started[MAX_THREADS];
    runner runners[MAX_THREADS];
    const double begun = now();
    uint64_t proofs = 0;
    for (uint32_t i = 0; i < threads; i++) {
        runners[i] = (runner){s, key, begun + RATE_SECONDS, 0, size};
        if (pthread_create(&started[i], NULL, size ? run_batches_until : run_until, &runners[i]) != 0) stop("threads", NULL);
    }
    for (uint32_t i = 0; i < threads; i++) {
        pthread_join(started[i], NULL);
        proofs += runners[i].proofs;
    }
    return (double)proofs / (now() - begun);
}

static void print_stages(double stages[G16_STAGE_COUNT][REPEATS]) {
    static const char *const names[G16_STAGE_COUNT] = {"witness", "quotient", "a", "b1", "b2", "kz", "z", "assemble"};
    for (int j = 0; j < G16_STAGE_COUNT; j++) {
        if (j != G16_STAGE_MSM_B1 && j != G16_STAGE_MSM_Z) printf(", \"%s_ms\": %.3f", names[j], median(stages[j], REPEATS));
    }
}

static void bench(const setting *s, uint32_t threads) {
    g16_device *device = open_device(s, 0);
    const double begun = now();
    g16_device_key *key = load_key(s, device);
    const double loading = now() - begun;
    const size_t size = g16_device_prove_scratch_bytes(s->engine, key);
    uint8_t *scratch = take(size), proof[G16_PROOF_BYTES];
    double times[REPEATS], stages[G16_STAGE_COUNT][REPEATS];
    g16_error error;
    for (int i = -DISCARDED; i < REPEATS; i++) {
        uint64_t ns[G16_STAGE_COUNT];
        const double start = now();
        must("proof", g16_device_prove(s->engine, key, proof, ns, s->inputs.data, s->count, scratch, size, NULL, &error), &error);
        if (i < 0) continue;
        times[i] = 1e3 * (now() - start);
        for (int j = 0; j < G16_STAGE_COUNT; j++) stages[j][i] = 1e-6 * (double)ns[j];
    }
    const int ok = verifies(s, proof);
    g16_device_witness witness;
    g16_device_key_witness(key, &witness);
    failures += !ok;
    printf("{\"name\": \"gpu_proof\", \"key\": \"%s\", \"constraints\": %u, \"verified\": %s, \"key_bytes\": %zu, "
           "\"proof_bytes\": %zu, \"load_ms\": %.1f, \"ms\": %.3f",
           s->name, s->info.constraints, ok ? "true" : "false", g16_device_key_bytes(device, s->key),
           g16_device_proof_bytes(device, s->key), 1e3 * loading, median(times, REPEATS));
    print_stages(stages);
    printf(", \"witness_chains\": %u, \"chain_products\": %llu, \"bus_bytes\": %llu", witness.chains,
           (unsigned long long)witness.longest_products, (unsigned long long)witness.bus_bytes);
    printf(", \"threads\": %u, \"proofs_per_second\": %.2f}\n", threads, proofs_per_second(s, key, threads, 0));
    free(scratch);
    g16_device_key_destroy(key);
    g16_device_close(device);
}

static void rate(const setting *s, uint32_t threads) {
    g16_device *device = open_device(s, 0);
    g16_device_key *key = load_key(s, device);
    batch b = take_batch(s, key, g16_device_batch_limit(device, s->key));
    double times[REPEATS], stages[G16_STAGE_COUNT][REPEATS];
    int ok = 1;
    for (int i = -DISCARDED; i < REPEATS; i++) {
        uint64_t ns[G16_STAGE_COUNT];
        const double start = now();
        prove_batch(s, key, &b, ns);
        if (i < 0) continue;
        times[i] = 1e3 * (now() - start);
        for (int j = 0; j < G16_STAGE_COUNT; j++) stages[j][i] = 1e-6 * (double)ns[j];
    }
    for (size_t i = 0; i < b.size; i++) ok &= verifies(s, b.proofs + i * G16_PROOF_BYTES);
    failures += !ok;
    printf("{\"name\": \"gpu_prove_tput\", \"key\": \"%s\", \"constraints\": %u, \"verified\": %s, \"batch\": %zu, \"ms\": %.3f",
           s->name, s->info.constraints, ok ? "true" : "false", b.size, median(times, REPEATS));
    print_stages(stages);
    printf(", \"threads\": %u, \"proofs_per_second\": %.2f}\n", threads, proofs_per_second(s, key, threads, b.size));
    release_batch(&b);
    g16_device_key_destroy(key);
    g16_device_close(device);
}

static void soak(const setting *s, uint32_t count) {
    g16_device *device = open_device(s, 0);
    g16_device_key *key = load_key(s, device);
    const size_t size = g16_device_prove_scratch_bytes(s->engine, key);
    uint8_t *scratch = take(size), proof[G16_PROOF_BYTES];
    g16_error error;
    batch b = take_batch(s, key, g16_device_batch_limit(device, s->key));
    uint32_t made = 0, good = 0;
    for (; made < count / 2; made++) {
        must("proof", g16_device_prove(s->engine, key, proof, NULL, s->inputs.data, s->count, scratch, size, NULL, &error), &error);
        good += (uint32_t)verifies(s, proof);
    }
    for (; made < count; made += (uint32_t)b.size) {
        prove_batch(s, key, &b, NULL);
        for (size_t i = 0; i < b.size; i++) good += (uint32_t)verifies(s, b.proofs + i * G16_PROOF_BYTES);
    }
    report(s, "verified proofs in a row", good, good == made);
    release_batch(&b);
    free(scratch);
    g16_device_key_destroy(key);
    g16_device_close(device);
}

/* The prepared form of a key file for this processor, where it was made; else the file itself. */
static file prepared_or(const g16_engine *engine, const char *path, file source) {
    const char *slash = strrchr(path, '/'), *form = g16_engine_point_form(engine) == G16_POINTS_R256 ? "r256" : "r260-loose";
    char name[4096];
    const int length = snprintf(name, sizeof name, "%.*sprepared/%s.%s.prepared", slash ? (int)(slash - path + 1) : 0, path,
                                slash ? slash + 1 : path, form);
    return length > 0 && (size_t)length < sizeof name && access(name, R_OK) == 0 ? map(name) : source;
}

int main(int argc, char **argv) {
    if (argc < 5) {
        fprintf(stderr, "usage: gpu_proof check|bench|rate|soak|keys LIBRARY KEY INPUTS [NUMBER]\n");
        return 2;
    }
    const uint32_t number = argc > 5 ? (uint32_t)strtoul(argv[5], NULL, 10) : 0, threads = number < MAX_THREADS ? number : MAX_THREADS;
    const file source = map(argv[3]);
    const char *slash = strrchr(argv[3], '/');
    setting s = {.library = argv[2], .name = slash ? slash + 1 : argv[3], .inputs = map(argv[4])};
    g16_prepared_info prepared;
    g16_error error;
    s.count = s.inputs.size / 32;
    must("engine", g16_engine_create(&s.engine, 0, G16_BACKEND_AUTO, &error), &error);
    const file key_file = prepared_or(s.engine, argv[3], source);
    if (g16_prepared_describe(&prepared, key_file.data, key_file.size, NULL) == G16_OK) {
        must("key", g16_prepared_load(s.engine, &s.key, key_file.data, key_file.size, 0, NULL, &error), &error);
    } else {
        must("key", g16_key_load(s.engine, &s.key, key_file.data, key_file.size, NULL, &error), &error);
    }
    g16_key_describe(s.key, &s.info);
    if (s.count < s.info.public_inputs) stop("too few inputs", NULL);
    if (!strcmp(argv[1], "check")) {
        check(&s, number ? threads : 4);
    } else if (!strcmp(argv[1], "bench")) {
        bench(&s, number ? threads : 8);
    } else if (!strcmp(argv[1], "rate")) {
        rate(&s, number ? threads : 3);
    } else if (!strcmp(argv[1], "soak")) {
        soak(&s, number ? number : 10000);
    } else if (!strcmp(argv[1], "keys")) {
        check_keys(&s, source);
    } else {
        stop(argv[1], NULL);
    }
    g16_key_destroy(s.key);
    g16_engine_destroy(s.engine);
    return failures != 0;
}
