/* device_endomorphism.h - scalars in two halves by the endomorphism of G1 (glv_impl.h has the lattice and its names A, B, C).
 *
 * Both halves are made non-negative: k = first + lambda * second mod r. With c1 = floor(k g1 / 2^256) and c2 = floor(k g2 / 2^256), where
 * g1 = floor(2^256 C / r), g2 = floor(2^256 B / r) and r = A C + B^2, the quotients fall short by e1 and e2 in [0, 1.19): first = e1 A + e2 B,
 * and second = e2 C - e1 B, to which (B, C) is added where it is negative. Both are below 2^128.
 */
#ifndef G16_DEVICE_ENDOMORPHISM_H
#define G16_DEVICE_ENDOMORPHISM_H

#include "device_fields.h"

#define ENDOMORPHISM_LIMBS 4
/* phi(x, y) = (beta x, y) */
#define ENDOMORPHISM_BETA \
    {{0x13e80b9c, 0x3350c88e, 0xdb5e56b9, 0x7dce557c, 0xb615564a, 0x6001b4b8, 0x020217e0, 0x2682e617}}
#define ENDOMORPHISM_A {0x7d4f1128, 0x8211bbeb, 0xeeb859fc, 0x6f4d8248}
#define ENDOMORPHISM_B {0x94d213e3, 0x89d32568}
#define ENDOMORPHISM_C {0x1221250b, 0x0be4e154, 0xeeb859fd, 0x6f4d8248}
#define ENDOMORPHISM_G1 {0x00ff6565, 0x5398fd03, 0xa773d2d2, 0x4ccef014, 0x00000002}
#define ENDOMORPHISM_G2 {0xc7e0b3d7, 0xd91d232e, 0x00000002}

/* r += a * b modulo 2^(32 limbs) */
DEVICE void endomorphism_mad(uint32_t *r, int limbs, const uint32_t *a, int a_limbs, const uint32_t *b, int b_limbs) {
    for (int i = 0; i < a_limbs && i < limbs; i++) {
        uint64_t carry = 0;
        for (int j = 0; i + j < limbs; j++) {
            carry += r[i + j];
            if (j < b_limbs) carry += (uint64_t)a[i] * b[j];
            r[i + j] = (uint32_t)carry;
            carry >>= 32;
        }
    }
}

/* r -= a * b modulo 2^160, for factors of 4 limbs at most */
DEVICE void endomorphism_subtract(uint32_t r[5], const uint32_t *a, int a_limbs, const uint32_t *b, int b_limbs) {
    uint32_t product[5] = {0};
    uint64_t borrow = 0;
    endomorphism_mad(product, 5, a, a_limbs, b, b_limbs);
    for (int i = 0; i < 5; i++) {
        const uint64_t difference = (uint64_t)r[i] - product[i] - borrow;
        r[i] = (uint32_t)difference;
        borrow = difference >> 63;
    }
}

DEVICE_COLD void endomorphism_split(uint32_t first[ENDOMORPHISM_LIMBS], uint32_t second[ENDOMORPHISM_LIMBS], const fr *scalar) {
    const uint32_t a[4] = ENDOMORPHISM_A, b[2] = ENDOMORPHISM_B, c[4] = ENDOMORPHISM_C;
    const uint32_t g1[5] = ENDOMORPHISM_G1, g2[3] = ENDOMORPHISM_G2, one[LIMBS] = {1};
    uint32_t k[LIMBS], wide[13] = {0}, narrow[11] = {0}, u[5], v[5] = {0};
    fr_mul_plain(k, scalar, one);
    endomorphism_mad(wide, 13, k, LIMBS, g1, 5);
    endomorphism_mad(narrow, 11, k, LIMBS, g2, 3);
    const uint32_t *const c1 = wide + LIMBS, *const c2 = narrow + LIMBS; /* below 2^128 and 2^64 */
    for (int i = 0; i < 5; i++) u[i] = k[i];
    endomorphism_subtract(u, c1, 4, a, 4);
    endomorphism_subtract(u, c2, 2, b, 2);
    endomorphism_mad(v, 5, c1, 4, b, 2);
    endomorphism_subtract(v, c2, 2, c, 4);
    if (v[4] >> 31) {
        const uint32_t unit[1] = {1};
        endomorphism_mad(u, 5, unit, 1, b, 2);
        endomorphism_mad(v, 5, unit, 1, c, 4);
    }
#if defined(MONT256_INVARIANT)
    MONT256_INVARIANT(u[4] == 0 && v[4] == 0);
#endif
    for (int i = 0; i < ENDOMORPHISM_LIMBS; i++) {
        first[i] = u[i];
        second[i] = v[i];
    }
}

#endif
