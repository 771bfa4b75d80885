/* field/lanes52.h - Montgomery products of eight elements at once (simd/lanes.h): limbs of 52 bits, R = 2^260.
 *
 * A value is five vectors of limbs; lane i belongs to element i. It is normalised when every limb is in [0, 2^52), and raw when
 * limbs are any signed 64-bit numbers with the right weighted sum. Operands of products are normalised. Results are normalised
 * too, and below (1 + 2^-51) p + (sum of the products of the operands' values) / R + addend, which must be below R; they are not
 * reduced. Requirements: an odd modulus below 2^254; the lower four 52-bit limbs of p, `shifted` and `shifted_twice` differ from
 * 2^51 - 1; both limbs of the negated inverse modulo 2^104 are below 2^51. Time does not depend on values.
 *
 * A product a b has ten columns. Five multiples of p are added, each of which makes the lowest remaining column divisible by 2^52;
 * its quotient is carried into the next one. A column accumulates at most five low and five high halves below 2^52 of each of up
 * to four products and of the multiples: less than 2^58 in absolute value, also where products are subtracted from each other.
 * - The first three columns are cleared by m N for N = p inverse, which is -1 modulo 2^52: so m is the low limb of the column, and
 * the rest of the column is its carry. N + 1 = 2^52 shifted has no more digits than p.
 * - The last two are cleared by m p for m = inverse times the column modulo 2^52, because N would give larger results. The low half
 * of m p[0] is minus the low limb of the column modulo 2^52. So the carry is the column over 2^52 rounded up, without that half.
 *
 * The including unit defines LANES_IFMA when it is compiled for AVX-512 IFMA, and additionally LANES_IFMA_EMULATED when the
 * instructions are emulated. Without LANES_IFMA, with AVX-512 or AVX2, the halves of a product are computed in floating point
 * (Emmart, Zheng, Weems: Faster modular exponentiation using double precision floating point arithmetic on the GPU, ARITH 2018).
 * Rounded towards zero, the mantissa of a b + 2^104 contains the high half of a b; and a b minus that high half, plus 2^52,
 * contains the low half. Both are added as integers with their exponent bits, and each column starts from minus the sum of the
 * exponent bits that it will accumulate. Every step is exact:
 * - a, b < 2^52: 2^104 <= a b + 2^104 < 2^105, where a unit of the mantissa is 2^52. So the high half is the floor, the low half
 * is in [0, 2^52), and 2^52 plus it is an integer below 2^53.
 * - Multiples of p are used in signed digits d, |d| < 2^51, and a quotient m as the double 2^52 + m, the form of a low half. Then
 * (2^52 + m) |d| < 2^104 as well. The low half is that of m |d|; the high half is too large by |d|, which the start of the column
 * takes into account. For d < 0 both halves are subtracted.
 * - Low limbs x of columns enter quotients as 2^52 + x too: the product with a limb of the inverse is below 2^104 and has the low
 * half of x times that limb.
 * - For the last two columns m d0 + x is divisible by 2^52 for the lowest digit d0 of p, so the carry is the high half of m d0
 * rounded up: minus the floor of 2^105 - 2^52 - m d0 for d0 > 0, and of 2^104 - m d0 for d0 < 0.
 * - Columns may be negative. They start 2^60 higher, and the next one 2^8 lower, so that carries are never negative.
 * A product of floating point takes eleven clocks before the next column's quotient can be computed. So quotients are computed in
 * pairs where that is possible: the first two columns are cleared by M = p inverse modulo 2^104, which is -1 modulo 2^104, and the
 * last two quotients are the two limbs of inverse times both columns. M < 2^103 p and N < 2^51 p, so together the first three
 * multiples add less than 2^-51 p to the result.
 */
#ifndef SHARED_FIELD_LANES52_H
#define SHARED_FIELD_LANES52_H

#include "simd/lanes.h"

#define LANES52_MASK 0xfffffffffffffULL
#define LANES52_UNROLL _Pragma("GCC unroll 10")
#define LANES52_MAX_PRODUCTS 4
#define LANES52_MAX_REDUCED 4

