/* simd/avx2.h - simd/lanes.h with AVX2 and FMA: lanes 0 to 3 in one register, 4 to 7 in another. */
#ifndef SHARED_SIMD_AVX2_H
#define SHARED_SIMD_AVX2_H

#ifndef SHARED_SIMD_LANES_H
#error "include simd/lanes.h, which chooses"
#endif

typedef __m256i lanes_part;
typedef __m256d lanes_real;
typedef struct lanes_u64 {
    __m256i half[2];
} lanes_u64;
/* Each word is all ones or zero. */
typedef struct lanes_choice {
    __m256i half[2];
} lanes_choice;

typedef __m256i lanes_part_choice;

#define LANES_PARTS 2
#define LANES_PART(x, h) ((x).half[h])

/* ---- rounding ------------------------------------------------------------------------------------ */

#include "simd/region.h"

/* The checked build aborts when a product is computed outside a region. */
#if defined(G16_CHECKED)
#define LANES_IN_REGION LANES_REGION_OR_STOP
#else
#define LANES_IN_REGION ((void)0)
#endif

/* ---- parts --------------------------------------------------------------------------------------- */

LANES_INLINE lanes_part lanes_part_set(uint64_t word) { return _mm256_set1_epi64x((long long)word); }
LANES_INLINE lanes_part lanes_part_add(lanes_part a, lanes_part b) { return _mm256_add_epi64(a, b); }
LANES_INLINE lanes_part lanes_part_sub(lanes_part a, lanes_part b) { return _mm256_sub_epi64(a, b); }
LANES_INLINE lanes_part lanes_part_and(lanes_part a, lanes_part b) { return _mm256_and_si256(a, b); }
LANES_INLINE lanes_part lanes_part_right(lanes_part a, unsigned n) { return _mm256_srli_epi64(a, (int)n); }
/* AVX2 has no such instruction: words are made non-negative first. */
LANES_INLINE lanes_part lanes_part_right_signed(lanes_part a, unsigned n) {
#if defined(__AVX512VL__)
    return _mm256_srai_epi64(a, n);
#endif
    const uint64_t half = (uint64_t)1 << 63;
    return _mm256_sub_epi64(_mm256_srli_epi64(_mm256_xor_si256(a, lanes_part_set(half)), (int)n), lanes_part_set(half >> n));
}
LANES_INLINE lanes_part lanes_part_or(lanes_part a, lanes_part b) { return _mm256_or_si256(a, b); }
LANES_INLINE lanes_part lanes_part_left(lanes_part a, unsigned n) { return _mm256_slli_epi64(a, (int)n); }
LANES_INLINE lanes_part lanes_part_load(const void *at) { return _mm256_loadu_si256(at); }
LANES_INLINE lanes_part_choice lanes_part_above(lanes_part a, lanes_part b) { return _mm256_cmpgt_epi64(a, b); }
LANES_INLINE lanes_part_choice lanes_part_odd(lanes_part a) {
    return _mm256_sub_epi64(_mm256_setzero_si256(), _mm256_and_si256(a, lanes_part_set(1)));
}
LANES_INLINE lanes_part lanes_part_sub_where(lanes_part_choice choice, lanes_part a, lanes_part b) {
    return _mm256_sub_epi64(a, _mm256_and_si256(choice, b));
}
LANES_INLINE lanes_part lanes_part_opposite_where(lanes_part_choice choice, lanes_part a) {
    return _mm256_sub_epi64(_mm256_xor_si256(a, choice), choice);
}
/* (a & b) | c */
LANES_INLINE lanes_part lanes_part_and_or(lanes_part a, lanes_part b, lanes_part c) { return _mm256_or_si256(_mm256_and_si256(a, b), c); }

#if defined(__AVX512IFMA__) && defined(__AVX512VL__)
LANES_INLINE lanes_part lanes_part_madd52_low(lanes_part sum, lanes_part a, lanes_part b) { return _mm256_madd52lo_epu64(sum, a, b); }
LANES_INLINE lanes_part lanes_part_madd52_high(lanes_part sum, lanes_part a, lanes_part b) { return _mm256_madd52hi_epu64(sum, a, b); }
#endif

