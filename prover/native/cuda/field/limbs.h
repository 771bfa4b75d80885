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

DEVICE void limbs_mad(uint32_t pairs[LIMBS], const uint32_t *x, uint32_t y, uint32_t *top) {
    uint32_t carry = 0;
    for (int i = 0; i < LIMBS; i += 2) {
        const uint64_t product = (uint64_t)x[i] * y;
        pairs[i] = limbs_add_carry(pairs[i], (uint32_t)product, &carry);
        pairs[i + 1] = limbs_add_carry(pairs[i + 1], (uint32_t)(product >> 32), &carry);
    }
    MONT256_INVARIANT(*top + (uint64_t)carry <= UINT32_MAX);
    *top += carry;
}

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

#endif
