/* key/prepared_format.h - the layout of a prepared key file, version 1. All numbers are little-endian.
 *
 * header | directory | sections. Every array of a loaded key is one section in the kernel's memory layout, so a mapped file is a
 * key without further work. docs/reference/prepared-key-format.md documents it; the layout does not change while
 * G16_PREPARED_VERSION is 1.
 */
#ifndef G16_KEY_PREPARED_FORMAT_H
#define G16_KEY_PREPARED_FORMAT_H

#include "key/key.h"

#define PREPARED_MAGIC "\x89G16KEY\n"
#define PREPARED_BYTE_ORDER 0x01020304u
/* Alignment of sections and of the mapping. */
#define PREPARED_ALIGNMENT 64
/* Sections of at least a page begin at a page boundary, so that advice and sharing apply to whole pages. */
#define PREPARED_PAGE 4096
#define PREPARED_MAX_SECTIONS 64

typedef struct prepared_header {
    uint8_t magic[8];
    uint32_t version;            /* G16_PREPARED_VERSION */
    uint32_t byte_order;         /* PREPARED_BYTE_ORDER */
    uint64_t file_bytes;
    uint32_t header_bytes;       /* sizeof(prepared_header) */
    uint32_t section_count;
    uint64_t directory_offset;
    uint64_t directory_checksum;
    uint32_t point_format;         /* g16_point_format of the point sections */
    uint32_t reserved0;
    uint64_t source_bytes;
    uint8_t source_sha256[32];
    uint64_t reserved[3];
    uint64_t checksum;           /* of the header before this field */
} prepared_header;

/* A reader that does not know the type of the section must refuse the file; without this flag it skips the section. */
#define PREPARED_REQUIRED 1u

typedef struct prepared_section {
    uint32_t type;    /* prepared_type */
    uint32_t version; /* of the layout of this type */
    uint32_t flags;   /* PREPARED_REQUIRED */
    uint32_t element_bytes;
    uint64_t offset;  /* from the start of the file */
    uint64_t count;   /* elements: the section has element_bytes * count bytes */
    uint64_t checksum;
    uint64_t parameters[3]; /* depends on the type, else zero */
} prepared_section;

/* Layout version of every section except tables. Versions 1 and 2 of tables, for scalars that are not split into halves, are not
 * read any more. */
#define PREPARED_SECTION_VERSION 1
#define PREPARED_TABLE_VERSION 3
#define PREPARED_FOLDED_TABLE_VERSION 4

static inline uint32_t prepared_table_version(int folded) {
    return folded ? PREPARED_FOLDED_TABLE_VERSION : PREPARED_TABLE_VERSION;
}

typedef enum prepared_type {
    PREPARED_INFO = 0x01,
    PREPARED_CONSTANTS = 0x02,
    PREPARED_VERIFYING_KEY = 0x03,
    PREPARED_VERIFYING_K = 0x04,
    PREPARED_POINTS_A = 0x10,
    PREPARED_POINTS_B1 = 0x11,
    PREPARED_POINTS_K = 0x12,
    PREPARED_POINTS_Z = 0x13,
    PREPARED_POINTS_B2 = 0x14,
    PREPARED_WIRES_A = 0x18,
    PREPARED_WIRES_B = 0x19,
    PREPARED_TWIDDLES = 0x20,
    PREPARED_COEFFICIENTS = 0x30,
    PREPARED_TERMS = 0x31,
    PREPARED_EXPRESSION_START = 0x32,
    PREPARED_ROWS = 0x33,
    PREPARED_HINTS = 0x34,
    PREPARED_PROGRAM = 0x35,
    PREPARED_COMPONENT_START = 0x36,
    PREPARED_SLICE_START = 0x37,
    PREPARED_TABLE_A = 0x40,
    PREPARED_TABLE_KZ = 0x41,
    PREPARED_TABLE_B2 = 0x42,
    PREPARED_FOLD_K = 0x50,
    PREPARED_FOLD_T = 0x51,
    PREPARED_FOLD_WIRES = 0x52
    /* Reserved: 0x43 .. 0x4f more tables, 0x53 .. 0x5f folded bases, 0x60 .. 0x6f solver programs. */
} prepared_type;

