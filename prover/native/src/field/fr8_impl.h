/* field/fr8_impl.h - eight elements of Fr at once; included by backends with SIMD lanes, see field/fp8_impl.h.
 *
 * In memory values have the scalar representation: four 64-bit limbs, R = 2^256. A product in lanes divides by 2^260, so one
 * factor is loaded multiplied by 16, which is a shift. "Loose" values are below 2.2r and not reduced. Bounds are given in
 * multiples of r, where r * r / 2^260 < 0.0119 r: a product of a with 16 b is below r + 0.19 a b.
 * Time does not depend on values.
 */
#ifndef G16_FIELD_FR8_IMPL_H
#define G16_FIELD_FR8_IMPL_H

#include "field/fp8_impl.h"
#include "field/fr.h"

typedef fp8 fr8; /* the same limbs with another modulus */

static const lanes52_modulus FR8_MODULUS = {
    {0x1f593f0000001, 0x4879b9709143e, 0x181585d2833e8, 0xa029b85045b68, 0x030644e72e131},
    {0x1f593efffffff, 0x4b4c6911b3c2e},
    {0x82e644ee4c3d2, 0xf93893c98b1de, 0xd46fe04d0a4c7, 0x8f0aad55e2a1f, 0x5ed0447de83},
    {0x74eccce9a797a, 0x16ddcc30bd8a4, 0x49ecd3539499e, 0xb23a6fcc592b8, 0x00e3bd49f6ee5}};
static const uint64_t FR8_2R[5] = {0x3eb27e0000002, 0x90f372e12287c, 0x302b0ba5067d0, 0x405370a08b6d0, 0x060c89ce5c263};
static const uint64_t FR8_4R[5] = {0x7d64fc0000004, 0x21e6e5c2450f8, 0x6056174a0cfa1, 0x80a6e14116da0, 0x0c19139cb84c6};

/* r = a * b / 2^260 of normalised limbs. */
FP8_PRODUCT fr8_mul(fr8 *r, const fr8 *a, const fr8 *b) { lanes52_mul(r->v, a->v, b->v, &FR8_MODULUS); }

/* r0 = a0 b0 / 2^260 and r1 = a1 b1 / 2^260, interleaved where that is faster. */
LANES_INLINE void fr8_mul_two(fr8 *r0, const fr8 *a0, const fr8 *b0, fr8 *r1, const fr8 *a1, const fr8 *b1) {
#if defined(LANES_IFMA)
    lanes52_mul_two(r0->v, a0->v, b0->v, r1->v, a1->v, b1->v, &FR8_MODULUS);
#else
    fr8_mul(r0, a0, b0);
    fr8_mul(r1, a1, b1);
#endif
}

/* Raw sum: the limbs are not carried. */
LANES_INLINE void fr8_add_raw(fr8 *r, const fr8 *a, const fr8 *b) {
    for (int i = 0; i < 5; i++) r->v[i] = lanes_add(a->v[i], b->v[i]);
}

/* Raw r = a - b + offset, where offset is 2r or 4r. */
LANES_INLINE void fr8_sub_raw(fr8 *r, const fr8 *a, const fr8 *b, const uint64_t offset[5]) {
    for (int i = 0; i < 5; i++) r->v[i] = lanes_sub(lanes_add(a->v[i], lanes_set(offset[i])), b->v[i]);
}

LANES_INLINE void fr8_carry(fr8 *r) { lanes52_carry(r->v, 1); }

/* Subtracts `multiple` in lanes that exceed it, judged by the top limb, which may differ from the exact one by a few units. */
LANES_INLINE void fr8_subtract_above(fr8 *r, const uint64_t multiple[5]) {
    const lanes_choice above = lanes_above(r->v[4], lanes_set(multiple[4] + 4));
    for (int i = 0; i < 5; i++) r->v[i] = lanes_sub_where(above, r->v[i], lanes_set(multiple[i]));
}

/* Reduces a raw value below 8r to a loose one. */
LANES_INLINE void fr8_reduce_loose(fr8 *r) {
    fr8_subtract_above(r, FR8_4R);
    fr8_subtract_above(r, FR8_2R);
    fr8_carry(r);
}

