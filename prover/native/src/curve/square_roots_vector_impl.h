/* curve/square_roots_vector_impl.h - the exponentiation of curve/square_roots_impl.h for sixteen values at once.
 *
 * Two vectors of eight are processed alternately, which hides the latency of products. Bounds as in field/fp8_impl.h: a product
 * of values below 2p is below 1.1p.
 */
#ifndef G16_CURVE_SQUARE_ROOTS_VECTOR_IMPL_H
#define G16_CURVE_SQUARE_ROOTS_VECTOR_IMPL_H

#include "field/fp8_impl.h"

#define POINT_LANES 16

/* Plain numbers: fp8_mul by the first converts from R = 2^256 to R = 2^260, by the second back. */
static const uint64_t FP8_TO_R260[5] = {0xb0f2afaec667a, 0xed9626b0fffbd, 0x9e2a0fcad825a, 0xe357276f48b70,
                                            0x00d791464ef86};
static const uint64_t FP8_TO_R256[5] = {0xd438dc58f0d9d, 0x28f5c70b3dd35, 0x879462c0a78eb, 0xdf2f666ea36f7,
                                          0x00e0a77c19a07};

/* first = a[0], a[2], ...; second = a[1], a[3], ...; in R = 2^260, below 1.1p. */
static inline void fp8_load_scalars(fp8 *first, fp8 *second, const fp a[16]) {
    const void *at[8];
    fp8 factor;
    for (int i = 0; i < 8; i++) at[i] = &a[2 * i];
    fp8_load2(first, second, at);
    fp8_set(&factor, FP8_TO_R260);
    fp8_mul(first, first, &factor);
    fp8_mul(second, second, &factor);
}

/* The reverse; results are in R = 2^256 and reduced. */
static inline void fp8_store_scalars(fp r[16], const fp8 *first, const fp8 *second) {
    void *at[8];
    fp8 factor, x, y;
    for (int i = 0; i < 8; i++) at[i] = &r[2 * i];
    fp8_set(&factor, FP8_TO_R256);
    fp8_mul(&x, first, &factor);
    fp8_mul(&y, second, &factor);
    fp8_store2(at, &x, &y);
    for (int i = 0; i < 16; i++) mont256_reduce_once(r[i].v, r[i].v, &FP_MODULUS);
}

/* r[i] = a[i]^((p-3)/4); r may alias a. */
static void fp_pow_p_minus_3_over_4(fp r[POINT_LANES], const fp a[POINT_LANES]) {
    LANES_REGION;
    fp8 table[16][2], square[2], result[2];
    fp8_load_scalars(&table[0][0], &table[0][1], a);
    for (int j = 0; j < 2; j++) fp8_sqr(&square[j], &table[0][j]);
    for (int i = 1; i < 16; i++) {
        for (int j = 0; j < 2; j++) fp8_mul(&table[i][j], &table[i - 1][j], &square[j]);
    }
    for (int j = 0; j < 2; j++) result[j] = table[1][j];
    for (size_t k = 0; k < POINT_ROOT_STEPS_COUNT; k++) {
        for (int s = 0; s < POINT_ROOT_STEPS[k].squarings; s++) {
            for (int j = 0; j < 2; j++) fp8_sqr(&result[j], &result[j]);
        }
        for (int j = 0; j < 2; j++) fp8_mul(&result[j], &result[j], &table[POINT_ROOT_STEPS[k].place][j]);
    }
    fp8_store_scalars(r, &result[0], &result[1]);
}

#endif
