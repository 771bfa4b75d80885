/* gpu/programs.c - encodes chains as code of gpu/abi.h, and merges those that differ only in the numbers of wires and rows.
 *
 * Code refers to values by their slot in the chain's ring, so it repeats from chain to chain. Values outside the ring have
 * numbers: wires of the inputs, wires and rows of the chain. The numbers of two chains of a shape differ by a few shifts (one for
 * internal wires, one for rows, one for each list of inputs). Which numbers share a shift is found by refinement: at first all
 * do; when a chain contradicts that, the numbers that differ get their own shift. So every number of every chain is compared.
 */
#include <stdlib.h>
#include <string.h>

#include "gpu/programs.h"
#include "base/xxh64.h"

#define RING DEVICE_ABI_RING

_Static_assert(DEVICE_ABI_SHIFTS <= 256, "trial holds bytes");

/* ---- writing ---------------------------------------------------------------------------------- */

static int grow(void **array, uint64_t *room, uint64_t needed, size_t size) {
    if (needed <= *room) return 1;
    const uint64_t wanted = needed + *room / 2 + 1024;
    void *memory = realloc(*array, wanted * size);
    if (!memory) return 0;
    *array = memory;
    *room = wanted;
    return 1;
}

/* Reserves memory for this many words of code and numbers. */
static int reserve(cs_programs *p, uint64_t words) {
    void *code = p->code, *numbers = p->numbers;
    const int done = grow(&code, &p->code_room, p->code_count + words, sizeof *p->code) &&
                     grow(&numbers, &p->numbers_room, p->numbers_count + words, sizeof *p->numbers);
    p->code = code;
    p->numbers = numbers;
    return done;
}

static void put_word(cs_programs *p, uint32_t word) { p->code[p->code_count++] = word; }
static void put_number(cs_programs *p, uint32_t number) { p->numbers[p->numbers_count++] = number; }

/* Returns 1 when the value produced at `time` belongs to this chain and stays in the ring while a row computes its sums, up to
 * three. */
static int in_ring(const cs_programs *p, uint32_t time) { return time > p->begun && p->now - time < RING - 3; }

static uint32_t slot_of(const cs_programs *p, uint32_t time) { return (time - p->begun - 1) % RING; }

/* ---- sources ---------------------------------------------------------------------------------- */

/* The location of an operand; `number` is used unless the source is a slot. */
typedef struct source {
    uint32_t from, number;
} source;

static void put_source_number(cs_programs *p, source s) {
    if (s.from >= DEVICE_ABI_FROM_WIRE && s.from <= DEVICE_ABI_FROM_B) put_number(p, s.number);
}

/* Locates a wire, or a left side that was stored. */
static source operand_source(const cs_programs *p, uint32_t wire) {
    const constraint_system *cs = p->cs;
    if (wire < cs->wires) {
        const uint32_t time = p->wire_time[wire];
        if (in_ring(p, time)) return (source){slot_of(p, time), 0};
        return (source){DEVICE_ABI_FROM_WIRE, wire};
    }
    const uint32_t row = wire - cs->wires, time = p->expression_time[cs->rows[row].left];
    if (in_ring(p, time)) return (source){slot_of(p, time), 0};
    return (source){DEVICE_ABI_FROM_A, row};
}

/* Emits the sum of an expression's terms, except the one of wire `without`; returns its slot. */
static source put_sum(cs_programs *p, uint32_t expression, uint32_t without) {
    const cs_short_forms *forms = &p->cs->short_forms;
    const cs_span span = forms->spans[expression];
    const uint64_t head = p->code_count;
    uint32_t count = 0;
    put_word(p, 0);
    for (uint32_t t = span.start; t < span.end; t++) {
        const cs_term term = forms->terms[t];
        if (term.wire == without || term.coefficient == 0) continue;
        const source from = term.wire == 0 ? (source){DEVICE_ABI_FROM_ONE, 0} : operand_source(p, term.wire);
        put_word(p, term.coefficient | from.from << DEVICE_ABI_COEFFICIENT_BITS);
        put_source_number(p, from);
        p->products += term.coefficient >= 5 && term.wire != 0;
        count++;
    }
    p->code[head] = DEVICE_ABI_SUM | count << 8;
    p->now++;
    return (source){slot_of(p, p->now), 0};
}

