/* gpu_proof.c - whole proofs on a GPU: compared with those of the CPU, and their time.
 *
 * gpu_proof check|tunings|devices|bench|rate|soak LIBRARY KEY INPUTS [NUMBER [PREDICTED]]
 *   check   bit for bit the CPU's proofs for given blinding, with tables of bases and without; batches of several sizes, in
 *           which one proof fails; then NUMBER (4) threads at once
 *   tunings the same under each of gpu_tunings.h, and a refusal of one out of range
 *   devices the same on every GPU, alone and at once; where there is one GPU, a line that reports it
 *   bench   milliseconds of a proof, witness to bytes, one at a time, next to those that are PREDICTED; then proofs per second of
 *           NUMBER (8) threads
 *   rate    milliseconds of the largest batch; then proofs per second of NUMBER (3) threads that make such batches
 *   soak    NUMBER (10000) proofs in a row, the second half in batches, each of them verified
 * LIBRARY: libgroth16_cuda.so. KEY: a key file or a prepared one; the prepared key of a key file is used if the folder `prepared`
 * next to it has one. INPUTS: public, then secret inputs, 32 bytes each, big-endian.
 * Prints one JSON object per result; exit code 1 when a check failed.
 */
#define _GNU_SOURCE
#include "gpu_proof_setting.h"

#define REPEATS 20
#define DISCARDED 3
#define RATE_SECONDS 10.0

#include "gpu_proof_checks_impl.h"
#include "gpu_proof_tunings_impl.h"

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

static void prove_batch(const setting *s, g16_device_key *key, batch *b, uint64_t *ns) {
    must("batch", g16_device_prove(s->engine, key, b->proofs, b->statuses, ns, NULL, b->inputs, s->count, b->size, b->scratch,
                                   b->scratch_size, NULL, b->errors), b->errors);
    for (size_t i = 0; i < b->size; i++) must("proof of a batch", b->statuses[i], &b->errors[i]);
}

static void *run_until(void *argument) {
    runner *r = argument;
    batch b = take_batch(r->s, r->key, r->batch);
    while (now() < r->until) {
        prove_batch(r->s, r->key, &b, NULL);
        r->proofs += b.size;
    }
    release_batch(&b);
    return NULL;
}

/* size: proofs of a call. */
static double proofs_per_second(const setting *s, g16_device_key *key, uint32_t threads, size_t size) {
    pthread_t started[MAX_THREADS];
    runner runners[MAX_THREADS];
    const double begun = now();
    uint64_t proofs = 0;
    for (uint32_t i = 0; i < threads; i++) {
        runners[i] = (runner){s, key, begun + RATE_SECONDS, 0, size};
        if (pthread_create(&started[i], NULL, run_until, &runners[i]) != 0) stop("threads", NULL);
    }
    for (uint32_t i = 0; i < threads; i++) {
        pthread_join(started[i], NULL);
        proofs += runners[i].proofs;
    }
    return (double)proofs / (now() - begun);
}

static void print_stages(double stages[G16_STAGE_COUNT][REPEATS]) {
    static const char *const names[G16_STAGE_COUNT] = {
        [G16_STAGE_WITNESS] = "witness", [G16_STAGE_QUOTIENT] = "quotient", [G16_STAGE_MSM_A] = "a",
        [G16_STAGE_MSM_B2] = "b2", [G16_STAGE_MSM_K] = "kz", [G16_STAGE_ASSEMBLE] = "assemble"}; /* the others are not timed alone */
    for (int j = 0; j < G16_STAGE_COUNT; j++) {
        if (names[j]) printf(", \"%s_ms\": %.3f", names[j], median(stages[j], REPEATS));
    }
}

