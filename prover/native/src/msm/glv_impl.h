/* msm/glv_impl.h - splits scalars by the endomorphism (GLV) and recodes the halves to signed digits; included by backend.c.
 *
 * lambda^2 + lambda + 1 = 0 mod r; phi(x, y) = (beta*x, y) = lambda*(x, y) on G1, and with the square of beta on G2. Lattice
 * basis (a1, b1) = (A, -B), (a2, b2) = (B, C) with A*C + B*B = r:
 * k1 = k - c1*A - c2*B, k2 = c1*B - c2*C, where c1 = round(k*C/r), c2 = round(k*B/r).
 */
#ifndef G16_MSM_GLV_IMPL_H
#define G16_MSM_GLV_IMPL_H

#include "field/fp.h"
#include "msm/plan.h"

static const uint64_t GLV_A[2] = {0x8211bbeb7d4f1128, 0x6f4d8248eeb859fc};
static const uint64_t GLV_B[2] = {0x89d3256894d213e3, 0x0000000000000000};
static const uint64_t GLV_C[2] = {0x0be4e1541221250b, 0x6f4d8248eeb859fd};
/* round(2^256 * C / r), round(2^256 * B / r) */
static const uint64_t GLV_G1[3] = {0x5398fd0300ff6565, 0x4ccef014a773d2d2, 0x0000000000000002};
static const uint64_t GLV_G2[3] = {0xd91d232ec7e0b3d7, 0x0000000000000002, 0x0000000000000000};
/* The rounding constant: one half, plus half of the largest error of the quotients, k (2^256 C / r - GLV_G1) / 2^256 and the same
 * with B. So |k1| < 0.508 A + 0.541 B and |k2| < 0.508 B + 0.541 C. */
static const uint64_t GLV_HALF1 = 0x81f2c9c47f0c78bf, GLV_HALF2 = 0x8a771be9f29194ef;
static const fp GLV_BETA_G1 = {{0x3350c88e13e80b9c, 0x7dce557cdb5e56b9, 0x6001b4b8b615564a, 0x2682e617020217e0}};
static const fp GLV_BETA_G2 = {{0x71930c11d782e155, 0xa6bb947cffbe3323, 0xaa303344d4741444, 0x2c3b3f0d26594943}};

typedef struct glv_half {
    uint64_t magnitude[2];
    int negative;
} glv_half;

/* q = floor((k * g + 2^192 * half) / 2^256) for g of three limbs; q has at most two. */
static inline void glv_scaled_quotient(uint64_t q[2], const uint64_t k[4], const uint64_t g[3], uint64_t half) {
    uint64_t t[7] = {0, 0, 0, half, 0, 0, 0};
    for (int i = 0; i < 3; i++) {
        mont256_wide w = 0;
        for (int j = 0; j < 4; j++) {
            w += (mont256_wide)k[j] * g[i] + t[i + j];
            t[i + j] = (uint64_t)w;
            w >>= 64;
        }
        for (int j = i + 4; j < 7; j++) {
            w += t[j];
            t[j] = (uint64_t)w;
            w >>= 64;
        }
    }
    q[0] = t[4], q[1] = t[5];
    MONT256_INVARIANT(t[6] == 0);
}

/* r = a * b mod 2^192 for two-limb factors. */
static inline void glv_product(uint64_t r[3], const uint64_t a[2], const uint64_t b[2]) {
    mont256_wide w = (mont256_wide)a[0] * b[0];
    r[0] = (uint64_t)w;
    w >>= 64;
    mont256_wide x = (mont256_wide)a[0] * b[1] + (uint64_t)w;
    mont256_wide y = (mont256_wide)a[1] * b[0] + (uint64_t)x;
    r[1] = (uint64_t)y;
    r[2] = (uint64_t)(x >> 64) + (uint64_t)(y >> 64) + a[1] * b[1];
}

static inline void glv_subtract(uint64_t r[3], const uint64_t a[3], const uint64_t b[3]) {
    uint64_t borrow = 0;
    for (int i = 0; i < 3; i++) r[i] = mont256_sub_borrow(a[i], b[i], &borrow);
}

static inline void glv_signed(glv_half *half, const uint64_t value[3]) {
    const uint64_t sign = 0 - (value[2] >> 63), sign_words[3] = {sign, sign, sign};
    uint64_t t[3] = {value[0] ^ sign, value[1] ^ sign, value[2] ^ sign};
    half->negative = (int)(value[2] >> 63);
    glv_subtract(t, t, sign_words);
    MONT256_INVARIANT(t[2] == 0 && t[1] >> 62 == 0);
    half->magnitude[0] = t[0], half->magnitude[1] = t[1];
}

/* Splits k below r: k = halves[0] + lambda * halves[1] mod r, with |halves| below 2^126. */
static inline void glv_split(glv_half halves[2], const uint64_t k[4]) {
    uint64_t c1[2], c2[2], t[3], u[3], v[3] = {k[0], k[1], k[2]};
    glv_scaled_quotient(c1, k, GLV_G1, GLV_HALF1);
    glv_scaled_quotient(c2, k, GLV_G2, GLV_HALF2);
    glv_product(t, c1, GLV_A);
    glv_product(u, c2, GLV_B);
    glv_subtract(v, v, t);
    glv_subtract(v, v, u);
    glv_signed(&halves[0], v);
    glv_product(t, c1, GLV_B);
    glv_product(u, c2, GLV_C);
    glv_subtract(t, t, u);
    glv_signed(&halves[1], t);
}

/* The sum of half of each window's range, at the window's position. A half of a scalar plus this is not negative, and its digits
 * less half of the range are signed digits of the half: no carries from window to window. */
static inline void glv_bias(uint64_t bias[2], const msm_plan *plan) {
    bias[0] = bias[1] = 0;
    for (uint32_t w = 0, end = 0; w < plan->windows; w++) {
        end += msm_window_bits(plan, w);
        bias[(end - 1) / 64] |= (uint64_t)1 << (end - 1) % 64;
    }
}

/* Returns the mask of a window's bits; the last one has one bit more, for a sum of exactly 2^MSM_HALF_BITS and above. */
static inline uint64_t glv_window_mask(const msm_plan *plan, uint32_t w) {
    return ((uint64_t)1 << (msm_window_bits(plan, w) + (w + 1 == plan->windows))) - 1;
}

/* Writes the signed digits of one half, least significant window first, to digits[w * stride], of 16 bits or (wide) 32. */
static inline __attribute__((always_inline)) void glv_digits(void *digits, size_t stride, const glv_half *half, const msm_plan *plan,
                                                             const uint64_t bias[2], const int wide) {
    const uint64_t sign = 0 - (uint64_t)half->negative;
    uint64_t carry = (uint64_t)half->negative;
    uint64_t low = mont256_add_carry(half->magnitude[0] ^ sign, bias[0], &carry);
    uint64_t high = mont256_add_carry(half->magnitude[1] ^ sign, bias[1], &carry);
    for (uint32_t w = 0; w < plan->windows; w++) {
        const uint32_t bits = msm_window_bits(plan, w);
        const int32_t digit = (int32_t)(low & glv_window_mask(plan, w)) - ((int32_t)1 << (bits - 1));
        if (wide) {
            ((int32_t *)digits)[w * stride] = digit;
        } else {
            ((int16_t *)digits)[w * stride] = (int16_t)digit;
        }
        low = (low >> bits) | (high << (64 - bits));
        high >>= bits;
    }
}

#endif
