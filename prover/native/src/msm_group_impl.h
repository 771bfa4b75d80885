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

static size_t C(msm_scratch_bytes)(const msm_plan *plan, size_t count) {
    arena a = arena_measure();
    arena_take(&a, MSM_PAIRS * sizeof(C(msm_pair)));
    arena_take(&a, C(msm_shared_bytes)());
    arena_take(&a, MSM_SLAB * sizeof(AFFINE));
    arena_take(&a, MSM_SLAB * sizeof(uint32_t));
    arena_take(&a, MSM_SLAB * sizeof(uint32_t));
    arena_take(&a, (plan->buckets + 1) * sizeof(AFFINE));
    arena_take(&a, (plan->buckets + 1) * sizeof(AFFINE));
    arena_take(&a, MSM_MAX_LINES * sizeof(AFFINE));
    arena_take(&a, (plan->buckets + 2) * sizeof(uint32_t));
    arena_take(&a, msm_entries(count) * sizeof(uint32_t));
    return a.used;
}

static void C(msm_scratch_place)(C(msm_scratch) *s, arena a, const msm_plan *plan, size_t count) {
    s->pairs = arena_take(&a, MSM_PAIRS * sizeof(C(msm_pair)));
    s->shared = arena_take(&a, C(msm_shared_bytes)());
    s->points = arena_take(&a, MSM_SLAB * sizeof(AFFINE));
    s->run_bucket = arena_take(&a, MSM_SLAB * sizeof(uint32_t));
    s->run_length = arena_take(&a, MSM_SLAB * sizeof(uint32_t));
    s->buckets = arena_take(&a, (plan->buckets + 1) * sizeof(AFFINE));
    s->second = arena_take(&a, (plan->buckets + 1) * sizeof(AFFINE));
    s->lines = arena_take(&a, MSM_MAX_LINES * sizeof(AFFINE));
    s->starts = arena_take(&a, (plan->buckets + 2) * sizeof(uint32_t));
    s->entries = arena_take(&a, msm_entries(count) * sizeof(uint32_t));
    s->pairs_count = 0;
    s->seen_infinity = 0;
}

static inline C(msm_pair) *C(msm_push)(C(msm_scratch) *s, AFFINE *sum) {
    C(msm_pair) *pair = &s->pairs[s->pairs_count];
    pair->sum = sum;
    pair->negate_p = pair->negate_q = 0;
    return pair;
}

static inline void C(msm_pushed)(C(msm_scratch) *s) {
    if (++s->pairs_count == MSM_PAIRS) C(msm_flush)(s);
}

/* Sums runs of entries: run i has run_length[i] entries of `entries`, one after the other, and its sum
 * goes to out[run_bucket[i]]. At most MSM_SLAB entries; lengths and buckets are used up. */
static void C(msm_sum_runs)(C(msm_scratch) *s, AFFINE *out, const AFFINE *bases, const uint32_t *entries,
                            uint32_t runs) {
    const AFFINE *source = NULL; /* first round reads bases through entries, later ones s->points */
    do {
        uint32_t next = 0, written = 0, kept = 0;
        for (uint32_t run = 0; run < runs; run++) {
            const uint32_t length = s->run_length[run], bucket = s->run_bucket[run];
            AFFINE *target = length <= 2 ? &out[bucket] : &s->points[written];
            for (uint32_t i = 0; i + 1 < length; i += 2) {
                C(msm_pair) *pair = C(msm_push)(s, target++);
                if (source) {
                    pair->p = source[next];
                    pair->q = source[next + 1];
                } else {
                    __builtin_prefetch(&bases[entries[next + MSM_PREFETCH] >> 1]);
                    __builtin_prefetch(&bases[entries[next + MSM_PREFETCH + 1] >> 1]);
                    pair->p = bases[entries[next] >> 1];
                    pair->q = bases[entries[next + 1] >> 1];
                    pair->negate_p = entries[next] & 1;
                    pair->negate_q = entries[next + 1] & 1;
                }
                next += 2;
                C(msm_pushed)(s);
            }
            if (length & 1) {
                if (source) {
                    *target = source[next];
                } else {
                    *target = bases[entries[next] >> 1];
                    if (entries[next] & 1) C(msm_negate)(target);
                }
                next++;
            }
            if (length > 2) {
                /* The run goes on in the next round with half as many points. Its record moves down
                 * over records that were read. */
                s->run_length[kept] = (length + 1) / 2;
                s->run_bucket[kept] = bucket;
                kept++;
                written += (length + 1) / 2;
            }
        }
        C(msm_flush)(s);
        source = s->points;
        runs = kept;
    } while (runs);
}

