/* emulated_avx512.h - the instructions of AVX-512 that simd/avx512.h uses, by vectors that the compiler takes apart; forced into the
 * test library's AVX-512 backends where the CPU has AVX2 and FMA only (`EMULATE_AVX512=1 make native-tests`). All else is the
 * code that runs where these instructions are. What rounds towards zero here is the mode that LANES_REGION sets, as with AVX2.
 *
 * Semantics: Intel 64 and IA-32 Architectures Software Developer's Manual, volume 2. */
#ifndef G16_EMULATED_AVX512_H
#define G16_EMULATED_AVX512_H

#include <immintrin.h>
#include <stdint.h>
#include <string.h>

#pragma GCC diagnostic ignored "-Wpsabi"

#define EMULATED static inline __attribute__((always_inline, unused))

typedef uint64_t emulated_words __attribute__((vector_size(64), may_alias));
typedef int64_t emulated_numbers __attribute__((vector_size(64), may_alias));
typedef double emulated_reals __attribute__((vector_size(64), may_alias));

/* ---- rounding, and no registers for what LANES_IN_ORDER keeps there ---- */

#include "simd/region.h"

#define LANES_IN_REGION LANES_REGION_OR_STOP
#define LANES_IN_ORDER(a, b) ((void)0)

/* ---- words and masks ---- */

#define EMULATED_BINARY(name, type, operator) \
    EMULATED __m512i name(__m512i a, __m512i b) { return (__m512i)((type)a operator(type) b); }
EMULATED_BINARY(emulated_add, emulated_words, +)
EMULATED_BINARY(emulated_sub, emulated_words, -)
EMULATED_BINARY(emulated_and, emulated_words, &)
EMULATED_BINARY(emulated_or, emulated_words, |)
EMULATED_BINARY(emulated_mullo, emulated_words, *)
EMULATED __m512i emulated_set1(long long word) {
    return (__m512i)((emulated_words){0} + (uint64_t)word);
}
EMULATED __m512i emulated_right(__m512i a, unsigned n) { return (__m512i)((emulated_words)a >> n); }
EMULATED __m512i emulated_right_signed(__m512i a, unsigned n) { return (__m512i)((emulated_numbers)a >> n); }
EMULATED __m512i emulated_left(__m512i a, unsigned n) { return (__m512i)((emulated_words)a << n); }
EMULATED __m512i emulated_mul_u32(__m512i a, __m512i b) {
    return (__m512i)(((emulated_words)a & 0xffffffffu) * ((emulated_words)b & 0xffffffffu));
}
EMULATED __m512i emulated_abs(__m512i a) {
    const emulated_numbers x = (emulated_numbers)a, sign = x >> 63;
    return (__m512i)((x ^ sign) - sign);
}
EMULATED __m512i emulated_load(const void *at) {
    __m512i a;
    memcpy(&a, at, sizeof a);
    return a;
}
EMULATED void emulated_store(void *at, __m512i a) { memcpy(at, &a, sizeof a); }
EMULATED __mmask8 emulated_mask(emulated_numbers chosen) {
    unsigned bits = 0;
    for (int i = 0; i < 8; i++) bits |= (unsigned)(chosen[i] & 1) << i;
    return (__mmask8)bits;
}
EMULATED emulated_numbers emulated_choice(__mmask8 bits) {
    emulated_numbers chosen;
    for (int i = 0; i < 8; i++) chosen[i] = -(int64_t)(bits >> i & 1);
    return chosen;
}
EMULATED __m512i emulated_choose(__m512i otherwise, __mmask8 bits, __m512i a) {
    const emulated_numbers chosen = emulated_choice(bits);
    return (__m512i)(((emulated_numbers)a & chosen) | ((emulated_numbers)otherwise & ~chosen));
}
EMULATED __mmask16 emulated_equal_u32(__m512i a, __m512i b) {
    uint32_t x[16], y[16];
    unsigned bits = 0;
    memcpy(x, &a, sizeof x);
    memcpy(y, &b, sizeof y);
    for (int i = 0; i < 16; i++) bits |= (unsigned)(x[i] == y[i]) << i;
    return (__mmask16)bits;
}

