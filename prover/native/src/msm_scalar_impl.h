/* msm_scalar_impl.h - how one scalar unit adds pairs of points with a shared inversion; included once per group.
 *
 * Points are stored as they are: affine, Montgomery form with R = 2^256.
 */

/* What the pairs of one inversion need between its two passes. */
typedef struct C(msm_shared) {
    FE difference, prefix;
    uint8_t kind;
} C(msm_shared);

static inline size_t C(msm_shared_bytes)(void) { return MSM_PAIRS * sizeof(C(msm_shared)); }

/* Changes key points to the stored form, in place. */
static void C(msm_prepare)(AFFINE *points, size_t count) {
    (void)points;
    (void)count;
}

/* A stored point in R = 2^256, reduced. */
static inline void C(msm_leave)(AFFINE *r, const AFFINE *stored) { *r = *stored; }

static inline void C(msm_negate)(AFFINE *stored) { F(neg)(&stored->y, &stored->y); }

enum { MSM_KIND(ADD), MSM_KIND(DOUBLE), MSM_KIND(GIVEN) };

/* The sum of a pair when one inversion does not apply: infinity on one side or opposite points. */
static void C(msm_settle_pair)(C(msm_pair) *pair) {
    AFFINE sum;
    if (C(affine_is_infinity)(&pair->p)) {
        sum = pair->q;
    } else if (C(affine_is_infinity)(&pair->q)) {
        sum = pair->p;
    } else {
        memset(&sum, 0, sizeof sum);
    }
    *pair->sum = sum;
}

/* Adds all waiting pairs. */
static void C(msm_flush)(C(msm_scratch) *s) {
    const uint32_t count = s->pairs_count;
    if (count == 0) return;
    /* Two running products: consecutive multiplications do not wait for each other. */
    FE product[2] = {FE_ONE, FE_ONE};
    for (uint32_t i = 0; i < count; i++) {
        C(msm_pair) *pair = &s->pairs[i];
        FE difference;
        if (pair->negate_p) F(neg)(&pair->p.y, &pair->p.y);
        if (pair->negate_q) F(neg)(&pair->q.y, &pair->q.y);
        uint8_t kind = MSM_KIND(ADD);
        F(sub)(&difference, &pair->q.x, &pair->p.x);
        if (__builtin_expect(F(is_zero)(&difference) | F(is_zero)(&pair->p.y) | F(is_zero)(&pair->q.y), 0)) {
            if (C(affine_equal)(&pair->p, &pair->q) && !F(is_zero)(&pair->p.y)) {
                kind = MSM_KIND(DOUBLE);
                F(double)(&difference, &pair->p.y);
            } else {
                kind = MSM_KIND(GIVEN);
                difference = FE_ONE;
            }
        }
        s->shared[i].kind = kind;
        s->shared[i].difference = difference;
        s->shared[i].prefix = product[i & 1];
        F(mul)(&product[i & 1], &product[i & 1], &difference);
    }
    FE inverse[2], all;
    F(mul)(&all, &product[0], &product[1]);
    F(inv)(&all, &all);
    F(mul)(&inverse[0], &all, &product[1]);
    F(mul)(&inverse[1], &all, &product[0]);
    for (uint32_t i = count; i-- > 0;) {
        C(msm_pair) *pair = &s->pairs[i];
        FE slope, numerator, x;
        F(mul)(&slope, &inverse[i & 1], &s->shared[i].prefix);
        F(mul)(&inverse[i & 1], &inverse[i & 1], &s->shared[i].difference);
        if (__builtin_expect(s->shared[i].kind != MSM_KIND(ADD), 0)) {
            if (s->shared[i].kind == MSM_KIND(GIVEN)) {
                C(msm_settle_pair)(pair);
                continue;
            }
            F(sqr)(&x, &pair->p.x);
            F(double)(&numerator, &x);
            F(add)(&numerator, &numerator, &x);
        } else {
            F(sub)(&numerator, &pair->q.y, &pair->p.y);
        }
        F(mul)(&slope, &slope, &numerator);
        F(sqr)(&x, &slope);
        F(sub)(&x, &x, &pair->p.x);
        F(sub)(&x, &x, &pair->q.x);
        F(sub)(&numerator, &pair->p.x, &x);
        F(mul)(&slope, &slope, &numerator);
        pair->sum->x = x;
        F(sub)(&pair->sum->y, &slope, &pair->p.y);
    }
    s->pairs_count = 0;
}
