#include "json/compact.h"
#include "json/elements.h"
#include "merkle/updates.h"
#include "poseidon/poseidon.h"

/* Calls through the table, as functions, so that cffi releases the interpreter lock around them. */
static size_t poseidon_hash_many(const poseidon_backend *backend, uint8_t *out, const uint8_t *inputs, uint32_t width,
                                 size_t count) {
    return backend->hash_many(out, inputs, width, count);
}

static size_t poseidon_hash_chain(const poseidon_backend *backend, uint8_t *out, const uint8_t *inputs,
                                  size_t count) {
    return backend->hash_chain(out, inputs, count);
}