/* The sum of each bucket as often as its number, and of each once (plain, or NULL). Two-level bucket sum: with bucket b = high * 2^k + low + 1,
 * sum b * B_b = 2^k * sum high * (sum over low) + sum (low + 1) * (sum over high). */
static void C(msm_sum_buckets)(C(msm_scratch) *s, XYZZ *out, XYZZ *plain, uint32_t buckets) {
    uint32_t low_bits = 0;
    while (((uint32_t)1 << (2 * low_bits)) < buckets) low_bits++;
    const uint32_t lows = 1u << low_bits, highs = buckets >> low_bits;
    XYZZ part[2];
    for (int by_low = 0; by_low < 2; by_low++) {
        const uint32_t lines = by_low ? lows : highs, length = by_low ? highs : lows;
        memset(s->lines, 0, lines * sizeof *s->lines);
        uint32_t line = 0;
        while (line < lines) {
            uint32_t used = 0, runs = 0;
            /* s->entries is free by now and holds at least MSM_SLAB places. */
            for (; line < lines && used + length <= MSM_SLAB; line++) {
                const uint32_t before = used;
                for (uint32_t i = 0; i < length; i++) {
                    const uint32_t bucket = (by_low ? i << low_bits | line : line << low_bits | i) + 1;
                    if (!C(affine_is_infinity)(&s->buckets[bucket])) s->entries[used++] = MSM_ENTRY(bucket, 0);
                }
                if (used == before) continue;
                s->run_bucket[runs] = line;
                s->run_length[runs++] = used - before;
            }
            for (uint32_t i = 0; i < MSM_PREFETCH + 2; i++) s->entries[used + i] = 0;
            C(msm_sum_runs)(s, s->lines, s->buckets, s->entries, runs);
        }
        XYZZ running;
        C(xyzz_set_infinity)(&running);
        C(xyzz_set_infinity)(&part[by_low]);
        for (uint32_t i = lines; i-- > (by_low ? 0u : 1u);) {
            AFFINE sum;
            C(msm_leave)(&sum, &s->lines[i]);
            C(xyzz_add_affine)(&running, &running, &sum);
            C(xyzz_add)(&part[by_low], &part[by_low], &running);
        }
        if (by_low && plain) *plain = running;
    }
    for (uint32_t i = 0; i < low_bits; i++) C(xyzz_double)(&part[0], &part[0]);
    C(xyzz_add)(out, &part[0], &part[1]);
}

/* buckets[b] = sum of entries[ends[b - 1] .. ends[b]) for 1 <= b <= count. Empty buckets become infinity. Entries past the
 * last one are read for prefetching. */
static void C(msm_sum_sorted)(C(msm_scratch) *s, AFFINE *buckets, uint32_t count, const AFFINE *bases,
                              const uint32_t *entries, const uint32_t *ends) {
    const uint32_t total = ends[count];
    memset(buckets, 0, (count + 1) * sizeof *buckets);
    uint32_t bucket = 1, done = ends[0];
    while (done < total) {
        uint32_t runs = 0, used = 0, carried_bucket = 0;
        AFFINE carried;
        while (ends[bucket] == done) bucket++;
        if (!C(affine_is_infinity)(&buckets[bucket])) {
            /* The slab before ended inside this bucket. */
            carried = buckets[bucket];
            carried_bucket = bucket;
        }
        while (done + used < total && used < MSM_SLAB) {
            while (ends[bucket] == done + used) bucket++;
            uint32_t length = ends[bucket] - (done + used);
            if (length > MSM_SLAB - used) length = MSM_SLAB - used;
            s->run_bucket[runs] = bucket;
            s->run_length[runs++] = length;
            used += length;
        }
        C(msm_sum_runs)(s, buckets, bases, entries + done, runs);
        if (carried_bucket) {
            C(msm_pair) *pair = C(msm_push)(s, &buckets[carried_bucket]);
            pair->p = carried;
            pair->q = buckets[carried_bucket];
            C(msm_pushed)(s);
            C(msm_flush)(s);
        }
        done += used;
    }
}

