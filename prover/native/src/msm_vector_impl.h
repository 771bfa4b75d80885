/* msm_vector_impl.h - how backends with lanes add pairs of points, eight at a time; included once per group.
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
    VE difference_x, difference_y, prefix, px, py;
} C(msm_shared);

static inline size_t C(msm_shared_bytes)(void) { return MSM_MAX_PAIRS / FP8_LANES * sizeof(C(msm_shared)); }

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

static void C(msm_apply_phi)(AFFINE *stored, uint32_t count) {
    LANES_REGION;
    fp8 beta;
    uint32_t done = 0;
    fp8_broadcast(&beta, &MSM_BETA);
    for (; done + FP8_LANES <= count; done += FP8_LANES) {
        AFFINE *at[FP8_LANES];
        VE x, y;
        for (uint32_t i = 0; i < FP8_LANES; i++) at[i] = stored + done + i;
        C(lanes_load)(&x, &y, (const AFFINE *const *)at, 0);
        V(mul_fp)(&x, &x, &beta);
        C(lanes_store)(at, &x, &y);
    }
    for (; done < count; done++) MSM_SCALE(&stored[done].x, &stored[done].x, &MSM_BETA);
}

static inline void C(msm_negate)(AFFINE *stored) { MSM_NEGATE_PACKED(&stored->y); }

/* An operand as a point in R = 2^256. */
static inline void C(msm_leave_operand)(AFFINE *r, C(msm_operand) operand) {
    C(msm_leave)(r, C(msm_point)(operand));
    if (operand & 1) C(affine_neg)(r, r);
}

/* The same as msm_add_pairs, one by one. */
static void C(msm_add_pairs_scalar)(C(msm_scratch) *s, AFFINE *sums, const C(msm_operand) *at_p,
                                    const C(msm_operand) *at_q, uint32_t count) {
    for (uint32_t i = 0; i < count; i++) {
        AFFINE p, q;
        XYZZ sum;
        C(msm_leave_operand)(&p, at_p[i]);
        C(msm_leave_operand)(&q, at_q[i]);
        C(xyzz_from_affine)(&sum, &p);
        C(xyzz_add_affine)(&sum, &sum, &q);
        C(xyzz_to_affine)(&p, &sum);
        C(msm_scale)(&sums[i], &p, &FP8_ENTER);
        s->seen_infinity |= C(xyzz_is_infinity)(&sum);
    }
}

/* Adds the first summands of each sum two by two: the pairs go to s->p and s->q, places for their sums, and summands without a
 * partner, to s->operands. Returns the number of summands that are left. 64 summands at a time, whatever the lengths of sums. */
static uint32_t C(msm_pair_up)(C(msm_scratch) *s, uint32_t count, const AFFINE *sums, uint32_t *pairs) {
    const lanes_u64 step = lanes_mul_small(lanes_count_up(), lanes_set(sizeof *sums));
    uint32_t left = 0, firsts = 0, seconds = 0, halved = 0;
    s->owners[count] = UINT32_MAX;
    for (uint32_t at = 0; at < count; at += 64) {
        const uint64_t wanted = count - at < 64 ? ((uint64_t)1 << (count - at)) - 1 : UINT64_MAX;
        const uint64_t first = msm_first_of_pairs(msm_same_owners(s->owners + at) & wanted, halved);
        const uint64_t second = first << 1 | halved;
        halved = (uint32_t)(first >> 63);
        for (uint32_t i = 0; i < 64 && at + i < count; i += FP8_LANES) {
            const uint8_t is_first = (uint8_t)(first >> i), is_second = (uint8_t)(second >> i);
            const uint8_t stays = (uint8_t)((~second & wanted) >> i);
            /* Whole vectors are stored, over what has been read. */
            const lanes_u64 operands = lanes_load(s->operands + at + i);
            const lanes_u64 sum = lanes_add(lanes_set((uint64_t)(uintptr_t)(sums + firsts)), step);
            const lanes_u64 next = lanes_spread(is_first, sum, operands);
            lanes_store_where(s->p + firsts, is_first, operands);
            lanes_store_where(s->q + seconds, is_second, operands);
            lanes_store_where(s->operands + left, stays, next);
            lanes_store_where_u32(s->owners + left, stays, s->owners + at + i);
            firsts += (uint32_t)__builtin_popcount(is_first);
            seconds += (uint32_t)__builtin_popcount(is_second);
            left += (uint32_t)__builtin_popcount(stays);
        }
    }
    *pairs = firsts;
    return left;
}

/* Eight operands. */
static inline __attribute__((always_inline)) void C(msm_load_operands)(VE *x, VE *y, const C(msm_operand) *operands) {
    const AFFINE *at[FP8_LANES];
    const lanes_u64 words = lanes_load(operands);
    for (uint32_t i = 0; i < FP8_LANES; i++) at[i] = C(msm_point)(operands[i]);
    C(lanes_load)(x, y, at, lanes_odd(words));
}

static inline __attribute__((always_inline)) void C(msm_prefetch_operands)(const C(msm_operand) *operands) {
    for (uint32_t i = 0; i < FP8_LANES; i++) C(msm_prefetch)(C(msm_point)(operands[i]));
}

