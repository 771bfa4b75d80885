/* fuzz_prepared.c - prepared key files from bytes that nobody vouches for.
 *
 * The first byte of an input says what happens to the rest: bit 0 chooses the fastest backend, bit 4 "adx"; with bit 1 all checksums
 * are made right first, so that what they guard is reached; with bit 2 a key that loads is proved with; bit 3 has all checksums compared at the load.
 * Whatever comes in must end in a status, and no content may lead a proof outside of its memory.
 */
#include <stdlib.h>
#include <string.h>

#include "base/xxh64.h"
#include "gpu/chains.h"
#include "key/prepared_format.h"

#define REQUIRE(condition)                                                                                   \
    do {                                                                                                     \
        if (!(condition)) abort();                                                                           \
    } while (0)

#define PROVE_SCRATCH_LIMIT ((size_t)64 << 20)

/* Returns the engine that the flags select; plain C where the CPU supports no other. */
static g16_engine *engine_of(int flags) {
    static g16_engine *engines[3];
    const int which = flags & 1 ? 1 : flags & 16 ? 2 : 0;
    const g16_backend_choice choice = which == 1 ? G16_BACKEND_AUTO : which == 2 ? G16_BACKEND_ADX : G16_BACKEND_PORTABLE;
    if (!engines[which] && g16_engine_create(&engines[which], 1, choice, NULL) != G16_OK) {
        REQUIRE(which == 2);
        return engine_of(0);
    }
    return engines[which];
}

/* The checked build stops at field elements that are not below their modulus, other builds compute some other
 * element. Points and roots of unity are not looked at when a key is loaded, so they are made small here. */
static void make_canonical(uint8_t *data, const prepared_section *section) {
    if (prepared_is_always_checked(section->type)) return;
    for (uint64_t at = 31; at < section->count * section->element_bytes; at += 32) data[section->offset + at] &= 0x1f;
}

static void seal(uint8_t *data, size_t size) {
    prepared_header header;
    if (size < sizeof header) return;
    memcpy(&header, data, sizeof header);
    header.file_bytes = size;
    size_t fitting = (size - sizeof header) / sizeof(prepared_section);
    if (header.section_count < fitting) fitting = header.section_count;
    size_t end = sizeof header + fitting * sizeof(prepared_section);
    for (size_t i = 0; i < fitting; i++) {
        prepared_section section;
        uint8_t *entry = data + sizeof header + i * sizeof section;
        memcpy(&section, entry, sizeof section);
        if (section.element_bytes == 0 || section.offset < end || section.offset > size ||
            section.count > (size - section.offset) / section.element_bytes) {
            continue;
        }
        make_canonical(data, &section);
        section.checksum = xxh64(data + section.offset, (size_t)(section.count * section.element_bytes));
        memcpy(entry, &section, sizeof section);
    }
    header.directory_checksum = xxh64(data + sizeof header, end - sizeof header);
    header.checksum = xxh64(&header, offsetof(prepared_header, checksum));
    memcpy(data, &header, sizeof header);
}

static void prove(g16_engine *engine, const g16_key *key, const g16_key_info *info) {
    size_t count = (size_t)info->public_inputs + info->secret_inputs;
    size_t scratch_size = g16_prove_scratch_bytes(engine, key);
    if (scratch_size > PROVE_SCRATCH_LIMIT || count > 4096) return;
    /* Zeros, so that a wire that the program forgets is a field element here. */
    uint8_t proof[G16_PROOF_BYTES], *inputs = calloc(count ? count : 1, 32);
    void *scratch = calloc(scratch_size, 1);
    REQUIRE(inputs && scratch);
    for (size_t i = 0; i < count; i++) inputs[32 * i + 31] = (uint8_t)i;
    g16_status status = g16_prove(engine, key, proof, NULL, NULL, inputs, count, scratch, scratch_size, NULL, NULL);
    REQUIRE(status == G16_OK || status == G16_UNSATISFIED_CONSTRAINT || status == G16_UNSUPPORTED_KEY);
    if (status == G16_OK) {
        status = g16_verify(engine, g16_key_verifying_key(key), proof, inputs, info->public_inputs, NULL);
        REQUIRE(status == G16_OK || status == G16_PROOF_REJECTED || status == G16_MALFORMED_PROOF);
    }
    free(scratch);
    free(inputs);
}

