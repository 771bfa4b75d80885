/* curve/group_shared.h - points of y^2 = x^3 + b in affine and XYZZ coordinates, one text for the CPU and the GPU; included once per
 * group.
 *
 * The including header defines FE (field element type), F(op) (field function), AFFINE, XYZZ, C(name) (prefix of this group's
 * functions), and, where points are checked, CURVE_B (the constant b), which are undefined here; and HOT and COLD, the qualifiers
 * of functions that must be inlined, and of those that must not cost their callers registers.
 *
 * XYZZ: (X, Y, ZZ, ZZZ) represents (X/ZZ, Y/ZZZ), ZZ^3 = ZZZ^2; ZZ = 0 is infinity. Formulas:
 * Explicit-Formulas Database, "xyzz" (add-2008-s, madd-2008-s, dbl-2008-s-1, mdbl-2008-s-1); all
 * complete: equal and opposite points and infinity are handled. Time depends on those cases.
 */

HOT int C(affine_is_infinity)(const AFFINE *p) { return F(is_zero)(&p->x) & F(is_zero)(&p->y); }

HOT int C(affine_equal)(const AFFINE *p, const AFFINE *q) {
    return F(equal)(&p->x, &q->x) & F(equal)(&p->y, &q->y);
}

HOT void C(affine_neg)(AFFINE *r, const AFFINE *p) {
    r->x = p->x;
    F(neg)(&r->y, &p->y);
}

HOT int C(xyzz_is_infinity)(const XYZZ *p) { return F(is_zero)(&p->zz); }

HOT void C(xyzz_set_infinity)(XYZZ *r) {
    F(set_zero)(&r->x);
    F(set_zero)(&r->y);
    F(set_zero)(&r->zz);
    F(set_zero)(&r->zzz);
}

HOT void C(xyzz_from_affine)(XYZZ *r, const AFFINE *p) {
    if (C(affine_is_infinity)(p)) {
        C(xyzz_set_infinity)(r);
        return;
    }
    r->x = p->x;
    r->y = p->y;
    F(set_one)(&r->zz);
    F(set_one)(&r->zzz);
}

HOT void C(xyzz_neg)(XYZZ *r, const XYZZ *p) {
    *r = *p;
    F(neg)(&r->y, &p->y);
}

/* r = 2p, also for infinity. A point of order two does not exist in either group. */
HOT void C(xyzz_double)(XYZZ *r, const XYZZ *p) {
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

/* p + q for points with equal x: twice the point, or infinity. Works on copies, so that a sum of the caller stays in registers. */
COLD XYZZ C(xyzz_add_equal_x)(XYZZ p, int opposite) {
    XYZZ r;
    if (opposite) {
        C(xyzz_set_infinity)(&r);
    } else {
        C(xyzz_double)(&r, &p);
    }
    return r;
}

#include "curve/group_add_shared.h"

/* r = p + q; r may alias p. */
HOT void C(xyzz_add_affine)(XYZZ *r, const XYZZ *p, const AFFINE *q) {
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
    FE x1 = p->x, y1 = p->y;
    C(xyzz_finish_add)(r, &x1, &y1, &u, &s, &p->zz, &p->zzz);
}

/* r = p + q; r may alias either. */
HOT void C(xyzz_add)(XYZZ *r, const XYZZ *p, const XYZZ *q) {
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

COLD void C(xyzz_to_affine)(AFFINE *r, const XYZZ *p) {
    if (C(xyzz_is_infinity)(p)) {
        F(set_zero)(&r->x);
        F(set_zero)(&r->y);
        return;
    }
    FE inverse, zz_inverse;
    F(inv)(&inverse, &p->zzz);           /* 1/Z^3 */
    F(mul)(&zz_inverse, &inverse, &p->zz); /* 1/Z */
    F(sqr)(&zz_inverse, &zz_inverse);    /* 1/Z^2 */
    F(mul)(&r->x, &p->x, &zz_inverse);
    F(mul)(&r->y, &p->y, &inverse);
}

#if defined(CURVE_B)
/* Returns 1 when p is on the curve; 0 for infinity. */
HOT int C(affine_on_curve)(const AFFINE *p) {
    FE left, right;
    F(sqr)(&left, &p->y);
    F(sqr)(&right, &p->x);
    F(mul)(&right, &right, &p->x);
    F(add)(&right, &right, &CURVE_B);
    return F(equal)(&left, &right);
}
#endif

/* r = scalar * p for a plain little-endian scalar of `bits` bits; time depends on the scalar. */
COLD void C(xyzz_mul_bits_var)(XYZZ *r, const AFFINE *p, const uint64_t *scalar, int bits) {
    XYZZ sum;
    C(xyzz_set_infinity)(&sum);
    for (int i = bits - 1; i >= 0; i--) {
        if (!C(xyzz_is_infinity)(&sum)) C(xyzz_double)(&sum, &sum);
        if ((scalar[i / 64] >> (i % 64)) & 1) C(xyzz_add_affine)(&sum, &sum, p);
    }
    *r = sum;
}

COLD void C(xyzz_mul_var)(XYZZ *r, const AFFINE *p, const uint64_t scalar[4]) {
    C(xyzz_mul_bits_var)(r, p, scalar, 256);
}

#undef FE
#undef F
#undef CURVE_B
#undef AFFINE
#undef XYZZ
#undef C
