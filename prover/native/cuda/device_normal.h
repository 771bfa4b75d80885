/* device_normal.h - lists of points of G1 and G2 from XYZZ to affine coordinates, with few inversions. */
#ifndef G16_DEVICE_NORMAL_H
#define G16_DEVICE_NORMAL_H

#include "device_groups.h"

#define NORMAL_THREADS 128
#define NORMAL_RUN 16 /* points that share an inversion, which takes as long as 380 products */

/* Where point i of a list goes: place i; or, of pairs of places 2^half_log2 apart as a transform has them, to the upper place of
 * pair i; or to the lower place of pair i / 2 when i is even, and to the upper one when it is odd. */
typedef enum normal_order { NORMAL_LIST, NORMAL_UPPER, NORMAL_PAIRS } normal_order;

DEVICE uint64_t normal_lower(uint64_t pair, uint32_t half_log2) {
    return (pair >> half_log2 << (half_log2 + 1)) | (pair & (((uint64_t)1 << half_log2) - 1));
}

DEVICE uint64_t normal_place(uint64_t i, uint32_t order, uint32_t half_log2) {
    const uint64_t half = (uint64_t)1 << half_log2;
    if (order == NORMAL_LIST) return i;
    if (order == NORMAL_UPPER) return normal_lower(i, half_log2) + half;
    return normal_lower(i >> 1, half_log2) + (i & 1) * half;
}

#define FE fp
#define F(operation) fp_##operation
#define AFFINE g1_affine
#define XYZZ g1_xyzz
#define C(name) g1_##name
#include "device_normal_impl.h"
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
#include "device_normal_impl.h"
#undef FE
#undef F
#undef AFFINE
#undef XYZZ
#undef C

#endif
