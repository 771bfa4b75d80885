/* cuda/curve/halves.h - points of G2 by two adjacent threads (cuda/field/halves.h): each has one coefficient of every coordinate. */
#ifndef CUDA_CURVE_HALVES_H
#define CUDA_CURVE_HALVES_H

#include "cuda/curve/groups.h"
#include "cuda/field/halves.h"

typedef struct g2_half_affine {
    fp2_half x, y;
} g2_half_affine;

typedef struct g2_half_xyzz {
    fp2_half x, y, zz, zzz;
} g2_half_xyzz;

#define HOT DEVICE
#define FE fp2_half
#define F(operation) fp2_half_##operation
#define XYZZ g2_half_xyzz
#define C(name) g2_half_##name
#include "curve/group_add_shared.h"
#undef HOT
#undef FE
#undef F
#undef XYZZ
#undef C

/* A coordinate in memory has its coefficients one after the other. */
DEVICE void fp2_half_load(fp2_half *r, const fp2 *from) {
    for (uint32_t i = 0; i < HALVES; i++) r->c[i] = ((const fp *)from)[half_number(i)];
}

DEVICE void fp2_half_store(fp2 *to, const fp2_half *a) {
    for (uint32_t i = 0; i < HALVES; i++) ((fp *)to)[half_number(i)] = a->c[i];
}

DEVICE void g2_half_store(g2_xyzz *to, const g2_half_xyzz *p) {
    fp2_half_store(&to->x, &p->x);
    fp2_half_store(&to->y, &p->y);
    fp2_half_store(&to->zz, &p->zz);
    fp2_half_store(&to->zzz, &p->zzz);
}

/* The base, or its opposite. */
DEVICE void g2_half_load(g2_half_affine *r, const g2_affine *from, int opposite) {
    fp2_half_load(&r->x, &from->x);
    fp2_half_load(&r->y, &from->y);
    if (!opposite) return;
    for (uint32_t i = 0; i < HALVES; i++) fp_neg(&r->y.c[i], &r->y.c[i]);
}

DEVICE void g2_half_from_affine(g2_half_xyzz *r, const g2_half_affine *p) {
    uint32_t zero[HALVES];
    for (uint32_t i = 0; i < HALVES; i++) zero[i] = (uint32_t)(fp_is_zero(&p->x.c[i]) & fp_is_zero(&p->y.c[i]));
    const uint32_t infinity = halves_both(zero);
    r->x = p->x;
    r->y = p->y;
    for (uint32_t i = 0; i < HALVES; i++) {
        fp_set_zero(&r->zz.c[i]);
        if (half_number(i) == 0 && !infinity) fp_set_one(&r->zz.c[i]);
    }
    r->zzz = r->zz;
}

/* The whole coordinate, in both threads. */
DEVICE void fp2_half_join(fp2 *r, const fp2_half *a) {
    fp2_half other;
    fp2_half_exchange(&other, a);
    const uint32_t odd = half_number(0);
    r->c0 = odd ? other.c[0] : a->c[0];
    r->c1 = odd ? a->c[0] : other.c[0];
}

/* p + q for all points, also equal and opposite ones and infinity: both threads of a pair compute it. */
DEVICE_COLD g2_half_xyzz g2_half_add_any(g2_half_xyzz p, g2_half_affine q) {
    g2_xyzz sum;
    g2_affine base;
    fp2_half_join(&sum.x, &p.x);
    fp2_half_join(&sum.y, &p.y);
    fp2_half_join(&sum.zz, &p.zz);
    fp2_half_join(&sum.zzz, &p.zzz);
    fp2_half_join(&base.x, &q.x);
    fp2_half_join(&base.y, &q.y);
    g2_small_xyzz_add_affine(&sum, &sum, &base);
    fp2_half_load(&p.x, &sum.x);
    fp2_half_load(&p.y, &sum.y);
    fp2_half_load(&p.zz, &sum.zz);
    fp2_half_load(&p.zzz, &sum.zzz);
    return p;
}

/* p += q where `active`, which is the same in both threads of a pair. A case of g2_half_add_any() in one pair is rare enough that
 * the whole warp goes that way. */
DEVICE void g2_half_add_affine(g2_half_xyzz *p, const g2_half_affine *q, int active) {
    g2_half_xyzz sum;
    fp2_half u, s;
    uint32_t zero[HALVES];
    fp2_half_mul(&u, &q->x, &p->zz);
    fp2_half_mul(&s, &q->y, &p->zzz);
    fp2_half_sub(&u, &u, &p->x);
    fp2_half_sub(&s, &s, &p->y);
    for (uint32_t i = 0; i < HALVES; i++) {
        const uint32_t infinity = (uint32_t)(fp_is_zero(&q->x.c[i]) & fp_is_zero(&q->y.c[i]));
        zero[i] = active ? infinity | (uint32_t)fp_is_zero(&p->zz.c[i]) << 1 | (uint32_t)fp_is_zero(&u.c[i]) << 2 : 0;
    }
    if (halves_any(zero)) {
        sum = g2_half_add_any(*p, *q);
    } else {
        const fp2_half x1 = p->x, y1 = p->y;
        g2_half_xyzz_finish_add(&sum, &x1, &y1, &u, &s, &p->zz, &p->zzz);
    }
    if (active) *p = sum;
}

#endif