/* Load and store one part of five limbs; the loop over parts is not unrolled, because products are long. */
#define LANES52_TAKE(to, from, h) LANES52_UNROLL for (int limb = 0; limb < 5; limb++) (to)[limb] = LANES_PART((from)[limb], h)
#define LANES52_PUT(to, from, h) LANES52_UNROLL for (int limb = 0; limb < 5; limb++) LANES_PART((to)[limb], h) = (from)[limb]
#define LANES52_EACH_PART(h) _Pragma("GCC unroll 1") for (int h = 0; h < LANES_PARTS; h++)

typedef struct lanes52_modulus {
    uint64_t p[5];
    uint64_t inverse[2];       /* -1/p mod 2^104 */
    uint64_t shifted[5];       /* (N + 1) / 2^52 for N = p inverse[0] */
    uint64_t shifted_twice[5]; /* (M + 1) / 2^104 for M = p inverse */
} lanes52_modulus;

/* Carries limbs upwards; is_signed: limbs may be negative. */
LANES_INLINE void lanes52_carry_part(lanes_part r[5], int is_signed) {
    const lanes_part mask = lanes_part_set(LANES52_MASK);
    LANES52_UNROLL
    for (int i = 0; i < 4; i++) {
        r[i + 1] = lanes_part_add(r[i + 1], is_signed ? lanes_part_right_signed(r[i], 52) : lanes_part_right(r[i], 52));
        r[i] = lanes_part_and(r[i], mask);
    }
}

/* The same for all parts; the value of each lane must be non-negative. */
LANES_INLINE void lanes52_carry(lanes_u64 r[5], int is_signed) {
    LANES52_UNROLL
    for (int h = 0; h < LANES_PARTS; h++) {
        lanes_part limbs[5];
        LANES52_TAKE(limbs, r, h);
        lanes52_carry_part(limbs, is_signed);
        LANES52_PUT(r, limbs, h);
    }
}

/* ---- sums of halves of products --------------------------------------------------------------------- */

/* lanes52_add_low and lanes52_add_high: sum plus the low or the high 52 bits of the product of the low 52 bits of a and b. */

#if defined(LANES_IFMA) && defined(LANES_IFMA_EMULATED)

/* For tests on CPUs without these instructions; all other code is the same. */

LANES_INLINE __m512i lanes52_add_low(__m512i sum, __m512i a, __m512i b) {
    const __m512i mask = lanes_set(LANES52_MASK);
    const __m512i product = _mm512_mullo_epi64(_mm512_and_si512(a, mask), _mm512_and_si512(b, mask));
    return _mm512_add_epi64(sum, _mm512_and_si512(product, mask));
}

LANES_INLINE __m512i lanes52_add_high(__m512i sum, __m512i a, __m512i b) {
    const __m512i half = lanes_set(((uint64_t)1 << 26) - 1);
    const __m512i a0 = _mm512_and_si512(a, half), a1 = _mm512_and_si512(_mm512_srli_epi64(a, 26), half);
    const __m512i b0 = _mm512_and_si512(b, half), b1 = _mm512_and_si512(_mm512_srli_epi64(b, 26), half);
    const __m512i crossed = _mm512_add_epi64(_mm512_mul_epu32(a0, b1), _mm512_mul_epu32(a1, b0));
    const __m512i middle = _mm512_add_epi64(crossed, _mm512_srli_epi64(_mm512_mul_epu32(a0, b0), 26));
    return _mm512_add_epi64(sum, _mm512_add_epi64(_mm512_mul_epu32(a1, b1), _mm512_srli_epi64(middle, 26)));
}

#elif defined(LANES_IFMA)

LANES_INLINE lanes_part lanes52_add_low(lanes_part sum, lanes_part a, lanes_part b) { return lanes_part_madd52_low(sum, a, b); }

LANES_INLINE lanes_part lanes52_add_high(lanes_part sum, lanes_part a, lanes_part b) { return lanes_part_madd52_high(sum, a, b); }

#endif

/* ---- a product of limbs, and the end of a row ---------------------------------------------------- */

