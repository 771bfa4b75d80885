/* r1cs/shapes.h - how long expressions are found to follow from others. Private to r1cs/shorten.c.
 *
 * In Poseidon's partial rounds all lanes but one stay linear: the input of each S-box is a sum that grows by a term a round, to
 * 61 terms. It is also the output of a linear system of width - 1 hidden lanes, driven by the results of the S-boxes, so
 * (Cayley and Hamilton) a fixed combination of the width - 1 inputs before it and of as many results plus one.
 *
 * Such combinations are looked for in any system, without knowing its constants:
 *   E = x_1 F_1 + ... + x_k F_k + rest, k <= 3,
 * where the F are the last long left sides that the same component evaluated. The coefficients of the k oldest wires say what
 * the x must be; the rest is what is left of E term by term. So the equation is exact whatever x is, and is kept if it is
 * short. Hashes of one width repeat the same coefficients: a shape that was met before is only compared.
 */
#ifndef G16_R1CS_SHAPES_H
#define G16_R1CS_SHAPES_H

#include "r1cs/constraint_system.h"

#define SHORTENER_BASES 3
/* Terms of an expression that is shortened, and of one that serves as F, at least. */
#define LONG_EXPRESSION 9
#define LONG_BASE 4
#define SHORTENER_COLUMNS 160
#define SHORTENER_REST 12
/* Shapes that are remembered; circuits of Poseidon have two hundred. Those after them stay as they are. */
#define SHORTENER_SHAPES 1024
#define SHORTENER_SLOTS (4 * SHORTENER_SHAPES)
#define SHORTENER_NONE 0xffffffffu

_Static_assert((SHORTENER_SLOTS & (SHORTENER_SLOTS - 1)) == 0, "slots are the low bits of a hash");

/* The coefficients of a wire in E and then in the bases; SHORTENER_NONE where it does not occur. */
typedef struct shortener_column {
    uint32_t in[1 + SHORTENER_BASES];
} shortener_column;

/* The columns of an expression and the bases before it, and their wires. */
typedef struct shortener_picture {
    uint32_t count;
    shortener_column columns[SHORTENER_COLUMNS];
    uint32_t wires[SHORTENER_COLUMNS];
} shortener_picture;

/* What all expressions with the same columns have in common. */
typedef struct shortener_shape {
    uint64_t hash; /* of E's coefficients */
    uint32_t bases_seen, count;
    shortener_column *columns;
    int nested; /* E has all columns, and each base the first ones, as in a Poseidon permutation */
    uint32_t lengths[1 + SHORTENER_BASES];
    uint32_t next;  /* shape that followed the last time */
    uint32_t bases; /* in the short form; 0: there is none */
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
    uint32_t *first_component;    /* [expressions] that evaluates it, or SHORTENER_NONE or SEVERAL */
    uint32_t *coefficient_number; /* [cs->coefficients_count] in the new table or SHORTENER_NONE */
    uint32_t *coefficient_slots;  /* [coefficient_mask + 1] number + 1 in the new table */
    uint32_t coefficient_mask;
    shortener_shape *shapes; /* [SHORTENER_SHAPES] */
    uint32_t shapes_count;
    uint32_t last_shape;                   /* that was met; SHORTENER_NONE at the start */
    uint32_t shape_slots[SHORTENER_SLOTS]; /* number + 1 */
    shortener_base bases[SHORTENER_BASES]; /* the latest first */
    uint32_t bases_count;
    shortener_picture picture;
} shortener;

static inline uint32_t shortener_length(const constraint_system *cs, uint32_t expression) {
    return cs->expression_start[expression + 1] - cs->expression_start[expression];
}

/* r1cs/shapes.c. The number of a coefficient of the file in the new table, which has room. */
uint32_t shortener_number(shortener *s, uint32_t old);
/* The shape of an expression beside the bases, or NULL when it cannot be shortened. The picture has its wires. */
const shortener_shape *shortener_find_shape(shortener *s, uint32_t expression);

#endif
