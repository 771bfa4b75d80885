/* fold/scale_impl.h - multiplies each point of a list in G1 by its own scalar; included by fold/bases_impl.h.
 *
 * Scalars are split by the endomorphism (msm/glv_impl.h). Points are affine with R = 2^256; infinity is (0, 0). Time depends on
 * the values, which are public.
 */
#ifndef G16_FOLD_SCALE_IMPL_H
#define G16_FOLD_SCALE_IMPL_H

#include "msm/sums_impl.h"

#define FOLD_HALF_BITS 127

static void fold_scale_one(g1_affine *point, const fr *scalar) {
    uint64_t limbs[4];
    glv_half halves[2];
    g1_affine lines[4];
    g1_xyzz sum;
    fr_to_limbs(limbs, scalar);
    glv_split(halves, limbs);
    lines[1] = lines[2] = *point;
    fp_mul(&lines[2].x, &lines[2].x, &GLV_BETA_G1);
    for (int i = 0; i < 2; i++) {
        if (halves[i].negative) fp_neg(&lines[1 + i].y, &lines[1 + i].y);
    }
    g1_xyzz_from_affine(&sum, &lines[1]);
    g1_xyzz_add_affine(&sum, &sum, &lines[2]);
    g1_xyzz_to_affine(&lines[3], &sum);
    g1_xyzz_set_infinity(&sum);
    for (int bit = FOLD_HALF_BITS - 1; bit >= 0; bit--) {
        const unsigned line = (unsigned)(halves[0].magnitude[bit / 64] >> (bit % 64) & 1) |
                              (unsigned)(halves[1].magnitude[bit / 64] >> (bit % 64) & 1) << 1;
        if (!g1_xyzz_is_infinity(&sum)) g1_xyzz_double(&sum, &sum);
        if (line) g1_xyzz_add_affine(&sum, &sum, &lines[line]);
    }
    g1_xyzz_to_affine(point, &sum);
}

#if defined(G16_LANES)

/* Eight points in Jacobian coordinates: x / z^2, y / z^3. Bounds in multiples of p: x, y < 8.1, z < 2.5. */
typedef struct fold_jacobian {
    fp8 x, y, z;
} fold_jacobian;

#define FOLD_WINDOW 4
#define FOLD_MULTIPLES 8

/* Reduces a raw value below 16p to one below 8p + 2^213. */
static inline void fold_reduce_raw(fp8 *r) {
    const lanes_choice above = lanes_above(r->v[4], lanes_set(2 * FP8_4P[4] + 16));
    for (int i = 0; i < 5; i++) r->v[i] = lanes_sub_where(above, r->v[i], lanes_set(2 * FP8_4P[i]));
    fp8_carry(r);
}

/* Raw r = 2^shift * a - 2^back * b + multiple * 2p. */
static inline __attribute__((always_inline)) void fold_combine(fp8 *r, const fp8 *a, int shift, const fp8 *b, int back,
                                                               int multiple) {
    for (int i = 0; i < 5; i++) {
        const lanes_u64 offset = lanes_set(FP8_2P[i] * (uint64_t)multiple);
        r->v[i] = lanes_sub(lanes_add(lanes_left(a->v[i], (unsigned)shift), offset),
                                   lanes_left(b->v[i], (unsigned)back));
    }
}

static void fold_double(fold_jacobian *p) {
    fp8 a, b, c, e, s, t, yz;
    fp8_sqr_two(&a, &p->x, &b, &p->y);                       /* < 1.8 */
    fp8_mul_two(&s, &p->x, &b, &yz, &p->y, &p->z);           /* < 1.2, < 1.25 */
    fp8_add(&e, &a, &a);
    fp8_add(&e, &e, &a);                                     /* < 5.4 */
    fp8_sqr_two(&c, &b, &t, &e);                             /* < 1.1, < 1.4 */
    fp8_add(&p->z, &yz, &yz);
    fold_combine(&p->x, &t, 0, &s, 3, 5);                    /* < 11.4 */
    fold_reduce_raw(&p->x);
    fold_combine(&t, &s, 2, &p->x, 0, 5);                    /* < 14.8 */
    fp8_carry(&t);
    fp8_mul(&t, &e, &t);                                     /* < 2 */
    fold_combine(&p->y, &t, 0, &c, 3, 5);                    /* < 12 */
    fold_reduce_raw(&p->y);
}

