/* cuda/ntt/transform.h - number-theoretic transforms over Fr on the device, and the quotient polynomial.
 *
 * Definitions, table and orders are those of ntt/transform_impl.h: inverse maps values in natural order to n times the
 * coefficients in bit-reversed order, forward maps those back; nothing is reordered. A transform is a few passes over memory. A
 * pass executes `levels` stages: a block of threads loads 2^levels rows that are `stride` apart, and a few adjacent columns of
 * them, into shared memory. Changes of the coset, products and the last step of the quotient are applied while a pass loads or
 * stores elements. Several transforms, consecutive in memory, share launches: their tiles and blocks are consecutive, and each
 * starts again with the first root.
 */
#ifndef CUDA_NTT_TRANSFORM_H
#define CUDA_NTT_TRANSFORM_H

#include "cuda/base/tuning.h"
#include "cuda/field/fields.h"

#define NTT_THREADS 256
#define NTT_COLUMNS_LOG2 2u /* adjacent elements: 128 bytes */
#define NTT_LAST_LEVELS 10u /* of the pass whose rows are adjacent */
#define NTT_LEVELS 8u       /* maximum of the other passes */
#define NTT_MAX_PASSES 28

typedef enum ntt_read { NTT_READ_PLAIN, NTT_READ_TO_COSET, NTT_READ_PRODUCT } ntt_read;
typedef enum ntt_write { NTT_WRITE_PLAIN, NTT_WRITE_QUOTIENT } ntt_write;

typedef struct ntt_pass_arguments {
    fr *values;
    const fr *table;
    const fr *factors; /* NTT_READ_PRODUCT: values[i] * factors[i] * scale */
    const fr *addends; /* NTT_WRITE_QUOTIENT: addends[i] - values[i] / psi^bitrev(i) */
    fr scale;
    uint32_t log2, first; /* of the transform; number of stages before the pass, counted from distance n / 2 */
    uint32_t levels, columns_log2;
    uint32_t forward;
    ntt_read read;
    ntt_write write;
} ntt_pass_arguments;

/* Returns the index of the entry -1/table[i], for i > 0. */
DEVICE uint64_t ntt_negated_inverse_index(uint64_t i) {
#if defined(__CUDA_ARCH__)
    const uint64_t segment = (uint64_t)1 << (63 - __clzll((long long)i));
#else
    const uint64_t segment = (uint64_t)1 << (63 - __builtin_clzll(i));
#endif
    return 3 * segment - 1 - i;
}

/* r = -a / twiddle of a block; block 0 has the twiddle 1. */
DEVICE void ntt_multiply_inverse(fr *r, const fr *a, const fr *table, uint64_t block) {
    if (block) {
        const fr w = table[ntt_negated_inverse_index(block)];
        fr_mul(r, a, &w);
    } else {
        fr_neg(r, a);
    }
}

DEVICE void ntt_multiply_forward(fr *r, const fr *a, const fr *table, uint64_t block) {
    if (block) {
        const fr w = table[block];
        fr_mul(r, a, &w);
    } else {
        *r = *a;
    }
}

DEVICE void ntt_radix2(fr *a0, fr *a1, const fr *table, uint64_t block, uint32_t forward) {
    const fr u = *a0, v = *a1;
    fr sum, difference;
    if (forward) {
        fr_add(&sum, &u, &v);
        fr_sub(&difference, &u, &v);
        ntt_multiply_forward(&difference, &difference, table, block);
    } else {
        fr t;
        ntt_multiply_inverse(&t, &v, table, block);
        fr_sub(&sum, &u, &t);
        fr_add(&difference, &u, &t);
    }
    *a0 = sum;
    *a1 = difference;
}

/* Two stages at once; `block` is that of the stage with longer blocks. */
DEVICE void ntt_radix4(fr *a, uint32_t quarter, const fr *table, uint64_t block, uint32_t forward) {
    fr v[4];
    DEVICE_UNROLL
    for (int i = 0; i < 4; i++) v[i] = a[(uint32_t)i * quarter];
    if (forward) {
        ntt_radix2(&v[0], &v[1], table, 2 * block, 1);
        ntt_radix2(&v[2], &v[3], table, 2 * block + 1, 1);
        ntt_radix2(&v[0], &v[2], table, block, 1);
        ntt_radix2(&v[1], &v[3], table, block, 1);
    } else {
        ntt_radix2(&v[0], &v[2], table, block, 0);
        ntt_radix2(&v[1], &v[3], table, block, 0);
        ntt_radix2(&v[0], &v[1], table, 2 * block, 0);
        ntt_radix2(&v[2], &v[3], table, 2 * block + 1, 0);
    }
    DEVICE_UNROLL
    for (int i = 0; i < 4; i++) a[(uint32_t)i * quarter] = v[i];
}

