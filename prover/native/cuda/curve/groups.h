/* cuda/curve/groups.h - the groups G1 and G2 of BN254 on the device. */
#ifndef CUDA_CURVE_GROUPS_H
#define CUDA_CURVE_GROUPS_H

#include "cuda/field/fields.h"

#define FE fp
#define F(operation) fp_##operation
#define AFFINE g1_affine
#define XYZZ g1_xyzz
#define C(name) g1_##name
#include "cuda/curve/group_impl.h"
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
#include "cuda/curve/group_impl.h"
#undef FE
#undef F
#undef AFFINE
#undef XYZZ
#undef C

#endif
