/* curve/g2.h - the subgroup of order r of the sextic twist y^2 = x^3 + 3/(9 + u) over Fp2; cofactor 2p - r. */
#ifndef G16_CURVE_G2_H
#define G16_CURVE_G2_H

#include "field/fp2.h"

typedef struct g2_xyzz {
    fp2 x, y, zz, zzz;
} g2_xyzz;

static const fp2 G2_B = {{{0x3bf938e377b802a8, 0x020b1b273633535d, 0x26b7edf049755260, 0x2514c6324384a86d}},
                         {{0x38e7ecccd1dcff67, 0x65f0b37d93ce0d3e, 0xd749d0dd22ac00aa, 0x0141b9ce4a688d4d}}};

#define FE fp2
#define F(operation) fp2_##operation
#define CURVE_B G2_B
#define AFFINE g2_affine
#define XYZZ g2_xyzz
#define C(name) g2_##name
#define HOT static inline
#define COLD static inline
#include "curve/group_shared.h"
#undef HOT
#undef COLD

#endif
