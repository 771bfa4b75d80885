/* field/fp8_impl.h - eight elements of Fp at once; included by the backends "ifma", "avx512" and "avx2", which differ in the
 * vectors (simd/lanes.h) and in the product of limbs (field/lanes52.h).
 *
 * Layout: five vectors of 52-bit limbs; lane i belongs to element i. Montgomery form with R = 2^260, so a value differs from the
 * scalar form (R = 2^256) by the factor 16. Values are "loose": non-negative, not reduced. Bounds are given in multiples of p,
 * where p < 2^253.6 and R/p > 84:
 * fp8_mul takes normalised limbs; its result is below p + a * b / R, up to a fraction of 2^-51, where p * p / R < 0.0119p;
 * in memory ("packed") values are below 2p + 2^212, in four 64-bit limbs.
 * Time does not depend on values, except that of fp8_inv and fp8_negate_packed.
 */
#ifndef G16_FIELD_FP8_IMPL_H
#define G16_FIELD_FP8_IMPL_H

#include "field/fp.h"
#include "field/lanes52.h"

typedef struct fp8 {
    lanes_u64 v[5];
} fp8;

#define FP8_LANES LANES
#define FP8_PART_LANES (LANES / LANES_PARTS)
#define FP8_MASK LANES52_MASK

/* Products by floating point are long; inlined, they would not fit the cache of decoded instructions. */
#if defined(LANES_IFMA)
#define FP8_PRODUCT static inline __attribute__((always_inline)) void
#else
#define FP8_PRODUCT static __attribute__((noinline)) void
#endif

/* Functions between products: a call would pass arguments through memory, and clear the upper halves of registers on return. */
#define FP8_INLINE static inline __attribute__((always_inline))

static const lanes52_modulus FP8_MODULUS = {
    {0x08c16d87cfd47, 0x916871ca8d3c2, 0x181585d97816a, 0xa029b85045b68, 0x030644e72e131},
    {0x20782e4866389, 0x651eca6ac987d},
    {0xc93a3dee22c55, 0xe15f4ea250777, 0x37f0b49e7cd63, 0x2079e650a0895, 0x6234192d7a1},
    {0xad9de1582c255, 0x8ad2bc2a5fd8b, 0x09ad1fe489ff8, 0x8774e6c3bdfd7, 0x0131d64f7d9d6}};
#define FP8_P FP8_MODULUS.p
static const uint64_t FP8_2P[5] = {0x1182db0f9fa8e, 0x22d0e3951a784, 0x302b0bb2f02d5, 0x405370a08b6d0,
                                   0x060c89ce5c263};
static const uint64_t FP8_4P[5] = {0x2305b61f3f51c, 0x45a1c72a34f08, 0x60561765e05aa, 0x80a6e14116da0,
                                   0x0c19139cb84c6};
static const uint64_t FP8_ONE[5] = {0x20880f6fce4b4, 0x49baa989a8455, 0x18f014a498908, 0x724f85a9201d8,
                                    0x01f16424e1bb7};
/* A scalar Montgomery product with the first converts R = 2^260 to R = 2^256, with the second back. */
static const fp FP_TO_R256 = {{0, 0, 0, 0x1000000000000000}};                /* 2^252 */
static const fp FP_TO_R260 = {{0x45520880f6fce4b4, 0x49890849baa989a8, 0x85a9201d818f014a, 0x1f16424e1bb7724f}};

FP8_INLINE lanes_u64 fp8_limb(const uint64_t limbs[5], int i) { return lanes_set(limbs[i]); }

FP8_INLINE void fp8_set(fp8 *r, const uint64_t limbs[5]) {
    for (int i = 0; i < 5; i++) r->v[i] = fp8_limb(limbs, i);
}

FP8_INLINE void fp8_carry(fp8 *r) { lanes52_carry(r->v, 1); }

/* Limb i of a multiple of p in a redundant representation: all limbs but the last are 2^57 larger, all but the first 2^5 smaller.
 * Limbs stay positive when up to 2^56 is subtracted from each, so carries are never negative. */
