/* msm/scalar_impl.h - adds pairs of points with a shared inversion, without SIMD; included once per group.
 *
 * The stored representation is affine, Montgomery form with R = 2^256. Only elements of Fp are inverted, as in msm/vector_impl.h.
 *
 * The including header also defines MSM_DIVISOR(norm, d), the address of d in G1 and of its norm, which it computes, in G2; and
 * MSM_QUOTIENT(r, n, d, inverse), r = n / d, given the inverse of the divisor.
 */

/* State of a pair between the two passes of an inversion. */
typedef struct C(msm_shared) {
    AFFINE p, q;
    fp divisor, prefix;
    uint8_t kind;
} C(msm_shared);

static inline size_t C(msm_shared_bytes)(void) { return MSM_MAX_PAIRS * sizeof(C(msm_shared)); }

/* Converts points of a key to the stored representation, in place. */
static void C(msm_to_stored)(AFFINE *points, size_t count) {
    (void)points;
    (void)count;
}

/* Converts a stored point to R = 2^256, reduced. */
static inline void C(msm_from_stored)(AFFINE *r, const AFFINE *stored) { *r = *stored; }

static void C(msm_apply_phi)(AFFINE *stored, uint32_t count) {
    for (uint32_t i = 0; i < count; i++) MSM_SCALE(&stored[i].x, &stored[i].x, &MSM_BETA);
}

static inline void C(msm_negate)(AFFINE *stored) { F(neg)(&stored->y, &stored->y); }

/* Pairs the operands of each sum: the pairs go to s->p and s->q; addresses of their future sums, and operands without a partner,
 * go to s->operands. Returns the number of operands that remain. Without branches on the lengths of sums, which would be
 * mispredicted. */
static uint32_t C(msm_pair_up)(C(msm_scratch) *s, uint32_t count, const AFFINE *sums, uint32_t *pairs) {
    C(msm_operand) *const operands = s->operands, *const p = s->p, *const q = s->q;
    uint32_t *const owners = s->owners;
    uint32_t next = 0, left = 0, paired = 0;
    owners[count] = UINT32_MAX;
    while (next < count) {
        const uint32_t owner = owners[next], both = owner == owners[next + 1];
        const C(msm_operand) first = operands[next], second = operands[next + 1];
        const C(msm_operand) sum = (C(msm_operand))(sums + paired);
        p[paired] = first;
        q[paired] = second;
        operands[left] = both ? sum : first;
        owners[left++] = owner;
        paired += both;
        next += 1 + both;
    }
    *pairs = paired;
    return left;
}

enum { MSM_KIND(ADD), MSM_KIND(DOUBLE), MSM_KIND(GIVEN) };

static inline void C(msm_value)(AFFINE *r, C(msm_operand) operand) {
    *r = *C(msm_point)(operand);
    if (operand & 1) F(neg)(&r->y, &r->y);
}

/* The sum of a pair that the formula does not cover: one point is infinity or they are opposite. */
static void C(msm_add_exceptional)(AFFINE *sum, const AFFINE *p, const AFFINE *q) {
    if (C(affine_is_infinity)(p)) {
        *sum = *q;
    } else if (C(affine_is_infinity)(q)) {
        *sum = *p;
    } else {
        memset(sum, 0, sizeof *sum);
    }
}

/* sums[i] = p[i] + q[i] for at most MSM_MAX_PAIRS pairs; sums must not overlap the operands. */
static void C(msm_add_pairs)(C(msm_scratch) *s, AFFINE *sums, C(msm_operand) *at_p, C(msm_operand) *at_q,
                             uint32_t count, uint32_t later) {
    (void)later;
    MSM_COUNT(count);
    /* Two running products: consecutive multiplications are independent. */
    fp product[2] = {FP_ONE, FP_ONE};
    for (uint32_t i = 0; i < count; i++) {
        AFFINE *p = &s->shared[i].p, *q = &s->shared[i].q;
        FE difference;
        if (i + MSM_PREFETCH_PAIRS < count) {
            C(msm_prefetch)(C(msm_point)(at_p[i + MSM_PREFETCH_PAIRS]));
            C(msm_prefetch)(C(msm_point)(at_q[i + MSM_PREFETCH_PAIRS]));
        }
        C(msm_value)(p, at_p[i]);
        C(msm_value)(q, at_q[i]);
        uint8_t kind = MSM_KIND(ADD);
        F(sub)(&difference, &q->x, &p->x);
        if (__builtin_expect(F(is_zero)(&difference) | F(is_zero)(&p->y) | F(is_zero)(&q->y), 0)) {
            if (C(affine_equal)(p, q) && !F(is_zero)(&p->y)) {
                kind = MSM_KIND(DOUBLE);
                F(double)(&difference, &p->y);
            } else {
                kind = MSM_KIND(GIVEN);
                difference = FE_ONE;
            }
        }
        s->shared[i].kind = kind;
        s->shared[i].prefix = product[i & 1];
        fp norm;
        const fp *divisor = MSM_DIVISOR(&norm, &difference);
        s->shared[i].divisor = *divisor;
        fp_mul(&product[i & 1], &product[i & 1], divisor);
    }
    fp inverse[2], own, all;
    fp_mul(&all, &product[0], &product[1]);
    fp_inv(&all, &all);
    fp_mul(&inverse[0], &all, &product[1]);
    fp_mul(&inverse[1], &all, &product[0]);
    for (uint32_t i = count; i-- > 0;) {
        const AFFINE *p = &s->shared[i].p, *q = &s->shared[i].q;
        FE slope, difference, numerator, x;
        fp_mul(&own, &inverse[i & 1], &s->shared[i].prefix);
        fp_mul(&inverse[i & 1], &inverse[i & 1], &s->shared[i].divisor);
        if (__builtin_expect(s->shared[i].kind != MSM_KIND(ADD), 0)) {
            if (s->shared[i].kind == MSM_KIND(GIVEN)) {
                C(msm_add_exceptional)(&sums[i], p, q);
                continue;
            }
            F(double)(&difference, &p->y);
            F(sqr)(&x, &p->x);
            F(double)(&numerator, &x);
            F(add)(&numerator, &numerator, &x);
        } else {
            F(sub)(&difference, &q->x, &p->x);
            F(sub)(&numerator, &q->y, &p->y);
        }
        MSM_QUOTIENT(&slope, &numerator, &difference, &own);
        F(sqr)(&x, &slope);
        F(sub)(&x, &x, &p->x);
        F(sub)(&x, &x, &q->x);
        F(sub)(&numerator, &p->x, &x);
        F(mul)(&slope, &slope, &numerator);
        sums[i].x = x;
        F(sub)(&sums[i].y, &slope, &p->y);
    }
}
