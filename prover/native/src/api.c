/* api.c - the public functions that create engines and proofs. key/load.c has those for keys. */
#define _GNU_SOURCE
#include <sched.h>
#include <stdlib.h>
#include <unistd.h>

#include "simd/cpu.h"
#include "base/random.h"
#include "key/key.h"
#include "groth16/blinding.h"

const char *g16_version(void) { return G16_VERSION; }

static uint32_t cpus_available(void) {
#if defined(__linux__)
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) == 0) {
        int count = CPU_COUNT(&set);
        if (count > 0) return (uint32_t)count;
    }
#endif
    long online = sysconf(_SC_NPROCESSORS_ONLN);
    return online > 0 ? (uint32_t)online : 1;
}

/* Returns the fastest backend that the choice allows and this CPU supports, or NULL. */
static const g16_backend *choose_backend(g16_backend_choice choice) {
    const int any = choice == G16_BACKEND_AUTO;
#if defined(__x86_64__)
    const cpu_support cpu = cpu_supports();
#if !defined(G16_WITHOUT_LANES)
    const int avx512 = g16_backend_avx512.emulated ? cpu.avx2 && !any : cpu.avx512;
#if !defined(G16_WITHOUT_IFMA)
    const int ifma = avx512 && (g16_backend_ifma.emulated ? !any : cpu.ifma);
    if ((any || choice == G16_BACKEND_IFMA) && ifma) return &g16_backend_ifma;
#endif
    if ((any || choice == G16_BACKEND_AVX512) && avx512) return &g16_backend_avx512;
    if ((any || choice == G16_BACKEND_AVX2) && cpu.avx2) return &g16_backend_avx2;
#endif
    if ((any || choice == G16_BACKEND_ADX) && cpu.adx) return &g16_backend_adx;
#endif
#if defined(__aarch64__)
    if (any || choice == G16_BACKEND_AARCH64) return &g16_backend_aarch64;
#endif
    return any || choice == G16_BACKEND_PORTABLE ? &g16_backend_portable : NULL;
}

#define MAX_THREADS 1024

g16_status g16_engine_create(g16_engine **engine, uint32_t threads, g16_backend_choice backend,
                             g16_error *error) {
    if (!engine || threads > MAX_THREADS) {
        return g16_fail(error, G16_INVALID_ARGUMENT, 0, "threads must be at most %d", MAX_THREADS);
    }
    g16_engine *made = calloc(1, sizeof *made);
    if (!made) return g16_fail(error, G16_OUT_OF_MEMORY, 0, "no memory for an engine");
    made->backend = choose_backend(backend);
    if (!made->backend) {
        free(made);
        return g16_fail(error, G16_INVALID_ARGUMENT, 0, "this CPU does not support the chosen backend");
    }
    uint32_t size = threads ? threads : cpus_available();
    if (size > MAX_THREADS) size = MAX_THREADS;
    g16_status status = thread_pool_create(&made->pool, size);
    if (status != G16_OK) {
        free(made);
        return g16_fail(error, status, 0, "the system refused to start %u threads", size);
    }
    *engine = made;
    return G16_OK;
}

void g16_engine_destroy(g16_engine *engine) {
    if (!engine) return;
    thread_pool_destroy(engine->pool);
    free(engine);
}

const char *g16_engine_backend(const g16_engine *engine) { return engine->backend->name; }

g16_point_format g16_engine_point_format(const g16_engine *engine) { return engine->backend->point_format; }

uint32_t g16_engine_threads(const g16_engine *engine) { return thread_pool_threads(engine->pool); }

size_t g16_prove_scratch_bytes(const g16_engine *engine, const g16_key *key) {
    return key->backend->prove_scratch_bytes(key, thread_pool_threads(engine->pool));
}

static g16_status check_pair(const g16_engine *engine, const g16_key *key, g16_error *error) {
    return engine && key ? G16_OK : g16_fail(error, G16_INVALID_ARGUMENT, 0, "engine or key is missing");
}

g16_status g16_prove(g16_engine *engine, const g16_key *key, uint8_t *proof, uint64_t *stage_ns, const uint8_t *blinding,
                     const uint8_t *inputs, size_t count, void *scratch, size_t scratch_size, const g16_cancel *cancel,
                     g16_error *error) {
    g16_status status = check_pair(engine, key, error);
    if (status != G16_OK) return status;
    if (!proof || (!inputs && count) || !scratch) {
        return g16_fail(error, G16_INVALID_ARGUMENT, 0, "a required buffer is missing");
    }
    uint8_t drawn[BLINDING_BYTES];
    if (!blinding) status = blinding_draw(drawn, error);
    if (status == G16_OK) {
        status = key->backend->prove(key, engine->pool, proof, stage_ns, blinding ? blinding : drawn, inputs, count, scratch,
                                     scratch_size, cancel, error);
    }
    os_random_wipe(drawn, sizeof drawn);
    return status;
}

g16_status g16_solve(g16_engine *engine, const g16_key *key, uint8_t *wires, uint8_t *a, uint8_t *b, uint8_t *c,
                     const uint8_t *inputs, size_t count, const g16_cancel *cancel, g16_error *error) {
    g16_status status = check_pair(engine, key, error);
    if (status != G16_OK) return status;
    if (!inputs && count) return g16_fail(error, G16_INVALID_ARGUMENT, 0, "a required buffer is missing");
    const size_t rows = key->cs.constraints;
    fr *memory = malloc((key->cs.wires + 3 * rows) * sizeof(fr));
    if (!memory) return g16_fail(error, G16_OUT_OF_MEMORY, 0, "no memory for the witness");
    fr *row_a = memory + key->cs.wires, *row_b = row_a + rows, *row_c = row_b + rows;
    status = key->backend->solve(&key->cs, engine->pool, memory, row_a, row_b, row_c, inputs, count, cancel, error);
    if (status == G16_OK) {
        if (wires) key->backend->fr_to_bytes(wires, memory, key->cs.wires);
        if (a) key->backend->fr_to_bytes(a, row_a, rows);
        if (b) key->backend->fr_to_bytes(b, row_b, rows);
        if (c) key->backend->fr_to_bytes(c, row_c, rows);
    }
    free(memory);
    return status;
}

g16_status g16_verify(g16_engine *engine, const g16_vk *vk, const uint8_t *proof, const uint8_t *public_inputs,
                      size_t count, g16_error *error) {
    if (!engine || !vk || !proof || (!public_inputs && count)) {
        return g16_fail(error, G16_INVALID_ARGUMENT, 0, "a required buffer or handle is missing");
    }
    return vk->backend->verify(vk, engine->pool, proof, public_inputs, count, error);
}