/* Returns the index of element e of a tile. Tiles enumerate the columns of a block of the first stage, then those of the next
 * block. */
DEVICE uint64_t ntt_place(const ntt_pass_arguments *arguments, uint64_t tile, uint32_t e) {
    const uint32_t stride_log2 = arguments->log2 - arguments->first - arguments->levels;
    const uint32_t tiles_log2 = stride_log2 - arguments->columns_log2; /* per block */
    const uint64_t block = tile >> tiles_log2, group = tile & (((uint64_t)1 << tiles_log2) - 1);
    const uint64_t row = e >> arguments->columns_log2, column = e & ((1u << arguments->columns_log2) - 1);
    return block << (arguments->log2 - arguments->first) | row << stride_log2 | group << arguments->columns_log2 | column;
}

/* Reduces an index over all transforms to one within its transform; count_log2: log2 of the elements or blocks of a transform. */
DEVICE uint64_t ntt_own(uint64_t i, uint32_t count_log2) { return i & (((uint64_t)1 << count_log2) - 1); }

DEVICE void ntt_load(const ntt_pass_arguments *arguments, fr *tile, uint32_t e, uint64_t place) {
    fr value = arguments->values[place];
    if (arguments->read == NTT_READ_TO_COSET) {
        ntt_multiply_forward(&value, &value, arguments->table, ntt_own(place, arguments->log2));
    } else if (arguments->read == NTT_READ_PRODUCT) {
        const fr factor = arguments->factors[place];
        fr_mul(&value, &value, &factor);
        fr_mul(&value, &value, &arguments->scale);
    }
    tile[e] = value;
}

DEVICE void ntt_store(const ntt_pass_arguments *arguments, const fr *tile, uint32_t e, uint64_t place) {
    fr value = tile[e];
    if (arguments->write == NTT_WRITE_QUOTIENT) {
        const fr addend = arguments->addends[place];
        ntt_multiply_inverse(&value, &value, arguments->table, ntt_own(place, arguments->log2));
        fr_add(&value, &addend, &value);
    }
    arguments->values[place] = value;
}

/* The stages of one phase: stage `level` of the pass and, with radix 4, the next one. */
DEVICE void ntt_stages(const ntt_pass_arguments *arguments, fr *tile, uint64_t block, grid_place place, uint32_t level,
                       uint32_t radix_log2) {
    const uint32_t columns = arguments->columns_log2, below = arguments->levels - level - radix_log2;
    const uint32_t items = 1u << (arguments->levels - radix_log2 + columns);
    for (uint32_t item = place.thread; item < items; item += place.threads) {
        const uint32_t column = item & ((1u << columns) - 1), rest = item >> columns;
        const uint32_t own = rest >> below, row = own << (below + radix_log2) | (rest & ((1u << below) - 1));
        fr *first = tile + (row << columns | column);
        const uint64_t global = block << level | own;
        const uint32_t distance = 1u << (below + columns);
        if (radix_log2 == 2) {
            ntt_radix4(first, distance, arguments->table, global, arguments->forward);
        } else {
            ntt_radix2(first, first + distance, arguments->table, global, arguments->forward);
        }
    }
}

DEVICE void ntt_pass(grid_place place, const ntt_pass_arguments *arguments, void *shared, uint32_t phase) {
    fr *tile = (fr *)shared;
    const uint32_t levels = arguments->levels, odd = levels & 1, last = 1 + (levels + 1) / 2;
    const uint32_t elements = 1u << (levels + arguments->columns_log2);
    if (phase == 0 || phase == last) {
        for (uint32_t e = place.thread; e < elements; e += place.threads) {
            const uint64_t at = ntt_place(arguments, place.block, e);
            if (phase == 0) {
                ntt_load(arguments, tile, e, at);
            } else {
                ntt_store(arguments, tile, e, at);
            }
        }
        return;
    }
    const uint32_t tiles_log2 = arguments->log2 - arguments->first - levels - arguments->columns_log2;
    const uint64_t block = ntt_own((uint64_t)place.block >> tiles_log2, arguments->first);
    /* Stages descend for inverse and ascend for forward transforms; if their number is odd, the lowest one is single. */
    const uint32_t step = arguments->forward ? last - 1 - phase : phase - 1;
    const uint32_t single = odd && step == levels / 2;
    ntt_stages(arguments, tile, block, place, 2 * step, single ? 1 : 2);
}
KERNEL(ntt_pass, ntt_pass_arguments, NTT_THREADS, 2, 2 + (arguments->levels + 1) / 2)

/* ---- launches --------------------------------------------------------------------------------------- */

/* Stages of the passes of a transform, from the longest blocks to the shortest. */
typedef struct ntt_plan {
    uint32_t log2, passes, levels[NTT_MAX_PASSES];
    uint32_t columns_log2, threads; /* maximum adjacent elements; threads per block */
} ntt_plan;

