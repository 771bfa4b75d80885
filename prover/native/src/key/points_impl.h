/* key/points_impl.h - reads the proving key and the verifying key of a key file.
 *
 * Every point is checked to be canonical, on its curve and in the subgroup of order r. Infinity is refused everywhere except for
 * K[0] of a verifying key, which is infinity when no row uses the constant wire. Counts are checked against the bytes that remain
 * before memory is allocated. Arrays belong to the key, and the caller frees them, also after a failure.
 */
#ifndef G16_KEY_POINTS_IMPL_H
#define G16_KEY_POINTS_IMPL_H

#include <stdlib.h>

#include "curve/encoding_impl.h"
#include "curve/pairing_impl.h"
#include "key/key.h"

/* Points per task: about a millisecond of work. */
#define KEY_POINTS_G1_CHUNK 256
#define KEY_POINTS_G2_CHUNK 32

/* ---- numbers ---------------------------------------------------------------------- */

/* Functions that read return 1, or 0 with the reader's status and error set. */

#define KEY_POINTS_FAIL(reader, cause, offset, ...) ((reader)->status = g16_fail((reader)->error, cause, offset, __VA_ARGS__), 0)
#define KEY_POINTS_MALFORMED(reader, offset, ...) KEY_POINTS_FAIL(reader, G16_MALFORMED_KEY, offset, __VA_ARGS__)

static inline size_t key_reader_left(const byte_reader *reader) { return reader->size - reader->offset; }

static int key_points_truncated(byte_reader *reader, const char *what) {
    return KEY_POINTS_MALFORMED(reader, reader->offset, "%s: the file ends inside it", what);
}

static int key_points_u32(byte_reader *reader, uint32_t *value, const char *what) {
    if (key_reader_left(reader) < 4) return key_points_truncated(reader, what);
    const uint8_t *in = reader->data + reader->offset;
    *value = (uint32_t)in[0] << 24 | (uint32_t)in[1] << 16 | (uint32_t)in[2] << 8 | in[3];
    reader->offset += 4;
    return 1;
}

static int key_points_u64(byte_reader *reader, uint64_t *value, const char *what) {
    uint32_t high = 0, low = 0;
    if (key_reader_left(reader) < 8) return key_points_truncated(reader, what);
    (void)key_points_u32(reader, &high, what);
    (void)key_points_u32(reader, &low, what);
    *value = (uint64_t)high << 32 | low;
    return 1;
}

/* ---- points ----------------------------------------------------------------------- */

typedef struct key_points_job {
    const uint8_t *data;    /* points to the key file */
    const uint64_t *starts; /* byte offset of each chunk */
    g1_affine *g1;          /* exactly one of both is set */
    g2_affine *g2;
    uint32_t count, chunk;
    uint64_t first_fault; /* index << 8 | point_fault, the lowest so far; atomic */
} key_points_job;

