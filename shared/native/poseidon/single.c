/* poseidon/single.c - one hash of two inputs with AVX-512 IFMA: the products of a round are in the lanes of one register.
 *
 * The steps are those of poseidon/permutation.h, the values and their bounds those of poseidon/lanes_impl.h. A partial round takes
 * three products of four lanes, one after the other, for state s, row w and the column v of the round before:
 *   s0 s0, v1 p + s1, v2 p + s2     p: the last power with its constant
 *   s0^2 s0^2, w1 s1, w2 s2
 *   s0^4 s0 + constant, in lane 0 also + w1 s1 + w2 s2: the new s0, and p in the other lanes
 */
#define LANES_AVX2 1
#define LANES_IFMA 1

#include "poseidon/single.h"

#include "field/fr.h"
#include "field/lanes52.h"
#include "poseidon/constants.h"
#include "poseidon/lane_constants.h"
#include "poseidon/lane_field.h"

typedef struct fr4 {
    lanes_part v[5];
} fr4;

#define SINGLE_LANE(x, lane) _mm256_permute4x64_epi64(x, (lane) * 0x55)

LANES_INLINE fr4 fr4_zero(void) { return (fr4){{lanes_part_set(0), lanes_part_set(0), lanes_part_set(0), lanes_part_set(0), lanes_part_set(0)}}; }

/* The elements rows[0], rows[step], ... up to `count` in lanes `first` and up; zero in the others. */
LANES_INLINE fr4 fr4_of(const uint64_t (*rows)[5], size_t step, int first, int count) {
    fr4 r;
    LANES52_UNROLL
    for (int k = 0; k < 5; k++) {
        /* Not an array: clang 14 would keep it in memory, and a hash would take 1.7 times as long. */
        const long long x = (long long)rows[0][k], y = count > 1 ? (long long)rows[step][k] : 0;
        const long long z = count > 2 ? (long long)rows[2 * step][k] : 0;
        r.v[k] = first == 0 ? _mm256_setr_epi64x(x, y, z, 0) : first == 1 ? _mm256_setr_epi64x(0, x, y, z) : _mm256_setr_epi64x(0, 0, 0, x);
    }
    return r;
}

LANES_INLINE fr4 fr4_all(const uint64_t limbs[5]) {
    fr4 r;
    LANES52_UNROLL
    for (int k = 0; k < 5; k++) r.v[k] = lanes_part_set(limbs[k]);
    return r;
}

/* Lane 0 of `first`, the other lanes of `others`. */
LANES_INLINE fr4 fr4_join(const fr4 *first, const fr4 *others) {
    fr4 r;
    LANES52_UNROLL
    for (int k = 0; k < 5; k++) r.v[k] = _mm256_blend_epi32(others->v[k], first->v[k], 0x03);
    return r;
}

LANES_INLINE fr4 fr4_add(const fr4 *a, const fr4 *b) {
    fr4 r;
    LANES52_UNROLL
    for (int k = 0; k < 5; k++) r.v[k] = lanes_part_add(a->v[k], b->v[k]);
    return r;
}

#define FR4_SPREAD(name, lane)                                                \
    LANES_INLINE fr4 name(const fr4 *a) {                                     \
        fr4 r;                                                                \
        LANES52_UNROLL                                                        \
        for (int k = 0; k < 5; k++) r.v[k] = SINGLE_LANE(a->v[k], lane);      \
        return r;                                                             \
    }
FR4_SPREAD(fr4_spread0, 0)
FR4_SPREAD(fr4_spread1, 1)
FR4_SPREAD(fr4_spread2, 2)
FR4_SPREAD(fr4_spread3, 3)

/* a[0] b[0] + ... + addend with one reduction; see lanes52_mul_sum(). Low and high halves have their own sums, which shortens the
 * chains of dependent additions. */
