/* simd/lanes.h - eight 64-bit words at once: in one register with AVX-512 (simd/avx512.h), in two with AVX2 (simd/avx2.h), which the
 * including unit selects by defining LANES_AVX2.
 *
 * lanes_u64     eight words; word i belongs to lane i;
 * lanes_choice  a mask of lanes; as bits, bit i belongs to lane i;
 * lanes_part    the words of one register; LANES_PART(x, h) is part h of LANES_PARTS of eight words;
 * lanes_real    the same number of doubles.
 *
 * Products of doubles are rounded towards zero. AVX-512 instructions have their own rounding mode. With AVX2 it is a mode of
 * the thread, which LANES_REGION sets until the end of the block. Every block that computes products must be in such a region. The
 * products are functions that are not inlined, so the compiler cannot move one out of it.
 *
 *   lanes_load, lanes_store                any address
 *   lanes_store_i16(at, a)                 the low 16 bits of each word; writes 16 bytes
 *   lanes_left, lanes_right(_signed)       shifts of all words by n bits
 *   lanes_mul_u32(a, b)                    products of the low 32 bits
 *   lanes_mul_small(a, b)                  low 64 bits of the products of a < 2^32 and any b
 *   lanes_sub_where(c, a, b)               a - b in the lanes of c, a elsewhere
 *   lanes_sub_from_where(c, a, b)          b - a in the lanes of c, a elsewhere
 *   lanes_choose(c, yes, no)
 *   lanes_equal_u32(a, b)                  bits: which of 16 neighbouring 32-bit words are equal
 *   lanes_store_where(at, bits, a)         the words of these lanes, packed; writes 64 bytes
 *   lanes_store_where_u32(at, bits, from)  the same for eight 32-bit words in memory; writes 32 bytes
 *   lanes_count_where(bits, start, step, otherwise)  start, start + step, ... in these lanes, in their order; step is below 2^32
 *   lanes_rotate(a, n)                     lane i takes the word of lane (i + n) mod 8
 *   lanes_part_odd(a)                      the lanes whose lowest bit is set
 *   lanes_part_madd52_low, _high(sum, a, b)  sum + the low or high 52 bits of the product of the low 52 bits of a and b; with IFMA only
 *   lanes_part_opposite_where(c, a)        -a in the lanes of c, a elsewhere
 *   lanes_part_load_columns(columns, at, offset)  four columns of as many rows of four words as a part has lanes, row i at at[i] + offset
 *   lanes_part_store_rows(at, columns)     the reverse for rows of eight words
 *   lanes_transpose(m)                     eight rows of eight words -> eight columns
 *   lanes_split_rows(columns, m)           vector i holds rows 2i and 2i + 1 of four words -> vector k holds word k of rows 0, 2, 1, 3,
 *                                          4, 6, 5, 7; lanes_join_rows reverses it
 */
#ifndef SHARED_SIMD_LANES_H
#define SHARED_SIMD_LANES_H

#include <immintrin.h>
#include <stddef.h>
#include <stdint.h>

#define LANES 8
#define LANES_INLINE static inline __attribute__((always_inline))

#if defined(LANES_AVX2)
#include "simd/avx2.h"
#else
#include "simd/avx512.h"
#endif

#endif
