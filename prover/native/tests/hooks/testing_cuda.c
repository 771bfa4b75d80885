/* testing_cuda.c - the device code, compiled for the host: the arithmetic hooks of "cuda". */
/* Only a part of what the headers define is driven from here. */
#pragma GCC diagnostic ignored "-Wunused-function"

#include "cuda/curve/groups.h"

#define T_BACKEND cuda

/* ---- what the hooks call and the device does not need --------------------------------------- */

static int t_read_plain(uint32_t plain[LIMBS], const uint8_t *in, const uint32_t m[LIMBS]) {
    uint64_t limbs[4], modulus[4];
    mont256_load_be(limbs, in);
    memcpy(modulus, m, sizeof modulus);
    memcpy(plain, limbs, sizeof limbs);
    return mont256_compare_var(limbs, modulus) < 0;
}

static void t_write_plain(uint8_t *out, const uint32_t plain[LIMBS]) {
    uint64_t limbs[4];
    memcpy(limbs, plain, sizeof limbs);
    mont256_store_be(out, limbs);
}

/* The modulus is 1 more than the plain value of 0 - 1. */
#define T_FIELD(field)                                                                                     \
    static int field##_from_bytes(field *r, const uint8_t *in) {                                           \
        const uint32_t one[LIMBS] = {1};                                                                   \
        uint32_t plain[LIMBS], modulus[LIMBS];                                                             \
        field zero, minus;                                                                                 \
        field##_set_zero(&zero);                                                                           \
        field##_set_one(&minus);                                                                           \
        field##_sub(&minus, &zero, &minus);                                                                \
        field##_mul_plain(modulus, &minus, one);                                                           \
        modulus[0]++; /* both moduli are odd: no carry */                                                  \
        if (!t_read_plain(plain, in, modulus)) return 0;                                                   \
        field square;                                                                                      \
        field##_set_one(&square);                                                                          \
        for (int i = 0; i < 256; i++) field##_double(&square, &square); /* 2^512 */                        \
        memcpy(r->v, plain, sizeof plain);                                                                 \
        field##_mul(r, r, &square);                                                                        \
        return 1;                                                                                          \
    }                                                                                                      \
    static void field##_to_bytes(uint8_t *out, const field *a) {                                           \
        const uint32_t one[LIMBS] = {1};                                                                   \
        uint32_t plain[LIMBS];                                                                             \
        field##_mul_plain(plain, a, one);                                                                  \
        t_write_plain(out, plain);                                                                         \
    }
T_FIELD(fp)
T_FIELD(fr)

#include "testing_arithmetic_impl.h"
