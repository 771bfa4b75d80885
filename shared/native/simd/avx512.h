/* simd/avx512.h - simd/lanes.h with AVX-512 F, DQ and VL. */
#ifndef SHARED_SIMD_AVX512_H
#define SHARED_SIMD_AVX512_H

#ifndef SHARED_SIMD_LANES_H
#error "include simd/lanes.h, which chooses"
#endif

typedef __m512i lanes_u64, lanes_part;
typedef __m512d lanes_real;
typedef __mmask8 lanes_choice, lanes_part_choice;

#define LANES_PARTS 1
#define LANES_PART(x, h) (x)
/* Tests on CPUs without these instructions have a region and emulated vectors (prover/native/tests/emulated_avx512.h). */
#if !defined(LANES_REGION)
#define LANES_REGION ((void)0)
#define LANES_IN_REGION ((void)0)
#endif
#define LANES_DOWN (_MM_FROUND_TO_ZERO | _MM_FROUND_NO_EXC)

/* ---- parts --------------------------------------------------------------------------------------- */

LANES_INLINE lanes_part lanes_part_set(uint64_t word) { return _mm512_set1_epi64((long long)word); }
LANES_INLINE lanes_part lanes_part_add(lanes_part a, lanes_part b) { return _mm512_add_epi64(a, b); }
LANES_INLINE lanes_part lanes_part_sub(lanes_part a, lanes_part b) { return _mm512_sub_epi64(a, b); }
LANES_INLINE lanes_part lanes_part_and(lanes_part a, lanes_part b) { return _mm512_and_si512(a, b); }
LANES_INLINE lanes_part lanes_part_right(lanes_part a, unsigned n) { return _mm512_srli_epi64(a, n); }
LANES_INLINE lanes_part lanes_part_right_signed(lanes_part a, unsigned n) { return _mm512_srai_epi64(a, n); }
LANES_INLINE lanes_part lanes_part_or(lanes_part a, lanes_part b) { return _mm512_or_si512(a, b); }
LANES_INLINE lanes_part lanes_part_left(lanes_part a, unsigned n) { return _mm512_slli_epi64(a, n); }
LANES_INLINE lanes_part lanes_part_load(const void *at) { return _mm512_loadu_si512(at); }
LANES_INLINE lanes_part_choice lanes_part_above(lanes_part a, lanes_part b) { return _mm512_cmpgt_epi64_mask(a, b); }
LANES_INLINE lanes_part_choice lanes_part_odd(lanes_part a) { return _mm512_test_epi64_mask(a, _mm512_set1_epi64(1)); }
LANES_INLINE lanes_part lanes_part_sub_where(lanes_part_choice choice, lanes_part a, lanes_part b) { return _mm512_mask_sub_epi64(a, choice, a, b); }
LANES_INLINE lanes_part lanes_part_opposite_where(lanes_part_choice choice, lanes_part a) {
    return _mm512_mask_sub_epi64(a, choice, _mm512_setzero_si512(), a);
}
/* (a & b) | c */
LANES_INLINE lanes_part lanes_part_and_or(lanes_part a, lanes_part b, lanes_part c) { return _mm512_ternarylogic_epi64(a, b, c, 0xea); }

#if defined(__AVX512IFMA__)
LANES_INLINE lanes_part lanes_part_madd52_low(lanes_part sum, lanes_part a, lanes_part b) { return _mm512_madd52lo_epu64(sum, a, b); }
LANES_INLINE lanes_part lanes_part_madd52_high(lanes_part sum, lanes_part a, lanes_part b) { return _mm512_madd52hi_epu64(sum, a, b); }
#endif

LANES_INLINE lanes_real lanes_real_sub(lanes_real a, lanes_real b) { return _mm512_sub_pd(a, b); }
/* c + a b and c - a b, rounded towards zero */
LANES_INLINE lanes_real lanes_real_add_product(lanes_real a, lanes_real b, lanes_real c) { return _mm512_fmadd_round_pd(a, b, c, LANES_DOWN); }
LANES_INLINE lanes_real lanes_real_sub_product(lanes_real a, lanes_real b, lanes_real c) { return _mm512_fnmadd_round_pd(a, b, c, LANES_DOWN); }
/* Reinterprets the bits. */
LANES_INLINE lanes_part lanes_real_bits(lanes_real a) { return _mm512_castpd_si512(a); }
LANES_INLINE lanes_real lanes_part_as_real(lanes_part a) { return _mm512_castsi512_pd(a); }
/* Converts a number below 2^52. */
LANES_INLINE lanes_real lanes_part_to_real(lanes_part a) { return _mm512_cvtepu64_pd(a); }
/* Prevents the compiler from reordering the sum of a column, which would keep all of its terms in registers. */
#if !defined(LANES_IN_ORDER)
#define LANES_IN_ORDER(a, b) __asm__("" : "+v"(a), "+v"(b))
#endif

/* ---- eight words ------------------------------------------------------------------------------------- */

