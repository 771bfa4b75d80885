/* gnark/builder.h - storage of rows, expressions and hints as they are decoded, and the parts of the file that both
 * generations have. */
#ifndef G16_GNARK_BUILDER_H
#define G16_GNARK_BUILDER_H

#include "base/thread_pool.h"
#include "r1cs/constraint_system.h"
#include "gnark/cbor.h"

/* A new expression is compared with this many before it. The S-boxes of a Poseidon round repeat theirs within a
 * few rows; the solver remembers as many values, see r1cs/solver_impl.h. */
#define CS_SHARING_WINDOW CS_CACHED_EXPRESSIONS

/* What solved_by says about wires that nothing solves. */
#define CS_UNSOLVED 0xffffffffu
#define CS_INPUT 0xfffffffeu

#define CS_CHECK 0xffffffffu

/* No level yet: such a row is missing from the file's levels. */
#define CS_NO_LEVEL 0xffffffffu

typedef struct cs_builder {
    constraint_system *cs;
    cbor_reader reader; /* over the whole section; its error record is the caller's */
    const g16_cancel *cancel;
    g16_generation generation;
    size_t rows_offset; /* where the rows start, the place of errors that only show afterwards */
    uint64_t terms_capacity, expressions_capacity, hints_capacity;
    uint64_t hint_outputs;
    /* Instructions in the order of execution. 0.14: the file's. 0.8: NULL until hints are placed. Position in this
     * order is called place. */
    uint32_t *order;
    uint32_t order_count;
    uint32_t *place_level; /* [instructions] dependency level, CS_CHECK for rows that solve nothing */
    uint32_t *solved_by;   /* [wires] place of the instruction that solves the wire, CS_INPUT for inputs */
} cs_builder;

/* All functions return 1, or 0 with the reader's status and error set. */

/* calloc and realloc that refuse products beyond size_t; NULL after an out-of-memory error was set. */
void *cs_allocate(cs_builder *builder, uint64_t count, size_t size);
int cs_grow(cs_builder *builder, void **array, uint64_t *capacity, uint64_t needed, size_t size);
int cs_cancelled(cs_builder *builder);

/* Room for `count` terms at the end of the table; fill them, then close the expression. */
int cs_open_expression(cs_builder *builder, uint64_t count, cs_term **terms);
/* The number of the expression, which may be an earlier one with the same terms. */
int cs_close_expression(cs_builder *builder, uint64_t count, uint32_t *number);

int cs_allocate_rows(cs_builder *builder, uint64_t count);
/* Checks kind, input count and outputs of a hint and stores it; offset is its place. */
int cs_add_hint(cs_builder *builder, uint32_t id, uint64_t inputs, uint32_t input, uint64_t first_output,
                uint64_t outputs, size_t offset);

/* Parts of the CBOR body that both generations have. */
int cs_read_public_names(cs_builder *builder);
int cs_read_secret_names(cs_builder *builder);
int cs_read_scalar_field(cs_builder *builder);
int cs_read_version(cs_builder *builder, const char *expected);
int cs_read_hint_names(cs_builder *builder);
/* A map whose members must all be empty or zero: a feature that the system does not use. */
int cs_read_unused_feature(cs_builder *builder, const char *what);
/* One coefficient from its Montgomery limbs; entry `index` of the table. */
int cs_set_coefficient(cs_builder *builder, uint64_t index, const uint64_t limbs[4], size_t offset);
int cs_allocate_coefficients(cs_builder *builder, uint64_t count);

/* Keys of a CBOR map in the order of an enum; the returned number, or -1 for an unknown key. A key that is
 * already in *seen is refused. */
int cs_read_key(cs_builder *builder, const char *const *names, int count, uint32_t *seen, int *key);
int cs_require_keys(cs_builder *builder, const char *const *names, int count, uint32_t seen, uint32_t required);

#endif
