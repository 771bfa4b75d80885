/* poseidon/wide.h - Poseidon of 4 to 7 inputs: hashes of accounts. Portable scalar code. */
#ifndef SHARED_POSEIDON_WIDE_H
#define SHARED_POSEIDON_WIDE_H

#include <stddef.h>
#include <stdint.h>

/* As hash_many of a poseidon_backend, for widths above POSEIDON_MAX_NARROW_INPUTS. */
size_t poseidon_wide_hash_many(uint8_t *out, const uint8_t *inputs, uint32_t width, size_t count);

#endif
