/* cuda/curve/group_impl.h - points of a group on the device, in affine and XYZZ coordinates; included once per group.
 *
 * The including header defines FE, F(op), AFFINE, XYZZ and C(name), and undefines them afterwards. Formulas and
 * contract are those of the host's curve/group_impl.h: complete, infinity is (0, 0) or ZZ = 0. Cases that random
 * points do not meet are kept out of line and work on copies, so that a running sum stays in registers.
 */

typedef struct AFFINE {
    FE x, y;
} AFFINE;

typedef struct XYZZ {
    FE x, y, zz, zzz;
} XYZZ;

DEVICE int C(affine_is_infinity)(const AFFINE *p) { return F(is_zero)(&p->x) & F(is_zero)(&p->y); }

DEVICE int C(affine_equal)(const AFFINE *p, const AFFINE *q) {
    return F(equal)(&p->x, &q->x) & F(equal)(&p->y, &q->y);
}

DEVICE void C(affine_neg)(AFFINE *r, const AFFINE *p) {
    r->x = p->x;
    F(neg)(&r->y, &p->y);
}

DEVICE int C(xyzz_is_infinity)(const XYZZ *p) { return F(is_zero)(&p->zz); }

DEVICE void C(xyzz_set_infinity)(XYZZ *r) {
    F(set_zero)(&r->x);
    F(set_zero)(&r->y);
    F(set_zero)(&r->zz);
    F(set_zero)(&r->zzz);
}

DEVICE void C(xyzz_from_affine)(XYZZ *r, const AFFINE *p) {
    if (C(affine_is_infinity)(p)) {
        C(xyzz_set_infinity)(r);
        return;
    }
    r->x = p->x;
    r->y = p->y;
    F(set_one)(&r->zz);
    F(set_one)(&r->zzz);
}

DEVICE void C(xyzz_neg)(XYZZ *r, const XYZZ *p) {
    *r = *p;
    F(neg)(&r->y, &p->y);
}

/* r = 2p, also for infinity. A point of order two does not exist in either group. */
DEVICE void C(xyzz_double)(XYZZ *r, const XYZZ *p) {
    FE u, v, w, s, m, t;
    F(double)(&u, &p->y);
    F(sqr)(&v, &u);
    F(mul)(&w, &u, &v);
    F(mul)(&s, &p->x, &v);
    F(sqr)(&m, &p->x);
    F(double)(&t, &m);
    F(add)(&m, &m, &t);
    F(mul)(&t, &w, &p->y);
    F(mul)(&r->zz, &v, &p->zz);
    F(mul)(&r->zzz, &w, &p->zzz);
    F(sqr)(&r->x, &m);
    F(sub)(&r->x, &r->x, &s);
    F(sub)(&r->x, &r->x, &s);
    F(sub)(&s, &s, &r->x);
    F(mul)(&r->y, &m, &s);
    F(sub)(&r->y, &r->y, &t);
}

/* p + q for points with equal x: twice the point, or infinity. */
DEVICE_COLD XYZZ C(xyzz_add_equal_x)(XYZZ p, int opposite) {
    XYZZ r;
    if (opposite) {
        C(xyzz_set_infinity)(&r);
    } else {
        C(xyzz_double)(&r, &p);
    }
    return r;
}

/* The tail that both additions share: given the scaled first point (x1, y1) and the differences. */
DEVICE void C(xyzz_finish_add)(XYZZ *r, const FE *x1, const FE *y1, const FE *difference_x, const FE *difference_y,
                               const FE *zz, const FE *zzz) {
    FE pp, ppp, q, x3, t;
    F(sqr)(&pp, difference_x);
    F(mul)(&ppp, difference_x, &pp);
    F(mul)(&q, x1, &pp);
    F(mul)(&t, y1, &ppp);
    F(mul)(&r->zz, zz, &pp);
    F(mul)(&r->zzz, zzz, &ppp);
    F(sqr)(&x3, difference_y);
    F(sub)(&x3, &x3, &ppp);
    F(sub)(&x3, &x3, &q);
    F(sub)(&x3, &x3, &q);
    F(sub)(&q, &q, &x3);
    F(mul)(&q, difference_y, &q);
    F(sub)(&r->y, &q, &t);
    r->x = x3;
}