#define FP8_LIFT_CARRY 32
LANES_INLINE uint64_t fp8_lifted(unsigned multiple, int i) {
    return FP8_P[i] * multiple + (i < 4 ? (uint64_t)FP8_LIFT_CARRY << 52 : 0) - (i > 0 ? FP8_LIFT_CARRY : 0);
}

/* The same for limbs that are positive, except for the last, which may have any sign. */
FP8_INLINE void fp8_carry_positive(fp8 *r) { lanes52_carry(r->v, 0); }

/* r = a * b / R, below p + a * b / R. */
FP8_PRODUCT fp8_mul(fp8 *r, const fp8 *a, const fp8 *b) { lanes52_mul(r->v, a->v, b->v, &FP8_MODULUS); }

/* r = a^2 / R, bounded as fp8_mul. */
FP8_PRODUCT fp8_sqr(fp8 *r, const fp8 *a) { lanes52_sqr(r->v, a->v, &FP8_MODULUS); }

/* Two products, r0 = a0 b0 / R and r1 = a1 b1 / R, or two squares, interleaved where that is faster. */
#if LANES_PARTS > 1
#define FP8_TWO_PARTS (2 * LANES_PARTS)
#define FP8_EACH_PART(j) _Pragma("GCC unroll 1") for (int j = 0; j < FP8_TWO_PARTS; j++)

/* Reduces the columns of two products, those of r0 first. Not inlined: every interleaved operation ends here. */
FP8_PRODUCT fp8_reduce_two(fp8 *r0, fp8 *r1, lanes_part columns[FP8_TWO_PARTS][10]) {
    lanes_u64 *const results[2] = {r0->v, r1->v};
    LANES_IN_REGION;
    lanes52_reduce_two(results, columns, &FP8_MODULUS);
}

FP8_PRODUCT fp8_mul_two(fp8 *r0, const fp8 *a0, const fp8 *b0, fp8 *r1, const fp8 *a1, const fp8 *b1) {
    const fp8 *const a[2] = {a0, a1}, *const b[2] = {b0, b1};
    lanes_part columns[FP8_TWO_PARTS][10];
    FP8_EACH_PART(j) lanes52_mul_part(columns[j], a[j / LANES_PARTS]->v, b[j / LANES_PARTS]->v, j % LANES_PARTS, &FP8_MODULUS);
    fp8_reduce_two(r0, r1, columns);
}

FP8_PRODUCT fp8_sqr_two(fp8 *r0, const fp8 *a0, fp8 *r1, const fp8 *a1) {
    const fp8 *const a[2] = {a0, a1};
    lanes_part columns[FP8_TWO_PARTS][10];
    FP8_EACH_PART(j) lanes52_sqr_part(columns[j], a[j / LANES_PARTS]->v, j % LANES_PARTS, &FP8_MODULUS);
    fp8_reduce_two(r0, r1, columns);
}
#else
FP8_INLINE void fp8_mul_two(fp8 *r0, const fp8 *a0, const fp8 *b0, fp8 *r1, const fp8 *a1, const fp8 *b1) {
#if defined(LANES_IFMA)
    lanes52_mul_two(r0->v, a0->v, b0->v, r1->v, a1->v, b1->v, &FP8_MODULUS);
#else
    fp8_mul(r0, a0, b0);
    fp8_mul(r1, a1, b1);
#endif
}

FP8_INLINE void fp8_sqr_two(fp8 *r0, const fp8 *a0, fp8 *r1, const fp8 *a1) {
    fp8_sqr(r0, a0);
    fp8_sqr(r1, a1);
}
#endif

/* r = (a b + c d) / R with one reduction, below p + (a b + c d) / R. */
FP8_PRODUCT fp8_mul_sum(fp8 *r, const fp8 *a, const fp8 *b, const fp8 *c, const fp8 *d) {
    const lanes_u64 *const left[2] = {a->v, c->v}, *const right[2] = {b->v, d->v};
    lanes52_mul_sum(r->v, 2, left, right, NULL, &FP8_MODULUS);
}

/* r = a - b + 4p, for b < 4p; its bound is that of a plus 4p. */
FP8_INLINE void fp8_sub(fp8 *r, const fp8 *a, const fp8 *b) {
    for (int i = 0; i < 5; i++) r->v[i] = lanes_sub(lanes_add(a->v[i], lanes_set(fp8_lifted(4, i))), b->v[i]);
    fp8_carry_positive(r);
}