/* ---- places ---- */

EMULATED __m512i emulated_unpack(__m512i a, __m512i b, int odd) {
    emulated_words r;
    for (int i = 0; i < 8; i++) r[i] = i % 2 ? ((emulated_words)b)[i - 1 + odd] : ((emulated_words)a)[i + odd];
    return (__m512i)r;
}
EMULATED __m512i emulated_shuffle_pairs(__m512i a, __m512i b, int places) {
    emulated_words r;
    for (int i = 0; i < 8; i++) {
        const int pair = places >> 2 * (i / 2) & 3;
        r[i] = i < 4 ? ((emulated_words)a)[2 * pair + i % 2] : ((emulated_words)b)[2 * pair + i % 2];
    }
    return (__m512i)r;
}
EMULATED __m512i emulated_permute(__m512i places, __m512i a) {
    emulated_words r;
    for (int i = 0; i < 8; i++) r[i] = ((emulated_words)a)[((emulated_words)places)[i] & 7];
    return (__m512i)r;
}
EMULATED __m512i emulated_permute_two(__m512i a, __m512i places, __m512i b) {
    emulated_words r;
    for (int i = 0; i < 8; i++) {
        const uint64_t place = ((emulated_words)places)[i];
        r[i] = place & 8 ? ((emulated_words)b)[place & 7] : ((emulated_words)a)[place & 7];
    }
    return (__m512i)r;
}
EMULATED __m512i emulated_compress(__mmask8 bits, __m512i a) {
    emulated_words r = {0};
    for (int i = 0, next = 0; i < 8; i++) {
        if (bits >> i & 1) r[next++] = ((emulated_words)a)[i];
    }
    return (__m512i)r;
}
EMULATED __m512i emulated_expand(__m512i otherwise, __mmask8 bits, __m512i a) {
    emulated_words r = (emulated_words)otherwise;
    for (int i = 0, next = 0; i < 8; i++) {
        if (bits >> i & 1) r[i] = ((emulated_words)a)[next++];
    }
    return (__m512i)r;
}
EMULATED __m256i emulated_compress_u32(__mmask8 bits, __m256i a) {
    uint32_t from[8], to[8] = {0};
    memcpy(from, &a, sizeof from);
    for (int i = 0, next = 0; i < 8; i++) {
        if (bits >> i & 1) to[next++] = from[i];
    }
    memcpy(&a, to, sizeof to);
    return a;
}
EMULATED __m512i emulated_put_half(__m512i a, __m256i b, int half) {
    memcpy((char *)&a + 32 * half, &b, sizeof b);
    return a;
}
EMULATED __m512i emulated_from_low(__m256i a) { return emulated_put_half((__m512i){0}, a, 0); }
EMULATED __m512i emulated_from_i16(__m128i a) {
    int16_t from[8];
    emulated_numbers r;
    memcpy(from, &a, sizeof from);
    for (int i = 0; i < 8; i++) r[i] = from[i];
    return (__m512i)r;
}
EMULATED __m128i emulated_to_i16(__m512i a) {
    int16_t to[8];
    __m128i r;
    for (int i = 0; i < 8; i++) to[i] = (int16_t)((emulated_numbers)a)[i];
    memcpy(&r, to, sizeof r);
    return r;
}

/* ---- doubles ---- */

/* c + a b, or c - a b, in the mode of the thread. */
EMULATED __m512d emulated_fma(__m512d a, __m512d b, __m512d c, int less) {
    __m256d x[2], y[2], z[2];
    memcpy(x, &a, sizeof x);
    memcpy(y, &b, sizeof y);
    memcpy(z, &c, sizeof z);
    for (int h = 0; h < 2; h++) z[h] = less ? _mm256_fnmadd_pd(x[h], y[h], z[h]) : _mm256_fmadd_pd(x[h], y[h], z[h]);
    memcpy(&c, z, sizeof c);
    return c;
}
/* Of words below 2^52. */
EMULATED __m512d emulated_to_real(__m512i a) {
    return (__m512d)((emulated_reals)((emulated_words)a | 0x4330000000000000u) - 0x1p52);
}

