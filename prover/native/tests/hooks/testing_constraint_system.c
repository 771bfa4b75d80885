/* testing_constraint_system.c - what the tests of key parsing and witness solving reach of the kernel's inside. Part
 * of libgroth16_testing.so only. */
#include <stdlib.h>
#include <string.h>

#include "base/backend.h"
#include "base/thread_pool.h"
#include "r1cs/shorten.h"
#include "gnark/intcomp.h"
#include "gnark/leb128.h"
#include "gnark/reader.h"
#include "key/key.h"

#define T_CS __attribute__((visibility("default")))

T_CS constraint_system *t_cs_read(const uint8_t *data, size_t size, uint64_t base_offset, uint32_t format_version,
                                  const g16_cancel *cancel, int32_t *status, g16_error *error) {
    constraint_system *cs = malloc(sizeof *cs);
    *status = cs ? (int32_t)constraint_system_read(cs, data, size, base_offset, format_version, cancel, error)
                 : (int32_t)G16_OUT_OF_MEMORY;
    if (*status == G16_OK) *status = (int32_t)constraint_system_shorten(cs, cancel, error);
    if (*status == G16_OK) return cs;
    if (cs) constraint_system_free(cs);
    free(cs);
    return NULL;
}

T_CS void t_cs_free(constraint_system *cs) {
    if (cs) constraint_system_free(cs);
    free(cs);
}

static fr plain_sum(const constraint_system *cs, const fr *wires, uint32_t expression) {
    fr sum = FR_ZERO, term;
    for (uint32_t t = cs->expression_start[expression]; t < cs->expression_start[expression + 1]; t++) {
        fr_mul(&term, &cs->coefficients[cs->terms[t].coefficient], &wires[cs->terms[t].wire]);
        fr_add(&sum, &sum, &term);
    }
    return sum;
}

/* Of the terms that the solver evaluates. */
T_CS uint64_t t_cs_short_terms(const constraint_system *cs) { return cs->short_forms.terms_count; }

/* In the order of the fields of CountsOfConstraintSystem in the tests. */
T_CS void t_cs_counts(const constraint_system *cs, uint64_t out[18]) {
    const uint64_t counts[18] = {cs->public_wires, cs->secret_wires, cs->internal_wires, cs->wires, cs->constraints,
                                 cs->coefficients_count, cs->expressions, cs->hints_count, cs->instructions_count,
                                 cs->terms_count, cs->file_terms, cs->components, cs->checks_start, cs->levels,
                                 cs->batch_kind, constraint_system_bytes(cs), sizeof(constraint_system),
                                 cs->slices};
    memcpy(out, counts, sizeof counts);
}

T_CS void t_cs_coefficients(const constraint_system *cs, uint8_t *out) {
    for (uint32_t i = 0; i < cs->coefficients_count; i++) fr_to_bytes(out + 32 * (size_t)i, &cs->coefficients[i]);
}

/* left, right, out, solves, solved wire, its coefficient, level */
T_CS void t_cs_row(const constraint_system *cs, uint32_t row, uint32_t out[7]) {
    const cs_row *r = &cs->rows[row];
    const uint32_t fields[7] = {r->left, r->right, r->out, r->solves, r->solved_wire, r->solved_coefficient, r->level};
    memcpy(out, fields, sizeof fields);
}

/* kind, input expression, first output, outputs */
T_CS void t_cs_hint(const constraint_system *cs, uint32_t hint, uint32_t out[4]) {
    const cs_hint *h = &cs->hints[hint];
    const uint32_t fields[4] = {h->kind, h->input, h->first_output, h->outputs};
    memcpy(out, fields, sizeof fields);
}

/* Terms of an expression as pairs (coefficient, wire); the number of terms. */
T_CS uint32_t t_cs_expression(const constraint_system *cs, uint32_t expression, uint32_t *pairs, uint32_t capacity) {
    uint32_t start = cs->expression_start[expression], count = cs->expression_start[expression + 1] - start;
    for (uint32_t i = 0; i < count && i < capacity; i++) {
        pairs[2 * i] = cs->terms[start + i].coefficient;
        pairs[2 * i + 1] = cs->terms[start + i].wire;
    }
    return count;
}

T_CS void t_cs_program(const constraint_system *cs, uint32_t *program, uint32_t *component_start,
                       uint32_t *slice_start) {
    memcpy(program, cs->program, (size_t)cs->instructions_count * sizeof *program);
    memcpy(component_start, cs->component_start, ((size_t)cs->components + 1) * sizeof *component_start);
    memcpy(slice_start, cs->slice_start, ((size_t)cs->slices + 1) * sizeof *slice_start);
}

static uint8_t *put_u32(uint8_t *at, uint32_t value) {
    for (int i = 0; i < 4; i++) at[i] = (uint8_t)(value >> (8 * i));
    return at + 4;
}

/* The bytes that the vectors hash: for L, R, O of a row u32le term count, then per term u32le wire and the coefficient in
 * 32 bytes, big-endian. Writes whole rows from `row` on while they fit; returns the next row and *used. `values` are the
 * bytes of t_cs_coefficients. */
