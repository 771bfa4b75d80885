/* field/element_shared.h - elements of a prime field in the Montgomery form of field/mont256.h; included once per field.
 *
 * The including header defines FE (element type), F(name) (prefix of this field's functions), and the constants FE_MODULUS, FE_R2
 * (2^512 mod p: a product with it converts a value to Montgomery form) and FE_R3 (2^768 mod p: a product with it turns the plain
 * inverse of a Montgomery form into the Montgomery form of the inverse). This file undefines them.
 */

static inline void F(add)(FE *r, const FE *a, const FE *b) { mont256_add(r->v, a->v, b->v, &FE_MODULUS); }
static inline void F(sub)(FE *r, const FE *a, const FE *b) { mont256_sub(r->v, a->v, b->v, &FE_MODULUS); }
static inline void F(mul)(FE *r, const FE *a, const FE *b) { mont256_mul(r->v, a->v, b->v, &FE_MODULUS); }
static inline void F(sqr)(FE *r, const FE *a) { mont256_mul(r->v, a->v, a->v, &FE_MODULUS); }
static inline void F(neg)(FE *r, const FE *a) { mont256_neg(r->v, a->v, &FE_MODULUS); }
static inline void F(double)(FE *r, const FE *a) { mont256_add(r->v, a->v, a->v, &FE_MODULUS); }
static inline int F(is_zero)(const FE *a) { return mont256_is_zero(a->v); }
static inline int F(equal)(const FE *a, const FE *b) { return mont256_equal(a->v, b->v); }

/* Converts to canonical limbs (a plain integer below p), little-endian. */
static inline void F(to_limbs)(uint64_t limbs[4], const FE *a) { mont256_to_plain(limbs, a->v, &FE_MODULUS); }

/* Converts limbs below p to Montgomery form. */
static inline void F(from_limbs)(FE *r, const uint64_t limbs[4]) { mont256_mul(r->v, limbs, FE_R2.v, &FE_MODULUS); }

/* Returns 1 and the value when the bytes are below p; else 0, with r unspecified. */
static inline int F(from_bytes)(FE *r, const uint8_t in[32]) {
    uint64_t limbs[4];
    mont256_load_be(limbs, in);
    if (mont256_compare_var(limbs, FE_MODULUS.p) >= 0) return 0;
    F(from_limbs)(r, limbs);
    return 1;
}

static inline void F(to_bytes)(uint8_t out[32], const FE *a) {
    uint64_t limbs[4];
    F(to_limbs)(limbs, a);
    mont256_store_be(out, limbs);
}

/* r = 1/a, 0 for 0; time depends on a. */
static inline void F(inv)(FE *r, const FE *a) {
    uint64_t t[4];
    mont256_invert_var(t, a->v, &FE_MODULUS);
    mont256_mul(r->v, t, FE_R3.v, &FE_MODULUS);
}

#undef FE
#undef F
#undef FE_MODULUS
#undef FE_R2
#undef FE_R3