static void key_points_decode_chunk(void *argument, uint32_t index, uint32_t worker) {
    key_points_job *job = argument;
    uint32_t first = index * job->chunk;
    uint32_t count = job->count - first < job->chunk ? job->count - first : job->chunk;
    point_fault fault;
    (void)worker;
    uint64_t lowest = __atomic_load_n(&job->first_fault, __ATOMIC_RELAXED);
    if (lowest >> 8 < first) return;
    const uint8_t *in = job->data + job->starts[index];
    uint32_t place = job->g1 ? g1_decode(job->g1 + first, in, count, &fault) : g2_decode(job->g2 + first, in, count, &fault);
    if (place == count) return;
    uint64_t found = (uint64_t)(first + place) << 8 | (uint64_t)fault;
    while (found < lowest &&
           !__atomic_compare_exchange_n(&job->first_fault, &lowest, found, 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
    }
}

static size_t key_points_encoded_bytes(int twist, uint8_t first) {
    return twist ? g2_encoded_bytes(first) : g1_encoded_bytes(first);
}

/* Decodes `count` points into g1 or g2 (the other is NULL). Compressed and raw points may be mixed, so a first pass over the
 * leading bytes finds where each chunk starts. */
static int key_points_decode(g1_affine *g1, g2_affine *g2, uint32_t count, uint32_t numbered_from, byte_reader *reader,
                             const char *what) {
    int twist = g2 != NULL;
    uint32_t chunk = twist ? KEY_POINTS_G2_CHUNK : KEY_POINTS_G1_CHUNK;
    uint32_t chunks = count / chunk + (count % chunk != 0);
    if (count == 0) return 1;
    uint64_t *starts = malloc((size_t)chunks * sizeof *starts);
    if (!starts) return KEY_POINTS_FAIL(reader, G16_OUT_OF_MEMORY, 0, "no memory for reading points");
    for (uint32_t i = 0; i < count; i++) {
        if (i % chunk == 0) starts[i / chunk] = reader->offset;
        size_t left = key_reader_left(reader);
        size_t size = left ? key_points_encoded_bytes(twist, reader->data[reader->offset]) : 1;
        if (size > left) {
            free(starts);
            return KEY_POINTS_MALFORMED(reader, reader->offset, "%s[%u]: the file ends inside it", what, i + numbered_from);
        }
        reader->offset += size;
    }
    key_points_job job = {.data = reader->data, .starts = starts, .g1 = g1, .g2 = g2, .count = count, .chunk = chunk,
                          .first_fault = UINT64_MAX};
    const g16_status status = thread_pool_for(reader->pool, chunks, key_points_decode_chunk, &job, reader->cancel);
    if (status != G16_OK) {
        (void)KEY_POINTS_FAIL(reader, status, 0, "%s", status == G16_CANCELLED ? "cancelled while reading points" : "cannot run tasks");
    } else if (job.first_fault != UINT64_MAX) {
        uint32_t place = (uint32_t)(job.first_fault >> 8);
        uint64_t offset = starts[place / chunk];
        for (uint32_t i = place / chunk * chunk; i < place; i++) {
            offset += key_points_encoded_bytes(twist, reader->data[offset]);
        }
        (void)KEY_POINTS_MALFORMED(reader, offset, "%s[%u] %s", what, place + numbered_from,
                                   point_fault_text((point_fault)(job.first_fault & 0xff)));
    }
    free(starts);
    return reader->status == G16_OK;
}

/* Reads one point outside any slice; exactly one of g1, g2 is set. */
static int key_points_single(g1_affine *g1, g2_affine *g2, int infinity_allowed, byte_reader *reader, const char *what) {
    size_t left = key_reader_left(reader);
    size_t size = left ? key_points_encoded_bytes(g2 != NULL, reader->data[reader->offset]) : 1;
    if (size > left) return key_points_truncated(reader, what);
    point_fault fault;
    const uint8_t *in = reader->data + reader->offset;
    if (g1) {
        (void)g1_decode(g1, in, 1, &fault);
    } else {
        (void)g2_decode(g2, in, 1, &fault);
    }
    if (fault != POINT_GOOD && !(fault == POINT_AT_INFINITY && infinity_allowed)) {
        return KEY_POINTS_MALFORMED(reader, reader->offset, "%s %s", what, point_fault_text(fault));
    }
    reader->offset += size;
    return 1;
}

/* Reads a counted slice of points to new memory; exactly one of g1, g2 is set. */
static int key_points_slice(g1_affine **g1, g2_affine **g2, uint32_t *count, byte_reader *reader, const char *what) {
    uint64_t offset = reader->offset;
    if (!key_points_u32(reader, count, what)) return 0;
    if (*count > key_reader_left(reader) / (g2 ? G2_COMPRESSED_BYTES : G1_COMPRESSED_BYTES)) {
        return KEY_POINTS_MALFORMED(reader, offset, "%s: %u points do not fit the rest of the file", what, *count);
    }
    void *points = malloc(*count ? *count * (g2 ? sizeof **g2 : sizeof **g1) : 1);
    if (!points) return KEY_POINTS_FAIL(reader, G16_OUT_OF_MEMORY, 0, "no memory for %u points of %s", *count, what);
    if (g1) *g1 = points;
    if (g2) *g2 = points;
    return key_points_decode(g1 ? points : NULL, g2 ? points : NULL, *count, 0, reader, what);
}

/* ---- the domain -------------------------------------------------------------------- */

/* ntt/transform_impl.h uses a root of unity of order 2n, which must exist. */
#define KEY_DOMAIN_MAX_LOG2 (FR_TWO_ADICITY - 1)

/* Computes the five scalars of the domain of size 2^log2: 1/n, w, 1/w, 5, 1/5. */
static void key_domain_scalars(fr scalars[5], uint32_t log2) {
    fr n;
    fr_from_u64(&n, (uint64_t)1 << log2);
    fr_inv(&scalars[0], &n);
    scalars[1] = FR_ROOT_28;
    for (uint32_t i = log2; i < FR_TWO_ADICITY; i++) fr_sqr(&scalars[1], &scalars[1]);
    fr_inv(&scalars[2], &scalars[1]);
    scalars[3] = FR_FIVE;
    scalars[4] = FR_INV_FIVE;
}

/* Returns 1 when in[0 .. 40) holds n = 2^k, k <= 28, and the scalar 1/n: the beginning of a domain block. */
static int key_points_is_domain(const uint8_t *in) {
    uint64_t n = 0;
    for (int i = 0; i < 8; i++) n = n << 8 | in[i];
    if (n == 0 || (n & (n - 1)) || n > (uint64_t)1 << FR_TWO_ADICITY) return 0;
    fr size, inverse;
    if (!fr_from_bytes(&inverse, in + 8)) return 0;
    fr_from_u64(&size, n);
    fr_mul(&inverse, &inverse, &size);
    return fr_equal(&inverse, &FR_ONE);
}

static int key_points_domain(struct g16_key *key, byte_reader *reader) {
    static const char *const names[5] = {"1/n", "the generator", "the generator's inverse", "the coset generator",
                                         "the coset generator's inverse"};
    uint64_t n = 0, offset = reader->offset;
    if (!key_points_u64(reader, &n, "domain")) return 0;
    if (n == 0 || (n & (n - 1)) || n > (uint64_t)1 << FR_TWO_ADICITY) {
        return KEY_POINTS_MALFORMED(reader, offset, "domain: its size is not a power of two up to 2^28");
    }
    uint32_t log2 = (uint32_t)__builtin_ctzll(n);
    if (log2 < 1 || log2 > KEY_DOMAIN_MAX_LOG2) {
        return KEY_POINTS_FAIL(reader, G16_UNSUPPORTED_KEY, offset, "domain: a size of 2^%u is not supported", log2);
    }
    if (key_reader_left(reader) < 5 * 32) return key_points_truncated(reader, "domain");
    fr expected[5], found;
    key_domain_scalars(expected, log2);
    for (int i = 0; i < 5; i++) {
        if (!fr_from_bytes(&found, reader->data + reader->offset) || !fr_equal(&found, &expected[i])) {
            return KEY_POINTS_MALFORMED(reader, reader->offset, "domain: %s does not fit its size", names[i]);
        }
        reader->offset += 32;
    }
    if (key->info.format_version == G16_FORMAT_0_14) {
        if (key_reader_left(reader) < 1) return key_points_truncated(reader, "domain");
        if (reader->data[reader->offset] > 1) {
            return KEY_POINTS_MALFORMED(reader, reader->offset, "domain: its flag byte is neither 0 nor 1");
        }
        reader->offset += 1;
    }
    key->pk.domain_log2 = log2;
    key->info.domain_size = n;
    return 1;
}

/* ---- the proving key ---------------------------------------------------------------- */

/* Reads an infinity map and lists the wires without the flag; there must be `present` of them. */
static int key_points_map(uint32_t **present_wires, uint32_t present, uint32_t wires, uint64_t declared_absent,
                          byte_reader *reader, const char *what) {
    uint64_t offset = reader->offset;
    const uint8_t *map = reader->data + offset;
    uint32_t absent = 0, next = 0;
    for (uint32_t i = 0; i < wires; i++) {
        if (map[i] > 1) return KEY_POINTS_MALFORMED(reader, offset + i, "%s: flag %u is neither 0 nor 1", what, i);
        absent += map[i];
    }
    if (absent != declared_absent) {
        return KEY_POINTS_MALFORMED(reader, offset, "%s: %u flags are set, not %llu as declared", what, absent,
                        (unsigned long long)declared_absent);
    }
    if (wires - absent != present) {
        return KEY_POINTS_MALFORMED(reader, offset, "%s: %u wires are present but the slice has %u points", what,
                        wires - absent, present);
    }
    *present_wires = malloc(present ? present * sizeof **present_wires : 1);
    if (!*present_wires) return KEY_POINTS_FAIL(reader, G16_OUT_OF_MEMORY, 0, "no memory for the wires of %s", what);
    for (uint32_t i = 0; i < wires; i++) {
        if (!map[i]) (*present_wires)[next++] = i;
    }
    reader->offset += wires;
    return 1;
}

static int key_points_maps(struct g16_key *key, byte_reader *reader) {
    proving_key *pk = &key->pk;
    uint64_t wires = 0, absent_a = 0, absent_b = 0, offset = reader->offset;
    if (!key_points_u64(reader, &wires, "number of wires") ||
        !key_points_u64(reader, &absent_a, "number of wires absent from A") ||
        !key_points_u64(reader, &absent_b, "number of wires absent from B")) {
        return 0;
    }
    if (wires > key_reader_left(reader) / 2 || wires > UINT32_MAX) {
        return KEY_POINTS_MALFORMED(reader, offset, "number of wires: the infinity maps do not fit the rest of the file");
    }
    key->info.wires = (uint32_t)wires;
    return key_points_map(&pk->a_wires, pk->a_count, (uint32_t)wires, absent_a, reader, "infinity map A") &&
           key_points_map(&pk->b_wires, pk->b_count, (uint32_t)wires, absent_b, reader, "infinity map B");
}

/* Returns 1 when p = s*G1 and q = s*G2 for the same s: e(p, G2) = e(G1, q). */
static int key_points_same_scalar(const g1_affine *p, const g2_affine *q) {
    g1_affine points[2] = {*p, G1_GENERATOR};
    g2_affine twist_points[2] = {G2_GENERATOR, *q};
    fp12 value;
    g1_affine_neg(&points[1], &points[1]);
    pairing_product(&value, points, twist_points, 2);
    return fp12_equal(&value, &FP12_ONE);
}

static int key_points_proving_key(struct g16_key *key, byte_reader *reader) {
    proving_key *pk = &key->pk;
    int newer = key->info.format_version == G16_FORMAT_0_14;
    uint32_t b2_count = 0, commitments = 0;
    if (!key_points_domain(key, reader)) return 0;
    uint64_t offset, alpha_offset = reader->offset;
    if (!key_points_single(&pk->alpha, NULL, 0, reader, "proving key: alpha") ||
        !key_points_single(&pk->beta, NULL, 0, reader, "proving key: beta") ||
        !key_points_single(&pk->delta, NULL, 0, reader, "proving key: delta") ||
        !key_points_slice(&pk->a, NULL, &pk->a_count, reader, "proving key: A") ||
        !key_points_slice(&pk->b1, NULL, &pk->b_count, reader, "proving key: B")) {
        return 0;
    }
    offset = reader->offset;
    if (!key_points_slice(&pk->z, NULL, &pk->z_count, reader, "proving key: Z")) return 0;
    if (pk->z_count != key->info.domain_size - (newer ? 1 : 0)) {
        return KEY_POINTS_MALFORMED(reader, offset, "proving key: Z has %u points, which does not fit the domain", pk->z_count);
    }
    /* The last point belongs to the coefficient of X^(n-1), which is always zero. */
    pk->z_count = (uint32_t)(key->info.domain_size - 1);

    if (!key_points_slice(&pk->k, NULL, &pk->k_count, reader, "proving key: K") ||
        !key_points_single(NULL, &pk->beta2, 0, reader, "proving key: beta2") ||
        !key_points_single(NULL, &pk->delta2, 0, reader, "proving key: delta2")) {
        return 0;
    }
    offset = reader->offset;
    if (!key_points_slice(NULL, &pk->b2, &b2_count, reader, "proving key: B2")) return 0;
    if (b2_count != pk->b_count) {
        return KEY_POINTS_MALFORMED(reader, offset, "proving key: B2 has %u points but B has %u", b2_count, pk->b_count);
    }
    if (!key_points_maps(key, reader)) return 0;
    offset = reader->offset;
    if (newer && !key_points_u32(reader, &commitments, "number of commitment keys")) return 0;
    if (commitments != 0) {
        return KEY_POINTS_FAIL(reader, G16_UNSUPPORTED_KEY, offset, "proving key: commitments are not supported");
    }
    if (!key_points_same_scalar(&pk->beta, &pk->beta2) || !key_points_same_scalar(&pk->delta, &pk->delta2)) {
        return KEY_POINTS_MALFORMED(reader, alpha_offset,
                                    "proving key: beta and beta2, or delta and delta2, do not belong together");
    }
    key->info.points_a = pk->a_count;
    key->info.points_b = pk->b_count;
    key->info.points_k = pk->k_count;
    key->info.points_z = pk->z_count;
    return 1;
}

static g16_status key_points_read_proving_key(struct g16_key *key, byte_reader *reader) {
    (void)key_points_proving_key(key, reader);
    return reader->status;
}

/* ---- the verifying key -------------------------------------------------------------- */

/* After K: nothing in format version 0.8, two zero counts in 0.14. */
static int key_points_vk_tail(struct g16_vk *vk, byte_reader *reader) {
    size_t left = key_reader_left(reader);
    if (vk->format_version == 0) {
        if (left != 0 && left != 8) {
            return KEY_POINTS_MALFORMED(reader, reader->offset, "verifying key: bytes are left after its points");
        }
        vk->format_version = left == 0 ? G16_FORMAT_0_8 : G16_FORMAT_0_14;
    }
    if (vk->format_version == G16_FORMAT_0_8) return 1;
    if (left < 8) return key_points_truncated(reader, "verifying key");
    if (!point_bytes_are_zero(reader->data + reader->offset, 8)) {
        return KEY_POINTS_FAIL(reader, G16_UNSUPPORTED_KEY, reader->offset, "verifying key: commitments are not supported");
    }
    reader->offset += 8;
    return 1;
}

static void key_points_prepare_verifying_key(struct g16_vk *vk) {
    pairing_lines_of(&vk->gamma_lines, &vk->gamma2);
    pairing_lines_of(&vk->delta_lines, &vk->delta2);
}

static int key_points_verifying_key(struct g16_vk *vk, byte_reader *reader) {
    struct {
        const char *what;
        g1_affine *g1;
        g2_affine *g2;
    } fields[] = {{"verifying key: alpha", &vk->alpha, NULL},   {"verifying key: beta", &vk->beta, NULL},
                  {"verifying key: beta2", NULL, &vk->beta2},   {"verifying key: gamma2", NULL, &vk->gamma2},
                  {"verifying key: delta", &vk->delta, NULL},   {"verifying key: delta2", NULL, &vk->delta2}};
    for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++) {
        if (!key_points_single(fields[i].g1, fields[i].g2, 0, reader, fields[i].what)) return 0;
    }
    uint64_t offset = reader->offset;
    if (!key_points_u32(reader, &vk->k_count, "verifying key: K")) return 0;
    if (vk->k_count == 0) return KEY_POINTS_MALFORMED(reader, offset, "verifying key: K is empty");
    if (vk->k_count > key_reader_left(reader) / G1_COMPRESSED_BYTES) {
        return KEY_POINTS_MALFORMED(reader, offset, "verifying key: K: %u points do not fit the rest of the file",
                        vk->k_count);
    }
    vk->k = malloc(vk->k_count * sizeof *vk->k);
    if (!vk->k) return KEY_POINTS_FAIL(reader, G16_OUT_OF_MEMORY, 0, "no memory for %u points of K", vk->k_count);
    if (!key_points_single(&vk->k[0], NULL, 1, reader, "verifying key: K[0]") ||
        !key_points_decode(vk->k + 1, NULL, vk->k_count - 1, 1, reader, "verifying key: K") || !key_points_vk_tail(vk, reader)) {
        return 0;
    }
    pairing_product(&vk->alpha_beta, &vk->alpha, &vk->beta2, 1);
    key_points_prepare_verifying_key(vk);
    return 1;
}

