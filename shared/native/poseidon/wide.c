/* poseidon/wide.c - Poseidon of 4 to 7 inputs. */
#include "poseidon/wide.h"

#include "poseidon/permutation.h"
#include "poseidon/poseidon.h"
#include "poseidon/wide_constants.h"

static const struct {
    uint32_t partial_rounds;
    poseidon_parameters parameters;
} WIDE[] = {
    {POSEIDON_5_PARTIAL_ROUNDS, POSEIDON_PARAMETERS(5)},
    {POSEIDON_6_PARTIAL_ROUNDS, POSEIDON_PARAMETERS(6)},
    {POSEIDON_7_PARTIAL_ROUNDS, POSEIDON_PARAMETERS(7)},
    {POSEIDON_8_PARTIAL_ROUNDS, POSEIDON_PARAMETERS(8)},
};

size_t poseidon_wide_hash_many(uint8_t *out, const uint8_t *inputs, uint32_t width, size_t count) {
    const uint32_t place = width - POSEIDON_MAX_NARROW_INPUTS - 1;
    for (size_t i = 0; i < count; i++) {
        fr elements[POSEIDON_MAX_INPUTS], result;
        for (uint32_t j = 0; j < width; j++) {
            if (!fr_from_bytes(&elements[j], inputs + 32 * (i * width + j))) return i * width + j + 1;
        }
        poseidon_permute(&result, elements, width + 1, WIDE[place].partial_rounds, &WIDE[place].parameters);
        fr_to_bytes(out + 32 * i, &result);
    }
    return 0;
}
