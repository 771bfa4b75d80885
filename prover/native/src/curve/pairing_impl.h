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

/* Digit i <= 64 of 6x + 2 = 29793968203157093288 in non-adjacent form, below its leading 2^65. */
static inline int pairing_digit(int i) {
    static const uint64_t plus = 0x2002004200804028, minus = 0x82889008420a0480;
    return i == 64 ? 0 : (int)(plus >> i & 1) - (int)(minus >> i & 1);
}

/* The points that the Miller loop adds to multiples of q: q, -q, psi(q) and -psi^2(q). */
typedef struct pairing_addends {
    g2_affine plus, minus, first, second;
} pairing_addends;

static void pairing_addends_of(pairing_addends *r, const g2_affine *q) {
    r->plus = *q;
    g2_affine_neg(&r->minus, q);
    g2_psi(&r->first, q);
    g2_psi(&r->second, &r->first);
    g2_affine_neg(&r->second, &r->second);
}

/* Lines of a point of order r; of infinity, whose pairings are 1, the constant 1. */
static void pairing_lines_of(pairing_lines *lines, const g2_affine *q) {
    pairing_line line[PAIRING_LINES];
    fp2 products[PAIRING_LINES], inverse;
    g2_homogeneous t = {q->x, q->y, FP2_ONE};
    pairing_addends addends;
    uint32_t n = 0;
    memset(lines, 0, sizeof *lines);
    if (g2_affine_is_infinity(q)) return;
    pairing_addends_of(&addends, q);
    for (int i = 64; i >= 0; i--) {
        const int digit = pairing_digit(i);
        pairing_double(&t, &line[n++]);
        if (digit) pairing_add(&t, &line[n++], digit > 0 ? &addends.plus : &addends.minus);
    }
    pairing_add(&t, &line[n++], &addends.first);
    pairing_add(&t, &line[n++], &addends.second);
    products[0] = line[0].a0; /* one inversion for all a0 */
    for (uint32_t i = 1; i < PAIRING_LINES; i++) fp2_mul(&products[i], &products[i - 1], &line[i].a0);
    fp2_inv(&inverse, &products[PAIRING_LINES - 1]);
    for (uint32_t i = PAIRING_LINES; i-- > 0;) {
        fp2 own = inverse;
        if (i) fp2_mul(&own, &inverse, &products[i - 1]);
        fp2_mul(&inverse, &inverse, &line[i].a0);
        fp2_mul(&lines->a1[i], &line[i].a1, &own);
        fp2_mul(&lines->a3[i], &line[i].a3, &own);
    }
}

/* A pair of a point of G1 and a point of G2 whose lines are known. */
typedef struct pairing_fixed {
    const pairing_lines *lines;
    fp a1_factor, a3_factor; /* x_P / y_P and 1 / y_P: lines are divided by y_P, too */
} pairing_fixed;

/* Returns 0 for infinity, whose pairing is 1. */
static int pairing_fixed_of(pairing_fixed *r, const pairing_lines *lines, const g1_affine *p) {
    if (g1_affine_is_infinity(p)) return 0;
    r->lines = lines;
    fp_inv(&r->a3_factor, &p->y);
    fp_mul(&r->a1_factor, &p->x, &r->a3_factor);
    return 1;
}

static void pairing_absorb_fixed(fp12 *f, const pairing_fixed *fixed, uint32_t count, uint32_t line) {
    for (uint32_t j = 0; j < count; j++) {
        fp2 a1, a3;
        fp2_mul_fp(&a1, &fixed[j].lines->a1[line], &fixed[j].a1_factor);
        fp2_mul_fp(&a3, &fixed[j].lines->a3[line], &fixed[j].a3_factor);
        fp12_mul_unit_line(f, &a1, &a3);
    }
}

/* f = product of the Miller functions of count <= PAIRING_MAX pairs and of fixed pairs, up to a factor that the final
 * exponentiation maps to 1. A pair with infinity contributes 1. The points q have order r; of others the value means nothing. */
static void pairing_miller_loop(fp12 *f, const g1_affine *p, const g2_affine *q, uint32_t count, const pairing_fixed *fixed,
                                uint32_t fixed_count) {
    g2_homogeneous t[PAIRING_MAX];
    pairing_addends addends[PAIRING_MAX];
    g1_affine point[PAIRING_MAX];
    pairing_line line;
    uint32_t pairs = 0, fixed_line = 0;
    for (uint32_t j = 0; j < count; j++) {
        if (g1_affine_is_infinity(&p[j]) || g2_affine_is_infinity(&q[j])) continue;
        point[pairs] = p[j];
        t[pairs] = (g2_homogeneous){q[j].x, q[j].y, FP2_ONE};
        pairing_addends_of(&addends[pairs++], &q[j]);
    }
    *f = FP12_ONE;
    for (int i = 64; i >= 0; i--) {
        const int digit = pairing_digit(i);
        if (i != 64) fp12_sqr(f, f);
        for (uint32_t j = 0; j < pairs; j++) {
            pairing_double(&t[j], &line);
            pairing_absorb_line(f, &line, &point[j]);
            if (digit) {
                pairing_add(&t[j], &line, digit > 0 ? &addends[j].plus : &addends[j].minus);
                pairing_absorb_line(f, &line, &point[j]);
            }
        }
        pairing_absorb_fixed(f, fixed, fixed_count, fixed_line++);
        if (digit) pairing_absorb_fixed(f, fixed, fixed_count, fixed_line++);
    }
    for (uint32_t j = 0; j < pairs; j++) {
        pairing_add(&t[j], &line, &addends[j].first);
        pairing_absorb_line(f, &line, &point[j]);
        pairing_add(&t[j], &line, &addends[j].second);
        pairing_absorb_line(f, &line, &point[j]);
    }
    pairing_absorb_fixed(f, fixed, fixed_count, fixed_line++);
    pairing_absorb_fixed(f, fixed, fixed_count, fixed_line++);
}

/* r = a^x for a in the cyclotomic subgroup. */
static void fp12_pow_x(fp12 *r, const fp12 *a) {
    /* x = 4965661367192848881 in digits 0, +-1, +-3, +-5, +-7 (width-4 non-adjacent form), lowest first. */
    static const int8_t digits[64] = {
        1, 0, 0, 0, -1, 0, 0, 0, 0, 5, 0, 0, 0, 0, 0, 0,
        -7, 0, 0, 0, 7, 0, 0, 0, 0, 5, 0, 0, 0, 0, 1, 0,
        0, 0, -3, 0, 0, 0, -5, 0, 0, 0, 5, 0, 0, 0, 0, 3,
        0, 0, 0, -3, 0, 0, 0, 0, 5, 0, 0, 0, 0, 0, 1, 0};
    fp12 odd[4], square, inverse;
    odd[0] = *a; /* odd[i] = a^(2i + 1) */
    fp12_sqr_cyclotomic(&square, a);
    for (int i = 1; i < 4; i++) fp12_mul(&odd[i], &odd[i - 1], &square);
    int top = 63;
    while (digits[top] == 0) top--;
    fp12 result = odd[digits[top] / 2];
    for (int i = top - 1; i >= 0; i--) {
        fp12_sqr_cyclotomic(&result, &result);
        if (digits[i] > 0) fp12_mul(&result, &result, &odd[digits[i] / 2]);
        if (digits[i] < 0) {
            fp12_conj(&inverse, &odd[-digits[i] / 2]);
            fp12_mul(&result, &result, &inverse);
        }
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
    pairing_miller_loop(&f, p, q, count, NULL, 0);
    pairing_final_exponentiation(r, &f);
}

#endif
