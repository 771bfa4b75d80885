/* r1cs/shapes.c - finds the short form of an expression, or recognises a shape that was seen before. */
#include <stdlib.h>
#include <string.h>

#include "r1cs/shapes.h"
#include "base/xxh64.h"

/* ---- coefficients ----------------------------------------------------------------------------- */

/* Returns the number of a value in the new table, which has room for it. */
static uint32_t number_value(shortener *s, const fr *value) {
    cs_short_forms *forms = s->forms;
    uint32_t slot = (uint32_t)xxh64(value, sizeof *value) & s->coefficient_mask;
    while (s->coefficient_slots[slot]) {
        uint32_t number = s->coefficient_slots[slot] - 1;
        if (fr_equal(&forms->coefficients[number], value)) return number;
        slot = (slot + 1) & s->coefficient_mask;
    }
    forms->coefficients[forms->coefficients_count++] = *value;
    s->coefficient_slots[slot] = forms->coefficients_count;
    return forms->coefficients_count - 1;
}

uint32_t shortener_number(shortener *s, uint32_t old) {
    if (s->coefficient_number[old] == SHORTENER_NONE) s->coefficient_number[old] = number_value(s, &s->cs->coefficients[old]);
    return s->coefficient_number[old];
}

static fr value_of(const shortener *s, uint32_t coefficient) {
    return coefficient == SHORTENER_NONE ? FR_ZERO : s->cs->coefficients[coefficient];
}

/* ---- columns ----------------------------------------------------------------------------------- */

/* Merges the terms of an expression and of the bases by wire. Returns 0 when wires do not ascend or there are too many. */
static int merge_columns(shortener *s, uint32_t expression) {
    const constraint_system *cs = s->cs;
    shortener_columns *p = &s->current;
    const cs_term *at[1 + SHORTENER_BASES], *end[1 + SHORTENER_BASES];
    const uint32_t lists = 1 + s->bases_count;
    for (uint32_t l = 0; l < lists; l++) {
        uint32_t number = l ? s->bases[l - 1].expression : expression;
        at[l] = cs->terms + cs->expression_start[number];
        end[l] = cs->terms + cs->expression_start[number + 1];
    }
    p->count = 0;
    uint64_t next = 0; /* smaller wires have been processed */
    for (;;) {
        uint64_t wire = UINT64_MAX;
        for (uint32_t l = 0; l < lists; l++) {
            if (at[l] < end[l] && at[l]->wire < wire) wire = at[l]->wire;
        }
        if (wire == UINT64_MAX) break;
        if (wire < next || p->count == SHORTENER_COLUMNS) return 0;
        next = wire + 1;
        shortener_column c;
        for (uint32_t l = 0; l <= SHORTENER_BASES; l++) {
            c.in[l] = l < lists && at[l] < end[l] && at[l]->wire == wire ? at[l]++->coefficient : SHORTENER_NONE;
        }
        p->wires[p->count] = (uint32_t)wire;
        p->columns[p->count++] = c;
    }
    return 1;
}

/* ---- shapes ----------------------------------------------------------------------------------- */

/* Solves sum x_i F_i = E for the factors x on the coefficients of as many wires as there are bases, the oldest that determine x.
 * Returns 0 when none do. */
static int find_factors(const shortener *s, fr *x, uint32_t bases) {
    const shortener_columns *p = &s->current;
    fr system[SHORTENER_BASES][SHORTENER_BASES + 1], t; /* rows are in reduced echelon form, with pivots in columns `lead` */
    uint32_t lead[SHORTENER_BASES], found = 0;
    for (uint32_t c = p->wires[0] == 0; c < p->count && found < bases; c++) { /* constants follow no rule */
        fr row[SHORTENER_BASES + 1], inverse;
        uint32_t l = 0;
        for (uint32_t j = 0; j < bases; j++) row[j] = value_of(s, p->columns[c].in[1 + j]);
        row[bases] = value_of(s, p->columns[c].in[0]);
        for (uint32_t i = 0; i < found; i++) {
            const fr factor = row[lead[i]];
            for (uint32_t j = 0; j <= bases; j++) {
                fr_mul(&t, &factor, &system[i][j]);
                fr_sub(&row[j], &row[j], &t);
            }
        }
        while (l < bases && fr_is_zero(&row[l])) l++;
        if (l == bases) continue;
        fr_inv(&inverse, &row[l]);
        for (uint32_t j = 0; j <= bases; j++) fr_mul(&system[found][j], &row[j], &inverse);
        for (uint32_t i = 0; i < found; i++) {
            const fr factor = system[i][l];
            for (uint32_t j = 0; j <= bases; j++) {
                fr_mul(&t, &factor, &system[found][j]);
                fr_sub(&system[i][j], &system[i][j], &t);
            }
        }
        lead[found++] = l;
    }
    if (found < bases) return 0;
    for (uint32_t i = 0; i < bases; i++) x[lead[i]] = system[i][bases];
    return 1;
}