#define _mm512_add_epi64 emulated_add
#define _mm512_sub_epi64 emulated_sub
#define _mm512_and_si512 emulated_and
#define _mm512_or_si512 emulated_or
#define _mm512_mullo_epi64 emulated_mullo
#define _mm512_mul_epu32 emulated_mul_u32
#define _mm512_abs_epi64 emulated_abs
#define _mm512_set1_epi64 emulated_set1
#define _mm512_setzero_si512() emulated_set1(0)
#undef _mm512_setr_epi64
#define _mm512_setr_epi64(a, b, c, d, e, f, g, h) ((__m512i)(emulated_words){a, b, c, d, e, f, g, h})
#define _mm512_srli_epi64 emulated_right
#define _mm512_srai_epi64 emulated_right_signed
#define _mm512_slli_epi64 emulated_left
#define _mm512_loadu_si512 emulated_load
#define _mm512_storeu_si512 emulated_store
#define _mm512_cmpgt_epi64_mask(a, b) emulated_mask((emulated_numbers)(a) > (emulated_numbers)(b))
#define _mm512_cmplt_epi64_mask(a, b) emulated_mask((emulated_numbers)(a) < (emulated_numbers)(b))
#define _mm512_cmpeq_epi64_mask(a, b) emulated_mask((emulated_numbers)(a) == (emulated_numbers)(b))
#define _mm512_test_epi64_mask(a, b) emulated_mask((emulated_numbers)emulated_and(a, b) != 0)
#define _mm512_cmpeq_epi32_mask emulated_equal_u32
#define _mm512_mask_mov_epi64 emulated_choose
#define _mm512_mask_sub_epi64(otherwise, bits, a, b) emulated_choose(otherwise, bits, emulated_sub(a, b))
/* (a & b) | c, which is all that is asked of it. */
#define _mm512_ternarylogic_epi64(a, b, c, table) (emulated_is_and_or(table), emulated_or(emulated_and(a, b), c))
#define emulated_is_and_or(table) ((void)sizeof(char[(table) == 0xea ? 1 : -1]))
#define _mm512_unpacklo_epi64(a, b) emulated_unpack(a, b, 0)
#define _mm512_unpackhi_epi64(a, b) emulated_unpack(a, b, 1)
#define _mm512_shuffle_i64x2 emulated_shuffle_pairs
#define _mm512_permutexvar_epi64 emulated_permute
#define _mm512_permutex2var_epi64 emulated_permute_two
#define _mm512_maskz_compress_epi64 emulated_compress
#define _mm256_maskz_compress_epi32 emulated_compress_u32
#define _mm512_mask_expand_epi64 emulated_expand
#define _mm512_inserti64x4 emulated_put_half
#define _mm512_castsi256_si512 emulated_from_low
#define _mm512_cvtepi16_epi64 emulated_from_i16
#define _mm512_cvtepi64_epi16 emulated_to_i16
#define _mm512_set1_pd(value) ((__m512d)((emulated_reals){0} + (value)))
#define _mm512_sub_pd(a, b) ((__m512d)((emulated_reals)(a) - (emulated_reals)(b)))
#define _mm512_fmadd_round_pd(a, b, c, rounding) emulated_fma(a, b, c, 0)
#define _mm512_fnmadd_round_pd(a, b, c, rounding) emulated_fma(a, b, c, 1)
#define _mm512_cvtepu64_pd emulated_to_real
#define _mm512_castpd_si512(a) ((__m512i)(a))
#define _mm512_castsi512_pd(a) ((__m512d)(a))

#endif