/* The last pass has last_levels stages; the others divide the rest evenly, with at most `levels` each. */
static inline ntt_plan ntt_plan_of(uint32_t log2, uint32_t last_levels, uint32_t levels) {
    ntt_plan plan;
    const uint32_t last = log2 < last_levels ? log2 : last_levels;
    const uint32_t others = (log2 - last + levels - 1) / levels;
    uint32_t left = log2 - last;
    plan.log2 = log2;
    plan.columns_log2 = NTT_COLUMNS_LOG2;
    plan.threads = NTT_THREADS;
    plan.passes = others + 1;
    for (uint32_t i = 0; i < others; i++) {
        plan.levels[i] = (left + others - i - 1) / (others - i);
        left -= plan.levels[i];
    }
    plan.levels[others] = last;
    return plan;
}

/* tuning: NULL, or settings that override the plan. */
static inline ntt_plan ntt_plan_for(uint32_t log2, const device_tuning *tuning) {
    ntt_plan plan = ntt_plan_of(log2, device_tuned(tuning, TUNING_NTT_LAST, NTT_LAST_LEVELS),
                                device_tuned(tuning, TUNING_NTT_LEVELS, NTT_LEVELS));
    plan.columns_log2 = device_tuned(tuning, TUNING_NTT_COLUMNS, plan.columns_log2);
    plan.threads = device_tuned(tuning, TUNING_NTT_THREADS, plan.threads);
    return plan;
}

/* Operations at the two ends of a transform. */
typedef struct ntt_ends {
    ntt_read read;
    ntt_write write;
    const fr *factors, *addends;
    fr scale;
} ntt_ends;

/* values: of `transforms` consecutive transforms. */
static inline void ntt_run(device_queue *queue, fr *values, const fr *table, const ntt_plan *plan, uint32_t transforms,
                           uint32_t forward, const ntt_ends *ends) {
    uint32_t first = forward ? plan->log2 : 0;
    for (uint32_t i = 0; i < plan->passes; i++) {
        const uint32_t levels = plan->levels[forward ? plan->passes - 1 - i : i];
        if (forward) first -= levels;
        const uint32_t stride_log2 = plan->log2 - first - levels;
        ntt_pass_arguments pass;
        memset(&pass, 0, sizeof pass);
        pass.values = values;
        pass.table = table;
        pass.factors = ends->factors;
        pass.addends = ends->addends;
        pass.scale = ends->scale;
        pass.log2 = plan->log2;
        pass.first = first;
        pass.levels = levels;
        pass.columns_log2 = stride_log2 < plan->columns_log2 ? stride_log2 : plan->columns_log2;
        pass.forward = forward;
        pass.read = i == 0 ? ends->read : NTT_READ_PLAIN;
        pass.write = i == plan->passes - 1 ? ends->write : NTT_WRITE_PLAIN;
        const uint32_t tile_log2 = levels + pass.columns_log2;
        LAUNCH(queue, ntt_pass, (uint64_t)transforms << (plan->log2 - tile_log2), plan->threads, sizeof(fr) << tile_log2, &pass);
        if (!forward) first += levels;
    }
}

static inline ntt_ends ntt_plain_ends(void) {
    ntt_ends ends;
    memset(&ends, 0, sizeof ends);
    ends.read = NTT_READ_PLAIN;
    ends.write = NTT_WRITE_PLAIN;
    return ends;
}

/* As quotient_to_coset() on the host: values on omega^j -> n times the values on psi * omega^j. */
static inline void ntt_to_coset_run(device_queue *queue, fr *values, const fr *table, const ntt_plan *plan,
                                    uint32_t transforms) {
    ntt_ends ends = ntt_plain_ends();
    ntt_run(queue, values, table, plan, transforms, 0, &ends);
    ends.read = NTT_READ_TO_COSET;
    ntt_run(queue, values, table, plan, transforms, 1, &ends);
}

/* a, b, c: values on omega^j, of `quotients` quotients. The result in a is 2n times the coefficients of h = (A B - C) / (X^n -
 * 1), bit-reversed, as from quotient_combine() on the host. scale: 1/n^2. b and c are overwritten. */
static inline void ntt_quotient_run(device_queue *queue, fr *a, fr *b, fr *c, const fr *table, const ntt_plan *plan,
                                    uint32_t quotients, const fr *scale) {
    ntt_ends ends = ntt_plain_ends();
    ntt_to_coset_run(queue, a, table, plan, quotients);
    ntt_to_coset_run(queue, b, table, plan, quotients);
    ntt_run(queue, c, table, plan, quotients, 0, &ends);
    ends.read = NTT_READ_PRODUCT;
    ends.write = NTT_WRITE_QUOTIENT;
    ends.factors = b;
    ends.addends = c;
    ends.scale = *scale;
    ntt_run(queue, a, table, plan, quotients, 0, &ends);
}

#endif
