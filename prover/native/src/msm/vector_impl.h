/* msm/vector_impl.h - adds pairs of points eight at a time in SIMD lanes; included once per group.
 *
 * The stored representation is packed (field/fp8_impl.h): coordinates times 2^260, below 2p + 2^212, not reduced. Pairs that the
 * formula does not cover (equal x, infinity) are rare: they make the product of the differences zero or are announced by
 * seen_infinity. Their differences are then replaced by one, and scalar code adds them at the end.
 *
 * Only elements of Fp are inverted: in G2, 1/d = conj(d) / norm(d), where the norm is d times its conjugate. So an addition takes
 * two products in Fp2 and five in Fp instead of five in Fp2.
 *
 * The including header also defines VE (vector element type), V(op) and VE_ONE(r); C(lanes_...) come from msm/lanes_impl.h.
 */

/* Components of an element, and component c. */
#define VE_FP8S ((int)(sizeof(VE) / sizeof(fp8)))
#define VE_FP8(element, c) ((fp8 *)(element) + (c))

/* State of eight pairs between the two passes of an inversion. difference_x: in G2 its conjugate. norm: in G2 that of difference_x.
 * prefix: product of the divisors of all earlier blocks with the same parity. */
typedef struct C(msm_shared) {
    VE difference_x, difference_y, px, py;
    fp8 norm[VE_FP8S - 1], prefix;
} C(msm_shared);

/* The element of Fp whose inverse the slope needs. */
static inline __attribute__((always_inline)) const fp8 *C(msm_divisor)(const C(msm_shared) *shared) {
    return VE_FP8S == 1 ? (const fp8 *)&shared->difference_x : shared->norm;
}

/* Two more than blocks: the prefixes of the last two are the products of all. */
static inline size_t C(msm_shared_bytes)(void) { return (MSM_MAX_PAIRS / FP8_LANES + 2) * sizeof(C(msm_shared)); }

static inline void C(msm_scale)(AFFINE *r, const AFFINE *p, const fp *factor) {
    MSM_SCALE(&r->x, &p->x, factor);
    MSM_SCALE(&r->y, &p->y, factor);
}

/* Converts points of a key to the stored representation, in place. */
static void C(msm_to_stored)(AFFINE *points, size_t count) {
    for (size_t i = 0; i < count; i++) C(msm_scale)(&points[i], &points[i], &FP_TO_R260);
}

/* Converts a stored point to R = 2^256, reduced. */
static inline void C(msm_from_stored)(AFFINE *r, const AFFINE *stored) { C(msm_scale)(r, stored, &FP_TO_R256); }

static void C(msm_apply_phi)(AFFINE *stored, uint32_t count) {
    LANES_REGION;
    fp8 beta;
    uint32_t done = 0;
    fp8_broadcast(&beta, &MSM_BETA);
    /* Two elements of Fp are loaded at a time: x and y of G1, the components of x of G2. */
    for (; done + FP8_LANES <= count; done += FP8_LANES) {
        void *at[FP8_LANES];
        fp8 first, second;
        for (uint32_t i = 0; i < FP8_LANES; i++) at[i] = stored + done + i;
        fp8_load2(&first, &second, (const void *const *)at);
        fp8_mul(&first, &first, &beta);
        if (sizeof(FE) == 2 * sizeof(fp)) fp8_mul(&second, &second, &beta);
        fp8_store2(at, &first, &second);
    }
    for (; done < count; done++) MSM_SCALE(&stored[done].x, &stored[done].x, &MSM_BETA);
}

static inline void C(msm_negate)(AFFINE *stored) { MSM_NEGATE_PACKED(&stored->y); }

/* Converts an operand to a point with R = 2^256. */
static inline void C(msm_point_of_operand)(AFFINE *r, C(msm_operand) operand) {
    C(msm_from_stored)(r, C(msm_point)(operand));
    if (operand & 1) C(affine_neg)(r, r);
}

