/* msm/table_group_impl.h - builds tables of bases and sums over them; included once per group, after msm/group_impl.h. */

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
static void C(msm_table_fill)(AFFINE *table, const msm_table_shape *shape, const AFFINE *bases, size_t width,
                              size_t place, uint32_t count) {
    AFFINE points[MSM_TABLE_CHUNK];
    FE prefix[MSM_TABLE_CHUNK];
    memcpy(table + place, bases, count * sizeof *bases);
    for (uint32_t i = 0; i < count; i++) C(msm_from_stored)(&points[i], &bases[i]);
    for (uint32_t j = 1; j < shape->shifts; j++) {
        AFFINE *row = table + j * width + place;
        for (uint32_t i = 0; i < shape->window_bits * shape->sets; i++) C(msm_table_double)(points, prefix, count);
        memcpy(row, points, count * sizeof *points);
        C(msm_to_stored)(row, count);
    }
}

/* Sums over buckets first + 1 .. first + size of a set: of (b - first) * bucket b, and of the buckets. */
typedef struct C(msm_table_sum) {
    XYZZ weighted, plain;
} C(msm_table_sum);

/* Sums plan->buckets buckets of one set; the runs start at the first of them. */
static void C(msm_table_part)(C(msm_table_sum) *out, C(msm_scratch) *s, const msm_plan *plan, const msm_run *runs,
                              uint32_t runs_count) {
    C(msm_sum_runs)(s, s->buckets, plan->buckets, runs, runs_count);
    C(msm_sum_buckets)(s, &out->weighted, &out->plain, plan->buckets);
}

/* Adds the parts of all sets. sums: set by set, part by part. */
static void C(msm_table_join)(XYZZ *out, const C(msm_table_sum) *sums, const msm_table_shape *shape, uint32_t parts) {
    uint32_t size = msm_table_buckets(shape) / parts;
    C(xyzz_set_infinity)(out);
    for (uint32_t set = shape->sets; set-- > 0;) {
        const C(msm_table_sum) *own = sums + (size_t)set * parts;
        XYZZ running, above, total;
        for (uint32_t i = 0; i < shape->window_bits; i++) C(xyzz_double)(out, out);
        /* size * sum of part * plain[part] + sum of weighted */
        C(xyzz_set_infinity)(&running);
        C(xyzz_set_infinity)(&above);
        for (uint32_t part = parts; part-- > 1;) {
            C(xyzz_add)(&running, &running, &own[part].plain);
            C(xyzz_add)(&above, &above, &running);
        }
        for (uint32_t i = size; i > 1; i /= 2) C(xyzz_double)(&above, &above);
        total = above;
        for (uint32_t part = 0; part < parts; part++) C(xyzz_add)(&total, &total, &own[part].weighted);
        C(xyzz_add)(out, out, &total);
    }
}