T_CS uint32_t t_cs_digest_bytes(const constraint_system *cs, const uint8_t *values, uint32_t row, uint8_t *out,
                                uint64_t capacity, uint64_t *used) {
    uint8_t *at = out;
    for (; row < cs->constraints; row++) {
        const uint32_t sides[3] = {cs->rows[row].left, cs->rows[row].right, cs->rows[row].out};
        uint64_t bytes = 12;
        for (int i = 0; i < 3; i++) {
            bytes += 36 * (uint64_t)(cs->expression_start[sides[i] + 1] - cs->expression_start[sides[i]]);
        }
        if (bytes > capacity - (uint64_t)(at - out)) break;
        for (int i = 0; i < 3; i++) {
            uint32_t start = cs->expression_start[sides[i]], end = cs->expression_start[sides[i] + 1];
            at = put_u32(at, end - start);
            for (uint32_t t = start; t < end; t++) {
                at = put_u32(at, cs->terms[t].wire);
                memcpy(at, values + 32 * (size_t)cs->terms[t].coefficient, 32);
                at += 32;
            }
        }
    }
    *used = (uint64_t)(at - out);
    return row;
}

/* choice: a g16_backend_choice. */
const g16_backend *t_cs_backend(uint32_t choice);
const g16_backend *t_cs_backend(uint32_t choice) {
#if defined(__x86_64__)
    if (choice == G16_BACKEND_ADX) return &g16_backend_adx;
    if (choice == G16_BACKEND_AVX2) return &g16_backend_avx2;
    if (choice == G16_BACKEND_AVX512) return &g16_backend_avx512;
#if !defined(G16_WITHOUT_IFMA)
    if (choice == G16_BACKEND_IFMA) return &g16_backend_ifma;
#endif
#else
    (void)choice;
#endif
    return &g16_backend_portable;
}

/* choice: a g16_backend_choice. wires, a, b, c may be NULL. */
T_CS int32_t t_cs_solve(const constraint_system *cs, uint32_t choice, uint32_t threads, uint8_t *wires, uint8_t *a,
                        uint8_t *b, uint8_t *c, const uint8_t *inputs, size_t count, const g16_cancel *cancel,
                        g16_error *error) {
    const g16_backend *backend = t_cs_backend(choice);
    size_t rows = cs->constraints, all = cs->wires + 3 * rows;
    fr *memory = malloc(all * sizeof *memory);
    thread_pool *pool = NULL;
    g16_status status = memory ? thread_pool_create(&pool, threads) : G16_OUT_OF_MEMORY;
    if (status == G16_OK) {
        fr *va = memory + cs->wires, *vb = va + rows, *vc = vb + rows;
        status = backend->solve(cs, pool, memory, va, vb, c ? vc : NULL, inputs, count, cancel, error);
        if (status == G16_OK) {
            if (wires) backend->fr_to_bytes(wires, memory, cs->wires);
            if (a) backend->fr_to_bytes(a, va, rows);
            if (b) backend->fr_to_bytes(b, vb, rows);
            if (c) backend->fr_to_bytes(c, vc, rows);
        }
        thread_pool_destroy(pool);
    }
    free(memory);
    return (int32_t)status;
}

/* Solves for any inputs, satisfiable or not, and counts the rows whose a, b or c are not the sums of the file's terms over the
 * wires, or that solve a wire for which a * b is not c. UINT32_MAX when it does not come to that. */
T_CS uint32_t t_cs_differing_rows(const constraint_system *cs, uint32_t choice, uint32_t threads, const uint8_t *inputs,
                                  size_t count) {
    const g16_backend *backend = t_cs_backend(choice);
    const size_t rows = cs->constraints;
    uint32_t differing = UINT32_MAX;
    fr *memory = malloc((cs->wires + 3 * rows) * sizeof *memory);
    thread_pool *pool = NULL;
    if (memory && thread_pool_create(&pool, threads) == G16_OK) {
        fr *a = memory + cs->wires, *b = a + rows, *c = b + rows, product;
        g16_status status = backend->solve(cs, pool, memory, a, b, c, inputs, count, NULL, NULL);
        if (status == G16_OK || status == G16_UNSATISFIED_CONSTRAINT) {
            differing = 0;
            for (uint32_t i = 0; i < rows; i++) {
                const cs_row *row = &cs->rows[i];
                const fr left = plain_sum(cs, memory, row->left), right = plain_sum(cs, memory, row->right);
                const fr out = plain_sum(cs, memory, row->out);
                fr_mul(&product, &left, &right);
                differing += !fr_equal(&left, &a[i]) || !fr_equal(&right, &b[i]) || !fr_equal(&out, &c[i]) ||
                             (row->solves && !fr_equal(&product, &out));
            }
        }
        thread_pool_destroy(pool);
    }
    free(memory);
    return differing;
}

T_CS const char *t_cs_intcomp_u32(uint32_t *values, uint64_t capacity, const uint8_t *data, size_t size, uint64_t *count,
                                  uint64_t *bytes, size_t *place) {
    intcomp_column column = {0, 0};
    const char *problem = intcomp_read_u32(&column, values, capacity, data, size, place);
    *count = column.count;
    *bytes = column.bytes;
    return problem;
}

T_CS const char *t_cs_intcomp_u64(uint64_t *values, uint64_t capacity, const uint8_t *data, size_t size, uint64_t *count,
                                  uint64_t *bytes, size_t *place) {
    intcomp_column column = {0, 0};
    const char *problem = intcomp_read_u64(&column, values, capacity, data, size, place);
    *count = column.count;
    *bytes = column.bytes;
    return problem;
}

/* Reads words until the bytes end or one is refused; the number read, and in *used the bytes they took. */
T_CS uint64_t t_cs_leb128(uint32_t *values, uint64_t capacity, const uint8_t *data, size_t size, uint64_t *used) {
    leb128_words from = {data, data + size, 0};
    while (from.taken < capacity && leb128_read(&from, &values[from.taken])) {
    }
    *used = (uint64_t)(from.next - data);
    return from.taken;
}
