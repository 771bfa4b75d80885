/* msm_group_impl.h - one window of a multi-scalar multiplication; included once per group.
 *
 * Pippenger's bucket method with affine buckets: the entries of a window are sorted by digit, and each
 * run of equal digits is summed as a tree whose additions, taken over all runs, share field inversions
 * (Montgomery's trick). An addition then costs five products and a square. Runs are cut into slabs
 * so that the points of a tree stay in the second-level cache whatever the number of scalars.
 *
 * The two halves of the scalars fill bucket lists of their own, so that phi is applied once per bucket:
 * bucket sum = sum of half 0 + phi(sum of half 1).
 *
 * The including header defines the macros of curve_impl.h, MSM_BETA and MSM_SCALE(r, a, b), and includes before
 * this file one of msm_scalar_impl.h and msm_vector_impl.h, which say how points are stored and pairs are added.
 */

static size_t C(msm_scratch_arrays)(C(msm_scratch) *s, arena a, const msm_plan *plan, size_t count) {
    s->operands = arena_take(&a, (MSM_SLAB + 1) * sizeof *s->operands);
    s->owners = arena_take(&a, (MSM_SLAB + MSM_OWNERS_PADDING) * sizeof *s->owners);
    s->p = arena_take(&a, (MSM_SLAB / 2 + MSM_PAIRS_PADDING) * sizeof *s->p);
    s->q = arena_take(&a, (MSM_SLAB / 2 + MSM_PAIRS_PADDING) * sizeof *s->q);
    s->shared = arena_take(&a, C(msm_shared_bytes)());
    s->points = arena_take(&a, (MSM_SLAB + MSM_PAIRS_PADDING) * sizeof *s->points);
    s->buckets = arena_take(&a, (plan->buckets + 1) * sizeof *s->buckets);
    s->second = arena_take(&a, (plan->buckets + 1) * sizeof *s->second);
    s->lines = arena_take(&a, 2 * MSM_MAX_LINES * sizeof *s->lines);
    s->starts = arena_take(&a, (plan->buckets + 2) * sizeof *s->starts);
    s->entries = arena_take(&a, count * sizeof *s->entries);
    s->seen_infinity = 0;
    return a.used;
}

static size_t C(msm_scratch_bytes)(const msm_plan *plan, size_t count) {
    C(msm_scratch) s;
    return C(msm_scratch_arrays)(&s, arena_measure(), plan, count);
}

static void C(msm_scratch_place)(C(msm_scratch) *s, arena a, const msm_plan *plan, size_t count) {
    C(msm_scratch_arrays)(s, a, plan, count);
}

static inline C(msm_operand) C(msm_operand_of)(const AFFINE *bases, uint32_t entry) {
    return ((C(msm_operand))bases + (C(msm_operand))(entry >> 1) * sizeof *bases) | (entry & 1);
}

/* Sums `count` summands, at most MSM_SLAB, of s->operands, those with the same owner into one. out[owner] becomes the sum. */
static void C(msm_sum_operands)(C(msm_scratch) *s, AFFINE *out, uint32_t count) {
    AFFINE *sums = s->points;
    uint32_t pairs;
    s->seen_infinity = 0;
    s->operands[count] = 0;
    for (;;) {
        count = C(msm_pair_up)(s, count, sums, &pairs);
        if (pairs == 0) break;
        /* Batches of about MSM_PAIRS and of the same size. */
        uint32_t batches = (pairs + MSM_PAIRS / 2) / MSM_PAIRS;
        for (uint32_t first = 0; first < pairs;) {
            uint32_t size = batches > 1 ? (pairs - first) / batches & ~(uint32_t)7 : pairs - first;
            C(msm_add_pairs)(s, sums + first, s->p + first, s->q + first, size);
            first += size;
            batches--;
        }
        sums += pairs;
    }
    for (uint32_t i = 0; i < count; i++) {
        AFFINE *sum = &out[s->owners[i]];
        *sum = *C(msm_point)(s->operands[i]);
        if (s->operands[i] & 1) C(msm_negate)(sum);
    }
}

/* Puts numbered points that are not infinity among the summands. */
static inline uint32_t C(msm_take)(C(msm_scratch) *s, uint32_t used, const AFFINE *point, uint32_t owner) {
    s->operands[used] = (C(msm_operand))point;
    s->owners[used] = owner;
    return used + !C(affine_is_infinity)(point);
}

/* The sum of each bucket as often as its number, and of each once. Two-level bucket sum: with bucket
 * b = high * 2^k + low + 1, sum b * B_b = 2^k * sum high * (sum over low) + sum (low + 1) * (sum over high). */
