/* testing_field_impl.h - hooks over the fields and curves of one backend, compiled once per backend by
 * testing_arithmetic_*.c. How a hook is called: testing_arithmetic_impl.h.
 */
#include "field/fp.h"
#include "field/fp12_impl.h"
#include "field/fp2.h"
#include "field/fr.h"
#include "curve/encoding_impl.h"
#include "curve/g1.h"
#include "curve/g2.h"
#include "curve/pairing_impl.h"

#include "testing_arithmetic_impl.h"

T_TUPLE(fp6)
T_TUPLE(fp12)

T_UNARY(fp, halve)
T_PREDICATE(fp, is_larger_half)

T_UNARY(fp2, halve)
T_UNARY(fp2, conj)
T_UNARY(fp2, mul_xi)
T_PREDICATE(fp2, is_larger_half)

T_BINARY(fp6, mul)
T_UNARY(fp6, inv)
T_UNARY(fp6, mul_v)

T_BINARY(fp12, mul)
T_UNARY(fp12, sqr)
T_UNARY(fp12, sqr_cyclotomic)
T_UNARY(fp12, conj)
T_UNARY(fp12, inv)
T_UNARY(fp12, frobenius)
T_UNARY(fp12, pow_x)
T_EQUALITY(fp12)

#define T_ROOTS 16 /* a multiple of POINT_LANES in every backend */

/* Candidates of square roots */
T_HOOK(t_field, fp_sqrt_lanes) {
    fp a[T_ROOTS], r[T_ROOTS];
    if (in_size != 32 * T_ROOTS) return T_BAD_SIZE;
    if (!fp_read_many(a, in, T_ROOTS)) return T_NOT_CANONICAL;
    for (size_t i = 0; i < T_ROOTS; i += POINT_LANES) fp_sqrt_lanes(r + i, a + i);
    fp_write_many(out, r, T_ROOTS);
    return 0;
}

/* Roots of values; bit i of the answer says that value i has one. */
T_HOOK(t_field, fp2_sqrt_lanes) {
    fp2 a[T_ROOTS], r[T_ROOTS];
    uint8_t good[T_ROOTS];
    int32_t answer = 0;
    if (in_size != 64 * T_ROOTS) return T_BAD_SIZE;
    if (!fp_read_many(a, in, 2 * T_ROOTS)) return T_NOT_CANONICAL;
    for (size_t i = 0; i < T_ROOTS; i += POINT_LANES) fp2_sqrt_lanes(r + i, good + i, a + i);
    fp_write_many(out, r, 2 * T_ROOTS);
    for (size_t i = 0; i < T_ROOTS; i++) answer |= (int32_t)good[i] << i;
    return answer;
}

T_HOOK(t_field, fp2_mul_fp) {
    fp2 a;
    fp b;
    if (in_size != 96) return T_BAD_SIZE;
    if (!fp2_read(&a, in) || !fp_from_bytes(&b, in + 64)) return T_NOT_CANONICAL;
    fp2_mul_fp(&a, &a, &b);
    fp2_write(out, &a);
    return 0;
}

/* a * (b0 + b1 v) */
T_HOOK(t_field, fp6_mul_sparse) {
    fp6 a;
    fp2 b[2];
    if (in_size != 320) return T_BAD_SIZE;
    if (!fp6_read(&a, in) || !fp_read_many(b, in + 192, 4)) return T_NOT_CANONICAL;
    fp6_mul_sparse(&a, &a, &b[0], &b[1]);
    fp6_write(out, &a);
    return 0;
}

/* a * (l0 + l1 w + l3 w^3) */
T_HOOK(t_field, fp12_mul_line) {
    fp12 a;
    fp2 l[3];
    if (in_size != 384 + 192) return T_BAD_SIZE;
    if (!fp12_read(&a, in) || !fp_read_many(l, in + 384, 6)) return T_NOT_CANONICAL;
    fp12_mul_line(&a, &l[0], &l[1], &l[2]);
    fp12_write(out, &a);
    return 0;
}

#define T_ON_CURVE(group)                                                                   \
    T_HOOK(t_field, group##_on_curve) {                                                     \
        group##_affine p;                                                                   \
        (void)out;                                                                          \
        if (in_size != sizeof p) return T_BAD_SIZE;                                         \
        return group##_affine_read(&p, in) ? group##_affine_on_curve(&p) : T_NOT_CANONICAL; \
    }

T_ON_CURVE(g1)
T_ON_CURVE(g2)
