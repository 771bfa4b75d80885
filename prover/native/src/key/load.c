/* key/load.c - loads whole key files and separate verifying keys: wrapper, format version, cross-checks, ownership of memory.
 *
 * A key file is Light Protocol's wrapper of 2 or 4 words, gnark's proving key, its verifying key and its constraint system.
 */
#include <stdlib.h>
#include <string.h>

#include "field/mont256.h"
#include "r1cs/shorten.h"
#include "gnark/reader.h"
#include "key/key.h"

#define MERKLE_WRAPPER_BYTES 16
#define BATCH_WRAPPER_BYTES 8
#define DOMAIN_BYTES 168

static uint32_t load_u32(const uint8_t *in) {
    return (uint32_t)in[0] << 24 | (uint32_t)in[1] << 16 | (uint32_t)in[2] << 8 | in[3];
}

/* ---- wrapper ------------------------------------------------------------------------ */

/* A file does not state its format. The domain block, recognised by n * (1/n) = 1, follows a wrapper of 8 or 16 bytes. The byte
 * after the block is a flag 0 or 1 in format version 0.14, or the first byte of a point in 0.8. */
static g16_status read_wrapper(g16_key *key, byte_reader *reader, g16_error *error) {
    static const size_t lengths[2] = {BATCH_WRAPPER_BYTES, MERKLE_WRAPPER_BYTES};
    for (int i = 0; i < 2; i++) {
        size_t length = lengths[i];
        if (reader->size <= length + DOMAIN_BYTES) break;
        if (!key->backend->is_domain(reader->data + length)) continue;
        for (size_t word = 0; word < length / 4; word++) key->info.header[word] = load_u32(reader->data + 4 * word);
        key->info.header_words = (uint32_t)(length / 4);
        key->info.format_version = reader->data[length + DOMAIN_BYTES] <= 1 ? G16_FORMAT_0_14 : G16_FORMAT_0_8;
        key->info.proving_key_offset = length;
        reader->offset = length;
        return G16_OK;
    }
    return g16_fail(error, G16_MALFORMED_KEY, 0, "this is not a key file: no evaluation domain at byte 8 or 16");
}

/* ---- the circuit -------------------------------------------------------------------- */

/* Recognises kind and version by the wrapper, the number of public wires and the number of secret inputs; h is the tree height, k
 * the number of accounts or the batch size. Sums of 64-bit products of 32-bit fields cannot overflow here, except h * k, which is
 * bounded first. */
static void recognise_batch(g16_key_info *info, uint32_t batch_kind) {
    uint64_t height = info->header[0], batch = info->header[1], secret = 0;
    if (info->public_inputs != 1 || height > 256 || batch == 0) return;
    switch (batch_kind) {
    case G16_CIRCUIT_BATCH_APPEND: secret = 4 + (2 + height) * batch; break;
    case G16_CIRCUIT_BATCH_UPDATE: secret = 3 + (4 + height) * batch; break;
    case G16_CIRCUIT_BATCH_ADDRESS_APPEND: secret = 4 + (4 + 2 * height) * batch; break;
    default: return;
    }
    if (secret != info->secret_inputs) return;
    info->kind = batch_kind;
    info->version = 2;
}

static void recognise_merkle(g16_key_info *info) {
    uint64_t in_height = info->header[0], in_count = info->header[1];
    uint64_t out_height = info->header[2], out_count = info->header[3];
    uint32_t kind;
    if (in_height > 256 || out_height > 256) return;
    if (in_count && !out_count && !out_height) {
        kind = G16_CIRCUIT_INCLUSION;
    } else if (out_count && !in_count && !in_height) {
        kind = G16_CIRCUIT_NON_INCLUSION;
    } else if (in_count && out_count) {
        kind = G16_CIRCUIT_COMBINED;
    } else {
        return;
    }
    if (info->public_inputs == 2 * (in_count + out_count) &&
        info->secret_inputs == (1 + in_height) * in_count + (4 + out_height) * out_count) {
        info->kind = kind;
        info->version = 1;
    } else if (info->public_inputs == 1 &&
               info->secret_inputs == (3 + in_height) * in_count + (5 + out_height) * out_count) {
        info->kind = kind;
        info->version = 2;
    }
}