/* The scalar members of a key. */
typedef struct prepared_info {
    uint32_t format_version, header_words, reserved0[2];
    uint32_t header[4];
    uint32_t wires, public_wires, secret_wires, internal_wires;
    uint32_t constraints, coefficients, expressions, hints;
    uint32_t instructions, components, slices, checks_start;
    uint32_t levels, batch_kind, domain_log2, verifying_k;
    uint32_t a_count, b_count, k_count, z_count;
    uint64_t terms, file_terms;
    uint64_t proving_key_offset, verifying_key_offset, constraint_system_offset, reserved1;
} prepared_info;

/* Members of prepared_info that have a counterpart in a key: X(member of prepared_info, member of g16_key). */
#define PREPARED_EACH_NUMBER(X)                                          \
    X(format_version, info.format_version)                               \
    X(header_words, info.header_words)                                   \
    X(wires, cs.wires)                                                   \
    X(public_wires, cs.public_wires)                                     \
    X(secret_wires, cs.secret_wires)                                     \
    X(internal_wires, cs.internal_wires)                                 \
    X(constraints, cs.constraints)                                       \
    X(coefficients, cs.coefficients_count)                               \
    X(expressions, cs.expressions)                                       \
    X(hints, cs.hints_count)                                             \
    X(instructions, cs.instructions_count)                               \
    X(components, cs.components)                                         \
    X(slices, cs.slices)                                                 \
    X(checks_start, cs.checks_start)                                     \
    X(levels, cs.levels)                                                 \
    X(batch_kind, cs.batch_kind)                                         \
    X(domain_log2, pk.domain_log2)                                       \
    X(verifying_k, vk.k_count)                                           \
    X(a_count, pk.a_count)                                               \
    X(b_count, pk.b_count)                                               \
    X(k_count, pk.k_count)                                               \
    X(z_count, pk.z_count)                                               \
    X(terms, cs.terms_count)                                             \
    X(file_terms, cs.file_terms)                                         \
    X(proving_key_offset, info.proving_key_offset)                       \
    X(verifying_key_offset, info.verifying_key_offset)                   \
    X(constraint_system_offset, info.constraint_system_offset)

typedef struct prepared_constants {
    g1_affine alpha, beta, delta;
    g2_affine beta2, delta2;
} prepared_constants;

typedef struct prepared_verifying_key {
    g1_affine alpha, beta, delta;
    g2_affine beta2, gamma2, delta2;
    fp12 alpha_beta;
} prepared_verifying_key;

_Static_assert(sizeof(prepared_header) == 128, "layout of the header");
_Static_assert(sizeof(prepared_section) == 64, "layout of a directory entry");
_Static_assert(sizeof(prepared_info) == 160, "layout of the numbers");
_Static_assert(sizeof(prepared_constants) == 448, "layout of the constants");
_Static_assert(sizeof(prepared_verifying_key) == 960, "layout of the verifying key");
_Static_assert(sizeof(fr) == 32 && sizeof(g1_affine) == 64 && sizeof(g2_affine) == 128, "layout of points");
_Static_assert(sizeof(cs_term) == 8 && sizeof(cs_row) == 28 && sizeof(cs_hint) == 16, "layout of the constraint system");

/* Sections that are not arrays of the key: X(type, name, record). They come first. */
#define PREPARED_EACH_RECORD(X)                                     \
    X(PREPARED_INFO, "info", info)                                  \
    X(PREPARED_CONSTANTS, "constants", constants)                   \
    X(PREPARED_VERIFYING_KEY, "verifying key", verifying_key)
#define PREPARED_RECORDS 3

