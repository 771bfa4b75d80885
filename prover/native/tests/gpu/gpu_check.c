/* gpu_check.c - the GPU against the host: the same text compiled for both must give the same bytes, and large sums must be the
 * multiple of the generator that the scalars say. gpu_check all|small: small is what a sanitizer can do in minutes. Prints one JSON
 * object per check; exit code 1 when one failed. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "field/fr.h"
#include "gpu_generators.h"
#include "gpu_tunings.h"

typedef struct t_msm_shape {
    uint32_t count, first_list, window_bits, sets, order, multiplications, room;
} t_msm_shape;

typedef struct t_ntt_shape {
    uint32_t log2, last_levels, levels, order, transforms;
} t_ntt_shape;

#define DECLARE(side)                                                                                         \
    int32_t t_##side##_fp_results(uint8_t *out, const uint8_t *in, uint32_t count);                           \
    int32_t t_##side##_ntt(uint8_t *values, const uint8_t *table, const t_ntt_shape *shape, uint32_t step);   \
    int32_t t_##side##_quotient(uint8_t *h, const uint8_t *values, const uint8_t *table, const uint8_t *scale, \
                                const t_ntt_shape *shape);                                                     \
    int32_t t_##side##_fr_results(uint8_t *out, const uint8_t *in, uint32_t count);                           \
    int32_t t_##side##_tune(const char *text, char *message);                                                 \
    int32_t t_##side##_multiples_g1(uint8_t *out, const uint8_t *generator, uint32_t first, uint32_t count);  \
    int32_t t_##side##_multiples_g2(uint8_t *out, const uint8_t *generator, uint32_t first, uint32_t count);  \
    int32_t t_##side##_msm_g1(uint8_t *out, const uint8_t *points, const uint8_t *values, const t_msm_shape *shape); \
    int32_t t_##side##_msm_g2(uint8_t *out, const uint8_t *points, const uint8_t *values, const t_msm_shape *shape);
DECLARE(cuda)
DECLARE(gpu)

typedef struct group {
    const char *name;
    const uint64_t *generator;
    size_t bytes; /* of a point */
    int32_t (*multiples[2])(uint8_t *, const uint8_t *, uint32_t, uint32_t);
    int32_t (*msm[2])(uint8_t *, const uint8_t *, const uint8_t *, const t_msm_shape *);
} group;

static const group GROUPS[2] = {
    {"g1", G1_GENERATOR, 64, {t_cuda_multiples_g1, t_gpu_multiples_g1}, {t_cuda_msm_g1, t_gpu_msm_g1}},
    {"g2", G2_GENERATOR, 128, {t_cuda_multiples_g2, t_gpu_multiples_g2}, {t_cuda_msm_g2, t_gpu_msm_g2}}};

static int failures;

static void report(const char *name, const char *detail, uint32_t count, int ok) {
    printf("{\"check\": \"%s\", \"detail\": \"%s\", \"count\": %u, \"ok\": %s}\n", name, detail, count, ok ? "true" : "false");
    fflush(stdout);
    failures += !ok;
}

static void *take(size_t bytes) {
    void *memory = malloc(bytes + 1);
    if (!memory) {
        fprintf(stderr, "gpu_check: no memory\n");
        exit(2);
    }
    return memory;
}

static uint64_t random_word(void) {
    static uint64_t state = 0x9e3779b97f4a7c15u; /* xorshift64*, Vigna 2016 */
    state ^= state >> 12;
    state ^= state << 25;
    state ^= state >> 27;
    return state * 0x2545f4914f6cdd1du;
}

/* A number below 2^253, or, one time in eight, one with few bits. */
static void random_value(uint64_t v[4]) {
    for (int i = 0; i < 4; i++) v[i] = random_word();
    v[3] >>= 11;
    if (random_word() % 8 == 0) {
        v[1] = v[2] = v[3] = 0;
        v[0] %= 3;
    }
}

static void check_field(const char *name, int32_t (*host)(uint8_t *, const uint8_t *, uint32_t),
                        int32_t (*gpu)(uint8_t *, const uint8_t *, uint32_t), uint32_t count) {
    const size_t bytes = (size_t)6 * 32 * count;
    uint64_t *in = take((size_t)64 * count);
    uint8_t *expected = take(bytes), *got = take(bytes);
    for (size_t i = 0; i < (size_t)2 * count; i++) random_value(in + 4 * i);
    int ok = host(expected, (uint8_t *)in, count) == 0 && gpu(got, (uint8_t *)in, count) == 0;
    report(name, "add, sub, mul, neg, inv, mul_plain", count, ok && !memcmp(expected, got, bytes));
    free(in), free(expected), free(got);
}