LANES_INLINE fr4 fr4_dot(const fr4 *a, const fr4 *b, int products, const fr4 *addend) {
    lanes_part low[9], high[9], t[10];
    fr4 r;
    LANES52_UNROLL
    for (int k = 0; k < 9; k++) {
        low[k] = k >= 5 ? addend->v[k - 5] : lanes_part_set(0);
        high[k] = k == 8 ? addend->v[4] : lanes_part_set(0);
    }
    LANES52_UNROLL
    for (int i = 0; i < 5; i++) {
        LANES52_UNROLL
        for (int q = 0; q < products; q++) {
            LANES52_UNROLL
            for (int k = 0; k < 5; k++) {
                low[i + k] = lanes52_add_low(low[i + k], a[q].v[k], b[q].v[i]);
                high[i + k] = lanes52_add_high(high[i + k], a[q].v[k], b[q].v[i]);
            }
        }
    }
    LANES52_UNROLL
    for (int k = 0; k < 10; k++) t[k] = k == 0 ? low[0] : k == 9 ? high[8] : lanes_part_add(low[k], high[k - 1]);
    LANES52_UNROLL
    for (int row = 0; row < 5; row++) lanes52_finish_row(t, row, &POSEIDON_MODULUS);
    LANES52_UNROLL
    for (int k = 0; k < 5; k++) r.v[k] = t[5 + k];
    lanes52_finish(r.v);
    return r;
}

LANES_INLINE fr4 fr4_mul_add(const fr4 *a, const fr4 *b, const fr4 *addend) { return fr4_dot(a, b, 1, addend); }

LANES_INLINE fr4 fr4_mul(const fr4 *a, const fr4 *b) {
    const fr4 zero = fr4_zero();
    return fr4_dot(a, b, 1, &zero);
}

LANES_INLINE fr4 fr4_power5(const fr4 *x) {
    fr4 power = fr4_mul(x, x);
    power = fr4_mul(&power, &power);
    return fr4_mul(&power, x);
}

/* S-boxes on the first `inputs` lanes, then the three rows of a layer. */
static fr4 single_layer(const fr4 *state, const uint64_t (*layer)[5], int inputs) {
    const fr4 power = fr4_power5(state), constants = fr4_of(layer + inputs - 1, (size_t)inputs, 0, 3);
    fr4 addend = fr4_spread0(&power), left[2], right[2];
    addend = fr4_add(&addend, &constants);
    left[0] = fr4_spread1(&power);
    right[0] = fr4_of(layer, (size_t)inputs, 0, 3);
    if (inputs == 2) return fr4_dot(left, right, 1, &addend);
    left[1] = fr4_spread2(&power);
    right[1] = fr4_of(layer + 1, (size_t)inputs, 0, 3);
    return fr4_dot(left, right, 2, &addend);
}

static fr4 single_partial_rounds(const fr4 *state) {
    const uint64_t(*partial)[5] = POSEIDON_3_LANES_PARTIAL;
    const fr4 zero = fr4_zero();
    fr4 first = *state, others = fr4_join(&zero, state), column = zero;
    for (uint32_t round = 0; round < POSEIDON_3_PARTIAL_ROUNDS; round++, partial += 5) {
        const fr4 constant = fr4_all(partial[0]), row = fr4_of(partial + 1, 1, 1, 2), base = fr4_spread0(&first);
        fr4 factors = fr4_join(&first, &column);
        const fr4 squares = fr4_mul_add(&first, &factors, &others);
        others = fr4_join(&zero, &squares);
        factors = fr4_join(&squares, &row);
        const fr4 fourth = fr4_mul(&squares, &factors), power = fr4_spread0(&fourth);
        fr4 sum = fr4_spread1(&fourth), term = fr4_spread2(&fourth);
        sum = fr4_add(&sum, &term);
        sum = fr4_join(&sum, &zero);
        sum = fr4_add(&sum, &constant);
        first = fr4_mul_add(&power, &base, &sum);
        column = fr4_of(partial + 3, 1, 1, 2);
    }
    others = fr4_mul_add(&first, &column, &others);
    return fr4_join(&first, &others);
}

