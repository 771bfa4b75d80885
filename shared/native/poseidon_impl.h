/* poseidon_impl.h - the permutation on field elements; constants are prepared by tools/generate_poseidon_constants.py.
 *
 * A partial round is: S-box and constant on lane 0, then a sparse matrix with a first row and a first column.
 */
#ifndef SHARED_POSEIDON_IMPL_H
#define SHARED_POSEIDON_IMPL_H

#include "fr.h"
#include "poseidon_constants.h"

#define POSEIDON_MAX_WIDTH 4

typedef struct poseidon_parameters {
    const fr *first, *last, *matrix, *enter, *enter_constants, *after, *sparse;
} poseidon_parameters;

#define POSEIDON_PARAMETERS(t)                                                                     \
    {POSEIDON_##t##_FIRST, POSEIDON_##t##_LAST,  POSEIDON_##t##_MATRIX, POSEIDON_##t##_ENTER, \
     POSEIDON_##t##_ENTER_CONSTANTS, POSEIDON_##t##_AFTER, POSEIDON_##t##_SPARSE}

static inline __attribute__((always_inline)) void poseidon_power5(fr *x) {
    fr square;
    fr_sqr(&square, x);
    fr_sqr(&square, &square);
    fr_mul(x, x, &square);
}

/* out = sum of row[i] * state[i] */
static inline __attribute__((always_inline)) void poseidon_dot(fr *out, const fr *row, const fr *state,
                                                               uint32_t width) {
    fr sum, term;
    fr_mul(&sum, &row[0], &state[0]);
    for (uint32_t i = 1; i < width; i++) {
        fr_mul(&term, &row[i], &state[i]);
        fr_add(&sum, &sum, &term);
    }
    *out = sum;
}

static inline __attribute__((always_inline)) void poseidon_multiply(fr *state, const fr *matrix, uint32_t width) {
    fr next[POSEIDON_MAX_WIDTH];
    for (uint32_t i = 0; i < width; i++) poseidon_dot(&next[i], matrix + i * width, state, width);
    for (uint32_t i = 0; i < width; i++) state[i] = next[i];
}

/* Constants and S-box on lanes from `lane` on. */
static inline __attribute__((always_inline)) void poseidon_full(fr *state, const fr *constants, uint32_t width,
                                                                uint32_t lane) {
    for (uint32_t i = lane; i < width; i++) {
        fr_add(&state[i], &state[i], &constants[i]);
        poseidon_power5(&state[i]);
    }
}

/* out = hash of width - 1 inputs; `width` and `partial_rounds` are constants at every call. */
static inline __attribute__((always_inline)) void poseidon_permute(fr *out, const fr *inputs, uint32_t width,
                                                                   uint32_t partial_rounds,
                                                                   const poseidon_parameters *p) {
    fr state[POSEIDON_MAX_WIDTH];
    for (uint32_t i = 1; i < width; i++) state[i] = inputs[i - 1];
    state[0] = p->first[0]; /* lane 0 starts as zero: its first S-box is a constant */
    poseidon_full(state, p->first, width, 1);
    for (uint32_t round = 1; round < 4; round++) {
        poseidon_multiply(state, p->matrix, width);
        poseidon_full(state, p->first + round * width, width, 0);
    }
    poseidon_multiply(state, p->enter, width);
    for (uint32_t i = 0; i < width; i++) fr_add(&state[i], &state[i], &p->enter_constants[i]);
    for (uint32_t round = 0; round < partial_rounds; round++) {
        const fr *row = p->sparse + round * (2 * width - 1), *column = row + width;
        fr lane, term;
        poseidon_power5(&state[0]);
        fr_add(&lane, &state[0], &p->after[round]);
        state[0] = lane;
        poseidon_dot(&state[0], row, state, width);
        for (uint32_t i = 1; i < width; i++) {
            fr_mul(&term, &column[i - 1], &lane);
            fr_add(&state[i], &state[i], &term);
        }
    }
    for (uint32_t round = 0; round < 3; round++) {
        poseidon_full(state, p->last + round * width, width, 0);
        poseidon_multiply(state, p->matrix, width);
    }
    poseidon_full(state, p->last + 3 * width, width, 0);
    poseidon_dot(out, p->matrix, state, width);
}

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
