/* poseidon/scalar_impl.h - Poseidon of 1 to 3 inputs on field elements: nodes and leaves of trees. */
#ifndef SHARED_POSEIDON_SCALAR_IMPL_H
#define SHARED_POSEIDON_SCALAR_IMPL_H

#include "poseidon/constants.h"
#include "poseidon/permutation.h"

static void poseidon_hash1(fr *out, const fr *inputs) {
    static const poseidon_parameters parameters = POSEIDON_PARAMETERS(2);
    poseidon_permute(out, inputs, 2, POSEIDON_2_PARTIAL_ROUNDS, &parameters);
}

static void poseidon_hash2(fr *out, const fr *inputs) {
    static const poseidon_parameters parameters = POSEIDON_PARAMETERS(3);
    poseidon_permute(out, inputs, 3, POSEIDON_3_PARTIAL_ROUNDS, &parameters);
}

static void poseidon_hash3(fr *out, const fr *inputs) {
    static const poseidon_parameters parameters = POSEIDON_PARAMETERS(4);
    poseidon_permute(out, inputs, 4, POSEIDON_4_PARTIAL_ROUNDS, &parameters);
}

#endif
