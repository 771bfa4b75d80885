/* ptx_operations.cu - straight-line field operations, whose PTX test_cuda_ptx.py interprets: without a GPU nothing else shows that
 * the carry chains of cuda/field/limbs.h say what its C says. */
#include "cuda/field/halves.h"

#define OPERATIONS(field)                                                       \
    extern "C" __global__ void field##_operations(const field *in, field *out) { \
        const field a = in[0], b = in[1];                                       \
        field r;                                                                \
        field##_add(&r, &a, &b);                                                \
        out[0] = r;                                                             \
        field##_sub(&r, &a, &b);                                                \
        out[1] = r;                                                             \
        field##_mul(&r, &a, &b);                                                \
        out[2] = r;                                                             \
        field##_sqr(&r, &a);                                                    \
        out[3] = r;                                                             \
        field##_neg(&r, &a);                                                    \
        out[4] = r;                                                             \
    }

OPERATIONS(fp)
OPERATIONS(fr)

/* Fp2 by two threads: each loads and stores one coefficient. */
extern "C" __global__ void fp2_half_operations(const fp *in, fp *out) {
    fp2_half a, b, r;
    a.c[0] = in[half_number(0)];
    b.c[0] = in[2 + half_number(0)];
    fp2_half_mul(&r, &a, &b);
    out[half_number(0)] = r.c[0];
    fp2_half_sqr(&r, &a);
    out[2 + half_number(0)] = r.c[0];
}
