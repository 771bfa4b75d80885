/* poseidon_backend.c - compiled once per backend: plain, and with -DPOSEIDON_ADX for x86-64 with mulx, adcx, adox. */
#if defined(POSEIDON_ADX)
#define MONT256_ADX 1
#define POSEIDON_TABLE poseidon_adx
#define POSEIDON_NAME "adx"
#else
#define POSEIDON_TABLE poseidon_portable
#define POSEIDON_NAME "portable"
#endif

#include "poseidon.h"
#include "poseidon_impl.h"

static size_t hash_many(uint8_t *out, const uint8_t *inputs, uint32_t width, size_t count) {
    for (size_t i = 0; i < count; i++) {
        fr elements[POSEIDON_MAX_INPUTS], result;
        for (uint32_t j = 0; j < width; j++) {
            if (!fr_from_bytes(&elements[j], inputs + 32 * (i * width + j))) return i * width + j + 1;
        }
        if (width == 1) poseidon_hash1(&result, elements);
        if (width == 2) poseidon_hash2(&result, elements);
        if (width == 3) poseidon_hash3(&result, elements);
        fr_to_bytes(out + 32 * i, &result);
    }
    return 0;
}

static size_t hash_chain(uint8_t *out, const uint8_t *inputs, size_t count) {
    fr pair[2] = {FR_ZERO, FR_ZERO};
    for (size_t i = 0; i < count; i++) {
        if (!fr_from_bytes(&pair[i != 0], inputs + 32 * i)) return i + 1;
        if (i) poseidon_hash2(&pair[0], pair);
    }
    fr_to_bytes(out, &pair[0]);
    return 0;
}

const poseidon_backend POSEIDON_TABLE = {POSEIDON_NAME, hash_many, hash_chain};
