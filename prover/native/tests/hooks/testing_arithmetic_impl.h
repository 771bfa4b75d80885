/* testing_arithmetic_impl.h - hooks over what host and device code have in common: Fr, Fp, Fp2, G1 and G2; included by
 * testing_field_impl.h for the host's backends and by testing_cuda.c.
 *
 * Every hook has the signature `int32_t hook(uint8_t *out, const uint8_t *in, size_t in_size)`. Operands lie back
 * to back in `in`: scalars and coordinates as 32 bytes, big-endian, canonical; extension fields from the
 * coefficient of 1 upward; affine points as x | y, all zero for infinity. A hook returns 0 (or the answer of a
 * predicate), T_NOT_CANONICAL when an operand is not below its modulus, T_ALIASING when the result
 * depends on whether the output is one of the inputs, T_BAD_SIZE when in_size does not fit.
 */
#include <string.h>

#define T_NOT_CANONICAL (-1)
#define T_ALIASING (-2)
#define T_BAD_SIZE (-3)

#define T_JOIN_(prefix, backend, name) prefix##_##backend##_##name
#define T_JOIN(prefix, backend, name) T_JOIN_(prefix, backend, name)
#define T_HOOK(prefix, name)                                                                                 \
    __attribute__((visibility("default"))) int32_t T_JOIN(prefix, T_BACKEND, name)(                         \
        uint8_t *out, const uint8_t *in, size_t in_size);                                                   \
    int32_t T_JOIN(prefix, T_BACKEND, name)(uint8_t * out, const uint8_t *in, size_t in_size)

/* ---- bytes --------------------------------------------------------------------------- */

static inline int fr_read(fr *r, const uint8_t *in) { return fr_from_bytes(r, in); }
static inline void fr_write(uint8_t *out, const fr *a) { fr_to_bytes(out, a); }
static inline int fp_read(fp *r, const uint8_t *in) { return fp_from_bytes(r, in); }
static inline void fp_write(uint8_t *out, const fp *a) { fp_to_bytes(out, a); }

static int fp_read_many(void *r, const uint8_t *in, size_t count) {
    fp value;
    for (size_t i = 0; i < count; i++) {
        if (!fp_from_bytes(&value, in + 32 * i)) return 0;
        memcpy((uint8_t *)r + i * sizeof value, &value, sizeof value);
    }
    return 1;
}

static void fp_write_many(uint8_t *out, const void *a, size_t count) {
    fp value;
    for (size_t i = 0; i < count; i++) {
        memcpy(&value, (const uint8_t *)a + i * sizeof value, sizeof value);
        fp_to_bytes(out + 32 * i, &value);
    }
}

#define T_TUPLE(type)                                                                                        \
    static inline int type##_read(type *r, const uint8_t *in) {                                              \
        return fp_read_many(r, in, sizeof(type) / sizeof(fp));                                              \
    }                                                                                                        \
    static inline void type##_write(uint8_t *out, const type *a) {                                           \
        fp_write_many(out, a, sizeof(type) / sizeof(fp));                                                   \
    }
T_TUPLE(fp2)
T_TUPLE(g1_affine)
T_TUPLE(g2_affine)

/* ---- one and two operands --------------------------------------------------------------- */