/* The arrays of a key in file order: type, name, member of g16_key, elements. */
#define PREPARED_EACH_ARRAY(X, key)                                                                     \
    X(PREPARED_VERIFYING_K, "verifying key: K", vk.k, (key)->vk.k_count)                                \
    X(PREPARED_POINTS_A, "points of A", pk.a, (key)->pk.a_count)                                        \
    X(PREPARED_POINTS_B1, "points of B", pk.b1, (key)->pk.b_count)                                      \
    X(PREPARED_POINTS_K, "points of K", pk.k, (key)->pk.k_count)                                        \
    X(PREPARED_POINTS_Z, "points of Z", pk.z, (key)->pk.z_count)                                        \
    X(PREPARED_POINTS_B2, "points of B2", pk.b2, (key)->pk.b_count)                                     \
    X(PREPARED_WIRES_A, "wires of A", pk.a_wires, (key)->pk.a_count)                                    \
    X(PREPARED_WIRES_B, "wires of B", pk.b_wires, (key)->pk.b_count)                                    \
    X(PREPARED_TWIDDLES, "roots of unity", pk.twiddles, (uint64_t)1 << (key)->pk.domain_log2)           \
    X(PREPARED_COEFFICIENTS, "coefficients", cs.coefficients, (key)->cs.coefficients_count)             \
    X(PREPARED_TERMS, "terms", cs.terms, (key)->cs.terms_count)                                         \
    X(PREPARED_EXPRESSION_START, "expressions", cs.expression_start, (uint64_t)(key)->cs.expressions + 1) \
    X(PREPARED_ROWS, "rows", cs.rows, (key)->cs.constraints)                                            \
    X(PREPARED_HINTS, "hints", cs.hints, (key)->cs.hints_count)                                         \
    X(PREPARED_PROGRAM, "program", cs.program, (key)->cs.instructions_count)                            \
    X(PREPARED_COMPONENT_START, "components", cs.component_start, (uint64_t)(key)->cs.components + 1)   \
    X(PREPARED_SLICE_START, "slices", cs.slice_start, (uint64_t)(key)->cs.slices + 1)
#define PREPARED_ARRAYS 17
#define PREPARED_SECTIONS (PREPARED_RECORDS + PREPARED_ARRAYS)

/* The tables (msm/table.h): all three or none, with equal parameters. */
#define PREPARED_EACH_TABLE(X, key)                                                           \
    X(PREPARED_TABLE_A, "table of A", pk.table_a, key_table_counts(&(key)->pk, 0).a)          \
    X(PREPARED_TABLE_KZ, "table of K and Z", pk.table_kz, key_table_counts(&(key)->pk, 0).kz) \
    X(PREPARED_TABLE_B2, "table of B2", pk.table_b2, key_table_counts(&(key)->pk, 0).b2)
#define PREPARED_TABLES 3

/* Additional arrays of a folded key (key/fold_shape.h): all three or none. */
#define PREPARED_EACH_FOLD(X, key)                                                   \
    X(PREPARED_FOLD_K, "folded K", pk.fold_k, (key)->pk.fold_k_count)                \
    X(PREPARED_FOLD_T, "folded Z", pk.fold_t, (key)->pk.fold_t_count)                \
    X(PREPARED_FOLD_WIRES, "wires of folded K", pk.fold_wires, (key)->pk.fold_k_count)
#define PREPARED_FOLDS 3

/* A checked directory. Header and entries are copies, so later changes of the mapped file cannot affect them. */
typedef struct prepared_directory {
    const uint8_t *data;
    size_t size;
    prepared_header header;
    prepared_section sections[PREPARED_MAX_SECTIONS];
} prepared_directory;

/* Checks header and directory: magic, version, byte order, sizes, bounds and order of sections, both checksums. */
g16_status prepared_read_directory(prepared_directory *directory, const uint8_t *data, size_t size, g16_error *error);
/* Returns the entry of a type, or NULL. */
const prepared_section *prepared_find(const prepared_directory *directory, prepared_type type);
/* Returns G16_MALFORMED_KEY unless the section has its checksum. */
g16_status prepared_check_section(const prepared_directory *directory, const prepared_section *section,
                                  g16_error *error);
const char *prepared_type_name(uint32_t type);

/* Returns 1 when the checksum of a section is verified at every load. Other sections hold points and roots of unity, most of the
 * file. An error in them can only produce an invalid proof, and the self-verification detects that. */
static inline int prepared_is_always_checked(uint32_t type) {
    return !(type >= PREPARED_POINTS_A && type <= PREPARED_POINTS_B2) && type != PREPARED_TWIDDLES &&
           !(type >= PREPARED_TABLE_A && type <= PREPARED_TABLE_B2) && type != PREPARED_FOLD_K && type != PREPARED_FOLD_T;
}

/* key/prepared_check.c. Both ensure that no content of a file makes a proof access memory outside of its arrays: the numbers of a
 * key are consistent, and every index is within the array that it refers to. */
g16_status prepared_check_numbers(const prepared_info *info, g16_error *error);
g16_status prepared_check_array(const g16_key *key, prepared_type type, g16_error *error);

#endif
