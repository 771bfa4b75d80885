/* kernel_bench_tables.h - sums over tables of precomputed bases (msm/table.h); included by kernel_bench.c after BENCH_GROUP.
 *
 * A factor is how many times as much memory as its bases a table may take: its shape is the best of those.
 */
#ifndef G16_KERNEL_BENCH_TABLES_H
#define G16_KERNEL_BENCH_TABLES_H

/* Of a bucket set, as in a proof on one thread. */
#define BENCH_TABLE_PARTS 4

static msm_plan bench_table_plan(const msm_table_shape *shape) {
    msm_plan plan = msm_plan_of_window(shape->window_bits);
    plan.buckets = msm_table_buckets(shape) / BENCH_TABLE_PARTS;
    return plan;
}

static void bench_place_sorted(msm_sorted *sorted, arena *room, const msm_table_shape *shape, size_t count) {
    msm_lay_out_sorted(sorted, room, 1, msm_table_entries(shape, count), 1, msm_table_buckets(shape));
}

/* COUNTS(count): the lists of which the shape is chosen. */
#define BENCH_TABLES(group, COUNTS)                                                                                            \
    typedef struct bench_tables_##group {                                                                                      \
        msm_table_shape shape; /* windows is 0 where none is wanted */                                                         \
        uint32_t log2;                                                                                                         \
        group##_affine *table;                                                                                                 \
        int16_t *digits;                                                                                                       \
        msm_sorted sorted;                                                                                                     \
        void *memory, *sorted_memory;                                                                                          \
    } bench_tables_##group;                                                                                                    \
                                                                                                                               \
    static void bench_make_tables_##group(bench_tables_##group *t, const bench_##group *b, uint32_t log2, uint32_t factor) {   \
        const size_t count = (size_t)1 << log2;                                                                                \
        const msm_table_counts counts = COUNTS(count);                                                                         \
        memset(t, 0, sizeof *t);                                                                                               \
        if (log2 == 0) return;                                                                                                 \
        t->log2 = log2;                                                                                                        \
        t->shape = msm_table_choose(&counts, (uint64_t)factor * count * sizeof *t->table);                                     \
        if (t->shape.windows == 0) {                                                                                           \
            fprintf(stderr, "no table has a factor of %" PRIu32 "\n", factor);                                                 \
            exit(2);                                                                                                           \
        }                                                                                                                      \
        const msm_plan plan = bench_table_plan(&t->shape);                                                                     \
        t->table = aligned_alloc(64, t->shape.shifts * count * sizeof *t->table);                                              \
        t->digits = malloc(msm_table_digits_bytes(&t->shape, count));                                                          \
        arena room = arena_measure();                                                                                          \
        bench_place_sorted(&t->sorted, &room, &t->shape, count);                                                               \
        t->sorted_memory = malloc(room.used + ARENA_ALIGNMENT);                                                                \
        t->memory = malloc(group##_msm_scratch_bytes(&plan, 0) + ARENA_ALIGNMENT);                                             \
        if (!t->table || !t->digits || !t->sorted_memory || !t->memory) exit(1);                                               \
        room = arena_over(t->sorted_memory);                                                                                   \
        bench_place_sorted(&t->sorted, &room, &t->shape, count);                                                               \
        for (size_t i = 0; i < count; i += MSM_TABLE_CHUNK) {                                                                  \
            group##_msm_table_fill(t->table, &t->shape, b->bases + i, count, i, MSM_TABLE_CHUNK);                              \
        }                                                                                                                      \
    }                                                                                                                          \
                                                                                                                               \
    static void bench_free_tables_##group(bench_tables_##group *t) {                                                           \
        free(t->table), free(t->digits), free(t->sorted_memory), free(t->memory);                                              \
    }                                                                                                                          \
                                                                                                                               \
    static void bench_sum_tables_##group(const bench_tables_##group *t, const bench_##group *b, double bound) {                \
        const uint64_t unit[4] = {1, 0, 0, 0};                                                                                 \
        const uint32_t count = (uint32_t)1 << t->log2;                                                                         \
        const msm_plan plan = bench_table_plan(&t->shape);                                                                     \
        group##_msm_table_sum sums[MSM_TABLE_MAX_SETS * BENCH_TABLE_PARTS];                                                    \
        group##_msm_scratch s;                                                                                                 \
        group##_xyzz sum;                                                                                                      \
        if (t->shape.windows == 0) return;                                                                                     \
        for (uint32_t i = 0; i < count; i++) bench_random_fr(&b->scalars[i]);                                                  \
        group##_msm_scratch_lay_out(&s, arena_over(t->memory), &plan, 0);                                                        \
        bench_additions = 0;                                                                                                   \
        const double start = bench_now_ns();                                                                                   \
        msm_table_recode(t->digits, &t->shape, b->scalars, unit, count, 0, count);                                             \
        for (uint32_t set = 0; set < t->shape.sets; set++) {                                                                   \
            msm_sort_digits in = msm_table_set_digits(&t->shape, t->digits, count, set);                                       \
            in.ends = &count;                                                                                                  \
            in.groups = 1;                                                                                                     \
            msm_sort_window(&t->sorted, 0, msm_table_buckets(&t->shape), &in);                                                 \
            for (uint32_t part = 0; part < BENCH_TABLE_PARTS; part++) {                                                        \
                msm_run run = msm_run_of(t->table, &t->sorted, 0, part * plan.buckets, 0, 1, NULL, 0);                         \
                run.width = count;                                                                                             \
                run.number_bits = t->log2;                                                                                     \
                group##_msm_table_part(&sums[set * BENCH_TABLE_PARTS + part], &s, &plan, &run, 1);                             \
            }                                                                                                                  \
        }                                                                                                                      \
        group##_msm_table_join(&sum, sums, &t->shape, BENCH_TABLE_PARTS);                                                      \
        const double all = bench_now_ns() - start;                                                                             \
        printf("{\"name\": \"msm_" #group "_%" PRIu32 "_f%" PRIu32 "\", \"ms\": %.3f, \"ns_per_point\": %.0f"                  \
               ", \"additions\": %" PRIu64 ", \"ns_per_addition\": %.1f, \"of_bound\": %.3f}\n",                               \
               t->log2, t->shape.shifts, all / 1e6, all / count, bench_additions, all / (double)bench_additions,               \
               bound * (double)bench_additions / all);                                                                         \
    }

#define BENCH_COUNTS_G1(count) {count, 0, 0, count}
#define BENCH_COUNTS_G2(count) {0, 0, count, count}
BENCH_TABLES(g1, BENCH_COUNTS_G1)
BENCH_TABLES(g2, BENCH_COUNTS_G2)

#endif
