/* r1cs/shorten.c - writes the short forms of all expressions in the order in which the solver evaluates them. r1cs/shapes.h finds
 * them. */
#include "r1cs/shorten.h"

#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "base/thread_pool.h"
#include "r1cs/shapes.h"

/* In first_component: several components of one slice evaluate the expression. */
#define SEVERAL 0xfffffffeu
#define POLL_EVERY 65536

/* ---- forms ------------------------------------------------------------------------------------ */

static void put_term(cs_short_forms *forms, uint32_t coefficient, uint32_t wire) {
    forms->terms[forms->terms_count++] = (cs_term){coefficient, wire};
}

/* Writes the short form of an expression that has none yet. */
static void put_expression(shortener *s, uint32_t expression) {
    const constraint_system *cs = s->cs;
    cs_short_forms *forms = s->forms;
    cs_span *span = &forms->spans[expression];
    if (span->end != span->start || shortener_length(cs, expression) == 0) return;
    span->start = (uint32_t)forms->terms_count;
    const shortener_shape *found = NULL;
    if (s->bases_count && shortener_length(cs, expression) >= LONG_EXPRESSION && s->first_component[expression] != SEVERAL) {
        found = shortener_find_shape(s, expression);
    }
    if (found) {
        for (uint32_t i = 0; i < found->bases; i++) put_term(forms, found->factor[i], cs->wires + s->bases[i].row);
        for (uint32_t i = 0; i < found->rest_count; i++) {
            put_term(forms, found->rest[i].coefficient, s->current.wires[found->rest[i].column]);
        }
    } else {
        for (uint32_t t = cs->expression_start[expression]; t < cs->expression_start[expression + 1]; t++) {
            put_term(forms, shortener_number(s, cs->terms[t].coefficient), cs->terms[t].wire);
        }
    }
    span->end = (uint32_t)forms->terms_count;
}

/* Makes the left side of a row the latest base. */
static void add_base(shortener *s, uint32_t row) {
    const uint32_t expression = s->cs->rows[row].left;
    if (shortener_length(s->cs, expression) < LONG_BASE) return;
    for (uint32_t i = 0; i < s->bases_count; i++) {
        if (s->bases[i].expression == expression) return;
    }
    if (s->bases_count < SHORTENER_BASES) s->bases_count++;
    for (uint32_t i = s->bases_count - 1; i > 0; i--) s->bases[i] = s->bases[i - 1];
    s->bases[0] = (shortener_base){expression, row};
}

static void put_instruction(shortener *s, uint32_t instruction) {
    const constraint_system *cs = s->cs;
    if (instruction & CS_IS_HINT) {
        put_expression(s, cs->hints[instruction & ~CS_IS_HINT].input);
        return;
    }
    const cs_row *row = &cs->rows[instruction];
    put_expression(s, row->left);
    put_expression(s, row->right);
    put_expression(s, row->out);
    add_base(s, instruction);
}

/* A base must have its value whenever the expression is evaluated, that is, be evaluated earlier in the same component or in an
 * earlier slice. So an expression that two components of one slice evaluate is not shortened. */
static void note_component(shortener *s, uint32_t expression, uint32_t component, uint32_t slice_start) {
    uint32_t *first = &s->first_component[expression];
    if (*first == SHORTENER_NONE) {
        *first = component;
    } else if (*first != SEVERAL && *first != component && *first >= slice_start) {
        *first = SEVERAL;
    }
}

static void note_components(shortener *s) {
    const constraint_system *cs = s->cs;
    for (uint32_t slice = 0; slice < cs->slices; slice++) {
        const uint32_t start = cs->slice_start[slice];
        for (uint32_t c = start; c < cs->slice_start[slice + 1]; c++) {
            for (uint32_t i = cs->component_start[c]; i < cs->component_start[c + 1]; i++) {
                const uint32_t instruction = cs->program[i];
                if (instruction & CS_IS_HINT) {
                    note_component(s, cs->hints[instruction & ~CS_IS_HINT].input, c, start);
                } else {
                    note_component(s, cs->rows[instruction].left, c, start);
                    note_component(s, cs->rows[instruction].right, c, start);
                    note_component(s, cs->rows[instruction].out, c, start);
                }
            }
        }
    }
}