/* ---- cross-checks -------------------------------------------------------------------- */

static g16_status check_copies(const g16_key *key, g16_error *error) {
    const proving_key *pk = &key->pk;
    const g16_vk *vk = &key->vk;
    const char *different = NULL;
    if (memcmp(&pk->alpha, &vk->alpha, sizeof pk->alpha) != 0) different = "alpha";
    if (memcmp(&pk->beta, &vk->beta, sizeof pk->beta) != 0) different = "beta";
    if (memcmp(&pk->delta, &vk->delta, sizeof pk->delta) != 0) different = "delta";
    if (memcmp(&pk->beta2, &vk->beta2, sizeof pk->beta2) != 0) different = "beta2";
    if (memcmp(&pk->delta2, &vk->delta2, sizeof pk->delta2) != 0) different = "delta2";
    if (!different) return G16_OK;
    return g16_fail(error, G16_MALFORMED_KEY, key->info.verifying_key_offset,
                    "verifying key: %s is not the one of the proving key", different);
}

static g16_status check_counts(const g16_key *key, g16_error *error) {
    const constraint_system *cs = &key->cs;
    uint64_t offset = key->info.constraint_system_offset;
    if (cs->wires != key->info.wires) {
        return g16_fail(error, G16_MALFORMED_KEY, offset, "the constraint system has %u wires, the proving key %u",
                        cs->wires, key->info.wires);
    }
    if (cs->public_wires != key->vk.k_count) {
        return g16_fail(error, G16_MALFORMED_KEY, offset, "the constraint system has %u public wires, the verifying key %u",
                        cs->public_wires, key->vk.k_count);
    }
    if (cs->wires - cs->public_wires != key->pk.k_count) {
        return g16_fail(error, G16_MALFORMED_KEY, offset, "the constraint system has %u private wires, the proving key %u",
                        cs->wires - cs->public_wires, key->pk.k_count);
    }
    uint64_t domain = 1;
    while (domain < cs->constraints) domain *= 2;
    if (domain != key->info.domain_size) {
        return g16_fail(error, G16_MALFORMED_KEY, offset, "the domain does not fit %u constraints", cs->constraints);
    }
    return G16_OK;
}

/* The wires used on left (or right) sides must be those for which the proving key has points. used: one byte per wire; seen: one
 * byte per expression. */
static g16_status check_used_wires(const g16_key *key, int right, uint8_t *used, uint8_t *seen, g16_error *error) {
    const constraint_system *cs = &key->cs;
    const uint32_t *present = right ? key->pk.b_wires : key->pk.a_wires;
    uint32_t count = right ? key->pk.b_count : key->pk.a_count, next = 0;
    memset(used, 0, cs->wires);
    memset(seen, 0, cs->expressions);
    for (uint32_t i = 0; i < cs->constraints; i++) {
        uint32_t expression = right ? cs->rows[i].right : cs->rows[i].left;
        if (seen[expression]) continue;
        seen[expression] = 1;
        for (uint32_t j = cs->expression_start[expression]; j < cs->expression_start[expression + 1]; j++) {
            if (!mont256_is_zero(cs->coefficients[cs->terms[j].coefficient].v)) used[cs->terms[j].wire] = 1;
        }
    }
    for (uint32_t i = 0; i < cs->wires; i++) {
        int has_point = next < count && present[next] == i;
        next += has_point;
        if (has_point != used[i]) {
            return g16_fail(error, G16_MALFORMED_KEY, key->info.constraint_system_offset,
                            "infinity map %s does not fit the constraints: wire %u is %s", right ? "B" : "A", i,
                            used[i] ? "used but absent" : "present but not used");
        }
    }
    return G16_OK;
}

