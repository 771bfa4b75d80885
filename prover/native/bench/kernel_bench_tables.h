/* kernel_bench_tables.h - sums over tables of precomputed bases (msm/table.h); included by kernel_bench.c after BENCH_GROUP.
 *
 * A factor is how many times as much memory as its bases a table may take: its plan is the best of those.
 */
#ifndef G16_KERNEL_BENCH_TABLES_H
#define G16_KERNEL_BENCH_TABLES_H

/* COUNTS(count): the lists of which the plan is chosen. */
#define BENCH_TABLES(group, COUNTS)                                                                                            \
    typedef struct bench_tables_##group {                                                                                      \
        msm_plan plan; /* windows is 0 where none is wanted */                                                                 \
        uint32_t log2;                                                                                                         \
        group##_affine *table;                                                                                                 \
        void *digits;                                                                                                          \
        void *memory, *sorted_memory;                                                                                          \
    } bench_tables_##group;                                                                                                    \
                                                                                                                               \
    static void bench_make_tables_##group(bench_tables_##group *t, const bench_##group *b, uint32_t log2, uint32_t factor) {   \
        const size_t count = (size_t)1 << log2;                                                                                \
        const msm_table_counts counts = COUNTS(count);                                                                         \
        memset(t, 0, sizeof *t);                                                                                               \
        if (log2 == 0) return;                                                                                                 \
        t->log2 = log2;                                                                                                        \
        t->plan = msm_table_choose(&counts, (uint64_t)factor * count * sizeof *t->table, 0);                                   \
        if (t->plan.windows == 0) {                                                                                            \
            fprintf(stderr, "no table has a factor of %" PRIu32 "\n", factor);                                                 \
            exit(2);                                                                                                           \
        }                                                                                                                      \
        t->table = aligned_alloc(64, msm_plan_shifts(&t->plan) * count * sizeof *t->table);                                    \
        t->digits = malloc(msm_digits_bytes(&t->plan, count));                                                                 \
        arena room = arena_measure();                                                                                          \
        msm_sorted sorted;                                                                                                     \
        msm_lay_out_sorted(&sorted, &room, &t->plan, 1, count, 1);                                                             \
        t->sorted_memory = malloc(room.used + ARENA_ALIGNMENT);                                                                \
        t->memory = malloc(group##_msm_scratch_bytes(&t->plan, 0) + ARENA_ALIGNMENT);                                          \
        if (!t->table || !t->digits || !t->sorted_memory || !t->memory) exit(1);                                               \
        for (size_t i = 0; i < count; i += MSM_TABLE_CHUNK) {                                                                  \
            group##_msm_table_fill(t->table, &t->plan, b->bases + i, count, i, MSM_TABLE_CHUNK);                               \
        }                                                                                                                      \
    }                                                                                                                          \
                                                                                                                               \
    static void bench_free_tables_##group(bench_tables_##group *t) {                                                           \
        free(t->table), free(t->digits), free(t->sorted_memory), free(t->memory);                                              \
    }                                                                                                                          \
                                                                                                                               \
    static void bench_sum_tables_##group(const bench_tables_##group *t, const bench_##group *b, double bound) {                \
        const msm_bases bases = {t->table, (size_t)1 << t->log2};                                                              \
        char variant[16];                                                                                                      \
        if (t->plan.windows == 0) return;                                                                                      \
        snprintf(variant, sizeof variant, "_f%" PRIu32, msm_plan_shifts(&t->plan));                                            \
        bench_sum_##group(&t->plan, bases, t->log2, b->scalars, t->digits, t->memory, t->sorted_memory, variant, bound);       \
    }

#define BENCH_COUNTS_G1(count) {count, 0, 0, count}
#define BENCH_COUNTS_G2(count) {0, 0, count, count}
BENCH_TABLES(g1, BENCH_COUNTS_G1)
BENCH_TABLES(g2, BENCH_COUNTS_G2)

#endif
