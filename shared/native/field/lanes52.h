/* field/lanes52.h - Montgomery products of eight elements at once (simd/lanes.h): limbs of 52 bits, R = 2^260.
 *
 * A value is five vectors of limbs; lane i belongs to element i. It is normalised when every limb is in [0, 2^52), and raw when
 * limbs are any signed 64-bit numbers with the right weighted sum. Operands of products are normalised. Results are normalised
 * too, and below (1 + 2^-53) p + (sum of the products of the operands' values) / R + addend, which must be below R; they are not
 * reduced. Requirements: an odd modulus below 2^254; the 52-bit limbs of p and of `shifted` differ from 2^51 - 1; the negated
 * inverse modulo 2^52 is below 2^51. Time does not depend on values.
 *
 * A row adds a b[i] and a multiple of p to the columns i .. i + 6, so that column i becomes divisible by 2^52; the quotient is
 * carried into column i + 1. A column accumulates at most five low and five high halves below 2^52 of each of up to four products
 * and of the multiple: less than 2^58 in absolute value, also where products are subtracted from each other.
 * - The first three rows add m N for N = p inverse, which is -1 modulo 2^52: so m is the low limb of the column, and the rest of
 * the column is its carry. N + 1 = 2^52 shifted has no more digits than p.
 * - The last two rows add m p for m = inverse times the column modulo 2^52, because N would give larger results. The low half of
 * m p[0] is minus the low limb of the column modulo 2^52. So the carry is the column over 2^52 rounded up, without that half.
 *
 * The including unit defines LANES_IFMA when it is compiled for AVX-512 IFMA, and additionally LANES_IFMA_EMULATED when the
 * instructions are emulated. Without LANES_IFMA, with AVX-512 or AVX2, the halves of a product are computed in floating point
 * (Emmart, Zheng, Weems: Faster modular exponentiation using double precision floating point arithmetic on the GPU, ARITH 2018).
 * Rounded towards zero, the mantissa of a b + 2^104 contains the high half of a b; and a b minus that high half, plus 2^52,
 * contains the low half. Both are added as integers with their exponent bits, and each column starts from minus the sum of the
 * exponent bits that it will accumulate. Every step is exact:
 * - a, b < 2^52: 2^104 <= a b + 2^104 < 2^105, where a unit of the mantissa is 2^52. So the high half is the floor, the low half
 * is in [0, 2^52), and 2^52 plus it is an integer below 2^53.
 * - p is used in signed digits d, |d| < 2^51, and a quotient m as the double 2^52 + m, the form of a low half. Then |(2^52 + m)
 * d| < 2^104 as well. The low half is that of m d; the high half is too large by d, which the start of the column subtracts. For
 * d < 0 the sum starts from 2^105 - 2^52 and stays in [2^104, 2^105).
 * - In the last two rows the low limb x of the column enters the quotient as 2^52 + x too: its product with a number of absolute
 * value below 2^51 is below 2^104 in absolute value and has the low half of x times that number.
 * - There m d0 + x is divisible by 2^52 for the lowest digit d0, so the carry is the high half of m d0 rounded up: the rounding
 * error of a sum minus m d0, rounded towards zero. That sum is 2^105 - 2^52 for d0 > 0 and 2^104 for d0 < 0.
 * - Columns may be negative. They start 2^60 higher, and the next one 2^8 lower, so that carries are never negative.
 */
#ifndef SHARED_FIELD_LANES52_H
#define SHARED_FIELD_LANES52_H

#include "simd/lanes.h"

#define LANES52_MASK 0xfffffffffffffULL
#define LANES52_UNROLL _Pragma("GCC unroll 10")
#define LANES52_MAX_PRODUCTS 4

/* Load and store one part of five limbs; the loop over parts is not unrolled, because products are long. */
#define LANES52_TAKE(to, from, h) LANES52_UNROLL for (int limb = 0; limb < 5; limb++) (to)[limb] = LANES_PART((from)[limb], h)
#define LANES52_PUT(to, from, h) LANES52_UNROLL for (int limb = 0; limb < 5; limb++) LANES_PART((to)[limb], h) = (from)[limb]
#define LANES52_EACH_PART(h) _Pragma("GCC unroll 1") for (int h = 0; h < LANES_PARTS; h++)