/* Number of rows that add a multiple of N. */
#define LANES52_SHIFTED_ROWS 3

/* lanes52_factor: a limb as a factor.
 * lanes52_accumulate: *low += low half of a b, *high += high half, each plus its LANES52_..._EXCESS.
 * lanes52_start: initial value of column k when each row has the given number of products.
 * With IFMA, lanes52_finish_row: clears column `row`, for rows 0 to 4. Without, lanes52_reduce_stage: clears columns 0 and 1, then 2,
 * computes the quotients of 3 and 4, then clears these. */

#if defined(LANES_IFMA)

typedef lanes_part lanes52_factor;

LANES_INLINE lanes52_factor lanes52_factor_of(lanes_part limb) { return limb; }

LANES_INLINE uint64_t lanes52_start(int products, int k, const lanes52_modulus *modulus) {
    return (void)products, (void)k, (void)modulus, 0;
}

#define LANES52_LOW_EXCESS 0
#define LANES52_HIGH_EXCESS 0

LANES_INLINE void lanes52_accumulate(lanes_part *low, lanes_part *high, lanes52_factor a, lanes52_factor b) {
    *low = lanes52_add_low(*low, a, b);
    *high = lanes52_add_high(*high, a, b);
}

LANES_INLINE void lanes52_finish_row(lanes_part t[10], int row, const lanes52_modulus *modulus) {
    if (row < LANES52_SHIFTED_ROWS) {
        t[row + 1] = lanes_part_add(t[row + 1], lanes_part_right_signed(t[row], 52));
        LANES52_UNROLL
        for (int k = 0; k < 5; k++) lanes52_accumulate(&t[row + 1 + k], &t[row + 2 + k], t[row], lanes_part_set(modulus->shifted[k]));
        return;
    }
    const lanes_part m = lanes52_add_low(lanes_part_set(0), t[row], lanes_part_set(modulus->inverse[0]));
    t[row + 1] = lanes_part_add(t[row + 1], lanes_part_right_signed(lanes_part_add(t[row], lanes_part_set(LANES52_MASK)), 52));
    t[row + 1] = lanes52_add_high(t[row + 1], m, lanes_part_set(modulus->p[0]));
    LANES52_UNROLL
    for (int k = 1; k < 5; k++) lanes52_accumulate(&t[row + k], &t[row + k + 1], m, lanes_part_set(modulus->p[k]));
}

#else

#ifdef __FAST_MATH__
#error "these products need exact floating point: build without -ffast-math and -Ofast"
#endif

typedef lanes_real lanes52_factor;

/* The bit patterns of 2^52 and 2^104. That of 2^105 - 2^52 is the last one before 2^105. */
#define LANES52_BITS_52 0x4330000000000000ULL
#define LANES52_BITS_104 0x4670000000000000ULL
/* The amount by which columns start higher; its carry follows. */
#define LANES52_LIFT ((uint64_t)1 << 60)
#define LANES52_LIFT_CARRY ((uint64_t)1 << 8)

LANES_INLINE lanes52_factor lanes52_factor_of(lanes_part limb) { return lanes_part_to_real(limb); }

/* Returns digit k in [-2^51, 2^51) of a multiple of p; the highest digit is the remainder. */
LANES_INLINE int64_t lanes52_digit(const uint64_t limbs[5], int k) {
    const int64_t half = (int64_t)1 << 51, limb = (int64_t)limbs[k];
    const int64_t value = limb + (k > 0 && (int64_t)limbs[k > 0 ? k - 1 : 0] >= half);
    return value >= half && k < 4 ? value - 2 * half : value;
}

/* Constants are made of their bits: where rounding is a mode of the thread, clang converts and adds constant doubles at run time. */
LANES_INLINE lanes_real lanes52_real_of_bits(uint64_t bits) { return lanes_part_as_real(lanes_part_set(bits)); }

/* Returns an integer below 2^53 as a double. */
LANES_INLINE lanes_real lanes52_real_of(uint64_t value) {
    if (value == 0) return lanes52_real_of_bits(0);
    const int exponent = 63 - __builtin_clzll(value);
    return lanes52_real_of_bits((uint64_t)(1023 + exponent) << 52 | (value << (52 - exponent) & LANES52_MASK));
}