/* Reduces a loose value to the one below r. */
LANES_INLINE void fr8_reduce(fr8 *a) {
    for (int pass = 0; pass < 2; pass++) {
        fr8 less;
        for (int i = 0; i < 5; i++) less.v[i] = lanes_sub(a->v[i], lanes_set(FR8_MODULUS.p[i]));
        fr8_carry(&less);
        const lanes_choice below = lanes_negative(less.v[4]);
        for (int i = 0; i < 5; i++) a->v[i] = lanes_choose(below, a->v[i], less.v[i]);
    }
}

/* ---- memory ------------------------------------------------------------------- */

/* Converts four 64-bit limbs to five limbs of 52 bits, multiplied by 16. */
LANES_INLINE void fr8_unpack_factor(fr8 *r, const lanes_u64 l[4]) {
    const lanes_u64 mask = lanes_set(LANES52_MASK);
    r->v[0] = lanes_and(lanes_left(l[0], 4), mask);
    r->v[1] = lanes_and(lanes_or(lanes_right(l[0], 48), lanes_left(l[1], 16)), mask);
    r->v[2] = lanes_and(lanes_or(lanes_right(l[1], 36), lanes_left(l[2], 28)), mask);
    r->v[3] = lanes_and(lanes_or(lanes_right(l[2], 24), lanes_left(l[3], 40)), mask);
    r->v[4] = lanes_right(l[3], 12);
}

/* Load and store eight consecutive elements. All three functions assign them to lanes in the same order. */
LANES_INLINE void fr8_load(fr8 *r, const fr *at) {
    lanes_u64 m[4], l[4];
    for (int i = 0; i < 4; i++) m[i] = lanes_load(at + 2 * i);
    lanes_split_rows(l, m);
    fp8_unpack(r, l);
}

LANES_INLINE void fr8_load_factor(fr8 *r, const fr *at) {
    lanes_u64 m[4], l[4];
    for (int i = 0; i < 4; i++) m[i] = lanes_load(at + 2 * i);
    lanes_split_rows(l, m);
    fr8_unpack_factor(r, l);
}

LANES_INLINE void fr8_store(fr *at, const fr8 *a) {
    lanes_u64 m[4], l[4];
    fp8_pack(l, a);
    lanes_join_rows(m, l);
    for (int i = 0; i < 4; i++) lanes_store(at + 2 * i, m[i]);
}

/* All lanes of r = 16 times one element. */
LANES_INLINE void fr8_broadcast_factor(fr8 *r, const fr *a) {
    lanes_u64 l[4];
    for (int i = 0; i < 4; i++) l[i] = lanes_set(a->v[i]);
    fr8_unpack_factor(r, l);
}

/* All lanes of r = a plain number of four words. */
LANES_INLINE void fr8_broadcast(fr8 *r, const uint64_t number[4]) {
    lanes_u64 l[4];
    for (int i = 0; i < 4; i++) l[i] = lanes_set(number[i]);
    fp8_unpack(r, l);
}

/* Pairs of elements with a stride: lane i of first is at[i * stride], of second at[i * stride + 1]. A negative stride descends. */
LANES_INLINE void fr8_load_pairs(fr8 *first, fr8 *second, const fr *at, ptrdiff_t stride) {
    lanes_u64 m[8];
    for (int i = 0; i < 8; i++) m[i] = lanes_load(at + i * stride);
    lanes_transpose(m);
    fp8_unpack(first, m);
    fp8_unpack(second, m + 4);
}

/* The same, multiplied by 16. */
LANES_INLINE void fr8_load_factor_pairs(fr8 *first, fr8 *second, const fr *at, ptrdiff_t stride) {
    lanes_u64 m[8];
    for (int i = 0; i < 8; i++) m[i] = lanes_load(at + i * stride);
    lanes_transpose(m);
    fr8_unpack_factor(first, m);
    fr8_unpack_factor(second, m + 4);
}

LANES_INLINE void fr8_store_pairs(fr *at, ptrdiff_t stride, const fr8 *first, const fr8 *second) {
    lanes_u64 m[8];
    fp8_pack(m, first);
    fp8_pack(m + 4, second);
    lanes_transpose(m);
    for (int i = 0; i < 8; i++) lanes_store(at + i * stride, m[i]);
}

#endif
