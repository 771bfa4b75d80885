/* cuda/field/limbs.h - chains of 32-bit multiply-adds with carry: PTX on the GPU, the same steps in C on the host.
 *
 * A chain works on pairs of limbs (0|1, 2|3, 4|5, 6|7); each pair holds one 64-bit product. ptxas merges the two instructions of
 * a pair into one IMAD.WIDE when the pair is in an aligned register pair.
 */
#ifndef CUDA_FIELD_LIMBS_H
#define CUDA_FIELD_LIMBS_H

#include "cuda/base/device.h"

#define LIMBS 8

#if defined(__CUDACC__)

/* pairs = (x[0], x[2], x[4], x[6]) * y */
DEVICE void limbs_mul(uint32_t pairs[LIMBS], const uint32_t *x, uint32_t y) {
    DEVICE_UNROLL
    for (int i = 0; i < LIMBS; i += 2) {
        asm("mul.lo.u32 %0, %2, %3; mul.hi.u32 %1, %2, %3;"
            : "=&r"(pairs[i]), "=r"(pairs[i + 1])
            : "r"(x[i]), "r"(y));
    }
}

/* pairs += (x[0], x[2], x[4], x[6]) * y; the carry out goes to *top */
DEVICE void limbs_mad(uint32_t pairs[LIMBS], const uint32_t *x, uint32_t y, uint32_t *top) {
    asm("mad.lo.cc.u32 %0, %9, %13, %0; madc.hi.cc.u32 %1, %9, %13, %1;"
        "madc.lo.cc.u32 %2, %10, %13, %2; madc.hi.cc.u32 %3, %10, %13, %3;"
        "madc.lo.cc.u32 %4, %11, %13, %4; madc.hi.cc.u32 %5, %11, %13, %5;"
        "madc.lo.cc.u32 %6, %12, %13, %6; madc.hi.cc.u32 %7, %12, %13, %7;"
        "addc.u32 %8, %8, 0;"
        : "+&r"(pairs[0]), "+&r"(pairs[1]), "+&r"(pairs[2]), "+&r"(pairs[3]), "+&r"(pairs[4]), "+&r"(pairs[5]),
          "+&r"(pairs[6]), "+&r"(pairs[7]), "+&r"(*top)
        : "r"(x[0]), "r"(x[2]), "r"(x[4]), "r"(x[6]), "r"(y));
}

/* The same for sums without a carry out. */
DEVICE void limbs_mad_closed(uint32_t pairs[LIMBS], const uint32_t *x, uint32_t y) {
    asm("mad.lo.cc.u32 %0, %8, %12, %0; madc.hi.cc.u32 %1, %8, %12, %1;"
        "madc.lo.cc.u32 %2, %9, %12, %2; madc.hi.cc.u32 %3, %9, %12, %3;"
        "madc.lo.cc.u32 %4, %10, %12, %4; madc.hi.cc.u32 %5, %10, %12, %5;"
        "madc.lo.cc.u32 %6, %11, %12, %6; madc.hi.u32 %7, %11, %12, %7;"
        : "+&r"(pairs[0]), "+&r"(pairs[1]), "+&r"(pairs[2]), "+&r"(pairs[3]), "+&r"(pairs[4]), "+&r"(pairs[5]),
          "+&r"(pairs[6]), "+&r"(pairs[7])
        : "r"(x[0]), "r"(x[2]), "r"(x[4]), "r"(x[6]), "r"(y));
}

/* *low += shifted[1]; then, with the carry of that, pairs = (shifted[2 .. 7], 0, 0) + (x[0], x[2], x[4], x[6]) * y. The sum has
 * no carry out. */
