/* device_lists.h - lists of points of G1, each times a scalar of its own, and transforms of lists; for the folding of keys.
 *
 * Points are affine between the steps, so that a multiplication adds affine points. The orders and the table of roots are those of
 * device_ntt.h and of the host's fold_transform_impl.h.
 */
#ifndef G16_DEVICE_LISTS_H
#define G16_DEVICE_LISTS_H

#include "device_endomorphism.h"
#include "device_normal.h"

#define LISTS_THREADS 128
#define LISTS_PIECE ((uint64_t)1 << 19) /* multiplications of one launch */
#define LISTS_MIN_PIECE ((uint64_t)1 << 8)

typedef struct lists_memory {
    uint64_t piece;
    uint32_t log2;
    g1_affine *points; /* 2^log2 */
    fr *roots;         /* 2^log2 */
    fr *scalars;       /* of a piece */
    g1_xyzz *sums;     /* two for each of a piece */
    fp *prefixes;
} lists_memory;

typedef struct lists_arguments {
    const g1_affine *points;
    const fr *scalars; /* or the table of roots */
    g1_xyzz *sums;
    uint64_t first, count; /* pairs, or points from points[0] on */
    uint32_t half_log2, forward;
} lists_arguments;

/* ---- multiplications ------------------------------------------------------------------------------- */

/* r = scalar * point: by the endomorphism two halves of a scalar share the doublings, and the three sums of point and image that
 * occur are affine at no cost: (x, y), (beta x, y), and both together (beta^2 x, -y). */
DEVICE void lists_multiply(g1_xyzz *r, const g1_affine *point, const fr *scalar) {
    const fp beta = ENDOMORPHISM_BETA;
    uint32_t first[ENDOMORPHISM_LIMBS], second[ENDOMORPHISM_LIMBS];
    fp image, both, minus;
    g1_xyzz sum;
    endomorphism_split(first, second, scalar);
    fp_mul(&image, &point->x, &beta);
    fp_mul(&both, &image, &beta);
    fp_neg(&minus, &point->y);
    g1_xyzz_set_infinity(&sum);
    for (int bit = 32 * ENDOMORPHISM_LIMBS - 1; bit >= 0; bit--) {
        const uint32_t one = (first[bit / 32] >> (bit % 32)) & 1, other = (second[bit / 32] >> (bit % 32)) & 1;
        g1_xyzz_double(&sum, &sum);
        if (!(one | other)) continue;
        g1_affine line;
        line.x = !other ? point->x : one ? both : image;
        line.y = one & other ? minus : point->y;
        g1_xyzz_add_affine(&sum, &sum, &line);
    }
    *r = sum;
}

DEVICE void lists_scale(grid_place place, const lists_arguments *arguments, void *shared, uint32_t phase) {
    const uint64_t i = device_index(place);
    (void)shared;
    (void)phase;
    if (i >= arguments->count) return;
    const g1_affine point = arguments->points[i];
    const fr scalar = arguments->scalars[i];
    g1_xyzz sum;
    lists_multiply(&sum, &point, &scalar);
    arguments->sums[i] = sum;
}
KERNEL(lists_scale, lists_arguments, LISTS_THREADS, 3, 1)

/* The place of -1 / table[block], block > 0. */
DEVICE uint64_t lists_negated_inverse(uint64_t block) {
    uint64_t segment = 1;
    while (segment <= block >> 1) segment <<= 1;
    return 3 * segment - 1 - block;
}

/* The upper point of each pair times the factor of its block: 1 for block 0 forward, and -1 backward, where all factors are negated. */
DEVICE void lists_turn(grid_place place, const lists_arguments *arguments, void *shared, uint32_t phase) {
    const uint64_t i = device_index(place), pair = arguments->first + i, block = pair >> arguments->half_log2;
    (void)shared;
    (void)phase;
    if (i >= arguments->count) return;
    const g1_affine point = arguments->points[normal_place(pair, NORMAL_UPPER, arguments->half_log2)];
    g1_xyzz sum;
    if (block == 0) {
        g1_xyzz_from_affine(&sum, &point);
        if (!arguments->forward) g1_xyzz_neg(&sum, &sum);
    } else {
        const fr factor = arguments->scalars[arguments->forward ? block : lists_negated_inverse(block)];
        lists_multiply(&sum, &point, &factor);
    }
    arguments->sums[i] = sum;
}
KERNEL(lists_turn, lists_arguments, LISTS_THREADS, 3, 1)

/* ---- sums -------------------------------------------------------------------------------------------- */

