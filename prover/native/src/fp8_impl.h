/* fp8_impl.h - eight elements of Fp at once; included by the backends with AVX-512, "ifma" and "avx512", which differ
 * in the product of limbs only (lanes52.h).
 *
 * Layout: five vectors of 52-bit limbs, lane i belongs to element i. Montgomery form with R = 2^260, so a value
 * differs from the scalar form (R = 2^256) by the factor 16. Values are "loose": non-negative, not reduced.
 * Bounds are given in multiples of p, where p < 2^253.6 and R/p > 84:
 *   fp8_mul  takes normalised limbs and gives less than p + a * b / R, but for a fraction of 2^-53, where p * p / R < 0.0119p;
 *   memory   holds values below 2p + 2^212 in four 64-bit limbs ("packed").
 * Time does not depend on values.
 */
#ifndef G16_FP8_IMPL_H
#define G16_FP8_IMPL_H

#include <immintrin.h>

#include "fp.h"
#include "lanes52.h"

typedef struct fp8 {
    __m512i v[5];
} fp8;

#define FP8_LANES LANES
#define FP8_MASK LANES52_MASK

/* Products from floating point are long: inlined, they would not fit the processor's cache of decoded instructions. */
#if defined(LANES_IFMA)
#define FP8_PRODUCT static inline __attribute__((always_inline)) void
#else
#define FP8_PRODUCT static __attribute__((noinline)) void
#endif

static const lanes52_modulus FP8_MODULUS = {
    {0x08c16d87cfd47, 0x916871ca8d3c2, 0x181585d97816a, 0xa029b85045b68, 0x030644e72e131},
    0x20782e4866389,
    {0xc93a3dee22c55, 0xe15f4ea250777, 0x37f0b49e7cd63, 0x2079e650a0895, 0x6234192d7a1}};
#define FP8_P FP8_MODULUS.p
static const uint64_t FP8_2P[5] = {0x1182db0f9fa8e, 0x22d0e3951a784, 0x302b0bb2f02d5, 0x405370a08b6d0,
                                   0x060c89ce5c263};
static const uint64_t FP8_4P[5] = {0x2305b61f3f51c, 0x45a1c72a34f08, 0x60561765e05aa, 0x80a6e14116da0,
                                   0x0c19139cb84c6};
static const uint64_t FP8_ONE[5] = {0x20880f6fce4b4, 0x49baa989a8455, 0x18f014a498908, 0x724f85a9201d8,
                                    0x01f16424e1bb7};
/* Scalar Montgomery products with these plain numbers change between R = 2^256 and R = 2^260. */
static const fp FP8_LEAVE = {{0, 0, 0, 0x1000000000000000}};                /* 2^252 */
static const fp FP8_ENTER = {{0x45520880f6fce4b4, 0x49890849baa989a8, 0x85a9201d818f014a, 0x1f16424e1bb7724f}};

static inline __m512i fp8_limb(const uint64_t limbs[5], int i) { return _mm512_set1_epi64((long long)limbs[i]); }

static inline void fp8_set(fp8 *r, const uint64_t limbs[5]) {
    for (int i = 0; i < 5; i++) r->v[i] = fp8_limb(limbs, i);
}

static inline void fp8_carry(fp8 *r) { lanes52_carry(r->v); }

/* r = a * b / R, below p + a * b / R. */
FP8_PRODUCT fp8_mul(fp8 *r, const fp8 *a, const fp8 *b) { lanes52_mul(r->v, a->v, b->v, &FP8_MODULUS); }

static inline void fp8_mul_fp(fp8 *r, const fp8 *a, const fp8 *b) { fp8_mul(r, a, b); }

/* r = a^2 / R, bounded as fp8_mul. */
FP8_PRODUCT fp8_sqr(fp8 *r, const fp8 *a) { lanes52_sqr(r->v, a->v, &FP8_MODULUS); }

/* r = (a b + c d) / R with one reduction, below p + (a b + c d) / R. */
FP8_PRODUCT fp8_mul_sum(fp8 *r, const fp8 *a, const fp8 *b, const fp8 *c, const fp8 *d) {
    const __m512i *const left[2] = {a->v, c->v}, *const right[2] = {b->v, d->v};
    lanes52_mul_sum(r->v, 2, left, right, NULL, &FP8_MODULUS);
}

