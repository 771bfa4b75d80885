/* field/fp.h - the base field of BN254, p = 21888242871839275222246405745257275088696311157297823662689037894645226208583.
 *
 * Same representation and contract as field/fr.h. p = 3 mod 4, so a^((p+1)/4) is a square root.
 */
#ifndef G16_FIELD_FP_H
#define G16_FIELD_FP_H

#include "base/types.h"
#include "field/mont256.h"
#include "field/mont256_inverse.h"

static const mont256_modulus FP_MODULUS = {
    {0x3c208c16d87cfd47, 0x97816a916871ca8d, 0xb85045b68181585d, 0x30644e72e131a029}, 0x87d20782e4866389, 0};
static const fp FP_ZERO = {{0, 0, 0, 0}};
static const fp FP_ONE = {{0xd35d438dc58f0d9d, 0x0a78eb28f5c70b3d, 0x666ea36f7879462c, 0x0e0a77c19a07df2f}};
static const fp FP_R2 = {{0xf32cfc5b538afa89, 0xb5e71911d44501fb, 0x47ab1eff0a417ff6, 0x06d89f71cab8351f}};
/* 2^768 mod p: a product with it turns the plain inverse of a Montgomery form into the Montgomery form of the inverse. */
static const fp FP_R3 = {{0xb1cd6dafda1530df, 0x62f210e6a7283db6, 0xef7f0b0c0ada0afb, 0x20fd6e902d592544}};
/* (p-1)/2 as plain limbs: point encodings call y "larger" when it exceeds this. */
static const uint64_t FP_HALF[4] = {0x9e10460b6c3e7ea3, 0xcbc0b548b438e546, 0xdc2822db40c0ac2e, 0x183227397098d014};

static inline void fp_set_zero(fp *r) { *r = FP_ZERO; }
static inline void fp_set_one(fp *r) { *r = FP_ONE; }
static inline void fp_add(fp *r, const fp *a, const fp *b) { mont256_add(r->v, a->v, b->v, &FP_MODULUS); }
static inline void fp_sub(fp *r, const fp *a, const fp *b) { mont256_sub(r->v, a->v, b->v, &FP_MODULUS); }
static inline void fp_mul(fp *r, const fp *a, const fp *b) { mont256_mul(r->v, a->v, b->v, &FP_MODULUS); }
static inline void fp_sqr(fp *r, const fp *a) { mont256_mul(r->v, a->v, a->v, &FP_MODULUS); }
static inline void fp_neg(fp *r, const fp *a) { mont256_neg(r->v, a->v, &FP_MODULUS); }
static inline void fp_double(fp *r, const fp *a) { mont256_add(r->v, a->v, a->v, &FP_MODULUS); }
static inline void fp_halve(fp *r, const fp *a) { mont256_halve(r->v, a->v, &FP_MODULUS); }
static inline int fp_is_zero(const fp *a) { return mont256_is_zero(a->v); }
static inline int fp_equal(const fp *a, const fp *b) { return mont256_equal(a->v, b->v); }
/* r = a + b below 2p, valid only as a factor of fp_mul. */
static inline void fp_add_lazy(fp *r, const fp *a, const fp *b) { mont256_add_lazy(r->v, a->v, b->v); }

static inline void fp_to_limbs(uint64_t limbs[4], const fp *a) { mont256_to_plain(limbs, a->v, &FP_MODULUS); }
static inline void fp_from_limbs(fp *r, const uint64_t limbs[4]) {
    mont256_mul(r->v, limbs, FP_R2.v, &FP_MODULUS);
}

/* Returns 1 and the value when the bytes are below p, else 0. */
static inline int fp_from_bytes(fp *r, const uint8_t in[32]) {
    uint64_t limbs[4];
    mont256_load_be(limbs, in);
    if (mont256_compare_var(limbs, FP_MODULUS.p) >= 0) return 0;
    fp_from_limbs(r, limbs);
    return 1;
}

static inline void fp_to_bytes(uint8_t out[32], const fp *a) {
    uint64_t limbs[4];
    fp_to_limbs(limbs, a);
    mont256_store_be(out, limbs);
}

/* Returns 1 when a, as an integer, exceeds (p-1)/2. */
static inline int fp_is_larger_half(const fp *a) {
    uint64_t limbs[4];
    fp_to_limbs(limbs, a);
    return mont256_compare_var(limbs, FP_HALF) > 0;
}

/* r = a^exponent; time depends on the exponent only. Four bits at a time. */
static inline void fp_pow(fp *r, const fp *a, const uint64_t exponent[4]) {
    fp table[16], result;
    table[0] = FP_ONE;
    for (int i = 1; i < 16; i++) fp_mul(&table[i], &table[i - 1], a);
    result = FP_ONE;
    for (int i = 63; i >= 0; i--) {
        if (i != 63) {
            for (int j = 0; j < 4; j++) fp_sqr(&result, &result);
        }
        unsigned digit = (unsigned)(exponent[i / 16] >> (4 * (i % 16))) & 15;
        if (digit) fp_mul(&result, &result, &table[digit]);
    }
    *r = result;
}

/* r = 1/a, 0 for 0; time depends on a. */
static inline void fp_inv(fp *r, const fp *a) {
    uint64_t t[4];
    mont256_invert_var(t, a->v, &FP_MODULUS);
    mont256_mul(r->v, t, FP_R3.v, &FP_MODULUS);
}

/* Returns 1 and a square root of a, or 0 when a is not a square. */
static inline int fp_sqrt(fp *r, const fp *a) {
    static const uint64_t exponent[4] = {0x4f082305b61f3f52, 0x65e05aa45a1c72a3, 0x6e14116da0605617,
                                         0x0c19139cb84c680a}; /* (p+1)/4 */
    fp root, check;
    fp_pow(&root, a, exponent);
    fp_sqr(&check, &root);
    *r = root;
    return fp_equal(&check, a);
}

#endif
