/* gnark/order.c - verifies that the instructions of a decoded system solve its witness.
 *
 * Processes the instructions once in their order of execution. Each row may contain at most one term whose wire has no value yet,
 * and the row solves that wire; the outputs of a hint must be new. Format version 0.8 does not state when hints run: there each
 * runs before the first row that reads one of its outputs.
 *
 * Computes the dependency level of each instruction: 0 when it reads inputs only, else one more than the highest level of the
 * instructions that solve the wires it reads.
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gnark/builder.h"
#include "gnark/steps.h"

/* solved_by, plus the hint's number, of a 0.8 hint that has not run yet. Below CS_INPUT. */
#define PENDING_HINT 0x80000000u

/* expression_level when some wires of the expression may have no value. */
#define UNREAD 0xffffffffu

typedef struct planner {
    cs_builder *builder;
    constraint_system *cs;
    uint32_t first_internal;
    uint32_t *solved_by;        /* [wires], the builder's */
    uint32_t *place_level;      /* [instructions], the builder's */
    uint32_t *expression_level; /* [expressions] minimum level of an instruction that reads it, or UNREAD */
    uint8_t *hint_seen;         /* [hints], 0.8 only */
    struct visit {
        uint32_t hint, next_term;
    } *visits; /* [hints], 0.8 only */
    uint64_t unsolved_wires;
} planner;

static int broken(planner *plan, const char *format, ...) __attribute__((format(printf, 2, 3)));

static int broken(planner *plan, const char *format, ...) {
    char message[192];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(message, sizeof message, format, arguments);
    va_end(arguments);
    return cbor_fail_at(&plan->builder->reader, G16_MALFORMED_KEY, plan->builder->rows_offset, "%s", message);
}

/* ---- ids -------------------------------------------------------------------------------------- */

/* Reports an invalid term with the first row or hint that uses its expression. */
static int fail_term(planner *plan, uint32_t expression, const cs_term *term) {
    const constraint_system *cs = plan->cs;
    const char *kind = "constraint";
    uint32_t number = 0;
    while (number < cs->constraints && cs->rows[number].left != expression && cs->rows[number].right != expression &&
           cs->rows[number].out != expression) {
        number++;
    }
    if (number == cs->constraints) {
        kind = "hint";
        number = 0;
        while (number < cs->hints_count && cs->hints[number].input != expression) number++;
    }
    if (term->wire >= cs->wires) {
        return broken(plan, "%s #%u: wire %u does not exist, there are %u", kind, number, term->wire, cs->wires);
    }
    return broken(plan, "%s #%u: coefficient %u does not exist, there are %u", kind, number, term->coefficient,
                  cs->coefficients_count);
}

static int check_ids(planner *plan) {
    const constraint_system *cs = plan->cs;
    for (uint32_t e = 0; e < cs->expressions; e++) {
        for (uint32_t t = cs->expression_start[e]; t < cs->expression_start[e + 1]; t++) {
            if (cs->terms[t].wire >= cs->wires || cs->terms[t].coefficient >= cs->coefficients_count) {
                return fail_term(plan, e, &cs->terms[t]);
            }
        }
    }
    for (uint32_t h = 0; h < cs->hints_count; h++) {
        const cs_hint *hint = &cs->hints[h];
        uint64_t end = (uint64_t)hint->first_output + hint->outputs;
        if (hint->first_output < plan->first_internal || end > cs->wires) {
            return broken(plan, "hint #%u: its outputs %u to %u are not internal wires", h, hint->first_output,
                          (uint32_t)(end - 1));
        }
    }
    return 1;
}

/* ---- execution -------------------------------------------------------------------------------- */

static int has_value(uint32_t solver) { return solver < PENDING_HINT || solver == CS_INPUT; }

typedef struct reading {
    uint32_t level;    /* 0 when only inputs are read */
    uint32_t unsolved; /* terms whose wires have no value */
    cs_term term;      /* the last of them */
} reading;

static reading read_terms(planner *plan, uint32_t expression) {
    const constraint_system *cs = plan->cs;
    reading result = {plan->expression_level[expression], 0, {0, 0}};
    if (result.level != UNREAD) return result;
    result.level = 0;
    for (uint32_t t = cs->expression_start[expression]; t < cs->expression_start[expression + 1]; t++) {
        uint32_t solver = plan->solved_by[cs->terms[t].wire];
        if (solver == CS_INPUT) continue;
        if (!has_value(solver)) {
            result.unsolved++;
            result.term = cs->terms[t];
        } else if (plan->place_level[solver] >= result.level) {
            result.level = plan->place_level[solver] + 1;
        }
    }
    if (result.unsolved == 0) plan->expression_level[expression] = result.level;
    return result;
}