/* r = a - b + 8p, for b < 8p. */
FP8_INLINE void fp8_sub_wide(fp8 *r, const fp8 *a, const fp8 *b) {
    for (int i = 0; i < 5; i++) r->v[i] = lanes_sub(lanes_add(a->v[i], lanes_set(fp8_lifted(8, i))), b->v[i]);
    fp8_carry_positive(r);
}

/* r = a + b; its bound is the sum of both. */
FP8_INLINE void fp8_add(fp8 *r, const fp8 *a, const fp8 *b) {
    for (int i = 0; i < 5; i++) r->v[i] = lanes_add(a->v[i], b->v[i]);
    fp8_carry(r);
}

/* Reduces a value in [0, 2p * (passes + 1)), limbs not necessarily normalised, to a normalised one below 2p + 2^212. The top
 * limb, which differs from value / 2^208 by a few units at most, decides. */
static inline __attribute__((always_inline)) void fp8_reduce_packed(fp8 *r, int passes) {
    const lanes_u64 limit = lanes_set(FP8_2P[4] + 4);
    for (int pass = 0; pass < passes; pass++) {
        const lanes_choice above = lanes_above(r->v[4], limit);
        for (int i = 0; i < 5; i++) r->v[i] = lanes_sub_where(above, r->v[i], fp8_limb(FP8_2P, i));
    }
    fp8_carry(r);
}

/* Negates the lanes whose bit is set; values are below 2p + 2^212 before and after. */
FP8_INLINE void fp8_negate_lanes(fp8 *r, uint8_t lanes) {
    const lanes_choice chosen = lanes_choice_of(lanes);
    for (int i = 0; i < 5; i++) r->v[i] = lanes_sub_from_where(chosen, r->v[i], fp8_limb(FP8_4P, i));
    fp8_reduce_packed(r, 1);
}

/* Returns the lanes whose value is a multiple of p, for normalised values below 8p, as bits. */
static inline uint8_t fp8_zero_lanes(const fp8 *a) {
    uint8_t zero = 0;
    for (unsigned multiple = 0; multiple < 8; multiple++) {
        uint64_t carry = 0;
        uint8_t equal = 0xff;
        for (int i = 0; i < 5; i++) {
            carry += FP8_P[i] * multiple; /* below 2^56 */
            equal &= lanes_bits(lanes_equal(a->v[i], lanes_set(carry & FP8_MASK)));
            carry >>= 52;
        }
        zero |= equal;
    }
    return zero;
}

/* Replaces the lanes whose bit is set. */
static inline void fp8_replace_lanes(fp8 *r, uint8_t lanes, const fp8 *by) {
    for (int i = 0; i < 5; i++) r->v[i] = lanes_choose(lanes_choice_of(lanes), by->v[i], r->v[i]);
}

/* ---- memory ------------------------------------------------------------------- */

/* Converts four packed limbs to five limbs of 52 bits. */
FP8_INLINE void fp8_unpack_part(lanes_part r[5], const lanes_part l[4]) {
    const lanes_part mask = lanes_part_set(FP8_MASK);
    r[0] = lanes_part_and(l[0], mask);
    r[1] = lanes_part_and(lanes_part_or(lanes_part_right(l[0], 52), lanes_part_left(l[1], 12)), mask);
    r[2] = lanes_part_and(lanes_part_or(lanes_part_right(l[1], 40), lanes_part_left(l[2], 24)), mask);
    r[3] = lanes_part_and(lanes_part_or(lanes_part_right(l[2], 28), lanes_part_left(l[3], 36)), mask);
    r[4] = lanes_part_right(l[3], 16);
}

FP8_INLINE void fp8_pack_part(lanes_part l[4], const lanes_part a[5]) {
    l[0] = lanes_part_or(a[0], lanes_part_left(a[1], 52));
    l[1] = lanes_part_or(lanes_part_right(a[1], 12), lanes_part_left(a[2], 40));
    l[2] = lanes_part_or(lanes_part_right(a[2], 24), lanes_part_left(a[3], 28));
    l[3] = lanes_part_or(lanes_part_right(a[3], 36), lanes_part_left(a[4], 16));
}

