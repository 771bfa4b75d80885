/* field/fp12_impl.h - the tower Fp2 < Fp6 = Fp2[v]/(v^3 - xi) < Fp12 = Fp6[w]/(w^2 - v), xi = 9 + u. */
#ifndef G16_FIELD_FP12_IMPL_H
#define G16_FIELD_FP12_IMPL_H

#include "field/fp2.h"

/* ---- Fp6 ---------------------------------------------------------------------------- */

/* r = xi * a = (9*c0 - c1) + (9*c1 + c0)*u; r may alias a. */
static inline void fp2_mul_xi(fp2 *r, const fp2 *a) {
    fp2 t;
    fp2_double(&t, a);
    fp2_double(&t, &t);
    fp2_double(&t, &t);
    fp2_add(&t, &t, a);
    fp first = a->c0;
    fp_sub(&r->c0, &t.c0, &a->c1);
    fp_add(&r->c1, &t.c1, &first);
}

static inline void fp6_add(fp6 *r, const fp6 *a, const fp6 *b) {
    fp2_add(&r->c0, &a->c0, &b->c0);
    fp2_add(&r->c1, &a->c1, &b->c1);
    fp2_add(&r->c2, &a->c2, &b->c2);
}
static inline void fp6_sub(fp6 *r, const fp6 *a, const fp6 *b) {
    fp2_sub(&r->c0, &a->c0, &b->c0);
    fp2_sub(&r->c1, &a->c1, &b->c1);
    fp2_sub(&r->c2, &a->c2, &b->c2);
}
static inline void fp6_neg(fp6 *r, const fp6 *a) {
    fp2_neg(&r->c0, &a->c0);
    fp2_neg(&r->c1, &a->c1);
    fp2_neg(&r->c2, &a->c2);
}
static inline int fp6_equal(const fp6 *a, const fp6 *b) {
    return fp2_equal(&a->c0, &b->c0) & fp2_equal(&a->c1, &b->c1) & fp2_equal(&a->c2, &b->c2);
}

/* r = v * a; r may alias a. */
static inline void fp6_mul_v(fp6 *r, const fp6 *a) {
    fp2 top = a->c2;
    r->c2 = a->c1;
    r->c1 = a->c0;
    fp2_mul_xi(&r->c0, &top);
}

/* r = ad + bc as (a + b)(c + d) - ac - bd, given ac and bd. */
static inline void fp2_mul_cross(fp2 *r, const fp2 *a, const fp2 *b, const fp2 *c, const fp2 *d, const fp2 *ac,
                                 const fp2 *bd) {
    fp2 s, t;
    fp2_add(&s, a, b);
    fp2_add(&t, c, d);
    fp2_mul(&s, &s, &t);
    fp2_sub(&s, &s, ac);
    fp2_sub(r, &s, bd);
}

/* Karatsuba: six products. r may alias a or b. */
static void fp6_mul(fp6 *r, const fp6 *a, const fp6 *b) {
    fp2 v0, v1, v2, t0, t1, t2;
    fp2_mul(&v0, &a->c0, &b->c0);
    fp2_mul(&v1, &a->c1, &b->c1);
    fp2_mul(&v2, &a->c2, &b->c2);
    fp2_mul_cross(&t0, &a->c1, &a->c2, &b->c1, &b->c2, &v1, &v2);
    fp2_mul_cross(&t1, &a->c0, &a->c1, &b->c0, &b->c1, &v0, &v1);
    fp2_mul_cross(&t2, &a->c0, &a->c2, &b->c0, &b->c2, &v0, &v2);
    fp2_mul_xi(&t0, &t0);
    fp2_mul_xi(&v2, &v2);
    fp2_add(&r->c0, &v0, &t0);
    fp2_add(&r->c1, &t1, &v2);
    fp2_add(&r->c2, &t2, &v1);
}

/* r = a * (b0 + b1*v): five products. r may alias a. */
static void fp6_mul_sparse(fp6 *r, const fp6 *a, const fp2 *b0, const fp2 *b1) {
    fp2 v0, v1, t0, t1, t2;
    fp2_mul(&v0, &a->c0, b0);
    fp2_mul(&v1, &a->c1, b1);
    fp2_mul(&t0, &a->c2, b1);
    fp2_mul_xi(&t0, &t0);
    fp2_mul_cross(&t1, &a->c0, &a->c1, b0, b1, &v0, &v1);
    fp2_mul(&t2, &a->c2, b0);
    fp2_add(&r->c0, &v0, &t0);
    r->c1 = t1;
    fp2_add(&r->c2, &t2, &v1);
}

