/* fr8_impl.h - eight elements of Fr at once; included by the backends with AVX-512, see fp8_impl.h.
 *
 * Values in memory are those of scalar code: four 64-bit limbs with R = 2^256. A product of lanes divides by 2^260,
 * so one of its factors is 16 times a value of memory, which takes a shift. "Loose" values are below 2.2r and not
 * reduced. Bounds are given in multiples of r, where r * r / 2^260 < 0.0119 r: a product of a with 16 b is below
 * r + 0.19 a b.
 * Time does not depend on values.
 */
#ifndef G16_FR8_IMPL_H
#define G16_FR8_IMPL_H

#include "fp8_impl.h"
#include "fr.h"

typedef fp8 fr8; /* the same limbs, of another field */

static const lanes52_modulus FR8_MODULUS = {
    {0x1f593f0000001, 0x4879b9709143e, 0x181585d2833e8, 0xa029b85045b68, 0x030644e72e131},
    0x1f593efffffff,
    {0x82e644ee4c3d2, 0xf93893c98b1de, 0xd46fe04d0a4c7, 0x8f0aad55e2a1f, 0x5ed0447de83}};
static const uint64_t FR8_2R[5] = {0x3eb27e0000002, 0x90f372e12287c, 0x302b0ba5067d0, 0x405370a08b6d0, 0x060c89ce5c263};
static const uint64_t FR8_4R[5] = {0x7d64fc0000004, 0x21e6e5c2450f8, 0x6056174a0cfa1, 0x80a6e14116da0, 0x0c19139cb84c6};

/* r = a * b / 2^260 of normalised limbs. */
FP8_PRODUCT fr8_mul(fr8 *r, const fr8 *a, const fr8 *b) { lanes52_mul(r->v, a->v, b->v, &FR8_MODULUS); }

/* Raw sums: limbs are not carried. */
LANES_INLINE void fr8_add_raw(fr8 *r, const fr8 *a, const fr8 *b) {
    for (int i = 0; i < 5; i++) r->v[i] = _mm512_add_epi64(a->v[i], b->v[i]);
}

/* r = a - b + offset, where offset is 2r or 4r. */
LANES_INLINE void fr8_sub_raw(fr8 *r, const fr8 *a, const fr8 *b, const uint64_t offset[5]) {
    for (int i = 0; i < 5; i++) r->v[i] = _mm512_sub_epi64(_mm512_add_epi64(a->v[i], lanes_set(offset[i])), b->v[i]);
}

LANES_INLINE void fr8_carry(fr8 *r) { lanes52_carry(r->v); }

/* Subtracts `multiple` from lanes that exceed it by the top limb, which may be a few units away from the true one. */
LANES_INLINE void fr8_lower(fr8 *r, const uint64_t multiple[5]) {
    const __mmask8 above = _mm512_cmpgt_epi64_mask(r->v[4], lanes_set(multiple[4] + 4));
    for (int i = 0; i < 5; i++) r->v[i] = _mm512_mask_sub_epi64(r->v[i], above, r->v[i], lanes_set(multiple[i]));
}

/* A raw value below 8r becomes loose. */
LANES_INLINE void fr8_fit(fr8 *r) {
    fr8_lower(r, FR8_4R);
    fr8_lower(r, FR8_2R);
    fr8_carry(r);
}

/* A loose value becomes the one below r. */
LANES_INLINE void fr8_reduce(fr8 *a) {
    for (int pass = 0; pass < 2; pass++) {
        fr8 less;
        for (int i = 0; i < 5; i++) less.v[i] = _mm512_sub_epi64(a->v[i], lanes_set(FR8_MODULUS.p[i]));
        fr8_carry(&less);
        const __mmask8 above = _mm512_cmpge_epi64_mask(less.v[4], _mm512_setzero_si512());
        for (int i = 0; i < 5; i++) a->v[i] = _mm512_mask_mov_epi64(a->v[i], above, less.v[i]);
    }
}

/* ---- memory ------------------------------------------------------------------- */

/* Four 64-bit limbs -> five limbs of 52 bits of 16 times the value. */
LANES_INLINE void fr8_unpack_factor(fr8 *r, const __m512i l[4]) {
    const __m512i mask = lanes_set(LANES52_MASK);
    r->v[0] = _mm512_and_si512(_mm512_slli_epi64(l[0], 4), mask);
    r->v[1] = _mm512_and_si512(_mm512_or_si512(_mm512_srli_epi64(l[0], 48), _mm512_slli_epi64(l[1], 16)), mask);
    r->v[2] = _mm512_and_si512(_mm512_or_si512(_mm512_srli_epi64(l[1], 36), _mm512_slli_epi64(l[2], 28)), mask);
    r->v[3] = _mm512_and_si512(_mm512_or_si512(_mm512_srli_epi64(l[2], 24), _mm512_slli_epi64(l[3], 40)), mask);
    r->v[4] = _mm512_srli_epi64(l[3], 12);
}

