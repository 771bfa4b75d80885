/* poseidon/poseidon.h - Poseidon over Fr with the circomlib parameters, for 1 to 7 inputs.
 *
 * State = (0, inputs...), 8 full and 56 to 64 partial rounds, result = element 0. Elements are 32 bytes, big-endian, below r.
 * Thread-safe, stateless, no allocation. Time does not depend on values.
 */
#ifndef SHARED_POSEIDON_POSEIDON_H
#define SHARED_POSEIDON_POSEIDON_H

#include <stddef.h>
#include <stdint.h>

#define POSEIDON_MAX_INPUTS 7
/* Up to 3 inputs each backend has its own code; wider hashes share one. */
#define POSEIDON_MAX_NARROW_INPUTS 3

/* An implementation; all give the same results. */
typedef struct poseidon_backend {
    const char *name;
    /* out[i] = hash of the `width` elements at inputs + 32 * width * i, for i < count and widths from 1 to
     * POSEIDON_MAX_INPUTS. Returns 0, or 1 plus the number of the first element (of all) that is not below r; then
     * `out` is unspecified. */
    size_t (*hash_many)(uint8_t *out, const uint8_t *inputs, uint32_t width, size_t count);
    /* out = inputs[0], then out = hash(out, inputs[i]) for i = 1 .. count-1; zero for no inputs. Returns as hash_many. */
    size_t (*hash_chain)(uint8_t *out, const uint8_t *inputs, size_t count);
} poseidon_backend;

extern const poseidon_backend poseidon_portable;
#if defined(__x86_64__)
extern const poseidon_backend poseidon_adx;
extern const poseidon_backend poseidon_avx512;
extern const poseidon_backend poseidon_ifma;
#endif

/* out[i] = hash of element i of each of the `width` columns; otherwise as hash_many. Elements are numbered row by row. */
size_t poseidon_hash_columns(const poseidon_backend *backend, uint8_t *out, const uint8_t *const *columns, uint32_t width,
                             size_t count);

/* Returns backend number `place` of those that this CPU supports, the fastest first; NULL past the last. */
const poseidon_backend *poseidon_runnable(uint32_t place);

#endif