/* inputs: in lanes 0 and 1. Lane 0 to 2: summands of the result; lane 3: `next` in Montgomery form. */
static fr4 single_permute(const fr4 *inputs, const fr4 *next) {
    const uint64_t(*layer)[5] = POSEIDON_3_LANES_LAYERS;
    fr4 state = fr4_of(POSEIDON_3_LANES_INPUT, 1, 0, 2), factors;
    const fr4 leave = fr4_of(POSEIDON_3_LANES_LEAVE, 1, 0, 3), conversion = fr4_of(&POSEIDON_TO_R260, 1, 3, 1);
    state = fr4_add(&state, inputs);
    lanes52_carry_part(state.v, 0);
    state = single_layer(&state, POSEIDON_3_LANES_START, 2);
    for (uint32_t round = 1; round < 4; round++, layer += 9) state = single_layer(&state, layer, 3);
    state = single_partial_rounds(&state);
    state = fr4_add(&state, &leave);
    lanes52_carry_part(state.v, 0);
    for (uint32_t round = 0; round < 3; round++, layer += 9) state = single_layer(&state, layer, 3);
    state = fr4_power5(&state);
    factors = fr4_of(POSEIDON_3_LANES_FINAL, 1, 0, 3);
    LANES52_UNROLL
    for (int k = 0; k < 5; k++) {
        state.v[k] = _mm256_blend_epi32(state.v[k], next->v[k], 0xc0);
        factors.v[k] = lanes_part_add(factors.v[k], conversion.v[k]);
    }
    return fr4_mul(&state, &factors);
}

/* Returns an element in all lanes. */
static fr4 single_load(const uint8_t *element) {
    uint64_t w[4];
    mont256_load_be(w, element);
    const uint64_t limbs[5] = {w[0] & LANES52_MASK, (w[0] >> 52 | w[1] << 12) & LANES52_MASK, (w[1] >> 40 | w[2] << 24) & LANES52_MASK,
                               (w[2] >> 28 | w[3] << 36) & LANES52_MASK, w[3] >> 16};
    return fr4_all(limbs);
}

static void single_store(uint8_t *element, const fr4 *a) {
    uint64_t limbs[5], w[4];
    for (int k = 0; k < 5; k++) limbs[k] = (uint64_t)_mm256_extract_epi64(a->v[k], 0);
    w[0] = limbs[0] | limbs[1] << 52;
    w[1] = limbs[1] >> 12 | limbs[2] << 40;
    w[2] = limbs[2] >> 24 | limbs[3] << 28;
    w[3] = limbs[3] >> 36 | limbs[4] << 16;
    mont256_reduce_once(w, w, &FR_MODULUS);
    mont256_store_be(element, w);
}

void poseidon_single_chain(uint8_t *out, const uint8_t *inputs, size_t count) {
    static const uint64_t one[5] = {1, 0, 0, 0, 0};
    const fr4 conversion = fr4_all(POSEIDON_TO_R260), plain = fr4_all(one);
    fr4 first = single_load(inputs), second = single_load(inputs + 32), value, pair;
    first = fr4_mul(&first, &conversion);
    second = fr4_mul(&second, &conversion);
    pair = fr4_join(&first, &second);
    for (size_t i = 2;; i++) {
        const fr4 next = single_load(inputs + 32 * (i < count ? i : 0)), terms = single_permute(&pair, &next);
        const fr4 term1 = fr4_spread1(&terms), term2 = fr4_spread2(&terms), following = fr4_spread3(&terms);
        value = fr4_add(&terms, &term1);
        value = fr4_add(&value, &term2);
        lanes52_carry_part(value.v, 0);
        if (i >= count) break;
        pair = fr4_join(&value, &following);
    }
    /* A product with the plain number one converts from Montgomery form. */
    value = fr4_mul(&value, &plain);
    single_store(out, &value);
}