/* Sum and difference of each pair; to the lower and the upper place forward, backward the other way about. */
DEVICE void lists_cross(grid_place place, const lists_arguments *arguments, void *shared, uint32_t phase) {
    const uint64_t i = device_index(place), pair = arguments->first + i, low = normal_lower(pair, arguments->half_log2);
    (void)shared;
    (void)phase;
    if (i >= arguments->count) return;
    const g1_affine lower = arguments->points[low];
    g1_affine upper = arguments->points[low + ((uint64_t)1 << arguments->half_log2)];
    for (uint32_t side = 0; side < 2; side++) {
        g1_xyzz sum;
        g1_xyzz_from_affine(&sum, &lower);
        g1_xyzz_add_affine(&sum, &sum, &upper);
        arguments->sums[2 * i + (arguments->forward ? side : 1 - side)] = sum;
        g1_affine_neg(&upper, &upper);
    }
}
KERNEL(lists_cross, lists_arguments, LISTS_THREADS, 3, 1)

/* ---- memory and order of the launches ------------------------------------------------------------------ */

static inline void lists_allocate(device_queue *queue, lists_memory *memory, uint32_t log2, uint64_t piece) {
    const uint64_t count = (uint64_t)1 << log2;
    memory->log2 = log2;
    memory->piece = count < piece ? count : piece;
    memory->points = (g1_affine *)device_allocate(queue, count * sizeof(g1_affine));
    memory->roots = (fr *)device_allocate(queue, count * sizeof(fr));
    memory->scalars = (fr *)device_allocate(queue, memory->piece * sizeof(fr));
    memory->sums = (g1_xyzz *)device_allocate(queue, 2 * memory->piece * sizeof(g1_xyzz));
    memory->prefixes = (fp *)device_allocate(queue, 2 * memory->piece * sizeof(fp));
}

static inline void lists_release(lists_memory *memory) {
    device_release(memory->points);
    device_release(memory->roots);
    device_release(memory->scalars);
    device_release(memory->sums);
    device_release(memory->prefixes);
}

static inline void lists_normal(device_queue *queue, const lists_memory *memory, uint64_t first, uint64_t count, normal_order order,
                                uint32_t half_log2) {
    const g1_normal_arguments arguments = {memory->points, memory->sums, memory->prefixes, first, count, (uint32_t)order, half_log2};
    g1_normal_run(queue, &arguments);
}

/* points[i] *= scalars[i] in host memory, at most a piece; waits. */
static inline void lists_scale_run(device_queue *queue, const lists_memory *memory, void *points, const void *scalars, uint64_t count) {
    const lists_arguments arguments = {memory->points, memory->scalars, memory->sums, 0, count, 0, 0};
    device_write(queue, memory->points, points, count * sizeof(g1_affine));
    device_write(queue, memory->scalars, scalars, count * sizeof(fr));
    LAUNCH(queue, lists_scale, device_blocks(count, LISTS_THREADS), LISTS_THREADS, 0, &arguments);
    lists_normal(queue, memory, 0, count, NORMAL_LIST, 0);
    device_read(queue, points, memory->points, count * sizeof(g1_affine));
}

/* Pairs [first, first + count) of a stage, at most a piece: they share no place with others. */
static inline void lists_pairs_run(device_queue *queue, const lists_memory *memory, uint64_t first, uint64_t count, uint32_t half_log2,
                                   uint32_t forward) {
    const lists_arguments arguments = {memory->points, memory->roots, memory->sums, first, count, half_log2, forward};
    const uint64_t blocks = device_blocks(count, LISTS_THREADS);
    for (uint32_t step = 0; step < 2; step++) {
        if (step == forward) {
            LAUNCH(queue, lists_turn, blocks, LISTS_THREADS, 0, &arguments);
            lists_normal(queue, memory, first, count, NORMAL_UPPER, half_log2);
        } else {
            LAUNCH(queue, lists_cross, blocks, LISTS_THREADS, 0, &arguments);
            lists_normal(queue, memory, 2 * first, 2 * count, NORMAL_PAIRS, half_log2);
        }
    }
}

/* One stage of a transform of the points on the device, whose pairs are 2^half_log2 places apart. */
static inline void lists_stage_run(device_queue *queue, const lists_memory *memory, uint32_t log2, uint32_t half_log2, uint32_t forward) {
    const uint64_t pairs = ((uint64_t)1 << log2) / 2;
    for (uint64_t first = 0; first < pairs; first += memory->piece) {
        const uint64_t left = pairs - first;
        lists_pairs_run(queue, memory, first, left < memory->piece ? left : memory->piece, half_log2, forward);
    }
}

#endif