LANES_INLINE lanes_real lanes_real_sub(lanes_real a, lanes_real b) { return _mm256_sub_pd(a, b); }
/* c + a b and c - a b, rounded according to the region */
LANES_INLINE lanes_real lanes_real_add_product(lanes_real a, lanes_real b, lanes_real c) { return _mm256_fmadd_pd(a, b, c); }
LANES_INLINE lanes_real lanes_real_sub_product(lanes_real a, lanes_real b, lanes_real c) { return _mm256_fnmadd_pd(a, b, c); }
/* Reinterprets the bits. */
LANES_INLINE lanes_part lanes_real_bits(lanes_real a) { return _mm256_castpd_si256(a); }
LANES_INLINE lanes_real lanes_part_as_real(lanes_part a) { return _mm256_castsi256_pd(a); }
/* Converts a number below 2^52: the bits of 2^52 plus it have it as mantissa. */
LANES_INLINE lanes_real lanes_part_to_real(lanes_part a) {
    return _mm256_sub_pd(_mm256_castsi256_pd(_mm256_or_si256(a, lanes_part_set(0x4330000000000000u))), _mm256_set1_pd(0x1p52));
}
#define LANES_IN_ORDER(a, b) __asm__("" : "+x"(a), "+x"(b))

/* ---- eight words ------------------------------------------------------------------------------------- */

#define LANES_HALVES(first, second) ((lanes_u64){{(first), (second)}})
#define LANES_BOTH(operation, a, b) LANES_HALVES(operation((a).half[0], (b).half[0]), operation((a).half[1], (b).half[1]))
#define LANES_EACH(operation, a, n) LANES_HALVES(operation((a).half[0], (n)), operation((a).half[1], (n)))

LANES_INLINE lanes_u64 lanes_set(uint64_t word) { return LANES_HALVES(lanes_part_set(word), lanes_part_set(word)); }
LANES_INLINE lanes_u64 lanes_zero(void) { return LANES_HALVES(_mm256_setzero_si256(), _mm256_setzero_si256()); }
LANES_INLINE lanes_u64 lanes_load(const void *at) {
    const __m256i *halves = at;
    return LANES_HALVES(_mm256_loadu_si256(halves), _mm256_loadu_si256(halves + 1));
}
LANES_INLINE void lanes_store(void *at, lanes_u64 a) {
    __m256i *halves = at;
    _mm256_storeu_si256(halves, a.half[0]);
    _mm256_storeu_si256(halves + 1, a.half[1]);
}
LANES_INLINE lanes_u64 lanes_from_i16(const int16_t *at) {
    return LANES_HALVES(_mm256_cvtepi16_epi64(_mm_loadl_epi64((const void *)at)), _mm256_cvtepi16_epi64(_mm_loadl_epi64((const void *)(at + 4))));
}
LANES_INLINE void lanes_store_i16(int16_t *at, lanes_u64 a) {
    /* Per register: the numbers of its two lower words in the lowest 32 bits of its lower half, those of the others in its upper. */
    const __m256i lowest = _mm256_set1_epi32(0x09080100);
    const __m256i pairs = _mm256_unpacklo_epi32(_mm256_shuffle_epi8(a.half[0], lowest), _mm256_shuffle_epi8(a.half[1], lowest));
    _mm_storeu_si128((void *)at, _mm_unpacklo_epi32(_mm256_castsi256_si128(pairs), _mm256_extracti128_si256(pairs, 1)));
}
LANES_INLINE lanes_u64 lanes_add(lanes_u64 a, lanes_u64 b) { return LANES_BOTH(_mm256_add_epi64, a, b); }
LANES_INLINE lanes_u64 lanes_sub(lanes_u64 a, lanes_u64 b) { return LANES_BOTH(_mm256_sub_epi64, a, b); }
LANES_INLINE lanes_u64 lanes_and(lanes_u64 a, lanes_u64 b) { return LANES_BOTH(_mm256_and_si256, a, b); }
LANES_INLINE lanes_u64 lanes_or(lanes_u64 a, lanes_u64 b) { return LANES_BOTH(_mm256_or_si256, a, b); }
LANES_INLINE lanes_u64 lanes_left(lanes_u64 a, unsigned n) { return LANES_EACH(_mm256_slli_epi64, a, (int)n); }
LANES_INLINE lanes_u64 lanes_right(lanes_u64 a, unsigned n) { return LANES_EACH(_mm256_srli_epi64, a, (int)n); }
LANES_INLINE lanes_u64 lanes_right_signed(lanes_u64 a, unsigned n) { return LANES_EACH(lanes_part_right_signed, a, n); }
LANES_INLINE lanes_u64 lanes_mul_u32(lanes_u64 a, lanes_u64 b) { return LANES_BOTH(_mm256_mul_epu32, a, b); }
LANES_INLINE lanes_u64 lanes_mul_small(lanes_u64 a, lanes_u64 b) {
    return lanes_add(lanes_mul_u32(a, b), lanes_left(lanes_mul_u32(a, lanes_right(b, 32)), 32));
}

