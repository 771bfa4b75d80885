/* msm/glv_lanes_impl.h - the split and the digits of msm/glv_impl.h for eight scalars at once in SIMD lanes; included by
 * msm/sums_impl.h. All numbers have limbs of 52 bits; the results are those of the scalar code.
 */
#ifndef G16_MSM_GLV_LANES_IMPL_H
#define G16_MSM_GLV_LANES_IMPL_H

#include "field/fr8_impl.h"
#include "msm/glv_impl.h"

/* Limb i of 2^shift times a number of `words` 64-bit words; shift: 0 or 4. */
LANES_INLINE uint64_t glv_limb(const uint64_t *number, int words, int shift, int i) {
    const int bit = 52 * i - shift, word = bit < 0 ? 0 : bit / 64, from = bit < 0 ? 0 : bit % 64;
    uint64_t limb = word < words ? number[word] >> from : 0;
    if (from > 12 && word + 1 < words) limb |= number[word + 1] << (64 - from);
    return (bit < 0 ? limb << shift : limb) & LANES52_MASK;
}

/* A factor that is equal in all lanes: limbs 0 .. count - 1 of 2^shift times a number. */
typedef struct glv_constant {
    const uint64_t *number;
    int words, shift, count;
} glv_constant;

/* columns[0 .. wanted - 1] += a b, where a has `limbs` limbs; higher columns are not computed. columns has wanted + 1 elements. */
LANES_INLINE void glv_add_product(lanes_part *columns, int wanted, const lanes_part *a, int limbs, glv_constant b) {
    lanes52_factor factors[5];
    LANES52_UNROLL
    for (int i = 0; i < limbs; i++) factors[i] = lanes52_factor_of(a[i]);
    LANES52_UNROLL
    for (int i = 0; i < limbs; i++) {
        LANES52_UNROLL
        for (int k = 0; k < b.count; k++) {
            if (i + k >= wanted) continue;
            const lanes_part limb = lanes_part_set(glv_limb(b.number, b.words, b.shift, k));
            lanes52_accumulate(&columns[i + k], &columns[i + k + 1], factors[i], lanes52_factor_of(limb));
        }
    }
    /* Without IFMA sums of halves contain exponent bits. */
    LANES52_UNROLL
    for (int column = 0; column < wanted; column++) {
        uint64_t excess = 0;
        LANES52_UNROLL
        for (int i = 0; i < limbs; i++) {
            if (column - i >= 0 && column - i < b.count) excess += LANES52_LOW_EXCESS;
            if (column - i >= 1 && column - i <= b.count) excess += LANES52_HIGH_EXCESS;
        }
        columns[column] = lanes_part_sub(columns[column], lanes_part_set(excess));
    }
}

/* quotient = floor((k g + 2^192 half) / 2^256) for g of three words, as glv_scaled_quotient(): limbs 5 to 7 of 16 times the sum. */
LANES_INLINE void glv_scaled_quotient_part(lanes_part quotient[3], const lanes_part k[5], const uint64_t g[3], int limbs, uint64_t half) {
    lanes_part columns[9];
    LANES52_UNROLL
    for (int i = 0; i < 9; i++) columns[i] = lanes_part_set(i == 3 ? half << 40 & LANES52_MASK : i == 4 ? half >> 12 : 0);
    glv_add_product(columns, 8, k, 5, (glv_constant){g, 3, 4, limbs});
    LANES52_UNROLL
    for (int i = 0; i < 7; i++) columns[i + 1] = lanes_part_add(columns[i + 1], lanes_part_right(columns[i], 52));
    LANES52_UNROLL
    for (int i = 0; i < 3; i++) quotient[i] = lanes_part_and(columns[i + 5], lanes_part_set(LANES52_MASK));
}

/* words = the low 128 bits of value - subtrahend + bias, all modulo 2^156. */
LANES_INLINE void glv_biased_words(lanes_part words[2], const lanes_part value[3], const lanes_part subtrahend[3], const uint64_t bias[2]) {
    lanes_part limbs[3];
    LANES52_UNROLL
    for (int i = 0; i < 3; i++) {
        limbs[i] = lanes_part_add(lanes_part_sub(value[i], subtrahend[i]), lanes_part_set(glv_limb(bias, 2, 0, i)));
        if (i > 0) limbs[i] = lanes_part_add(limbs[i], lanes_part_right_signed(limbs[i - 1], 52));
    }
    for (int i = 0; i < 2; i++) limbs[i] = lanes_part_and(limbs[i], lanes_part_set(LANES52_MASK));
    words[0] = lanes_part_or(limbs[0], lanes_part_left(limbs[1], 52));
    words[1] = lanes_part_or(lanes_part_right(limbs[1], 12), lanes_part_left(limbs[2], 40));
}