DEVICE void limbs_mad_shifted(uint32_t pairs[LIMBS], uint32_t *low, const uint32_t shifted[LIMBS], const uint32_t *x,
                              uint32_t y) {
    asm("add.cc.u32 %8, %8, %9;"
        "madc.lo.cc.u32 %0, %16, %20, %10; madc.hi.cc.u32 %1, %16, %20, %11;"
        "madc.lo.cc.u32 %2, %17, %20, %12; madc.hi.cc.u32 %3, %17, %20, %13;"
        "madc.lo.cc.u32 %4, %18, %20, %14; madc.hi.cc.u32 %5, %18, %20, %15;"
        "madc.lo.cc.u32 %6, %19, %20, 0; madc.hi.u32 %7, %19, %20, 0;"
        : "=&r"(pairs[0]), "=&r"(pairs[1]), "=&r"(pairs[2]), "=&r"(pairs[3]), "=&r"(pairs[4]), "=&r"(pairs[5]),
          "=&r"(pairs[6]), "=&r"(pairs[7]), "+&r"(*low)
        : "r"(shifted[1]), "r"(shifted[2]), "r"(shifted[3]), "r"(shifted[4]), "r"(shifted[5]), "r"(shifted[6]),
          "r"(shifted[7]), "r"(x[0]), "r"(x[2]), "r"(x[4]), "r"(x[6]), "r"(y));
}

/* r = a + b without a carry out */
DEVICE void limbs_add(uint32_t r[LIMBS], const uint32_t a[LIMBS], const uint32_t b[LIMBS]) {
    asm("add.cc.u32 %0, %8, %16; addc.cc.u32 %1, %9, %17; addc.cc.u32 %2, %10, %18; addc.cc.u32 %3, %11, %19;"
        "addc.cc.u32 %4, %12, %20; addc.cc.u32 %5, %13, %21; addc.cc.u32 %6, %14, %22; addc.u32 %7, %15, %23;"
        : "=&r"(r[0]), "=&r"(r[1]), "=&r"(r[2]), "=&r"(r[3]), "=&r"(r[4]), "=&r"(r[5]), "=&r"(r[6]), "=&r"(r[7])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(a[4]), "r"(a[5]), "r"(a[6]), "r"(a[7]), "r"(b[0]),
          "r"(b[1]), "r"(b[2]), "r"(b[3]), "r"(b[4]), "r"(b[5]), "r"(b[6]), "r"(b[7]));
}

/* r = a + b mod 2^256 */
DEVICE void limbs_add_wrapping(uint32_t r[LIMBS], const uint32_t a[LIMBS], const uint32_t b[LIMBS]) { limbs_add(r, a, b); }

/* r = a - b mod 2^256; returns all ones when a < b, else 0 */
DEVICE uint32_t limbs_sub(uint32_t r[LIMBS], const uint32_t a[LIMBS], const uint32_t b[LIMBS]) {
    uint32_t borrow;
    asm("sub.cc.u32 %0, %9, %17; subc.cc.u32 %1, %10, %18; subc.cc.u32 %2, %11, %19; subc.cc.u32 %3, %12, %20;"
        "subc.cc.u32 %4, %13, %21; subc.cc.u32 %5, %14, %22; subc.cc.u32 %6, %15, %23; subc.cc.u32 %7, %16, %24;"
        "subc.u32 %8, 0, 0;"
        : "=&r"(r[0]), "=&r"(r[1]), "=&r"(r[2]), "=&r"(r[3]), "=&r"(r[4]), "=&r"(r[5]), "=&r"(r[6]), "=&r"(r[7]),
          "=r"(borrow)
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(a[4]), "r"(a[5]), "r"(a[6]), "r"(a[7]), "r"(b[0]),
          "r"(b[1]), "r"(b[2]), "r"(b[3]), "r"(b[4]), "r"(b[5]), "r"(b[6]), "r"(b[7]));
    return borrow;
}

/* even += odd[1 .. 7] */
DEVICE void limbs_add_shifted(uint32_t even[LIMBS], const uint32_t odd[LIMBS]) {
    asm("add.cc.u32 %0, %0, %8; addc.cc.u32 %1, %1, %9; addc.cc.u32 %2, %2, %10; addc.cc.u32 %3, %3, %11;"
        "addc.cc.u32 %4, %4, %12; addc.cc.u32 %5, %5, %13; addc.cc.u32 %6, %6, %14; addc.u32 %7, %7, 0;"
        : "+&r"(even[0]), "+&r"(even[1]), "+&r"(even[2]), "+&r"(even[3]), "+&r"(even[4]), "+&r"(even[5]), "+&r"(even[6]),
          "+&r"(even[7])
        : "r"(odd[1]), "r"(odd[2]), "r"(odd[3]), "r"(odd[4]), "r"(odd[5]), "r"(odd[6]), "r"(odd[7]));
}