LANES_INLINE lanes_u64 lanes_set(uint64_t word) { return _mm512_set1_epi64((long long)word); }
LANES_INLINE lanes_u64 lanes_zero(void) { return _mm512_setzero_si512(); }
LANES_INLINE lanes_u64 lanes_count_up(void) { return _mm512_setr_epi64(0, 1, 2, 3, 4, 5, 6, 7); }
LANES_INLINE lanes_u64 lanes_load(const void *at) { return _mm512_loadu_si512(at); }
LANES_INLINE void lanes_store(void *at, lanes_u64 a) { _mm512_storeu_si512(at, a); }
LANES_INLINE lanes_u64 lanes_from_i16(const int16_t *at) { return _mm512_cvtepi16_epi64(_mm_loadu_si128((const void *)at)); }
LANES_INLINE void lanes_store_i16(int16_t *at, lanes_u64 a) { _mm_storeu_si128((void *)at, _mm512_cvtepi64_epi16(a)); }
LANES_INLINE lanes_u64 lanes_add(lanes_u64 a, lanes_u64 b) { return _mm512_add_epi64(a, b); }
LANES_INLINE lanes_u64 lanes_sub(lanes_u64 a, lanes_u64 b) { return _mm512_sub_epi64(a, b); }
LANES_INLINE lanes_u64 lanes_and(lanes_u64 a, lanes_u64 b) { return _mm512_and_si512(a, b); }
LANES_INLINE lanes_u64 lanes_or(lanes_u64 a, lanes_u64 b) { return _mm512_or_si512(a, b); }
LANES_INLINE lanes_u64 lanes_left(lanes_u64 a, unsigned n) { return _mm512_slli_epi64(a, n); }
LANES_INLINE lanes_u64 lanes_right(lanes_u64 a, unsigned n) { return _mm512_srli_epi64(a, n); }
LANES_INLINE lanes_u64 lanes_right_signed(lanes_u64 a, unsigned n) { return _mm512_srai_epi64(a, n); }
LANES_INLINE lanes_u64 lanes_abs(lanes_u64 a) { return _mm512_abs_epi64(a); }
LANES_INLINE lanes_u64 lanes_mul_u32(lanes_u64 a, lanes_u64 b) { return _mm512_mul_epu32(a, b); }
LANES_INLINE lanes_u64 lanes_mul_small(lanes_u64 a, lanes_u64 b) { return _mm512_mullo_epi64(a, b); }

LANES_INLINE lanes_choice lanes_choice_of(uint8_t bits) { return bits; }
LANES_INLINE uint8_t lanes_bits(lanes_choice choice) { return choice; }
LANES_INLINE lanes_choice lanes_above(lanes_u64 a, lanes_u64 b) { return _mm512_cmpgt_epi64_mask(a, b); }
LANES_INLINE lanes_choice lanes_equal(lanes_u64 a, lanes_u64 b) { return _mm512_cmpeq_epi64_mask(a, b); }
LANES_INLINE lanes_choice lanes_negative(lanes_u64 a) { return _mm512_cmplt_epi64_mask(a, _mm512_setzero_si512()); }
LANES_INLINE lanes_u64 lanes_choose(lanes_choice choice, lanes_u64 yes, lanes_u64 no) { return _mm512_mask_mov_epi64(no, choice, yes); }
LANES_INLINE lanes_u64 lanes_sub_where(lanes_choice choice, lanes_u64 a, lanes_u64 b) { return _mm512_mask_sub_epi64(a, choice, a, b); }
LANES_INLINE lanes_u64 lanes_sub_from_where(lanes_choice choice, lanes_u64 a, lanes_u64 b) { return _mm512_mask_sub_epi64(a, choice, b, a); }

LANES_INLINE uint32_t lanes_equal_u32(const uint32_t *a, const uint32_t *b) {
    return _mm512_cmpeq_epi32_mask(_mm512_loadu_si512(a), _mm512_loadu_si512(b));
}
LANES_INLINE void lanes_store_where(void *at, uint8_t bits, lanes_u64 a) { _mm512_storeu_si512(at, _mm512_maskz_compress_epi64(bits, a)); }
LANES_INLINE void lanes_store_where_u32(uint32_t *at, uint8_t bits, const uint32_t *from) {
    _mm256_storeu_si256((void *)at, _mm256_maskz_compress_epi32(bits, _mm256_loadu_si256((const void *)from)));
}
LANES_INLINE lanes_u64 lanes_count_where(uint8_t bits, uint64_t start, uint32_t step, lanes_u64 otherwise) {
    const lanes_u64 counted = lanes_add(lanes_set(start), lanes_mul_u32(lanes_count_up(), lanes_set(step)));
    return _mm512_mask_expand_epi64(otherwise, bits, counted);
}
LANES_INLINE lanes_u64 lanes_rotate(lanes_u64 a, int n) {
    return _mm512_permutexvar_epi64(lanes_and(lanes_add(lanes_count_up(), lanes_set((uint64_t)n)), lanes_set(7)), a);
}