typedef struct lanes52_modulus {
    uint64_t p[5];
    uint64_t inverse;    /* -1/p mod 2^52 */
    uint64_t shifted[5]; /* (p inverse + 1) / 2^52 */
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

LANES_INLINE __m512i lanes52_add_low(__m512i sum, __m512i a, __m512i b) { return _mm512_madd52lo_epu64(sum, a, b); }

LANES_INLINE __m512i lanes52_add_high(__m512i sum, __m512i a, __m512i b) { return _mm512_madd52hi_epu64(sum, a, b); }

#endif

/* ---- a product of limbs, and the end of a row ---------------------------------------------------- */

/* Number of rows that add a multiple of N. */
#define LANES52_SHIFTED_ROWS 3

/* lanes52_factor: a limb as a factor.
 * lanes52_accumulate: *low += low half of a b, *high += high half, each plus its LANES52_..._EXCESS.
 * lanes52_finish_row: adds the row's multiple of p to columns row .. row + 6, then the carry; called for rows 0 to 4.
 * lanes52_start: initial value of column k when each row has the given number of products. */

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
        for (int k = 0; k < 5; k++) lanes52_accumulate(&t[row + 1 + k], &t[row + 2 + k], t[row], lanes_set(modulus->shifted[k]));
        return;
    }
    const lanes_part m = lanes52_add_low(lanes_zero(), t[row], lanes_set(modulus->inverse));
    t[row + 1] = lanes_part_add(t[row + 1], lanes_part_right_signed(lanes_part_add(t[row], lanes_part_set(LANES52_MASK)), 52));
    t[row + 1] = lanes52_add_high(t[row + 1], m, lanes_set(modulus->p[0]));
    LANES52_UNROLL
    for (int k = 1; k < 5; k++) lanes52_accumulate(&t[row + k], &t[row + k + 1], m, lanes_set(modulus->p[k]));
}

#else

#ifdef __FAST_MATH__
#error "these products need exact floating point: build without -ffast-math and -Ofast"
#endif

typedef lanes_real lanes52_factor;

/* The bit patterns of 2^52 and 2^104; that of 2^105 - 2^52 is the last one before 2^105. */
#define LANES52_BITS_52 0x4330000000000000ULL
#define LANES52_BITS_104 0x4670000000000000ULL
/* The amount by which columns start higher; its carry follows. */
#define LANES52_LIFT ((uint64_t)1 << 60)
#define LANES52_LIFT_CARRY ((uint64_t)1 << 8)

LANES_INLINE lanes52_factor lanes52_factor_of(lanes_part limb) { return lanes_part_to_real(limb); }

/* Returns digit k in [-2^51, 2^51) of p or `shifted`; the highest digit is the remainder. */
LANES_INLINE int64_t lanes52_digit(const uint64_t limbs[5], int k) {
    const int64_t half = (int64_t)1 << 51, limb = (int64_t)limbs[k];
    const int64_t value = limb + (k > 0 && (int64_t)limbs[k > 0 ? k - 1 : 0] >= half);
    return value >= half && k < 4 ? value - 2 * half : value;
}

/* Constants are made of their bits: where rounding is a mode of the thread, clang converts and adds constant doubles at run time. */
LANES_INLINE lanes_real lanes52_real_of_bits(uint64_t bits) { return lanes_part_as_real(lanes_part_set(bits)); }

/* Returns an integer of absolute value below 2^53 as a double. */
LANES_INLINE lanes_real lanes52_real_of(int64_t value) {
    if (value == 0) return lanes52_real_of_bits(0);
    const uint64_t sign = value < 0 ? (uint64_t)1 << 63 : 0, magnitude = (uint64_t)(value < 0 ? -value : value);
    const int exponent = 63 - __builtin_clzll(magnitude);
    return lanes52_real_of_bits(sign | (uint64_t)(1023 + exponent) << 52 | (magnitude << (52 - exponent) & LANES52_MASK));
}

/* Returns the bits of the number to which a product with the digit is added; plus 1, they are those of 2^52 more. */
LANES_INLINE uint64_t lanes52_base_bits(int64_t digit) {
    return digit < 0 ? LANES52_BITS_104 + LANES52_MASK : LANES52_BITS_104;
}

LANES_INLINE lanes_real lanes52_high(lanes_real a, lanes_real b, uint64_t base_bits) {
    return lanes_real_add_product(a, b, lanes52_real_of_bits(base_bits));
}

/* Returns 2^52 + low half of a b, given high = lanes52_high(a, b, base_bits). */
LANES_INLINE lanes_real lanes52_low(lanes_real a, lanes_real b, lanes_real high, uint64_t base_bits) {
    return lanes_real_add_product(a, b, lanes_real_sub(lanes52_real_of_bits(base_bits + 1), high));
}

/* Returns 2^52 + low 52 bits. */
LANES_INLINE lanes_real lanes52_low_limb(lanes_part a) {
    return lanes_part_as_real(lanes_part_and_or(a, lanes_part_set(LANES52_MASK), lanes_part_set(LANES52_BITS_52)));
}

