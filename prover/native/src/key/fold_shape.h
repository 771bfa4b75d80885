/* key/fold_shape.h - the points where a proof under a folded key evaluates the quotient (docs/explanation/folded-keys.md).
 *
 * Of the coset psi * omega^j of a domain of n points, as many as the constraints need: those whose j, bit-reversed, is below
 * `points`. They form whole smaller cosets, one per set bit of `points`: part i contains psi * omega^(residue + t * n / 2^log2)
 * for t < 2^log2.
 */
#ifndef G16_KEY_FOLD_SHAPE_H
#define G16_KEY_FOLD_SHAPE_H

#include <stddef.h>
#include <stdint.h>

#define FOLD_MAX_PARTS 5
/* A multiplication of a point takes as long as this many bytes of a table. */
#define FOLD_WORK_BYTES 300

typedef struct fold_part {
    uint32_t log2, residue, first; /* first: index of t = 0 in the list of all points */
} fold_part;

typedef struct fold_shape {
    uint32_t points, parts_count;
    fold_part parts[FOLD_MAX_PARTS];
} fold_shape;

/* Returns at least constraints - 1 points, in steps of n / 32; all n when less than a sixteenth would be saved. */
static inline fold_shape fold_shape_for(uint32_t constraints, uint32_t log2) {
    const uint32_t n = (uint32_t)1 << log2, step = n > 32 ? n / 32 : 1;
    fold_shape shape = {0, 0, {{0, 0, 0}}};
    uint32_t points = (constraints - 1 + step - 1) / step * step;
    if (points < n / 2) points = n / 2;
    if (points == 0 || points > n - n / 16) points = n;
    shape.points = points;
    uint32_t residue = 0, first = 0;
    for (uint32_t depth = 0; first < points; depth++) {
        const uint32_t size = n >> depth;
        if (!(points & size)) continue;
        /* The even branch of the remaining points, or, at depth 0, all of them. */
        shape.parts[shape.parts_count++] = (fold_part){log2 - depth, residue, first};
        first += size;
        if (depth > 0) residue += (uint32_t)1 << (depth - 1);
    }
    return shape;
}

/* Estimates the number of multiplications of points that the bases need, for progress. */
static inline uint64_t fold_work(const fold_shape *shape, uint32_t log2) {
    const uint64_t n = (uint64_t)1 << log2, transform = n / 2 * log2;
    if (shape->points == n) return 2 * transform + 2 * n;
    uint64_t work = 3 * transform + 2 * n;
    for (uint32_t i = 0; i < shape->parts_count; i++) {
        const uint64_t size = (uint64_t)1 << shape->parts[i].log2;
        work += size * (shape->parts[i].log2 + 1 + shape->parts_count) + n;
    }
    return work;
}

#endif