#define T_UNARY(type, name)                                                                                  \
    T_HOOK(t_field, type##_##name) {                                                                         \
        type a, r;                                                                                           \
        if (in_size != sizeof(type)) return T_BAD_SIZE;                                                      \
        if (!type##_read(&a, in)) return T_NOT_CANONICAL;                                                    \
        type##_##name(&r, &a);                                                                               \
        type##_##name(&a, &a);                                                                               \
        type##_write(out, &r);                                                                               \
        return memcmp(&a, &r, sizeof a) ? T_ALIASING : 0;                                                    \
    }

#define T_BINARY(type, name)                                                                                 \
    T_HOOK(t_field, type##_##name) {                                                                         \
        type a, b, r, first, second;                                                                         \
        if (in_size != 2 * sizeof(type)) return T_BAD_SIZE;                                                  \
        if (!type##_read(&a, in) || !type##_read(&b, in + sizeof(type))) return T_NOT_CANONICAL;             \
        first = a;                                                                                           \
        second = b;                                                                                          \
        type##_##name(&r, &a, &b);                                                                           \
        type##_##name(&first, &first, &b);                                                                   \
        type##_##name(&second, &a, &second);                                                                 \
        type##_write(out, &r);                                                                               \
        return memcmp(&first, &r, sizeof r) || memcmp(&second, &r, sizeof r) ? T_ALIASING : 0;               \
    }

#define T_PREDICATE(type, name)                                                                              \
    T_HOOK(t_field, type##_##name) {                                                                         \
        type a;                                                                                              \
        (void)out;                                                                                           \
        if (in_size != sizeof(type)) return T_BAD_SIZE;                                                      \
        return type##_read(&a, in) ? type##_##name(&a) : T_NOT_CANONICAL;                                    \
    }

#define T_EQUALITY(type)                                                                                     \
    T_HOOK(t_field, type##_equal) {                                                                          \
        type a, b;                                                                                           \
        (void)out;                                                                                           \
        if (in_size != 2 * sizeof(type)) return T_BAD_SIZE;                                                  \
        if (!type##_read(&a, in) || !type##_read(&b, in + sizeof(type))) return T_NOT_CANONICAL;             \
        return type##_equal(&a, &b);                                                                         \
    }

T_BINARY(fr, add)
T_BINARY(fr, sub)
T_BINARY(fr, mul)
T_UNARY(fr, sqr)
T_UNARY(fr, neg)
T_UNARY(fr, double)
T_UNARY(fr, inv)
T_PREDICATE(fr, is_zero)
T_EQUALITY(fr)

T_BINARY(fp, add)
T_BINARY(fp, sub)
T_BINARY(fp, mul)
T_UNARY(fp, sqr)
T_UNARY(fp, neg)
T_UNARY(fp, double)
T_UNARY(fp, inv)
T_PREDICATE(fp, is_zero)
T_EQUALITY(fp)

T_BINARY(fp2, add)
T_BINARY(fp2, sub)
T_BINARY(fp2, mul)
T_UNARY(fp2, sqr)
T_UNARY(fp2, neg)
T_UNARY(fp2, double)
T_UNARY(fp2, inv)
T_PREDICATE(fp2, is_zero)
T_EQUALITY(fp2)

/* a^exponent */
T_HOOK(t_field, fr_pow) {
    fr a, r;
    uint64_t exponent[4];
    if (in_size != 64) return T_BAD_SIZE;
    if (!fr_from_bytes(&a, in)) return T_NOT_CANONICAL;
    mont256_load_be(exponent, in + 32);
    fr_pow(&r, &a, exponent);
    fr_to_bytes(out, &r);
    return 0;
}

/* (a + b) * (c + d) with sums that are not reduced */
T_HOOK(t_field, fp_mul_lazy_sums) {
    fp a[4], s, t;
    if (in_size != 128) return T_BAD_SIZE;
    if (!fp_read_many(a, in, 4)) return T_NOT_CANONICAL;
    fp_add_lazy(&s, &a[0], &a[1]);
    fp_add_lazy(&t, &a[2], &a[3]);
    fp_mul(&s, &s, &t);
    fp_to_bytes(out, &s);
    return 0;
}

/* ---- curves --------------------------------------------------------------------------------- */

/* Operands: point p, point q, scales of both. The scale s turns an affine point into the XYZZ coordinates
 * (x s^2, y s^3, s^2, s^3), so that sums see every kind of representation; infinity stays what it is. */
#define T_CURVE(group, field)                                                                                \
    static void group##_scale(group##_xyzz *p, const field *scale) {                                         \
        field s2, s3;                                                                                        \
        if (group##_xyzz_is_infinity(p)) return;                                                             \
        field##_sqr(&s2, scale);                                                                             \
        field##_mul(&s3, &s2, scale);                                                                        \
        field##_mul(&p->x, &p->x, &s2);                                                                      \
        field##_mul(&p->y, &p->y, &s3);                                                                      \
        p->zz = s2;                                                                                          \
        p->zzz = s3;                                                                                         \
    }                                                                                                        \
    static int group##_operands(group##_affine *p, group##_affine *q, group##_xyzz *ps, group##_xyzz *qs,    \
                                const uint8_t *in) {                                                         \
        field s, t;                                                                                          \
        const size_t point = sizeof(group##_affine), value = sizeof(field);                                  \
        if (!group##_affine_read(p, in) || !group##_affine_read(q, in + point) ||                            \
            !field##_read(&s, in + 2 * point) || !field##_read(&t, in + 2 * point + value)) {                \
            return 0;                                                                                        \
        }                                                                                                    \
        group##_xyzz_from_affine(ps, p);                                                                     \
        group##_xyzz_from_affine(qs, q);                                                                     \
        group##_scale(ps, &s);                                                                               \
        group##_scale(qs, &t);                                                                               \
        return 1;                                                                                            \
    }                                                                                                        \
    static int32_t group##_answer(uint8_t *out, const group##_xyzz *sum, const group##_xyzz *aliased) {      \
        group##_affine r, same;                                                                              \
        group##_xyzz_to_affine(&r, sum);                                                                     \
        group##_xyzz_to_affine(&same, aliased);                                                              \
        group##_affine_write(out, &r);                                                                       \
        return group##_affine_equal(&r, &same) ? 0 : T_ALIASING;                                             \
    }                                                                                                        \
    T_HOOK(t_field, group##_add) {                                                                           \
        group##_affine p, q;                                                                                 \
        group##_xyzz a, b, r;                                                                                \
        if (in_size != 2 * sizeof p + 2 * sizeof(field)) return T_BAD_SIZE;                                  \
        if (!group##_operands(&p, &q, &a, &b, in)) return T_NOT_CANONICAL;                                   \
        group##_xyzz_add(&r, &a, &b);                                                                        \
        group##_xyzz_add(&a, &a, &b);                                                                        \
        return group##_answer(out, &r, &a);                                                                  \
    }                                                                                                        \
    T_HOOK(t_field, group##_add_affine) {                                                                    \
        group##_affine p, q;                                                                                 \
        group##_xyzz a, b, r;                                                                                \
        if (in_size != 2 * sizeof p + 2 * sizeof(field)) return T_BAD_SIZE;                                  \
        if (!group##_operands(&p, &q, &a, &b, in)) return T_NOT_CANONICAL;                                   \
        group##_xyzz_add_affine(&r, &a, &q);                                                                 \
        group##_xyzz_add_affine(&a, &a, &q);                                                                 \
        return group##_answer(out, &r, &a);                                                                  \
    }                                                                                                        \
    T_HOOK(t_field, group##_double) {                                                                        \
        group##_affine p, q;                                                                                 \
        group##_xyzz a, b, r;                                                                                \
        if (in_size != 2 * sizeof p + 2 * sizeof(field)) return T_BAD_SIZE;                                  \
        if (!group##_operands(&p, &q, &a, &b, in)) return T_NOT_CANONICAL;                                   \
        group##_xyzz_double(&r, &a);                                                                         \
        group##_xyzz_double(&a, &a);                                                                         \
        return group##_answer(out, &r, &a);                                                                  \
    }                                                                                                        \
    T_HOOK(t_field, group##_neg) {                                                                           \
        group##_affine p, q;                                                                                 \
        group##_xyzz a, b, r;                                                                                \
        if (in_size != 2 * sizeof p + 2 * sizeof(field)) return T_BAD_SIZE;                                  \
        if (!group##_operands(&p, &q, &a, &b, in)) return T_NOT_CANONICAL;                                   \
        group##_xyzz_neg(&r, &a);                                                                            \
        group##_affine_neg(&q, &p);                                                                          \
        group##_xyzz_from_affine(&b, &q);                                                                    \
        return group##_answer(out, &r, &b);                                                                  \
    }                                                                                                        \
    T_HOOK(t_field, group##_mul) { /* point, scalar of 256 bits */                                           \
        group##_affine p;                                                                                    \
        group##_xyzz r;                                                                                      \
        uint64_t scalar[4];                                                                                  \
        if (in_size != sizeof p + 32) return T_BAD_SIZE;                                                     \
        if (!group##_affine_read(&p, in)) return T_NOT_CANONICAL;                                            \
        mont256_load_be(scalar, in + sizeof p);                                                              \
        group##_xyzz_mul_var(&r, &p, scalar);                                                                \
        return group##_answer(out, &r, &r);                                                                  \
    }

T_CURVE(g1, fp)
T_CURVE(g2, fp2)