/* sum = p + (x, y) for points with different x; x, y < 2.1. sum must not be p. */
static void fold_add(fold_jacobian *sum, const fold_jacobian *p, const fp8 *x, const fp8 *y) {
    fp8 h, hh, hhh, r, t, v;
    fp8_sqr(&t, &p->z);                                      /* < 1.1 */
    fp8_mul_two(&h, x, &t, &v, &p->z, &t);                   /* < 1.1 */
    fold_combine(&h, &h, 0, &p->x, 0, 5);                    /* < 11.1 */
    fp8_carry(&h);
    fp8_mul_two(&r, y, &v, &hh, &h, &h);                     /* < 1.1, < 2.5 */
    fold_combine(&r, &r, 0, &p->y, 0, 5);                    /* < 11.1 */
    fp8_carry(&r);
    fp8_mul_two(&hhh, &h, &hh, &v, &p->x, &hh);              /* < 1.33, < 1.24 */
    fp8_mul_two(&t, &r, &r, &sum->z, &p->z, &h);             /* < 2.5, < 1.4 */
    fold_combine(&t, &t, 0, &v, 1, 2);
    for (int i = 0; i < 5; i++) sum->x.v[i] = lanes_sub(t.v[i], hhh.v[i]); /* < 6.5 */
    fp8_carry(&sum->x);
    fold_combine(&t, &v, 0, &sum->x, 0, 4);                  /* < 9.3 */
    fp8_carry(&t);
    fp8_mul_two(&v, &r, &t, &hh, &p->y, &hhh);               /* < 2.3, < 1.2 */
    fold_combine(&sum->y, &v, 0, &hh, 0, 1);                 /* < 4.3 */
    fp8_carry(&sum->y);
}

static inline void fold_select(fp8 *r, uint8_t lanes, const fp8 *other) {
    const lanes_choice chosen = lanes_choice_of(lanes);
    for (int i = 0; i < 5; i++) r->v[i] = lanes_choose(chosen, other->v[i], r->v[i]);
}

/* Multiplies by 1/z^2 and 1/z^3. */
static inline void fold_to_affine(fp8 *x, fp8 *y, const fold_jacobian *p, const fp8 *inverse) {
    fp8 square;
    fp8_mul(&square, inverse, inverse);
    fp8_mul(x, &p->x, &square);
    fp8_mul(&square, &square, inverse);
    fp8_mul(y, &p->y, &square);
}

/* Computes affine multiples 1 to 8. Returns 0 when one of them does not exist in some lane. */
static int fold_multiples(fp8 x[FOLD_MULTIPLES], fp8 y[FOLD_MULTIPLES]) {
    fold_jacobian multiples[FOLD_MULTIPLES];
    fp8 prefix[FOLD_MULTIPLES], inverse, one;
    multiples[1].x = x[0];
    multiples[1].y = y[0];
    fp8_set(&multiples[1].z, FP8_ONE);
    fold_double(&multiples[1]);
    prefix[1] = multiples[1].z;
    for (int i = 2; i < FOLD_MULTIPLES; i++) {
        fold_add(&multiples[i], &multiples[i - 1], &x[0], &y[0]);
        fp8_mul(&prefix[i], &prefix[i - 1], &multiples[i].z);
    }
    if (!fp8_inv(&inverse, &prefix[FOLD_MULTIPLES - 1])) return 0;
    for (int i = FOLD_MULTIPLES - 1; i > 0; i--) {
        one = inverse;
        if (i > 1) fp8_mul(&one, &inverse, &prefix[i - 1]);
        fp8_mul(&inverse, &inverse, &multiples[i].z);
        fold_to_affine(&x[i], &y[i], &multiples[i], &one);
    }
    return 1;
}

/* Takes multiple number `digit` in each lane, the first where the digit is zero. Gathering the words takes longer. */
static inline void fold_choose(fp8 *px, fp8 *py, const fp8 x[FOLD_MULTIPLES], const fp8 y[FOLD_MULTIPLES], lanes_u64 digit) {
    *px = x[0];
    *py = y[0];
    for (uint64_t k = 1; k < FOLD_MULTIPLES; k++) {
        const lanes_choice chosen = lanes_equal(digit, lanes_set(k + 1));
        for (int i = 0; i < 5; i++) {
            px->v[i] = lanes_choose(chosen, x[k].v[i], px->v[i]);
            py->v[i] = lanes_choose(chosen, y[k].v[i], py->v[i]);
        }
    }
}

