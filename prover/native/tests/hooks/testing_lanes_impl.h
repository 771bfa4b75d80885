/* testing_lanes_impl.h - hooks over eight elements at once, compiled by the backends with lanes; included after
 * testing_field_impl.h. Operands are limbs as the lanes hold them: per element five words, little-endian, lane after lane;
 * the results too. */
#include "field/fp82_impl.h"
#include "curve/g2_subgroup_impl.h"

#define T_LANES_WORDS (5 * FP8_LANES)

static void fp8_read_limbs(fp8 *r, const uint8_t *in) {
    uint64_t words[T_LANES_WORDS], limbs[FP8_LANES];
    memcpy(words, in, sizeof words);
    for (int k = 0; k < 5; k++) {
        for (int i = 0; i < FP8_LANES; i++) limbs[i] = words[5 * i + k];
        r->v[k] = lanes_load(limbs);
    }
}

static void fp8_write_limbs(uint8_t *out, const fp8 *a) {
    uint64_t words[T_LANES_WORDS], limbs[FP8_LANES];
    for (int k = 0; k < 5; k++) {
        lanes_store(limbs, a->v[k]);
        for (int i = 0; i < FP8_LANES; i++) words[5 * i + k] = limbs[i];
    }
    memcpy(out, words, sizeof words);
}

/* out: a b, a^2, a b + c d, a b and c d at once, and a^2 and c^2 at once, each over R. */
T_HOOK(t_lanes, products) {
    fp8 operands[4], result;
    const size_t bytes = T_LANES_WORDS * sizeof(uint64_t);
    if (in_size != 4 * bytes) return T_BAD_SIZE;
    LANES_REGION;
    for (int i = 0; i < 4; i++) fp8_read_limbs(&operands[i], in + i * bytes);
    fp8_mul(&result, &operands[0], &operands[1]);
    fp8_write_limbs(out, &result);
    fp8_sqr(&result, &operands[0]);
    fp8_write_limbs(out + bytes, &result);
    fp8_mul_sum(&result, &operands[0], &operands[1], &operands[2], &operands[3]);
    fp8_write_limbs(out + 2 * bytes, &result);
    fp8 first = operands[0], second = operands[2];
    fp8_mul_two(&first, &first, &operands[1], &second, &second, &operands[3]);
    fp8_write_limbs(out + 3 * bytes, &first);
    fp8_write_limbs(out + 4 * bytes, &second);
    fp8_sqr_two(&operands[0], &operands[0], &operands[2], &operands[2]);
    fp8_write_limbs(out + 5 * bytes, &operands[0]);
    fp8_write_limbs(out + 6 * bytes, &operands[2]);
    return 0;
}

/* Of elements of Fp2, the coefficients of 1 and u each: out: a b over R. */
T_HOOK(t_lanes, fp2_products) {
    fp82 operands[2], product;
    const size_t bytes = T_LANES_WORDS * sizeof(uint64_t);
    if (in_size != 4 * bytes) return T_BAD_SIZE;
    LANES_REGION;
    for (int i = 0; i < 2; i++) {
        fp8_read_limbs(&operands[i].c0, in + 2 * i * bytes);
        fp8_read_limbs(&operands[i].c1, in + (2 * i + 1) * bytes);
    }
    fp82_mul(&product, &operands[0], &operands[1]);
    fp82_mul(&operands[0], &operands[0], &operands[1]);
    fp8_write_limbs(out, &product.c0);
    fp8_write_limbs(out + bytes, &product.c1);
    return memcmp(&operands[0], &product, sizeof product) ? T_ALIASING : 0;
}
