/* testing_chains.c - witnesses solved by the device code, run by the host, compared with the CPU's. Part of libgroth16_testing.so
 * only. */
#include <stdlib.h>
#include <string.h>

#include "base/backend.h"
#include "base/thread_pool.h"
#include "key/key.h"
#include "gpu/chains.h"

#define T_CS __attribute__((visibility("default")))

/* testing_constraint_system.c, testing_cuda_runs.c. */
const g16_backend *t_cs_backend(uint32_t choice);
int32_t t_cuda_witness(uint8_t *wires, uint8_t *a, uint8_t *b, const device_abi_chains *chains, const device_abi_inputs *inputs,
                       const uint32_t shape[4]);

/* In the order of the fields of Chains in the tests. */
enum { COUNTED = 11 };

/* Cuts a system; NULL and the reason where the CPU keeps it. forced: whatever it costs. */
T_CS cs_chains *t_chains_make(const constraint_system *cs, uint32_t domain_log2, uint32_t forced, char reason[CS_CHAINS_REASON],
                              uint64_t counts[COUNTED]) {
    cs_chains *chains = NULL;
    if (cs_chains_build(&chains, cs, domain_log2, (int)forced, reason, NULL, NULL) != G16_OK || !chains) return NULL;
    const device_abi_chains *device = &chains->device;
    const uint64_t found[COUNTED] = {chains->chains, device->shapes_count, chains->device_rows, device->parts[0].rows, device->parts[1].rows,
                                     device->checks_count, chains->products, chains->longest_products, cs_chains_values(chains),
                                     device->parts[0].wires, device->parts[1].wires};
    memcpy(counts, found, sizeof found);
    return chains;
}

T_CS void t_chains_free(cs_chains *chains) { cs_chains_free(chains); }

typedef struct rest {
    const constraint_system *cs;
    const cs_chains *chains;
    const g16_backend *backend;
    thread_pool *pool;
    fr *wires, *a, *b, *values[2];
    int failed;
} rest;

static int solve_part(rest *r, uint32_t part) {
    const int solved = r->backend->solve_part(r->chains, part, r->cs, r->pool, r->wires, r->a, r->b, r->values[part], NULL);
    r->failed |= !solved;
    return 1; /* values of rows that do not hold are compared, too */
}

static int solve_rest(void *context) { return solve_part(context, 1); }

static uint64_t differing(const fr *x, const fr *y, size_t count) {
    uint64_t found = 0;
    for (size_t i = 0; i < count; i++) found += !fr_equal(&x[i], &y[i]);
    return found;
}

/* Solves on both sides, and counts the values that differ: of wires, a and b. failed: rows that do not hold, on the CPU, in a
 * part, on the device (witness_outcome). 0 when there was no memory or the inputs were refused. */
T_CS uint32_t t_chains_differing(const constraint_system *cs, const cs_chains *chains, uint32_t domain_log2, uint32_t choice,
                                 uint32_t threads, uint32_t order, const uint8_t *inputs, size_t count, uint64_t found[3],
                                 int32_t failed[3]) {
    const g16_backend *backend = t_cs_backend(choice);
    const size_t n = (size_t)1 << domain_log2, wires = cs->wires, rows = cs->constraints;
    const size_t values = cs_chains_values(chains), all = 3 * wires + 4 * rows + 2 * n + values;
    thread_pool *pool = NULL;
    fr *memory = calloc(all, sizeof *memory);
    g16_status status = memory ? thread_pool_create(&pool, threads) : G16_OUT_OF_MEMORY;
    if (status == G16_OK) {
        fr *expected = memory, *made = expected + wires + 2 * rows, *given = made + wires + 2 * n;
        rest r = {cs, chains, backend, pool, given + values, given + values + wires, given + values + wires + rows,
                  {given + chains->device.inputs, NULL}, 0};
        r.values[1] = r.values[0] + device_abi_part_values(&chains->device.parts[0]);
        status = backend->solve(cs, pool, expected, expected + wires, expected + wires + rows, NULL, inputs, count, NULL, NULL);
        failed[0] = status == G16_UNSATISFIED_CONSTRAINT;
        if (failed[0]) status = G16_OK;
        if (status == G16_OK) status = backend->read_inputs(cs, r.wires, inputs, count, NULL);
        if (status == G16_OK) {
            const device_abi_inputs to_device = {given, {r.values[0], r.values[1]}, solve_rest, &r};
            const uint32_t shape[4] = {(uint32_t)wires, (uint32_t)rows, domain_log2, order};
            memcpy(given, r.wires, chains->device.inputs * sizeof *given);
            solve_part(&r, 0);
            failed[2] = t_cuda_witness((uint8_t *)made, (uint8_t *)(made + wires), (uint8_t *)(made + wires + n), &chains->device,
                                       &to_device, shape);
            failed[1] = r.failed;
            found[0] = differing(expected, made, wires);
            found[1] = differing(expected + wires, made + wires, rows);
            found[2] = differing(expected + wires + rows, made + wires + n, rows);
            for (size_t i = rows; i < n; i++) { /* nothing is left behind the rows */
                found[1] += !fr_is_zero(&made[wires + i]);
                found[2] += !fr_is_zero(&made[wires + n + i]);
            }
        }
        thread_pool_destroy(pool);
    }
    free(memory);
    return status == G16_OK;
}