/* ---- rows and columns -------------------------------------------------------------------------- */

/* Rows are loaded in halves, which saves a third of the shuffles. */
LANES_INLINE void lanes_part_load_columns(lanes_part columns[4], const void *const at[LANES], size_t offset) {
    __m512i rows[4]; /* rows 0 and 2, 1 and 3, 4 and 6, 5 and 7 */
    for (int i = 0; i < 4; i++) {
        const int row = i < 2 ? i : i + 2;
        const __m256i low = _mm256_loadu_si256((const __m256i *)((const char *)at[row] + offset));
        const __m256i high = _mm256_loadu_si256((const __m256i *)((const char *)at[row + 2] + offset));
        rows[i] = _mm512_inserti64x4(_mm512_castsi256_si512(low), high, 1);
    }
    const __m512i even = _mm512_unpacklo_epi64(rows[0], rows[1]), odd = _mm512_unpackhi_epi64(rows[0], rows[1]);
    const __m512i even_above = _mm512_unpacklo_epi64(rows[2], rows[3]);
    const __m512i odd_above = _mm512_unpackhi_epi64(rows[2], rows[3]);
    columns[0] = _mm512_shuffle_i64x2(even, even_above, 0x88);
    columns[1] = _mm512_shuffle_i64x2(odd, odd_above, 0x88);
    columns[2] = _mm512_shuffle_i64x2(even, even_above, 0xdd);
    columns[3] = _mm512_shuffle_i64x2(odd, odd_above, 0xdd);
}

LANES_INLINE void lanes_transpose(lanes_u64 m[8]) {
    __m512i a[8], b[8];
    for (int i = 0; i < 4; i++) {
        a[2 * i] = _mm512_unpacklo_epi64(m[2 * i], m[2 * i + 1]);
        a[2 * i + 1] = _mm512_unpackhi_epi64(m[2 * i], m[2 * i + 1]);
    }
    for (int i = 0; i < 2; i++) {
        b[4 * i] = _mm512_shuffle_i64x2(a[4 * i], a[4 * i + 2], 0x88);
        b[4 * i + 1] = _mm512_shuffle_i64x2(a[4 * i + 1], a[4 * i + 3], 0x88);
        b[4 * i + 2] = _mm512_shuffle_i64x2(a[4 * i], a[4 * i + 2], 0xdd);
        b[4 * i + 3] = _mm512_shuffle_i64x2(a[4 * i + 1], a[4 * i + 3], 0xdd);
    }
    for (int i = 0; i < 4; i++) {
        m[i] = _mm512_shuffle_i64x2(b[i], b[4 + i], 0x88);
        m[4 + i] = _mm512_shuffle_i64x2(b[i], b[4 + i], 0xdd);
    }
}

LANES_INLINE void lanes_part_store_rows(void *const at[LANES], const lanes_part columns[8]) {
    __m512i rows[8];
    for (int i = 0; i < 8; i++) rows[i] = columns[i];
    lanes_transpose(rows);
    for (int i = 0; i < 8; i++) _mm512_storeu_si512(at[i], rows[i]);
}

LANES_INLINE void lanes_split_rows(lanes_u64 columns[4], const lanes_u64 m[4]) {
    const __m512i low0 = _mm512_unpacklo_epi64(m[0], m[1]), high0 = _mm512_unpackhi_epi64(m[0], m[1]);
    const __m512i low1 = _mm512_unpacklo_epi64(m[2], m[3]), high1 = _mm512_unpackhi_epi64(m[2], m[3]);
    columns[0] = _mm512_shuffle_i64x2(low0, low1, 0x88);
    columns[1] = _mm512_shuffle_i64x2(high0, high1, 0x88);
    columns[2] = _mm512_shuffle_i64x2(low0, low1, 0xdd);
    columns[3] = _mm512_shuffle_i64x2(high0, high1, 0xdd);
}

LANES_INLINE void lanes_join_rows(lanes_u64 m[4], const lanes_u64 columns[4]) {
    const __m512i first = _mm512_setr_epi64(0, 1, 8, 9, 2, 3, 10, 11), second = _mm512_setr_epi64(4, 5, 12, 13, 6, 7, 14, 15);
    const __m512i even0 = _mm512_unpacklo_epi64(columns[0], columns[1]), odd0 = _mm512_unpackhi_epi64(columns[0], columns[1]);
    const __m512i even1 = _mm512_unpacklo_epi64(columns[2], columns[3]), odd1 = _mm512_unpackhi_epi64(columns[2], columns[3]);
    m[0] = _mm512_permutex2var_epi64(even0, first, even1);
    m[1] = _mm512_permutex2var_epi64(odd0, first, odd1);
    m[2] = _mm512_permutex2var_epi64(even0, second, even1);
    m[3] = _mm512_permutex2var_epi64(odd0, second, odd1);
}

#endif