/* words[half] = half of k, plus the bias, as 128-bit numbers; k is below r. */
LANES_INLINE void glv_split_part(lanes_part words[2][2], const lanes_part k[5], const uint64_t bias[2]) {
    lanes_part c1[3], c2[3], first[4], second[4], minus_second[4];
    glv_scaled_quotient_part(c1, k, GLV_G1, 3, GLV_HALF1);
    glv_scaled_quotient_part(c2, k, GLV_G2, 2, GLV_HALF2);
    LANES52_UNROLL
    for (int i = 0; i < 4; i++) first[i] = second[i] = minus_second[i] = lanes_part_set(0);
    glv_add_product(first, 3, c1, 3, (glv_constant){GLV_A, 2, 0, 3});
    glv_add_product(first, 3, c2, 2, (glv_constant){GLV_B, 2, 0, 2});
    glv_add_product(second, 3, c1, 3, (glv_constant){GLV_B, 2, 0, 2});
    glv_add_product(minus_second, 3, c2, 2, (glv_constant){GLV_C, 2, 0, 3});
    glv_biased_words(words[0], k, first, bias);
    glv_biased_words(words[1], second, minus_second, bias);
}

/* Writes the low 32 bits of each word. */
LANES_INLINE void glv_store_i32(int32_t *at, lanes_u64 digits) {
    uint64_t words[LANES];
    lanes_store(words, digits);
    for (int i = 0; i < LANES; i++) at[i] = (int32_t)words[i];
}

/* Writes the digits of eight scalars, of 16 bits or (wide) 32, those of window w and half h to digits[(w * 2 + h) * stride]. Scalar
 * i is values[i] * unit, where unit is a plain number. */
static inline __attribute__((always_inline)) void glv_lanes_digits_kind(void *digits, size_t stride, const fr *values, const fr8 *unit,
                                                                        const msm_plan *plan, const uint64_t bias[2], const int wide) {
    const void *at[LANES];
    fr8 k;
    lanes_u64 words[2][2], columns[4];
    for (int i = 0; i < LANES; i++) at[i] = &values[i];
    for (int h = 0; h < LANES_PARTS; h++) {
        lanes_part own[4];
        lanes_part_load_columns(own, at + h * (LANES / LANES_PARTS), 0);
        for (int i = 0; i < 4; i++) LANES_PART(columns[i], h) = own[i];
    }
    fr8_unpack_factor(&k, columns);
    fr8_mul(&k, &k, unit);
    fr8_reduce(&k);
    LANES52_EACH_PART(h) {
        lanes_part limbs[5], split[2][2];
        LANES52_TAKE(limbs, k.v, h);
        glv_split_part(split, limbs, bias);
        for (int half = 0; half < 2; half++) {
            for (int i = 0; i < 2; i++) LANES_PART(words[half][i], h) = split[half][i];
        }
    }
    for (uint32_t w = 0; w < plan->windows; w++) {
        const uint32_t bits = msm_window_bits(plan, w);
        const lanes_u64 middle = lanes_set((uint64_t)1 << (bits - 1)), mask = lanes_set(glv_window_mask(plan, w));
        for (int half = 0; half < 2; half++) {
            lanes_u64 *low = &words[half][0], *high = &words[half][1];
            const lanes_u64 digit = lanes_sub(lanes_and(*low, mask), middle);
            const size_t place = (2 * w + (uint32_t)half) * stride;
            if (wide) {
                glv_store_i32((int32_t *)digits + place, digit);
            } else {
                lanes_store_i16((int16_t *)digits + place, digit);
            }
            *low = lanes_or(lanes_right(*low, bits), lanes_left(*high, 64 - bits));
            *high = lanes_right(*high, bits);
        }
    }
}

/* With AVX2 not inlined: it computes products without functions, which must not leave the caller's region (simd/lanes.h). */
#if defined(LANES_AVX2)
#define GLV_LANES_FUNCTION static __attribute__((noinline)) void
#else
#define GLV_LANES_FUNCTION static void
#endif

GLV_LANES_FUNCTION glv_lanes_digits(void *digits, size_t stride, const fr *values, const fr8 *unit, const msm_plan *plan,
                                    const uint64_t bias[2], int wide) {
    if (wide) {
        glv_lanes_digits_kind(digits, stride, values, unit, plan, bias, 1);
    } else {
        glv_lanes_digits_kind(digits, stride, values, unit, plan, bias, 0);
    }
}

#endif
