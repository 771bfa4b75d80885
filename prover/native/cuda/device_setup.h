/* device_setup.h - many multiples of one point of G1 or G2, for the trusted setup. */
#ifndef G16_DEVICE_SETUP_H
#define G16_DEVICE_SETUP_H

#include "device_normal.h"

#define SETUP_THREADS 128
#define SETUP_SCALAR_BITS 255 /* 254, and one for the carry of the last digit */
#define SETUP_MIN_WINDOW 4
#define SETUP_MAX_WINDOW 16
#define SETUP_PIECE ((uint64_t)1 << 18) /* scalars of one run of the kernels: all threads of a GPU several times */
#define SETUP_MIN_PIECE ((uint64_t)1 << 8)

/* Scalars are cut into signed digits of window_bits bits, -2^(window_bits - 1) .. 2^(window_bits - 1). */
typedef struct setup_plan {
    uint32_t window_bits, windows;
    uint64_t table; /* points: 2^(window_bits - 1) of each window */
    uint64_t piece;
} setup_plan;

static inline setup_plan setup_plan_of(uint64_t count, uint32_t window_bits, uint64_t piece) {
    setup_plan plan;
    plan.window_bits = window_bits;
    plan.windows = (SETUP_SCALAR_BITS + window_bits - 1) / window_bits;
    plan.table = (uint64_t)plan.windows << (window_bits - 1);
    plan.piece = count < piece ? count : piece;
    if (plan.piece < SETUP_MIN_PIECE) plan.piece = SETUP_MIN_PIECE;
    return plan;
}

/* The window with the fewest products: ten per digit; a point of the table takes 15 per bit of its number, and its share of an inversion. */
static inline setup_plan setup_plan_for(uint64_t count, uint64_t piece) {
    setup_plan best = setup_plan_of(count, SETUP_MIN_WINDOW, piece);
    double best_cost = 0;
    for (uint32_t bits = SETUP_MIN_WINDOW; bits <= SETUP_MAX_WINDOW; bits++) {
        const setup_plan plan = setup_plan_of(count, bits, piece);
        const double cost = 10.0 * (double)plan.windows * (double)count + (15.0 * bits + 30.0) * (double)plan.table;
        if (bits == SETUP_MIN_WINDOW || cost < best_cost) {
            best = plan;
            best_cost = cost;
        }
    }
    return best;
}

/* Digit of a window of a plain number; *carry goes to the next window. */
DEVICE int32_t setup_digit(const uint32_t plain[LIMBS], uint32_t window, uint32_t window_bits, int32_t *carry) {
    const uint32_t bit = window * window_bits, limb = bit / 32, shift = bit % 32;
    const int32_t half = (int32_t)1 << (window_bits - 1);
    uint32_t word = plain[limb] >> shift;
    if (shift && limb + 1 < LIMBS) word |= plain[limb + 1] << (32 - shift);
    int32_t digit = (int32_t)(word & (2 * (uint32_t)half - 1)) + *carry;
    *carry = digit > half;
    return *carry ? digit - 2 * half : digit;
}

#define FE fp
#define AFFINE g1_affine
#define XYZZ g1_xyzz
#define C(name) g1_##name
#define SETUP_BLOCKS_PER_SM 4
#include "device_setup_group_impl.h"
#undef FE
#undef AFFINE
#undef XYZZ
#undef C
#undef SETUP_BLOCKS_PER_SM

#define FE fp2
#define AFFINE g2_affine
#define XYZZ g2_xyzz
#define C(name) g2_##name
#define SETUP_BLOCKS_PER_SM 2
#include "device_setup_group_impl.h"
#undef FE
#undef AFFINE
#undef XYZZ
#undef C
#undef SETUP_BLOCKS_PER_SM

#endif