FP8_INLINE void fp8_unpack(fp8 *r, const lanes_u64 l[4]) {
    LANES52_UNROLL
    for (int h = 0; h < LANES_PARTS; h++) {
        lanes_part packed[4], limbs[5];
        for (int i = 0; i < 4; i++) packed[i] = LANES_PART(l[i], h);
        fp8_unpack_part(limbs, packed);
        LANES52_PUT(r->v, limbs, h);
    }
}

FP8_INLINE void fp8_pack(lanes_u64 l[4], const fp8 *a) {
    LANES52_UNROLL
    for (int h = 0; h < LANES_PARTS; h++) {
        lanes_part packed[4], limbs[5];
        LANES52_TAKE(limbs, a->v, h);
        fp8_pack_part(packed, limbs);
        for (int i = 0; i < 4; i++) LANES_PART(l[i], h) = packed[i];
    }
}

/* Loads eight records of 64 bytes at at[0], ..., at[7], each of two packed elements. */
FP8_INLINE void fp8_load2(fp8 *first, fp8 *second, const void *const at[8]) {
    LANES52_UNROLL
    for (int h = 0; h < LANES_PARTS; h++) {
        lanes_part columns[4], limbs[5];
        lanes_part_load_columns(columns, at + h * FP8_PART_LANES, 0);
        fp8_unpack_part(limbs, columns);
        LANES52_PUT(first->v, limbs, h);
        lanes_part_load_columns(columns, at + h * FP8_PART_LANES, 32);
        fp8_unpack_part(limbs, columns);
        LANES52_PUT(second->v, limbs, h);
    }
}

FP8_INLINE void fp8_store2(void *const at[8], const fp8 *first, const fp8 *second) {
    lanes_u64 m[8];
    fp8_pack(m, first);
    fp8_pack(m + 4, second);
    lanes_transpose(m);
    for (int i = 0; i < 8; i++) lanes_store(at[i], m[i]);
}

/* Lane i of r = lane (i + shift) mod 8 of a. */
FP8_INLINE void fp8_rotate(fp8 *r, const fp8 *a, int shift) {
    for (int i = 0; i < 5; i++) r->v[i] = lanes_rotate(a->v[i], shift);
}

/* r = one lane, as a canonical scalar element (R = 2^256). */
static inline void fp8_extract(fp *r, const fp8 *a, int lane) {
    uint64_t words[4][8];
    lanes_u64 l[4];
    fp packed;
    fp8_pack(l, a);
    for (int i = 0; i < 4; i++) {
        lanes_store(words[i], l[i]);
        packed.v[i] = words[i][lane];
    }
    fp_mul(r, &packed, &FP_TO_R256);
}

/* All lanes of r = a scalar element. */
static inline void fp8_broadcast(fp8 *r, const fp *a) {
    fp entered;
    lanes_u64 l[4];
    fp_mul(&entered, a, &FP_TO_R260);
    for (int i = 0; i < 4; i++) l[i] = lanes_set(entered.v[i]);
    fp8_unpack(r, l);
}

/* r = -a for a packed scalar below 2p + 2^212; the result has the same bound. */
static inline void fp8_negate_packed(fp *r, const fp *a) {
    static const uint64_t two[4] = {0x7841182db0f9fa8e, 0x2f02d522d0e3951a, 0x70a08b6d0302b0bb, 0x60c89ce5c2634053};
    uint64_t borrow = 0, t[4], u[4];
    for (int i = 0; i < 4; i++) u[i] = mont256_sub_borrow(two[i], a->v[i], &borrow);
    if (borrow) { /* a is slightly above 2p: 4p - a */
        uint64_t carry = 0;
        for (int i = 0; i < 4; i++) t[i] = mont256_add_carry(u[i], two[i], &carry);
        memcpy(u, t, sizeof u);
    }
    memcpy(r->v, u, sizeof u);
}

/* Sets r = 1/a in each lane and returns 1; or returns 0 with r unspecified when the product of the lanes is zero. One scalar
 * inversion: the inverse of a lane is the inverse of the product of all lanes times the product of the other lanes. */
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
