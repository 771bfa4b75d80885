/* msm/cut.h - how a bucket set of a multi-scalar multiplication is divided between threads.
 *
 * The choice affects speed only: every one gives the same sum.
 */
#ifndef G16_MSM_CUT_H
#define G16_MSM_CUT_H

#include "msm/plan.h"

/* Pieces of a set that are summed separately: ranges of points, each with its own buckets, times parts of the buckets. Without
 * sorted entries a part reads the digits of all points of its range; with sorted entries there is one range. */
typedef struct msm_cut {
    uint32_t ranges, parts; /* parts: a power of two */
} msm_cut;

#define MSM_MAX_RANGES 32
#define MSM_MAX_PARTS 16
/* Minimum pieces of all sets with tables, so that threads finish at about the same time. */
#define MSM_MIN_PIECES 6
/* Maximum points of a piece, unless MSM_MAX_RANGES or MSM_MAX_PARTS prevent it. It limits a worker's memory and the time that a
 * cancelled proof continues. */
#ifndef MSM_PIECE_POINTS
#define MSM_PIECE_POINTS ((uint64_t)1 << 20)
#endif
/* Costs in additions: skipping a summand of another part, and one line of the two-level bucket sum. */
#define MSM_PASSED_COST 0.03
#define MSM_LINE_COST 8

static inline uint32_t msm_cut_pieces(const msm_cut *cut) { return cut->ranges * cut->parts; }

/* Returns the cost of one set of `count` entries of each half, divided by `cut`, in additions. */
static inline double msm_cut_cost(const msm_cut *cut, const msm_plan *plan, uint64_t count, int sorted) {
    const uint32_t buckets = plan->buckets / cut->parts;
    uint32_t lines = 2;
    while (lines / 2 * (lines / 2) < buckets) lines *= 2;
    const double passed = sorted ? 0 : MSM_PASSED_COST * (cut->parts - 1);
    return 2.0 * (double)count * (1 + passed) + MSM_BUCKET_COST * cut->ranges * plan->buckets +
           (double)MSM_LINE_COST * msm_cut_pieces(cut) * lines;
}

/* Returns the cut with the fewest pieces of `count` entries; those of wide windows, and those with tables, are sorted. */
static inline msm_cut msm_cut_least(const msm_plan *plan, uint64_t count, int sorted) {
    msm_cut least = {1, 1};
    while (least.parts * MSM_PART_BUCKETS < plan->buckets) least.parts *= 2;
    while (!sorted && least.ranges < MSM_MAX_RANGES && least.ranges * MSM_PIECE_POINTS < count) least.ranges++;
    while (sorted && least.parts * plan->sets < MSM_MIN_PIECES && 8 * least.parts < 1u << plan->bits) least.parts *= 2;
    while (sorted && 2 * least.parts <= MSM_MAX_PARTS && 8 * least.parts < 1u << plan->bits && least.parts * MSM_PIECE_POINTS < count) {
        least.parts *= 2;
    }
    return least;
}

/* Returns the maximum number of points in a range of `count` points. */
static inline uint64_t msm_cut_range(const msm_cut *cut, uint64_t count) { return (count + cut->ranges - 1) / cut->ranges; }

/* Returns the cut that minimises the time of a sum on `threads` threads: its share of all threads' time, plus `wait` times the
 * time of one piece, because some threads are idle that long at the end. One or two threads sum whole sets where these are not
 * too large. sorted: entries are sorted first. */
static inline msm_cut msm_cut_for(const msm_plan *plan, uint64_t count, uint32_t threads, double wait, int sorted) {
    const msm_cut least = msm_cut_least(plan, count, sorted);
    msm_cut best = least;
    double best_time = 0;
    const uint32_t max_ranges = sorted ? 1 : MSM_MAX_RANGES;
    if (threads <= 2) return best;
    for (uint32_t parts = least.parts; parts <= MSM_MAX_PARTS && 4 * parts < 1u << plan->bits; parts *= 2) {
        for (uint32_t ranges = least.ranges; ranges <= max_ranges && ranges <= count; ranges++) {
            const msm_cut cut = {ranges, parts};
            const double time = msm_cut_cost(&cut, plan, count, sorted) * ((double)plan->sets / threads + wait / msm_cut_pieces(&cut));
            if (best_time != 0 && time >= best_time) continue;
            best = cut;
            best_time = time;
        }
    }
    return best;
}

#endif
