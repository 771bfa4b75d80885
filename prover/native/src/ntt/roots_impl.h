/* ntt/roots_impl.h - roots of unity of one domain, and their table.
 *
 * Let n = 2^k, psi a root of unity of order 2n and omega = psi^2. The table holds psi^bitrev(i) for i < n. Its first half
 * contains the twiddle factors of every stage of a cyclic transform of size n, one per block of butterflies; the whole table is
 * the coset factors psi^k in bit-reversed order. The inverse of an entry is the negated entry at the mirrored index of the same
 * segment [2^s, 2^(s+1)).
 */
#ifndef G16_NTT_ROOTS_IMPL_H
#define G16_NTT_ROOTS_IMPL_H

#include "base/types.h"

/* Blocks of up to 2^9 elements run all their stages while they are in the first-level cache. */
#define NTT_CACHED_LOG2 9

static inline size_t ntt_reverse_bits(size_t value, uint32_t bits) {
    size_t r = 0;
    for (uint32_t i = 0; i < bits; i++) r |= ((value >> i) & 1) << (bits - 1 - i);
    return r;
}

/* r = a root of unity of order 2^log2, for log2 <= FR_TWO_ADICITY. */
static inline void ntt_root(fr *r, uint32_t log2) {
    *r = FR_ROOT_28;
    for (uint32_t i = log2; i < FR_TWO_ADICITY; i++) fr_sqr(r, r);
}

/* table[i] = psi^bitrev(i) for i < 2^log2, where psi has order 2^(log2 + 1). Segment [2^s, 2^(s+1)) is all entries before it
 * times psi^(n / 2^(s+1)). */
static void ntt_fill_table(fr *table, uint32_t log2) {
    table[0] = FR_ONE;
    for (uint32_t s = 0; s < log2; s++) {
        fr step;
        ntt_root(&step, s + 2); /* psi^(n / 2^(s+1)) has order 2^(s+2) */
        for (size_t i = 0; i < ((size_t)1 << s); i++) fr_mul(&table[((size_t)1 << s) + i], &table[i], &step);
    }
}

/* Computes entries first .. first + count - 1 from the first `count`; count is a power of two that divides first. */
static void ntt_fill_table_part(fr *table, size_t first, size_t count) {
    fr factor = FR_ONE, step;
    for (uint32_t s = 0; first >> s; s++) {
        if (!(first >> s & 1)) continue;
        ntt_root(&step, s + 2);
        fr_mul(&factor, &factor, &step);
    }
    for (size_t i = 0; i < count; i++) fr_mul(&table[first + i], &table[i], &factor);
}

/* Returns the index of the entry -1/table[i], for i > 0. */
static inline size_t ntt_negated_inverse_index(size_t i) {
    const size_t segment = (size_t)1 << (63 - __builtin_clzll(i));
    return 3 * segment - 1 - i;
}

#endif