/* chains of fewer products than limbs_mad(): pairs += (x[0], x[2], x[4]) * y and so on; the carry out goes to *top */
DEVICE void limbs_mad_3(uint32_t *pairs, const uint32_t *x, uint32_t y, uint32_t *top) {
    asm("mad.lo.cc.u32 %0, %7, %10, %0; madc.hi.cc.u32 %1, %7, %10, %1;"
        "madc.lo.cc.u32 %2, %8, %10, %2; madc.hi.cc.u32 %3, %8, %10, %3;"
        "madc.lo.cc.u32 %4, %9, %10, %4; madc.hi.cc.u32 %5, %9, %10, %5;"
        "addc.u32 %6, %6, 0;"
        : "+&r"(pairs[0]), "+&r"(pairs[1]), "+&r"(pairs[2]), "+&r"(pairs[3]), "+&r"(pairs[4]), "+&r"(pairs[5]), "+&r"(*top)
        : "r"(x[0]), "r"(x[2]), "r"(x[4]), "r"(y));
}

DEVICE void limbs_mad_2(uint32_t *pairs, const uint32_t *x, uint32_t y, uint32_t *top) {
    asm("mad.lo.cc.u32 %0, %5, %7, %0; madc.hi.cc.u32 %1, %5, %7, %1;"
        "madc.lo.cc.u32 %2, %6, %7, %2; madc.hi.cc.u32 %3, %6, %7, %3;"
        "addc.u32 %4, %4, 0;"
        : "+&r"(pairs[0]), "+&r"(pairs[1]), "+&r"(pairs[2]), "+&r"(pairs[3]), "+&r"(*top)
        : "r"(x[0]), "r"(x[2]), "r"(y));
}

DEVICE void limbs_mad_1(uint32_t *pairs, const uint32_t *x, uint32_t y, uint32_t *top) {
    asm("mad.lo.cc.u32 %0, %3, %4, %0; madc.hi.cc.u32 %1, %3, %4, %1; addc.u32 %2, %2, 0;"
        : "+&r"(pairs[0]), "+&r"(pairs[1]), "+&r"(*top)
        : "r"(x[0]), "r"(y));
}

/* wide += (x[0]^2, ..., x[7]^2) without a carry out */
DEVICE void limbs_add_squares(uint32_t wide[2 * LIMBS], const uint32_t x[LIMBS]) {
    asm("mad.lo.cc.u32 %0, %16, %16, %0; madc.hi.cc.u32 %1, %16, %16, %1;"
        "madc.lo.cc.u32 %2, %17, %17, %2; madc.hi.cc.u32 %3, %17, %17, %3;"
        "madc.lo.cc.u32 %4, %18, %18, %4; madc.hi.cc.u32 %5, %18, %18, %5;"
        "madc.lo.cc.u32 %6, %19, %19, %6; madc.hi.cc.u32 %7, %19, %19, %7;"
        "madc.lo.cc.u32 %8, %20, %20, %8; madc.hi.cc.u32 %9, %20, %20, %9;"
        "madc.lo.cc.u32 %10, %21, %21, %10; madc.hi.cc.u32 %11, %21, %21, %11;"
        "madc.lo.cc.u32 %12, %22, %22, %12; madc.hi.cc.u32 %13, %22, %22, %13;"
        "madc.lo.cc.u32 %14, %23, %23, %14; madc.hi.u32 %15, %23, %23, %15;"
        : "+&r"(wide[0]), "+&r"(wide[1]), "+&r"(wide[2]), "+&r"(wide[3]), "+&r"(wide[4]), "+&r"(wide[5]), "+&r"(wide[6]),
          "+&r"(wide[7]), "+&r"(wide[8]), "+&r"(wide[9]), "+&r"(wide[10]), "+&r"(wide[11]), "+&r"(wide[12]), "+&r"(wide[13]),
          "+&r"(wide[14]), "+&r"(wide[15])
        : "r"(x[0]), "r"(x[1]), "r"(x[2]), "r"(x[3]), "r"(x[4]), "r"(x[5]), "r"(x[6]), "r"(x[7]));
}