LANES_INLINE lanes_choice lanes_choice_of(uint8_t bits) {
    const __m256i given = lanes_part_set(bits), low = _mm256_setr_epi64x(1, 2, 4, 8), high = _mm256_setr_epi64x(16, 32, 64, 128);
    return (lanes_choice){{_mm256_cmpeq_epi64(_mm256_and_si256(given, low), low), _mm256_cmpeq_epi64(_mm256_and_si256(given, high), high)}};
}
/* The sign bits of the words. */
LANES_INLINE uint8_t lanes_sign_bits(__m256i low, __m256i high) {
    return (uint8_t)(_mm256_movemask_pd(_mm256_castsi256_pd(low)) | _mm256_movemask_pd(_mm256_castsi256_pd(high)) << 4);
}
LANES_INLINE uint8_t lanes_bits(lanes_choice choice) { return lanes_sign_bits(choice.half[0], choice.half[1]); }
LANES_INLINE lanes_choice lanes_above(lanes_u64 a, lanes_u64 b) {
    return (lanes_choice){{_mm256_cmpgt_epi64(a.half[0], b.half[0]), _mm256_cmpgt_epi64(a.half[1], b.half[1])}};
}
LANES_INLINE lanes_choice lanes_equal(lanes_u64 a, lanes_u64 b) {
    return (lanes_choice){{_mm256_cmpeq_epi64(a.half[0], b.half[0]), _mm256_cmpeq_epi64(a.half[1], b.half[1])}};
}
LANES_INLINE lanes_choice lanes_negative(lanes_u64 a) { return lanes_above(lanes_zero(), a); }
LANES_INLINE lanes_u64 lanes_choose(lanes_choice choice, lanes_u64 yes, lanes_u64 no) {
    return LANES_HALVES(_mm256_blendv_epi8(no.half[0], yes.half[0], choice.half[0]), _mm256_blendv_epi8(no.half[1], yes.half[1], choice.half[1]));
}
LANES_INLINE lanes_u64 lanes_sub_where(lanes_choice choice, lanes_u64 a, lanes_u64 b) {
    return lanes_sub(a, LANES_BOTH(_mm256_and_si256, choice, b));
}
LANES_INLINE lanes_u64 lanes_abs(lanes_u64 a) { return lanes_choose(lanes_negative(a), lanes_sub(lanes_zero(), a), a); }
LANES_INLINE lanes_u64 lanes_sub_from_where(lanes_choice choice, lanes_u64 a, lanes_u64 b) { return lanes_choose(choice, lanes_sub(b, a), a); }

LANES_INLINE uint32_t lanes_equal_u32(const uint32_t *a, const uint32_t *b) {
    uint32_t equal = 0;
    for (int i = 0; i < 16; i += 8) {
        const __m256i same = _mm256_cmpeq_epi32(_mm256_loadu_si256((const void *)(a + i)), _mm256_loadu_si256((const void *)(b + i)));
        equal |= (uint32_t)_mm256_movemask_ps(_mm256_castsi256_ps(same)) << i;
    }
    return equal;
}

/* For each set of four lanes the indices of its members, in ascending order, first. */
static const uint8_t LANES_MEMBERS[16][4] = {{0, 0, 0, 0}, {0, 0, 0, 0}, {1, 0, 0, 0}, {0, 1, 0, 0}, {2, 0, 0, 0}, {0, 2, 0, 0}, {1, 2, 0, 0}, {0, 1, 2, 0},
                                             {3, 0, 0, 0}, {0, 3, 0, 0}, {1, 3, 0, 0}, {0, 1, 3, 0}, {2, 3, 0, 0}, {0, 2, 3, 0}, {1, 2, 3, 0}, {0, 1, 2, 3}};