/* A key that loaded is written the same again, but for the digest of its source and sections that it does not know. */
static void write_again(const g16_engine *engine, const g16_key *key, const g16_prepared_info *info) {
    size_t size = g16_prepared_bytes(key, 0, 0);
    size_t rounded = (size + PREPARED_ALIGNMENT - 1) / PREPARED_ALIGNMENT * PREPARED_ALIGNMENT;
    uint8_t *out = aligned_alloc(PREPARED_ALIGNMENT, rounded);
    g16_prepared_info again;
    REQUIRE(out);
    REQUIRE(g16_prepared_write(engine, key, out, size, 0, 0, info->source_sha256, NULL, NULL, NULL, NULL) == G16_OK);
    REQUIRE(g16_prepared_verify(out, size, NULL, NULL) == G16_OK);
    REQUIRE(g16_prepared_describe(&again, out, size, NULL) == G16_OK);
    REQUIRE(again.source_bytes == info->source_bytes && again.point_format == info->point_format);
    free(out);
}

/* Divides the circuit as for a GPU. */
static void divide(const g16_key *key) {
    cs_chains *chains = NULL;
    char reason[CS_CHAINS_REASON];
    REQUIRE(cs_chains_build(&chains, &key->cs, key->pk.domain_log2, 1, reason, NULL, NULL) == G16_OK);
    REQUIRE(chains || reason[0]);
    cs_chains_free(chains);
}

static void load(g16_engine *engine, const uint8_t *data, size_t size, int with_proof, int check_points) {
    g16_prepared_info info;
    g16_key *key = NULL;
    g16_error error = {.message = ""};
    g16_status described = g16_prepared_describe(&info, data, size, &error);
    g16_status status = g16_prepared_load(engine, &key, data, size, check_points, NULL, &error);
    if (status != G16_OK) {
        REQUIRE(key == NULL && (status == G16_MALFORMED_KEY || status == G16_UNSUPPORTED_KEY));
        REQUIRE(error.message[0] && memchr(error.message, 0, sizeof error.message) && error.offset <= size);
        return;
    }
    REQUIRE(described == G16_OK && info.file_bytes == size);
    g16_key_info key_info;
    g16_key_describe(key, &key_info);
    REQUIRE(key_info.mapped_bytes == size &&
            key_info.wires == 1 + key_info.public_inputs + key_info.secret_inputs + key_info.internal_wires);
    write_again(engine, key, &info);
    divide(key);
    if (with_proof) prove(engine, key, &key_info);
    g16_key_destroy(key);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size == 0) return 0;
    const int flags = data[0];
    data++, size--;
    /* A copy that ends where its memory ends, so that reading past the end is seen; its start is aligned as a map's. */
    size_t rounded = (size + PREPARED_ALIGNMENT - 1) / PREPARED_ALIGNMENT * PREPARED_ALIGNMENT;
    uint8_t *copy = aligned_alloc(PREPARED_ALIGNMENT, rounded ? rounded : PREPARED_ALIGNMENT);
    REQUIRE(copy);
    memcpy(copy, data, size);
    if (flags & 2) seal(copy, size);
    g16_status status = g16_prepared_verify(copy, size, NULL, NULL);
    REQUIRE(status == G16_OK || status == G16_MALFORMED_KEY || status == G16_UNSUPPORTED_KEY);
    load(engine_of(flags), copy, size, flags & 4, flags & 8);
    free(copy);
    return 0;
}