/* r = 1/a, 0 for 0: the adjugate over the norm to Fp2. */
static void fp6_inv(fp6 *r, const fp6 *a) {
    fp2 t0, t1, t2, norm, s;
    fp2_sqr(&t0, &a->c0); /* t0 = c0^2 - xi*c1*c2 */
    fp2_mul(&s, &a->c1, &a->c2);
    fp2_mul_xi(&s, &s);
    fp2_sub(&t0, &t0, &s);
    fp2_sqr(&t1, &a->c2); /* t1 = xi*c2^2 - c0*c1 */
    fp2_mul_xi(&t1, &t1);
    fp2_mul(&s, &a->c0, &a->c1);
    fp2_sub(&t1, &t1, &s);
    fp2_sqr(&t2, &a->c1); /* t2 = c1^2 - c0*c2 */
    fp2_mul(&s, &a->c0, &a->c2);
    fp2_sub(&t2, &t2, &s);
    fp2_mul(&norm, &a->c2, &t1); /* norm = c0*t0 + xi*(c2*t1 + c1*t2) */
    fp2_mul(&s, &a->c1, &t2);
    fp2_add(&norm, &norm, &s);
    fp2_mul_xi(&norm, &norm);
    fp2_mul(&s, &a->c0, &t0);
    fp2_add(&norm, &norm, &s);
    fp2_inv(&norm, &norm);
    fp2_mul(&r->c0, &t0, &norm);
    fp2_mul(&r->c1, &t1, &norm);
    fp2_mul(&r->c2, &t2, &norm);
}

/* ---- Fp12 --------------------------------------------------------------------------- */

static const fp12 FP12_ONE = {
    .c0 = {.c0 = {.c0 = {{0xd35d438dc58f0d9d, 0x0a78eb28f5c70b3d, 0x666ea36f7879462c, 0x0e0a77c19a07df2f}}}}};

static inline int fp12_equal(const fp12 *a, const fp12 *b) {
    return fp6_equal(&a->c0, &b->c0) & fp6_equal(&a->c1, &b->c1);
}

/* r = conjugate of a, which is its inverse in the subgroup of order p^6 + 1. */
static inline void fp12_conj(fp12 *r, const fp12 *a) {
    r->c0 = a->c0;
    fp6_neg(&r->c1, &a->c1);
}

/* Karatsuba: three products in Fp6. r may alias a or b. */
static void fp12_mul(fp12 *r, const fp12 *a, const fp12 *b) {
    fp6 v0, v1, s, t;
    fp6_mul(&v0, &a->c0, &b->c0);
    fp6_mul(&v1, &a->c1, &b->c1);
    fp6_add(&s, &a->c0, &a->c1);
    fp6_add(&t, &b->c0, &b->c1);
    fp6_mul(&s, &s, &t);
    fp6_sub(&s, &s, &v0);
    fp6_sub(&r->c1, &s, &v1);
    fp6_mul_v(&v1, &v1);
    fp6_add(&r->c0, &v0, &v1);
}

/* r = a^2: (c0 + c1)(c0 + v*c1) - c0*c1 - v*c0*c1 and 2*c0*c1. r may alias a. */
static void fp12_sqr(fp12 *r, const fp12 *a) {
    fp6 product, s, t;
    fp6_mul(&product, &a->c0, &a->c1);
    fp6_add(&s, &a->c0, &a->c1);
    fp6_mul_v(&t, &a->c1);
    fp6_add(&t, &t, &a->c0);
    fp6_mul(&s, &s, &t);
    fp6_sub(&s, &s, &product);
    fp6_mul_v(&t, &product);
    fp6_sub(&r->c0, &s, &t);
    fp6_add(&r->c1, &product, &product);
}

/* f *= 1 + a1*w + a3*w^3: ten products in Fp2. */
static void fp12_mul_unit_line(fp12 *f, const fp2 *a1, const fp2 *a3) {
    fp6 t0, t1;
    fp6_mul_sparse(&t0, &f->c0, a1, a3);
    fp6_mul_sparse(&t1, &f->c1, a1, a3);
    fp6_mul_v(&t1, &t1);
    fp6_add(&f->c0, &f->c0, &t1);
    fp6_add(&f->c1, &f->c1, &t0);
}

/* f *= a0 + a1*w + a3*w^3, the value of a line: thirteen products in Fp2. */
static void fp12_mul_line(fp12 *f, const fp2 *a0, const fp2 *a1, const fp2 *a3) {
    fp6 t0, t1, s;
    fp2 sum;
    fp2_mul(&t0.c0, &f->c0.c0, a0);
    fp2_mul(&t0.c1, &f->c0.c1, a0);
    fp2_mul(&t0.c2, &f->c0.c2, a0);
    fp6_mul_sparse(&t1, &f->c1, a1, a3);
    fp6_add(&s, &f->c0, &f->c1);
    fp2_add(&sum, a0, a1);
    fp6_mul_sparse(&s, &s, &sum, a3);
    fp6_sub(&s, &s, &t0);
    fp6_sub(&f->c1, &s, &t1);
    fp6_mul_v(&t1, &t1);
    fp6_add(&f->c0, &t0, &t1);
}

/* r = 1/a, 0 for 0. */
static void fp12_inv(fp12 *r, const fp12 *a) {
    fp6 norm, t;
    fp6_mul(&norm, &a->c0, &a->c0);
    fp6_mul(&t, &a->c1, &a->c1);
    fp6_mul_v(&t, &t);
    fp6_sub(&norm, &norm, &t);
    fp6_inv(&norm, &norm);
    fp6_mul(&r->c0, &a->c0, &norm);
    fp6_mul(&t, &a->c1, &norm);
    fp6_neg(&r->c1, &t);
}

