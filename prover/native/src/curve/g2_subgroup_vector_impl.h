/* curve/g2_subgroup_vector_impl.h - the test of curve/g2_subgroup_impl.h for eight points at once.
 *
 * Jacobian coordinates without handling of exceptional cases: when a sum meets equal or opposite points or infinity, its z
 * becomes zero and stays zero. That happens to no point of order r, because the multiples that are added are fixed and distinct
 * modulo r; so z = 0 at the end means "not in the subgroup".
 *
 * Bounds: components are integers below a multiple of p, noted as "< 2p" where they matter. A product of components below a and b
 * (c and d) is below p + 0.012 (ab + cd) p. Limbs are normalised unless a value is called raw (field/lanes52.h).
 */
#ifndef G16_CURVE_G2_SUBGROUP_VECTOR_IMPL_H
#define G16_CURVE_G2_SUBGROUP_VECTOR_IMPL_H

#include "field/fp82_impl.h"
#include "curve/square_roots_impl.h"

/* ---- field ------------------------------------------------------------------------------- */

/* Reduces a raw value v in [0, 16p), with non-negative limbs or v above p/2, to [0, 1.1p). The top limb gives an estimate of the
 * quotient that is never too large and at most 1.09 below v / p: u = floor(v / 2^250), and 5416/2^16 = (1 - 0.0002) 2^250/p. */
static inline __attribute__((always_inline)) void fp8_reduce_raw(fp8 *r) {
    const lanes_u64 u = lanes_right_signed(r->v[4], 42);
    const lanes_u64 quotient = lanes_right(lanes_mul_u32(u, lanes_set(5416)), 16);
    for (int i = 0; i < 5; i++) {
        r->v[i] = lanes_sub(r->v[i], lanes_mul_small(quotient, fp8_limb(FP8_P, i)));
    }
    fp8_carry(r);
}

static inline void fp82_reduce_raw(fp82 *r) {
    fp8_reduce_raw(&r->c0);
    fp8_reduce_raw(&r->c1);
}

/* Raw r = 2^scale_a * a - 2^scale_b * b + 4p * multiple. */
static inline __attribute__((always_inline)) void fp82_combine(fp82 *r, const fp82 *a, int scale_a, const fp82 *b,
                                                               int scale_b, int multiple) {
    for (int i = 0; i < 5; i++) {
        const lanes_u64 offset = lanes_set(FP8_4P[i] * (uint64_t)multiple);
        r->c0.v[i] = lanes_sub(lanes_add(lanes_left(a->c0.v[i], (unsigned)scale_a), offset),
                                      lanes_left(b->c0.v[i], (unsigned)scale_b));
        r->c1.v[i] = lanes_sub(lanes_add(lanes_left(a->c1.v[i], (unsigned)scale_a), offset),
                                      lanes_left(b->c1.v[i], (unsigned)scale_b));
    }
}

/* r = a * b by four products and two reductions, which gives smaller bounds than Karatsuba's three. Needs a below 4p, b below 8p;
 * for a < 3p, b < 6p the result is below 1.6p. r may alias a or b. */
static inline void fp82_mul_tight(fp82 *r, const fp82 *a, const fp82 *b) {
    fp8 negative, c0;
    for (int i = 0; i < 5; i++) negative.v[i] = lanes_sub(fp8_limb(FP8_4P, i), a->c1.v[i]);
    fp8_carry(&negative);
    fp8_mul_sum(&c0, &a->c0, &b->c0, &negative, &b->c1);
    fp8_mul_sum(&r->c1, &a->c0, &b->c1, &a->c1, &b->c0);
    r->c0 = c0;
}

/* r = a^2: (c0 + c1)(c0 - c1 + 8p) and 2 c0 c1. Below 1.8p for a < 3p, below 2.8p for a < 5.4p. r may alias a. */
static inline void fp82_sqr_tight(fp82 *r, const fp82 *a) {
    fp8 sum, difference, twice;
    fp8_add(&sum, &a->c0, &a->c1);
    fp8_sub_wide(&difference, &a->c0, &a->c1);
    fp8_add(&twice, &a->c0, &a->c0);
    fp8_mul(&r->c1, &twice, &a->c1);
    fp8_mul(&r->c0, &sum, &difference);
}

/* Returns the mask of lanes with a = b modulo p, for a and b below 4p. */
static inline uint8_t fp8_equal_lanes(const fp8 *a, const fp8 *b) {
    fp8 d;
    uint8_t zero = 0xff, modulus = 0xff;
    fp8_sub(&d, a, b);
    fp8_reduce_raw(&d);
    for (int i = 0; i < 5; i++) {
        zero &= lanes_bits(lanes_equal(d.v[i], lanes_zero()));
        modulus &= lanes_bits(lanes_equal(d.v[i], fp8_limb(FP8_P, i)));
    }
    return zero | modulus;
}

static inline uint8_t fp82_equal_lanes(const fp82 *a, const fp82 *b) {
    return fp8_equal_lanes(&a->c0, &b->c0) & fp8_equal_lanes(&a->c1, &b->c1);
}