/* Proceeds in the order of evaluation, so that the solver reads the terms sequentially. Returns 0 when the flag was set. */
static int put_program(shortener *s, const g16_cancel *cancel) {
    const constraint_system *cs = s->cs;
    uint32_t component = 0;
    for (uint32_t i = 0; i < cs->instructions_count; i++) {
        if (i % POLL_EVERY == 0 && g16_is_cancelled(cancel)) return 0;
        while (component < cs->components && i >= cs->component_start[component]) {
            component++;
            s->bases_count = 0;
        }
        if (i == cs->checks_start) s->bases_count = 0;
        put_instruction(s, cs->program[i]);
        if (i >= cs->checks_start) s->bases_count = 0; /* checks run in any order */
    }
    return 1;
}

/* ---- the whole -------------------------------------------------------------------------------- */

static void shrink(cs_short_forms *forms) {
    void *terms = realloc(forms->terms, (forms->terms_count + 1) * sizeof *forms->terms);
    if (terms) forms->terms = terms;
    void *coefficients = realloc(forms->coefficients, forms->coefficients_count * sizeof *forms->coefficients);
    if (coefficients) forms->coefficients = coefficients;
}

static int allocate(shortener *s) {
    const constraint_system *cs = s->cs;
    cs_short_forms *forms = s->forms;
    /* Each shape adds at most the factors and the rest of one short form. */
    const size_t most = (size_t)cs->coefficients_count + SHORTENER_SHAPES * (SHORTENER_BASES + SHORTENER_REST);
    if (most > UINT32_MAX / 2) return 0; /* the numbers of slots have 32 bits */
    s->coefficient_mask = 1;
    while (s->coefficient_mask < 2 * most) s->coefficient_mask = 2 * s->coefficient_mask + 1;
    s->first_component = malloc(((size_t)cs->expressions + 1) * sizeof *s->first_component);
    s->coefficient_number = malloc((size_t)cs->coefficients_count * sizeof *s->coefficient_number);
    s->coefficient_slots = calloc((size_t)s->coefficient_mask + 1, sizeof *s->coefficient_slots);
    s->shapes = calloc(SHORTENER_SHAPES, sizeof *s->shapes);
    forms->coefficients = malloc(most * sizeof *forms->coefficients);
    forms->terms = malloc((cs->terms_count + 1) * sizeof *forms->terms);
    forms->spans = calloc((size_t)cs->expressions + 1, sizeof *forms->spans);
    if (!s->first_component || !s->coefficient_number || !s->coefficient_slots || !s->shapes || !forms->coefficients ||
        !forms->terms || !forms->spans) {
        return 0;
    }
    memset(s->first_component, 0xff, ((size_t)cs->expressions + 1) * sizeof *s->first_component);     /* SHORTENER_NONE */
    memset(s->coefficient_number, 0xff, (size_t)cs->coefficients_count * sizeof *s->coefficient_number); /* SHORTENER_NONE */
    return 1;
}

g16_status constraint_system_shorten(constraint_system *cs, const g16_cancel *cancel, g16_error *error) {
    g16_status status = G16_OUT_OF_MEMORY;
    shortener *s = calloc(1, sizeof *s);
    if (s) {
        s->cs = cs;
        s->forms = &cs->short_forms;
        s->last_shape = SHORTENER_NONE;
        if (allocate(s)) {
            for (uint32_t i = 0; i < 5; i++) shortener_number(s, i); /* 0, 1, 2, -1, -2 keep their numbers */
            note_components(s);
            status = put_program(s, cancel) ? G16_OK : G16_CANCELLED;
            shrink(s->forms);
        }
        for (uint32_t i = 0; i < s->shapes_count; i++) free(s->shapes[i].columns);
        free(s->first_component);
        free(s->coefficient_number);
        free(s->coefficient_slots);
        free(s->shapes);
    }
    free(s);
    if (status == G16_OK) return status;
    cs_short_forms_free(&cs->short_forms);
    return g16_fail(error, status, 0, status == G16_CANCELLED ? "cancelled while loading a key"
                                                             : "no memory for the forms of expressions that the solver uses");
}
