/* curve/group_add_shared.h - the common part of additions in XYZZ coordinates; included where curve/group_shared.h is, and where two
 * threads of a GPU share a point. The including file defines what that one says.
 */

/* The last part of both additions, from the scaled first point (x1, y1) and the differences of the coordinates. */
HOT void C(xyzz_finish_add)(XYZZ *r, const FE *x1, const FE *y1, const FE *difference_x, const FE *difference_y, const FE *zz,
                            const FE *zzz) {
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