/* ---- points -------------------------------------------------------------------------------- */

/* x, y < 1.1p, z < 3p. */
typedef struct g2_lanes {
    fp82 x, y, z;
} g2_lanes;

/* dbl-2009-l of the Explicit-Formulas Database with D = 4 X Y^2. */
static void g2_lanes_double(g2_lanes *p) {
    fp82 a, b, c, e, f, s, t;
    fp82_sqr_tight(&a, &p->x); /* a, b < 1.6p */
    fp82_sqr_tight(&b, &p->y);
    fp82_sqr_tight(&c, &b);           /* < 1.4p */
    fp82_mul_tight(&s, &p->x, &b);    /* < 1.2p, D = 4s */
    fp82_mul_tight(&p->z, &p->z, &p->y);
    fp82_add(&p->z, &p->z, &p->z);    /* < 3p */
    fp82_add(&e, &a, &a);
    fp82_add(&e, &e, &a);             /* < 4.8p */
    fp82_sqr_tight(&f, &e);           /* < 2.5p */
    fp82_combine(&p->x, &f, 0, &s, 3, 3); /* f - 2D + 12p in (2p, 15p) */
    fp82_reduce_raw(&p->x);
    fp82_combine(&t, &s, 2, &p->x, 0, 1); /* D - x + 4p in (2p, 9p) */
    fp82_reduce_raw(&t);
    fp82_mul_tight(&t, &t, &e);       /* < 1.4p */
    fp82_combine(&p->y, &t, 0, &c, 3, 3); /* t - 8c + 12p in (p, 14p): 8c < 11p */
    fp82_reduce_raw(&p->y);
}

/* The common part of add-2007-bl and madd-2007-bl, from both points on a common denominator, (x1, y1) and (x2, y2), all < 1.4p,
 * and the product z < 3p of their z. With H = x2 - x1, I = 4H^2, J = H I, r = 2(y2 - y1), V = x1 I. */
static void g2_lanes_finish_add(g2_lanes *p, const fp82 *x1, const fp82 *y1, const fp82 *x2, const fp82 *y2,
                                const fp82 *z) {
    fp82 h, i, j, s, v, t;
    fp82_combine(&h, x2, 0, x1, 0, 1);
    fp82_reduce_raw(&h);
    fp82_combine(&s, y2, 1, y1, 1, 1); /* 2(y2 - y1) + 4p in (p, 7p) */
    fp82_reduce_raw(&s);
    fp82_mul_tight(&p->z, &h, z);
    fp82_add(&p->z, &p->z, &p->z); /* < 3p */
    fp82_sqr_tight(&i, &h);        /* < 1.6p */
    fp82_add(&i, &i, &i);
    fp82_add(&i, &i, &i);          /* < 6.4p */
    fp82_mul_tight(&j, &h, &i);    /* < 1.5p */
    fp82_mul_tight(&v, x1, &i);    /* < 1.5p */
    fp82_sqr_tight(&t, &s);        /* < 1.6p */
    fp82_mul_tight(&h, y1, &j);    /* y1 J < 1.2p */
    fp82_combine(&t, &t, 0, &v, 1, 2); /* r^2 - 2V + 8p */
    fp82_combine(&p->x, &t, 0, &j, 0, 0); /* - J, in (3.5p, 9.6p) */
    fp82_reduce_raw(&p->x);
    fp82_combine(&v, &v, 0, &p->x, 0, 1); /* V - x + 4p in (2p, 5.5p) */
    fp82_reduce_raw(&v);
    fp82_mul_tight(&v, &v, &s);    /* < 1.2p */
    fp82_combine(&p->y, &v, 0, &h, 1, 1); /* - 2 y1 J + 4p in (1.6p, 5.2p) */
    fp82_reduce_raw(&p->y);
}

/* p += (x, y) for affine points with coordinates below 1.1p. */
static void g2_lanes_add_affine(g2_lanes *p, const fp82 *x, const fp82 *y) {
    fp82 zz, u, s;
    const fp82 x1 = p->x, y1 = p->y, z = p->z;
    fp82_sqr_tight(&zz, &z);      /* < 1.8p */
    fp82_mul_tight(&u, &zz, x);   /* < 1.2p */
    fp82_mul_tight(&s, &z, y);    /* < 1.3p */
    fp82_mul_tight(&s, &s, &zz);
    g2_lanes_finish_add(p, &x1, &y1, &u, &s, &z);
}

static void g2_lanes_add(g2_lanes *p, const g2_lanes *q) {
    fp82 zz, qq, x1, y1, x2, y2, z;
    fp82_sqr_tight(&zz, &p->z);
    fp82_sqr_tight(&qq, &q->z);
    fp82_mul_tight(&x1, &p->x, &qq);
    fp82_mul_tight(&x2, &q->x, &zz);
    fp82_mul_tight(&y1, &p->y, &qq);
    fp82_mul_tight(&y1, &y1, &q->z);
    fp82_mul_tight(&y2, &q->y, &zz);
    fp82_mul_tight(&y2, &y2, &p->z);
    fp82_mul_tight(&z, &p->z, &q->z);
    g2_lanes_finish_add(p, &x1, &y1, &x2, &y2, &z);
}