/* buckets[b] = sum of the bases whose digit is b, minus those whose digit is -b. Empty buckets become infinity. */
static void C(msm_fill_buckets)(C(msm_scratch) *s, AFFINE *buckets, const msm_plan *plan, const AFFINE *bases,
                                const uint32_t *scalars, uint32_t count, const int16_t *digits) {
    uint32_t *starts = s->starts;
    memset(starts, 0, (plan->buckets + 2) * sizeof *starts);
    for (uint32_t i = 0; i < count; i++) {
        const int32_t digit = digits[scalars ? scalars[i] : i];
        starts[(digit < 0 ? -digit : digit) + 1]++;
    }
    /* Digit 0 adds nothing: its entries get no place. */
    starts[1] = 0;
    for (uint32_t b = 1; b <= plan->buckets; b++) starts[b + 1] += starts[b];
    const uint32_t total = starts[plan->buckets + 1];
    for (uint32_t i = 0; i < count; i++) {
        const int32_t digit = digits[scalars ? scalars[i] : i];
        if (digit) s->entries[starts[digit < 0 ? -digit : digit]++] = MSM_ENTRY(i, digit < 0);
    }
    for (uint32_t i = 0; i < MSM_PREFETCH + 2; i++) s->entries[total + i] = 0;
    /* Now starts[b] is the end of bucket b. */
    C(msm_sum_sorted)(s, buckets, plan->buckets, bases, s->entries, starts);
}

/* out = sum over i of digits0[i'] * bases[i] + digits1[i'] * phi(bases[i]), where i' = scalars[i], or i when
 * scalars is NULL. |digits| <= plan->buckets; bases went through msm_prepare. */
static void C(msm_window)(XYZZ *out, C(msm_scratch) *s, const msm_plan *plan, const AFFINE *bases,
                          const uint32_t *scalars, uint32_t count, const int16_t *digits0,
                          const int16_t *digits1) {
    C(msm_fill_buckets)(s, s->buckets, plan, bases, scalars, count, digits0);
    C(msm_fill_buckets)(s, s->second, plan, bases, scalars, count, digits1);
    for (uint32_t b = 1; b <= plan->buckets; b++) {
        if (C(affine_is_infinity)(&s->second[b])) continue;
        MSM_SCALE(&s->second[b].x, &s->second[b].x, &MSM_BETA);
        if (C(affine_is_infinity)(&s->buckets[b])) {
            s->buckets[b] = s->second[b];
            continue;
        }
        C(msm_pair) *pair = C(msm_push)(s, &s->buckets[b]);
        pair->p = s->buckets[b];
        pair->q = s->second[b];
        C(msm_pushed)(s);
    }
    C(msm_flush)(s);
    C(msm_sum_buckets)(s, out, NULL, plan->buckets);
}

/* out = sum of 2^(w * window_bits) * windows[w], affine. */
static void C(msm_join_windows)(XYZZ *out, const XYZZ *windows, const msm_plan *plan) {
    XYZZ sum = windows[plan->windows - 1];
    for (uint32_t w = plan->windows - 1; w-- > 0;) {
        for (uint32_t i = 0; i < plan->window_bits; i++) C(xyzz_double)(&sum, &sum);
        C(xyzz_add)(&sum, &sum, &windows[w]);
    }
    *out = sum;
}
