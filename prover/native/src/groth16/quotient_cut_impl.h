/* groth16/quotient_cut_impl.h - the quotient of groth16/quotient_impl.h in parts for several threads; included by
 * groth16/prove_state_impl.h.
 *
 * Vectors are viewed as 4^passes rows of equal size (ntt/columns_impl.h); a task processes some columns of all rows, or one row.
 * There are four kinds of tasks, one after another: columns of the inverse transforms; rows, from the inverse transforms through
 * the change to the coset to the forward transforms; columns of the forward transforms, the product, and its inverse transform;
 * its rows and the change back from the coset. With a folded key the second kind also splits each row into the parts of the
 * shape, which stay adjacent in the row, and the third ends with the products, in the order of the shape's points.
 */
#ifndef G16_GROTH16_QUOTIENT_CUT_IMPL_H
#define G16_GROTH16_QUOTIENT_CUT_IMPL_H

#include <string.h>

#include "ntt/columns_impl.h"
#include "groth16/quotient_impl.h"

/* Up to this many threads, vectors are divided only as far as a task would otherwise run long after a proof was cancelled: whole
 * vectors, or rows, have up to 2^QUOTIENT_WHOLE_LOG2 elements where QUOTIENT_MAX_PASSES allows it. */
#define QUOTIENT_WHOLE_THREADS 2
#define QUOTIENT_WHOLE_LOG2 17
#define QUOTIENT_MAX_PASSES 3
/* Rows have at least 2^9 elements, and with a folded key 32 times the smallest count for SIMD lanes. */
#define QUOTIENT_ROW_MIN_LOG2 9
#define QUOTIENT_FOLDED_ROW_MIN_LOG2 QUOTIENT_LANES_LOG2
/* Columns per task: at least this many, and a row divided by QUOTIENT_COLUMN_TASKS. */
#define QUOTIENT_COLUMNS_MIN NTT_LANES_MIN
#define QUOTIENT_COLUMN_TASKS 128
/* Columns that go through all passes at once: 256 KiB for 64 rows, in pieces of a page. */
#define QUOTIENT_COLUMNS_STEP 128

typedef struct quotient_cut {
    uint32_t passes; /* 0: whole vectors */
    uint32_t rows, row_log2;
    size_t row;     /* elements per row */
    size_t columns; /* columns per task */
} quotient_cut;

static inline quotient_cut quotient_cut_for(uint32_t log2, int folded, uint32_t threads) {
    const uint32_t least = folded ? QUOTIENT_FOLDED_ROW_MIN_LOG2 : QUOTIENT_ROW_MIN_LOG2;
    const uint32_t enough = threads <= QUOTIENT_WHOLE_THREADS ? QUOTIENT_WHOLE_LOG2 : 0;
    quotient_cut cut = {0, 1, log2, (size_t)1 << log2, 0};
    while (cut.passes < QUOTIENT_MAX_PASSES && cut.row_log2 >= least + 2 && cut.row_log2 > enough) {
        cut.passes++;
        cut.row_log2 -= 2;
    }
    cut.rows = (uint32_t)1 << 2 * cut.passes;
    cut.row = (size_t)1 << cut.row_log2;
    cut.columns = cut.row / QUOTIENT_COLUMN_TASKS > QUOTIENT_COLUMNS_MIN ? cut.row / QUOTIENT_COLUMN_TASKS : QUOTIENT_COLUMNS_MIN;
    return cut;
}

static inline uint32_t quotient_column_tasks(const quotient_cut *cut) { return (uint32_t)(cut->row / cut->columns); }

/* Returns the number of tasks over the points of a shape, which occupy the first columns. */
static inline uint32_t quotient_point_tasks(const quotient_cut *cut, const fold_shape *shape) {
    return (uint32_t)((shape->points >> 2 * cut->passes) / cut->columns);
}

/* Returns the number of columns in a step that begins at column `first` of a task that ends before column `end`. */
static inline size_t quotient_step(size_t first, size_t end) {
    return end - first < QUOTIENT_COLUMNS_STEP ? end - first : QUOTIENT_COLUMNS_STEP;
}