#define LIMBS_16(a)                                                                                                    \
    "+&r"(a[0]), "+&r"(a[1]), "+&r"(a[2]), "+&r"(a[3]), "+&r"(a[4]), "+&r"(a[5]), "+&r"(a[6]), "+&r"(a[7]), "+&r"(a[8]), \
        "+&r"(a[9]), "+&r"(a[10]), "+&r"(a[11]), "+&r"(a[12]), "+&r"(a[13]), "+&r"(a[14]), "+&r"(a[15])

/* a += b << 32, of which the highest limb of b is 0, without a carry out */
DEVICE void limbs_add_odd_wide(uint32_t a[2 * LIMBS], const uint32_t b[2 * LIMBS]) {
    asm("add.cc.u32 %1, %1, %16; addc.cc.u32 %2, %2, %17; addc.cc.u32 %3, %3, %18; addc.cc.u32 %4, %4, %19;"
        "addc.cc.u32 %5, %5, %20; addc.cc.u32 %6, %6, %21; addc.cc.u32 %7, %7, %22; addc.cc.u32 %8, %8, %23;"
        "addc.cc.u32 %9, %9, %24; addc.cc.u32 %10, %10, %25; addc.cc.u32 %11, %11, %26; addc.cc.u32 %12, %12, %27;"
        "addc.cc.u32 %13, %13, %28; addc.cc.u32 %14, %14, %29; addc.u32 %15, %15, %30;"
        : LIMBS_16(a)
        : "r"(b[0]), "r"(b[1]), "r"(b[2]), "r"(b[3]), "r"(b[4]), "r"(b[5]), "r"(b[6]), "r"(b[7]), "r"(b[8]), "r"(b[9]),
          "r"(b[10]), "r"(b[11]), "r"(b[12]), "r"(b[13]), "r"(b[14]));
}

/* a *= 2 without a carry out; a[0] is 0 */
DEVICE void limbs_double_wide(uint32_t a[2 * LIMBS]) {
    asm("add.cc.u32 %1, %1, %1; addc.cc.u32 %2, %2, %2; addc.cc.u32 %3, %3, %3; addc.cc.u32 %4, %4, %4;"
        "addc.cc.u32 %5, %5, %5; addc.cc.u32 %6, %6, %6; addc.cc.u32 %7, %7, %7; addc.cc.u32 %8, %8, %8;"
        "addc.cc.u32 %9, %9, %9; addc.cc.u32 %10, %10, %10; addc.cc.u32 %11, %11, %11; addc.cc.u32 %12, %12, %12;"
        "addc.cc.u32 %13, %13, %13; addc.cc.u32 %14, %14, %14; addc.u32 %15, %15, %15;"
        : LIMBS_16(a));
}

/* a -= b; returns all ones when there is a borrow, else 0 */
DEVICE uint32_t limbs_sub_wide(uint32_t a[2 * LIMBS], const uint32_t b[2 * LIMBS]) {
    uint32_t borrow;
    asm("sub.cc.u32 %0, %0, %17; subc.cc.u32 %1, %1, %18; subc.cc.u32 %2, %2, %19; subc.cc.u32 %3, %3, %20;"
        "subc.cc.u32 %4, %4, %21; subc.cc.u32 %5, %5, %22; subc.cc.u32 %6, %6, %23; subc.cc.u32 %7, %7, %24;"
        "subc.cc.u32 %8, %8, %25; subc.cc.u32 %9, %9, %26; subc.cc.u32 %10, %10, %27; subc.cc.u32 %11, %11, %28;"
        "subc.cc.u32 %12, %12, %29; subc.cc.u32 %13, %13, %30; subc.cc.u32 %14, %14, %31; subc.cc.u32 %15, %15, %32;"
        "subc.u32 %16, 0, 0;"
        : LIMBS_16(a), "=r"(borrow)
        : "r"(b[0]), "r"(b[1]), "r"(b[2]), "r"(b[3]), "r"(b[4]), "r"(b[5]), "r"(b[6]), "r"(b[7]), "r"(b[8]), "r"(b[9]),
          "r"(b[10]), "r"(b[11]), "r"(b[12]), "r"(b[13]), "r"(b[14]), "r"(b[15]));
    return borrow;
}

#undef LIMBS_16

#else

#include "field/mont256.h"

/* r = a + b + carry */
static inline uint32_t limbs_add_carry(uint32_t a, uint32_t b, uint32_t *carry) {
    const uint64_t sum = (uint64_t)a + b + *carry;
    *carry = (uint32_t)(sum >> 32);
    return (uint32_t)sum;
}

