/* cuda/field/field_impl.h - a prime field on the device; included once per field.
 *
 * The including header defines FIELD (prefix and type), the limbs FIELD_MODULUS and FIELD_ONE, four words
 * FIELD_MINUS_TWO (modulus - 2), and FIELD_INVERSE (-1/modulus mod 2^32), which are undefined here.
 *
 * Representation and contract equal those of field/fp.h and field/fr.h: Montgomery form, R = 2^256, below the modulus.
 */

typedef struct FIELD {
    DEVICE_ALIGN uint32_t v[LIMBS];
} FIELD;

#define G(name) DEVICE_JOIN(FIELD, name)

DEVICE void G(set_zero)(FIELD *r) {
    DEVICE_UNROLL
    for (int i = 0; i < LIMBS; i++) r->v[i] = 0;
}

DEVICE void G(set_one)(FIELD *r) {
    const uint32_t one[LIMBS] = FIELD_ONE;
    DEVICE_UNROLL
    for (int i = 0; i < LIMBS; i++) r->v[i] = one[i];
}

DEVICE void G(add)(FIELD *r, const FIELD *a, const FIELD *b) {
    const uint32_t m[LIMBS] = FIELD_MODULUS;
    uint32_t sum[LIMBS];
    limbs_add(sum, a->v, b->v);
    limbs_reduce(r->v, sum, m);
}

DEVICE void G(sub)(FIELD *r, const FIELD *a, const FIELD *b) {
    const uint32_t m[LIMBS] = FIELD_MODULUS;
    uint32_t masked[LIMBS], difference[LIMBS];
    const uint32_t below = limbs_sub(difference, a->v, b->v);
    DEVICE_UNROLL
    for (int i = 0; i < LIMBS; i++) masked[i] = m[i] & below;
    limbs_add_wrapping(r->v, difference, masked);
}

DEVICE int G(is_zero)(const FIELD *a) { return limbs_or(a->v) == 0; }

DEVICE int G(equal)(const FIELD *a, const FIELD *b) {
    uint32_t d[LIMBS];
    DEVICE_UNROLL
    for (int i = 0; i < LIMBS; i++) d[i] = a->v[i] ^ b->v[i];
    return limbs_or(d) == 0;
}

DEVICE void G(neg)(FIELD *r, const FIELD *a) {
    const uint32_t m[LIMBS] = FIELD_MODULUS;
    const uint32_t keep = G(is_zero)(a) ? 0u : ~0u;
    uint32_t d[LIMBS];
    limbs_sub(d, m, a->v);
    DEVICE_UNROLL
    for (int i = 0; i < LIMBS; i++) r->v[i] = d[i] & keep;
}

DEVICE void G(double)(FIELD *r, const FIELD *a) { G(add)(r, a, a); }

/* r = a + b below twice the modulus; valid only as a factor. */
DEVICE void G(add_lazy)(FIELD *r, const FIELD *a, const FIELD *b) { limbs_add(r->v, a->v, b->v); }

DEVICE_PRODUCT void G(mul)(FIELD *r, const FIELD *a, const FIELD *b) {
    const uint32_t m[LIMBS] = FIELD_MODULUS;
    limbs_montgomery(r->v, a->v, b->v, m, FIELD_INVERSE);
}

DEVICE_PRODUCT void G(sqr)(FIELD *r, const FIELD *a) {
    const uint32_t m[LIMBS] = FIELD_MODULUS;
    uint32_t wide[2 * LIMBS];
    limbs_sqr_wide(wide, a->v);
    limbs_reduce_wide(r->v, wide, m, FIELD_INVERSE);
}

/* r = a * b for a plain number b below the modulus; with b = 1, the plain value of a. */
DEVICE void G(mul_plain)(uint32_t r[LIMBS], const FIELD *a, const uint32_t b[LIMBS]) {
    const uint32_t m[LIMBS] = FIELD_MODULUS;
    limbs_montgomery(r, a->v, b, m, FIELD_INVERSE);
}

/* r = a^exponent */
DEVICE_COLD void G(pow)(FIELD *r, const FIELD *a, const uint64_t exponent[4]) {
    FIELD result, base = *a;
    G(set_one)(&result);
    for (int i = 255; i >= 0; i--) {
        G(sqr)(&result, &result);
        if ((exponent[i / 64] >> (i % 64)) & 1) G(mul)(&result, &result, &base);
    }
    *r = result;
}

/* r = 1/a, 0 for 0 */
DEVICE_COLD void G(inv)(FIELD *r, const FIELD *a) {
    const uint64_t exponent[4] = FIELD_MINUS_TWO;
    G(pow)(r, a, exponent);
}

#undef G
#undef FIELD
#undef FIELD_MODULUS
#undef FIELD_MINUS_TWO
#undef FIELD_ONE
#undef FIELD_INVERSE
