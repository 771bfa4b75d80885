/* kernel_bench.c - times of field products, bucket additions and multi-scalar multiplications of one backend on one thread.
 *
 * Compiled once per backend with the macros that backend.c defines for it. Writes one JSON object per line; times are the
 * shortest of several runs in the thread's processor time. Additions are counted by the kernel itself, and `of_bound` is the
 * time that their five products and one square take alone, as measured here, over the time of all. Names:
 * kernel-performance.md section 5. Usage: kernel_bench [largest log2 of G1 [of G2 [runs]]]
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

/* Only a part of what the headers define is driven from here. */
#pragma GCC diagnostic ignored "-Wunused-function"

static uint64_t bench_additions;
#define MSM_COUNT(additions) (bench_additions += (additions))

#include "key.h"
#include "msm_impl.h"
#include "pairing_impl.h"

#define BENCH_MIN_LOG2 13
#define BENCH_MAX_LOG2 22
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

#if defined(G16_LANES)
typedef fp8 bench_fp;
typedef fp82 bench_fp2;
#define BENCH_WIDTH FP8_LANES
#define BENCH_FP(operation) fp8_##operation
#define BENCH_FP2(operation) fp82_##operation
#define BENCH_OF_FP(r, a) fp8_broadcast(r, a)
#else
typedef fp bench_fp;
typedef fp2 bench_fp2;
#define BENCH_WIDTH 1
#define BENCH_FP(operation) fp_##operation
#define BENCH_FP2(operation) fp2_##operation
#define BENCH_OF_FP(r, a) (*(r) = *(a))
#endif

#define BENCH_EACH(statement)                                                              \
    for (int round = 0; round < BENCH_ROUNDS; round++) {                                   \
        for (int i = 0; i < BENCH_VALUES; i++) statement;                                  \
    }
#define BENCH_COUNT ((double)BENCH_ROUNDS * BENCH_VALUES * BENCH_WIDTH)

static bench_products bench_field(void) {
    bench_fp values[BENCH_VALUES], factors[BENCH_VALUES];
    bench_fp2 values2[BENCH_VALUES], factors2[BENCH_VALUES];
    bench_products products;
    double latency, inverse;
    fp value;
    for (int i = 0; i < BENCH_VALUES; i++) {
        bench_random_fp(&value);
        BENCH_OF_FP(&values[i], &value);
        bench_random_fp(&value);
        BENCH_OF_FP(&factors[i], &value);
        values2[i].c0 = values[i];
        values2[i].c1 = factors[i];
        factors2[i].c0 = factors[i];
        factors2[i].c1 = values[i];
    }
    BENCH_SHORTEST(products.mul, BENCH_RUNS, BENCH_COUNT, BENCH_EACH(BENCH_FP(mul)(&values[i], &values[i], &factors[i])));
    BENCH_SHORTEST(products.sqr, BENCH_RUNS, BENCH_COUNT, BENCH_EACH(BENCH_FP(sqr)(&values[i], &values[i])));
    BENCH_SHORTEST(latency, BENCH_RUNS, BENCH_COUNT, BENCH_EACH(BENCH_FP(mul)(&values[0], &values[0], &factors[i])));
    BENCH_SHORTEST(products.mul2, BENCH_RUNS, BENCH_COUNT,
                   BENCH_EACH(BENCH_FP2(mul)(&values2[i], &values2[i], &factors2[i])));
    BENCH_SHORTEST(products.sqr2, BENCH_RUNS, BENCH_COUNT, BENCH_EACH(BENCH_FP2(sqr)(&values2[i], &values2[i])));
    BENCH_SHORTEST(inverse, BENCH_RUNS, BENCH_ROUNDS, for (int round = 0; round < BENCH_ROUNDS; round++) {
        fp_inv(&value, &value);
        value.v[0] ^= 1;
    });
    bench_print("fp_mul_tput", products.mul);
    bench_print("fp_mul_lat", latency);
    bench_print("fp_sqr_tput", products.sqr);
    bench_print("fp2_mul", products.mul2);
    bench_print("fp2_sqr", products.sqr2);
    bench_print("fp_inv", inverse);
    return products;
}

/* Of one group: bases whose sums do not meet by accident (2^i G), additions of buckets of eight points alone, and whole
 * multiplications of random scalars. */