/* Computes rest = E - sum x_i F_i by columns. Returns its number of terms, or SHORTENER_REST + 1 for more. */
static uint32_t find_rest(const shortener *s, const fr *x, uint32_t bases, uint32_t columns[SHORTENER_REST],
                          fr rest[SHORTENER_REST]) {
    const shortener_columns *p = &s->current;
    uint32_t count = 0;
    for (uint32_t c = 0; c < p->count; c++) {
        fr left = value_of(s, p->columns[c].in[0]), t;
        for (uint32_t j = 0; j < bases; j++) {
            const fr coefficient = value_of(s, p->columns[c].in[1 + j]);
            fr_mul(&t, &x[j], &coefficient);
            fr_sub(&left, &left, &t);
        }
        if (fr_is_zero(&left)) continue;
        if (count == SHORTENER_REST) return SHORTENER_REST + 1;
        columns[count] = c;
        rest[count++] = left;
    }
    return count;
}

/* Accepts these factors if the short form has at most `most` terms. */
static int take_factors(shortener *s, shortener_shape *out, const fr *x, uint32_t bases, uint32_t most) {
    fr rest[SHORTENER_REST];
    uint32_t columns[SHORTENER_REST];
    const uint32_t count = find_rest(s, x, bases, columns, rest);
    if (count > SHORTENER_REST || bases + count > most) return 0;
    out->bases = out->bases_seen = bases; /* further bases need not be compared the next time */
    out->rest_count = count;
    for (uint32_t i = 0; i < bases; i++) out->factor[i] = number_value(s, &x[i]);
    for (uint32_t i = 0; i < count; i++) out->rest[i] = (struct shortener_rest){columns[i], number_value(s, &rest[i])};
    return 1;
}

/* Finds the short form of an expression of `length` terms: with the factors of the previous expression, which the next round of a
 * permutation shares, or with the fewest bases for which one exists. */
static void solve_shape(shortener *s, shortener_shape *out, uint32_t length) {
    const uint32_t most = length - length / 4;
    fr x[SHORTENER_BASES];
    const shortener_shape *last = s->last_shape == SHORTENER_NONE ? NULL : &s->shapes[s->last_shape];
    if (last && last->bases && last->bases <= s->bases_count) {
        for (uint32_t i = 0; i < last->bases; i++) x[i] = s->forms->coefficients[last->factor[i]];
        if (take_factors(s, out, x, last->bases, most)) return;
    }
    for (uint32_t bases = 1; bases <= s->bases_count; bases++) {
        if (find_factors(s, x, bases) && take_factors(s, out, x, bases, most)) return;
    }
}

/* Records how many columns each list has, and whether they are the first ones. */
static void measure(shortener_shape *made) {
    made->nested = 1;
    for (uint32_t l = 0; l <= made->bases_seen; l++) {
        made->lengths[l] = 0;
        for (uint32_t c = 0; c < made->count; c++) {
            if (made->columns[c].in[l] == SHORTENER_NONE) continue;
            made->nested &= c == made->lengths[l];
            made->lengths[l]++;
        }
    }
    made->nested &= made->lengths[0] == made->count;
}

/* fits() for nested shapes, in loops without branches. */
static int fits_nested(shortener *s, uint32_t expression, const shortener_shape *known) {
    const constraint_system *cs = s->cs;
    const cs_term *terms = cs->terms + cs->expression_start[expression];
    uint32_t wrong = 0;
    for (uint32_t l = 0; l <= known->bases_seen; l++) {
        const uint32_t number = l ? s->bases[l - 1].expression : expression, length = known->lengths[l];
        const cs_term *list = cs->terms + cs->expression_start[number];
        if (shortener_length(cs, number) != length) return 0;
        for (uint32_t c = 0; c < length; c++) {
            wrong |= (list[c].coefficient ^ known->columns[c].in[l]) | (list[c].wire ^ terms[c].wire);
        }
    }
    for (uint32_t c = 1; c < known->count; c++) wrong |= terms[c - 1].wire >= terms[c].wire;
    for (uint32_t i = 0; i < known->rest_count; i++) {
        s->current.wires[known->rest[i].column] = terms[known->rest[i].column].wire;
    }
    return wrong == 0;
}