/* Squares a + b*y in Fp4 = Fp2[y]/(y^2 - xi): low + high*y. */
static inline void fp4_sqr(fp2 *low, fp2 *high, const fp2 *a, const fp2 *b) {
    fp2 a2, b2, s;
    fp2_sqr(&a2, a);
    fp2_sqr(&b2, b);
    fp2_add(&s, a, b);
    fp2_sqr(&s, &s);
    fp2_sub(&s, &s, &a2);
    fp2_sub(high, &s, &b2);
    fp2_mul_xi(&b2, &b2);
    fp2_add(low, &a2, &b2);
}

/* r = 3*square - 2*old or, if plus is set, 3*square + 2*old. */
static inline void fp2_triple_combine(fp2 *r, const fp2 *square, const fp2 *old, int plus) {
    fp2 t;
    if (plus) {
        fp2_add(&t, square, old);
    } else {
        fp2_sub(&t, square, old);
    }
    fp2_double(&t, &t);
    fp2_add(r, &t, square);
}

/* r = a^2 for a of order dividing p^4 - p^2 + 1 (Granger, Scott: Faster squaring in the cyclotomic subgroup of sixth degree
 * extensions, 2010). r may alias a. */
static void fp12_sqr_cyclotomic(fp12 *r, const fp12 *a) {
    fp2 low0, high0, low1, high1, low2, high2;
    fp4_sqr(&low0, &high0, &a->c0.c0, &a->c1.c1);
    fp4_sqr(&low1, &high1, &a->c1.c0, &a->c0.c2);
    fp4_sqr(&low2, &high2, &a->c0.c1, &a->c1.c2);
    fp2_mul_xi(&high2, &high2);
    fp2_triple_combine(&r->c0.c0, &low0, &a->c0.c0, 0);
    fp2_triple_combine(&r->c0.c1, &low1, &a->c0.c1, 0);
    fp2_triple_combine(&r->c0.c2, &low2, &a->c0.c2, 0);
    fp2_triple_combine(&r->c1.c0, &high2, &a->c1.c0, 1);
    fp2_triple_combine(&r->c1.c1, &high0, &a->c1.c1, 1);
    fp2_triple_combine(&r->c1.c2, &high1, &a->c1.c2, 1);
}

/* xi^(i*(p-1)/6) for i = 1 .. 5: the factor of the coefficient of w^i under Frobenius. */
static const fp2 FP12_FROBENIUS[5] = {
    {{{0xaf9ba69633144907, 0xca6b1d7387afb78a, 0x11bded5ef08a2087, 0x02f34d751a1f3a7c}},
     {{0xa222ae234c492d72, 0xd00f02a4565de15b, 0xdc2ff3a253dfc926, 0x10a75716b3899551}}},
    {{{0xb5773b104563ab30, 0x347f91c8a9aa6454, 0x7a007127242e0991, 0x1956bcd8118214ec}},
     {{0x6e849f1ea0aa4757, 0xaa1c7b6d89f89141, 0xb6e713cdfae0ca3a, 0x26694fbb4e82ebc3}}},
    {{{0xe4bbdd0c2936b629, 0xbb30f162e133bacb, 0x31a9d1b6f9645366, 0x253570bea500f8dd}},
     {{0xa1d77ce45ffe77c7, 0x07affd117826d1db, 0x6d16bd27bb7edc6b, 0x2c87200285defecc}}},
    {{{0x7361d77f843abe92, 0xa5bb2bd3273411fb, 0x9c941f314b3e2399, 0x15df9cddbb9fd3ec}},
     {{0x5dddfd154bd8c949, 0x62cb29a5a4445b60, 0x37bc870a0c7dd2b9, 0x24830a9d3171f0fd}}},
    {{{0xc970692f41690fe7, 0xe240342127694b0b, 0x32bee66b83c459e8, 0x12aabced0ab08841}},
     {{0x0d485d2340aebfa9, 0x05193418ab2fcc57, 0xd3b0a40b8a4910f5, 0x2f21ebb535d2925a}}}};

/* r = a^p; r may alias a. */
static void fp12_frobenius(fp12 *r, const fp12 *a) {
    fp2_conj(&r->c0.c0, &a->c0.c0);
    fp2_conj(&r->c1.c0, &a->c1.c0);
    fp2_conj(&r->c0.c1, &a->c0.c1);
    fp2_conj(&r->c1.c1, &a->c1.c1);
    fp2_conj(&r->c0.c2, &a->c0.c2);
    fp2_conj(&r->c1.c2, &a->c1.c2);
    fp2_mul(&r->c1.c0, &r->c1.c0, &FP12_FROBENIUS[0]);
    fp2_mul(&r->c0.c1, &r->c0.c1, &FP12_FROBENIUS[1]);
    fp2_mul(&r->c1.c1, &r->c1.c1, &FP12_FROBENIUS[2]);
    fp2_mul(&r->c0.c2, &r->c0.c2, &FP12_FROBENIUS[3]);
    fp2_mul(&r->c1.c2, &r->c1.c2, &FP12_FROBENIUS[4]);
}

#endif
