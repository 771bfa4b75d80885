/* curve/pairing_impl.h - products of optimal ate pairings on BN254.
 *
 * Sources: Vercauteren: Optimal pairings, 2010 (loop 6x+2 and two Frobenius steps); Costello, Lange, Naehrig:
 * Faster pairing computations on curves with high-degree twists, 2010 (homogeneous doubling
 * with the line); Scott et al.: On the final exponentiation for calculating pairings on ordinary elliptic
 * curves, 2009 (hard part, exponent exactly (p^4 - p^2 + 1)/r).
 */
#ifndef G16_CURVE_PAIRING_IMPL_H
#define G16_CURVE_PAIRING_IMPL_H

#include "field/fp12_impl.h"
#include "curve/encoding_impl.h"

#define PAIRING_MAX 4

static const g1_affine G1_GENERATOR = {
    {{0xd35d438dc58f0d9d, 0x0a78eb28f5c70b3d, 0x666ea36f7879462c, 0x0e0a77c19a07df2f}},
    {{0xa6ba871b8b1e1b3a, 0x14f1d651eb8e167b, 0xccdd46def0f28c58, 0x1c14ef83340fbe5e}}};

static const g2_affine G2_GENERATOR = {
    {{{0x8e83b5d102bc2026, 0xdceb1935497b0172, 0xfbb8264797811adf, 0x19573841af96503b}},
     {{0xafb4737da84c6140, 0x6043dd5a5802d8c4, 0x09e950fc52a02f86, 0x14fef0833aea7b6b}}},
    {{{0x619dfa9d886be9f6, 0xfe7fd297f59e9b78, 0xff9e1a62231b7dfe, 0x28fd7eebae9e4206}},
     {{0x64095b56c71856ee, 0xdc57f922327d3cbb, 0x55f935be33351076, 0x0da4a0e693fd6482}}}};

/* Homogeneous coordinates: (x/z, y/z). */
typedef struct g2_homogeneous {
    fp2 x, y, z;
} g2_homogeneous;

/* The line a0*y_P + a1*x_P*w + a3*w^3, up to a factor in Fp2, which the final exponentiation maps to 1. */
typedef struct pairing_line {
    fp2 a0, a1, a3;
} pairing_line;

static void pairing_absorb_line(fp12 *f, const pairing_line *line, const g1_affine *p) {
    fp2 a0, a1;
    fp2_mul_fp(&a0, &line->a0, &p->y);
    fp2_mul_fp(&a1, &line->a1, &p->x);
    fp12_mul_line(f, &a0, &a1, &line->a3);
}

/* Sets t to 2t, and line to the tangent there: 2YZ*y_P - 3X^2*x_P*w + (Y^2 - 3b'Z^2)*w^3. */
static void pairing_double(g2_homogeneous *t, pairing_line *line) {
    fp2 xy, yy, zz, e, f, g, h, xx;
    fp2_mul(&xy, &t->x, &t->y);
    fp2_halve(&xy, &xy);
    fp2_sqr(&yy, &t->y);
    fp2_sqr(&zz, &t->z);
    fp2_double(&e, &zz);
    fp2_add(&e, &e, &zz);
    fp2_mul(&e, &e, &G2_B); /* 3b'Z^2 */
    fp2_double(&f, &e);
    fp2_add(&f, &f, &e);
    fp2_add(&g, &yy, &f);
    fp2_halve(&g, &g);
    fp2_add(&h, &t->y, &t->z);
    fp2_sqr(&h, &h);
    fp2_sub(&h, &h, &yy);
    fp2_sub(&h, &h, &zz); /* 2YZ */
    fp2_sqr(&xx, &t->x);
    line->a0 = h;
    fp2_double(&line->a1, &xx);
    fp2_add(&line->a1, &line->a1, &xx);
    fp2_neg(&line->a1, &line->a1);
    fp2_sub(&line->a3, &yy, &e);
    fp2_sub(&f, &yy, &f);
    fp2_mul(&t->x, &xy, &f);
    fp2_sqr(&g, &g);
    fp2_sqr(&e, &e);
    fp2_sub(&g, &g, &e);
    fp2_sub(&g, &g, &e);
    fp2_sub(&t->y, &g, &e);
    fp2_mul(&t->z, &yy, &h);
}

