/* poseidon/single.h - hashes that depend on each other, with AVX-512 IFMA. */
#ifndef SHARED_POSEIDON_SINGLE_H
#define SHARED_POSEIDON_SINGLE_H

#include <stddef.h>
#include <stdint.h>

/* out = the hash chain of `count` elements (hash_chain of poseidon/poseidon.h), count at least 2, elements below r. */
void poseidon_single_chain(uint8_t *out, const uint8_t *inputs, size_t count);

#endif