/* The first stages of the inverse transform of values; those from index `used` on count as zero, whatever the memory contains. */
static void quotient_enter_columns(fr *values, size_t used, const quotient_cut *cut, uint32_t task, const fr *table) {
    const size_t end = (task + 1) * cut->columns;
    for (size_t first = task * cut->columns, width; first < end; first += width) {
        width = quotient_step(first, end);
        for (uint32_t row = 0; row < cut->rows; row++) {
            const size_t start = row * cut->row + first, kept = used > start ? used - start : 0;
            if (kept < width) memset(values + start + kept, 0, (width - kept) * sizeof *values);
        }
        ntt_inverse_columns(values + first, cut->row, cut->passes, width, table);
    }
}

/* The remaining stages of the inverse transform in one row. */
static inline void quotient_inverse_row(fr *values, const quotient_cut *cut, uint32_t row, const fr *table) {
    ntt_inverse_block_stages(values + row * cut->row, cut->row_log2, row, table);
}

/* The same, then the change to the coset and the first stages of the forward transform. */
static void quotient_coset_row(fr *values, const quotient_cut *cut, uint32_t row, const fr *table) {
    fr *own = values + row * cut->row;
    quotient_inverse_row(values, cut, row, table);
    ntt_scale(own, table + row * cut->row, cut->row);
    ntt_forward_block_stages(own, cut->row_log2, row, table);
}

/* The same for the parts of a shape. spare: half as many elements as values has. */
static void quotient_parts_row(fr *values, fr *spare, const quotient_cut *cut, uint32_t row, const fold_shape *shape,
                               const fr *table) {
    const uint32_t log2 = cut->row_log2 + 2 * cut->passes;
    if (quotient_is_whole_coset(log2, shape)) {
        quotient_coset_row(values, cut, row, table);
        return;
    }
    fr *own = values + row * cut->row;
    quotient_inverse_row(values, cut, row, table);
    ntt_scale(own, table + row * cut->row, cut->row);
    quotient_split(own, spare + row * (cut->row / 2), cut->row, shape->points >> 2 * cut->passes, row, table);
    for (uint32_t i = 0; i < shape->parts_count; i++) {
        const fold_part *part = &shape->parts[i];
        ntt_forward_block_stages(own + (part->first >> 2 * cut->passes), part->log2 - 2 * cut->passes, row, table);
    }
}

/* The last stages of the forward transforms, a *= b * scale, and the first stages of the inverse transform of a. */
static void quotient_product_columns(fr *a, fr *b, const fr *scale, const quotient_cut *cut, uint32_t task, const fr *table) {
    const size_t end = (task + 1) * cut->columns;
    for (size_t first = task * cut->columns, width; first < end; first += width) {
        width = quotient_step(first, end);
        ntt_forward_columns(a + first, cut->row, cut->passes, width, table);
        ntt_forward_columns(b + first, cut->row, cut->passes, width, table);
        for (uint32_t row = 0; row < cut->rows; row++) {
            const size_t start = row * cut->row + first;
            ntt_multiply(a + start, b + start, scale, width);
        }
        ntt_inverse_columns(a + first, cut->row, cut->passes, width, table);
    }
}

/* The last stages of the forward transforms, and the reduced products at the points of the shape. The columns of a task belong to
 * one part, because the smallest part of a row is a multiple of them. */
static void quotient_point_columns(fr *points, fr *a, fr *b, const quotient_cut *cut, uint32_t task, const fold_shape *shape,
                                   const fr *table) {
    const size_t end = (task + 1) * cut->columns;
    const fold_part *part = &shape->parts[shape->parts_count - 1];
    while (part->first >> 2 * cut->passes > task * cut->columns) part--;
    const size_t part_row = ((size_t)1 << part->log2) >> 2 * cut->passes, part_first = part->first >> 2 * cut->passes;
    for (size_t first = task * cut->columns, width; first < end; first += width) {
        width = quotient_step(first, end);
        ntt_forward_columns(a + first, cut->row, cut->passes, width, table);
        ntt_forward_columns(b + first, cut->row, cut->passes, width, table);
        for (uint32_t row = 0; row < cut->rows; row++) {
            fr *products = a + row * cut->row + first;
            ntt_multiply_reduced(products, b + row * cut->row + first, width);
            memcpy(points + part->first + row * part_row + (first - part_first), products, width * sizeof *points);
        }
    }
}

/* The last stages of the inverse transform of the product in one row, and the change back from the coset. */
static void quotient_from_coset_row(fr *a, fr *c, const quotient_cut *cut, uint32_t row, const fr *table) {
    quotient_inverse_row(a, cut, row, table);
    ntt_from_coset(a, c, row * cut->row, (row + 1) * cut->row, table);
}

#endif
