/* field/fp2.h - Fp2 = Fp[u] / (u^2 + 1). c0 + c1*u; c1 is the imaginary part. */
#ifndef G16_FIELD_FP2_H
#define G16_FIELD_FP2_H

#include "field/fp.h"

static const fp2 FP2_ZERO = {{{0, 0, 0, 0}}, {{0, 0, 0, 0}}};
static const fp2 FP2_ONE = {
    {{0xd35d438dc58f0d9d, 0x0a78eb28f5c70b3d, 0x666ea36f7879462c, 0x0e0a77c19a07df2f}}, {{0, 0, 0, 0}}};

#define HOT static inline
#define COLD static inline
#include "field/fp2_shared.h"
#undef HOT
#undef COLD

static inline void fp2_halve(fp2 *r, const fp2 *a) {
    fp_halve(&r->c0, &a->c0);
    fp_halve(&r->c1, &a->c1);
}
static inline void fp2_conj(fp2 *r, const fp2 *a) {
    r->c0 = a->c0;
    fp_neg(&r->c1, &a->c1);
}

static inline void fp2_mul_fp(fp2 *r, const fp2 *a, const fp *b) {
    fp_mul(&r->c0, &a->c0, b);
    fp_mul(&r->c1, &a->c1, b);
}

/* Returns 1 when a is lexicographically larger than -a: compares c1, or c0 when c1 is zero. */
static inline int fp2_is_larger_half(const fp2 *a) {
    return fp_is_zero(&a->c1) ? fp_is_larger_half(&a->c0) : fp_is_larger_half(&a->c1);
}

#endif