static int run_hint(planner *plan, uint32_t place, uint32_t number) {
    const cs_hint *hint = &plan->cs->hints[number];
    reading input = read_terms(plan, hint->input);
    if (input.unsolved) return broken(plan, "hint #%u: reads wire %u before it is solved", number, input.term.wire);
    plan->place_level[place] = input.level;
    for (uint32_t i = 0; i < hint->outputs; i++) {
        uint32_t wire = hint->first_output + i;
        if (plan->solved_by[wire] != CS_UNSOLVED && plan->solved_by[wire] != (PENDING_HINT | number)) {
            return broken(plan, "hint #%u: its output wire %u is solved twice", number, wire);
        }
        plan->solved_by[wire] = place;
    }
    plan->unsolved_wires -= hint->outputs;
    return 1;
}

static int run_row(planner *plan, uint32_t place, uint32_t number) {
    cs_row *row = &plan->cs->rows[number];
    const uint32_t sides[3] = {row->left, row->right, row->out};
    static const uint32_t solves[3] = {CS_SOLVES_L, CS_SOLVES_R, CS_SOLVES_O};
    uint32_t unsolved = 0, level = 0;
    cs_term term = {0, 0};
    row->solves = CS_SOLVES_NOTHING;
    for (int i = 0; i < 3; i++) {
        reading side = read_terms(plan, sides[i]);
        if (side.level > level) level = side.level;
        unsolved += side.unsolved;
        if (side.unsolved == 0) continue;
        term = side.term;
        row->solves = solves[i];
    }
    if (unsolved == 0) {
        plan->place_level[place] = CS_CHECK;
        return 1;
    }
    if (unsolved > 1) {
        return broken(plan, "constraint #%u: %u of its terms have unsolved wires, wire %u is one", number, unsolved,
                      term.wire);
    }
    if (fr_is_zero(&plan->cs->coefficients[term.coefficient])) {
        return broken(plan, "constraint #%u: cannot solve wire %u, its coefficient is zero", number, term.wire);
    }
    row->solved_wire = term.wire;
    row->solved_coefficient = term.coefficient;
    plan->place_level[place] = level;
    plan->solved_by[term.wire] = place;
    plan->unsolved_wires--;
    return 1;
}

static int run_in_file_order(planner *plan) {
    for (uint32_t place = 0; place < plan->builder->order_count; place++) {
        uint32_t instruction = plan->builder->order[place];
        int done = instruction & CS_IS_HINT ? run_hint(plan, place, instruction & ~CS_IS_HINT)
                                            : run_row(plan, place, instruction);
        if (!done || (place % 65536 == 0 && cs_cancelled(plan->builder))) return 0;
    }
    return 1;
}

/* ---- hints of format version 0.8 -------------------------------------------------------------- */

static int append_hint(planner *plan, uint32_t hint) {
    uint32_t place = plan->builder->order_count++;
    plan->builder->order[place] = CS_IS_HINT | hint;
    return run_hint(plan, place, hint);
}

static int is_pending(uint32_t solver) { return solver >= PENDING_HINT && solver < CS_INPUT; }

/* Runs a hint after the hints whose outputs it reads. An explicit stack replaces recursion; a hint is on it at most once, so its
 * height is bounded by the number of hints. */
static int place_hint(planner *plan, uint32_t first) {
    const constraint_system *cs = plan->cs;
    uint32_t depth = 0;
    plan->visits[depth++] = (struct visit){first, cs->expression_start[cs->hints[first].input]};
    plan->hint_seen[first] = 1;
    while (depth) {
        struct visit *top = &plan->visits[depth - 1];
        uint32_t end = cs->expression_start[cs->hints[top->hint].input + 1];
        uint32_t solver = CS_UNSOLVED;
        while (top->next_term < end && !is_pending(solver)) solver = plan->solved_by[cs->terms[top->next_term++].wire];
        if (!is_pending(solver)) {
            if (!append_hint(plan, top->hint)) return 0;
            depth--;
            continue;
        }
        uint32_t needed = solver & ~PENDING_HINT;
        if (plan->hint_seen[needed]) return broken(plan, "hint #%u: needs its own output", needed);
        plan->hint_seen[needed] = 1;
        plan->visits[depth++] = (struct visit){needed, cs->expression_start[cs->hints[needed].input]};
    }
    return 1;
}

static int place_hints_of(planner *plan, uint32_t expression) {
    const constraint_system *cs = plan->cs;
    if (plan->expression_level[expression] != UNREAD) return 1;
    for (uint32_t t = cs->expression_start[expression]; t < cs->expression_start[expression + 1]; t++) {
        uint32_t solver = plan->solved_by[cs->terms[t].wire];
        if (is_pending(solver) && !place_hint(plan, solver & ~PENDING_HINT)) return 0;
    }
    return 1;
}