static source expression_source(cs_programs *p, uint32_t expression) {
    const cs_short_forms *forms = &p->cs->short_forms;
    const cs_span span = forms->spans[expression];
    if (span.end - span.start == 1 && forms->terms[span.start].coefficient == 1) {
        return operand_source(p, forms->terms[span.start].wire);
    }
    const uint32_t time = p->expression_time[expression];
    if (in_ring(p, time)) return (source){slot_of(p, time), 0};
    if (p->stored_time[expression] > p->begun) {
        const uint32_t side = p->stored_side[expression];
        return (source){side & 1 ? DEVICE_ABI_FROM_B : DEVICE_ABI_FROM_A, side / 2};
    }
    const source sum = put_sum(p, expression, UINT32_MAX);
    p->expression_time[expression] = p->now;
    return sum;
}

/* ---- rows ------------------------------------------------------------------------------------- */

static uint64_t most_words(const cs_programs *p, const cs_row *row) {
    const cs_span *spans = p->cs->short_forms.spans;
    const uint32_t sides[3] = {row->left, row->right, row->out};
    uint64_t words = 16;
    for (int i = 0; i < 3; i++) words += spans[sides[i]].end - spans[sides[i]].start;
    return words;
}

static void note_stored(cs_programs *p, uint32_t expression, uint32_t side) {
    p->stored_time[expression] = p->now;
    p->stored_side[expression] = side;
}

static int put_row(cs_programs *p, uint32_t number) {
    const constraint_system *cs = p->cs;
    const cs_row *row = &cs->rows[number];
    const cs_span out = cs->short_forms.spans[row->out];
    const uint64_t words = most_words(p, row);
    if (words >= DEVICE_ABI_SUM_TERMS) {
        p->refused = "a row has too many terms";
        return 0;
    }
    if (!reserve(p, words)) return 0;
    const source left = expression_source(p, row->left);
    const source right = row->right == row->left ? (source){DEVICE_ABI_FROM_LEFT, 0} : expression_source(p, row->right);
    const source rest = out.end - out.start > 1 ? put_sum(p, row->out, row->solved_wire) : (source){DEVICE_ABI_FROM_NONE, 0};
    const uint32_t operation = row->solved_coefficient == 3 ? DEVICE_ABI_ROW_NEGATED : DEVICE_ABI_ROW;
    put_word(p, operation | left.from << 8 | right.from << 16 | rest.from << 24);
    put_source_number(p, left);
    put_source_number(p, right);
    put_number(p, number);
    put_number(p, row->solved_wire);
    p->products++;
    p->now++;
    p->wire_time[row->solved_wire] = p->now;
    note_stored(p, row->left, 2 * number);
    if (row->right != row->left) note_stored(p, row->right, 2 * number + 1);
    return 1;
}

/* ---- shapes ----------------------------------------------------------------------------------- */

/* Adds the chain to the shape if its numbers differ by few shifts. Returns -1 when out of memory. */
static int join_shape(cs_programs *p, cs_shape *shape) {
    uint32_t shift[DEVICE_ABI_SHIFTS] = {0}, parent[DEVICE_ABI_SHIFTS] = {0}, shifts = shape->shifts;
    uint8_t seen[DEVICE_ABI_SHIFTS] = {0};
    void *trial = p->trial, *list = shape->shift_of;
    uint64_t room = shape->chains_room;
    if (!grow(&trial, &p->trial_room, shape->places_count, sizeof *p->trial)) return -1;
    p->trial = trial;
    if (!grow(&list, &room, (uint64_t)shape->chains + 1, sizeof *shape->shift_of)) return -1;
    shape->shift_of = list;
    shape->chains_room = (uint32_t)room;
    for (uint32_t i = 0; i < shape->places_count; i++) {
        const uint32_t known = shape->places[i].shift, by = p->numbers[i] - shape->places[i].number;
        uint32_t taken = known;
        if (!seen[known]) {
            seen[known] = 1;
            shift[known] = by;
        } else if (shift[known] != by) {
            taken = shape->shifts;
            while (taken < shifts && (parent[taken] != known || shift[taken] != by)) taken++;
            if (taken == DEVICE_ABI_SHIFTS) return 0;
            if (taken == shifts) {
                parent[taken] = known;
                shift[taken] = by;
                shifts++;
            }
        }
        p->trial[i] = (uint8_t)taken;
    }
    for (uint32_t i = 0; i < shape->places_count; i++) shape->places[i].shift = p->trial[i];
    for (uint32_t s = shape->shifts; s < shifts; s++) {
        for (uint32_t c = 0; c < shape->chains; c++) shape->shift_of[c][s] = shape->shift_of[c][parent[s]];
    }
    shape->shifts = shifts;
    memcpy(shape->shift_of[shape->chains++], shift, shifts * sizeof *shift);
    return 1;
}

