/* msm_table_impl.h - digits of scalars for tables of bases, and their entries sorted by bucket; included by msm_impl.h.
 * What is done with the entries: msm_table_group_impl.h. */
#ifndef G16_MSM_TABLE_IMPL_H
#define G16_MSM_TABLE_IMPL_H

#include "fr.h"
#include "msm_table.h"

/* A run of scalars and where their bases are in the table. */
typedef struct msm_table_list {
    const int16_t *digits; /* of scalar i in window w: digits[w * stride + i] */
    size_t stride;
    const uint32_t *scalars; /* number of base i's scalar, or NULL for i */
    uint32_t count, place;   /* bases, and the first one's place in shift 0 */
} msm_table_list;

static inline size_t msm_table_digits_bytes(const msm_table_shape *shape, size_t count) {
    return (size_t)shape->windows * count * sizeof(int16_t);
}

/* Digits of scalars [first, last): digits[w * count + i]. Scalar i is values[i] * unit as a plain number, where unit is
 * a plain number too. */
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

/* Places for the entries of one set. */
static inline size_t msm_table_entries(const msm_table_shape *shape, size_t width) {
    return (size_t)shape->shifts * width;
}

/* The entries of one set, sorted by bucket: those of bucket b are entries[ends[b - 1] .. ends[b]). ends has two places more than
 * there are buckets. */
static void msm_table_sort(uint32_t *entries, uint32_t *ends, const msm_table_list *lists, uint32_t lists_count,
                           const msm_table_shape *shape, size_t width, uint32_t set) {
    const uint32_t buckets = msm_table_buckets(shape);
    memset(ends, 0, (buckets + 2) * sizeof *ends);
    for (uint32_t l = 0; l < lists_count; l++) {
        const msm_table_list *list = &lists[l];
        for (uint32_t w = set; w < shape->windows; w += shape->sets) {
            const int16_t *digits = list->digits + w * list->stride;
            for (uint32_t i = 0; i < list->count; i++) {
                const int32_t digit = digits[list->scalars ? list->scalars[i] : i];
                ends[msm_magnitude(digit) + 1]++;
            }
        }
    }
    /* Digit 0 adds nothing: its entries get no place. */
    ends[1] = 0;
    for (uint32_t b = 1; b <= buckets; b++) ends[b + 1] += ends[b];
    for (uint32_t l = 0; l < lists_count; l++) {
        const msm_table_list *list = &lists[l];
        for (uint32_t w = set; w < shape->windows; w += shape->sets) {
            const int16_t *digits = list->digits + w * list->stride;
            const uint32_t place = w / shape->sets * (uint32_t)width + list->place;
            for (uint32_t i = 0; i < list->count; i++) {
                const int32_t digit = digits[list->scalars ? list->scalars[i] : i];
                if (digit) entries[ends[msm_magnitude(digit)]++] = MSM_ENTRY(place + i, digit < 0);
            }
        }
    }
}

#endif
