/* field/fp.h - the base field of BN254, p = 21888242871839275222246405745257275088696311157297823662689037894645226208583.
 *
 * Same representation and contract as field/fr.h. Square roots: curve/square_roots_impl.h.
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
/* 2^512 and 2^768 mod p. */
static const fp FP_R2 = {{0xf32cfc5b538afa89, 0xb5e71911d44501fb, 0x47ab1eff0a417ff6, 0x06d89f71cab8351f}};
static const fp FP_R3 = {{0xb1cd6dafda1530df, 0x62f210e6a7283db6, 0xef7f0b0c0ada0afb, 0x20fd6e902d592544}};
/* (p-1)/2 as plain limbs: point encodings call y "larger" when it exceeds this. */
static const uint64_t FP_HALF[4] = {0x9e10460b6c3e7ea3, 0xcbc0b548b438e546, 0xdc2822db40c0ac2e, 0x183227397098d014};

static inline void fp_set_zero(fp *r) { *r = FP_ZERO; }
static inline void fp_set_one(fp *r) { *r = FP_ONE; }
#define FE fp
#define F(operation) fp_##operation
#define FE_MODULUS FP_MODULUS
#define FE_R2 FP_R2
#define FE_R3 FP_R3
#include "field/element_shared.h"

static inline void fp_halve(fp *r, const fp *a) { mont256_halve(r->v, a->v, &FP_MODULUS); }
/* r = a + b below 2p, valid only as a factor of fp_mul. */
static inline void fp_add_lazy(fp *r, const fp *a, const fp *b) { mont256_add_lazy(r->v, a->v, b->v); }

/* Returns 1 when a, as an integer, exceeds (p-1)/2. */
static inline int fp_is_larger_half(const fp *a) {
    uint64_t limbs[4];
    fp_to_limbs(limbs, a);
    return mont256_compare_var(limbs, FP_HALF) > 0;
}

#endif