DEVICE void limbs_mul(uint32_t pairs[LIMBS], const uint32_t *x, uint32_t y) {
    for (int i = 0; i < LIMBS; i += 2) {
        const uint64_t product = (uint64_t)x[i] * y;
        pairs[i] = (uint32_t)product;
        pairs[i + 1] = (uint32_t)(product >> 32);
    }
}

static inline void limbs_mad_some(uint32_t *pairs, const uint32_t *x, uint32_t y, int products, uint32_t *top) {
    uint32_t carry = 0;
    for (int i = 0; i < 2 * products; i += 2) {
        const uint64_t product = (uint64_t)x[i] * y;
        pairs[i] = limbs_add_carry(pairs[i], (uint32_t)product, &carry);
        pairs[i + 1] = limbs_add_carry(pairs[i + 1], (uint32_t)(product >> 32), &carry);
    }
    MONT256_INVARIANT(*top + (uint64_t)carry <= UINT32_MAX);
    *top += carry;
}

DEVICE void limbs_mad(uint32_t pairs[LIMBS], const uint32_t *x, uint32_t y, uint32_t *top) { limbs_mad_some(pairs, x, y, 4, top); }
DEVICE void limbs_mad_3(uint32_t *pairs, const uint32_t *x, uint32_t y, uint32_t *top) { limbs_mad_some(pairs, x, y, 3, top); }
DEVICE void limbs_mad_2(uint32_t *pairs, const uint32_t *x, uint32_t y, uint32_t *top) { limbs_mad_some(pairs, x, y, 2, top); }
DEVICE void limbs_mad_1(uint32_t *pairs, const uint32_t *x, uint32_t y, uint32_t *top) { limbs_mad_some(pairs, x, y, 1, top); }

DEVICE void limbs_mad_closed(uint32_t pairs[LIMBS], const uint32_t *x, uint32_t y) {
    uint32_t carry = 0;
    limbs_mad(pairs, x, y, &carry);
    MONT256_INVARIANT(carry == 0);
}

DEVICE void limbs_mad_shifted(uint32_t pairs[LIMBS], uint32_t *low, const uint32_t shifted[LIMBS], const uint32_t *x,
                              uint32_t y) {
    uint32_t carry = 0;
    *low = limbs_add_carry(*low, shifted[1], &carry);
    for (int i = 0; i < LIMBS; i += 2) {
        const uint64_t product = (uint64_t)x[i] * y;
        const uint32_t first = i < LIMBS - 2 ? shifted[i + 2] : 0, second = i < LIMBS - 2 ? shifted[i + 3] : 0;
        pairs[i] = limbs_add_carry(first, (uint32_t)product, &carry);
        pairs[i + 1] = limbs_add_carry(second, (uint32_t)(product >> 32), &carry);
    }
    MONT256_INVARIANT(carry == 0);
}

DEVICE void limbs_add(uint32_t r[LIMBS], const uint32_t a[LIMBS], const uint32_t b[LIMBS]) {
    uint32_t carry = 0;
    for (int i = 0; i < LIMBS; i++) r[i] = limbs_add_carry(a[i], b[i], &carry);
    MONT256_INVARIANT(carry == 0);
}

DEVICE void limbs_add_wrapping(uint32_t r[LIMBS], const uint32_t a[LIMBS], const uint32_t b[LIMBS]) {
    uint32_t carry = 0;
    for (int i = 0; i < LIMBS; i++) r[i] = limbs_add_carry(a[i], b[i], &carry);
}

DEVICE uint32_t limbs_sub(uint32_t r[LIMBS], const uint32_t a[LIMBS], const uint32_t b[LIMBS]) {
    uint32_t borrow = 0;
    for (int i = 0; i < LIMBS; i++) {
        const uint64_t difference = (uint64_t)a[i] - b[i] - borrow;
        r[i] = (uint32_t)difference;
        borrow = (uint32_t)(difference >> 63);
    }
    return 0u - borrow;
}

DEVICE void limbs_add_shifted(uint32_t even[LIMBS], const uint32_t odd[LIMBS]) {
    uint32_t carry = 0;
    for (int i = 0; i < LIMBS; i++) even[i] = limbs_add_carry(even[i], i < LIMBS - 1 ? odd[i + 1] : 0, &carry);
    MONT256_INVARIANT(carry == 0);
}

