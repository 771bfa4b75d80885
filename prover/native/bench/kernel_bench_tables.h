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
        uint32_t log2, parts;                                                                                                  \
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
        t->parts = msm_cut_least(&t->plan, msm_plan_shifts(&t->plan) * count, 1).parts;                                        \
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
        const uint64_t unit[4] = {1, 0, 0, 0};                                                                                 \
        const uint32_t count = (uint32_t)1 << t->log2, parts = t->parts;                                                       \
        const msm_plan *plan = &t->plan;                                                                                       \
        group##_xyzz sums[MSM_TABLE_MAX_SETS * MSM_MAX_PARTS], sum;                                                            \
        group##_msm_scratch s;                                                                                                 \
        msm_sorted sorted;                                                                                                     \
        if (plan->windows == 0) return;                                                                                        \
        arena room = arena_over(t->sorted_memory);                                                                             \
        msm_lay_out_sorted(&sorted, &room, plan, 1, count, 1);                                                                 \
        for (uint32_t i = 0; i < count; i++) bench_random_fr(&b->scalars[i]);                                                  \
        group##_msm_scratch_lay_out(&s, arena_over(t->memory), plan, 0);                                                       \
        bench_additions = 0;                                                                                                   \
        const double start = bench_now_ns();                                                                                   \
        msm_recode(t->digits, plan, b->scalars, unit, count, 0, count);                                                        \
        for (uint32_t set = 0; set < plan->sets; set++) {                                                                      \
            const uint32_t buckets = msm_set_buckets(plan, set);                                                               \
            for (uint32_t half = 0; half < 2; half++) {                                                                        \
                msm_sort_digits in = msm_half_digits(t->digits, plan, count, 2 * set + half);                                  \
                in.ends = &count;                                                                                              \
                in.groups = 1;                                                                                                 \
                msm_sort_entries(&sorted, half, buckets, &in);                                                                 \
            }                                                                                                                  \
            for (uint32_t part = 0; part < parts; part++) {                                                                    \
                msm_halves halves = {.count = 1};                                                                              \
                for (uint32_t half = 0; half < 2; half++)                                                                      \
                    halves.runs[half][0] = msm_run_of((msm_bases){t->table, count}, &sorted, count, half,                      \
                                                      buckets / parts * part, 0, 1, NULL, 0);                                  \
                group##_msm_part(&sums[set * parts + part], &s, buckets, part, parts, &halves, NULL);                          \
            }                                                                                                                  \
        }                                                                                                                      \
        group##_msm_join_sets(&sum, sums, parts, plan);                                                                        \
        const double all = bench_now_ns() - start;                                                                             \
        printf("{\"name\": \"msm_" #group "_%" PRIu32 "_f%" PRIu32 "\", \"ms\": %.3f, \"ns_per_point\": %.0f"                  \
               ", \"additions\": %" PRIu64 ", \"ns_per_addition\": %.1f, \"of_bound\": %.3f}\n",                               \
               t->log2, msm_plan_shifts(plan), all / 1e6, all / count, bench_additions, all / (double)bench_additions,         \
               bound * (double)bench_additions / all);                                                                         \
    }

#define BENCH_COUNTS_G1(count) {count, 0, 0, count}
#define BENCH_COUNTS_G2(count) {0, 0, count, count}
BENCH_TABLES(g1, BENCH_COUNTS_G1)
BENCH_TABLES(g2, BENCH_COUNTS_G2)

#endif