/* Multiplies eight points. */
static void fold_scale_lanes(g1_affine points[FP8_LANES], const fr scalars[FP8_LANES]) {
    const uint64_t unit[4] = {1, 0, 0, 0};
    const msm_plan plan = msm_plan_of_window(FOLD_WINDOW);
    int16_t digits[MSM_MAX_WINDOWS * 2 * FP8_LANES];
    g1_affine stored[FP8_LANES];
    const g1_affine *at[FP8_LANES];
    fp8 x[2][FOLD_MULTIPLES], y[FOLD_MULTIPLES], beta, inverse;
    uint8_t started = 0, infinite = 0;
    fold_jacobian sum, next;
    msm_recode(digits, &plan, scalars, unit, FP8_LANES, 0, FP8_LANES);
    for (int i = 0; i < FP8_LANES; i++) {
        stored[i] = points[i];
        if (g1_affine_is_infinity(&points[i])) { /* the generator replaces infinity */
            infinite |= (uint8_t)(1u << i);
            stored[i].x = FP_ONE;
            fp_double(&stored[i].y, &FP_ONE);
        }
        at[i] = &stored[i];
    }
    g1_msm_to_stored(stored, FP8_LANES);
    fp8_load2(&x[0][0], &y[0], (const void *const *)at);
    int whole = fold_multiples(x[0], y);
    fp8_broadcast(&beta, &GLV_BETA_G1);
    for (int i = 0; i < FOLD_MULTIPLES; i++) fp8_mul(&x[1][i], &x[0][i], &beta);
    fp8_set(&sum.x, FP8_ONE);
    fp8_set(&sum.y, FP8_ONE);
    fp8_set(&sum.z, FP8_ONE);
    for (uint32_t w = plan.windows; whole && w-- > 0;) {
        for (uint32_t i = 0; started && i < msm_window_bits(&plan, w); i++) fold_double(&sum);
        for (int half = 0; half < 2; half++) {
            const int16_t *own = digits + ((size_t)w * 2 + (size_t)half) * FP8_LANES;
            const lanes_u64 digit = lanes_from_i16(own);
            const uint8_t used = (uint8_t)~lanes_bits(lanes_equal(digit, lanes_zero()));
            const uint8_t negative = lanes_bits(lanes_negative(digit));
            fp8 px, py, one;
            if (!used) continue;
            fold_choose(&px, &py, x[half], y, lanes_abs(digit));
            fp8_negate_lanes(&py, negative);
            fold_add(&next, &sum, &px, &py);
            fold_select(&sum.x, used & started, &next.x);
            fold_select(&sum.y, used & started, &next.y);
            fold_select(&sum.z, used & started, &next.z);
            fp8_set(&one, FP8_ONE);
            const uint8_t first = used & (uint8_t)~started;
            fold_select(&sum.x, first, &px);
            fold_select(&sum.y, first, &py);
            fold_select(&sum.z, first, &one);
            started |= used;
        }
    }
    fp8 one;
    fp8_set(&one, FP8_ONE);
    fold_select(&sum.z, (uint8_t)~started, &one); /* lanes whose scalar is zero hold a value that is not used */
    infinite |= (uint8_t)~started;
    if (!whole || !fp8_inv(&inverse, &sum.z)) { /* equal or opposite points were added */
        for (int i = 0; i < FP8_LANES; i++) fold_scale_one(&points[i], &scalars[i]);
        return;
    }
    g1_affine *out[FP8_LANES];
    for (int i = 0; i < FP8_LANES; i++) out[i] = &stored[i];
    fold_to_affine(&x[0][0], &y[0], &sum, &inverse);
    fp8_store2((void *const *)out, &x[0][0], &y[0]);
    for (int i = 0; i < FP8_LANES; i++) {
        g1_msm_from_stored(&points[i], &stored[i]);
        if (infinite >> i & 1) memset(&points[i], 0, sizeof points[i]);
    }
}

static void fold_scale(g1_affine *points, const fr *scalars, uint32_t count) {
    LANES_REGION;
    uint32_t i = 0;
    for (; i + FP8_LANES <= count; i += FP8_LANES) fold_scale_lanes(points + i, scalars + i);
    for (; i < count; i++) fold_scale_one(&points[i], &scalars[i]);
}

#else

/* points[i] *= scalars[i] */
static void fold_scale(g1_affine *points, const fr *scalars, uint32_t count) {
    for (uint32_t i = 0; i < count; i++) fold_scale_one(&points[i], &scalars[i]);
}

#endif

#endif