static void check_multiples(const group *g, uint32_t count) {
    uint8_t *expected = take(g->bytes * count), *got = take(g->bytes * count);
    int ok = g->multiples[0](expected, (const uint8_t *)g->generator, 0, count) == 0 &&
             g->multiples[1](got, (const uint8_t *)g->generator, 0, count) == 0;
    report(g->name, "multiples of the generator", count, ok && !memcmp(expected, got, g->bytes * count));
    free(expected), free(got);
}

#define MOST 3 /* multiplications, or transforms, at once */

/* kind: 0 random scalars, 1 equal ones, 2 zeros */
static void check_msm(const group *g, uint32_t count, uint32_t window_bits, uint32_t sets, uint32_t multiplications, int kind) {
    uint8_t *points = take(g->bytes * count), expected[MOST * 128] = {0}, got[MOST * 128] = {1};
    uint64_t *values = take((size_t)32 * count * multiplications);
    const t_msm_shape shape = {count, count / 3, window_bits, sets, 0, multiplications, multiplications + 1};
    char detail[64];
    snprintf(detail, sizeof detail, "%u msm, window %u, sets %u, kind %d", multiplications, window_bits, sets, kind);
    int ok = g->multiples[0](points, (const uint8_t *)g->generator, 0, count) == 0;
    for (size_t i = 0; i < (size_t)count * multiplications; i++) {
        random_value(values + 4 * i);
        if (kind == 1) memcpy(values + 4 * i, FR_ONE.v, 32);
        if (kind == 2) memset(values + 4 * i, 0, 32);
    }
    ok = ok && g->msm[0](expected, points, (uint8_t *)values, &shape) == 0 &&
         g->msm[1](got, points, (uint8_t *)values, &shape) == 0;
    report(g->name, detail, count, ok && !memcmp(expected, got, g->bytes * multiplications));
    free(points), free(values);
}

/* Bases (i + 1) G: the sum is (sum of scalar * (i + 1)) G. */
static void check_large_msm(const group *g, uint32_t count, uint32_t window_bits, uint32_t sets) {
    uint8_t *points = take(g->bytes * count), expected[128] = {0}, got[128] = {1};
    fr *values = take(sizeof(fr) * count), sum = FR_ZERO;
    const t_msm_shape shape = {count, count, window_bits, sets, 0, 1, 1}, one = {1, 1, 8, 0, 0, 1, 1};
    char detail[64];
    snprintf(detail, sizeof detail, "large msm, window %u, sets %u", window_bits, sets);
    for (size_t i = 0; i < count; i++) {
        fr factor, term;
        random_value(values[i].v);
        fr_from_u64(&factor, i + 1);
        fr_mul(&term, &values[i], &factor);
        fr_add(&sum, &sum, &term);
    }
    int ok = g->multiples[1](points, (const uint8_t *)g->generator, 1, count) == 0 &&
             g->msm[1](got, points, (uint8_t *)values, &shape) == 0 &&
             g->msm[0](expected, (const uint8_t *)g->generator, (uint8_t *)sum.v, &one) == 0;
    report(g->name, detail, count, ok && !memcmp(expected, got, g->bytes));
    free(points), free(values);
}

/* psi^bitrev(i), psi of order 2n. */
static fr *table_of(uint32_t log2) {
    fr *table = take(sizeof(fr) << log2);
    table[0] = FR_ONE;
    for (uint32_t s = 0; s < log2; s++) {
        fr step = FR_ROOT_28;
        for (uint32_t i = s + 2; i < FR_TWO_ADICITY; i++) fr_sqr(&step, &step);
        for (size_t i = 0; i < (size_t)1 << s; i++) fr_mul(&table[((size_t)1 << s) + i], &table[i], &step);
    }
    return table;
}

/* Every step against the host, and the quotient. */
static void check_ntt(uint32_t log2, uint32_t transforms) {
    const size_t n = (size_t)1 << log2, bytes = transforms * n * sizeof(fr);
    const t_ntt_shape shape = {log2, 0, 0, 0, transforms};
    fr *table = table_of(log2), *in = take(3 * bytes), scale;
    uint8_t *expected = take(bytes), *got = take(bytes);
    for (size_t i = 0; i < 3 * transforms * n; i++) random_value(in[i].v);
    for (uint32_t step = 0; step < 3; step++) {
        static const char *const names[] = {"inverse", "forward", "forward to the coset"};
        memcpy(expected, in, bytes);
        memcpy(got, in, bytes);
        int ok = t_cuda_ntt(expected, (uint8_t *)table, &shape, step) == 0 && t_gpu_ntt(got, (uint8_t *)table, &shape, step) == 0;
        report("ntt", names[step], (uint32_t)n, ok && !memcmp(expected, got, bytes));
    }
    fr_from_u64(&scale, (uint64_t)n * n);
    fr_inv(&scale, &scale);
    int ok = t_cuda_quotient(expected, (uint8_t *)in, (uint8_t *)table, (uint8_t *)&scale, &shape) == 0 &&
             t_gpu_quotient(got, (uint8_t *)in, (uint8_t *)table, (uint8_t *)&scale, &shape) == 0;
    report("ntt", "quotient", (uint32_t)n, ok && !memcmp(expected, got, bytes));
    free(table), free(in), free(expected), free(got);
}

