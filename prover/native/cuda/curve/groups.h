/* cuda/curve/groups.h - the groups G1 and G2 of BN254 on the device. */
#ifndef CUDA_CURVE_GROUPS_H
#define CUDA_CURVE_GROUPS_H

#include "cuda/field/fields.h"

typedef struct g1_affine {
    fp x, y;
} g1_affine;

typedef struct g1_xyzz {
    fp x, y, zz, zzz;
} g1_xyzz;

typedef struct g2_affine {
    fp2 x, y;
} g2_affine;

typedef struct g2_xyzz {
    fp2 x, y, zz, zzz;
} g2_xyzz;

#define HOT DEVICE
#define COLD DEVICE_COLD

#define FE fp
#define F(operation) fp_##operation
#define AFFINE g1_affine
#define XYZZ g1_xyzz
#define C(name) g1_##name
#include "curve/group_shared.h"

#define FE fp2
#define F(operation) fp2_##operation
#define AFFINE g2_affine
#define XYZZ g2_xyzz
#define C(name) g2_##name
#include "curve/group_shared.h"

/* Additions in G2 whose code is small, because products in Fp2 are calls. */
DEVICE_COLD fp2 fp2_product(fp2 a, fp2 b) {
    fp2 r;
    fp2_mul(&r, &a, &b);
    return r;
}

DEVICE void fp2_small_mul(fp2 *r, const fp2 *a, const fp2 *b) { *r = fp2_product(*a, *b); }

#define fp2_small_set_zero fp2_set_zero
#define fp2_small_set_one fp2_set_one
#define fp2_small_is_zero fp2_is_zero
#define fp2_small_equal fp2_equal
#define fp2_small_add fp2_add
#define fp2_small_sub fp2_sub
#define fp2_small_neg fp2_neg
#define fp2_small_double fp2_double
#define fp2_small_sqr fp2_sqr
#define fp2_small_inv fp2_inv

#define FE fp2
#define F(operation) fp2_small_##operation
#define AFFINE g2_affine
#define XYZZ g2_xyzz
#define C(name) g2_small_##name
#include "curve/group_shared.h"

#undef HOT
#undef COLD

#endif
