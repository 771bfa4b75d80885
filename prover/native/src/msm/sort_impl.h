/* msm/sort_impl.h - sorts entries by bucket, once for all lists of bases that share the scalars; included by msm/sums_impl.h.
 *
 * Scalars are grouped, and a list of bases is one or two runs of groups (key/wire_groups.h). Within a bucket the entries keep the
 * order of the groups, so that the entries of a list are one or two contiguous runs.
 */
#ifndef G16_MSM_SORT_IMPL_H
#define G16_MSM_SORT_IMPL_H

/* Digits of one half of scalars in all windows of a set: those of shift j start at digits[j * stride]. */
typedef struct msm_sort_digits {
    const void *digits;
    int wide; /* digits are int32_t; otherwise int16_t */
    size_t stride;
    uint32_t shifts, number_bits; /* an entry's number is shift << number_bits | position */
    const uint32_t *scalars;      /* scalar of each position; NULL: the position itself */
    const uint32_t *ends;         /* group g has positions ends[g - 1] .. ends[g] - 1 */
    uint32_t groups;
} msm_sort_digits;

/* The entries of a list of bases: those of bucket b + 1 are entries[firsts[b] .. ends[b]), and of those only share `share` of
 * `shares`. */
typedef struct msm_run {
    const void *bases; /* points of G1 or G2 in the stored representation */
    const uint32_t *entries, *firsts, *ends;
    const uint32_t *places; /* index of the base of a position; NULL: position + place modulo 2^32 */
    uint32_t place, number_bits;
    size_t width; /* bases per shift; 0: one shift only */
    uint32_t share, shares;
} msm_run;

/* The sorted entries of both halves of a set. */
#define MSM_RUNS_MAX 3
typedef struct msm_halves {
    msm_run runs[2][MSM_RUNS_MAX];
    uint32_t count; /* runs of each half */
} msm_halves;

/* Sorted entries of the halves of several sets. */
typedef struct msm_sorted {
    uint32_t *entries, *bounds;
    size_t entries_stride, row, bounds_stride; /* strides: of a half's entries; of a group's bounds; of a half's bounds */
} msm_sorted;

/* Entries are read in groups of this size, beyond the last one. */
#define MSM_ENTRIES_PADDING MSM_OWNERS_STEP

/* Allocates memory for both halves of `count` scalars in `sets` sets. */
static void msm_lay_out_sorted(msm_sorted *sorted, arena *a, const msm_plan *plan, size_t sets, size_t count, uint32_t groups) {
    sorted->entries_stride = msm_plan_shifts(plan) * count + MSM_ENTRIES_PADDING;
    sorted->row = (size_t)plan->buckets + 2;
    sorted->bounds_stride = (groups + 1) * sorted->row;
    sorted->entries = arena_take(a, 2 * sets * sorted->entries_stride * sizeof *sorted->entries);
    sorted->bounds = arena_take(a, 2 * sets * sorted->bounds_stride * sizeof *sorted->bounds);
}

static inline __attribute__((always_inline)) int32_t msm_digit(const void *digits, size_t i, const int wide) {
    return wide ? ((const int32_t *)digits)[i] : ((const int16_t *)digits)[i];
}

static inline __attribute__((always_inline)) const void *msm_shift_digits(const msm_sort_digits *in, uint32_t shift, const int wide) {
    return (const uint8_t *)in->digits + shift * in->stride * (wide ? sizeof(int32_t) : sizeof(int16_t));
}

static inline __attribute__((always_inline)) void msm_sort_entries_kind(const msm_sorted *sorted, size_t half, uint32_t buckets,
                                                                     const msm_sort_digits *in, const int wide) {
    uint32_t *entries = sorted->entries + half * sorted->entries_stride;
    uint32_t *bounds = sorted->bounds + half * sorted->bounds_stride;
    uint32_t *next = bounds + in->groups * sorted->row;
    const uint32_t count = in->groups ? in->ends[in->groups - 1] : 0, number_bits = in->number_bits;
    const uint32_t *const scalars = in->scalars;
    memset(next, 0, (buckets + 2) * sizeof *next);
    for (uint32_t shift = 0; shift < in->shifts; shift++) {
        const void *digits = msm_shift_digits(in, shift, wide);
        for (uint32_t i = 0; i < count; i++) next[msm_magnitude(msm_digit(digits, scalars ? scalars[i] : i, wide)) + 1]++;
    }
    /* Digit 0 contributes nothing: its entries get no position. */
    next[1] = 0;
    for (uint32_t b = 1; b <= buckets; b++) next[b + 1] += next[b];
    memset(entries + next[buckets + 1], 0, MSM_ENTRIES_PADDING * sizeof *entries);
    for (uint32_t g = 0, first = 0; g < in->groups; first = in->ends[g++]) {
        memcpy(bounds + g * sorted->row, next, (buckets + 2) * sizeof *next);
        for (uint32_t shift = 0; shift < in->shifts; shift++) {
            const void *digits = msm_shift_digits(in, shift, wide);
            for (uint32_t i = first, end = in->ends[g]; i < end; i++) {
                const int32_t digit = msm_digit(digits, scalars ? scalars[i] : i, wide);
                if (digit) entries[next[msm_magnitude(digit)]++] = MSM_ENTRY(shift << number_bits | i, digit < 0);
            }
        }
    }
}

/* Sorts the entries of a half of a set with `buckets` buckets, number 2 * set + half, by a stable counting sort. In bucket b the
 * entries of group g start at bounds[g * row + b], and the last ones end at bounds[groups * row + b]. */
static void msm_sort_entries(const msm_sorted *sorted, size_t half, uint32_t buckets, const msm_sort_digits *in) {
    if (in->wide) {
        msm_sort_entries_kind(sorted, half, buckets, in, 1);
    } else {
        msm_sort_entries_kind(sorted, half, buckets, in, 0);
    }
}

/* Describes the digits of half `half` % 2 of `count` scalars in set `half` / 2, without their groups. */
static msm_sort_digits msm_half_digits(const void *digits, const msm_plan *plan, size_t count, uint32_t half) {
    msm_sort_digits in = {0};
    in.wide = msm_plan_is_wide(plan);
    in.digits = (const uint8_t *)digits + (size_t)half * count * msm_digit_bytes(plan);
    in.stride = 2 * (size_t)plan->sets * count;
    in.shifts = msm_plan_shifts(plan);
    in.number_bits = msm_number_bits(count);
    return in;
}

/* Bases of a list, in the stored representation; with a table the number of them, else 0. */
typedef struct msm_bases {
    const void *points;
    size_t width;
} msm_bases;

/* Returns the entries of groups [first, end) in a half, from bucket `skipped` + 1 on. `scalars`: the count of msm_half_digits(). */
static msm_run msm_run_of(msm_bases bases, const msm_sorted *sorted, size_t scalars, size_t half, uint32_t skipped, uint32_t first,
                          uint32_t end, const uint32_t *places, uint32_t place) {
    const uint32_t *bounds = sorted->bounds + half * sorted->bounds_stride + 1 + skipped;
    return (msm_run){bases.points, sorted->entries + half * sorted->entries_stride, bounds + first * sorted->row,
                     bounds + end * sorted->row, places, place, msm_number_bits(scalars), bases.width, 0, 1};
}

#endif