/* What a block of pairs needs later, but for `prefix`. */
FP8_INLINE void C(msm_begin_block)(C(msm_shared) *shared, const C(msm_operand) *at_p, const C(msm_operand) *at_q) {
    VE qx, qy;
    C(msm_load_operands)(&shared->px, &shared->py, at_p);
    C(msm_load_operands)(&qx, &qy, at_q);
    V(sub)(&shared->difference_x, &qx, &shared->px);
    V(sub)(&shared->difference_y, &qy, &shared->py);
}

FP8_INLINE void C(msm_store_block)(AFFINE *sums, const VE *x, const VE *y) {
    AFFINE *at[FP8_LANES];
    for (uint32_t i = 0; i < FP8_LANES; i++) at[i] = sums + i;
    C(lanes_store)(at, x, y);
}

/* The sums of a block, where `inverse` is that of the products up to it; afterwards that of the products before it. */
FP8_INLINE void C(msm_end_block)(const C(msm_shared) *shared, AFFINE *sums, VE *inverse) {
    VE slope, x, y;
    V(mul)(&slope, inverse, &shared->prefix);
    V(mul)(inverse, inverse, &shared->difference_x);
    V(mul)(&slope, &slope, &shared->difference_y);
    C(lanes_sum)(&x, &y, &slope, &shared->px, &shared->py, &shared->difference_x);
    C(msm_store_block)(sums, &x, &y);
}

/* The same of two neighbours, each with an inverse of its own. */
FP8_INLINE void C(msm_end_two_blocks)(const C(msm_shared) shared[2], AFFINE *sums, VE inverse[2]) {
    VE slope[2], x[2], y[2];
    const VE *const px[2] = {&shared[0].px, &shared[1].px}, *const py[2] = {&shared[0].py, &shared[1].py};
    const VE *const difference[2] = {&shared[0].difference_x, &shared[1].difference_x};
    V(mul_two)(&slope[0], &inverse[0], &shared[0].prefix, &slope[1], &inverse[1], &shared[1].prefix);
    V(mul_two)(&inverse[0], &inverse[0], difference[0], &inverse[1], &inverse[1], difference[1]);
    V(mul_two)(&slope[0], &slope[0], &shared[0].difference_y, &slope[1], &slope[1], &shared[1].difference_y);
    C(lanes_sum_two)(x, y, slope, px, py, difference);
    for (uint32_t i = 0; i < 2; i++) C(msm_store_block)(sums + i * FP8_LANES, &x[i], &y[i]);
}

/* sums[i] = p[i] + q[i] for at most MSM_MAX_PAIRS pairs, which no sum overwrites. Where the last block is not full, uses up
 * places of sums, at_p and at_q past the last pair. */
static void C(msm_add_pairs)(C(msm_scratch) *s, AFFINE *sums, C(msm_operand) *at_p, C(msm_operand) *at_q,
                             uint32_t count) {
    LANES_REGION;
    MSM_COUNT(count);
    if (s->seen_infinity) {
        C(msm_add_pairs_scalar)(s, sums, at_p, at_q, count);
        return;
    }
    /* The last block is filled up with copies of the last pair. */
    const uint32_t blocks = (count + FP8_LANES - 1) / FP8_LANES;
    for (uint32_t i = count; i < blocks * FP8_LANES; i++) {
        at_p[i] = at_p[count - 1];
        at_q[i] = at_q[count - 1];
    }
    VE product[2];
    VE_ONE(&product[0]);
    VE_ONE(&product[1]);
    /* Even and odd blocks have products of their own, which do not wait for each other. */
    for (uint32_t block = 0; block < blocks; block++) {
        C(msm_shared) *shared = &s->shared[block];
        const uint32_t first = block * FP8_LANES, ahead = first + MSM_PREFETCH_PAIRS;
        if (ahead < count) {
            C(msm_prefetch_operands)(at_p + ahead);
            C(msm_prefetch_operands)(at_q + ahead);
        }
        C(msm_begin_block)(shared, at_p + first, at_q + first);
        shared->prefix = product[block & 1];
        V(mul)(&product[block & 1], &product[block & 1], &shared->difference_x);
    }
    VE inverse[2], all;
    V(mul)(&all, &product[0], &product[1]);
    if (!V(inv)(&all, &all)) {
        C(msm_add_pairs_scalar)(s, sums, at_p, at_q, count);
        return;
    }
    V(mul)(&inverse[0], &product[1], &all);
    V(mul)(&inverse[1], &product[0], &all);
    for (uint32_t block = blocks; block > 0;) {
        const uint32_t ended = MSM_BLOCKS_AT_ONCE == 2 && block % 2 == 0 ? 2 : 1;
        block -= ended;
        const C(msm_shared) *shared = &s->shared[block];
        if (ended == 2) {
            C(msm_end_two_blocks)(shared, sums + block * FP8_LANES, inverse);
        } else {
            C(msm_end_block)(shared, sums + block * FP8_LANES, &inverse[block & 1]);
        }
    }
}