static void C(msm_sum_buckets)(C(msm_scratch) *s, XYZZ *out, XYZZ *plain, uint32_t buckets) {
    uint32_t low_bits = 0, used = 0;
    while (((uint32_t)1 << (2 * low_bits)) < buckets) low_bits++;
    const uint32_t lows = 1u << low_bits, highs = buckets >> low_bits;
    memset(s->lines, 0, (highs + lows) * sizeof *s->lines);
    for (uint32_t line = 0; line < highs + lows; line++) {
        const int by_low = line >= highs;
        const uint32_t length = by_low ? highs : lows, step = by_low ? lows : 1;
        const AFFINE *bucket = &s->buckets[1 + (by_low ? line - highs : line << low_bits)];
        if (used + length > MSM_SLAB) {
            C(msm_sum_operands)(s, s->lines, used);
            used = 0;
        }
        for (uint32_t i = 0; i < length; i++) used = C(msm_take)(s, used, bucket + (size_t)i * step, line);
    }
    C(msm_sum_operands)(s, s->lines, used);
    XYZZ part[2];
    for (int by_low = 0; by_low < 2; by_low++) {
        const AFFINE *lines = by_low ? s->lines + highs : s->lines;
        XYZZ running;
        C(xyzz_set_infinity)(&running);
        C(xyzz_set_infinity)(&part[by_low]);
        for (uint32_t i = by_low ? lows : highs; i-- > (by_low ? 0u : 1u);) {
            AFFINE sum;
            C(msm_leave)(&sum, &lines[i]);
            C(xyzz_add_affine)(&running, &running, &sum);
            C(xyzz_add)(&part[by_low], &part[by_low], &running);
        }
        if (by_low) *plain = running;
    }
    for (uint32_t i = 0; i < low_bits; i++) C(xyzz_double)(&part[0], &part[0]);
    C(xyzz_add)(out, &part[0], &part[1]);
}

/* buckets[b] = sum of entries[ends[b - 1] .. ends[b]) for 1 <= b <= count. Empty buckets become infinity. */
static void C(msm_sum_sorted)(C(msm_scratch) *s, AFFINE *buckets, uint32_t count, const AFFINE *bases,
                              const uint32_t *entries, const uint32_t *ends) {
    const uint32_t total = ends[count];
    memset(buckets, 0, (count + 1) * sizeof *buckets);
    uint32_t bucket = 1, done = ends[0];
    while (done < total) {
        while (ends[bucket] == done) bucket++;
        /* The slab before may have ended inside this bucket. */
        const uint32_t carried = C(msm_take)(s, 0, &buckets[bucket], bucket);
        const uint32_t size = total - done < MSM_SLAB - 1 ? total - done : MSM_SLAB - 1;
        C(msm_operand) *operands = s->operands + carried;
        for (uint32_t i = 0; i < size; i++) operands[i] = C(msm_operand_of)(bases, entries[done + i]);
        uint32_t *owners = s->owners + carried;
        for (uint32_t used = 0; used < size;) {
            const uint32_t end = ends[bucket] - done < size ? ends[bucket] - done : size;
            /* More than asked for: the next bucket, or nobody, overwrites it. */
            for (uint32_t i = used; i < end; i += MSM_OWNERS_STEP) {
                for (uint32_t j = 0; j < MSM_OWNERS_STEP; j++) owners[i + j] = bucket;
            }
            used = end;
            bucket += used < size;
        }
        C(msm_sum_operands)(s, buckets, size + carried);
        done += size;
    }
}

/* Entries of the bases whose digit d has first < |d| <= first + buckets, sorted by |d| - first: those of place b end at
 * s->starts[b]. whole: there are no other digits. */
static inline __attribute__((always_inline)) void C(msm_sort)(C(msm_scratch) *s, uint32_t first, uint32_t buckets,
                                                              const uint32_t *scalars, uint32_t count, const int16_t *digits,
                                                              const int whole) {
    uint32_t *starts = s->starts;
    memset(starts, 0, (buckets + 2) * sizeof *starts);
    for (uint32_t i = 0; i < count; i++) {
        uint32_t place = msm_magnitude(digits[scalars ? scalars[i] : i]) - (whole ? 0 : first);
        if (!whole) place = place <= buckets ? place : 0;
        starts[place + 1]++;
    }
    /* Place 0 and digit 0 add nothing: their entries get no place. */
    starts[1] = 0;
    for (uint32_t b = 1; b <= buckets; b++) starts[b + 1] += starts[b];
    if (!whole) starts[0] = starts[buckets + 1]; /* one more place, which is overwritten; there is one if any entry is left out */
    for (uint32_t i = 0; i < count; i++) {
        const int32_t digit = digits[scalars ? scalars[i] : i];
        uint32_t place = msm_magnitude(digit) - (whole ? 0 : first);
        if (whole) {
            if (digit) s->entries[starts[place]++] = MSM_ENTRY(i, digit < 0);
            continue;
        }
        /* Which digits are in range, no processor foresees. */
        place = place <= buckets ? place : 0;
        const uint32_t at = starts[place];
        starts[place] = at + (place != 0);
        s->entries[at] = MSM_ENTRY(i, digit < 0);
    }
    starts[0] = 0;
}