LANES_INLINE uint64_t lanes52_magnitude(int64_t digit) { return (uint64_t)(digit < 0 ? -digit : digit); }

/* Returns 2^104 + high half of a b. */
LANES_INLINE lanes_real lanes52_high(lanes_real a, lanes_real b) {
    return lanes_real_add_product(a, b, lanes52_real_of_bits(LANES52_BITS_104));
}

/* Returns 2^52 + low half of a b, given high = lanes52_high(a, b). */
LANES_INLINE lanes_real lanes52_low(lanes_real a, lanes_real b, lanes_real high) {
    return lanes_real_add_product(a, b, lanes_real_sub(lanes52_real_of_bits(LANES52_BITS_104 + 1), high));
}

/* Returns 2^52 + low 52 bits. */
LANES_INLINE lanes_real lanes52_low_limb(lanes_part a) {
    return lanes_part_as_real(lanes_part_and_or(a, lanes_part_set(LANES52_MASK), lanes_part_set(LANES52_BITS_52)));
}

LANES_INLINE lanes_part lanes52_add_bits(lanes_part a, lanes_real b) { return lanes_part_add(a, lanes_real_bits(b)); }
LANES_INLINE lanes_part lanes52_sub_bits(lanes_part a, lanes_real b) { return lanes_part_sub(a, lanes_real_bits(b)); }

#define LANES52_LOW_EXCESS LANES52_BITS_52
#define LANES52_HIGH_EXCESS LANES52_BITS_104

LANES_INLINE void lanes52_accumulate(lanes_part *low, lanes_part *high, lanes52_factor a, lanes52_factor b) {
    const lanes_real upper = lanes52_high(a, b);
    *high = lanes52_add_bits(*high, upper);
    *low = lanes52_add_bits(*low, lanes52_low(a, b, upper));
    LANES_IN_ORDER(*low, *high);
}

/* *low and *high += m digit, for m = 2^52 + a quotient. */
LANES_INLINE void lanes52_accumulate_digit(lanes_part *low, lanes_part *high, lanes_real m, int64_t digit) {
    const lanes_real factor = lanes52_real_of(lanes52_magnitude(digit)), upper = lanes52_high(m, factor);
    const lanes_real lower = lanes52_low(m, factor, upper);
    *high = digit < 0 ? lanes52_sub_bits(*high, upper) : lanes52_add_bits(*high, upper);
    *low = digit < 0 ? lanes52_sub_bits(*low, lower) : lanes52_add_bits(*low, lower);
    LANES_IN_ORDER(*low, *high);
}

/* t[k] and t[k + 1] += m d for all digits d of the limbs. */
LANES_INLINE void lanes52_add_digits(lanes_part t[6], lanes_real m, const uint64_t limbs[5]) {
    LANES52_UNROLL
    for (int k = 0; k < 5; k++) lanes52_accumulate_digit(&t[k], &t[k + 1], m, lanes52_digit(limbs, k));
}

/* t += (m[0] + m[1] 2^52) times the limbs, column by column. */
LANES_INLINE void lanes52_add_digits_twice(lanes_part t[7], const lanes_real m[2], const uint64_t limbs[5]) {
    LANES52_UNROLL
    for (int k = 0; k < 6; k++) {
        if (k < 5) lanes52_accumulate_digit(&t[k], &t[k + 1], m[0], lanes52_digit(limbs, k < 5 ? k : 0));
        if (k > 0) lanes52_accumulate_digit(&t[k], &t[k + 1], m[1], lanes52_digit(limbs, k > 0 ? k - 1 : 0));
    }
}

/* The constant from which a product of a quotient with p[0] is subtracted. */
LANES_INLINE uint64_t lanes52_lowest_base(const lanes52_modulus *modulus) {
    return lanes52_digit(modulus->p, 0) < 0 ? LANES52_BITS_104 : LANES52_BITS_104 + LANES52_MASK;
}

