/* ntt/columns_impl.h - transforms of one vector in parts for several threads; included by groth16/quotient_cut_impl.h.
 *
 * View a vector as 4^passes rows. The first 2 * passes stages of an inverse transform and the last of a forward one combine only
 * elements of one column, so columns are independent. The other stages stay within a row, which is block `row` of
 * ntt_inverse_block_stages() and ntt_forward_block_stages(). Nothing is reordered, and the arithmetic is that of a whole
 * transform.
 */
#ifndef G16_NTT_COLUMNS_IMPL_H
#define G16_NTT_COLUMNS_IMPL_H

#include "ntt/transform_impl.h"

static inline void ntt_inverse_rows(fr *a, size_t quarter, size_t width, size_t block, const fr *table) {
#if defined(G16_LANES)
    ntt_lanes_inverse_radix4(a, quarter, width, block, table);
#else
    ntt_inverse_radix4(a, quarter, width, block, table);
#endif
}

static inline void ntt_forward_rows(fr *a, size_t quarter, size_t width, size_t block, const fr *table) {
#if defined(G16_LANES)
    ntt_lanes_forward_radix4(a, quarter, width, block, table);
#else
    ntt_forward_radix4(a, quarter, width, block, table);
#endif
}

/* Works on columns 0 .. width - 1 (width is a multiple of 8) of rows that are `stride` elements apart. */
static inline void ntt_inverse_columns(fr *a, size_t stride, uint32_t passes, size_t width, const fr *table) {
    NTT_REGION;
    NTT_COUNT((size_t)passes * width << 2 * passes);
    size_t blocks = 1;
    for (size_t rows = (size_t)1 << 2 * passes; rows > 1; rows /= 4, blocks *= 4) {
        for (size_t b = 0; b < blocks; b++) {
            for (size_t row = 0; row < rows / 4; row++) {
                ntt_inverse_rows(a + (b * rows + row) * stride, rows / 4 * stride, width, b, table);
            }
        }
    }
}

static inline void ntt_forward_columns(fr *a, size_t stride, uint32_t passes, size_t width, const fr *table) {
    NTT_REGION;
    NTT_COUNT((size_t)passes * width << 2 * passes);
    size_t blocks = (size_t)1 << 2 * passes;
    for (size_t rows = 4; blocks > 1; rows *= 4) {
        blocks /= 4;
        for (size_t b = 0; b < blocks; b++) {
            for (size_t row = 0; row < rows / 4; row++) {
                ntt_forward_rows(a + (b * rows + row) * stride, rows / 4 * stride, width, b, table);
            }
        }
    }
}

#endif