/* Vector i holds elements 2i and 2i + 1 -> vector k holds limb k of elements 0, 2, 1, 3, 4, 6, 5, 7. */
LANES_INLINE void fr8_to_limbs(__m512i l[4], const __m512i m[4]) {
    const __m512i low0 = _mm512_unpacklo_epi64(m[0], m[1]), high0 = _mm512_unpackhi_epi64(m[0], m[1]);
    const __m512i low1 = _mm512_unpacklo_epi64(m[2], m[3]), high1 = _mm512_unpackhi_epi64(m[2], m[3]);
    l[0] = _mm512_shuffle_i64x2(low0, low1, 0x88);
    l[1] = _mm512_shuffle_i64x2(high0, high1, 0x88);
    l[2] = _mm512_shuffle_i64x2(low0, low1, 0xdd);
    l[3] = _mm512_shuffle_i64x2(high0, high1, 0xdd);
}

/* The reverse. */
LANES_INLINE void fr8_from_limbs(__m512i m[4], const __m512i l[4]) {
    const __m512i first = _mm512_setr_epi64(0, 1, 8, 9, 2, 3, 10, 11), second = _mm512_setr_epi64(4, 5, 12, 13, 6, 7, 14, 15);
    const __m512i even0 = _mm512_unpacklo_epi64(l[0], l[1]), odd0 = _mm512_unpackhi_epi64(l[0], l[1]);
    const __m512i even1 = _mm512_unpacklo_epi64(l[2], l[3]), odd1 = _mm512_unpackhi_epi64(l[2], l[3]);
    m[0] = _mm512_permutex2var_epi64(even0, first, even1);
    m[1] = _mm512_permutex2var_epi64(odd0, first, odd1);
    m[2] = _mm512_permutex2var_epi64(even0, second, even1);
    m[3] = _mm512_permutex2var_epi64(odd0, second, odd1);
}

/* Eight elements one after the other. Which lane gets which is the same in all three. */
LANES_INLINE void fr8_load(fr8 *r, const fr *at) {
    __m512i m[4], l[4];
    for (int i = 0; i < 4; i++) m[i] = _mm512_loadu_si512(at + 2 * i);
    fr8_to_limbs(l, m);
    fp8_unpack(r, l);
}

LANES_INLINE void fr8_load_factor(fr8 *r, const fr *at) {
    __m512i m[4], l[4];
    for (int i = 0; i < 4; i++) m[i] = _mm512_loadu_si512(at + 2 * i);
    fr8_to_limbs(l, m);
    fr8_unpack_factor(r, l);
}

LANES_INLINE void fr8_store(fr *at, const fr8 *a) {
    __m512i m[4], l[4];
    fp8_pack(l, a);
    fr8_from_limbs(m, l);
    for (int i = 0; i < 4; i++) _mm512_storeu_si512(at + 2 * i, m[i]);
}

/* One element in all lanes, times 16. */
LANES_INLINE void fr8_broadcast_factor(fr8 *r, const fr *a) {
    __m512i l[4];
    for (int i = 0; i < 4; i++) l[i] = lanes_set(a->v[i]);
    fr8_unpack_factor(r, l);
}

/* Pairs of elements `stride` apart from each other: lane i of first is at[i * stride], of second at[i * stride + 1].
 * A negative stride reads downwards. */
LANES_INLINE void fr8_load_pairs(fr8 *first, fr8 *second, const fr *at, ptrdiff_t stride) {
    __m512i m[8];
    for (int i = 0; i < 8; i++) m[i] = _mm512_loadu_si512(at + i * stride);
    fp8_transpose(m);
    fp8_unpack(first, m);
    fp8_unpack(second, m + 4);
}

/* 16 times these values. */
LANES_INLINE void fr8_load_factor_pairs(fr8 *first, fr8 *second, const fr *at, ptrdiff_t stride) {
    __m512i m[8];
    for (int i = 0; i < 8; i++) m[i] = _mm512_loadu_si512(at + i * stride);
    fp8_transpose(m);
    fr8_unpack_factor(first, m);
    fr8_unpack_factor(second, m + 4);
}

LANES_INLINE void fr8_store_pairs(fr *at, ptrdiff_t stride, const fr8 *first, const fr8 *second) {
    __m512i m[8];
    fp8_pack(m, first);
    fp8_pack(m + 4, second);
    fp8_transpose(m);
    for (int i = 0; i < 8; i++) _mm512_storeu_si512(at + i * stride, m[i]);
}

#endif