/* Returns the constant minus m p[0]: its bits are minus the high half of the product rounded up. */
LANES_INLINE lanes_real lanes52_minus_lowest(lanes_real m, const lanes52_modulus *modulus) {
    const int64_t digit = lanes52_digit(modulus->p, 0);
    const lanes_real base = lanes52_real_of_bits(lanes52_lowest_base(modulus)), factor = lanes52_real_of(lanes52_magnitude(digit));
    return digit < 0 ? lanes_real_add_product(m, factor, base) : lanes_real_sub_product(m, factor, base);
}

/* What columns 4 and 5 have in excess because of lanes52_minus_lowest(). */
LANES_INLINE uint64_t lanes52_lowest_excess(const lanes52_modulus *modulus) {
    return (uint64_t)lanes52_digit(modulus->p, 0) - lanes52_lowest_base(modulus);
}

/* Stage 0 to 3 of the reduction of columns t. m: the last two quotients, from stage 2 to stage 3. */
LANES_INLINE void lanes52_reduce_stage(lanes_part t[10], lanes_real m[2], int stage, const lanes52_modulus *modulus) {
    if (stage == 0) {
        lanes_real first[2];
        LANES52_UNROLL
        for (int i = 0; i < 2; i++) {
            first[i] = lanes52_low_limb(t[i]);
            t[i + 1] = lanes_part_add(t[i + 1], lanes_part_right(t[i], 52));
        }
        lanes52_add_digits_twice(t + 2, first, modulus->shifted_twice);
    } else if (stage == 1) {
        const lanes_real third = lanes52_low_limb(t[2]);
        t[3] = lanes_part_add(t[3], lanes_part_right(t[2], 52));
        lanes52_add_digits(t + 3, third, modulus->shifted);
    } else if (stage == 2) {
        const lanes_real inverse[2] = {lanes52_real_of(modulus->inverse[0]), lanes52_real_of(modulus->inverse[1])};
        /* Modulo 2^52. Column 4 started lower by the excess of what it has not received yet. */
        const uint64_t excess = modulus->inverse[0] - lanes52_lowest_excess(modulus) * modulus->inverse[0];
        const lanes_real low = lanes52_low_limb(t[3]);
        t[4] = lanes_part_add(t[4], lanes_part_right(t[3], 52));
        const lanes_real high = lanes52_low_limb(t[4]), upper = lanes52_high(low, inverse[0]);
        const lanes_real crossed = lanes52_low(low, inverse[1], lanes52_high(low, inverse[1]));
        m[0] = lanes52_low(low, inverse[0], upper);
        const lanes_part sum = lanes52_add_bits(lanes52_add_bits(lanes_part_set((uint64_t)0 - excess), upper), crossed);
        m[1] = lanes52_low_limb(lanes52_add_bits(sum, lanes52_low(high, inverse[0], lanes52_high(high, inverse[0]))));
        t[4] = lanes52_sub_bits(t[4], lanes52_minus_lowest(m[0], modulus));
    } else {
        lanes52_accumulate_digit(&t[4], &t[5], m[0], lanes52_digit(modulus->p, 1));
        t[5] = lanes_part_add(t[5], lanes_part_right(t[4], 52));
        t[5] = lanes52_sub_bits(t[5], lanes52_minus_lowest(m[1], modulus));
        LANES52_UNROLL
        for (int k = 5; k < 9; k++) {
            if (k < 8) lanes52_accumulate_digit(&t[k], &t[k + 1], m[0], lanes52_digit(modulus->p, k < 8 ? k - 3 : 0));
            lanes52_accumulate_digit(&t[k], &t[k + 1], m[1], lanes52_digit(modulus->p, k - 4));
        }
    }
}

/* Returns what products of a quotient with digits first to 4 of the limbs add to column 0 .. 5 in excess of its halves. */
LANES_INLINE uint64_t lanes52_digits_excess(const uint64_t limbs[5], int first, int column) {
    uint64_t excess = 0;
    if (column >= first && column < 5) {
        excess += lanes52_digit(limbs, column) < 0 ? (uint64_t)0 - LANES52_BITS_52 : LANES52_BITS_52;
    }
    if (column > first && column <= 5) {
        const int64_t digit = lanes52_digit(limbs, column - 1);
        excess += (digit < 0 ? (uint64_t)0 - LANES52_BITS_104 : LANES52_BITS_104) + (uint64_t)digit;
    }
    return excess;
}

