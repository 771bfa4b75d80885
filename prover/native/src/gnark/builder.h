/* gnark/builder.h - collects rows, expressions and hints while a file is decoded, and reads the parts of the file that both
 * format versions have. */
#ifndef G16_GNARK_BUILDER_H
#define G16_GNARK_BUILDER_H

#include "base/thread_pool.h"
#include "r1cs/constraint_system.h"
#include "gnark/cbor.h"

/* A new expression is compared with this many before it. The S-boxes of a Poseidon round repeat their expressions within a few
 * rows; the solver caches as many values, see r1cs/solver_impl.h. */
#define CS_SHARING_WINDOW CS_CACHED_EXPRESSIONS

/* solved_by of wires that no instruction solves. */
#define CS_UNSOLVED 0xffffffffu
#define CS_INPUT 0xfffffffeu

#define CS_CHECK 0xffffffffu

/* No level yet: the row is missing from the file's levels. */
#define CS_NO_LEVEL 0xffffffffu

typedef struct cs_builder {
    constraint_system *cs;
    cbor_reader reader; /* over the whole section; writes to the caller's error record */
    const g16_cancel *cancel;
    g16_format_version format_version;
    size_t rows_offset; /* where the rows start; the offset of errors that are found only later */
    uint64_t terms_capacity, expressions_capacity, hints_capacity;
    uint64_t hint_outputs;
    /* Instructions in the order of execution. 0.14: as in the file. 0.8: NULL until hints are inserted. An index into this order
     * is called place. */
    uint32_t *order;
    uint32_t order_count;
    uint32_t *place_level; /* [instructions] dependency level, CS_CHECK for rows that solve nothing */
    uint32_t *solved_by;   /* [wires] place of the instruction that solves the wire; CS_INPUT for inputs */
} cs_builder;

/* All functions return 1, or 0 with the reader's status and error set. */

/* calloc and realloc that refuse sizes beyond size_t; on failure they set the error and return NULL. */
void *cs_allocate(cs_builder *builder, uint64_t count, size_t size);
int cs_grow(cs_builder *builder, void **array, uint64_t *capacity, uint64_t needed, size_t size);
int cs_cancelled(cs_builder *builder);

/* Reserves `count` terms at the end of the table; the caller fills them and closes the expression. */
int cs_open_expression(cs_builder *builder, uint64_t count, cs_term **terms);
/* Returns the number of the expression, or that of an equal earlier one. */
int cs_close_expression(cs_builder *builder, uint64_t count, uint32_t *number);

int cs_allocate_rows(cs_builder *builder, uint64_t count);
/* Checks the kind, the number of inputs and the outputs of a hint and stores it; offset is where the hint starts. */
int cs_add_hint(cs_builder *builder, uint32_t id, uint64_t inputs, uint32_t input, uint64_t first_output,
                uint64_t outputs, size_t offset);

/* Reads a map whose members must all be empty or zero: a feature that the system does not use. */
int cs_read_unused_feature(cs_builder *builder, const char *what);
/* Sets coefficient `index` from its Montgomery limbs. */
int cs_set_coefficient(cs_builder *builder, uint64_t index, const uint64_t limbs[4], size_t offset);
int cs_allocate_coefficients(cs_builder *builder, uint64_t count);

/* The keys of the CBOR body. */
#define CS_EACH_KEY(X)                            \
    X(PUBLIC, "Public")                           \
    X(SECRET, "Secret")                           \
    X(SCALAR_FIELD, "ScalarField")                \
    X(VERSION, "GnarkVersion")                    \
    X(COMMITMENTS, "CommitmentInfo")              \
    X(HINT_NAMES, "MHintsDependencies")           \
    X(INTERNAL, "NbInternalVariables")            \
    X(LOGS, "Logs")                               \
    X(DEBUG_MAP, "MDebug")                        \
    X(DEBUG_INFO, "DebugInfo")                    \
    X(SYMBOLS, "SymbolTable")                     \
    X(LEVELS, "Levels")             /* 0.8 */     \
    X(HINTS, "MHints")              /* 0.8 */     \
    X(CONSTRAINTS, "Constraints")   /* 0.8 */     \
    X(COEFFICIENTS, "Coefficients") /* 0.8 */     \
    X(TYPE, "Type")                 /* 0.14 */    \
    X(BLUEPRINTS, "Blueprints")     /* 0.14 */    \
    X(ROW_COUNT, "NbConstraints")   /* 0.14 */    \
    X(GKR, "GkrInfo")               /* 0.14, optional */

typedef enum cs_key {
#define KEY(key, name) CS_KEY_##key,
    CS_EACH_KEY(KEY)
#undef KEY
    CS_KEYS
} cs_key;

#define CS_KEY_BIT(key) ((uint32_t)1 << CS_KEY_##key)

/* Reads the CBOR body. `read` reads CommitmentInfo and the keys in the sets `required` and `optional`, which a format version has in
 * addition to those of both versions; unknown keys are skipped. */
int cs_read_body(cs_builder *builder, uint32_t required, uint32_t optional, int (*read)(void *file, cs_key key), void *file);

#endif