/* r = a - b + 4p, for b < 4p: below (bound of a) + 4p. */
static inline void fp8_sub(fp8 *r, const fp8 *a, const fp8 *b) {
    for (int i = 0; i < 5; i++) {
        r->v[i] = _mm512_sub_epi64(_mm512_add_epi64(a->v[i], fp8_limb(FP8_4P, i)), b->v[i]);
    }
    fp8_carry(r);
}

/* r = a - b + 8p, for b < 8p. */
static inline void fp8_sub_wide(fp8 *r, const fp8 *a, const fp8 *b) {
    for (int i = 0; i < 5; i++) {
        const __m512i four = fp8_limb(FP8_4P, i);
        r->v[i] = _mm512_sub_epi64(_mm512_add_epi64(a->v[i], _mm512_add_epi64(four, four)), b->v[i]);
    }
    fp8_carry(r);
}

/* r = a + b; bounds add up. */
static inline void fp8_add(fp8 *r, const fp8 *a, const fp8 *b) {
    for (int i = 0; i < 5; i++) r->v[i] = _mm512_add_epi64(a->v[i], b->v[i]);
    fp8_carry(r);
}

/* Takes limbs that need not be normalised, of a value in [0, 2p * (passes + 1)), to a normalised value below
 * 2p + 2^212. The top limb decides: it is at most a few units away from the true quotient by 2^208. */
static inline __attribute__((always_inline)) void fp8_fit(fp8 *r, int passes) {
    const __m512i limit = _mm512_set1_epi64((long long)(FP8_2P[4] + 4));
    for (int pass = 0; pass < passes; pass++) {
        const __mmask8 above = _mm512_cmpgt_epi64_mask(r->v[4], limit);
        for (int i = 0; i < 5; i++) r->v[i] = _mm512_mask_sub_epi64(r->v[i], above, r->v[i], fp8_limb(FP8_2P, i));
    }
    fp8_carry(r);
}

/* Negates the lanes whose bit is set; the value is below 2p + 2^212 before and after. */
static inline void fp8_negate_lanes(fp8 *r, __mmask8 lanes) {
    for (int i = 0; i < 5; i++) r->v[i] = _mm512_mask_sub_epi64(r->v[i], lanes, fp8_limb(FP8_4P, i), r->v[i]);
    fp8_fit(r, 1);
}

/* ---- memory ------------------------------------------------------------------- */