static void bench(const setting *s, uint32_t threads, const char *predicted) {
    g16_device *device = open_device(s, 0);
    const double begun = now();
    g16_device_key *key = load_key(s, device);
    const double loading = now() - begun;
    batch b = take_batch(s, key, 1);
    double times[REPEATS], stages[G16_STAGE_COUNT][REPEATS];
    for (int i = -DISCARDED; i < REPEATS; i++) {
        uint64_t ns[G16_STAGE_COUNT];
        const double start = now();
        prove_batch(s, key, &b, ns);
        if (i < 0) continue;
        times[i] = 1e3 * (now() - start);
        for (int j = 0; j < G16_STAGE_COUNT; j++) stages[j][i] = 1e-6 * (double)ns[j];
    }
    const int ok = verifies(s, b.proofs);
    const g16_device_sizes sizes = sizes_of(s, device);
    g16_device_witness witness;
    g16_device_key_witness(key, &witness);
    failures += !ok;
    printf("{\"name\": \"gpu_proof\", \"key\": \"%s\", \"constraints\": %u, \"verified\": %s, \"key_bytes\": %zu, "
           "\"proof_bytes\": %zu, \"load_ms\": %.1f, \"ms\": %.3f",
           s->name, s->info.constraints, ok ? "true" : "false", (size_t)sizes.key_bytes,
           (size_t)sizes.proof_bytes, 1e3 * loading, median(times, REPEATS));
    if (predicted) printf(", \"predicted_ms\": %.1f", strtod(predicted, NULL));
    print_stages(stages);
    printf(", \"witness_chains\": %u, \"chain_products\": %llu, \"bus_bytes\": %llu", witness.chains,
           (unsigned long long)witness.longest_products, (unsigned long long)witness.bus_bytes);
    printf(", \"threads\": %u, \"proofs_per_second\": %.2f}\n", threads, proofs_per_second(s, key, threads, 1));
    release_batch(&b);
    g16_device_key_destroy(key);
    g16_device_close(device);
}

static void rate(const setting *s, uint32_t threads) {
    g16_device *device = open_device(s, 0);
    g16_device_key *key = load_key(s, device);
    batch b = take_batch(s, key, sizes_of(s, device).batch_limit);
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
    batch alone = take_batch(s, key, 1), b = take_batch(s, key, sizes_of(s, device).batch_limit);
    uint32_t made = 0, good = 0;
    for (; made < count / 2; made++) {
        prove_batch(s, key, &alone, NULL);
        good += (uint32_t)verifies(s, alone.proofs);
    }
    for (; made < count; made += (uint32_t)b.size) {
        prove_batch(s, key, &b, NULL);
        for (size_t i = 0; i < b.size; i++) good += (uint32_t)verifies(s, b.proofs + i * G16_PROOF_BYTES);
    }
    report(s, "verified proofs in a row", good, good == made);
    release_batch(&b);
    release_batch(&alone);
    g16_device_key_destroy(key);
    g16_device_close(device);
}

/* Returns the prepared key of a key file for this CPU, if it exists; else the file itself. */
static file prepared_or(const g16_engine *engine, const char *path, file source) {
    const char *slash = strrchr(path, '/'), *form = g16_engine_point_format(engine) == G16_POINTS_R256 ? "r256" : "r260-loose";
    char name[4096];
    const int length = snprintf(name, sizeof name, "%.*sprepared/%s.%s.prepared", slash ? (int)(slash - path + 1) : 0, path,
                                slash ? slash + 1 : path, form);
    return length > 0 && (size_t)length < sizeof name && access(name, R_OK) == 0 ? map(name) : source;
}

int main(int argc, char **argv) {
    if (argc < 5) {
        fprintf(stderr, "usage: gpu_proof check|tunings|devices|bench|rate|soak LIBRARY KEY INPUTS [NUMBER [PREDICTED]]\n");
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
    } else if (!strcmp(argv[1], "tunings")) {
        check_tunings(&s);
    } else if (!strcmp(argv[1], "devices")) {
        check_devices(&s);
    } else if (!strcmp(argv[1], "bench")) {
        bench(&s, number ? threads : 8, argc > 6 ? argv[6] : NULL);
    } else if (!strcmp(argv[1], "rate")) {
        rate(&s, number ? threads : 3);
    } else if (!strcmp(argv[1], "soak")) {
        soak(&s, number ? number : 10000);
    } else {
        stop(argv[1], NULL);
    }
    g16_key_destroy(s.key);
    g16_engine_destroy(s.engine);
    return failures != 0;
}