static g16_status check_infinity_maps(const g16_key *key, g16_error *error) {
    uint8_t *used = malloc(key->cs.wires + (size_t)key->cs.expressions + 1);
    if (!used) return g16_fail(error, G16_OUT_OF_MEMORY, 0, "no memory for checking the infinity maps");
    g16_status status = check_used_wires(key, 0, used, used + key->cs.wires, error);
    if (status == G16_OK) status = check_used_wires(key, 1, used, used + key->cs.wires, error);
    free(used);
    return status;
}

/* ---- keys ----------------------------------------------------------------------------- */

void g16_key_fill_info(g16_key *key, uint64_t file_bytes) {
    g16_key_info *info = &key->info;
    const constraint_system *cs = &key->cs;
    const proving_key *pk = &key->pk;
    info->constraints = cs->constraints;
    info->public_inputs = cs->public_wires - 1;
    info->secret_inputs = cs->secret_wires;
    info->internal_wires = cs->internal_wires;
    info->coefficients = cs->coefficients_count;
    info->instructions = cs->instructions_count;
    info->hints = cs->hints_count;
    info->terms = cs->file_terms;
    info->file_bytes = file_bytes;
    info->kind = G16_CIRCUIT_OTHER;
    if (info->header_words == BATCH_WRAPPER_BYTES / 4) {
        recognise_batch(info, cs->batch_kind);
    } else {
        recognise_merkle(info);
    }
    uint64_t g1_points = (uint64_t)pk->a_count + pk->b_count + pk->k_count + key->info.domain_size + key->vk.k_count;
    info->resident_bytes = sizeof *key + g1_points * sizeof(g1_affine) + pk->b_count * (uint64_t)sizeof(g2_affine) +
                           ((uint64_t)pk->a_count + pk->b_count) * sizeof(uint32_t) +
                           (pk->domain_log2 > SMALL_ROOTS_LOG2 ? info->domain_size * sizeof(fr) : 0) +
                           wire_groups_bytes(&key->groups) + constraint_system_bytes(cs) +
                           cs_short_forms_bytes(&cs->short_forms, cs->expressions);
}

static g16_status load_sections(g16_key *key, thread_pool *pool, const uint8_t *data, size_t size,
                                const g16_cancel *cancel, g16_error *error) {
    byte_reader reader = {.data = data, .size = size, .pool = pool, .cancel = cancel, .error = error, .status = G16_OK};
    g16_status status = read_wrapper(key, &reader, error);
    if (status == G16_OK) status = key->backend->read_proving_key(key, &reader);
    if (status != G16_OK) return status;

    key->info.verifying_key_offset = reader.offset;
    key->vk.backend = key->backend;
    key->vk.format_version = (g16_format_version)key->info.format_version;
    status = key->backend->read_verifying_key(&key->vk, &reader);
    if (status == G16_OK) status = check_copies(key, error);
    if (status != G16_OK) return status;

    key->info.constraint_system_offset = reader.offset;
    status = constraint_system_read(&key->cs, data + reader.offset, size - reader.offset, reader.offset,
                                    key->vk.format_version, cancel, error);
    if (status == G16_OK) status = check_counts(key, error);
    if (status == G16_OK) status = check_infinity_maps(key, error);
    if (status == G16_OK) status = constraint_system_shorten(&key->cs, cancel, error);
    if (status == G16_OK) status = g16_key_order_bases(key, error);
    if (status == G16_OK) status = g16_key_group_wires(key, error);
    if (status != G16_OK) return status;

    fr *roots = NULL;
    if (key->pk.domain_log2 > SMALL_ROOTS_LOG2) {
        roots = malloc(key->info.domain_size * sizeof *roots);
        if (!roots) return g16_fail(error, G16_OUT_OF_MEMORY, 0, "no memory for the evaluation domain");
    }
    status = key->backend->prepare_key(key, roots, pool, cancel);
    if (status != G16_OK) return g16_fail(error, status, 0, "cancelled while loading a key");
    g16_key_fill_info(key, size);
    return G16_OK;
}

