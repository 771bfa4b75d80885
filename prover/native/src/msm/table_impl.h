/* msm/table_impl.h - digits of scalars for tables of bases; included by msm/sums_impl.h. msm/sort_impl.h sorts them,
 * msm/table_group_impl.h sums the entries. */
#ifndef G16_MSM_TABLE_IMPL_H
#define G16_MSM_TABLE_IMPL_H

#include "field/fr.h"
#include "msm/table.h"

static inline size_t msm_table_digits_bytes(const msm_table_shape *shape, size_t count) {
    return (size_t)shape->windows * count * sizeof(int16_t);
}

/* Writes digits[w * count + i] for scalars i in [first, last). Scalar i is values[i] * unit, where unit is a plain number. */
static void msm_table_recode(int16_t *digits, const msm_table_shape *shape, const fr *values, const uint64_t unit[4],
                             size_t count, size_t first, size_t last) {
    const uint32_t bits = shape->window_bits, half = msm_table_buckets(shape);
    const uint64_t mask = ((uint64_t)1 << bits) - 1;
    for (size_t i = first; i < last; i++) {
        uint64_t limbs[4];
        mont256_mul(limbs, values[i].v, unit, &FR_MODULUS);
        uint32_t carry = 0;
        for (uint32_t w = 0; w < shape->windows; w++) {
            const uint32_t value = (uint32_t)(limbs[0] & mask) + carry;
            carry = value >= half;
            digits[w * count + i] = (int16_t)((int32_t)value - (int32_t)(carry << bits));
            limbs[0] = limbs[0] >> bits | limbs[1] << (64 - bits);
            limbs[1] = limbs[1] >> bits | limbs[2] << (64 - bits);
            limbs[2] = limbs[2] >> bits | limbs[3] << (64 - bits);
            limbs[3] >>= bits;
        }
        MONT256_INVARIANT(carry == 0 && (limbs[0] | limbs[1] | limbs[2] | limbs[3]) == 0);
    }
}

/* Returns the maximum number of entries of one set for `count` scalars. */
static inline size_t msm_table_entries(const msm_table_shape *shape, size_t count) { return (size_t)shape->shifts * count; }

/* Describes the windows of set `set`, of `stride` scalars each, as shifts with the same buckets. */
static inline msm_sort_digits msm_table_set_digits(const msm_table_shape *shape, const int16_t *digits, size_t stride, uint32_t set) {
    msm_sort_digits in = {0};
    in.digits = digits + set * stride;
    in.stride = shape->sets * stride;
    in.shifts = (shape->windows - set + shape->sets - 1) / shape->sets;
    in.number_bits = msm_table_number_bits(stride);
    return in;
}

#endif
