/* field/fr.h - the scalar field of BN254, r = 21888242871839275222246405745257275088548364400416034343698204186575808495617.
 *
 * An fr is four little-endian limbs in Montgomery form (value * 2^256 mod r), always below r. Encodings of 32 bytes are
 * big-endian and canonical. The two-adicity is 28; 5 generates the multiplicative group.
 */
#ifndef SHARED_FIELD_FR_H
#define SHARED_FIELD_FR_H

#include "field/mont256.h"
#include "field/mont256_inverse.h"

typedef struct fr {
    uint64_t v[4];
} fr;

static const mont256_modulus FR_MODULUS = {
    {0x43e1f593f0000001, 0x2833e84879b97091, 0xb85045b68181585d, 0x30644e72e131a029}, 0xc2e1f593efffffff, 0};
static const fr FR_ZERO = {{0, 0, 0, 0}};
static const fr FR_ONE = {{0xac96341c4ffffffb, 0x36fc76959f60cd29, 0x666ea36f7879462e, 0x0e0a77c19a07df2f}};
/* 2^512 and 2^768 mod r. */
static const fr FR_R2 = {{0x1bb8e645ae216da7, 0x53fe3ab1e35c59e3, 0x8c49833d53bb8085, 0x0216d0b17f4e44a5}};
static const fr FR_R3 = {{0x5e94d8e1b4bf0040, 0x2a489cbe1cfbb6b8, 0x893cc664a19fcfed, 0x0cf8594b7fcc657c}};
/* 5 and 1/5: the coset generator of gnark's domains. */
static const fr FR_FIVE = {{0x1b0d0ef99fffffe6, 0xeaba68a3a32a913f, 0x47d8eb76d8dd0689, 0x15d0085520f5bbc3}};
static const fr FR_INV_FIVE = {{0xd745397409999999, 0xb4ada7d483c3efa8, 0xc49ca2f8e57f3161, 0x162a3754ac156cb3}};
/* 5^((r-1) / 2^28): a root of unity of order 2^28. */
static const fr FR_ROOT_28 = {{0x636e735580d13d9c, 0xa22bf3742445ffd6, 0x56452ac01eb203d8, 0x1860ef942963f9e7}};
#define FR_TWO_ADICITY 28

#define FE fr
#define F(operation) fr_##operation
#define FE_MODULUS FR_MODULUS
#define FE_R2 FR_R2
#define FE_R3 FR_R3
#include "field/element_shared.h"

static inline void fr_from_u64(fr *r, uint64_t value) {
    uint64_t limbs[4] = {value, 0, 0, 0};
    fr_from_limbs(r, limbs);
}

/* r = a^exponent; time depends on the exponent only. */
static inline void fr_pow(fr *r, const fr *a, const uint64_t exponent[4]) {
    fr result = FR_ONE, base = *a;
    for (int i = 255; i >= 0; i--) {
        fr_sqr(&result, &result);
        if ((exponent[i / 64] >> (i % 64)) & 1) fr_mul(&result, &result, &base);
    }
    *r = result;
}

#endif
