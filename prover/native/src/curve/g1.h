/* curve/g1.h - the group of points of y^2 = x^3 + 3 over Fp; order r, cofactor 1, generator (1, 2). */
#ifndef G16_CURVE_G1_H
#define G16_CURVE_G1_H

#include "field/fp.h"

typedef struct g1_xyzz {
    fp x, y, zz, zzz;
} g1_xyzz;

static const fp G1_B = {{0x7a17caa950ad28d7, 0x1f6ac17ae15521b9, 0x334bea4e696bd284, 0x2a1f6744ce179d8e}};

#define FE fp
#define F(operation) fp_##operation
#define CURVE_B G1_B
#define AFFINE g1_affine
#define XYZZ g1_xyzz
#define C(name) g1_##name
#define HOT static inline
#define COLD static inline
#include "curve/group_shared.h"
#undef HOT
#undef COLD

#endif