/* sums[b] = sum of the bases whose digit is first + b, minus those whose digit is -(first + b). Empty buckets become infinity. */
static void C(msm_fill_buckets)(C(msm_scratch) *s, AFFINE *sums, uint32_t first, uint32_t buckets, int whole,
                                const AFFINE *bases, const uint32_t *scalars, uint32_t count, const int16_t *digits) {
    if (whole) {
        C(msm_sort)(s, 0, buckets, scalars, count, digits, 1);
    } else {
        C(msm_sort)(s, first, buckets, scalars, count, digits, 0);
    }
    C(msm_sum_sorted)(s, sums, buckets, bases, s->entries, s->starts);
}

/* sum += factor * point */
static void C(msm_add_multiple)(XYZZ *sum, const XYZZ *point, uint32_t factor) {
    XYZZ multiple;
    C(xyzz_set_infinity)(&multiple);
    for (uint32_t bit = 32; bit-- > 0;) {
        C(xyzz_double)(&multiple, &multiple);
        if (factor >> bit & 1) C(xyzz_add)(&multiple, &multiple, point);
    }
    C(xyzz_add)(sum, sum, &multiple);
}

/* out = sum over i of digits0[i'] * bases[i] + digits1[i'] * phi(bases[i]), where i' = scalars[i], or i when scalars is NULL, over
 * the digits d of part `part` of `parts`: of a window's `buckets` buckets, part * buckets / parts < |d| <= (part + 1) * buckets /
 * parts. |digits| <= buckets; bases went through msm_prepare. */
static void C(msm_window_part)(XYZZ *out, C(msm_scratch) *s, uint32_t buckets, uint32_t part, uint32_t parts,
                               const AFFINE *bases, const uint32_t *scalars, uint32_t count, const int16_t *digits0,
                               const int16_t *digits1) {
    const uint32_t own = buckets / parts, first = part * own;
    C(msm_fill_buckets)(s, s->buckets, first, own, parts == 1, bases, scalars, count, digits0);
    C(msm_fill_buckets)(s, s->second, first, own, parts == 1, bases, scalars, count, digits1);
    C(msm_apply_phi)(s->second + 1, own);
    uint32_t used = 0;
    for (uint32_t b = 1; b <= own; b++) {
        used = C(msm_take)(s, used, &s->buckets[b], b);
        used = C(msm_take)(s, used, &s->second[b], b);
        if (used + 2 > MSM_SLAB) {
            C(msm_sum_operands)(s, s->buckets, used);
            used = 0;
        }
    }
    C(msm_sum_operands)(s, s->buckets, used);
    XYZZ plain;
    C(msm_sum_buckets)(s, out, &plain, own);
    if (first) C(msm_add_multiple)(out, &plain, first);
}

/* Piece `piece` of a window of `buckets` buckets that is cut. */
static void C(msm_piece)(XYZZ *out, C(msm_scratch) *s, uint32_t buckets, const msm_cut *cut, uint32_t piece,
                         const AFFINE *bases, const uint32_t *scalars, uint32_t count, const int16_t *digits0,
                         const int16_t *digits1) {
    const uint32_t range = piece / cut->parts;
    const uint32_t first = (uint32_t)((uint64_t)count * range / cut->ranges);
    const uint32_t end = (uint32_t)((uint64_t)count * (range + 1) / cut->ranges);
    const size_t skipped = scalars ? 0 : first;
    C(msm_window_part)(out, s, buckets, piece % cut->parts, cut->parts, bases + first, scalars ? scalars + first : NULL,
                       end - first, digits0 + skipped, digits1 + skipped);
}

/* out = sum of 2^(bits of the windows below w) * windows[w], where a window is the sum of its `pieces` pieces, which lie one after
 * the other. */
static void C(msm_join_windows)(XYZZ *out, const XYZZ *windows, uint32_t pieces, const msm_plan *plan) {
    XYZZ sum;
    C(xyzz_set_infinity)(&sum);
    for (uint32_t w = plan->windows; w-- > 0;) {
        for (uint32_t i = 0; i < msm_window_bits(plan, w); i++) C(xyzz_double)(&sum, &sum);
        for (uint32_t i = 0; i < pieces; i++) C(xyzz_add)(&sum, &sum, &windows[(size_t)w * pieces + i]);
    }
    *out = sum;
}