static g16_status key_points_read_verifying_key(struct g16_vk *vk, byte_reader *reader) {
    (void)key_points_verifying_key(vk, reader);
    return reader->status;
}

/* Writes g16_vk_bytes() bytes. */
static void key_points_write_verifying_key(const struct g16_vk *vk, uint8_t *out, g16_encoding encoding) {
    int raw = encoding == G16_RAW;
    void (*g1)(uint8_t *, const g1_affine *) = raw ? g1_encode_raw : g1_encode_compressed;
    void (*g2)(uint8_t *, const g2_affine *) = raw ? g2_encode_raw : g2_encode_compressed;
    size_t g1_bytes = raw ? G1_RAW_BYTES : G1_COMPRESSED_BYTES, g2_bytes = raw ? G2_RAW_BYTES : G2_COMPRESSED_BYTES;
    g1(out, &vk->alpha), out += g1_bytes;
    g1(out, &vk->beta), out += g1_bytes;
    g2(out, &vk->beta2), out += g2_bytes;
    g2(out, &vk->gamma2), out += g2_bytes;
    g1(out, &vk->delta), out += g1_bytes;
    g2(out, &vk->delta2), out += g2_bytes;
    for (int i = 0; i < 4; i++) *out++ = (uint8_t)(vk->k_count >> (24 - 8 * i));
    for (uint32_t i = 0; i < vk->k_count; i++) g1(out, &vk->k[i]), out += g1_bytes;
    if (vk->format_version == G16_FORMAT_0_14) memset(out, 0, 8);
}

#endif
