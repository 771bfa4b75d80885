/* poseidon/permutation.h - the permutation on field elements; tools/generate_poseidon_constants.py prepares the constants.
 *
 * Elements of the state are scaled by known factors, so that one coefficient of every row is one. A layer is: S-boxes, then for
 * each row the sum of element 0, a constant and the products with the other elements. A partial round is: S-box and constant on
 * element 0, then a sparse matrix with a first row and a first column.
 */
#ifndef SHARED_POSEIDON_PERMUTATION_H
#define SHARED_POSEIDON_PERMUTATION_H

#include "field/fr.h"

#define POSEIDON_MAX_WIDTH 8

typedef struct poseidon_parameters {
    const fr *input, *start, *layers, *partial, *leave, *final;
} poseidon_parameters;

#define POSEIDON_PARAMETERS(t)                                                                        \
    {POSEIDON_##t##_INPUT,   POSEIDON_##t##_START, POSEIDON_##t##_LAYERS, \
     POSEIDON_##t##_PARTIAL, POSEIDON_##t##_LEAVE, POSEIDON_##t##_FINAL}

static inline __attribute__((always_inline)) void poseidon_power5(fr *x) {
    fr square;
    fr_sqr(&square, x);
    fr_sqr(&square, &square);
    fr_mul(x, x, &square);
}

/* sum += row[0] * state[0] + ... */
static inline __attribute__((always_inline)) void poseidon_add_products(fr *sum, const fr *row, const fr *state,
                                                                        uint32_t count) {
    for (uint32_t i = 0; i < count; i++) {
        fr term;
        fr_mul(&term, &row[i], &state[i]);
        fr_add(sum, sum, &term);
    }
}

/* S-boxes on `lanes` elements, then `rows` rows of lanes - 1 coefficients and a constant. Returns the next layer. */
static inline __attribute__((always_inline)) const fr *poseidon_layer(fr *state, const fr *layer, uint32_t lanes,
                                                                      uint32_t rows) {
    fr powers[POSEIDON_MAX_WIDTH];
    for (uint32_t i = 0; i < lanes; i++) {
        powers[i] = state[i];
        poseidon_power5(&powers[i]);
    }
    for (uint32_t i = 0; i < rows; i++, layer += lanes) {
        fr_add(&state[i], &powers[0], &layer[lanes - 1]);
        poseidon_add_products(&state[i], layer, powers + 1, lanes - 1);
    }
    return layer;
}

/* out = hash of width - 1 inputs. For speed, call it with constant `width` and `partial_rounds`. */
static inline __attribute__((always_inline)) void poseidon_permute(fr *out, const fr *inputs, uint32_t width,
                                                                   uint32_t partial_rounds,
                                                                   const poseidon_parameters *p) {
    fr state[POSEIDON_MAX_WIDTH];
    const fr *layer = p->layers, *partial = p->partial;
    /* Element 0 starts as zero: its first S-box is a constant, which is included in the constants of the layer. */
    for (uint32_t i = 0; i < width - 1; i++) fr_add(&state[i], &inputs[i], &p->input[i]);
    poseidon_layer(state, p->start, width - 1, width);
    for (uint32_t round = 1; round < 4; round++) layer = poseidon_layer(state, layer, width, width);
    for (uint32_t round = 0; round < partial_rounds; round++, partial += 2 * width - 1) {
        const fr *row = partial + 1, *column = partial + width;
        fr power = state[0];
        poseidon_power5(&power);
        fr_add(&power, &power, &partial[0]);
        state[0] = power;
        poseidon_add_products(&state[0], row, state + 1, width - 1);
        for (uint32_t i = 1; i < width; i++) poseidon_add_products(&state[i], &column[i - 1], &power, 1);
    }
    for (uint32_t i = 0; i < width; i++) fr_add(&state[i], &state[i], &p->leave[i]);
    for (uint32_t round = 0; round < 3; round++) layer = poseidon_layer(state, layer, width, width);
    for (uint32_t i = 0; i < width; i++) poseidon_power5(&state[i]);
    fr_mul(out, &p->final[0], &state[0]);
    poseidon_add_products(out, p->final + 1, state + 1, width - 1);
}

#endif
