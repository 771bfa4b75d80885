/* msm_vector_impl.h - how AVX-512 adds pairs of points, eight at a time; included once per group.
 *
 * Points are stored packed (fp8_impl.h): coordinates times 2^260, below 2p + 2^212, not reduced. Pairs that the
 * formula does not cover (equal x, infinity) are rare: they make the shared product zero or were announced by
 * seen_infinity, and then the whole batch takes the scalar way.
 *
 * The including header also defines VE (vector element type), V(op) and VE_ONE(r); C(lanes_load), C(lanes_store)
 * and C(lanes_sum) come from msm_lanes_impl.h.
 */

/* What eight pairs need between the two passes of an inversion. */
typedef struct C(msm_shared) {
    VE difference_x, difference_y, prefix, px, py, sum_x;
} C(msm_shared);

static inline size_t C(msm_shared_bytes)(void) { return MSM_PAIRS / FP8_LANES * sizeof(C(msm_shared)); }

static inline void C(msm_scale)(AFFINE *r, const AFFINE *p, const fp *factor) {
    MSM_SCALE(&r->x, &p->x, factor);
    MSM_SCALE(&r->y, &p->y, factor);
}

/* Changes key points to the stored form, in place. */
static void C(msm_prepare)(AFFINE *points, size_t count) {
    for (size_t i = 0; i < count; i++) C(msm_scale)(&points[i], &points[i], &FP8_ENTER);
}

/* A stored point in R = 2^256, reduced. */
static inline void C(msm_leave)(AFFINE *r, const AFFINE *stored) { C(msm_scale)(r, stored, &FP8_LEAVE); }

static inline void C(msm_negate)(AFFINE *stored) { MSM_NEGATE_PACKED(&stored->y); }

/* Adds the waiting pairs one by one. */
static void C(msm_flush_scalar)(C(msm_scratch) *s) {
    for (uint32_t i = 0; i < s->pairs_count; i++) {
        C(msm_pair) *pair = &s->pairs[i];
        AFFINE p, q;
        XYZZ sum;
        C(msm_leave)(&p, &pair->p);
        C(msm_leave)(&q, &pair->q);
        if (pair->negate_p) C(affine_neg)(&p, &p);
        if (pair->negate_q) C(affine_neg)(&q, &q);
        C(xyzz_from_affine)(&sum, &p);
        C(xyzz_add_affine)(&sum, &sum, &q);
        C(xyzz_to_affine)(&p, &sum);
        C(msm_scale)(pair->sum, &p, &FP8_ENTER);
        s->seen_infinity |= C(xyzz_is_infinity)(&sum);
    }
    s->pairs_count = 0;
}

/* Adds all waiting pairs. */
static void C(msm_flush)(C(msm_scratch) *s) {
    const uint32_t count = s->pairs_count;
    if (count == 0) return;
    if (s->seen_infinity) {
        C(msm_flush_scalar)(s);
        return;
    }
    /* The last block is filled up with copies of its first pair whose sums go nowhere. */
    const uint32_t blocks = (count + FP8_LANES - 1) / FP8_LANES;
    AFFINE nowhere;
    VE product[2];
    VE_ONE(&product[0]);
    VE_ONE(&product[1]);
    for (uint32_t block = 0; block < blocks; block++) {
        C(msm_shared) *shared = &s->shared[block];
        const C(msm_pair) *pair = &s->pairs[block * FP8_LANES];
        const AFFINE *at_p[FP8_LANES], *at_q[FP8_LANES];
        unsigned negate_p = 0, negate_q = 0;
        for (uint32_t i = 0; i < FP8_LANES; i++) {
            const C(msm_pair) *lane = block * FP8_LANES + i < count ? pair + i : pair;
            at_p[i] = &lane->p;
            at_q[i] = &lane->q;
            negate_p |= (unsigned)lane->negate_p << i;
            negate_q |= (unsigned)lane->negate_q << i;
        }
        VE qx, qy;
        C(lanes_load)(&shared->px, &shared->py, at_p, (__mmask8)negate_p);
        C(lanes_load)(&qx, &qy, at_q, (__mmask8)negate_q);
        V(sub)(&shared->difference_x, &qx, &shared->px);
        V(sub)(&shared->difference_y, &qy, &shared->py);
        V(add)(&shared->sum_x, &shared->px, &qx);
        shared->prefix = product[block & 1];
        V(mul)(&product[block & 1], &product[block & 1], &shared->difference_x);
    }
    VE inverse[2], all;
    V(mul)(&all, &product[0], &product[1]);
    if (!V(inv)(&all, &all)) {
        C(msm_flush_scalar)(s);
        return;
    }
    V(mul)(&inverse[0], &product[1], &all);
    V(mul)(&inverse[1], &product[0], &all);
    for (uint32_t block = blocks; block-- > 0;) {
        const C(msm_shared) *shared = &s->shared[block];
        const C(msm_pair) *pair = &s->pairs[block * FP8_LANES];
        AFFINE *at[FP8_LANES];
        for (uint32_t i = 0; i < FP8_LANES; i++) {
            at[i] = block * FP8_LANES + i < count ? pair[i].sum : &nowhere;
        }
        VE slope, x, y;
        V(mul)(&slope, &inverse[block & 1], &shared->prefix);
        V(mul)(&inverse[block & 1], &inverse[block & 1], &shared->difference_x);
        V(mul)(&slope, &slope, &shared->difference_y);
        C(lanes_sum)(&x, &y, &slope, &shared->px, &shared->py, &shared->sum_x);
        C(lanes_store)(at, &x, &y);
    }
    s->pairs_count = 0;
}
