/* msm/group_impl.h - one bucket set of a multi-scalar multiplication; included once per group.
 *
 * Pippenger's bucket method with affine buckets. The entries of a set, which is one window unless there are tables, are sorted by
 * digit. Each run of equal digits is summed as a binary tree; all additions of one tree level share a field inversion (Montgomery's
 * trick), so an addition costs five products and a square in Fp, and less than that of Fp2 in G2. Runs are processed in slabs, so that
 * the points of the trees stay in the second-level cache for any number of scalars.
 *
 * The two halves of the scalars have separate buckets, so that phi is applied once per bucket: bucket sum = sum of half 0 +
 * phi(sum of half 1). Sums of windows in local variables are wiped (docs/explanation/blinding.md).
 *
 * The including header defines the macros of curve/group_impl.h, MSM_BETA and MSM_SCALE(r, a, b), and includes one of
 * msm/scalar_impl.h and msm/vector_impl.h before this file. Those define the stored representation of points and add pairs.
 */

/* count: entries that the worker sorts itself; those of wide windows are sorted before. */
static size_t C(msm_scratch_arrays)(C(msm_scratch) *s, arena a, const msm_plan *plan, size_t count) {
    const uint32_t buckets = plan->buckets < MSM_PART_BUCKETS ? plan->buckets : MSM_PART_BUCKETS;
    s->operands = arena_take(&a, (MSM_SLAB + MSM_OWNERS_STEP) * sizeof *s->operands);
    s->owners = arena_take(&a, (MSM_SLAB + MSM_OWNERS_PADDING) * sizeof *s->owners);
    s->p = arena_take(&a, (MSM_SLAB / 2 + MSM_PAIRS_PADDING) * sizeof *s->p);
    s->q = arena_take(&a, (MSM_SLAB / 2 + MSM_PAIRS_PADDING) * sizeof *s->q);
    s->shared = arena_take(&a, C(msm_shared_bytes)());
    s->points = arena_take(&a, (MSM_SLAB + MSM_PAIRS_PADDING) * sizeof *s->points);
    s->buckets = arena_take(&a, (buckets + 1) * sizeof *s->buckets);
    s->second = arena_take(&a, (buckets + 1) * sizeof *s->second);
    s->lines = arena_take(&a, 2 * MSM_MAX_LINES * sizeof *s->lines);
    s->starts = arena_take(&a, (buckets + 2) * sizeof *s->starts);
    s->entries = arena_take(&a, (count + MSM_ENTRIES_PADDING) * sizeof *s->entries);
    s->seen_infinity = 0;
    return a.used;
}

static size_t C(msm_scratch_bytes)(const msm_plan *plan, size_t count) {
    C(msm_scratch) s;
    return C(msm_scratch_arrays)(&s, arena_measure(), plan, count);
}

static void C(msm_scratch_lay_out)(C(msm_scratch) *s, arena a, const msm_plan *plan, size_t count) {
    C(msm_scratch_arrays)(s, a, plan, count);
}

static inline C(msm_operand) C(msm_operand_of)(const AFFINE *bases, size_t place, uint32_t negative) {
    return ((C(msm_operand))bases + (C(msm_operand))place * sizeof *bases) | negative;
}