/* r = p + q; r may alias p. */
DEVICE void C(xyzz_add_affine)(XYZZ *r, const XYZZ *p, const AFFINE *q) {
    if (C(affine_is_infinity)(q)) {
        *r = *p;
        return;
    }
    if (C(xyzz_is_infinity)(p)) {
        C(xyzz_from_affine)(r, q);
        return;
    }
    FE u, s;
    F(mul)(&u, &q->x, &p->zz);
    F(mul)(&s, &q->y, &p->zzz);
    F(sub)(&u, &u, &p->x);
    F(sub)(&s, &s, &p->y);
    if (F(is_zero)(&u)) {
        *r = C(xyzz_add_equal_x)(*p, !F(is_zero)(&s));
        return;
    }
    FE x1 = p->x, y1 = p->y, zz = p->zz, zzz = p->zzz;
    C(xyzz_finish_add)(r, &x1, &y1, &u, &s, &zz, &zzz);
}

/* r = p + q; r may alias either. */
DEVICE void C(xyzz_add)(XYZZ *r, const XYZZ *p, const XYZZ *q) {
    if (C(xyzz_is_infinity)(q)) {
        *r = *p;
        return;
    }
    if (C(xyzz_is_infinity)(p)) {
        *r = *q;
        return;
    }
    FE x1, y1, u, s, zz, zzz;
    F(mul)(&x1, &p->x, &q->zz);
    F(mul)(&u, &q->x, &p->zz);
    F(mul)(&y1, &p->y, &q->zzz);
    F(mul)(&s, &q->y, &p->zzz);
    F(sub)(&u, &u, &x1);
    F(sub)(&s, &s, &y1);
    if (F(is_zero)(&u)) {
        *r = C(xyzz_add_equal_x)(*p, !F(is_zero)(&s));
        return;
    }
    F(mul)(&zz, &p->zz, &q->zz);
    F(mul)(&zzz, &p->zzz, &q->zzz);
    C(xyzz_finish_add)(r, &x1, &y1, &u, &s, &zz, &zzz);
}

/* The same out of line, for kernels that add in several places. */
DEVICE_COLD XYZZ C(xyzz_sum)(XYZZ p, XYZZ q) {
    XYZZ r;
    C(xyzz_add)(&r, &p, &q);
    return r;
}

DEVICE_COLD XYZZ C(xyzz_twice)(XYZZ p) {
    XYZZ r;
    C(xyzz_double)(&r, &p);
    return r;
}

DEVICE_COLD void C(xyzz_to_affine)(AFFINE *r, const XYZZ *p) {
    FE inverse, zz_inverse;
    if (C(xyzz_is_infinity)(p)) {
        F(set_zero)(&r->x);
        F(set_zero)(&r->y);
        return;
    }
    F(inv)(&inverse, &p->zzz);             /* 1/Z^3 */
    F(mul)(&zz_inverse, &inverse, &p->zz); /* 1/Z */
    F(sqr)(&zz_inverse, &zz_inverse);      /* 1/Z^2 */
    F(mul)(&r->x, &p->x, &zz_inverse);
    F(mul)(&r->y, &p->y, &inverse);
}

/* r = scalar * p for a plain scalar of `bits` bits. */
DEVICE_COLD void C(xyzz_mul_bits)(XYZZ *r, const AFFINE *p, const uint32_t *scalar, int bits) {
    XYZZ sum;
    C(xyzz_set_infinity)(&sum);
    for (int i = bits - 1; i >= 0; i--) {
        C(xyzz_double)(&sum, &sum);
        if ((scalar[i / 32] >> (i % 32)) & 1) C(xyzz_add_affine)(&sum, &sum, p);
    }
    *r = sum;
}