DEVICE void limbs_add_squares(uint32_t wide[2 * LIMBS], const uint32_t x[LIMBS]) {
    uint32_t carry = 0;
    for (int i = 0; i < LIMBS; i++) {
        const uint64_t square = (uint64_t)x[i] * x[i];
        wide[2 * i] = limbs_add_carry(wide[2 * i], (uint32_t)square, &carry);
        wide[2 * i + 1] = limbs_add_carry(wide[2 * i + 1], (uint32_t)(square >> 32), &carry);
    }
    MONT256_INVARIANT(carry == 0);
}

DEVICE void limbs_add_odd_wide(uint32_t a[2 * LIMBS], const uint32_t b[2 * LIMBS]) {
    uint32_t carry = 0;
    for (int i = 1; i < 2 * LIMBS; i++) a[i] = limbs_add_carry(a[i], b[i - 1], &carry);
    MONT256_INVARIANT(carry == 0 && b[2 * LIMBS - 1] == 0);
}

DEVICE void limbs_double_wide(uint32_t a[2 * LIMBS]) {
    uint32_t carry = 0;
    MONT256_INVARIANT(a[0] == 0);
    for (int i = 1; i < 2 * LIMBS; i++) a[i] = limbs_add_carry(a[i], a[i], &carry);
    MONT256_INVARIANT(carry == 0);
}

DEVICE uint32_t limbs_sub_wide(uint32_t a[2 * LIMBS], const uint32_t b[2 * LIMBS]) {
    uint32_t borrow = 0;
    for (int i = 0; i < 2 * LIMBS; i++) {
        const uint64_t difference = (uint64_t)a[i] - b[i] - borrow;
        a[i] = (uint32_t)difference;
        borrow = (uint32_t)(difference >> 63);
    }
    return 0u - borrow;
}

#endif

DEVICE uint32_t limbs_or(const uint32_t a[LIMBS]) {
    return (a[0] | a[1]) | (a[2] | a[3]) | (a[4] | a[5]) | (a[6] | a[7]);
}

/* r = a - m when a >= m, else a */
DEVICE void limbs_reduce(uint32_t r[LIMBS], const uint32_t a[LIMBS], const uint32_t m[LIMBS]) {
    uint32_t d[LIMBS];
    const uint32_t below = limbs_sub(d, a, m);
    DEVICE_UNROLL
    for (int i = 0; i < LIMBS; i++) r[i] = below ? a[i] : d[i];
}

/* r = a * b / 2^256 mod m for factors below 2m, 4m < 2^256; inverse = -1/m mod 2^32. The running sum is even + 2^32 odd. A step
 * adds a * b[i] and the multiple of m that clears the lowest limb, then drops that limb, which exchanges the roles of the two. */
DEVICE void limbs_montgomery(uint32_t r[LIMBS], const uint32_t a[LIMBS], const uint32_t b[LIMBS],
                             const uint32_t m[LIMBS], uint32_t inverse) {
    uint32_t first[LIMBS], second[LIMBS];
    limbs_mul(first, a, b[0]);
    limbs_mul(second, a + 1, b[0]);
    DEVICE_UNROLL
    for (int i = 0; i < LIMBS; i += 2) {
        if (i > 0) {
            limbs_mad_shifted(second, &first[0], second, a + 1, b[i]);
            limbs_mad(first, a, b[i], &second[7]);
        }
        uint32_t q = first[0] * inverse;
        limbs_mad_closed(second, m + 1, q);
        limbs_mad(first, m, q, &second[7]);
        limbs_mad_shifted(first, &second[0], first, a + 1, b[i + 1]);
        limbs_mad(second, a, b[i + 1], &first[7]);
        q = second[0] * inverse;
        limbs_mad_closed(first, m + 1, q);
        limbs_mad(second, m, q, &first[7]);
    }
    /* After the last step, which cleared second[0], `first` holds the even part. */
    limbs_add_shifted(first, second);
    limbs_reduce(r, first, m);
}

/* wide = a * b for a b of an even number of limbs; the limbs above the product are 0. The products of one limb of b go to two rows:
 * those at even places to `wide`, those at odd places to `odd`. A row's limb above a product's is 0, or a carry. */
