/* poseidon/lanes_impl.h - eight permutations at once; see poseidon/scalar_impl.h for the steps.
 *
 * Values are loose (field/lanes52.h). Constants are the addends of products. Bounds in multiples of r, where R/r > 84: elements 1
 * and up of the state are below 4 before the partial rounds and grow by less than 1.04 in each, to below 64. Their products with
 * constants below 1 add less than 64/84 each to element 0, which stays below 6. The fifth power of a value below 6 is below 1.1,
 * that of one below 64 is below 23. So every operand is far below R.
 */
#ifndef SHARED_POSEIDON_LANES_IMPL_H
#define SHARED_POSEIDON_LANES_IMPL_H

#include "field/fr.h"
#include "field/lanes52.h"
#include "poseidon/constants.h"
#include "poseidon/lane_constants.h"
#include "poseidon/lane_field.h"
#include "poseidon/poseidon.h"

#define POSEIDON_LANES_WIDTH 4 /* the widest state */

static const uint64_t POSEIDON_LANES_ONE[5] = {1, 0, 0, 0, 0};
static const uint64_t POSEIDON_LANES_ZERO[5] = {0, 0, 0, 0, 0};

typedef struct fr8 {
    lanes_u64 v[5];
} fr8;

typedef struct poseidon_lane_parameters {
    const uint64_t (*input)[5], (*start)[5], (*layers)[5], (*partial)[5], (*leave)[5], (*final)[5];
} poseidon_lane_parameters;

#define POSEIDON_LANE_PARAMETERS(t)                                                                        \
    {POSEIDON_##t##_LANES_INPUT,   POSEIDON_##t##_LANES_START, POSEIDON_##t##_LANES_LAYERS, \
     POSEIDON_##t##_LANES_PARTIAL, POSEIDON_##t##_LANES_LEAVE, POSEIDON_##t##_LANES_FINAL}

LANES_INLINE void fr8_set(fr8 *r, const uint64_t limbs[5]) {
    for (int i = 0; i < 5; i++) r->v[i] = lanes_set(limbs[i]);
}

LANES_INLINE void fr8_add(fr8 *r, const fr8 *a, const uint64_t limbs[5]) {
    for (int i = 0; i < 5; i++) r->v[i] = lanes_add(a->v[i], lanes_set(limbs[i]));
}

/* Not inlined: a round would not fit the cache of decoded instructions. */
#define FR8_FUNCTION static __attribute__((noinline)) void

FR8_FUNCTION fr8_sqr(fr8 *r, const fr8 *a) { lanes52_sqr(r->v, a->v, &POSEIDON_MODULUS); }

FR8_FUNCTION fr8_mul_add(fr8 *r, const fr8 *a, const fr8 *b, const fr8 *addend) {
    lanes52_mul_add(r->v, a->v, b->v, addend->v, &POSEIDON_MODULUS);
}

/* out = row[0] * state[0] + ... + addend with one reduction. */
LANES_INLINE void fr8_dot_of(fr8 *out, const uint64_t (*row)[5], const fr8 *state, int count, const fr8 *addend) {
    fr8 factors[LANES52_MAX_PRODUCTS];
    const lanes_u64 *left[LANES52_MAX_PRODUCTS], *right[LANES52_MAX_PRODUCTS];
    LANES52_UNROLL
    for (int i = 0; i < count; i++) {
        fr8_set(&factors[i], row[i]);
        left[i] = state[i].v;
        right[i] = factors[i].v;
    }
    lanes52_mul_sum(out->v, count, left, right, addend->v, &POSEIDON_MODULUS);
}

#define FR8_DOT(count)                                                                                        \
    FR8_FUNCTION fr8_dot##count(fr8 *out, const uint64_t (*row)[5], const fr8 *state, const fr8 *addend) {    \
        fr8_dot_of(out, row, state, count, addend);                                                           \
    }
FR8_DOT(1)
FR8_DOT(2)
FR8_DOT(3)
FR8_DOT(4)

/* The same for any count, which is a constant at every call; for 0, out = addend, normalised. */
LANES_INLINE void fr8_dot(fr8 *out, const uint64_t (*row)[5], const fr8 *state, uint32_t count, const fr8 *addend) {
    if (count == 0) {
        *out = *addend;
        lanes52_carry(out->v, 1);
    }
    if (count == 1) fr8_dot1(out, row, state, addend);
    if (count == 2) fr8_dot2(out, row, state, addend);
    if (count == 3) fr8_dot3(out, row, state, addend);
    if (count == 4) fr8_dot4(out, row, state, addend);
}

LANES_INLINE void fr8_power5(fr8 *r, const fr8 *x, const fr8 *addend) {
    fr8 square;
    fr8_sqr(&square, x);
    fr8_sqr(&square, &square);
    fr8_mul_add(r, x, &square, addend);
}

LANES_INLINE const uint64_t (*poseidon_lanes_layer(fr8 *state, const uint64_t (*layer)[5], uint32_t inputs,
                                                   uint32_t rows))[5] {
    fr8 powers[POSEIDON_LANES_WIDTH], addend;
    fr8_set(&addend, POSEIDON_LANES_ZERO);
    for (uint32_t i = 0; i < inputs; i++) fr8_power5(&powers[i], &state[i], &addend);
    for (uint32_t i = 0; i < rows; i++, layer += inputs) {
        fr8_add(&addend, &powers[0], layer[inputs - 1]);
        fr8_dot(&state[i], layer, powers + 1, inputs - 1, &addend);
    }
    return layer;
}