static inline void fp82_conj_lanes(fp82 *r, const fp82 *a) {
    r->c0 = a->c0;
    for (int i = 0; i < 5; i++) r->c1.v[i] = lanes_sub(fp8_limb(FP8_4P, i), a->c1.v[i]);
    fp8_carry(&r->c1);
}

static void g2_lanes_psi(g2_lanes *p) {
    fp82 factor, t;
    fp82_conj_lanes(&t, &p->x); /* < 4p */
    fp8_broadcast(&factor.c0, &G2_PSI_X.c0);
    fp8_broadcast(&factor.c1, &G2_PSI_X.c1);
    fp82_mul_tight(&p->x, &factor, &t);
    fp82_conj_lanes(&t, &p->y);
    fp8_broadcast(&factor.c0, &G2_PSI_Y.c0);
    fp8_broadcast(&factor.c1, &G2_PSI_Y.c1);
    fp82_mul_tight(&p->y, &factor, &t);
    fp82_conj_lanes(&t, &p->z);
    fp82_reduce_raw(&t);
    p->z = t;
}

/* Returns the mask of lanes where p and q are the same point other than infinity. */
static uint8_t g2_lanes_equal(const g2_lanes *p, const g2_lanes *q) {
    fp82 zz, qq, a, b, zero;
    fp82_sqr_tight(&zz, &p->z);
    fp82_sqr_tight(&qq, &q->z);
    fp82_mul_tight(&a, &p->x, &qq);
    fp82_mul_tight(&b, &q->x, &zz);
    uint8_t equal = fp82_equal_lanes(&a, &b);
    fp82_mul_tight(&a, &p->y, &qq);
    fp82_mul_tight(&a, &a, &q->z);
    fp82_mul_tight(&b, &q->y, &zz);
    fp82_mul_tight(&b, &b, &p->z);
    equal &= fp82_equal_lanes(&a, &b);
    memset(&zero, 0, sizeof zero);
    fp82_mul_tight(&a, &p->z, &q->z);
    return equal & (uint8_t)~fp82_equal_lanes(&a, &zero);
}

static void g2_lanes_load_scalars(fp82 *x, fp82 *y, const g2_affine *const points[8]) {
    fp8 factor;
    const void *at_x[8], *at_y[8];
    for (int i = 0; i < 8; i++) {
        at_x[i] = &points[i]->x;
        at_y[i] = &points[i]->y;
    }
    fp8_load2(&x->c0, &x->c1, at_x);
    fp8_load2(&y->c0, &y->c1, at_y);
    fp8_set(&factor, FP8_TO_R260);
    fp8_mul(&x->c0, &x->c0, &factor);
    fp8_mul(&x->c1, &x->c1, &factor);
    fp8_mul(&y->c0, &y->c0, &factor);
    fp8_mul(&y->c1, &y->c1, &factor);
}

static uint8_t g2_lanes_in_subgroup(const g2_affine *const points[8]) {
    fp82 x, y, negative;
    g2_lanes q, left;
    g2_lanes_load_scalars(&x, &y, points);
    memset(&negative, 0, sizeof negative);
    fp82_combine(&negative, &negative, 0, &y, 0, 1);
    fp82_reduce_raw(&negative);
    q.x = x;
    q.y = y;
    fp82_set_one(&q.z);
    for (int i = 61; i >= 0; i--) {
        g2_lanes_double(&q);
        if ((G2_X_PLUS >> i) & 1) g2_lanes_add_affine(&q, &x, &y);
        if ((G2_X_MINUS >> i) & 1) g2_lanes_add_affine(&q, &x, &negative);
    }
    left = q;
    g2_lanes_add_affine(&left, &x, &y);
    g2_lanes_psi(&q);
    g2_lanes_add(&left, &q);
    g2_lanes_psi(&q);
    g2_lanes_add(&left, &q);
    g2_lanes_psi(&q);
    g2_lanes_double(&q);
    return g2_lanes_equal(&left, &q);
}

/* Sets inside[i] to 1 when *points[i] has order r, else to 0, for i < count. */
static void g2_in_subgroup_many(uint8_t *inside, const g2_affine *const *points, uint32_t count) {
    LANES_REGION;
    for (uint32_t first = 0; first < count; first += FP8_LANES) {
        const g2_affine *at[FP8_LANES];
        /* Unused lanes repeat the first point. */
        for (uint32_t i = 0; i < FP8_LANES; i++) at[i] = points[first + i < count ? first + i : first];
        unsigned answer = g2_lanes_in_subgroup(at);
        for (uint32_t i = 0; i < FP8_LANES && first + i < count; i++) inside[first + i] = answer >> i & 1;
    }
}

#endif