/* Sets t to t + q, for t other than q and -q, and line to the chord: lambda*y_P - theta*x_P*w + (theta*x_q - lambda*y_q)*w^3. */
static void pairing_add(g2_homogeneous *t, pairing_line *line, const g2_affine *q) {
    fp2 theta, lambda, c, d, e, f, g, h;
    fp2_mul(&theta, &q->y, &t->z);
    fp2_sub(&theta, &t->y, &theta);
    fp2_mul(&lambda, &q->x, &t->z);
    fp2_sub(&lambda, &t->x, &lambda);
    line->a0 = lambda;
    fp2_neg(&line->a1, &theta);
    fp2_mul(&line->a3, &theta, &q->x);
    fp2_mul(&c, &lambda, &q->y);
    fp2_sub(&line->a3, &line->a3, &c);
    fp2_sqr(&c, &theta);
    fp2_sqr(&d, &lambda);
    fp2_mul(&e, &lambda, &d);
    fp2_mul(&f, &t->z, &c);
    fp2_mul(&g, &t->x, &d);
    fp2_add(&h, &e, &f);
    fp2_sub(&h, &h, &g);
    fp2_sub(&h, &h, &g);
    fp2_mul(&t->x, &lambda, &h);
    fp2_sub(&g, &g, &h);
    fp2_mul(&g, &theta, &g);
    fp2_mul(&f, &e, &t->y);
    fp2_sub(&t->y, &g, &f);
    fp2_mul(&t->z, &t->z, &e);
}

static void g2_psi(g2_affine *r, const g2_affine *p) {
    fp2_conj(&r->x, &p->x);
    fp2_mul(&r->x, &r->x, &G2_PSI_X);
    fp2_conj(&r->y, &p->y);
    fp2_mul(&r->y, &r->y, &G2_PSI_Y);
}

/* f = product of the Miller functions of count <= PAIRING_MAX pairs; a pair with infinity contributes 1. The points q have order
 * r. */
static void pairing_miller_loop(fp12 *f, const g1_affine *p, const g2_affine *q, uint32_t count) {
    /* 6x + 2 = 29793968203157093288 in non-adjacent form, below its leading 2^65; digit 64 is zero. */
    static const uint64_t plus = 0x2002004200804028, minus = 0x82889008420a0480;
    g2_homogeneous t[PAIRING_MAX];
    g2_affine base[PAIRING_MAX], negative[PAIRING_MAX];
    g1_affine point[PAIRING_MAX];
    pairing_line line;
    uint32_t pairs = 0;
    for (uint32_t j = 0; j < count; j++) {
        if (g1_affine_is_infinity(&p[j]) || g2_affine_is_infinity(&q[j])) continue;
        point[pairs] = p[j];
        base[pairs] = q[j];
        g2_affine_neg(&negative[pairs], &q[j]);
        t[pairs].x = q[j].x;
        t[pairs].y = q[j].y;
        t[pairs].z = FP2_ONE;
        pairs++;
    }
    *f = FP12_ONE;
    for (int i = 64; i >= 0; i--) {
        if (i != 64) fp12_sqr(f, f);
        const g2_affine *addend = NULL;
        if (i < 64 && (plus >> i) & 1) addend = base;
        if (i < 64 && (minus >> i) & 1) addend = negative;
        for (uint32_t j = 0; j < pairs; j++) {
            pairing_double(&t[j], &line);
            pairing_absorb_line(f, &line, &point[j]);
            if (addend) {
                pairing_add(&t[j], &line, &addend[j]);
                pairing_absorb_line(f, &line, &point[j]);
            }
        }
    }
    for (uint32_t j = 0; j < pairs; j++) {
        g2_affine step;
        g2_psi(&step, &base[j]);
        pairing_add(&t[j], &line, &step);
        pairing_absorb_line(f, &line, &point[j]);
        g2_psi(&step, &step);
        g2_affine_neg(&step, &step);
        pairing_add(&t[j], &line, &step);
        pairing_absorb_line(f, &line, &point[j]);
    }
}

