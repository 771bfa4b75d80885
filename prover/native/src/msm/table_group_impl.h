/* msm/table_group_impl.h - builds tables of bases; included once per group, after msm/group_impl.h. */

/* Points that share an inversion while a table is built. */
#define MSM_TABLE_CHUNK 128

/* Doubles affine points with R = 2^256. Infinity and points with y = 0 are left unchanged. */
static void C(msm_table_double)(AFFINE *points, FE *prefix, uint32_t count) {
    FE product = FE_ONE, inverse;
    for (uint32_t i = 0; i < count; i++) {
        FE twice;
        prefix[i] = product;
        if (F(is_zero)(&points[i].y)) continue;
        F(double)(&twice, &points[i].y);
        F(mul)(&product, &product, &twice);
    }
    F(inv)(&product, &product);
    for (uint32_t i = count; i-- > 0;) {
        AFFINE *p = &points[i];
        FE slope, square, x;
        if (F(is_zero)(&p->y)) continue;
        F(mul)(&inverse, &product, &prefix[i]);
        F(double)(&slope, &p->y);
        F(mul)(&product, &product, &slope);
        F(sqr)(&square, &p->x);
        F(double)(&slope, &square);
        F(add)(&slope, &slope, &square);
        F(mul)(&slope, &slope, &inverse);
        F(sqr)(&x, &slope);
        F(sub)(&x, &x, &p->x);
        F(sub)(&x, &x, &p->x);
        F(sub)(&square, &p->x, &x);
        F(mul)(&square, &square, &slope);
        F(sub)(&p->y, &square, &p->y);
        p->x = x;
    }
}

/* Computes all shifts of `count` bases, at most MSM_TABLE_CHUNK, in the stored representation; `place` is the index of the first
 * base. */
static void C(msm_table_fill)(AFFINE *table, const msm_plan *plan, const AFFINE *bases, size_t width, size_t place,
                              uint32_t count) {
    AFFINE points[MSM_TABLE_CHUNK];
    FE prefix[MSM_TABLE_CHUNK];
    memcpy(table + place, bases, count * sizeof *bases);
    for (uint32_t i = 0; i < count; i++) C(msm_from_stored)(&points[i], &bases[i]);
    for (uint32_t j = 1; j < msm_plan_shifts(plan); j++) {
        AFFINE *row = table + j * width + place;
        for (uint32_t i = 0; i < msm_shift_bits(plan); i++) C(msm_table_double)(points, prefix, count);
        memcpy(row, points, count * sizeof *points);
        C(msm_to_stored)(row, count);
    }
}