g16_status g16_key_load(g16_engine *engine, g16_key **key, const uint8_t *data, size_t size,
                        const g16_cancel *cancel, g16_error *error) {
    if (!engine || !key || !data) return g16_fail(error, G16_INVALID_ARGUMENT, 0, "an argument is missing");
    *key = NULL;
    g16_key *loaded = calloc(1, sizeof *loaded);
    if (!loaded) return g16_fail(error, G16_OUT_OF_MEMORY, 0, "no memory for a key");
    loaded->backend = engine->backend;
    g16_status status = load_sections(loaded, engine->pool, data, size, cancel, error);
    if (status != G16_OK) {
        g16_key_destroy(loaded);
        return status;
    }
    *key = loaded;
    return G16_OK;
}

void g16_key_destroy(g16_key *key) {
    if (!key) return;
    wire_groups_free(&key->groups);
    if (key->is_prepared) {
        cs_short_forms_free(&key->cs.short_forms);
        free(key);
        return;
    }
    proving_key *pk = &key->pk;
    free(pk->a_wires);
    free(pk->b_wires);
    free(pk->a);
    free(pk->b1);
    free(pk->k);
    free(pk->z);
    free(pk->b2);
    if (pk->domain_log2 > SMALL_ROOTS_LOG2) free((void *)pk->twiddles);
    free(key->vk.k);
    constraint_system_free(&key->cs);
    free(key);
}

void g16_key_describe(const g16_key *key, g16_key_info *info) { *info = key->info; }

const g16_vk *g16_key_verifying_key(const g16_key *key) { return &key->vk; }

/* ---- verifying keys --------------------------------------------------------------------- */

g16_status g16_vk_load(g16_engine *engine, g16_vk **vk, const uint8_t *data, size_t size, g16_error *error) {
    if (!engine || !vk || !data) return g16_fail(error, G16_INVALID_ARGUMENT, 0, "an argument is missing");
    *vk = NULL;
    g16_vk *loaded = calloc(1, sizeof *loaded);
    if (!loaded) return g16_fail(error, G16_OUT_OF_MEMORY, 0, "no memory for a verifying key");
    byte_reader reader = {.data = data, .size = size, .pool = engine->pool, .error = error, .status = G16_OK};
    loaded->backend = engine->backend;
    g16_status status = loaded->backend->read_verifying_key(loaded, &reader);
    if (status != G16_OK) {
        g16_vk_destroy(loaded);
        return status;
    }
    *vk = loaded;
    return G16_OK;
}

void g16_vk_destroy(g16_vk *vk) {
    if (!vk) return;
    free(vk->k);
    free(vk);
}

uint32_t g16_vk_public_inputs(const g16_vk *vk) { return vk->k_count - 1; }

/* Three points of G1, three of G2, a count and K; format version 0.14 adds two zero counts. */
size_t g16_vk_bytes(const g16_vk *vk, g16_encoding encoding) {
    size_t g1_bytes = encoding == G16_RAW ? 64 : 32;
    return 9 * g1_bytes + 4 + g1_bytes * vk->k_count + (vk->format_version == G16_FORMAT_0_14 ? 8 : 0);
}

g16_status g16_vk_write(const g16_vk *vk, uint8_t *out, size_t out_size, g16_encoding encoding, g16_error *error) {
    if (!vk || !out || (encoding != G16_COMPRESSED && encoding != G16_RAW)) {
        return g16_fail(error, G16_INVALID_ARGUMENT, 0, "an argument is missing or the encoding is unknown");
    }
    if (out_size != g16_vk_bytes(vk, encoding)) {
        return g16_fail(error, G16_INVALID_ARGUMENT, 0, "%zu bytes given for %zu of a verifying key", out_size,
                        g16_vk_bytes(vk, encoding));
    }
    vk->backend->write_verifying_key(vk, out, encoding);
    return G16_OK;
}