/* Returns 1 and records the wires when an expression and the bases before it have exactly the columns of a shape. */
static int fits(shortener *s, uint32_t expression, const shortener_shape *known) {
    const constraint_system *cs = s->cs;
    const cs_term *at[1 + SHORTENER_BASES], *end[1 + SHORTENER_BASES];
    const uint32_t lists = 1 + known->bases_seen;
    if (known->bases_seen > s->bases_count) return 0;
    if (known->nested) return fits_nested(s, expression, known);
    for (uint32_t l = 0; l < lists; l++) {
        uint32_t number = l ? s->bases[l - 1].expression : expression;
        at[l] = cs->terms + cs->expression_start[number];
        end[l] = cs->terms + cs->expression_start[number + 1];
    }
    uint64_t next = 0; /* smaller wires have been processed */
    for (uint32_t c = 0; c < known->count; c++) {
        const uint32_t *coefficients = known->columns[c].in;
        uint64_t wire = UINT64_MAX;
        for (uint32_t l = 0; l < lists; l++) {
            if (coefficients[l] == SHORTENER_NONE) continue;
            if (at[l] == end[l] || at[l]->coefficient != coefficients[l]) return 0;
            if (wire != UINT64_MAX && at[l]->wire != wire) return 0;
            wire = at[l]++->wire;
        }
        if (wire == UINT64_MAX) continue; /* a column of a base that the short form does not use */
        if (wire < next) return 0;
        next = wire + 1;
        s->current.wires[c] = (uint32_t)wire;
    }
    for (uint32_t l = 0; l < lists; l++) {
        if (at[l] != end[l]) return 0;
    }
    return 1;
}

static uint64_t hash_coefficients(const constraint_system *cs, uint32_t expression) {
    uint32_t numbers[SHORTENER_COLUMNS], count = 0;
    const uint32_t end = cs->expression_start[expression + 1];
    for (uint32_t t = cs->expression_start[expression]; t < end && count < SHORTENER_COLUMNS; t++) {
        numbers[count++] = cs->terms[t].coefficient;
    }
    return xxh64(numbers, count * sizeof *numbers);
}

static uint32_t find_known_shape(shortener *s, uint32_t expression, uint64_t hash, uint32_t *slot) {
    for (*slot = (uint32_t)hash & (SHORTENER_SLOTS - 1); s->shape_slots[*slot]; *slot = (*slot + 1) & (SHORTENER_SLOTS - 1)) {
        const uint32_t number = s->shape_slots[*slot] - 1;
        if (s->shapes[number].hash == hash && fits(s, expression, &s->shapes[number])) return number;
    }
    return SHORTENER_NONE;
}

/* Returns SHORTENER_NONE when the table is full or the terms are not in order. */
static uint32_t make_shape(shortener *s, uint32_t expression, uint64_t hash, uint32_t slot) {
    if (s->shapes_count == SHORTENER_SHAPES || !merge_columns(s, expression)) return SHORTENER_NONE;
    shortener_shape *made = &s->shapes[s->shapes_count];
    const size_t bytes = s->current.count * sizeof *made->columns;
    made->columns = malloc(bytes);
    if (!made->columns) return SHORTENER_NONE;
    memcpy(made->columns, s->current.columns, bytes);
    made->hash = hash;
    made->bases_seen = s->bases_count;
    made->count = s->current.count;
    made->next = SHORTENER_NONE;
    solve_shape(s, made, shortener_length(s->cs, expression));
    measure(made);
    s->shape_slots[slot] = ++s->shapes_count;
    return s->shapes_count - 1;
}

const shortener_shape *shortener_find_shape(shortener *s, uint32_t expression) {
    uint32_t *expected = s->last_shape == SHORTENER_NONE ? NULL : &s->shapes[s->last_shape].next;
    uint32_t number = expected ? *expected : SHORTENER_NONE;
    if (number == SHORTENER_NONE || !fits(s, expression, &s->shapes[number])) {
        uint32_t slot;
        const uint64_t hash = hash_coefficients(s->cs, expression);
        number = find_known_shape(s, expression, hash, &slot);
        if (number == SHORTENER_NONE) number = make_shape(s, expression, hash, slot);
        if (number == SHORTENER_NONE) return NULL;
        if (expected) *expected = number;
    }
    s->last_shape = number;
    return s->shapes[number].bases ? &s->shapes[number] : NULL;
}
