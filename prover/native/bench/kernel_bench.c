/* kernel_bench.c - times of field products, point additions, multi-scalar multiplications and transforms of one backend on one
 * thread.
 *
 * Compiled once per backend with the macros that backend.c defines for it. For each line of its input it measures everything once,
 * in the thread's CPU time, and writes one JSON object per line and then an empty line: so several programs can take turns.
 * Additions of buckets are counted by the kernel itself; `of_bound` is the time that the field products of what was counted take
 * alone, as measured in the same round, over the time of all: five products and a square an addition of buckets (in G2 two and
 * a square, and in Fp five and a norm), eight and two squares an addition to XYZZ coordinates, a product a butterfly.
 * Usage: kernel_bench [largest log2 of G1 [of G2 [of a transform [of a sum over tables, 0 for none [times the memory of its bases]]]]]
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* Only a part of what the headers define is driven from here. */
#pragma GCC diagnostic ignored "-Wunused-function"

static uint64_t bench_additions;
#define MSM_COUNT(additions) (bench_additions += (additions))

#include "curve/pairing_impl.h"
#include "msm/sums_impl.h"
#include "ntt/transform_impl.h"
#include "key/key.h"

#define BENCH_MIN_LOG2 10
#define BENCH_LEAST_MAX_LOG2 13 /* additions of buckets take MSM_SLAB bases */
#define BENCH_MAX_LOG2 22
#define BENCH_MAX_TRANSFORM_LOG2 24
#define BENCH_VALUES 16

static double bench_now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

/* xorshift64*, the same values in every run. */
static uint64_t bench_random(void) {
    static uint64_t state = 88172645463325252u;
    state ^= state >> 12;
    state ^= state << 25;
    state ^= state >> 27;
    return state * 2685821657736338717u;
}

static void bench_random_fp(fp *r) {
    const uint64_t limbs[4] = {bench_random(), bench_random(), bench_random(), bench_random() >> 3};
    fp_from_limbs(r, limbs);
}

static void bench_random_fr(fr *r) {
    const uint64_t limbs[4] = {bench_random(), bench_random(), bench_random(), bench_random() >> 3};
    fr_from_limbs(r, limbs);
}

/* The shortest time of `runs` runs, divided by `operations`. */
#define BENCH_SHORTEST(result, runs, operations, ...)                    \
    do {                                                                 \
        (result) = 0;                                                    \
        for (int run_ = 0; run_ < (runs); run_++) {                      \
            const double start_ = bench_now_ns();                        \
            __VA_ARGS__;                                                 \
            const double taken_ = bench_now_ns() - start_;               \
            if (run_ == 0 || taken_ < (result)) (result) = taken_;       \
        }                                                                \
        (result) /= (double)(operations);                                \
    } while (0)

typedef struct bench_products {
    double mul, sqr, mul2, sqr2; /* ns each, independent of each other */
} bench_products;

static void bench_print(const char *name, double ns) { printf("{\"name\": \"%s\", \"ns\": %.2f}\n", name, ns); }

#define BENCH_ROUNDS 500
#define BENCH_RUNS 60
#define BENCH_EACH(statement)                            \
    for (int round = 0; round < BENCH_ROUNDS; round++) { \
        for (int i = 0; i < BENCH_VALUES; i++) statement; \
    }
#define BENCH_COUNT(width) ((double)BENCH_ROUNDS * BENCH_VALUES * (width))

#define BENCH_SAME(r, a) (*(r) = *(a))

/* Clocks from the start of a multiplication of 64-bit words to the next one that waits for it: three on Intel's CPUs since
 * 2008 and AMD's since 2017. Some CPUs compute several additions that wait for each other in a clock. */
#define BENCH_IMUL_CLOCKS 3

/* Nanoseconds of a clock, from multiplications that wait for each other. 0 where there is no such instruction. */
static double bench_clock_ns(void) {
#if defined(__x86_64__)
    double taken;
    uint64_t product = 1;
    BENCH_SHORTEST(taken, BENCH_RUNS, 100000 * 4 * BENCH_IMUL_CLOCKS, for (int round = 0; round < 100000; round++) {
        __asm__ volatile("imul %0, %0\n\timul %0, %0\n\timul %0, %0\n\timul %0, %0" : "+r"(product));
    });
    return taken;
#else
    return 0;
#endif
}

/* A product of scalar code is bound by its two carry chains of 52 clocks (docs/explanation/kernel.md,
 * "Field products"). */
#define BENCH_PRODUCT_CLOCKS 52