/* Eight rows of eight words -> eight columns. */
static inline __attribute__((always_inline)) void fp8_transpose(__m512i m[8]) {
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

/* Four packed limbs -> five limbs of 52 bits. */
static inline void fp8_unpack(fp8 *r, const __m512i l[4]) {
    const __m512i mask = _mm512_set1_epi64((long long)FP8_MASK);
    r->v[0] = _mm512_and_si512(l[0], mask);
    r->v[1] = _mm512_and_si512(_mm512_or_si512(_mm512_srli_epi64(l[0], 52), _mm512_slli_epi64(l[1], 12)), mask);
    r->v[2] = _mm512_and_si512(_mm512_or_si512(_mm512_srli_epi64(l[1], 40), _mm512_slli_epi64(l[2], 24)), mask);
    r->v[3] = _mm512_and_si512(_mm512_or_si512(_mm512_srli_epi64(l[2], 28), _mm512_slli_epi64(l[3], 36)), mask);
    r->v[4] = _mm512_srli_epi64(l[3], 16);
}

static inline void fp8_pack(__m512i l[4], const fp8 *a) {
    l[0] = _mm512_or_si512(a->v[0], _mm512_slli_epi64(a->v[1], 52));
    l[1] = _mm512_or_si512(_mm512_srli_epi64(a->v[1], 12), _mm512_slli_epi64(a->v[2], 40));
    l[2] = _mm512_or_si512(_mm512_srli_epi64(a->v[2], 24), _mm512_slli_epi64(a->v[3], 28));
    l[3] = _mm512_or_si512(_mm512_srli_epi64(a->v[3], 36), _mm512_slli_epi64(a->v[4], 16));
}

/* The columns of eight rows of four words; rows are read in halves, which saves a third of the shuffles. */
static inline __attribute__((always_inline)) void fp8_load_columns(__m512i columns[4], const void *const at[8],
                                                                   size_t offset) {
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

/* Eight records of 64 bytes at `at[i]`, each two packed elements. */
static inline void fp8_load2(fp8 *first, fp8 *second, const void *const at[8]) {
    __m512i m[4];
    fp8_load_columns(m, at, 0);
    fp8_unpack(first, m);
    fp8_load_columns(m, at, 32);
    fp8_unpack(second, m);
}

static inline void fp8_store2(void *const at[8], const fp8 *first, const fp8 *second) {
    __m512i m[8];
    fp8_pack(m, first);
    fp8_pack(m + 4, second);
    fp8_transpose(m);
    for (int i = 0; i < 8; i++) _mm512_storeu_si512(at[i], m[i]);
}

/* Lane i takes the value of lane (i + shift) mod 8. */
static inline void fp8_rotate(fp8 *r, const fp8 *a, int shift) {
    const __m512i base = _mm512_setr_epi64(0, 1, 2, 3, 4, 5, 6, 7);
    const __m512i places = _mm512_and_si512(_mm512_add_epi64(base, _mm512_set1_epi64(shift)), _mm512_set1_epi64(7));
    for (int i = 0; i < 5; i++) r->v[i] = _mm512_permutexvar_epi64(places, a->v[i]);
}

/* One lane as a canonical scalar element (R = 2^256). */
static inline void fp8_extract(fp *r, const fp8 *a, int lane) {
    uint64_t words[4][8];
    __m512i l[4];
    fp packed;
    fp8_pack(l, a);
    for (int i = 0; i < 4; i++) {
        _mm512_storeu_si512(words[i], l[i]);
        packed.v[i] = words[i][lane];
    }
    fp_mul(r, &packed, &FP8_LEAVE);
}

/* All lanes from one scalar element. */
static inline void fp8_broadcast(fp8 *r, const fp *a) {
    fp entered;
    __m512i l[4];
    fp_mul(&entered, a, &FP8_ENTER);
    for (int i = 0; i < 4; i++) l[i] = _mm512_set1_epi64((long long)entered.v[i]);
    fp8_unpack(r, l);
}

/* Scalar negation of a packed value below 2p + 2^212, same bound for the result. */
static inline void fp8_negate_packed(fp *r, const fp *a) {
    static const uint64_t two[4] = {0x7841182db0f9fa8e, 0x2f02d522d0e3951a, 0x70a08b6d0302b0bb, 0x60c89ce5c2634053};
    uint64_t borrow = 0, t[4], u[4];
    for (int i = 0; i < 4; i++) u[i] = mont256_sub_borrow(two[i], a->v[i], &borrow);
    if (borrow) { /* a exceeded 2p by a little: 4p - a */
        uint64_t carry = 0;
        for (int i = 0; i < 4; i++) t[i] = mont256_add_carry(u[i], two[i], &carry);
        memcpy(u, t, sizeof u);
    }
    memcpy(r->v, u, sizeof u);
}

/* r = 1/a in each lane and 1; or 0 and r unspecified when the product of the lanes is zero. One scalar
 * inversion: each lane's inverse is the inverse of the product of all times the product of the others. */
static inline int fp8_inv(fp8 *r, const fp8 *a) {
    fp8 turned, two, four, all, others;
    fp total;
    fp8_rotate(&turned, a, 1);
    fp8_mul(&two, a, &turned); /* lanes i, i+1 */
    others = turned;
    fp8_rotate(&turned, &two, 2);
    fp8_mul(&four, &two, &turned); /* lanes i .. i+3 */
    fp8_mul(&others, &others, &turned);
    fp8_rotate(&turned, &four, 4);
    fp8_mul(&all, &four, &turned);
    fp8_mul(&others, &others, &turned); /* lanes i+1 .. i+7 */
    fp8_extract(&total, &all, 0);
    if (fp_is_zero(&total)) return 0;
    fp_inv(&total, &total);
    fp8_broadcast(&all, &total);
    fp8_mul(r, &all, &others);
    return 1;
}

#endif