/* The same as indices of halves of words. */
#define LANES_WORDS(a, b, c, d) {2 * (a), 2 * (a) + 1, 2 * (b), 2 * (b) + 1, 2 * (c), 2 * (c) + 1, 2 * (d), 2 * (d) + 1}
static const uint32_t LANES_MEMBER_WORDS[16][8] __attribute__((aligned(32))) = {
    LANES_WORDS(0, 0, 0, 0), LANES_WORDS(0, 0, 0, 0), LANES_WORDS(1, 0, 0, 0), LANES_WORDS(0, 1, 0, 0),
    LANES_WORDS(2, 0, 0, 0), LANES_WORDS(0, 2, 0, 0), LANES_WORDS(1, 2, 0, 0), LANES_WORDS(0, 1, 2, 0),
    LANES_WORDS(3, 0, 0, 0), LANES_WORDS(0, 3, 0, 0), LANES_WORDS(1, 3, 0, 0), LANES_WORDS(0, 1, 3, 0),
    LANES_WORDS(2, 3, 0, 0), LANES_WORDS(0, 2, 3, 0), LANES_WORDS(1, 2, 3, 0), LANES_WORDS(0, 1, 2, 3)};
#undef LANES_WORDS
/* For each set the number of its members below each of four lanes. */
static const uint8_t LANES_RANKS[16][4] = {{0, 0, 0, 0}, {0, 1, 1, 1}, {0, 0, 1, 1}, {0, 1, 2, 2}, {0, 0, 0, 1}, {0, 1, 1, 2}, {0, 0, 1, 2}, {0, 1, 2, 3},
                                           {0, 0, 0, 0}, {0, 1, 1, 1}, {0, 0, 1, 1}, {0, 1, 2, 2}, {0, 0, 0, 1}, {0, 1, 1, 2}, {0, 0, 1, 2}, {0, 1, 2, 3}};

LANES_INLINE __m128i lanes_numbers(const uint8_t numbers[4]) {
    uint32_t word;
    __builtin_memcpy(&word, numbers, sizeof word);
    return _mm_cvtsi32_si128((int)word);
}
LANES_INLINE __m256i lanes_pick(__m256i words, unsigned members) {
    return _mm256_permutevar8x32_epi32(words, _mm256_load_si256((const void *)LANES_MEMBER_WORDS[members]));
}
LANES_INLINE void lanes_store_where(void *at, uint8_t bits, lanes_u64 a) {
    uint64_t *words = at;
    _mm256_storeu_si256((void *)words, lanes_pick(a.half[0], bits & 15));
    _mm256_storeu_si256((void *)(words + __builtin_popcount(bits & 15)), lanes_pick(a.half[1], bits >> 4));
}
LANES_INLINE void lanes_store_where_u32(uint32_t *at, uint8_t bits, const uint32_t *from) {
    /* Both are loaded before the store: `at` may overlap `from`. */
    const __m128 low = _mm_loadu_ps((const void *)from), high = _mm_loadu_ps((const void *)(from + 4));
    _mm_storeu_ps((void *)at, _mm_permutevar_ps(low, _mm_cvtepu8_epi32(lanes_numbers(LANES_MEMBERS[bits & 15]))));
    _mm_storeu_ps((void *)(at + __builtin_popcount(bits & 15)), _mm_permutevar_ps(high, _mm_cvtepu8_epi32(lanes_numbers(LANES_MEMBERS[bits >> 4]))));
}
LANES_INLINE lanes_u64 lanes_count_where(uint8_t bits, uint64_t start, uint32_t step, lanes_u64 otherwise) {
    const __m256i steps = lanes_part_set(step), first = lanes_part_set(start);
    const __m256i second = lanes_part_set(start + (uint64_t)(unsigned)__builtin_popcount(bits & 15) * step);
    const __m256i low = _mm256_mul_epu32(_mm256_cvtepu8_epi64(lanes_numbers(LANES_RANKS[bits & 15])), steps);
    const __m256i high = _mm256_mul_epu32(_mm256_cvtepu8_epi64(lanes_numbers(LANES_RANKS[bits >> 4])), steps);
    return lanes_choose(lanes_choice_of(bits), LANES_HALVES(_mm256_add_epi64(first, low), _mm256_add_epi64(second, high)), otherwise);
}
LANES_INLINE lanes_u64 lanes_rotate(lanes_u64 a, int n) {
    uint64_t words[2 * LANES];
    lanes_store(words, a);
    lanes_store(words + LANES, a);
    return lanes_load(words + n % LANES);
}