DEVICE void limbs_mul_some(uint32_t wide[2 * LIMBS], const uint32_t a[LIMBS], const uint32_t *b, int limbs) {
    uint32_t odd[2 * LIMBS];
    DEVICE_UNROLL
    for (int i = LIMBS; i < 2 * LIMBS; i++) wide[i] = odd[i] = 0;
    limbs_mul(wide, a, b[0]);
    limbs_mul(odd, a + 1, b[0]);
    DEVICE_UNROLL
    for (int i = 1; i < limbs; i++) {
        if (i % 2) {
            limbs_mad(odd + i - 1, a, b[i], &odd[i + LIMBS - 1]);
            if (i < limbs - 1) {
                limbs_mad(wide + i + 1, a + 1, b[i], &wide[i + LIMBS + 1]);
            } else {
                limbs_mad_closed(wide + i + 1, a + 1, b[i]);
            }
        } else {
            limbs_mad(wide + i, a, b[i], &wide[i + LIMBS]);
            limbs_mad(odd + i, a + 1, b[i], &odd[i + LIMBS]);
        }
    }
    limbs_add_odd_wide(wide, odd);
}

DEVICE void limbs_mul_wide(uint32_t wide[2 * LIMBS], const uint32_t a[LIMBS], const uint32_t b[LIMBS]) {
    limbs_mul_some(wide, a, b, LIMBS);
}

/* wide = a^2: each product of two limbs once, doubled, and the squares of limbs. */
DEVICE void limbs_sqr_wide(uint32_t wide[2 * LIMBS], const uint32_t a[LIMBS]) {
    uint32_t odd[2 * LIMBS];
    DEVICE_UNROLL
    for (int i = 0; i < 2 * LIMBS; i++) wide[i] = odd[i] = 0;
    limbs_mul(odd, a + 1, a[0]);
    limbs_mad_3(wide + 2, a + 2, a[0], &wide[8]);
    limbs_mad_3(odd + 2, a + 2, a[1], &odd[8]);
    limbs_mad_3(wide + 4, a + 3, a[1], &wide[10]);
    limbs_mad_3(odd + 4, a + 3, a[2], &odd[10]);
    limbs_mad_2(wide + 6, a + 4, a[2], &wide[10]);
    limbs_mad_2(odd + 6, a + 4, a[3], &odd[10]);
    limbs_mad_2(wide + 8, a + 5, a[3], &wide[12]);
    limbs_mad_2(odd + 8, a + 5, a[4], &odd[12]);
    limbs_mad_1(wide + 10, a + 6, a[4], &wide[12]);
    limbs_mad_1(odd + 10, a + 6, a[5], &odd[12]);
    limbs_mad_1(wide + 12, a + 7, a[5], &wide[14]);
    limbs_mad_1(odd + 12, a + 7, a[6], &odd[14]);
    limbs_add_odd_wide(wide, odd);
    limbs_double_wide(wide);
    limbs_add_squares(wide, a);
}

/* r = wide / 2^256 mod m, for wide < 2^256 m. The low half is cleared as by limbs_montgomery(); the high half is added at the end. */
DEVICE void limbs_reduce_wide(uint32_t r[LIMBS], const uint32_t wide[2 * LIMBS], const uint32_t m[LIMBS], uint32_t inverse) {
    uint32_t first[LIMBS], second[LIMBS];
    DEVICE_UNROLL
    for (int i = 0; i < LIMBS; i++) first[i] = wide[i];
    DEVICE_UNROLL
    for (int i = 0; i < LIMBS; i += 2) {
        uint32_t q = (i > 0 ? first[0] + second[1] : first[0]) * inverse;
        if (i > 0) {
            limbs_mad_shifted(second, &first[0], second, m + 1, q);
        } else {
            limbs_mul(second, m + 1, q);
        }
        limbs_mad(first, m, q, &second[7]);
        q = (second[0] + first[1]) * inverse;
        limbs_mad_shifted(first, &second[0], first, m + 1, q);
        limbs_mad(second, m, q, &first[7]);
    }
    limbs_add_shifted(first, second);
    limbs_add(first, first, wide + LIMBS);
    limbs_reduce(r, first, m);
}

#endif