LANES_INLINE uint64_t lanes52_start(int products, int k, const lanes52_modulus *modulus) {
    const int lows = k < 5 ? k + 1 : 9 - k, highs = k < 6 ? k : 10 - k;
    uint64_t excess = (uint64_t)(unsigned)products * ((uint64_t)(unsigned)lows * LANES52_BITS_52 + (uint64_t)(unsigned)highs * LANES52_BITS_104);
    excess += lanes52_digits_excess(modulus->shifted_twice, 0, k - 2) + lanes52_digits_excess(modulus->shifted_twice, 0, k - 3);
    excess += lanes52_digits_excess(modulus->shifted, 0, k - 3);
    excess += lanes52_digits_excess(modulus->p, 1, k - 3) + lanes52_digits_excess(modulus->p, 1, k - 4);
    if (k == 4 || k == 5) excess += lanes52_lowest_excess(modulus);
    return (k < 9 ? LANES52_LIFT : 0) - (k > 0 ? LANES52_LIFT_CARRY : 0) - excess;
}

#endif

/* ---- whole products ------------------------------------------------------------------------------ */

/* Columns of several products or parts are reduced together, because quotients depend on each other. With IFMA the rows of a product
 * are interleaved with those of its reduction instead, and columns are not lifted. */
#if defined(LANES_IFMA)
#define LANES52_REDUCES_ROWS 1
LANES_INLINE void lanes52_reduce(lanes_part (*t)[10], int count, const lanes52_modulus *modulus) {
    LANES52_UNROLL
    for (int row = 0; row < 5; row++) {
        LANES52_UNROLL
        for (int j = 0; j < count; j++) lanes52_finish_row(t[j], row, modulus);
    }
}
#else
#define LANES52_REDUCES_ROWS 0
LANES_INLINE void lanes52_finish_row(lanes_part t[10], int row, const lanes52_modulus *modulus) { (void)t, (void)row, (void)modulus; }
LANES_INLINE void lanes52_reduce(lanes_part (*t)[10], int count, const lanes52_modulus *modulus) {
    lanes_real quotients[LANES52_MAX_REDUCED][2];
    LANES52_UNROLL
    for (int stage = 0; stage < 4; stage++) {
        LANES52_UNROLL
        for (int j = 0; j < count; j++) lanes52_reduce_stage(t[j], quotients[j], stage, modulus);
    }
}
#endif

/* Normalises a result. */
LANES_INLINE void lanes52_finish(lanes_part r[5]) { lanes52_carry_part(r, LANES52_REDUCES_ROWS); }

/* r = the upper halves of the columns. */
LANES_INLINE void lanes52_finish_parts(lanes_u64 r[5], lanes_part t[LANES_PARTS][10]) {
    LANES52_UNROLL
    for (int h = 0; h < LANES_PARTS; h++) {
        lanes52_finish(t[h] + 5);
        LANES52_PUT(r, t[h] + 5, h);
    }
}

/* r = (a[0] b[0] + a[1] b[1] + ...) / R + addend for `products` pairs, a constant of at most LANES52_MAX_PRODUCTS. addend: raw
 * with limbs from 0 to 2^62, or NULL. r may alias operands. */
