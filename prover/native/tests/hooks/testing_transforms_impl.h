/* testing_transforms_impl.h - hooks into the sums and transforms of one backend; the including file defines
 * T(name) and, for the assembly backend, MONT256_ADX. Scalars and coordinates are 32 bytes big-endian; points
 * are x | y (G2: x.c1 x.c0 y.c1 y.c0), infinity all zero. */
#include <stdint.h>
#include <stdlib.h>

/* Only a part of what the headers define is driven from here. */
#pragma GCC diagnostic ignored "-Wunused-function"

static uint64_t t_butterflies, t_longest;
#define NTT_COUNT(butterflies) (t_butterflies += (butterflies))
/* A call that is one task, or a part of it that no other call follows. */
#define T_TASK(call)                                           \
    do {                                                       \
        t_butterflies = 0;                                     \
        call;                                                  \
        if (t_butterflies > t_longest) t_longest = t_butterflies; \
    } while (0)

#include "msm/sums_impl.h"
#include "key/key.h"
#include "fold/scale_impl.h"
#include "groth16/quotient_cut_impl.h"

static void T(g1_read)(g1_affine *p, const uint8_t *in) {
    fp_from_bytes(&p->x, in);
    fp_from_bytes(&p->y, in + 32);
}

static void T(g1_write)(uint8_t *out, const g1_affine *p) {
    fp_to_bytes(out, &p->x);
    fp_to_bytes(out + 32, &p->y);
}

static void T(g2_read)(g2_affine *p, const uint8_t *in) {
    fp_from_bytes(&p->x.c1, in);
    fp_from_bytes(&p->x.c0, in + 32);
    fp_from_bytes(&p->y.c1, in + 64);
    fp_from_bytes(&p->y.c0, in + 96);
}

static void T(g2_write)(uint8_t *out, const g2_affine *p) {
    fp_to_bytes(out, &p->x.c1);
    fp_to_bytes(out + 32, &p->x.c0);
    fp_to_bytes(out + 64, &p->y.c1);
    fp_to_bytes(out + 96, &p->y.c0);
}

/* The two halves of a scalar: 16 bytes little-endian magnitude each, and their signs. */
void T(t_glv_split)(uint64_t *magnitudes, int32_t *negative, const uint8_t *scalar) {
    uint64_t limbs[4];
    glv_half halves[2];
    mont256_load_be(limbs, scalar);
    glv_split(halves, limbs);
    for (int i = 0; i < 2; i++) {
        magnitudes[2 * i] = halves[i].magnitude[0];
        magnitudes[2 * i + 1] = halves[i].magnitude[1];
        negative[i] = halves[i].negative;
    }
}

/* Signed digits of one scalar: digits[2 * windows], and the width of each window. Returns the number of windows; 0 if a block of
 * equal scalars does not have the same digits. */
uint32_t T(t_digits)(int32_t *digits, uint32_t *bits, const uint8_t *scalar, uint32_t window_bits) {
    enum { BLOCK = 9 };
    const uint64_t unit[4] = {1, 0, 0, 0};
    int32_t one[2 * MSM_MAX_WINDOWS], block[2 * MSM_MAX_WINDOWS * BLOCK];
    msm_plan plan = msm_plan_of_window(window_bits);
    fr values[BLOCK];
    for (int i = 0; i < BLOCK; i++) fr_from_bytes(&values[i], scalar);
    const int wide = msm_plan_is_wide(&plan);
    msm_recode(one, &plan, values, unit, 1, 0, 1);
    msm_recode(block, &plan, values, unit, BLOCK, 0, BLOCK);
    for (uint32_t i = 0; i < 2 * plan.windows; i++) digits[i] = msm_digit(one, i, wide);
    for (uint32_t i = 0; i < 2 * plan.windows * BLOCK; i++) {
        if (msm_digit(block, i, wide) != digits[i / BLOCK]) return 0;
    }
    for (uint32_t w = 0; w < plan.windows; w++) bits[w] = msm_window_bits(&plan, w);
    return plan.windows;
}

/* sum scalars[i] * points[i] in pieces of windows; window_bits 0 takes the plan for `count`. parts: a power of two, of which each
 * window has at least as many buckets. Wide windows are sorted; they have one range, and at least the parts that they need. */