/* r = a^x for a in the cyclotomic subgroup. */
static void fp12_pow_x(fp12 *r, const fp12 *a) {
    fp12 inverse, result = *a;
    fp12_conj(&inverse, a);
    for (int i = 61; i >= 0; i--) {
        fp12_sqr_cyclotomic(&result, &result);
        if ((G2_X_PLUS >> i) & 1) fp12_mul(&result, &result, a);
        if ((G2_X_MINUS >> i) & 1) fp12_mul(&result, &result, &inverse);
    }
    *r = result;
}

/* r = f^((p^12 - 1)/r). */
static void pairing_final_exponentiation(fp12 *r, const fp12 *f) {
    fp12 a, t, u;
    /* (p^6 - 1)(p^2 + 1) */
    fp12_inv(&t, f);
    fp12_conj(&a, f);
    fp12_mul(&a, &a, &t);
    fp12_frobenius(&t, &a);
    fp12_frobenius(&t, &t);
    fp12_mul(&a, &a, &t);

    /* (p^4 - p^2 + 1)/r: the product y0 * y1^2 * y2^6 * y3^12 * y4^18 * y5^30 * y6^36 of powers a^(x^i p^j), by the addition
     * chain of Scott et al. */
    fp12 ax, ax2, ax3, y0, y1, y2, y3, y4, y5, y6;
    fp12_pow_x(&ax, &a);
    fp12_pow_x(&ax2, &ax);
    fp12_pow_x(&ax3, &ax2);
    fp12_frobenius(&y0, &a); /* y0 = a^(p + p^2 + p^3) */
    fp12_frobenius(&t, &y0);
    fp12_mul(&y0, &y0, &t);
    fp12_frobenius(&t, &t);
    fp12_mul(&y0, &y0, &t);
    fp12_conj(&y1, &a);
    fp12_frobenius(&t, &ax2);
    fp12_frobenius(&y2, &t);
    fp12_mul(&y4, &ax, &t); /* y4 = a^-(x + x^2 p) */
    fp12_conj(&y4, &y4);
    fp12_frobenius(&y3, &ax);
    fp12_conj(&y3, &y3);
    fp12_conj(&y5, &ax2);
    fp12_frobenius(&y6, &ax3); /* y6 = a^-(x^3 + x^3 p) */
    fp12_mul(&y6, &y6, &ax3);
    fp12_conj(&y6, &y6);

    fp12_sqr_cyclotomic(&t, &y6);
    fp12_mul(&t, &t, &y4);
    fp12_mul(&t, &t, &y5);
    fp12_mul(&u, &y3, &y5);
    fp12_mul(&u, &u, &t);
    fp12_mul(&t, &t, &y2);
    fp12_sqr_cyclotomic(&u, &u);
    fp12_mul(&u, &u, &t);
    fp12_sqr_cyclotomic(&u, &u);
    fp12_mul(&t, &u, &y1);
    fp12_mul(&u, &u, &y0);
    fp12_sqr_cyclotomic(&t, &t);
    fp12_mul(r, &t, &u);
}

/* r = product of e(p[i], q[i]) for i < count <= PAIRING_MAX; q[i] in the group of order r. */
static void pairing_product(fp12 *r, const g1_affine *p, const g2_affine *q, uint32_t count) {
    fp12 f;
    pairing_miller_loop(&f, p, q, count);
    pairing_final_exponentiation(r, &f);
}

#endif