LANES_INLINE lanes_part lanes52_add_bits(lanes_part a, lanes_real b) { return lanes_part_add(a, lanes_real_bits(b)); }

LANES_INLINE void lanes52_accumulate_from(lanes_part *low, lanes_part *high, lanes_real a, lanes_real b, uint64_t base_bits) {
    const lanes_real upper = lanes52_high(a, b, base_bits);
    *high = lanes52_add_bits(*high, upper);
    *low = lanes52_add_bits(*low, lanes52_low(a, b, upper, base_bits));
    LANES_IN_ORDER(*low, *high);
}

#define LANES52_LOW_EXCESS LANES52_BITS_52
#define LANES52_HIGH_EXCESS LANES52_BITS_104

LANES_INLINE void lanes52_accumulate(lanes_part *low, lanes_part *high, lanes52_factor a, lanes52_factor b) {
    lanes52_accumulate_from(low, high, a, b, LANES52_BITS_104);
}

/* t[k] and t[k + 1] += m d for digits first to 4 of the limbs. */
LANES_INLINE void lanes52_add_digits(lanes_part t[6], lanes_real m, const uint64_t limbs[5], int first) {
    LANES52_UNROLL
    for (int k = first; k < 5; k++) {
        const int64_t digit = lanes52_digit(limbs, k);
        lanes52_accumulate_from(&t[k], &t[k + 1], m, lanes52_real_of(digit), lanes52_base_bits(digit));
    }
}

LANES_INLINE void lanes52_finish_row(lanes_part t[10], int row, const lanes52_modulus *modulus) {
    lanes_part *u = t + row;
    const lanes_real x = lanes52_low_limb(u[0]);
    u[1] = lanes_part_add(u[1], lanes_part_right(u[0], 52));
    if (row < LANES52_SHIFTED_ROWS) {
        lanes52_add_digits(u + 1, x, modulus->shifted, 0);
    } else {
        const lanes_real inverse = lanes52_real_of((int64_t)modulus->inverse);
        const lanes_real m = lanes52_low(x, inverse, lanes52_high(x, inverse, LANES52_BITS_104), LANES52_BITS_104);
        /* The carry already contains the low half of the lowest digit's product. */
        const int64_t lowest = lanes52_digit(modulus->p, 0);
        const lanes_real rest = lanes_real_sub_product(m, lanes52_real_of(lowest), lanes52_real_of_bits(lanes52_base_bits(-lowest)));
        u[1] = lanes_part_sub(u[1], lanes_real_bits(rest));
        lanes52_add_digits(u, m, modulus->p, 1);
    }
}

/* Returns what a product with digits first to 4 of the limbs adds to column 0 .. 5 in excess of its halves. */
LANES_INLINE uint64_t lanes52_digits_excess(const uint64_t limbs[5], int first, int column) {
    uint64_t excess = 0;
    if (column >= first && column < 5) excess += LANES52_BITS_52;
    if (column > first && column <= 5) {
        const int64_t digit = lanes52_digit(limbs, column - 1);
        excess += lanes52_base_bits(digit) + (uint64_t)digit;
    }
    return excess;
}

/* Returns what a row with the given number of products adds to column 0 .. 6 in excess of the halves. */
LANES_INLINE uint64_t lanes52_excess(int products, int row, int column, const lanes52_modulus *modulus) {
    uint64_t excess = 0;
    if (column >= 0 && column < 5) excess += LANES52_BITS_52 * (unsigned)products;
    if (column > 0 && column <= 5) excess += LANES52_BITS_104 * (unsigned)products;
    if (row < LANES52_SHIFTED_ROWS) return excess + lanes52_digits_excess(modulus->shifted, 0, column - 1);
    if (column == 1) {
        const int64_t lowest = lanes52_digit(modulus->p, 0);
        excess += (uint64_t)lowest - lanes52_base_bits(-lowest);
    }
    return excess + lanes52_digits_excess(modulus->p, 1, column);
}

LANES_INLINE uint64_t lanes52_start(int products, int k, const lanes52_modulus *modulus) {
    const uint64_t lift = (k < 9 ? LANES52_LIFT : 0) - (k > 0 ? LANES52_LIFT_CARRY : 0);
    return lift - (lanes52_excess(products, 0, k, modulus) + lanes52_excess(products, 1, k - 1, modulus) +
                   lanes52_excess(products, 2, k - 2, modulus) + lanes52_excess(products, 3, k - 3, modulus) +
                   lanes52_excess(products, 4, k - 4, modulus));
}

#endif

/* ---- whole products ------------------------------------------------------------------------------ */