#define T_SUM(group, bytes)                                                                                                \
    int32_t T(t_msm_##group)(uint8_t *out, const uint8_t *points, const uint8_t *scalars, uint32_t count,                  \
                             uint32_t window_bits, uint32_t ranges, uint32_t parts) {                                      \
        const uint64_t unit[4] = {1, 0, 0, 0};                                                                             \
        const msm_plan plan = window_bits ? msm_plan_of_window(window_bits) : msm_plan_for(count);                         \
        const int wide = msm_plan_is_wide(&plan);                                                                          \
        const uint32_t needed = msm_cut_least(&plan, count, wide).parts;                                                   \
        const msm_cut cut = {ranges, parts < needed ? needed : parts};                                                     \
        const uint32_t pieces = msm_cut_pieces(&cut);                                                                      \
        group##_affine *bases = malloc((count + 1) * sizeof *bases), affine;                                               \
        fr *values = calloc(count + 1, sizeof *values);                                                                    \
        void *digits = malloc(msm_digits_bytes(&plan, count + 1));                                                         \
        void *memory = malloc(group##_msm_scratch_bytes(&plan, count) + ARENA_ALIGNMENT);                                  \
        group##_xyzz *sums = malloc((size_t)plan.windows * pieces * sizeof *sums), sum;                                    \
        msm_sorted sorted;                                                                                                 \
        arena room = arena_measure();                                                                                      \
        msm_lay_out_sorted(&sorted, &room, &plan, 1, count, 1);                                                            \
        void *sorted_memory = malloc(room.used + ARENA_ALIGNMENT);                                                         \
        if (!bases || !values || !digits || !memory || !sums || !sorted_memory || (wide && ranges > 1)) return 1;          \
        room = arena_over(sorted_memory);                                                                                  \
        msm_lay_out_sorted(&sorted, &room, &plan, 1, count, 1);                                                            \
        for (uint32_t i = 0; i < count; i++) {                                                                             \
            T(group##_read)(&bases[i], points + (bytes) * (size_t)i);                                                      \
            fr_from_bytes(&values[i], scalars + 32 * (size_t)i);                                                           \
        }                                                                                                                  \
        msm_recode(digits, &plan, values, unit, count, 0, count);                                                          \
        group##_msm_to_stored(bases, count);                                                                               \
        group##_msm_scratch scratch;                                                                                       \
        group##_msm_scratch_lay_out(&scratch, arena_over(memory), &plan, count);                                           \
        for (uint32_t w = 0; w < plan.windows; w++) {                                                                      \
            const uint32_t buckets = msm_set_buckets(&plan, w);                                                            \
            for (uint32_t half = 0; wide && half < 2; half++) {                                                            \
                msm_sort_digits in = msm_half_digits(digits, &plan, count, 2 * w + half);                                  \
                in.ends = &count;                                                                                          \
                in.groups = 1;                                                                                             \
                msm_sort_entries(&sorted, half, buckets, &in);                                                             \
            }                                                                                                              \
            for (uint32_t piece = 0; piece < pieces; piece++) {                                                            \
                group##_xyzz *piece_sum = &sums[w * pieces + piece];                                                       \
                const group##_msm_unsorted window = {                                                                      \
                    bases, {msm_digits(digits, count, w, 0), msm_digits(digits, count, w, 1)}, count};                     \
                msm_halves halves = {.count = 1};                                                                          \
                for (uint32_t half = 0; half < 2; half++) {                                                                \
                    halves.runs[half][0] = msm_run_of((msm_bases){bases, 0}, &sorted, count, half,                         \
                                                          buckets / cut.parts * piece, 0, 1, NULL, 0);                     \
                }                                                                                                          \
                if (wide) {                                                                                                \
                    group##_msm_part(piece_sum, &scratch, buckets, piece, cut.parts, &halves, NULL);                       \
                } else {                                                                                                   \
                    group##_msm_piece(piece_sum, &scratch, buckets, &cut, piece, NULL, &window);                           \
                }                                                                                                          \
            }                                                                                                              \
        }                                                                                                                  \
        group##_msm_join_sets(&sum, sums, pieces, &plan);                                                                  \
        group##_xyzz_to_affine(&affine, &sum);                                                                             \
        T(group##_write)(out, &affine);                                                                                    \
        free(bases), free(values), free(digits), free(memory), free(sums), free(sorted_memory);                            \
        return 0;                                                                                                          \
    }

T_SUM(g1, 64)
T_SUM(g2, 128)

/* The same through a table of this shape, the buckets of each set summed in `parts` parts, a power of two that makes parts small
 * enough for a worker; the bases come from two lists. Table and entries are those of `count` bases. */
#define T_TABLE_SUM(group, bytes)                                                                                          \
    int32_t T(t_table_##group)(uint8_t *out, const uint8_t *points, const uint8_t *scalars, uint32_t count,                \
                               uint32_t sets, uint32_t shifts, uint32_t parts) {                                           \
        const uint64_t unit[4] = {1, 0, 0, 0};                                                                             \
        const msm_plan plan = msm_plan_of_sets(sets, shifts);                                                              \
        const msm_table_counts lists = {count, 0, 0, count};                                                               \
        if (!msm_table_fits(&plan, &lists)) return 1;                                                                      \
        group##_affine *bases = malloc((count + 1) * sizeof *bases), result;                                               \
        group##_affine *table = malloc((size_t)shifts * (count + 1) * sizeof *table);                                      \
        fr *values = calloc(count + 1, sizeof *values);                                                                    \
        const uint32_t counts[2] = {count / 2, count - count / 2};                                                         \
        void *digits[2], *sorted_memory[2];                                                                                \
        msm_sorted sorted[2];                                                                                              \
        void *memory = malloc(group##_msm_scratch_bytes(&plan, 0) + ARENA_ALIGNMENT);                                      \
        group##_xyzz *sums = malloc((size_t)sets * parts * sizeof *sums), sum;                                             \
        if (!bases || !table || !values || !memory || !sums) return 1;                                                     \
        for (uint32_t i = 0; i < count; i++) {                                                                             \
            T(group##_read)(&bases[i], points + (bytes) * (size_t)i);                                                      \
            fr_from_bytes(&values[i], scalars + 32 * (size_t)i);                                                           \
        }                                                                                                                  \
        group##_msm_to_stored(bases, count);                                                                               \
        for (uint32_t i = 0; i < count; i += MSM_TABLE_CHUNK) {                                                            \
            const uint32_t left = count - i;                                                                               \
            group##_msm_table_fill(table, &plan, bases + i, count, i, left < MSM_TABLE_CHUNK ? left : MSM_TABLE_CHUNK);    \
        }                                                                                                                  \
        for (int list = 0; list < 2; list++) {                                                                             \
            arena room = arena_measure();                                                                                  \
            msm_lay_out_sorted(&sorted[list], &room, &plan, 1, counts[list], 1);                                           \
            sorted_memory[list] = malloc(room.used + ARENA_ALIGNMENT);                                                     \
            digits[list] = malloc(msm_digits_bytes(&plan, counts[list] + 1));                                              \
            if (!sorted_memory[list] || !digits[list]) return 1;                                                           \
            room = arena_over(sorted_memory[list]);                                                                        \
            msm_lay_out_sorted(&sorted[list], &room, &plan, 1, counts[list], 1);                                           \
            msm_recode(digits[list], &plan, values + (list ? counts[0] : 0), unit, counts[list], 0, counts[list]);         \
        }                                                                                                                  \
        group##_msm_scratch scratch;                                                                                       \
        group##_msm_scratch_lay_out(&scratch, arena_over(memory), &plan, 0);                                               \
        for (uint32_t set = 0; set < sets; set++) {                                                                        \
            const uint32_t buckets = msm_set_buckets(&plan, set);                                                          \
            for (uint32_t i = 0; i < 4; i++) {                                                                             \
                const uint32_t list = i / 2, half = i % 2;                                                                 \
                msm_sort_digits in = msm_half_digits(digits[list], &plan, counts[list], 2 * set + half);                   \
                in.ends = &counts[list];                                                                                   \
                in.groups = 1;                                                                                             \
                msm_sort_entries(&sorted[list], half, buckets, &in);                                                       \
            }                                                                                                              \
            for (uint32_t part = 0; part < parts; part++) {                                                                \
                msm_halves halves = {.count = 2};                                                                          \
                for (uint32_t i = 0; i < 4; i++) {                                                                         \
                    const uint32_t list = i / 2, half = i % 2;                                                             \
                    halves.runs[half][list] = msm_run_of((msm_bases){table, count}, &sorted[list], counts[list], half,     \
                                                         buckets / parts * part, 0, 1, NULL, list ? counts[0] : 0);        \
                }                                                                                                          \
                group##_msm_part(&sums[set * parts + part], &scratch, buckets, part, parts, &halves, NULL);                \
            }                                                                                                              \
        }                                                                                                                  \
        group##_msm_join_sets(&sum, sums, parts, &plan);                                                                   \
        group##_xyzz_to_affine(&result, &sum);                                                                             \
        T(group##_write)(out, &result);                                                                                    \
        free(sorted_memory[0]), free(sorted_memory[1]), free(digits[0]), free(digits[1]);                                  \
        free(bases), free(table), free(values), free(memory), free(sums);                                                  \
        return 0;                                                                                                          \
    }

T_TABLE_SUM(g1, 64)
T_TABLE_SUM(g2, 128)

/* points[i] *= scalars[i] as foldings of keys do, in place. */
int32_t T(t_scale_g1)(uint8_t *points, const uint8_t *scalars, uint32_t count) {
    g1_affine *list = malloc((count + 1) * sizeof *list);
    fr *values = calloc(count + 1, sizeof *values);
    if (!list || !values) return 1;
    for (uint32_t i = 0; i < count; i++) {
        T(g1_read)(&list[i], points + 64 * (size_t)i);
        fr_from_bytes(&values[i], scalars + 32 * (size_t)i);
    }
    fold_scale(list, values, count);
    for (uint32_t i = 0; i < count; i++) T(g1_write)(points + 64 * (size_t)i, &list[i]);
    free(list), free(values);
    return 0;
}

/* step: 0 inverse, 1 forward, 2 scale to the coset; values in place. */
int32_t T(t_ntt)(uint8_t *values, uint32_t log2, uint32_t step) {
    const size_t n = (size_t)1 << log2;
    fr *a = malloc(n * sizeof *a), *table = malloc(n * sizeof *table);
    if (!a || !table) return 1;
    ntt_fill_table(table, log2);
    for (size_t i = 0; i < n; i++) fr_from_bytes(&a[i], values + 32 * i);
    if (step == 0) ntt_inverse(a, log2, table);
    if (step == 1) ntt_forward(a, log2, table);
    if (step == 2) ntt_scale(a, table, n);
    ntt_reduce(a, log2);
    for (size_t i = 0; i < n; i++) fr_to_bytes(values + 32 * i, &a[i]);
    free(a), free(table);
    return 0;
}

/* Returns 1 if the table of 2^log2 roots is the same when it is computed in parts of 2^part elements, the last one first. */
int32_t T(t_ntt_table_in_parts)(uint32_t log2, uint32_t part) {
    const size_t n = (size_t)1 << log2, size = (size_t)1 << part;
    fr *table = malloc(2 * n * sizeof *table), *whole = table + n;
    if (!table) return 0;
    ntt_fill_table(whole, log2);
    ntt_fill_table(table, part);
    for (size_t first = n - size; first > 0; first -= size) ntt_fill_table_part(table, first, size);
    const int32_t equal = memcmp(table, whole, n * sizeof *table) == 0;
    free(table);
    return equal;
}

/* psi of order 2^(log2 + 1), whose odd powers are the coset. */
void T(t_ntt_psi)(uint8_t *out, uint32_t log2) {
    fr psi;
    ntt_root(&psi, log2 + 1);
    fr_to_bytes(out, &psi);
}

/* The quotient's last result for vectors a, b and c of n = 2^log2 values each, of which the first `constraints` are not zero: on
 * whole vectors (threads 1, small domains), or cut for so many threads, the tasks of each kind in reverse order. folded: the products at the points of
 * the shape. Returns the number of values, which lie at the start of the vectors, or -1. */
int32_t T(t_quotient)(uint8_t *vectors, uint32_t log2, uint32_t constraints, uint32_t folded, uint32_t threads) {
    const size_t n = (size_t)1 << log2;
    const quotient_cut cut = quotient_cut_for(log2, (int)folded, threads);
    const fold_shape shape = fold_shape_for(constraints, log2);
    const uint32_t columns = cut.passes ? quotient_column_tasks(&cut) : 0;
    fr *a = malloc(3 * n * sizeof *a), *b = a + n, *c = b + n, *table = malloc(n * sizeof *table), scale;
    if (!a || !table) return -1;
    t_longest = 0;
    ntt_fill_table(table, log2);
    quotient_product_scale(&scale, log2);
    for (size_t i = 0; i < 3 * n; i++) fr_from_bytes(&a[i], vectors + 32 * i);
    for (uint32_t i = 0; cut.passes && i < (folded ? 2u : 3u) * columns; i++) {
        T_TASK(quotient_enter_columns(a + i / columns * n, constraints, &cut, columns - 1 - i % columns, table));
    }
    for (uint32_t i = 0; cut.passes && i < (folded ? 2u : 3u) * cut.rows; i++) {
        const uint32_t vector = i / cut.rows, row = cut.rows - 1 - i % cut.rows;
        fr *values = a + vector * n;
        if (folded) {
            T_TASK(quotient_parts_row(values, c + vector * (n / 2), &cut, row, &shape, table));
        } else if (vector == 2) {
            T_TASK(quotient_inverse_row(values, &cut, row, table));
        } else {
            T_TASK(quotient_coset_row(values, &cut, row, table));
        }
    }
    if (cut.passes && folded) {
        for (uint32_t i = quotient_point_tasks(&cut, &shape); i-- > 0;) T_TASK(quotient_point_columns(c, a, b, &cut, i, &shape, table));
    } else if (cut.passes) {
        for (uint32_t i = columns; i-- > 0;) T_TASK(quotient_product_columns(a, b, &scale, &cut, i, table));
        for (uint32_t i = cut.rows; i-- > 0;) T_TASK(quotient_from_coset_row(a, c, &cut, i, table));
    } else if (folded) {
        T_TASK(quotient_to_parts(a, c, log2, &shape, table));
        T_TASK(quotient_to_parts(b, c + n / 2, log2, &shape, table));
        T_TASK(quotient_multiply_parts(a, b, log2, &shape));
    } else {
        T_TASK(quotient_to_coset(a, log2, table));
        T_TASK(quotient_to_coset(b, log2, table));
        T_TASK(ntt_inverse(c, log2, table));
        T_TASK(quotient_combine(a, b, c, log2, table));
    }
    const size_t count = folded ? shape.points : n;
    const fr *result = cut.passes && folded ? c : a;
    for (size_t i = 0; i < count; i++) fr_to_bytes(vectors + 32 * i, &result[i]);
    free(a), free(table);
    return (int32_t)count;
}

/* Butterflies of the longest task of the last quotient. */
uint64_t T(t_quotient_longest)(void) { return t_longest; }

/* The division of a quotient of 2^log2 values on so many threads: elements of a row, columns of a task, rows. */
void T(t_quotient_cut)(uint64_t *out, uint32_t log2, uint32_t folded, uint32_t threads) {
    const quotient_cut cut = quotient_cut_for(log2, (int)folded, threads);
    out[0] = cut.row;
    out[1] = cut.columns;
    out[2] = cut.rows;
}

#if defined(G16_LANES)
/* sums[i] = p[i] + q[i] for at most 32 pairs of stored points as field/fp8_impl.h has them in memory; bit 0 of signs[i] means the opposite
 * of p[i], bit 1 that of q[i]. No x of a pair may be equal modulo p. */
#define T_STORED_SUMS(group)                                                                                               \
    int32_t T(t_stored_sums_##group)(void *sums, const void *p, const void *q, const uint8_t *signs, uint32_t count) {       \
        group##_msm_scratch s = {0};                                                                                       \
        group##_msm_operand at_p[40], at_q[40];                                                                            \
        group##_affine *out = NULL;                                                                                        \
        const group##_affine *of_p = p, *of_q = q;                                                                         \
        if (count > 32) return 1;                                                                                          \
        if (posix_memalign((void **)&s.shared, ARENA_ALIGNMENT, group##_msm_shared_bytes())) return 1;                      \
        out = calloc(count + MSM_PAIRS_PADDING, sizeof *out);                                                              \
        for (uint32_t i = 0; i < count; i++) {                                                                             \
            at_p[i] = (group##_msm_operand)(of_p + i) | (signs[i] & 1);                                                    \
            at_q[i] = (group##_msm_operand)(of_q + i) | (signs[i] >> 1);                                                   \
        }                                                                                                                  \
        if (out) group##_msm_add_pairs(&s, out, at_p, at_q, count, 0);                                                        \
        if (out) memcpy(sums, out, count * sizeof *out);                                                                   \
        free(s.shared);                                                                                                    \
        free(out);                                                                                                         \
        return out ? 0 : 1;                                                                                                \
    }
T_STORED_SUMS(g1)
T_STORED_SUMS(g2)
#endif