/* Creates a shape from the current chain. */
static int new_shape(cs_programs *p, uint64_t hash) {
    if (p->shapes_count == CS_SHAPES) {
        p->refused = "the circuit has too many chains of different shape";
        return 0;
    }
    cs_shape *shape = &p->shapes[p->shapes_count++];
    shape->hash = hash;
    shape->products = p->products;
    shape->code_count = (uint32_t)p->code_count;
    shape->places_count = (uint32_t)p->numbers_count;
    shape->code = malloc(p->code_count * sizeof *shape->code);
    shape->places = calloc(p->numbers_count, sizeof *shape->places);
    if (!shape->code || !shape->places) return 0;
    memcpy(shape->code, p->code, p->code_count * sizeof *shape->code);
    for (uint32_t i = 0; i < shape->places_count; i++) shape->places[i].number = p->numbers[i];
    shape->shifts = 1;
    return join_shape(p, shape) == 1;
}

static int add_to_shape(cs_programs *p) {
    const uint64_t hash = xxh64(p->code, p->code_count * sizeof *p->code);
    for (uint32_t i = 0; i < p->shapes_count; i++) {
        cs_shape *shape = &p->shapes[i];
        if (shape->hash != hash || shape->code_count != p->code_count || shape->places_count != p->numbers_count ||
            memcmp(shape->code, p->code, p->code_count * sizeof *p->code) != 0) {
            continue;
        }
        const int joined = join_shape(p, shape);
        if (joined) return joined > 0;
    }
    return new_shape(p, hash);
}

/* ---- the whole -------------------------------------------------------------------------------- */

int cs_programs_open(cs_programs *p, const constraint_system *cs) {
    memset(p, 0, sizeof *p);
    p->cs = cs;
    if (cs->short_forms.coefficients_count >> DEVICE_ABI_COEFFICIENT_BITS) {
        p->refused = "the circuit has too many coefficients";
        return 0;
    }
    p->wire_time = calloc((size_t)cs->wires + 1, sizeof *p->wire_time);
    p->expression_time = calloc((size_t)cs->expressions + 1, sizeof *p->expression_time);
    p->stored_time = calloc((size_t)cs->expressions + 1, sizeof *p->stored_time);
    p->stored_side = malloc(((size_t)cs->expressions + 1) * sizeof *p->stored_side);
    return p->wire_time && p->expression_time && p->stored_time && p->stored_side;
}

int cs_programs_add(cs_programs *p, const uint32_t *instructions, uint32_t count) {
    p->code_count = p->numbers_count = p->products = 0;
    p->begun = p->now;
    for (uint32_t i = 0; i < count; i++) {
        if (!put_row(p, instructions[i])) return 0;
        if (p->code_count > UINT32_MAX / 2 || p->now > UINT32_MAX - 8) {
            p->refused = "the circuit has too many rows for 32 bits";
            return 0;
        }
    }
    return add_to_shape(p);
}

void cs_programs_close(cs_programs *p) {
    for (uint32_t i = 0; i < p->shapes_count; i++) {
        free(p->shapes[i].code);
        free(p->shapes[i].places);
        free(p->shapes[i].shift_of);
    }
    free(p->code);
    free(p->numbers);
    free(p->trial);
    free(p->wire_time);
    free(p->expression_time);
    free(p->stored_time);
    free(p->stored_side);
}
