/* fuzz_key.c - whole key files, verifying keys alone and proofs, from bytes that nobody vouches for.
 *
 * The first byte of an input says what the rest is: bits 0-1 choose a key file, a key file that is proved with when it
 * loads, a verifying key, or a proof with public inputs under the last verifying key that loaded; bit 2 chooses
 * the backend. Whatever comes in must end in a status, and what loads must describe and write itself.
 */
#include <stdlib.h>
#include <string.h>

#include "groth16.h"

#define REQUIRE(condition)                                                                                   \
    do {                                                                                                     \
        if (!(condition)) abort();                                                                           \
    } while (0)

#define PROVE_SCRATCH_LIMIT ((size_t)64 << 20)

static g16_engine *engine_of(int fastest) {
    static g16_engine *engines[2];
    if (!engines[fastest]) {
        g16_backend_choice choice = fastest ? G16_BACKEND_AUTO : G16_BACKEND_PORTABLE;
        REQUIRE(g16_engine_create(&engines[fastest], 1, choice, NULL) == G16_OK);
    }
    return engines[fastest];
}

/* What was written must load again and be written the same. */
static void write_and_reload(g16_engine *engine, const g16_vk *vk) {
    for (int encoding = G16_COMPRESSED; encoding <= G16_RAW; encoding++) {
        size_t size = g16_vk_bytes(vk, (g16_encoding)encoding);
        uint8_t *bytes = malloc(size), *again = malloc(size);
        REQUIRE(bytes && again);
        REQUIRE(g16_vk_write(vk, bytes, size, (g16_encoding)encoding, NULL) == G16_OK);
        g16_vk *reloaded = NULL;
        REQUIRE(g16_vk_load(engine, &reloaded, bytes, size, NULL) == G16_OK);
        REQUIRE(g16_vk_public_inputs(reloaded) == g16_vk_public_inputs(vk));
        REQUIRE(g16_vk_bytes(reloaded, (g16_encoding)encoding) == size);
        REQUIRE(g16_vk_write(reloaded, again, size, (g16_encoding)encoding, NULL) == G16_OK);
        REQUIRE(memcmp(bytes, again, size) == 0);
        g16_vk_destroy(reloaded);
        free(bytes);
        free(again);
    }
}

static void prove(g16_engine *engine, const g16_key *key, const g16_key_info *info) {
    size_t count = (size_t)info->public_inputs + info->secret_inputs;
    size_t scratch_size = g16_prove_scratch_bytes(engine, key);
    if (scratch_size > PROVE_SCRATCH_LIMIT || count > 4096) return;
    uint8_t proof[G16_PROOF_BYTES], *inputs = calloc(count ? count : 1, 32);
    void *scratch = malloc(scratch_size);
    REQUIRE(inputs && scratch);
    for (size_t i = 0; i < count; i++) inputs[32 * i + 31] = (uint8_t)i;
    g16_error error;
    g16_status status = g16_prove(engine, key, proof, NULL, NULL, inputs, count, scratch, scratch_size, NULL, &error);
    REQUIRE(status == G16_OK || status == G16_UNSATISFIED_CONSTRAINT);
    if (status == G16_OK) {
        /* The proof holds or not, as the points of the key may be anybody's; it is well-formed in any case. */
        status = g16_verify(engine, g16_key_verifying_key(key), proof, inputs, info->public_inputs, &error);
        REQUIRE(status == G16_OK || status == G16_PROOF_REJECTED || status == G16_MALFORMED_PROOF);
    }
    free(scratch);
    free(inputs);
}

static void load_key(g16_engine *engine, const uint8_t *data, size_t size, int with_proof) {
    g16_key *key = NULL;
    g16_error error = {.message = ""};
    g16_status status = g16_key_load(engine, &key, data, size, NULL, &error);
    if (status != G16_OK) {
        REQUIRE(key == NULL && (status == G16_MALFORMED_KEY || status == G16_UNSUPPORTED_KEY));
        REQUIRE(error.message[0] && memchr(error.message, 0, sizeof error.message) && error.offset <= size);
        return;
    }
    g16_key_info info;
    g16_key_describe(key, &info);
    REQUIRE(info.file_bytes == size && info.wires == 1 + info.public_inputs + info.secret_inputs + info.internal_wires);
    write_and_reload(engine, g16_key_verifying_key(key));
    if (with_proof) prove(engine, key, &info);
    g16_key_destroy(key);
}

static void load_vk(g16_engine *engine, const uint8_t *data, size_t size, g16_vk **kept) {
    g16_vk *vk = NULL;
    g16_error error = {.message = ""};
    g16_status status = g16_vk_load(engine, &vk, data, size, &error);
    if (status != G16_OK) {
        REQUIRE(vk == NULL && (status == G16_MALFORMED_KEY || status == G16_UNSUPPORTED_KEY));
        REQUIRE(error.message[0] && error.offset <= size);
        return;
    }
    write_and_reload(engine, vk);
    g16_vk_destroy(*kept);
    *kept = vk;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static g16_vk *kept[2];
    if (size == 0) return 0;
    int fastest = (data[0] >> 2) & 1, what = data[0] & 3;
    g16_engine *engine = engine_of(fastest);
    data++, size--;
    /* A copy of the exact size, so that reading past the end is seen. */
    uint8_t *copy = malloc(size ? size : 1);
    REQUIRE(copy);
    memcpy(copy, data, size);
    if (what <= 1) {
        load_key(engine, copy, size, what);
    } else if (what == 2) {
        load_vk(engine, copy, size, &kept[fastest]);
    } else if (size >= G16_PROOF_BYTES && kept[fastest]) {
        g16_status status = g16_verify(engine, kept[fastest], copy, copy + G16_PROOF_BYTES,
                                       (size - G16_PROOF_BYTES) / 32, NULL);
        REQUIRE(status == G16_OK || status == G16_PROOF_REJECTED || status == G16_MALFORMED_PROOF ||
                status == G16_INVALID_ARGUMENT);
    }
    free(copy);
    return 0;
}