/* Eight hashes of width - 1 inputs; `width` and `partial_rounds` are constants at every call. Inputs are normalised plain numbers
 * below r; results too, below 2r. */
LANES_INLINE void poseidon_lanes_permute(fr8 *out, const fr8 *inputs, uint32_t width, uint32_t partial_rounds,
                                         const poseidon_lane_parameters *p) {
    fr8 state[POSEIDON_LANES_WIDTH], addend, zero;
    const uint64_t(*layer)[5] = p->layers, (*partial)[5] = p->partial;
    fr8_set(&zero, POSEIDON_LANES_ZERO);
    for (uint32_t i = 0; i < width - 1; i++) {
        fr8_set(&addend, p->input[i]);
        fr8_dot1(&state[i], &POSEIDON_TO_R260, &inputs[i], &addend);
    }
    poseidon_lanes_layer(state, p->start, width - 1, width);
    for (uint32_t round = 1; round < 4; round++) layer = poseidon_lanes_layer(state, layer, width, width);
    for (uint32_t round = 0; round < partial_rounds; round++, partial += 2 * width - 1) {
        fr8 power;
        fr8_set(&addend, partial[0]);
        fr8_power5(&power, &state[0], &addend);
        fr8_dot(&state[0], partial + 1, state + 1, width - 1, &power);
        for (uint32_t i = 1; i < width; i++) fr8_dot1(&state[i], partial + width + i - 1, &power, &state[i]);
    }
    for (uint32_t i = 0; i < width; i++) {
        fr8_add(&state[i], &state[i], p->leave[i]);
        lanes52_carry(state[i].v, 1);
    }
    for (uint32_t round = 0; round < 3; round++) layer = poseidon_lanes_layer(state, layer, width, width);
    for (uint32_t i = 0; i < width; i++) fr8_power5(&state[i], &state[i], &zero);
    fr8_dot(out, p->final, state, width, &zero);
    /* A product with the plain number one converts from Montgomery form. */
    fr8_dot1(out, &POSEIDON_LANES_ONE, out, &zero);
}

static void poseidon_lanes_hash1(fr8 *out, const fr8 *inputs) {
    static const poseidon_lane_parameters parameters = POSEIDON_LANE_PARAMETERS(2);
    poseidon_lanes_permute(out, inputs, 2, POSEIDON_2_PARTIAL_ROUNDS, &parameters);
}

static void poseidon_lanes_hash2(fr8 *out, const fr8 *inputs) {
    static const poseidon_lane_parameters parameters = POSEIDON_LANE_PARAMETERS(3);
    poseidon_lanes_permute(out, inputs, 3, POSEIDON_3_PARTIAL_ROUNDS, &parameters);
}

static void poseidon_lanes_hash3(fr8 *out, const fr8 *inputs) {
    static const poseidon_lane_parameters parameters = POSEIDON_LANE_PARAMETERS(4);
    poseidon_lanes_permute(out, inputs, 4, POSEIDON_4_PARTIAL_ROUNDS, &parameters);
}

/* Converts four 64-bit limbs of each of eight elements, element i at words[i], to limbs of 52 bits. */
static void fr8_from_words(fr8 *r, const uint64_t words[LANES][4]) {
    uint64_t limbs[5][LANES];
    for (int i = 0; i < LANES; i++) {
        const uint64_t *w = words[i];
        limbs[0][i] = w[0] & LANES52_MASK;
        limbs[1][i] = (w[0] >> 52 | w[1] << 12) & LANES52_MASK;
        limbs[2][i] = (w[1] >> 40 | w[2] << 24) & LANES52_MASK;
        limbs[3][i] = (w[2] >> 28 | w[3] << 36) & LANES52_MASK;
        limbs[4][i] = w[3] >> 16;
    }
    for (int k = 0; k < 5; k++) r->v[k] = lanes_load(limbs[k]);
}

static void fr8_to_words(uint64_t words[LANES][4], const fr8 *a) {
    uint64_t limbs[5][LANES];
    for (int k = 0; k < 5; k++) lanes_store(limbs[k], a->v[k]);
    for (int i = 0; i < LANES; i++) {
        words[i][0] = limbs[0][i] | limbs[1][i] << 52;
        words[i][1] = limbs[1][i] >> 12 | limbs[2][i] << 40;
        words[i][2] = limbs[2][i] >> 24 | limbs[3][i] << 28;
        words[i][3] = limbs[3][i] >> 36 | limbs[4][i] << 16;
    }
}

/* hash_many of poseidon/poseidon.h for 1 to 8 groups of elements below r; unused lanes repeat the first group. */
static void poseidon_lanes_hash(uint8_t *out, const uint8_t *inputs, uint32_t width, size_t count) {
    fr8 elements[POSEIDON_MAX_NARROW_INPUTS], result;
    uint64_t words[LANES][4];
    for (uint32_t j = 0; j < width; j++) {
        for (size_t i = 0; i < LANES; i++) {
            mont256_load_be(words[i], inputs + 32 * ((i < count ? i : 0) * width + j));
        }
        fr8_from_words(&elements[j], (const uint64_t(*)[4])words);
    }
    LANES_REGION;
    if (width == 1) {
        poseidon_lanes_hash1(&result, elements);
    } else if (width == 2) {
        poseidon_lanes_hash2(&result, elements);
    } else {
        poseidon_lanes_hash3(&result, elements);
    }
    fr8_to_words(words, &result);
    for (size_t i = 0; i < count; i++) {
        mont256_reduce_once(words[i], words[i], &FR_MODULUS);
        mont256_store_be(out + 32 * i, words[i]);
    }
}

#endif
