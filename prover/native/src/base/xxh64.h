/* base/xxh64.h - the checksum XXH64 with seed 0 (Collet, "xxHash fast digest algorithm", specification 0.1.1). It detects
 * accidental changes, not forgery. For little-endian machines only. */
#ifndef G16_BASE_XXH64_H
#define G16_BASE_XXH64_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define XXH64_PRIME_1 0x9e3779b185ebca87u
#define XXH64_PRIME_2 0xc2b2ae3d27d4eb4fu
#define XXH64_PRIME_3 0x165667b19e3779f9u
#define XXH64_PRIME_4 0x85ebca77c2b2ae63u
#define XXH64_PRIME_5 0x27d4eb2f165667c5u

static inline uint64_t xxh64_rotate(uint64_t value, unsigned bits) { return value << bits | value >> (64 - bits); }

static inline uint64_t xxh64_word(const uint8_t *in) {
    uint64_t word;
    memcpy(&word, in, sizeof word);
    return word;
}

static inline uint64_t xxh64_round(uint64_t lane, uint64_t word) {
    return xxh64_rotate(lane + word * XXH64_PRIME_2, 31) * XXH64_PRIME_1;
}

static inline uint64_t xxh64_merge(uint64_t hash, uint64_t lane) {
    return (hash ^ xxh64_round(0, lane)) * XXH64_PRIME_1 + XXH64_PRIME_4;
}

static inline uint64_t xxh64(const void *data, size_t size) {
    const uint8_t *in = data, *end = in + size;
    uint64_t hash = XXH64_PRIME_5;
    if (size >= 32) {
        uint64_t a = XXH64_PRIME_1 + XXH64_PRIME_2, b = XXH64_PRIME_2, c = 0, d = 0 - XXH64_PRIME_1;
        for (; end - in >= 32; in += 32) {
            a = xxh64_round(a, xxh64_word(in));
            b = xxh64_round(b, xxh64_word(in + 8));
            c = xxh64_round(c, xxh64_word(in + 16));
            d = xxh64_round(d, xxh64_word(in + 24));
        }
        hash = xxh64_rotate(a, 1) + xxh64_rotate(b, 7) + xxh64_rotate(c, 12) + xxh64_rotate(d, 18);
        hash = xxh64_merge(xxh64_merge(xxh64_merge(xxh64_merge(hash, a), b), c), d);
    }
    hash += size;
    for (; end - in >= 8; in += 8) {
        hash = xxh64_rotate(hash ^ xxh64_round(0, xxh64_word(in)), 27) * XXH64_PRIME_1 + XXH64_PRIME_4;
    }
    if (end - in >= 4) {
        uint32_t word;
        memcpy(&word, in, sizeof word);
        hash = xxh64_rotate(hash ^ word * XXH64_PRIME_1, 23) * XXH64_PRIME_2 + XXH64_PRIME_3;
        in += 4;
    }
    for (; in < end; in++) hash = xxh64_rotate(hash ^ *in * XXH64_PRIME_5, 11) * XXH64_PRIME_1;
    hash = (hash ^ hash >> 33) * XXH64_PRIME_2;
    hash = (hash ^ hash >> 29) * XXH64_PRIME_3;
    return hash ^ hash >> 32;
}

#endif