/* A forward transform after an inverse one multiplies by n. */
static void check_large_ntt(uint32_t log2) {
    const size_t n = (size_t)1 << log2, bytes = n * sizeof(fr);
    const t_ntt_shape shape = {log2, 0, 0, 0, 1};
    fr *table = table_of(log2), *in = take(bytes), *got = take(bytes), factor;
    for (size_t i = 0; i < n; i++) random_value(in[i].v);
    memcpy(got, in, bytes);
    int ok = t_gpu_ntt((uint8_t *)got, (uint8_t *)table, &shape, 0) == 0 && t_gpu_ntt((uint8_t *)got, (uint8_t *)table, &shape, 1) == 0;
    fr_from_u64(&factor, n);
    for (size_t i = 0; i < n && ok; i++) {
        fr_mul(&in[i], &in[i], &factor);
        ok = fr_equal(&in[i], &got[i]);
    }
    report("ntt", "there and back", (uint32_t)n, ok);
    free(table), free(in), free(got);
}

/* Sums and transforms under tunings that no plan would choose; the host's under its own. */
static void check_tunings(void) {
    for (size_t i = 0; i < ODD_TUNINGS; i++) {
        char message[200] = "";
        const int tuned = t_gpu_tune(ODD_TUNING[i], message) == 0;
        report("tuning", tuned ? ODD_TUNING[i] : message, 1, tuned);
        if (!tuned) continue;
        for (int g = 0; g < 2; g++) {
            for (int kind = 0; kind < 3; kind++) check_msm(&GROUPS[g], 300, 0, 0, MOST, kind);
        }
        for (uint32_t log2 = 0; log2 <= 12; log2 += 3) check_ntt(log2, MOST);
    }
    t_gpu_tune("", NULL);
}

/* The other kernels for sums in G2. */
static void check_g2_kernels(void) {
    static const char *const kernels[] = {"g2=1", "g2=2"};
    for (int i = 0; i < 2; i++) {
        char message[200] = "";
        const int tuned = t_gpu_tune(kernels[i], message) == 0;
        report("tuning", tuned ? kernels[i] : message, 1, tuned);
        for (int kind = 0; kind < 2; kind++) check_msm(&GROUPS[1], 300, 7, 1, 1, kind);
    }
    t_gpu_tune("", NULL);
}

int main(int argc, char **argv) {
    const int small = argc == 2 && !strcmp(argv[1], "small");
    static const uint32_t shapes[][2] = {{2, 0}, {7, 1}, {11, 0}, {13, 1}, {16, 3}, {0, 0}};
    if (!small && (argc != 2 || strcmp(argv[1], "all"))) {
        fprintf(stderr, "usage: gpu_check all|small\n");
        return 2;
    }
    check_field("fp", t_cuda_fp_results, t_gpu_fp_results, small ? 256 : 20000);
    check_field("fr", t_cuda_fr_results, t_gpu_fr_results, small ? 256 : 20000);
    for (int i = 0; i < 2; i++) {
        const group *g = &GROUPS[i];
        check_multiples(g, small ? 65 : 300);
        for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++) {
            for (int kind = 0; kind < 3; kind++) {
                if (small && (s % 2 || kind == 2)) continue;
                const uint32_t multiplications = s % 4 ? 1 : MOST;
                check_msm(g, small ? 300 : 9000, shapes[s][0], shapes[s][1], multiplications, kind);
            }
        }
        if (small) continue;
        check_large_msm(g, i ? 1u << 16 : 1u << 18, 0, 0);
        check_large_msm(g, i ? 1u << 18 : 1u << 20, 0, 0);
        check_large_msm(g, i ? 1u << 14 : 1u << 16, 15, 1);
    }
    for (uint32_t log2 = 0; log2 <= (small ? 11 : 19); log2 += small ? 11 : 1) check_ntt(log2, log2 > 15 ? 1 : 1 + log2 % MOST);
    for (uint32_t log2 = 20; log2 <= 24 && !small; log2++) check_large_ntt(log2);
    check_g2_kernels();
    if (!small) check_tunings();
    return failures != 0;
}