/* Products of one form of the field: FE and FE2 hold `width` elements, OF_FP makes one of an element. */
#define BENCH_FIELD(form, FE, FE2, width, OF_FP)                                                                           \
    static bench_products bench_field_##form(void) {                                                                       \
        FE values[BENCH_VALUES], factors[BENCH_VALUES];                                                                    \
        FE2 values2[BENCH_VALUES], factors2[BENCH_VALUES];                                                                 \
        bench_products products;                                                                                           \
        double latency;                                                                                                    \
        for (int i = 0; i < BENCH_VALUES; i++) {                                                                           \
            fp value;                                                                                                      \
            bench_random_fp(&value);                                                                                       \
            OF_FP(&values[i], &value);                                                                                     \
            bench_random_fp(&value);                                                                                       \
            OF_FP(&factors[i], &value);                                                                                    \
            values2[i].c0 = factors2[i].c1 = values[i];                                                                    \
            values2[i].c1 = factors2[i].c0 = factors[i];                                                                   \
        }                                                                                                                  \
        BENCH_SHORTEST(products.mul, BENCH_RUNS, BENCH_COUNT(width),                                                       \
                       BENCH_EACH(FE##_mul(&values[i], &values[i], &factors[i])));                                         \
        BENCH_SHORTEST(products.sqr, BENCH_RUNS, BENCH_COUNT(width), BENCH_EACH(FE##_sqr(&values[i], &values[i])));        \
        BENCH_SHORTEST(latency, BENCH_RUNS, BENCH_COUNT(1), BENCH_EACH(FE##_mul(&values[0], &values[0], &factors[i])));    \
        BENCH_SHORTEST(products.mul2, BENCH_RUNS, BENCH_COUNT(width),                                                      \
                       BENCH_EACH(FE2##_mul(&values2[i], &values2[i], &factors2[i])));                                     \
        BENCH_SHORTEST(products.sqr2, BENCH_RUNS, BENCH_COUNT(width), BENCH_EACH(FE2##_sqr(&values2[i], &values2[i])));    \
        bench_print(#FE "_mul_tput", products.mul);                                                                        \
        bench_print(#FE "_mul_lat", latency);                                                                              \
        bench_print(#FE "_sqr_tput", products.sqr);                                                                        \
        bench_print(#FE2 "_mul", products.mul2);                                                                           \
        bench_print(#FE2 "_sqr", products.sqr2);                                                                           \
        return products;                                                                                                   \
    }

BENCH_FIELD(scalar, fp, fp2, 1, BENCH_SAME)
#if defined(G16_LANES)
/* r = a^2: two products, the bound of a square. The sums combine it with others. */
static inline void fp82_sqr(fp82 *r, const fp82 *a) {
    fp8 sum, difference, twice;
    fp8_add(&sum, &a->c0, &a->c1);
    fp8_sub_wide(&difference, &a->c0, &a->c1);
    fp8_add(&twice, &a->c0, &a->c0);
    fp8_mul(&r->c1, &twice, &a->c1);
    fp8_mul(&r->c0, &sum, &difference);
}

BENCH_FIELD(lanes, fp8, fp82, FP8_LANES, fp8_broadcast)
#endif

static void bench_inverse(void) {
    double inverse;
    fp value;
    bench_random_fp(&value);
    BENCH_SHORTEST(inverse, BENCH_RUNS, BENCH_ROUNDS, for (int round = 0; round < BENCH_ROUNDS; round++) {
        fp_inv(&value, &value);
        value.v[0] ^= 1;
    });
    bench_print("fp_inv", inverse);
}

static size_t bench_most_digits(uint32_t max_log2) {
    size_t most = 0;
    for (uint32_t log2 = BENCH_MIN_LOG2; log2 <= max_log2; log2++) {
        const msm_plan plan = msm_plan_for((uint64_t)1 << log2);
        const size_t bytes = msm_digits_bytes(&plan, (uint32_t)1 << log2);
        if (bytes > most) most = bytes;
    }
    return most;
}

#define BENCH_FEW 64
#define BENCH_MAX_SETS (MSM_MAX_WINDOWS > MSM_TABLE_MAX_SETS ? MSM_MAX_WINDOWS : MSM_TABLE_MAX_SETS)

/* Of one group: bases whose sums do not meet by accident, nor those of their tables ((2^i - 1) G: a table of 2^i G would have other
 * bases, whose equal summands take the long way), additions to XYZZ coordinates one at a time, additions of buckets of eight points
 * alone, and whole multiplications of random scalars. */
#define BENCH_GROUP(group, GENERATOR)                                                                                          \
    typedef struct bench_##group {                                                                                             \
        group##_affine few[BENCH_FEW]; /* as scalar code has them */                                                           \
        group##_affine *bases;                                                                                                 \
        void *memory;                                                                                                          \
        fr *scalars;                                                                                                           \
        void *digits, *sorted_memory;                                                                                          \
    } bench_##group;                                                                                                           \
                                                                                                                               \
    static void bench_make_##group(bench_##group *b, uint32_t max_log2) {                                                      \
        const size_t count = (size_t)1 << max_log2;                                                                            \
        const msm_plan widest = msm_plan_of_window(MSM_MAX_WINDOW);                                                            \
        group##_xyzz point;                                                                                                    \
        b->bases = aligned_alloc(64, count * sizeof *b->bases);                                                                \
        arena room = arena_measure();                                                                                          \
        msm_sorted sorted;                                                                                                     \
        msm_lay_out_sorted(&sorted, &room, &widest, 1, count, 1);                                                              \
        b->sorted_memory = malloc(room.used + ARENA_ALIGNMENT);                                                                \
        b->memory = malloc(group##_msm_scratch_bytes(&widest, 0) + ARENA_ALIGNMENT);                                           \
        b->scalars = malloc(count * sizeof *b->scalars);                                                                       \
        b->digits = malloc(bench_most_digits(max_log2));                                                                       \
        if (!b->bases || !b->memory || !b->scalars || !b->digits || !b->sorted_memory) exit(1);                                \
        group##_xyzz_from_affine(&point, &GENERATOR);                                                                          \
        for (size_t i = 0; i < count; i++) {                                                                                   \
            group##_xyzz_to_affine(&b->bases[i], &point);                                                                      \
            group##_xyzz_double(&point, &point);                                                                               \
            group##_xyzz_add_affine(&point, &point, &GENERATOR);                                                               \
        }                                                                                                                      \
        memcpy(b->few, b->bases, sizeof b->few);                                                                               \
        group##_msm_to_stored(b->bases, count);                                                                                \
    }                                                                                                                          \
                                                                                                                               \
    static void bench_free_##group(bench_##group *b) {                                                                         \
        free(b->bases), free(b->memory), free(b->scalars), free(b->digits), free(b->sorted_memory);                            \
    }                                                                                                                          \
                                                                                                                               \
    static void bench_madd_##group(const bench_##group *b, double bound) {                                                     \
        group##_xyzz sums[BENCH_VALUES];                                                                                       \
        double taken;                                                                                                          \
        for (int i = 0; i < BENCH_VALUES; i++) group##_xyzz_from_affine(&sums[i], &b->few[BENCH_FEW - 1 - i]);                 \
        BENCH_SHORTEST(taken, BENCH_RUNS, BENCH_COUNT(1),                                                                      \
                       BENCH_EACH(group##_xyzz_add_affine(&sums[i], &sums[i], &b->few[round % (BENCH_FEW / 2)])));             \
        printf("{\"name\": \"" #group "_xyzz_madd\", \"ns\": %.1f, \"of_bound\": %.3f}\n", taken, bound / taken);              \
    }                                                                                                                          \
                                                                                                                               \
    static void bench_badd_##group(const bench_##group *b, double bound) {                                                     \
        const msm_plan plan = msm_plan_of_window(MSM_NARROW_WINDOW);                                                           \
        group##_msm_scratch s;                                                                                                 \
        double best = 0;                                                                                                       \
        group##_msm_scratch_lay_out(&s, arena_over(b->memory), &plan, MSM_SLAB);                                               \
        for (int run = 0; run < BENCH_RUNS; run++) {                                                                           \
            for (uint32_t i = 0; i < MSM_SLAB; i++) {                                                                          \
                s.operands[i] = group##_msm_operand_of(b->bases, i * 5167 % MSM_SLAB, i & 1);                                  \
                s.owners[i] = i / 8;                                                                                           \
            }                                                                                                                  \
            bench_additions = 0;                                                                                               \
            const double start = bench_now_ns();                                                                               \
            group##_msm_sum_operands(&s, s.buckets, MSM_SLAB);                                                                 \
            const double taken = bench_now_ns() - start;                                                                       \
            if (run == 0 || taken < best) best = taken;                                                                        \
        }                                                                                                                      \
        best /= (double)bench_additions;                                                                                       \
        printf("{\"name\": \"" #group "_badd\", \"ns\": %.1f, \"of_bound\": %.3f}\n", best, bound / best);                     \
    }                                                                                                                          \
                                                                                                                               \
    /* A sum over the first 2^log2 bases, or over the table of the plan that `bases` is; `variant` ends its name. */           \
    static void bench_sum_##group(const msm_plan *plan, msm_bases bases, uint32_t log2, fr *scalars, void *digits,             \
                                  void *memory, void *sorted_memory, const char *variant, double bound) {                      \
        static const uint64_t unit[4] = {1, 0, 0, 0};                                                                          \
        const uint32_t count = (uint32_t)1 << log2;                                                                            \
        const uint32_t parts = msm_cut_least(plan, (uint64_t)msm_plan_shifts(plan) * count, 1).parts;                          \
        group##_xyzz sums[BENCH_MAX_SETS * MSM_MAX_PARTS], sum;                                                                \
        arena room = arena_over(sorted_memory);                                                                                \
        msm_sorted sorted;                                                                                                     \
        msm_lay_out_sorted(&sorted, &room, plan, 1, count, 1);                                                                 \
        group##_msm_scratch s;                                                                                                 \
        for (uint32_t i = 0; i < count; i++) bench_random_fr(&scalars[i]);                                                     \
        group##_msm_scratch_lay_out(&s, arena_over(memory), plan, 0);                                                          \
        bench_additions = 0;                                                                                                   \
        const double start = bench_now_ns();                                                                                   \
        msm_recode(digits, plan, scalars, unit, count, 0, count);                                                              \
        for (uint32_t set = 0; set < plan->sets; set++) {                                                                      \
            const uint32_t buckets = msm_set_buckets(plan, set);                                                               \
            for (uint32_t half = 0; half < 2; half++) {                                                                        \
                msm_sort_digits in = msm_half_digits(digits, plan, count, 2 * set + half);                                     \
                in.ends = &count;                                                                                              \
                in.groups = 1;                                                                                                 \
                msm_sort_entries(&sorted, half, buckets, &in);                                                                 \
            }                                                                                                                  \
            for (uint32_t part = 0; part < parts; part++) {                                                                    \
                msm_halves halves = {.count = 1};                                                                              \
                for (uint32_t half = 0; half < 2; half++) {                                                                    \
                    halves.runs[half][0] =                                                                                     \
                        msm_run_of(bases, &sorted, count, half, buckets / parts * part, 0, 1, NULL, 0);                        \
                }                                                                                                              \
                group##_msm_part(&sums[set * parts + part], &s, buckets, part, parts, &halves, NULL);                          \
            }                                                                                                                  \
        }                                                                                                                      \
        group##_msm_join_sets(&sum, sums, parts, plan);                                                                        \
        const double all = bench_now_ns() - start;                                                                             \
        printf("{\"name\": \"msm_" #group "_%" PRIu32 "%s\", \"ms\": %.3f, \"ns_per_point\": %.0f, \"additions\": %" PRIu64    \
               ", \"ns_per_addition\": %.1f, \"of_bound\": %.3f}\n",                                                           \
               log2, variant, all / 1e6, all / count, bench_additions, all / (double)bench_additions,                          \
               bound * (double)bench_additions / all);                                                                         \
    }                                                                                                                          \
                                                                                                                               \
    static void bench_msm_##group(const bench_##group *b, uint32_t log2, double bound) {                                       \
        const msm_plan plan = msm_plan_for((uint64_t)1 << log2);                                                               \
        bench_sum_##group(&plan, (msm_bases){b->bases, 0}, log2, b->scalars, b->digits, b->memory, b->sorted_memory, "",       \
                          bound);                                                                                              \
    }                                                                                                                          \
                                                                                                                               \
    static void bench_round_##group(const bench_##group *b, uint32_t max_log2, double bound, double madd_bound) {              \
        bench_madd_##group(b, madd_bound);                                                                                     \
        bench_badd_##group(b, bound);                                                                                          \
        for (uint32_t log2 = BENCH_MIN_LOG2; log2 <= max_log2; log2++) bench_msm_##group(b, log2, bound);                      \
    }

BENCH_GROUP(g1, G1_GENERATOR)
BENCH_GROUP(g2, G2_GENERATOR)

#include "kernel_bench_tables.h"

typedef struct bench_vectors {
    fr *values, *table;
} bench_vectors;

static void bench_make_vectors(bench_vectors *b, uint32_t max_log2) {
    b->values = aligned_alloc(64, sizeof(fr) << max_log2);
    b->table = aligned_alloc(64, sizeof(fr) << max_log2);
    if (!b->values || !b->table) exit(1);
    for (size_t i = 0; i < (size_t)1 << max_log2; i++) bench_random_fr(&b->values[i]);
    ntt_fill_table(b->table, max_log2); /* that of a smaller transform is its beginning */
}

/* An inverse and a forward transform; the time is of one. */
static void bench_transforms(const bench_vectors *b, uint32_t max_log2, double product) {
    for (uint32_t log2 = BENCH_MIN_LOG2; log2 <= max_log2; log2++) {
        const double butterflies = (double)((uint64_t)log2 << (log2 - 1)), start = bench_now_ns();
        ntt_inverse(b->values, log2, b->table);
        ntt_forward(b->values, log2, b->table);
        const double taken = (bench_now_ns() - start) / 2;
        printf("{\"name\": \"ntt_%" PRIu32 "\", \"ms\": %.3f, \"ns_per_butterfly\": %.2f, \"of_bound\": %.3f}\n", log2, taken / 1e6,
               taken / butterflies, product * butterflies / taken);
    }
}

/* An argument, or `otherwise` where there is none; exits when it is not in the range. */
static uint32_t bench_argument(int count, char **arguments, int place, uint32_t otherwise, uint32_t least, uint32_t most) {
    const long value = count > place ? strtol(arguments[place], NULL, 10) : (long)otherwise;
    if (value < (long)least || value > (long)most) {
        fprintf(stderr, "argument %d is %ld, not %" PRIu32 " to %" PRIu32 "\n", place, value, least, most);
        exit(2);
    }
    return (uint32_t)value;
}

static double bench_addition(double mul, double sqr) { return 5 * mul + sqr; }

static double bench_g2_addition(const bench_products *of) {
#if defined(G16_LANES)
    const double norm = of->mul; /* two squares with one reduction, at least a product */
#else
    const double norm = 2 * of->sqr;
#endif
    return 2 * of->mul2 + of->sqr2 + 5 * of->mul + norm;
}

static double bench_mixed_addition(double mul, double sqr) { return 8 * mul + 2 * sqr; }

int main(int count, char **arguments) {
    const uint32_t g1_log2 = bench_argument(count, arguments, 1, 18, BENCH_LEAST_MAX_LOG2, BENCH_MAX_LOG2);
    const uint32_t g2_log2 = bench_argument(count, arguments, 2, 18, BENCH_LEAST_MAX_LOG2, BENCH_MAX_LOG2);
    const uint32_t transform_log2 = bench_argument(count, arguments, 3, 20, BENCH_MIN_LOG2, BENCH_MAX_TRANSFORM_LOG2);
    const uint32_t table_log2 = bench_argument(count, arguments, 4, 13, 0, g1_log2 < g2_log2 ? g1_log2 : g2_log2);
    const uint32_t factor = bench_argument(count, arguments, 5, 20, 1, UINT16_MAX);
    bench_g1 g1;
    bench_g2 g2;
    bench_tables_g1 tables_g1;
    bench_tables_g2 tables_g2;
    bench_vectors vectors;
    char line[16];
    bench_make_g1(&g1, g1_log2);
    bench_make_g2(&g2, g2_log2);
    bench_make_tables_g1(&tables_g1, &g1, table_log2, factor);
    bench_make_tables_g2(&tables_g2, &g2, table_log2, factor);
    bench_make_vectors(&vectors, transform_log2);
    while (fgets(line, sizeof line, stdin)) {
        const bench_products scalar = bench_field_scalar();
#if defined(G16_LANES)
        LANES_REGION;
        const bench_products buckets = bench_field_lanes();
#else
        const bench_products buckets = scalar;
#endif
        const double clock = bench_clock_ns();
        if (clock > 0) {
            printf("{\"name\": \"clock\", \"ns\": %.4f}\n", clock);
#if defined(MONT256_ADX)
            printf("{\"name\": \"fp_mul_bound\", \"ns\": %.2f, \"of_bound\": %.3f}\n", clock * BENCH_PRODUCT_CLOCKS,
                   clock * BENCH_PRODUCT_CLOCKS / scalar.mul);
#endif
        }
        bench_inverse();
        const double bound_g1 = bench_addition(buckets.mul, buckets.sqr), bound_g2 = bench_g2_addition(&buckets);
        bench_round_g1(&g1, g1_log2, bound_g1, bench_mixed_addition(scalar.mul, scalar.sqr));
        bench_round_g2(&g2, g2_log2, bound_g2, bench_mixed_addition(scalar.mul2, scalar.sqr2));
        bench_sum_tables_g1(&tables_g1, &g1, bound_g1);
        bench_sum_tables_g2(&tables_g2, &g2, bound_g2);
        bench_transforms(&vectors, transform_log2, buckets.mul);
        puts("");
        fflush(stdout);
    }
    bench_free_tables_g1(&tables_g1), bench_free_tables_g2(&tables_g2);
    bench_free_g1(&g1), bench_free_g2(&g2);
    free(vectors.values), free(vectors.table);
    return 0;
}
