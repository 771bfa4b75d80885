/* quotient_impl.h - the quotient polynomial h = (A B - C) / (X^n - 1); included by backend.c.
 *
 * deg C < n, so A B = C on the domain and on the coset psi * omega^j, where X^n = -1, the interpolant P of the
 * products A B satisfies P = C - 2h as polynomials of degree below n: h = (C - P) / 2. C therefore needs no
 * coset transform: six transforms in all. Factors of n are left in until the end.
 */
#ifndef G16_QUOTIENT_IMPL_H
#define G16_QUOTIENT_IMPL_H

#include "ntt_impl.h"

/* values on omega^j (natural order) -> n times the values on psi * omega^j (natural order). */
static void quotient_to_coset(fr *values, uint32_t log2, const fr *table) {
    ntt_inverse(values, log2, table);
    ntt_to_coset(values, log2, table);
    ntt_forward(values, log2, table);
}

/* a, b: n times the values on the coset; c: n times the coefficients, bit-reversed. Result in a: 2n times the
 * coefficients of h, bit-reversed and reduced. b and c are used up. */
static void quotient_combine(fr *a, const fr *b, fr *c, uint32_t log2, const fr *table) {
    fr scale;
    fr_from_u64(&scale, (uint64_t)1 << log2);
    fr_sqr(&scale, &scale);
    fr_inv(&scale, &scale);
    ntt_multiply(a, b, &scale, log2);
    ntt_inverse(a, log2, table);
    ntt_leave_coset(a, c, log2, table);
}

/* The plain number 1 / (2n) mod r, which takes the result of quotient_combine to h. */
static void quotient_unit(uint64_t unit[4], uint32_t log2) {
    fr t;
    fr_from_u64(&t, (uint64_t)2 << log2);
    fr_inv(&t, &t);
    fr_to_limbs(unit, &t);
}

#endif