static int run_with_lazy_hints(planner *plan) {
    cs_builder *builder = plan->builder;
    constraint_system *cs = plan->cs;
    for (uint32_t h = 0; h < cs->hints_count; h++) {
        for (uint32_t i = 0; i < cs->hints[h].outputs; i++) {
            uint32_t wire = cs->hints[h].first_output + i;
            if (plan->solved_by[wire] != CS_UNSOLVED) {
                return broken(plan, "hint #%u: its output wire %u is solved twice", h, wire);
            }
            plan->solved_by[wire] = PENDING_HINT | h;
        }
    }
    for (uint32_t i = 0; i < cs->constraints; i++) {
        const cs_row *row = &cs->rows[i];
        if (!place_hints_of(plan, row->left) || !place_hints_of(plan, row->right) || !place_hints_of(plan, row->out)) {
            return 0;
        }
        uint32_t place = builder->order_count++;
        builder->order[place] = i;
        if (!run_row(plan, place, i) || (i % 65536 == 0 && cs_cancelled(builder))) return 0;
    }
    return 1;
}

/* ---- the whole -------------------------------------------------------------------------------- */

static void shrink(void **array, uint64_t count, size_t size) {
    void *memory = realloc(*array, count ? (size_t)count * size : 1);
    if (memory) *array = memory;
}

static void shrink_tables(constraint_system *cs) {
    void *terms = cs->terms, *starts = cs->expression_start, *hints = cs->hints;
    shrink(&terms, cs->terms_count, sizeof *cs->terms);
    shrink(&starts, (uint64_t)cs->expressions + 1, sizeof *cs->expression_start);
    shrink(&hints, cs->hints_count, sizeof *cs->hints);
    cs->terms = terms;
    cs->expression_start = starts;
    cs->hints = hints;
}

static int run(planner *plan) {
    cs_builder *builder = plan->builder;
    constraint_system *cs = plan->cs;
    uint64_t instructions = (uint64_t)cs->constraints + cs->hints_count;
    if (instructions >= CS_IS_HINT) return broken(plan, "there are 2^31 instructions or more");
    builder->solved_by = plan->solved_by = cs_allocate(builder, cs->wires, sizeof *plan->solved_by);
    builder->place_level = plan->place_level = cs_allocate(builder, instructions, sizeof *plan->place_level);
    plan->expression_level = cs_allocate(builder, cs->expressions, sizeof *plan->expression_level);
    if (!plan->solved_by || !plan->place_level || !plan->expression_level) return 0;
    memset(plan->expression_level, 0xff, (size_t)cs->expressions * sizeof *plan->expression_level); /* UNREAD */
    for (uint32_t w = 0; w < cs->wires; w++) plan->solved_by[w] = w < plan->first_internal ? CS_INPUT : CS_UNSOLVED;
    plan->unsolved_wires = cs->internal_wires;
    if (builder->order) {
        if (!run_in_file_order(plan)) return 0;
    } else {
        builder->order = cs_allocate(builder, instructions, sizeof *builder->order);
        plan->hint_seen = cs_allocate(builder, cs->hints_count, sizeof *plan->hint_seen);
        plan->visits = cs_allocate(builder, cs->hints_count, sizeof *plan->visits);
        if (!builder->order || !plan->hint_seen || !plan->visits || !run_with_lazy_hints(plan)) return 0;
    }
    if (plan->unsolved_wires == 0) return 1;
    uint32_t wire = plan->first_internal;
    while (has_value(plan->solved_by[wire])) wire++;
    return broken(plan, "wire %u is never solved", wire);
}

int cs_order(cs_builder *builder) {
    constraint_system *cs = builder->cs;
    planner plan = {.builder = builder, .cs = cs, .first_internal = cs->public_wires + cs->secret_wires};
    uint64_t wires = (uint64_t)cs->public_wires + cs->secret_wires + cs->internal_wires;
    /* Checked before anything is allocated per wire: an instruction must solve each internal wire. Hints alone do not bound their
     * number by that of the bytes, because a few bytes describe a hint with 256 outputs; but wires in use occur in a row as well. */
    if (wires >= CS_IS_HINT || cs->internal_wires > cs->constraints + builder->hint_outputs) {
        return broken(&plan, "%u internal wires are more than the instructions can solve", cs->internal_wires);
    }
    if (cs->internal_wires > builder->reader.size) {
        return broken(&plan, "%u internal wires are more than the bytes of the constraint system", cs->internal_wires);
    }
    cs->wires = (uint32_t)wires;
    shrink_tables(cs);
    int done = check_ids(&plan) && run(&plan);
    free(plan.expression_level);
    free(plan.hint_seen);
    free(plan.visits);
    return done;
}