/* ---- rows and columns -------------------------------------------------------------------------- */

/* Transposes four rows of four words to columns. */
LANES_INLINE void lanes_part_transpose(lanes_part columns[4], __m256i r0, __m256i r1, __m256i r2, __m256i r3) {
    const __m256i even0 = _mm256_unpacklo_epi64(r0, r1), odd0 = _mm256_unpackhi_epi64(r0, r1);
    const __m256i even1 = _mm256_unpacklo_epi64(r2, r3), odd1 = _mm256_unpackhi_epi64(r2, r3);
    columns[0] = _mm256_permute2x128_si256(even0, even1, 0x20);
    columns[1] = _mm256_permute2x128_si256(odd0, odd1, 0x20);
    columns[2] = _mm256_permute2x128_si256(even0, even1, 0x31);
    columns[3] = _mm256_permute2x128_si256(odd0, odd1, 0x31);
}

/* The same, into part `half` of four columns. */
LANES_INLINE void lanes_transpose_quarter(lanes_u64 columns[4], int half, __m256i r0, __m256i r1, __m256i r2, __m256i r3) {
    lanes_part quarter[4];
    lanes_part_transpose(quarter, r0, r1, r2, r3);
    for (int i = 0; i < 4; i++) columns[i].half[half] = quarter[i];
}

/* Halves of rows are combined while they are loaded, which saves half of the shuffles. */
LANES_INLINE void lanes_part_load_columns(lanes_part columns[4], const void *const at[LANES / LANES_PARTS], size_t offset) {
    __m256i halves[4]; /* words 0 and 1 of rows 0 and 2, of rows 1 and 3; words 2 and 3 of the same rows */
    for (int i = 0; i < 4; i++) {
        const size_t place = offset + 16 * (size_t)(i / 2);
        const __m128i low = _mm_loadu_si128((const void *)((const char *)at[i % 2] + place));
        const __m128i high = _mm_loadu_si128((const void *)((const char *)at[i % 2 + 2] + place));
        halves[i] = _mm256_inserti128_si256(_mm256_castsi128_si256(low), high, 1);
    }
    for (int i = 0; i < 2; i++) {
        columns[2 * i] = _mm256_unpacklo_epi64(halves[2 * i], halves[2 * i + 1]);
        columns[2 * i + 1] = _mm256_unpackhi_epi64(halves[2 * i], halves[2 * i + 1]);
    }
}

LANES_INLINE void lanes_part_store_rows(void *const at[LANES / LANES_PARTS], const lanes_part columns[8]) {
    for (int side = 0; side < 2; side++) {
        const lanes_part *words = columns + 4 * side;
        lanes_part rows[4];
        lanes_part_transpose(rows, words[0], words[1], words[2], words[3]);
        for (int i = 0; i < 4; i++) _mm256_storeu_si256((__m256i *)at[i] + side, rows[i]);
    }
}

LANES_INLINE void lanes_transpose(lanes_u64 m[8]) {
    lanes_u64 rows[8];
    for (int i = 0; i < 8; i++) rows[i] = m[i];
    for (int side = 0; side < 2; side++) {
        for (int h = 0; h < 2; h++) {
            lanes_transpose_quarter(m + 4 * side, h, rows[4 * h].half[side], rows[4 * h + 1].half[side], rows[4 * h + 2].half[side],
                                    rows[4 * h + 3].half[side]);
        }
    }
}

LANES_INLINE void lanes_split_rows(lanes_u64 columns[4], const lanes_u64 m[4]) {
    for (int h = 0; h < 2; h++) {
        lanes_transpose_quarter(columns, h, m[2 * h].half[0], m[2 * h + 1].half[0], m[2 * h].half[1], m[2 * h + 1].half[1]);
    }
}

LANES_INLINE void lanes_join_rows(lanes_u64 m[4], const lanes_u64 columns[4]) {
    for (int h = 0; h < 2; h++) {
        lanes_u64 rows[4];
        lanes_transpose_quarter(rows, 0, columns[0].half[h], columns[1].half[h], columns[2].half[h], columns[3].half[h]);
        m[2 * h] = LANES_HALVES(rows[0].half[0], rows[2].half[0]);
        m[2 * h + 1] = LANES_HALVES(rows[1].half[0], rows[3].half[0]);
    }
}

#endif
