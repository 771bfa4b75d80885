/* r1cs/constraint_system.h - a rank-1 constraint system with the program that solves its witness.
 *
 * Wires are numbered: the constant one, public inputs, secret inputs, internal wires. Row i (a constraint) requires L_i(w) *
 * R_i(w) = O_i(w). Linear expressions are in one table and rows refer to them by number, so a repeated expression (L = R in two
 * thirds of all rows) is stored once.
 */
#ifndef G16_R1CS_CONSTRAINT_SYSTEM_H
#define G16_R1CS_CONSTRAINT_SYSTEM_H

#include "base/types.h"

typedef struct cs_term {
    uint32_t coefficient; /* index into coefficients */
    uint32_t wire;
} cs_term;

/* An expression is shared with equal ones of this many before it. A solver that caches that many values, by number mod
 * CS_CACHED_EXPRESSIONS, evaluates each stored expression once. */
#define CS_CACHED_EXPRESSIONS 16

typedef enum cs_hint_kind { CS_HINT_BITS = 1, CS_HINT_INVERSE_OR_ZERO = 2 } cs_hint_kind;

/* More outputs than a field element has bits are refused. */
#define CS_MAX_HINT_OUTPUTS 256

typedef struct cs_hint {
    uint32_t kind;         /* cs_hint_kind */
    uint32_t input;        /* expression */
    uint32_t first_output; /* internal wire; outputs are consecutive */
    uint32_t outputs;
} cs_hint;

/* The side of a row that contains the wire which the row solves. */
typedef enum cs_solves { CS_SOLVES_NOTHING = 0, CS_SOLVES_L = 1, CS_SOLVES_R = 2, CS_SOLVES_O = 3 } cs_solves;

typedef struct cs_row {
    uint32_t left, right, out; /* expressions */
    uint32_t solved_wire;      /* undefined when solves is CS_SOLVES_NOTHING */
    uint32_t solved_coefficient;
    uint32_t level; /* dependency level in the file; of several failing rows the one with the lowest level is reported */
    uint32_t solves; /* cs_solves; a full word, so that rows have no padding */
} cs_row;

/* Terms [start, end). */
typedef struct cs_span {
    uint32_t start, end;
} cs_span;

/* The expressions as the solver evaluates them: equal values from fewer terms, because an expression may refer to others that
 * were evaluated before. A term with wire cs->wires + i is the left side of row i, whose value is in the vector a by then. */
typedef struct cs_short_forms {
    uint32_t coefficients_count;
    uint64_t terms_count;
    fr *coefficients; /* [coefficients_count] of these terms only; 0, 1, 2, -1, -2 come first here as well */
    cs_term *terms;   /* [terms_count] in the order of evaluation */
    cs_span *spans;   /* [expressions] */
} cs_short_forms;

/* An instruction: a row number, or a hint number with CS_IS_HINT set. */
#define CS_IS_HINT 0x80000000u

typedef struct constraint_system {
    uint32_t public_wires; /* including the constant wire */
    uint32_t secret_wires, internal_wires, wires;
    uint32_t constraints, coefficients_count, expressions, hints_count, instructions_count;
    uint64_t terms_count;  /* stored, after sharing */
    uint64_t file_terms;   /* of L, R and O in the file */

    fr *coefficients;           /* [coefficients_count]; 0, 1, 2, -1, -2 come first */
    cs_term *terms;             /* [terms_count] */
    uint32_t *expression_start; /* [expressions + 1] into terms */
    cs_row *rows;               /* [constraints] */
    cs_hint *hints;             /* [hints_count] */

    /* Instructions that solve wires come first. They are divided into slices, which run one after another, and each slice into
     * components that share no wire solved in the slice, so that they may run in parallel; within a component the order is the
     * file's. Rows that only check come last and run after all slices. */
    uint32_t *program;          /* [instructions_count] */
    uint32_t *component_start;  /* [components + 1] into program */
    uint32_t *slice_start;      /* [slices + 1] into component_start */
    uint32_t components, slices;
    uint32_t checks_start;      /* program[checks_start ..] are checks */
    uint32_t levels;            /* in the file */

    cs_short_forms short_forms; /* empty until constraint_system_shorten */

    /* The batch circuit, recognised by the names of secret inputs 3 and 4 (gnark/builder.c). */
    uint32_t batch_kind; /* g16_circuit_kind or 0 */
} constraint_system;

void constraint_system_free(constraint_system *cs);

void cs_short_forms_free(cs_short_forms *forms);
uint64_t cs_short_forms_bytes(const cs_short_forms *forms, uint32_t expressions);

/* Returns the size of the arrays that a key file determines: all but the short forms. */
uint64_t constraint_system_bytes(const constraint_system *cs);

#endif