/* Normalises the result; columns are lifted without LANES_IFMA. */
#if defined(LANES_IFMA)
LANES_INLINE void lanes52_finish(lanes_part r[5]) { lanes52_carry_part(r, 1); }
#else
LANES_INLINE void lanes52_finish(lanes_part r[5]) { lanes52_carry_part(r, 0); }
#endif

/* Quotients of rows depend on each other. With one part, rows of products are interleaved with them. With several parts it is
 * faster to compute all products part by part, and then to interleave the ends of rows of all parts. */
#define LANES52_ROWS_IN_TURN (LANES_PARTS > 1)

LANES_INLINE void lanes52_finish_rows(lanes_part t[LANES_PARTS][10], const lanes52_modulus *modulus) {
    LANES52_UNROLL
    for (int i = 0; i < 5; i++) {
        LANES52_UNROLL
        for (int h = 0; h < LANES_PARTS; h++) lanes52_finish_row(t[h], i, modulus);
    }
}

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
            if (!LANES52_ROWS_IN_TURN) lanes52_finish_row(t, i, modulus);
        }
        LANES52_UNROLL
        for (int k = 0; k < 10; k++) sums[h][k] = t[k];
    }
    if (LANES52_ROWS_IN_TURN) lanes52_finish_rows(sums, modulus);
    lanes52_finish_parts(r, sums);
}

#if LANES_PARTS > 1
/* ---- two results at once, with interleaved rows ---- */

/* r[0] and r[1] = the reduced columns of their products; columns are ordered by result and part. */
LANES_INLINE void lanes52_reduce_two(lanes_u64 *const r[2], lanes_part columns[2 * LANES_PARTS][10], const lanes52_modulus *modulus) {
    /* A copy: the compiler keeps as much of it in registers as possible. */
    lanes_part t[2 * LANES_PARTS][10];
    LANES52_UNROLL
    for (int j = 0; j < 2 * LANES_PARTS; j++) {
        LANES52_UNROLL
        for (int k = 0; k < 10; k++) t[j][k] = columns[j][k];
    }
    LANES52_UNROLL
    for (int i = 0; i < 5; i++) {
        LANES52_UNROLL
        for (int j = 0; j < 2 * LANES_PARTS; j++) lanes52_finish_row(t[j], i, modulus);
    }
    lanes52_finish_parts(r[0], t);
    lanes52_finish_parts(r[1], t + LANES_PARTS);
}

LANES_INLINE void lanes52_factors_of_part(lanes52_factor factors[5], const lanes_u64 limbs[5], int h) {
    LANES52_UNROLL
    for (int k = 0; k < 5; k++) factors[k] = lanes52_factor_of(LANES_PART(limbs[k], h));
}

/* columns += a b for one part. products: for the first product the number that the columns will receive, for later ones 0. */
LANES_INLINE void lanes52_add_product(lanes_part columns[10], const lanes52_factor a[5], const lanes52_factor b[5], int products,
                                      const lanes52_modulus *modulus) {
    lanes52_factor factors[5];
    lanes_part t[10];
    LANES52_UNROLL
    for (int k = 0; k < 5; k++) factors[k] = a[k];
    LANES52_UNROLL
    for (int k = 0; k < 10; k++) t[k] = products ? lanes_part_set(lanes52_start(products, k, modulus)) : columns[k];
    LANES52_UNROLL
    for (int i = 0; i < 5; i++) {
        const lanes52_factor factor = b[i];
        LANES52_UNROLL
        for (int k = 0; k < 5; k++) lanes52_accumulate(&t[i + k], &t[i + k + 1], factors[k], factor);
    }
    LANES52_UNROLL
    for (int k = 0; k < 10; k++) columns[k] = t[k];
}

/* columns = a b for one part. */
LANES_INLINE void lanes52_mul_part(lanes_part columns[10], const lanes_u64 a[5], const lanes_u64 b[5], int h,
                                   const lanes52_modulus *modulus) {
    lanes52_factor left[5], right[5];
    lanes52_factors_of_part(left, a, h);
    lanes52_factors_of_part(right, b, h);
    lanes52_add_product(columns, left, right, 1, modulus);
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
        if (!LANES52_ROWS_IN_TURN && k < 5) lanes52_finish_row(t, k, modulus);
    }
    LANES52_UNROLL
    for (int k = 0; k < 10; k++) columns[k] = t[k];
}

LANES_INLINE void lanes52_sqr(lanes_u64 r[5], const lanes_u64 a[5], const lanes52_modulus *modulus) {
    LANES_IN_REGION;
    lanes_part sums[LANES_PARTS][10];
    LANES52_EACH_PART(h) lanes52_sqr_part(sums[h], a, h, modulus);
    if (LANES52_ROWS_IN_TURN) lanes52_finish_rows(sums, modulus);
    lanes52_finish_parts(r, sums);
}

#endif