#define BENCH_GROUP(group, GENERATOR)                                                                                   \
    static void bench_bases_##group(group##_affine *bases, size_t count) {                                              \
        group##_xyzz point;                                                                                             \
        group##_xyzz_from_affine(&point, &GENERATOR);                                                                   \
        for (size_t i = 0; i < count; i++) {                                                                            \
            group##_xyzz_to_affine(&bases[i], &point);                                                                  \
            group##_xyzz_double(&point, &point);                                                                        \
        }                                                                                                               \
        group##_msm_prepare(bases, count);                                                                              \
    }                                                                                                                   \
                                                                                                                        \
    static double bench_fill_##group(group##_msm_scratch *s, const group##_affine *bases) {                             \
        for (uint32_t i = 0; i < MSM_SLAB; i++) {                                                                       \
            s->operands[i] = group##_msm_operand_of(bases, MSM_ENTRY(i * 5167 % MSM_SLAB, i & 1));                      \
            s->owners[i] = i / 8;                                                                                       \
        }                                                                                                               \
        const double start = bench_now_ns();                                                                            \
        group##_msm_sum_operands(s, s->buckets, MSM_SLAB);                                                              \
        return bench_now_ns() - start;                                                                                  \
    }                                                                                                                   \
                                                                                                                        \
    static void bench_badd_##group(const group##_affine *bases, void *memory, const msm_plan *plan, int runs,           \
                                   double bound) {                                                                      \
        group##_msm_scratch s;                                                                                          \
        group##_msm_scratch_place(&s, arena_over(memory), plan, MSM_SLAB);                                              \
        double best = 0;                                                                                                \
        for (int run = 0; run < runs; run++) {                                                                          \
            bench_additions = 0;                                                                                        \
            const double taken = bench_fill_##group(&s, bases);                                                         \
            if (run == 0 || taken < best) best = taken;                                                                 \
        }                                                                                                               \
        best /= (double)bench_additions;                                                                                \
        printf("{\"name\": \"" #group "_badd\", \"ns\": %.1f, \"of_bound\": %.3f}\n", best, bound / best);              \
    }                                                                                                                   \
                                                                                                                        \
    static void bench_msm_##group(uint32_t log2, const group##_affine *bases, void *memory, int runs, double bound) {   \
        static const uint64_t unit[4] = {1, 0, 0, 0};                                                                   \
        const uint32_t count = (uint32_t)1 << log2;                                                                     \
        const msm_plan plan = msm_plan_for(count);                                                                      \
        fr *scalars = malloc(count * sizeof *scalars);                                                                  \
        int16_t *digits = malloc(msm_digits_bytes(&plan, count));                                                       \
        group##_xyzz windows[MSM_MAX_WINDOWS], sum;                                                                     \
        group##_msm_scratch s;                                                                                          \
        double all;                                                                                                     \
        if (!scalars || !digits) exit(1);                                                                               \
        for (uint32_t i = 0; i < count; i++) bench_random_fr(&scalars[i]);                                              \
        group##_msm_scratch_place(&s, arena_over(memory), &plan, count);                                                \
        BENCH_SHORTEST(                                                                                                 \
            all, runs, 1, bench_additions = 0; msm_recode(digits, &plan, scalars, unit, count, 0, count);               \
            for (uint32_t w = 0; w < plan.windows; w++)                                                                 \
                group##_msm_window(&windows[w], &s, msm_window_buckets(&plan, w), bases, NULL, count,                   \
                                   msm_digits(digits, count, w, 0), msm_digits(digits, count, w, 1));                   \
            group##_msm_join_windows(&sum, windows, &plan));                                                            \
        printf("{\"name\": \"msm_" #group "_%" PRIu32 "\", \"ms\": %.3f, \"ns_per_point\": %.0f, \"additions\": %" PRIu64 \
               ", \"ns_per_addition\": %.1f, \"of_bound\": %.3f}\n",                                                    \
               log2, all / 1e6, all / count, bench_additions, all / (double)bench_additions,                            \
               bound * (double)bench_additions / all);                                                                  \
        fflush(stdout);                                                                                                 \
        free(scalars), free(digits);                                                                                    \
    }                                                                                                                   \
                                                                                                                        \
    static void bench_##group(uint32_t max_log2, int runs, double bound) {                                              \
        const size_t count = (size_t)1 << max_log2;                                                                     \
        const msm_plan plan = msm_plan_of_window(MSM_MAX_WINDOW);                                                       \
        group##_affine *bases = aligned_alloc(64, count * sizeof *bases);                                                         \
        void *memory = malloc(group##_msm_scratch_bytes(&plan, count) + ARENA_ALIGNMENT);                               \
        if (!bases || !memory) exit(1);                                                                                 \
        bench_bases_##group(bases, count);                                                                              \
        bench_badd_##group(bases, memory, &plan, runs * 10, bound);                                                     \
        for (uint32_t log2 = BENCH_MIN_LOG2; log2 <= max_log2; log2++) {                                                \
            bench_msm_##group(log2, bases, memory, runs, bound);                                                        \
        }                                                                                                               \
        free(bases), free(memory);                                                                                      \
    }

BENCH_GROUP(g1, G1_GENERATOR)
BENCH_GROUP(g2, G2_GENERATOR)

static uint32_t bench_log2(int count, char **arguments, int place, uint32_t otherwise) {
    const long value = count > place ? strtol(arguments[place], NULL, 10) : (long)otherwise;
    if (value < BENCH_MIN_LOG2 || value > BENCH_MAX_LOG2) {
        fprintf(stderr, "log2 %ld is not in %d to %d\n", value, BENCH_MIN_LOG2, BENCH_MAX_LOG2);
        exit(2);
    }
    return (uint32_t)value;
}

int main(int count, char **arguments) {
    const uint32_t g1_log2 = bench_log2(count, arguments, 1, 18), g2_log2 = bench_log2(count, arguments, 2, 16);
    const int runs = count > 3 ? atoi(arguments[3]) : 8;
    const bench_products products = bench_field();
    bench_g1(g1_log2, runs, 5 * products.mul + products.sqr);
    bench_g2(g2_log2, runs, 5 * products.mul2 + products.sqr2);
    return 0;
}
