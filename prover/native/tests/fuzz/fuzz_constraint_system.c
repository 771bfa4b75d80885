/* fuzz_constraint_system.c - arbitrary bytes as a constraint system, and arbitrary inputs to what was accepted.
 *
 * Byte 0: odd for gnark 0.14, even for 0.8. The rest is the constraint system. What the reader accepts must hold
 * together (program, slices, components) and be solvable without a memory error; whether the constraints hold
 * does not matter here.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/backend.h"
#include "r1cs/shorten.h"
#include "gnark/reader.h"
#include "key/key.h"

/* Larger systems would only make the runs slow. */
#define MOST_SOLVED_VALUES 4096

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(int condition, const char *what) {
    if (condition) return;
    fprintf(stderr, "broken promise: %s\n", what);
    abort();
}

static void check_error(g16_status status, const g16_error *error, size_t size) {
    require(status == G16_MALFORMED_KEY || status == G16_UNSUPPORTED_KEY || status == G16_OUT_OF_MEMORY, "status of a refusal");
    require(memchr(error->message, 0, sizeof error->message) != NULL && error->message[0], "a message");
    require(strchr(error->message, '\n') == NULL, "a message of one line");
    require(status == G16_OUT_OF_MEMORY || (error->offset >= 1000 && error->offset <= 1000 + size),
            "the offset is in the section");
}

static void check_program(const constraint_system *cs) {
    uint8_t *seen = calloc((size_t)cs->constraints + cs->hints_count, 1);
    require(seen != NULL, "memory");
    require(cs->instructions_count == cs->constraints + cs->hints_count, "the program has all instructions");
    for (uint32_t i = 0; i < cs->instructions_count; i++) {
        uint32_t instruction = cs->program[i];
        int is_hint = (instruction & CS_IS_HINT) != 0;
        uint32_t number = instruction & ~CS_IS_HINT;
        require(number < (is_hint ? cs->hints_count : cs->constraints), "instruction numbers");
        uint8_t *mark = &seen[is_hint ? cs->constraints + number : number];
        require(!*mark, "each instruction once");
        *mark = 1;
        require(is_hint || (cs->rows[number].solves == CS_SOLVES_NOTHING) == (i >= cs->checks_start), "checks come last");
    }
    free(seen);
    uint32_t end = cs->slices ? cs->component_start[cs->slice_start[cs->slices]] : 0;
    require(end == cs->checks_start, "components cover the solving part");
    require(!cs->slices || cs->slice_start[cs->slices] == cs->components, "slices cover the components");
}

static int is_sum(const constraint_system *cs, const fr *wires, uint32_t expression, const fr *value) {
    fr sum = FR_ZERO, term;
    for (uint32_t t = cs->expression_start[expression]; t < cs->expression_start[expression + 1]; t++) {
        fr_mul(&term, &cs->coefficients[cs->terms[t].coefficient], &wires[cs->terms[t].wire]);
        fr_add(&sum, &sum, &term);
    }
    return fr_equal(&sum, value);
}

static void solve(const constraint_system *cs, const uint8_t *data, size_t size) {
    size_t count = (size_t)cs->public_wires - 1 + cs->secret_wires;
    size_t values = cs->wires + 3 * (size_t)cs->constraints;
    if (values > MOST_SOLVED_VALUES) return;
    uint8_t *inputs = calloc(count + 1, 32);
    fr *memory = malloc(values * sizeof *memory);
    thread_pool *pool = NULL;
    require(inputs && memory && thread_pool_create(&pool, 1) == G16_OK, "memory");
    for (size_t i = 0; i < count; i++) inputs[32 * i + 31] = size ? data[i % size] : 0;
    fr *a = memory + cs->wires, *b = a + cs->constraints, *c = b + cs->constraints;
    g16_error error;
    g16_status status = g16_backend_portable.solve(cs, pool, memory, a, b, c, inputs, count, NULL, &error);
    require(status == G16_OK || status == G16_UNSATISFIED_CONSTRAINT, "solving ends well or names a constraint");
    require(status == G16_OK || error.constraint < cs->constraints, "the constraint exists");
    if (status == G16_OK) { /* a * b = c on every row */
        for (uint32_t i = 0; i < cs->constraints; i++) {
            fr product;
            fr_mul(&product, &a[i], &b[i]);
            require(fr_equal(&product, &c[i]), "a satisfied row");
            require(is_sum(cs, memory, cs->rows[i].left, &a[i]), "a is the sum of the file's terms");
            require(is_sum(cs, memory, cs->rows[i].right, &b[i]), "b is the sum of the file's terms");
            require(is_sum(cs, memory, cs->rows[i].out, &c[i]), "c is the sum of the file's terms");
        }
    }
    thread_pool_destroy(pool);
    free(memory);
    free(inputs);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size == 0) return 0;
    g16_format_version format_version = data[0] & 1 ? G16_FORMAT_0_14 : G16_FORMAT_0_8;
    uint8_t *copy = malloc(size > 1 ? size - 1 : 1); /* exact size, so that a read past the end shows */
    if (!copy) return 0;
    memcpy(copy, data + 1, size - 1);
    constraint_system cs;
    g16_error error;
    memset(&error, 0, sizeof error);
    g16_status status = constraint_system_read(&cs, copy, size - 1, 1000, format_version, NULL, &error);
    if (status == G16_OK) {
        check_program(&cs);
        require(constraint_system_shorten(&cs, NULL, &error) == G16_OK, "memory");
        solve(&cs, copy, size - 1);
        constraint_system_free(&cs);
    } else {
        check_error(status, &error, size - 1);
    }
    free(copy);
    return 0;
}