LANES_INLINE void lanes52_mul_sum(lanes_u64 r[5], int products, const lanes_u64 *const *a, const lanes_u64 *const *b,
                                  const lanes_u64 *addend, const lanes52_modulus *modulus) {
    LANES_IN_REGION;
    lanes_part sums[LANES_PARTS][10];
    LANES52_EACH_PART(h) {
        lanes52_factor factors[LANES52_MAX_PRODUCTS][5];
        lanes_part t[10];
        LANES52_UNROLL
        for (int q = 0; q < products; q++) {
            LANES52_UNROLL
            for (int k = 0; k < 5; k++) factors[q][k] = lanes52_factor_of(LANES_PART(a[q][k], h));
        }
        LANES52_UNROLL
        for (int k = 0; k < 10; k++) {
            t[k] = lanes_part_set(lanes52_start(products, k, modulus));
            if (k >= 5 && addend) t[k] = lanes_part_add(t[k], LANES_PART(addend[k - 5], h));
        }
        LANES52_UNROLL
        for (int i = 0; i < 5; i++) {
            LANES52_UNROLL
            for (int q = 0; q < products; q++) {
                const lanes52_factor factor = lanes52_factor_of(LANES_PART(b[q][i], h));
                LANES52_UNROLL
                for (int k = 0; k < 5; k++) lanes52_accumulate(&t[i + k], &t[i + k + 1], factors[q][k], factor);
            }
            if (LANES52_REDUCES_ROWS) lanes52_finish_row(t, i, modulus);
        }
        LANES52_UNROLL
        for (int k = 0; k < 10; k++) sums[h][k] = t[k];
    }
    if (!LANES52_REDUCES_ROWS) lanes52_reduce(sums, LANES_PARTS, modulus);
    lanes52_finish_parts(r, sums);
}

/* ---- two results at once, with interleaved rows ---- */

#if defined(LANES_IFMA) && LANES_PARTS == 1
/* r0 = a0 b0 / R and r1 = a1 b1 / R; both may alias operands. */
LANES_INLINE void lanes52_mul_two(lanes_u64 r0[5], const lanes_u64 a0[5], const lanes_u64 b0[5], lanes_u64 r1[5],
                                  const lanes_u64 a1[5], const lanes_u64 b1[5], const lanes52_modulus *modulus) {
    lanes_part t0[1][10], t1[1][10];
    LANES52_UNROLL
    for (int k = 0; k < 10; k++) t0[0][k] = t1[0][k] = lanes_part_set(0);
    LANES52_UNROLL
    for (int i = 0; i < 5; i++) {
        LANES52_UNROLL
        for (int k = 0; k < 5; k++) {
            lanes52_accumulate(&t0[0][i + k], &t0[0][i + k + 1], a0[k], b0[i]);
            lanes52_accumulate(&t1[0][i + k], &t1[0][i + k + 1], a1[k], b1[i]);
        }
        lanes52_finish_row(t0[0], i, modulus);
        lanes52_finish_row(t1[0], i, modulus);
    }
    lanes52_finish_parts(r0, t0);
    lanes52_finish_parts(r1, t1);
}
#endif

#if LANES_PARTS > 1

/* r[0] and r[1] = the reduced columns of their products; columns are ordered by result and part. */
LANES_INLINE void lanes52_reduce_two(lanes_u64 *const r[2], lanes_part columns[2 * LANES_PARTS][10], const lanes52_modulus *modulus) {
    /* A copy: the compiler keeps as much of it in registers as possible. */
    lanes_part t[2 * LANES_PARTS][10];
    LANES52_UNROLL
    for (int j = 0; j < 2 * LANES_PARTS; j++) {
        LANES52_UNROLL
        for (int k = 0; k < 10; k++) t[j][k] = columns[j][k];
    }
    lanes52_reduce(t, 2 * LANES_PARTS, modulus);
    lanes52_finish_parts(r[0], t);
    lanes52_finish_parts(r[1], t + LANES_PARTS);
}

LANES_INLINE void lanes52_factors_of_part(lanes52_factor factors[5], const lanes_u64 limbs[5], int h) {
    LANES52_UNROLL
    for (int k = 0; k < 5; k++) factors[k] = lanes52_factor_of(LANES_PART(limbs[k], h));
}

/* columns += a b for one part. */
LANES_INLINE void lanes52_add_product(lanes_part columns[10], const lanes52_factor a[5], const lanes52_factor b[5]) {
    lanes52_factor factors[5];
    LANES52_UNROLL
    for (int k = 0; k < 5; k++) factors[k] = a[k];
    LANES52_UNROLL
    for (int i = 0; i < 5; i++) {
        const lanes52_factor factor = b[i];
        LANES52_UNROLL
        for (int k = 0; k < 5; k++) lanes52_accumulate(&columns[i + k], &columns[i + k + 1], factors[k], factor);
    }
}

