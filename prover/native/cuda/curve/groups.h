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
#undef FE
#undef F
#undef AFFINE
#undef XYZZ
#undef C

#define FE fp2
#define F(operation) fp2_##operation
#define AFFINE g2_affine
#define XYZZ g2_xyzz
#define C(name) g2_##name
#include "curve/group_shared.h"
#undef FE
#undef F
#undef AFFINE
#undef XYZZ
#undef C

#undef HOT
#undef COLD

#endif
