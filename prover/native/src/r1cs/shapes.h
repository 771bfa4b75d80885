/* r1cs/shapes.h - detects that long expressions are combinations of earlier ones. Private to r1cs/shorten.c.
 *
 * In Poseidon's partial rounds all state elements but one stay linear: the input of each S-box is a sum that grows by a term per
 * round, up to 61 terms. It is also the output of a linear system with width - 1 hidden state elements, driven by the outputs of
 * the S-boxes. So (Cayley and Hamilton) it is a fixed combination of the width - 1 inputs before it and of as many outputs plus
 * one.
 *
 * Such combinations are searched in any system, without knowing its constants:
 * E = x_1 F_1 + ... + x_k F_k + rest, k <= 3,
 * where the F are the last long left sides that the same component evaluated. The coefficients of the k oldest wires determine
 * the x; the rest is the remainder of E term by term. So the equation is exact for any x, and is used if it is short. Hashes of
 * one width repeat the same coefficients: a shape that was seen before is only compared.
 */
#ifndef G16_R1CS_SHAPES_H
#define G16_R1CS_SHAPES_H

#include "r1cs/constraint_system.h"

#define SHORTENER_BASES 3
/* Minimum number of terms of an expression that is shortened, and of one that serves as F. */
#define LONG_EXPRESSION 9
#define LONG_BASE 4
#define SHORTENER_COLUMNS 160
#define SHORTENER_REST 12
/* Maximum number of shapes that are remembered; circuits of Poseidon have two hundred. Further ones are not shortened. */
#define SHORTENER_SHAPES 1024
#define SHORTENER_SLOTS (4 * SHORTENER_SHAPES)
#define SHORTENER_NONE 0xffffffffu

_Static_assert((SHORTENER_SLOTS & (SHORTENER_SLOTS - 1)) == 0, "slots are the low bits of a hash");

/* The coefficients of a wire in E and in each base; SHORTENER_NONE where it does not occur. */
typedef struct shortener_column {
    uint32_t in[1 + SHORTENER_BASES];
} shortener_column;

/* The columns of an expression and the bases before it, and their wires. */
typedef struct shortener_columns {
    uint32_t count;
    shortener_column columns[SHORTENER_COLUMNS];
    uint32_t wires[SHORTENER_COLUMNS];
} shortener_columns;

/* Properties that all expressions with the same columns share. */
typedef struct shortener_shape {
    uint64_t hash; /* of E's coefficients */
    uint32_t bases_seen, count;
    shortener_column *columns;
    int nested; /* E has all columns and each base the first ones, as in a Poseidon permutation */
    uint32_t lengths[1 + SHORTENER_BASES];
    uint32_t next;  /* shape that followed this one the last time */
    uint32_t bases; /* bases in the short form; 0: there is no short form */
    uint32_t factor[SHORTENER_BASES];
    uint32_t rest_count;
    struct shortener_rest {
        uint32_t column, coefficient;
    } rest[SHORTENER_REST];
} shortener_shape;

typedef struct shortener_base {
    uint32_t expression, row;
} shortener_base;

typedef struct shortener {
    constraint_system *cs;
    cs_short_forms *forms;
    uint32_t *first_component;    /* [expressions] component that evaluates it, or SHORTENER_NONE or SEVERAL */
    uint32_t *coefficient_number; /* [cs->coefficients_count] in the new table or SHORTENER_NONE */
    uint32_t *coefficient_slots;  /* [coefficient_mask + 1] number + 1 in the new table */
    uint32_t coefficient_mask;
    shortener_shape *shapes; /* [SHORTENER_SHAPES] */
    uint32_t shapes_count;
    uint32_t last_shape;                   /* the last shape seen; SHORTENER_NONE at the start */
    uint32_t shape_slots[SHORTENER_SLOTS]; /* number + 1 */
    shortener_base bases[SHORTENER_BASES]; /* the latest first */
    uint32_t bases_count;
    shortener_columns current;
} shortener;

static inline uint32_t shortener_length(const constraint_system *cs, uint32_t expression) {
    return cs->expression_start[expression + 1] - cs->expression_start[expression];
}

/* r1cs/shapes.c. Returns the number in the new table of a coefficient of the file; the table has room for it. */
uint32_t shortener_number(shortener *s, uint32_t old);
/* Returns the shape of an expression relative to the bases, with its wires in the picture, or NULL when it cannot be shortened. */
const shortener_shape *shortener_find_shape(shortener *s, uint32_t expression);

#endif