/* columns = a b for one part, with the exponent bits of the halves. */
LANES_INLINE void lanes52_mul_factors(lanes_part columns[10], const lanes52_factor a[5], const lanes52_factor b[5]) {
    lanes_part t[10];
    LANES52_UNROLL
    for (int k = 0; k < 10; k++) t[k] = lanes_part_set(0);
    lanes52_add_product(t, a, b);
    LANES52_UNROLL
    for (int k = 0; k < 10; k++) columns[k] = t[k];
}

/* columns = a b for one part. */
LANES_INLINE void lanes52_mul_part(lanes_part columns[10], const lanes_u64 a[5], const lanes_u64 b[5], int h,
                                   const lanes52_modulus *modulus) {
    lanes52_factor left[5], right[5];
    lanes_part t[10];
    lanes52_factors_of_part(left, a, h);
    lanes52_factors_of_part(right, b, h);
    LANES52_UNROLL
    for (int k = 0; k < 10; k++) t[k] = lanes_part_set(lanes52_start(1, k, modulus));
    lanes52_add_product(t, left, right);
    LANES52_UNROLL
    for (int k = 0; k < 10; k++) columns[k] = t[k];
}
#endif

/* r = a b / R + addend. */
LANES_INLINE void lanes52_mul_add(lanes_u64 r[5], const lanes_u64 a[5], const lanes_u64 b[5], const lanes_u64 *addend,
                                  const lanes52_modulus *modulus) {
    const lanes_u64 *const left[1] = {a}, *const right[1] = {b};
    lanes52_mul_sum(r, 1, left, right, addend, modulus);
}

/* lanes52_mul: r = a b / R. lanes52_sqr: r = a^2 / R; products of different limbs are summed once and doubled. r may alias
 * operands. */

LANES_INLINE void lanes52_mul(lanes_u64 r[5], const lanes_u64 a[5], const lanes_u64 b[5], const lanes52_modulus *modulus) {
    lanes52_mul_add(r, a, b, NULL, modulus);
}

/* columns = a^2 for one part, column by column, so that quotients overlap with products where rows are not interleaved. */
LANES_INLINE void lanes52_sqr_part(lanes_part columns[10], const lanes_u64 a[5], int h, const lanes52_modulus *modulus) {
    lanes52_factor factors[5];
    lanes_part t[10], cross[10];
    LANES52_UNROLL
    for (int k = 0; k < 5; k++) factors[k] = lanes52_factor_of(LANES_PART(a[k], h));
    (void)h;
    LANES52_UNROLL
    for (int k = 0; k < 10; k++) {
        t[k] = lanes_part_set(lanes52_start(1, k, modulus));
        cross[k] = lanes_part_set(0);
    }
    LANES52_UNROLL
    for (int k = 0; k < 9; k++) {
        LANES52_UNROLL
        for (int i = k < 5 ? 0 : k - 4; i < k - i; i++) lanes52_accumulate(&cross[k], &cross[k + 1], factors[i], factors[k - i]);
        if (k > 0) t[k] = lanes_part_add(t[k], lanes_part_add(cross[k], cross[k]));
        if (k % 2 == 0) lanes52_accumulate(&t[k], &t[k + 1], factors[k / 2], factors[k / 2]);
        if (LANES52_REDUCES_ROWS && k < 5) lanes52_finish_row(t, k, modulus);
    }
    LANES52_UNROLL
    for (int k = 0; k < 10; k++) columns[k] = t[k];
}

LANES_INLINE void lanes52_sqr(lanes_u64 r[5], const lanes_u64 a[5], const lanes52_modulus *modulus) {
    LANES_IN_REGION;
    lanes_part sums[LANES_PARTS][10];
    LANES52_EACH_PART(h) lanes52_sqr_part(sums[h], a, h, modulus);
    if (!LANES52_REDUCES_ROWS) lanes52_reduce(sums, LANES_PARTS, modulus);
    lanes52_finish_parts(r, sums);
}

#endif