/* *sum = p + q for any two points. */
static void C(msm_add_pair_scalar)(C(msm_scratch) *s, AFFINE *stored, C(msm_operand) at_p, C(msm_operand) at_q) {
    AFFINE p, q;
    XYZZ sum;
    C(msm_point_of_operand)(&p, at_p);
    C(msm_point_of_operand)(&q, at_q);
    C(xyzz_from_affine)(&sum, &p);
    C(xyzz_add_affine)(&sum, &sum, &q);
    C(xyzz_to_affine)(&p, &sum);
    C(msm_scale)(stored, &p, &FP_TO_R260);
    s->seen_infinity |= C(xyzz_is_infinity)(&sum);
}

/* Pairs the operands of each sum: the pairs go to s->p and s->q; addresses of their future sums, and operands without a partner,
 * go to s->operands. Returns the number of operands that remain. Handles 64 operands at a time, whatever the lengths of sums. */
static uint32_t C(msm_pair_up)(C(msm_scratch) *s, uint32_t count, const AFFINE *sums, uint32_t *pairs) {
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
            /* Whole vectors are stored; they overwrite only what has been read. */
            const lanes_u64 operands = lanes_load(s->operands + at + i);
            const lanes_u64 next = lanes_count_where(is_first, (uint64_t)(uintptr_t)(sums + firsts), sizeof *sums, operands);
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

static inline __attribute__((always_inline)) void C(msm_prefetch_operands)(const C(msm_operand) *operands) {
    for (uint32_t i = 0; i < FP8_LANES; i++) C(msm_prefetch)(C(msm_point)(operands[i]));
}

/* Prepares part h of a block of pairs, except for `norm` and `prefix`. py gets the sign of its operand; its limbs may be negative. */
MSM_PART void C(msm_begin_part)(C(msm_shared) *shared, const C(msm_operand) *at_p, const C(msm_operand) *at_q, int h) {
    const void *p[FP8_PART_LANES], *q[FP8_PART_LANES];
    for (int i = 0; i < FP8_PART_LANES; i++) {
        p[i] = C(msm_point)(at_p[h * FP8_PART_LANES + i]);
        q[i] = C(msm_point)(at_q[h * FP8_PART_LANES + i]);
    }
    const lanes_part_choice p_opposite = lanes_part_odd(lanes_part_load(at_p + h * FP8_PART_LANES));
    const lanes_part_choice q_opposite = lanes_part_odd(lanes_part_load(at_q + h * FP8_PART_LANES));
    for (int c = 0; c < VE_FP8S; c++) {
        lanes_part columns[4], of_p[5], of_q[5], difference[5];
        lanes_part_load_columns(columns, p, (size_t)c * sizeof(fp));
        fp8_unpack_part(of_p, columns);
        lanes_part_load_columns(columns, q, (size_t)c * sizeof(fp));
        fp8_unpack_part(of_q, columns);
        fp8_part_sub(difference, c == 0 ? of_q : of_p, c == 0 ? of_p : of_q, 4); /* < 6.1p */
        LANES52_PUT(VE_FP8(&shared->px, c)->v, of_p, h);
        LANES52_PUT(VE_FP8(&shared->difference_x, c)->v, difference, h);
        lanes_part_load_columns(columns, p, sizeof(FE) + (size_t)c * sizeof(fp));
        fp8_unpack_part(of_p, columns);
        lanes_part_load_columns(columns, q, sizeof(FE) + (size_t)c * sizeof(fp));
        fp8_unpack_part(of_q, columns);
        for (int i = 0; i < 5; i++) of_p[i] = lanes_part_opposite_where(p_opposite, of_p[i]);
        for (int i = 0; i < 5; i++) of_q[i] = lanes_part_opposite_where(q_opposite, of_q[i]);
        fp8_part_sub(difference, of_q, of_p, 5); /* in (0.8p, 9.2p) */
        LANES52_PUT(VE_FP8(&shared->py, c)->v, of_p, h);
        LANES52_PUT(VE_FP8(&shared->difference_y, c)->v, difference, h);
    }
}

/* Part h of x = slope^2 - px - qx and of t = px - x + 4p, below 6.1p; `square` is the result of lanes_square. */
MSM_PART void C(msm_end_x)(const C(msm_shared) *shared, VE *x, VE *t, const VE *square, int h) {
    (void)h; /* unused when there is one part */
    for (int c = 0; c < VE_FP8S; c++) {
        lanes_part of_p[5], difference[5], r[5];
        LANES52_TAKE(r, VE_FP8(square, c)->v, h);
        LANES52_TAKE(of_p, VE_FP8(&shared->px, c)->v, h);
        LANES52_TAKE(difference, VE_FP8(&shared->difference_x, c)->v, h);
        for (int i = 0; i < 5; i++) {
            const lanes_part twice = lanes_part_add(of_p[i], of_p[i]);
            if (c == 0) { /* qx = difference + px - 4p */
                r[i] = lanes_part_sub(lanes_part_add(r[i], lanes_part_set(fp8_lifted(9, i))), lanes_part_add(twice, difference[i]));
            } else { /* qx = px + 4p - difference */
                r[i] = lanes_part_add(lanes_part_add(r[i], r[i]), lanes_part_set(fp8_lifted(1, i)));
                r[i] = lanes_part_sub(lanes_part_add(r[i], difference[i]), twice);
            }
        }
        fp8_part_reduce_packed(r, MSM_X_BOUND);
        LANES52_PUT(VE_FP8(x, c)->v, r, h);
        fp8_part_sub(r, of_p, r, 4);
        LANES52_PUT(VE_FP8(t, c)->v, r, h);
    }
}

/* Stores part h of x and of y = product - py, where product = slope t. */
MSM_PART void C(msm_end_y)(const C(msm_shared) *shared, AFFINE *sums, const VE *x, const VE *product, int h) {
    void *at[FP8_PART_LANES];
    lanes_part words[8 * VE_FP8S]; /* of x, then of y */
    for (int c = 0; c < VE_FP8S; c++) {
        lanes_part of_p[5], r[5];
        LANES52_TAKE(r, VE_FP8(product, c)->v, h);
        LANES52_TAKE(of_p, VE_FP8(&shared->py, c)->v, h);
        for (int i = 0; i < 5; i++) r[i] = lanes_part_sub(lanes_part_add(r[i], lanes_part_set(fp8_lifted(3, i))), of_p[i]);
        fp8_part_reduce_packed(r, MSM_Y_BOUND);
        fp8_pack_part(words + 4 * (VE_FP8S + c), r);
        LANES52_TAKE(r, VE_FP8(x, c)->v, h);
        fp8_pack_part(words + 4 * c, r);
    }
    for (int c = 0; c < VE_FP8S; c++) {
        for (int i = 0; i < FP8_PART_LANES; i++) at[i] = (char *)(sums + h * FP8_PART_LANES + i) + (size_t)c * 2 * sizeof(fp);
        lanes_part_store_rows(at, words + 8 * c);
    }
}

/* Operands of pairs that are fetched to the second-level cache while blocks of an earlier batch are finished. */
typedef struct C(msm_later) {
    const C(msm_operand) *p, *q;
    uint32_t count; /* pairs; may be 0 */
} C(msm_later);

/* Points are fetched in as many shares, since a core waits where many are fetched at once. */
#define MSM_FETCH_SHARES 5

/* Fetches share `share` of the pairs, at most `most` in all shares. */
static inline __attribute__((always_inline)) void C(msm_fetch)(C(msm_later) later, uint32_t most, uint32_t share) {
    const uint32_t end = most * (share + 1) / MSM_FETCH_SHARES;
    for (uint32_t i = most * share / MSM_FETCH_SHARES; i < end && i < later.count; i++) {
        for (size_t line = 0; line < sizeof(AFFINE); line += 64) {
            __builtin_prefetch((const char *)C(msm_point)(later.p[i]) + line, 0, 2);
            __builtin_prefetch((const char *)C(msm_point)(later.q[i]) + line, 0, 2);
        }
    }
}

/* Finishes one or two blocks, and fetches as many later pairs. On entry `inverse` holds the inverses of the products up to these
 * blocks, on return those before them. */
MSM_PART void C(msm_end_blocks)(const C(msm_shared) *shared, AFFINE *sums, fp8 *inverse, const int count, C(msm_later) later) {
    const uint32_t most = (uint32_t)count * FP8_LANES;
    VE slope[2], x[2], t[2];
    fp8 own[2]; /* inverses of the divisors of these blocks */
    if (count == 2) {
        fp8_mul_two(&own[0], &inverse[0], &shared[0].prefix, &own[1], &inverse[1], &shared[1].prefix);
        C(msm_fetch)(later, most, 0);
        fp8_mul_two(&inverse[0], &inverse[0], C(msm_divisor)(&shared[0]), &inverse[1], &inverse[1], C(msm_divisor)(&shared[1]));
    } else {
        fp8_mul(&own[0], inverse, &shared->prefix);
        C(msm_fetch)(later, most, 0);
        fp8_mul(inverse, inverse, C(msm_divisor)(shared));
    }
    C(msm_fetch)(later, most, 1);
    const VE *const differences_x[2] = {&shared[0].difference_x, &shared[count - 1].difference_x};
    const VE *const differences_y[2] = {&shared[0].difference_y, &shared[count - 1].difference_y};
    C(lanes_slopes)(slope, own, differences_x, differences_y, count);
    C(msm_fetch)(later, most, 2);
    C(lanes_square)(t, slope, count);
    C(msm_fetch)(later, most, 3);
    MSM_EACH(i, count) {
        MSM_EACH(h, LANES_PARTS) C(msm_end_x)(&shared[i], &x[i], &t[i], &t[i], h);
    }
    if (count == 2) {
        V(mul_two)(&t[0], &slope[0], &t[0], &t[1], &slope[1], &t[1]);
    } else {
        V(mul)(&t[0], &slope[0], &t[0]);
    }
    C(msm_fetch)(later, most, 4);
    MSM_EACH(i, count) {
        MSM_EACH(h, LANES_PARTS) C(msm_end_y)(&shared[i], sums + i * FP8_LANES, &x[i], &t[i], h);
    }
}

/* Computes the norm of a block, and the prefix of the next block of the same parity. Even and odd blocks have separate products,
 * which are independent. */
static inline __attribute__((always_inline)) void C(msm_multiply_divisor)(C(msm_shared) *shared) {
    C(lanes_norm)(shared->norm, &shared->difference_x);
    fp8_mul(&shared[2].prefix, &shared->prefix, C(msm_divisor)(shared));
}

/* Replaces by one the differences of pairs that the formula does not cover; bit i of aside[b] is set for pair i of block b. */
static __attribute__((noinline)) void C(msm_set_aside)(C(msm_scratch) *s, uint8_t *aside, const C(msm_operand) *at_p,
                                                       const C(msm_operand) *at_q, uint32_t blocks) {
    VE one;
    VE_ONE(&one);
    for (uint32_t block = 0; block < blocks; block++) {
        VE *difference = &s->shared[block].difference_x;
        uint8_t chosen = 0xff;
        for (int c = 0; c < VE_FP8S; c++) chosen &= fp8_zero_lanes(VE_FP8(difference, c));
        for (uint32_t i = 0; i < FP8_LANES && s->seen_infinity; i++) {
            const uint32_t pair = block * FP8_LANES + i;
            const int given = C(affine_is_infinity)(C(msm_point)(at_p[pair])) | C(affine_is_infinity)(C(msm_point)(at_q[pair]));
            chosen |= (uint8_t)(given << i);
        }
        aside[block] = chosen;
        if (!chosen) continue;
        for (int c = 0; c < VE_FP8S; c++) fp8_replace_lanes(VE_FP8(difference, c), chosen, VE_FP8(&one, c));
    }
    for (uint32_t block = 0; block < blocks; block++) C(msm_multiply_divisor)(&s->shared[block]);
}

/* all = 1 / the product of the divisors of all blocks; returns 0 when it is zero in some lane. */
static int C(msm_invert_divisors)(const C(msm_scratch) *s, fp8 *all, uint32_t blocks) {
    fp8_mul(all, &s->shared[blocks].prefix, &s->shared[blocks + 1].prefix);
    return fp8_inv(all, all);
}

/* sums[i] = p[i] + q[i] for at most MSM_MAX_PAIRS pairs; sums must not overlap the operands. When the last block is incomplete,
 * elements of sums, at_p and at_q beyond the last pair are overwritten. later: pairs that follow in at_p and at_q. The second pass
 * does not wait for memory, so it fetches their operands. */
static void C(msm_add_pairs)(C(msm_scratch) *s, AFFINE *sums, C(msm_operand) *at_p, C(msm_operand) *at_q,
                             uint32_t count, uint32_t later) {
    LANES_REGION;
    MSM_COUNT(count);
    /* The last block is completed with copies of the last pair. */
    const uint32_t blocks = (count + FP8_LANES - 1) / FP8_LANES;
    for (uint32_t i = count; i < blocks * FP8_LANES; i++) {
        at_p[i] = at_p[count - 1];
        at_q[i] = at_q[count - 1];
    }
    fp8_set(&s->shared[0].prefix, FP8_ONE);
    fp8_set(&s->shared[1].prefix, FP8_ONE);
    fp8 inverse[2], all;
    for (uint32_t block = 0; block < blocks; block++) {
        C(msm_shared) *shared = &s->shared[block];
        const uint32_t first = block * FP8_LANES, ahead = first + MSM_PREFETCH_PAIRS;
        if (ahead < count) C(msm_prefetch_operands)(at_p + ahead);
        MSM_EACH(h, LANES_PARTS) C(msm_begin_part)(shared, at_p + first, at_q + first, h);
        if (ahead < count) C(msm_prefetch_operands)(at_q + ahead);
        C(msm_multiply_divisor)(shared);
    }
    uint8_t aside[MSM_MAX_PAIRS / FP8_LANES + 1];
    const int exceptional = s->seen_infinity || !C(msm_invert_divisors)(s, &all, blocks);
    if (__builtin_expect(exceptional, 0)) {
        C(msm_set_aside)(s, aside, at_p, at_q, blocks);
        (void)C(msm_invert_divisors)(s, &all, blocks);
    }
    const fp8 *const even = &s->shared[blocks + (blocks & 1)].prefix, *const odd = &s->shared[blocks + !(blocks & 1)].prefix;
    fp8_mul(&inverse[0], odd, &all);
    fp8_mul(&inverse[1], even, &all);
    for (uint32_t block = blocks; block > 0;) {
        const uint32_t ended = MSM_BLOCKS_AT_ONCE == 2 && block % 2 == 0 ? 2 : 1;
        block -= ended;
        uint32_t fetched = (blocks - block - ended) * FP8_LANES;
        if (fetched > later) fetched = later;
        const C(msm_later) next = {at_p + count + fetched, at_q + count + fetched, later - fetched};
        const C(msm_shared) *shared = &s->shared[block];
        if (ended == 2) {
            C(msm_end_blocks)(shared, sums + block * FP8_LANES, inverse, 2, next);
        } else {
            C(msm_end_blocks)(shared, sums + block * FP8_LANES, &inverse[block & 1], 1, next);
        }
    }
    for (uint32_t block = 0; exceptional && block < blocks; block++) {
        for (uint32_t i = block * FP8_LANES; aside[block]; i++, aside[block] >>= 1) {
            if (aside[block] & 1 && i < count) C(msm_add_pair_scalar)(s, &sums[i], at_p[i], at_q[i]);
        }
    }
}
