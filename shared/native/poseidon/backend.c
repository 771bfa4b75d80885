/* poseidon/backend.c - compiled once per backend: plain; with -DPOSEIDON_ADX for x86-64 with mulx, adcx and adox; additionally
 * with -DPOSEIDON_AVX512 or -DPOSEIDON_IFMA for AVX-512, where hashes are computed eight at a time. */
#if defined(POSEIDON_IFMA)
#define LANES_IFMA 1
#define POSEIDON_TABLE poseidon_ifma
#define POSEIDON_NAME "ifma"
#define POSEIDON_LANES_MIN 3
#elif defined(POSEIDON_AVX512)
#define POSEIDON_TABLE poseidon_avx512
#define POSEIDON_NAME "avx512"
#define POSEIDON_LANES_MIN 4
#elif defined(POSEIDON_ADX)
#define POSEIDON_TABLE poseidon_adx
#define POSEIDON_NAME "adx"
#else
#define POSEIDON_TABLE poseidon_portable
#define POSEIDON_NAME "portable"
#endif

/* POSEIDON_LANES_MIN: fewer hashes are faster one by one. */
#if defined(POSEIDON_LANES_MIN)
#define POSEIDON_LANES 1
#endif
#if defined(POSEIDON_LANES) || defined(POSEIDON_ADX)
#define MONT256_ADX 1
#elif defined(__aarch64__)
#define MONT256_A64 1
#endif

#include "poseidon/poseidon.h"
#include "poseidon/scalar_impl.h"
#include "poseidon/wide.h"
#if defined(POSEIDON_LANES)
#include "poseidon/lanes_impl.h"
#endif
#include "poseidon/single.h"

#if defined(POSEIDON_LANES)
/* Returns 0, or 1 plus the number of the first of `count` elements that is not below r. */
static size_t check_elements(const uint8_t *elements, size_t count) {
    for (size_t i = 0; i < count; i++) {
        uint64_t limbs[4];
        mont256_load_be(limbs, elements + 32 * i);
        if (mont256_compare_var(limbs, FR_MODULUS.p) >= 0) return i + 1;
    }
    return 0;
}
#endif

/* Hashes groups first .. count - 1 one by one. */
static size_t hash_each(uint8_t *out, const uint8_t *inputs, uint32_t width, size_t first, size_t count) {
    for (size_t i = first; i < count; i++) {
#if defined(POSEIDON_IFMA)
        if (width == 2) {
            poseidon_single_chain(out + 32 * i, inputs + 64 * i, 2);
            continue;
        }
#endif
        fr elements[POSEIDON_MAX_NARROW_INPUTS], result;
        for (uint32_t j = 0; j < width; j++) {
            if (!fr_from_bytes(&elements[j], inputs + 32 * (i * width + j))) return i * width + j + 1;
        }
        if (width == 1) {
            poseidon_hash1(&result, elements);
        } else if (width == 2) {
            poseidon_hash2(&result, elements);
        } else {
            poseidon_hash3(&result, elements);
        }
        fr_to_bytes(out + 32 * i, &result);
    }
    return 0;
}

static size_t hash_many(uint8_t *out, const uint8_t *inputs, uint32_t width, size_t count) {
    size_t done = 0;
    if (width > POSEIDON_MAX_NARROW_INPUTS) return poseidon_wide_hash_many(out, inputs, width, count);
#if defined(POSEIDON_LANES)
    const size_t invalid = check_elements(inputs, count * width);
    if (invalid) return invalid;
    while (count - done >= POSEIDON_LANES_MIN) {
        const size_t block = count - done < LANES ? count - done : LANES;
        poseidon_lanes_hash(out + 32 * done, inputs + 32 * width * done, width, block);
        done += block;
    }
#endif
    return hash_each(out, inputs, width, done, count);
}

static size_t hash_chain(uint8_t *out, const uint8_t *inputs, size_t count) {
#if defined(POSEIDON_IFMA)
    if (count >= 2) {
        const size_t invalid = check_elements(inputs, count);
        if (!invalid) poseidon_single_chain(out, inputs, count);
        return invalid;
    }
#endif
    fr pair[2] = {FR_ZERO, FR_ZERO};
    for (size_t i = 0; i < count; i++) {
        if (!fr_from_bytes(&pair[i != 0], inputs + 32 * i)) return i + 1;
        if (i) poseidon_hash2(&pair[0], pair);
    }
    fr_to_bytes(out, &pair[0]);
    return 0;
}

const poseidon_backend POSEIDON_TABLE = {POSEIDON_NAME, hash_many, hash_chain};
