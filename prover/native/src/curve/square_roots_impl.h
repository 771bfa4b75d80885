/* curve/square_roots_impl.h - square roots in Fp and Fp2, several at a time.
 *
 * p = 3 mod 4: with w = a^((p-3)/4), if a is a square, then w*a is a square root of a and w is the inverse of that root.
 */
#ifndef G16_CURVE_SQUARE_ROOTS_IMPL_H
#define G16_CURVE_SQUARE_ROOTS_IMPL_H

#include "field/fp2.h"

/* The exponent (p-3)/4 in sliding windows of five bits: start with a^3; for each step square `squarings` times and multiply by
 * the odd power a^(2*index + 1). 250 squarings and 38 products with a table of 16 odd powers. */
static const struct {
    uint8_t squarings, place;
} POINT_ROOT_STEPS[] = {
    {10, 12}, {8, 9}, {5, 9}, {4, 4}, {4, 3}, {9, 9}, {7, 6}, {10, 2}, {7, 13}, {1, 0}, {7, 2}, {10, 8}, {6, 13},
    {5, 6}, {8, 1}, {11, 10}, {1, 0}, {9, 11}, {6, 12}, {5, 7}, {10, 5}, {6, 10}, {7, 8}, {5, 6}, {7, 3}, {6, 3},
    {7, 10}, {7, 6}, {6, 7}, {5, 0}, {10, 8}, {1, 0}, {9, 5}, {6, 13}, {9, 15}, {7, 15}, {5, 10}, {4, 0}};
#define POINT_ROOT_STEPS_COUNT (sizeof POINT_ROOT_STEPS / sizeof POINT_ROOT_STEPS[0])

#if defined(G16_LANES)
#include "curve/square_roots_vector_impl.h"
#else

/* The latency of a product is longer than its use of the multiplier; independent chains fill the gaps. Unused lanes hold zero. */
#define POINT_LANES 4

/* r[i] = a[i]^((p-3)/4); r may alias a. */
static void fp_pow_p_minus_3_over_4(fp r[POINT_LANES], const fp a[POINT_LANES]) {
    fp table[16][POINT_LANES], square[POINT_LANES], result[POINT_LANES];
    for (int j = 0; j < POINT_LANES; j++) {
        table[0][j] = a[j];
        fp_sqr(&square[j], &a[j]);
    }
    for (int i = 1; i < 16; i++) {
        for (int j = 0; j < POINT_LANES; j++) fp_mul(&table[i][j], &table[i - 1][j], &square[j]);
    }
    for (int j = 0; j < POINT_LANES; j++) result[j] = table[1][j];
    for (size_t k = 0; k < POINT_ROOT_STEPS_COUNT; k++) {
        for (int s = 0; s < POINT_ROOT_STEPS[k].squarings; s++) {
            for (int j = 0; j < POINT_LANES; j++) fp_sqr(&result[j], &result[j]);
        }
        for (int j = 0; j < POINT_LANES; j++) {
            fp_mul(&result[j], &result[j], &table[POINT_ROOT_STEPS[k].place][j]);
        }
    }
    memcpy(r, result, sizeof result);
}

#endif

/* roots[i] = a square root of a[i], or, when there is none, a value whose square is not a[i]. */
static void fp_sqrt_lanes(fp roots[POINT_LANES], const fp a[POINT_LANES]) {
    fp power[POINT_LANES];
    fp_pow_p_minus_3_over_4(power, a);
    for (int j = 0; j < POINT_LANES; j++) fp_mul(&roots[j], &power[j], &a[j]);
}

/* good[i] = 1 and roots[i] a square root of a[i], or good[i] = 0 when there is none.
 *
 * Norm method with two exponentiations. n = sqrt(c0^2 + c1^2), t = (c0 + n)/2, w = t^((p-3)/4), x = w*t. If x^2 = t then w = 1/x
 * and the root is x + c1*w/2 * u. Otherwise x^2 = -t and w = -1/x; then (c1/(2x))^2 = -c1^2/(4t) = (c0 - n)/2, so the root is
 * -c1*w/2 + x * u. */
static void fp2_sqrt_lanes(fp2 roots[POINT_LANES], uint8_t good[POINT_LANES], const fp2 a[POINT_LANES]) {
    fp norm[POINT_LANES], t[POINT_LANES], w[POINT_LANES];
    for (int j = 0; j < POINT_LANES; j++) {
        fp square;
        fp_sqr(&norm[j], &a[j].c0);
        fp_sqr(&square, &a[j].c1);
        fp_add(&norm[j], &norm[j], &square);
    }
    fp_sqrt_lanes(norm, norm);
    for (int j = 0; j < POINT_LANES; j++) {
        fp_add(&t[j], &a[j].c0, &norm[j]);
        fp_halve(&t[j], &t[j]);
        if (fp_is_zero(&t[j])) t[j] = a[j].c0; /* c1 = 0 and n = -c0: the other root of the norm */
    }
    fp_pow_p_minus_3_over_4(w, t);
    for (int j = 0; j < POINT_LANES; j++) {
        fp x, other, square;
        fp2 check;
        fp_mul(&x, &w[j], &t[j]);
        fp_mul(&other, &w[j], &a[j].c1);
        fp_halve(&other, &other);
        fp_sqr(&square, &x);
        if (fp_equal(&square, &t[j])) {
            roots[j].c0 = x;
            roots[j].c1 = other;
        } else {
            fp_neg(&roots[j].c0, &other);
            roots[j].c1 = x;
        }
        fp2_sqr(&check, &roots[j]);
        good[j] = (uint8_t)fp2_equal(&check, &a[j]);
    }
}

#endif