/* Sums the `count` operands (at most MSM_SLAB) in s->operands that have the same owner; out[owner] becomes their sum. */
static void C(msm_sum_operands)(C(msm_scratch) *s, AFFINE *out, uint32_t count) {
    AFFINE *sums = s->points;
    uint32_t pairs;
    s->seen_infinity = 0;
    s->operands[count] = 0;
    for (;;) {
        count = C(msm_pair_up)(s, count, sums, &pairs);
        if (pairs == 0) break;
        /* Batches of equal size, about MSM_PAIRS. */
        uint32_t batches = (pairs + MSM_PAIRS / 2) / MSM_PAIRS;
        for (uint32_t first = 0; first < pairs;) {
            uint32_t size = batches > 1 ? (pairs - first) / batches & ~(uint32_t)7 : pairs - first;
            C(msm_add_pairs)(s, sums + first, s->p + first, s->q + first, size, pairs - first - size);
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

/* Appends a point, unless it is infinity, as operand number `used`; returns the new number of operands. */
static inline uint32_t C(msm_append)(C(msm_scratch) *s, uint32_t used, const AFFINE *point, uint32_t owner) {
    s->operands[used] = (C(msm_operand))point;
    s->owners[used] = owner;
    return used + !C(affine_is_infinity)(point);
}

/* Appends the lines with bit `bit` in their number, or all lines if `bit` is negative; returns the new number of operands. */
static uint32_t C(msm_append_lines)(C(msm_scratch) *s, uint32_t used, const AFFINE *lines, uint32_t count, int bit, uint32_t owner) {
    for (uint32_t i = 0; i < count; i++) {
        if (bit < 0 || i >> bit & 1) used = C(msm_append)(s, used, &lines[i], owner);
    }
    return used;
}

/* out = sum of b * buckets[b], plain = sum of buckets[b]. Two-level bucket sum: with b = high * 2^k + low + 1, sum b * B_b = 2^k
 * * sum high * (sum over low) + sum low * (sum over high) + sum B_b. A line is a sum over low or over high. The sum of number times
 * line is that of 2^j times the sum of the lines with bit j in their number. */
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
        for (uint32_t i = 0; i < length; i++) used = C(msm_append)(s, used, bucket + (size_t)i * step, line);
    }
    C(msm_sum_operands)(s, s->lines, used);
    /* Sums of lines by bit of b - 1, from the lowest, and the sum of all lines. */
    AFFINE sums[2 * MSM_LINE_BITS + 1], sum;
    uint32_t bits = 0;
    memset(sums, 0, sizeof sums);
    used = 0;
    for (uint32_t bit = 0; bit < low_bits; bit++) used = C(msm_append_lines)(s, used, s->lines + highs, lows, (int)bit, bits++);
    for (uint32_t bit = 0; highs >> bit > 1; bit++) used = C(msm_append_lines)(s, used, s->lines, highs, (int)bit, bits++);
    used = C(msm_append_lines)(s, used, s->lines + highs, lows, -1, bits);
    C(msm_sum_operands)(s, sums, used);
    C(xyzz_set_infinity)(out);
    for (uint32_t bit = bits; bit-- > 0;) {
        C(xyzz_double)(out, out);
        C(msm_from_stored)(&sum, &sums[bit]);
        C(xyzz_add_affine)(out, out, &sum);
    }
    C(msm_from_stored)(&sum, &sums[bits]);
    C(xyzz_from_affine)(plain, &sum);
    C(xyzz_add)(out, out, plain);
    os_random_wipe(sums, sizeof sums);
    os_random_wipe(&sum, sizeof sum);
}

/* Kinds of runs; each has its own specialised loop. */
#define MSM_RUN_PLACES 1
#define MSM_RUN_SHIFTS 2

static inline __attribute__((always_inline)) void C(msm_append_run_kind)(C(msm_operand) *restrict operands, uint32_t *restrict owners,
                                                                  const msm_run *run, const uint32_t *restrict entries,
                                                                  uint32_t count, uint32_t owner, const int kind) {
    const AFFINE *const bases = run->bases;
    const uint32_t *const places = run->places;
    const uint32_t bits = run->number_bits, first = run->place;
    const size_t width = run->width;
    /* Writes past `count`; the next bucket overwrites that, or it is never read. */
    for (uint32_t i = 0; i < count; i += MSM_OWNERS_STEP) {
        for (uint32_t j = 0; j < MSM_OWNERS_STEP; j++) {
            const uint32_t number = entries[i + j] >> 1, position = kind & MSM_RUN_SHIFTS ? number & ((1u << bits) - 1) : number;
            size_t place = kind & MSM_RUN_PLACES ? places[position] : position + first;
            if (kind & MSM_RUN_SHIFTS) place += (number >> bits) * width;
            operands[i + j] = C(msm_operand_of)(bases, place, entries[i + j] & 1);
        }
        for (uint32_t j = 0; j < MSM_OWNERS_STEP; j++) owners[i + j] = owner;
    }
}

/* Appends `count` entries of a run, from operand number `used` on, with the given owner. */
static inline void C(msm_append_run)(C(msm_scratch) *s, uint32_t used, const msm_run *run, const uint32_t *entries, uint32_t count,
                              uint32_t owner) {
    C(msm_operand) *operands = s->operands + used;
    uint32_t *owners = s->owners + used;
    if (run->width) {
        if (run->places) {
            C(msm_append_run_kind)(operands, owners, run, entries, count, owner, MSM_RUN_PLACES | MSM_RUN_SHIFTS);
        } else {
            C(msm_append_run_kind)(operands, owners, run, entries, count, owner, MSM_RUN_SHIFTS);
        }
    } else if (run->places) {
        C(msm_append_run_kind)(operands, owners, run, entries, count, owner, MSM_RUN_PLACES);
    } else {
        C(msm_append_run_kind)(operands, owners, run, entries, count, owner, 0);
    }
}

#undef MSM_RUN_PLACES
#undef MSM_RUN_SHIFTS

/* buckets[b] = sum of the entries of bucket b in all runs, for 1 <= b <= count. Empty buckets become infinity. */
static void C(msm_sum_runs)(C(msm_scratch) *s, AFFINE *buckets, uint32_t count, const msm_run *runs, uint32_t runs_count) {
    uint32_t used = 0;
    memset(buckets, 0, (count + 1) * sizeof *buckets);
    for (uint32_t b = 1; b <= count; b++) {
        for (uint32_t r = 0; r < runs_count; r++) {
            const msm_run *run = &runs[r];
            uint32_t at = run->firsts[b - 1], end = run->ends[b - 1];
            if (run->shares > 1) {
                const uint64_t length = end - at;
                end = at + (uint32_t)(length * (run->share + 1) / run->shares);
                at += (uint32_t)(length * run->share / run->shares);
            }
            while (at < end) {
                const uint32_t size = end - at < MSM_SLAB - used ? end - at : MSM_SLAB - used;
                C(msm_append_run)(s, used, run, run->entries + at, size, b);
                used += size;
                at += size;
                if (used < MSM_SLAB) continue;
                C(msm_sum_operands)(s, buckets, used);
                used = C(msm_append)(s, 0, &buckets[b], b); /* the bucket may have more entries */
            }
        }
    }
    C(msm_sum_operands)(s, buckets, used);
}

/* Sorts the entries of bases whose digit d has first < |d| <= first + buckets by b = |d| - first; those of b end at s->starts[b].
 * whole: there are no other digits. */
static inline __attribute__((always_inline)) void C(msm_sort)(C(msm_scratch) *s, uint32_t first, uint32_t buckets,
                                                              uint32_t count, const int16_t *digits, const int whole) {
    uint32_t *starts = s->starts;
    memset(starts, 0, (buckets + 2) * sizeof *starts);
    for (uint32_t i = 0; i < count; i++) {
        uint32_t place = msm_magnitude(digits[i]) - (whole ? 0 : first);
        if (!whole) place = place <= buckets ? place : 0;
        starts[place + 1]++;
    }
    /* Index 0 and digit 0 contribute nothing: their entries get no position. */
    starts[1] = 0;
    for (uint32_t b = 1; b <= buckets; b++) starts[b + 1] += starts[b];
    if (!whole) starts[0] = starts[buckets + 1]; /* a dummy position, which is overwritten; it exists if any entry is omitted */
    for (uint32_t i = 0; i < count; i++) {
        const int32_t digit = digits[i];
        uint32_t place = msm_magnitude(digit) - (whole ? 0 : first);
        if (whole) {
            if (digit) s->entries[starts[place]++] = MSM_ENTRY(i, digit < 0);
            continue;
        }
        /* Without a branch: it would be mispredicted. */
        place = place <= buckets ? place : 0;
        const uint32_t at = starts[place];
        starts[place] = at + (place != 0);
        s->entries[at] = MSM_ENTRY(i, digit < 0);
    }
    starts[0] = 0;
}

/* Bases with digits of both halves that are not sorted: sums of one window. */
typedef struct C(msm_unsorted) {
    const AFFINE *bases;
    const int16_t *digits[2];
    uint32_t count;
} C(msm_unsorted);

/* Sorts the digits of one half, those of buckets first + 1 .. first + buckets; the run is valid until the next call. */
static msm_run C(msm_sort_half)(C(msm_scratch) *s, const C(msm_unsorted) *unsorted, int half, uint32_t first, uint32_t buckets,
                                int whole) {
    if (whole) {
        C(msm_sort)(s, 0, buckets, unsorted->count, unsorted->digits[half], 1);
    } else {
        C(msm_sort)(s, first, buckets, unsorted->count, unsorted->digits[half], 0);
    }
    return (msm_run){unsorted->bases, s->entries, s->starts, s->starts + 1, NULL, 0, 0, 0, 0, 1};
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
    os_random_wipe(&multiple, sizeof multiple);
}

/* out = sum of (first + b) * (s->buckets[b] + phi(s->second[b])) for 1 <= b <= count. */
static void C(msm_join_halves)(XYZZ *out, C(msm_scratch) *s, uint32_t first, uint32_t count) {
    C(msm_apply_phi)(s->second + 1, count);
    uint32_t used = 0;
    for (uint32_t b = 1; b <= count; b++) {
        used = C(msm_append)(s, used, &s->buckets[b], b);
        used = C(msm_append)(s, used, &s->second[b], b);
        if (used + 2 > MSM_SLAB) {
            C(msm_sum_operands)(s, s->buckets, used);
            used = 0;
        }
    }
    C(msm_sum_operands)(s, s->buckets, used);
    XYZZ plain;
    C(msm_sum_buckets)(s, out, &plain, count);
    if (first) C(msm_add_multiple)(out, &plain, first);
    os_random_wipe(&plain, sizeof plain);
}

/* out = sum of d * base over all entries with digit d of half 0, plus that of phi(base) over those of half 1, restricted to part
 * `part` of `parts` of the set's buckets: part * buckets / parts < |d| <= (part + 1) * buckets / parts. Sorted entries start at
 * the first bucket of the part; digits of unsorted ones are at most `buckets`. Either may be NULL. */
static void C(msm_part)(XYZZ *out, C(msm_scratch) *s, uint32_t buckets, uint32_t part, uint32_t parts, const msm_halves *sorted,
                        const C(msm_unsorted) *unsorted) {
    const uint32_t own = buckets / parts, first = part * own;
    for (int half = 0; half < 2; half++) {
        msm_run runs[MSM_RUNS_MAX + 1];
        uint32_t count = sorted ? sorted->count : 0;
        if (sorted) memcpy(runs, sorted->runs[half], count * sizeof *runs);
        if (unsorted) runs[count++] = C(msm_sort_half)(s, unsorted, half, first, own, parts == 1);
        C(msm_sum_runs)(s, half ? s->second : s->buckets, own, runs, count);
    }
    C(msm_join_halves)(out, s, first, own);
}

/* Sums piece `piece` of a set with `buckets` buckets: a range of the unsorted entries, and an equal share of the sorted ones. */
static inline void C(msm_piece)(XYZZ *out, C(msm_scratch) *s, uint32_t buckets, const msm_cut *cut, uint32_t piece,
                                const msm_halves *sorted, const C(msm_unsorted) *unsorted) {
    const uint32_t range = piece / cut->parts;
    const uint32_t first = (uint32_t)((uint64_t)unsorted->count * range / cut->ranges);
    const uint32_t end = (uint32_t)((uint64_t)unsorted->count * (range + 1) / cut->ranges);
    const C(msm_unsorted) own = {unsorted->bases + first, {unsorted->digits[0] + first, unsorted->digits[1] + first}, end - first};
    msm_halves share = {.count = 0};
    if (sorted) share = *sorted;
    for (uint32_t i = 0; i < share.count; i++) {
        for (int half = 0; half < 2; half++) share.runs[half][i].share = range, share.runs[half][i].shares = cut->ranges;
    }
    C(msm_part)(out, s, buckets, piece % cut->parts, cut->parts, &share, &own);
}

/* out = sum of 2^(bits of the sets below k) * sets[k], where a set is the sum of `pieces` consecutive points. */
static void C(msm_join_sets)(XYZZ *out, const XYZZ *sets, uint32_t pieces, const msm_plan *plan) {
    C(xyzz_set_infinity)(out);
    for (uint32_t k = plan->sets; k-- > 0;) {
        for (uint32_t i = 0; i < msm_set_bits(plan, k); i++) C(xyzz_double)(out, out);
        for (uint32_t i = 0; i < pieces; i++) C(xyzz_add)(out, out, &sets[(size_t)k * pieces + i]);
    }
}
