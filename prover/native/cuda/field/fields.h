/* cuda/field/fields.h - Fp, Fr and Fp2 of BN254 on the device, with the results of field/fp.h, field/fr.h and field/fp2.h. */
#ifndef CUDA_FIELD_FIELDS_H
#define CUDA_FIELD_FIELDS_H

#include "cuda/field/limbs.h"

/* Points and scalars are loaded and stored in units of sixteen bytes. */
#if defined(__cplusplus)
#define DEVICE_ALIGN alignas(16)
#else
#define DEVICE_ALIGN _Alignas(16)
#endif
#define DEVICE_JOIN_(prefix, name) prefix##_##name
#define DEVICE_JOIN(prefix, name) DEVICE_JOIN_(prefix, name)

#define FP_MODULUS \
    {0xd87cfd47, 0x3c208c16, 0x6871ca8d, 0x97816a91, 0x8181585d, 0xb85045b6, 0xe131a029, 0x30644e72}
#define FP_INVERSE 0xe4866389u

#define FIELD fp
#define FIELD_MODULUS FP_MODULUS
#define FIELD_MINUS_TWO \
    {0x3c208c16d87cfd45, 0x97816a916871ca8d, 0xb85045b68181585d, 0x30644e72e131a029}
#define FIELD_ONE \
    {0xc58f0d9d, 0xd35d438d, 0xf5c70b3d, 0x0a78eb28, 0x7879462c, 0x666ea36f, 0x9a07df2f, 0x0e0a77c1}
#define FIELD_INVERSE FP_INVERSE
#include "cuda/field/field_impl.h"

#define FIELD fr
#define FIELD_MODULUS \
    {0xf0000001, 0x43e1f593, 0x79b97091, 0x2833e848, 0x8181585d, 0xb85045b6, 0xe131a029, 0x30644e72}
#define FIELD_MINUS_TWO \
    {0x43e1f593efffffff, 0x2833e84879b97091, 0xb85045b68181585d, 0x30644e72e131a029}
#define FIELD_ONE \
    {0x4ffffffb, 0xac96341c, 0x9f60cd29, 0x36fc7695, 0x7879462e, 0x666ea36f, 0x9a07df2f, 0x0e0a77c1}
#define FIELD_INVERSE 0xefffffffu
#include "cuda/field/field_impl.h"

/* Fp2 = Fp[u] / (u^2 + 1), c0 + c1*u. */
typedef struct fp2 {
    fp c0, c1;
} fp2;

/* Karatsuba on numbers of 512 bits: three products, and one reduction for each coefficient. Factors are below p; the products of
 * their sums are below p 2^256, as limbs_reduce_wide() needs. A negative difference gets p 2^256 added. */
DEVICE void fp2_mul(fp2 *r, const fp2 *a, const fp2 *b) {
    const uint32_t m[LIMBS] = FP_MODULUS;
    uint32_t low[2 * LIMBS], high[2 * LIMBS], mid[2 * LIMBS], masked[LIMBS];
    fp sum_a, sum_b;
    fp_add_lazy(&sum_a, &a->c0, &a->c1);
    fp_add_lazy(&sum_b, &b->c0, &b->c1);
    limbs_mul_wide(low, a->c0.v, b->c0.v);
    limbs_mul_wide(high, a->c1.v, b->c1.v);
    limbs_mul_wide(mid, sum_a.v, sum_b.v);
    limbs_sub_wide(mid, low);
    limbs_sub_wide(mid, high);
    const uint32_t below = limbs_sub_wide(low, high);
    DEVICE_UNROLL
    for (int i = 0; i < LIMBS; i++) masked[i] = m[i] & below;
    limbs_add_wrapping(low + LIMBS, low + LIMBS, masked);
    limbs_reduce_wide(r->c0.v, low, m, FP_INVERSE);
    limbs_reduce_wide(r->c1.v, mid, m, FP_INVERSE);
}

#define FP2_OWN_MUL
#define HOT DEVICE
#define COLD DEVICE_COLD
#include "field/fp2_shared.h"
#undef FP2_OWN_MUL
#undef HOT
#undef COLD

#endif
