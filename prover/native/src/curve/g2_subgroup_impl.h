/* curve/g2_subgroup_impl.h - membership in the subgroup of order r of the twist.
 *
 * With the curve's parameter x, a point P of the twist has order r exactly when
 * [x+1]P + psi([x]P) + psi^2([x]P) = psi^3([2x]P)
 * (Dai, Lin, Zhao, Zhou: Fast subgroup membership testings for G1, G2 and GT on pairing-friendly curves, 2022, section 4). Proof
 * idea: psi satisfies psi^2 - t*psi + p = 0, which turns the equation into b0 + b1*psi = 0 with gcd(b0^2 + b0*b1*t + b1^2*p,
 * order of the twist) = r.
 */
#ifndef G16_CURVE_G2_SUBGROUP_IMPL_H
#define G16_CURVE_G2_SUBGROUP_IMPL_H

#include "curve/g2.h"

/* x = 4965661367192848881 in non-adjacent form: bits with digit 1 below the leading 2^62, bits with digit -1. */
#define G2_X_PLUS UINT64_C(0x050a14044a890a01)
#define G2_X_MINUS UINT64_C(0x0020815000200010)

/* psi = untwist, Frobenius, twist: (x, y) -> (conj(x) * xi^((p-1)/3), conj(y) * xi^((p-1)/2)), xi = 9 + u. */
static const fp2 G2_PSI_X = {{{0xb5773b104563ab30, 0x347f91c8a9aa6454, 0x7a007127242e0991, 0x1956bcd8118214ec}},
                             {{0x6e849f1ea0aa4757, 0xaa1c7b6d89f89141, 0xb6e713cdfae0ca3a, 0x26694fbb4e82ebc3}}};
static const fp2 G2_PSI_Y = {{{0xe4bbdd0c2936b629, 0xbb30f162e133bacb, 0x31a9d1b6f9645366, 0x253570bea500f8dd}},
                             {{0xa1d77ce45ffe77c7, 0x07affd117826d1db, 0x6d16bd27bb7edc6b, 0x2c87200285defecc}}};

static inline void g2_psi_xyzz(g2_xyzz *r, const g2_xyzz *p) {
    fp2_conj(&r->x, &p->x);
    fp2_mul(&r->x, &r->x, &G2_PSI_X);
    fp2_conj(&r->y, &p->y);
    fp2_mul(&r->y, &r->y, &G2_PSI_Y);
    fp2_conj(&r->zz, &p->zz);
    fp2_conj(&r->zzz, &p->zzz);
}

typedef struct g2_jacobian {
    fp2 x, y, z;
} g2_jacobian;

/* Explicit-Formulas Database, dbl-2009-l: 2M + 5S. */
static inline void g2_jacobian_double(g2_jacobian *p) {
    fp2 a, b, c, d, e, f;
    fp2_sqr(&a, &p->x);
    fp2_sqr(&b, &p->y);
    fp2_sqr(&c, &b);
    fp2_add(&d, &p->x, &b);
    fp2_sqr(&d, &d);
    fp2_sub(&d, &d, &a);
    fp2_sub(&d, &d, &c);
    fp2_double(&d, &d);
    fp2_double(&e, &a);
    fp2_add(&e, &e, &a);
    fp2_sqr(&f, &e);
    fp2_mul(&p->z, &p->y, &p->z);
    fp2_double(&p->z, &p->z);
    fp2_sub(&p->x, &f, &d);
    fp2_sub(&p->x, &p->x, &d);
    fp2_sub(&d, &d, &p->x);
    fp2_mul(&p->y, &e, &d);
    fp2_double(&c, &c);
    fp2_double(&c, &c);
    fp2_double(&c, &c);
    fp2_sub(&p->y, &p->y, &c);
}

/* p += q, or 0 when p is q, -q or infinity. Explicit-Formulas Database, madd-2007-bl. */
static inline int g2_jacobian_add_distinct(g2_jacobian *p, const g2_affine *q) {
    fp2 zz, h, hh, i, j, s, v, x3;
    fp2_sqr(&zz, &p->z);
    fp2_mul(&h, &q->x, &zz);
    fp2_sub(&h, &h, &p->x);
    if (fp2_is_zero(&h) || fp2_is_zero(&p->z)) return 0;
    fp2_mul(&s, &q->y, &p->z);
    fp2_mul(&s, &s, &zz);
    fp2_sub(&s, &s, &p->y);
    fp2_double(&s, &s);
    fp2_sqr(&hh, &h);
    fp2_double(&i, &hh);
    fp2_double(&i, &i);
    fp2_mul(&j, &h, &i);
    fp2_mul(&v, &p->x, &i);
    fp2_sqr(&x3, &s);
    fp2_sub(&x3, &x3, &j);
    fp2_sub(&x3, &x3, &v);
    fp2_sub(&x3, &x3, &v);
    fp2_add(&p->z, &p->z, &h);
    fp2_sqr(&p->z, &p->z);
    fp2_sub(&p->z, &p->z, &zz);
    fp2_sub(&p->z, &p->z, &hh);
    fp2_sub(&v, &v, &x3);
    fp2_mul(&v, &s, &v);
    fp2_mul(&j, &p->y, &j);
    fp2_double(&j, &j);
    fp2_sub(&p->y, &v, &j);
    p->x = x3;
    return 1;
}

/* 1 when p, a point of the twist other than infinity, has order r. */
static int g2_in_subgroup(const g2_affine *p) {
    g2_affine negative;
    g2_jacobian q = {p->x, p->y, FP2_ONE};
    g2_affine_neg(&negative, p);
    for (int i = 61; i >= 0; i--) {
        g2_jacobian_double(&q);
        /* The multiples that occur are below 2^63, so for a point of order r none equals p, -p or infinity again. */
        if ((G2_X_PLUS >> i) & 1 && !g2_jacobian_add_distinct(&q, p)) return 0;
        if ((G2_X_MINUS >> i) & 1 && !g2_jacobian_add_distinct(&q, &negative)) return 0;
    }
    if (fp2_is_zero(&q.z)) return 0;

    g2_xyzz x_p = {.x = q.x, .y = q.y}, left, right;
    fp2_sqr(&x_p.zz, &q.z);
    fp2_mul(&x_p.zzz, &x_p.zz, &q.z);
    g2_xyzz_add_affine(&left, &x_p, p);
    g2_psi_xyzz(&right, &x_p);
    g2_xyzz_add(&left, &left, &right);
    g2_psi_xyzz(&right, &right);
    g2_xyzz_add(&left, &left, &right);
    g2_psi_xyzz(&right, &right);
    g2_xyzz_double(&right, &right);
    g2_xyzz_neg(&right, &right);
    g2_xyzz_add(&left, &left, &right);
    return g2_xyzz_is_infinity(&left);
}

#if defined(G16_LANES)
#include "curve/g2_subgroup_vector_impl.h"
#else

/* Sets inside[i] to 1 when *points[i] has order r, else to 0, for i < count. */
static void g2_in_subgroup_many(uint8_t *inside, const g2_affine *const *points, uint32_t count) {
    for (uint32_t i = 0; i < count; i++) inside[i] = (uint8_t)g2_in_subgroup(points[i]);
}

#endif

#endif
