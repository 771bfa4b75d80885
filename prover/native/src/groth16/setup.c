/* groth16/setup.c - handles of the trusted setup: reads the constraint system and computes the layout of the key file (format
 * version 0.14). groth16/setup_impl.h has the arithmetic. */
#include "groth16/setup.h"

#include <stdlib.h>
#include <string.h>

#include "base/random.h"
#include "gnark/reader.h"
#include "key/key.h"

#define G1_BYTES 32
#define G2_BYTES 64
#define DOMAIN_BYTES (8 + 5 * 32 + 1)
#define MAX_DOMAIN_LOG2 27

static void mark_wires(const constraint_system *cs, uint32_t expression, uint8_t *used) {
    for (uint32_t t = cs->expression_start[expression]; t < cs->expression_start[expression + 1]; t++) {
        if (cs->terms[t].coefficient != 0) used[cs->terms[t].wire] = 1;
    }
}

static uint32_t count_marks(const uint8_t *used, uint32_t wires) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < wires; i++) count += used[i];
    return count;
}

static size_t slice_bytes(size_t count, size_t point) { return 4 + count * point; }

static void lay_out(g16_setup *s) {
    const constraint_system *cs = &s->cs;
    size_t at = 4 * (size_t)s->header_words;
    s->domain_at = at, at += DOMAIN_BYTES;
    s->singles_at = at, at += 3 * G1_BYTES;
    s->a_at = at, at += slice_bytes(s->a_count, G1_BYTES);
    s->b_at = at, at += slice_bytes(s->b_count, G1_BYTES);
    s->z_at = at, at += slice_bytes(setup_z_count(s), G1_BYTES);
    s->k_at = at, at += slice_bytes(setup_private_wires(s), G1_BYTES);
    s->singles2_at = at, at += 2 * G2_BYTES;
    s->b2_at = at, at += slice_bytes(s->b_count, G2_BYTES);
    s->maps_at = at, at += 3 * 8 + 2 * (size_t)cs->wires + 4;
    s->vk_at = at, at += 3 * G1_BYTES + 3 * G2_BYTES + slice_bytes(cs->public_wires, G1_BYTES) + 8;
    s->system_at = at, at += s->system_bytes;
    s->bytes = at;
}

g16_status g16_setup_create(g16_engine *engine, g16_setup **setup, const uint8_t *system, size_t size,
                            const uint32_t *header, uint32_t header_words, const g16_cancel *cancel,
                            g16_error *error) {
    if (!engine || !setup || !system || !header || (header_words != 2 && header_words != 4)) {
        return g16_fail(error, G16_INVALID_ARGUMENT, 0, "a setup takes a constraint system and 2 or 4 header words");
    }
    g16_setup *s = calloc(1, sizeof *s);
    if (!s) return g16_fail(error, G16_OUT_OF_MEMORY, 0, "no memory for a setup");
    g16_status status = constraint_system_read(&s->cs, system, size, 0, G16_FORMAT_0_14, cancel, error);
    if (status != G16_OK) {
        free(s);
        return status;
    }
    const constraint_system *cs = &s->cs;
    s->system = system;
    s->system_bytes = size;
    s->header_words = header_words;
    memcpy(s->header, header, header_words * sizeof *header);
    while (((uint64_t)1 << s->domain_log2) < cs->constraints) s->domain_log2++;
    s->in_a = calloc(2, cs->wires);
    if (!s->in_a || s->domain_log2 < 1 || s->domain_log2 > MAX_DOMAIN_LOG2) {
        status = s->in_a ? g16_fail(error, G16_UNSUPPORTED_KEY, 0, "a setup takes 2 to 2^%d constraints", MAX_DOMAIN_LOG2)
                         : g16_fail(error, G16_OUT_OF_MEMORY, 0, "no memory for the wire maps of a setup");
        g16_setup_destroy(s);
        return status;
    }
    s->in_b = s->in_a + cs->wires;
    for (uint32_t i = 0; i < cs->constraints; i++) {
        mark_wires(cs, cs->rows[i].left, s->in_a);
        mark_wires(cs, cs->rows[i].right, s->in_b);
    }
    s->a_count = count_marks(s->in_a, cs->wires);
    s->b_count = count_marks(s->in_b, cs->wires);
    lay_out(s);
    *setup = s;
    return G16_OK;
}

void g16_setup_destroy(g16_setup *setup) {
    if (!setup) return;
    constraint_system_free(&setup->cs);
    free(setup->in_a);
    free(setup);
}

size_t g16_setup_key_bytes(const g16_setup *setup) { return setup->bytes; }

size_t g16_setup_verifying_key_offset(const g16_setup *setup) { return setup->vk_at; }

g16_status g16_setup_run(g16_engine *engine, const g16_setup *setup, uint8_t *key_file, size_t size,
                         const uint8_t *secrets, uint32_t *progress, const g16_cancel *cancel, g16_error *error) {
    if (!engine || !setup || !key_file || size != setup->bytes) {
        return g16_fail(error, G16_INVALID_ARGUMENT, 0, "the key file takes exactly g16_setup_key_bytes() bytes");
    }
    uint8_t fresh[SETUP_SECRETS][32];
    g16_status status = G16_OK;
    if (secrets) {
        memcpy(fresh, secrets, sizeof fresh);
    } else {
        for (int i = 0; i < SETUP_SECRETS && status == G16_OK; i++) {
            do {
                status = os_random_scalar(fresh[i]);
            } while (status == G16_OK && os_random_is_zero(fresh[i]));
        }
        if (status != G16_OK) {
            g16_fail(error, status, 0, "the operating system gave no random bytes for the secrets of the setup");
        }
    }
    if (status == G16_OK) {
        status = engine->backend->setup(setup, engine->pool, key_file, fresh[0], progress, cancel, error);
    }
    os_random_wipe(fresh, sizeof fresh);
    return status;
}
