/* gnark/v08.c - constraint systems of format version 0.8: one CBOR map.
 *
 * The writer's encoding is deterministic (sorted map keys, shortest integers), and for the large tables this reader accepts
 * nothing else. The file does not order hints relative to rows; a hint runs when a row first needs one of its outputs, see
 * gnark/order.c.
 */
#include <string.h>

#include "gnark/builder.h"
#include "gnark/steps.h"

#define KEYS (CS_KEY_BIT(LEVELS) | CS_KEY_BIT(HINTS) | CS_KEY_BIT(CONSTRAINTS) | CS_KEY_BIT(COEFFICIENTS))

typedef struct v08 {
    cs_builder *builder;
    size_t levels_offset;
} v08;

/* {"CID": c, "VID": v}: a key of three letters takes four bytes, the shortest term eleven. */
#define MIN_TERM_BYTES 11
/* {"L": [], "O": [], "R": []} */
#define MIN_ROW_BYTES 10
#define MIN_HINT_BYTES 26

/* Consumes exactly these bytes or fails. */
static inline int literal(cbor_reader *reader, const char *bytes, size_t length, const char *what) {
    if (reader->size - reader->offset < length || memcmp(reader->data + reader->offset, bytes, length) != 0) {
        return cbor_fail(reader, "%s: unexpected bytes", what);
    }
    reader->offset += length;
    return 1;
}

/* Reads an unsigned 32-bit integer; the short encodings, nearly all there are, without a call. */
static inline int number(cbor_reader *reader, uint32_t *value, const char *what) {
    const uint8_t *at = reader->data + reader->offset;
    size_t left = reader->size - reader->offset;
    if (left >= 1 && at[0] < 24) {
        *value = at[0];
        reader->offset += 1;
        return 1;
    }
    if (left >= 2 && at[0] == 24 && at[1] >= 24) {
        *value = at[1];
        reader->offset += 2;
        return 1;
    }
    if (left >= 3 && at[0] == 25 && at[1] != 0) {
        *value = (uint32_t)at[1] << 8 | at[2];
        reader->offset += 3;
        return 1;
    }
    uint64_t wide;
    if (!cbor_unsigned(reader, UINT32_MAX, &wide, what)) return 0;
    *value = (uint32_t)wide;
    return 1;
}

static int read_expression(cs_builder *builder, uint32_t *expression, const char *what) {
    cbor_reader *reader = &builder->reader;
    uint64_t count;
    cs_term *terms;
    if (!cbor_array(reader, MIN_TERM_BYTES, 1, &count, what)) return 0;
    if (!cs_open_expression(builder, count, &terms)) return 0;
    for (uint64_t i = 0; i < count; i++) {
        if (!literal(reader, "\xa2\x63" "CID", 5, what) || !number(reader, &terms[i].coefficient, what) ||
            !literal(reader, "\x63" "VID", 4, what) || !number(reader, &terms[i].wire, what)) {
            return 0;
        }
    }
    builder->cs->file_terms += count;
    return cs_close_expression(builder, count, expression);
}

static int read_rows(cs_builder *builder) {
    cbor_reader *reader = &builder->reader;
    uint64_t count;
    builder->rows_offset = reader->offset;
    if (!cbor_array(reader, MIN_ROW_BYTES, 0, &count, "Constraints")) return 0;
    if (!cs_allocate_rows(builder, count)) return 0;
    for (uint64_t i = 0; i < count; i++) {
        cs_row *row = &builder->cs->rows[i];
        row->level = CS_NO_LEVEL;
        if (!literal(reader, "\xa3\x61L", 3, "Constraints") || !read_expression(builder, &row->left, "Constraints") ||
            !literal(reader, "\x61O", 2, "Constraints") || !read_expression(builder, &row->out, "Constraints") ||
            !literal(reader, "\x61R", 2, "Constraints") || !read_expression(builder, &row->right, "Constraints")) {
            return 0;
        }
        if (i % 4096 == 0 && cs_cancelled(builder)) return 0;
    }
    return 1;
}

/* {"ID": id, "Wires": [..], "Inputs": [[..]]} */
static int read_hint(cs_builder *builder) {
    cbor_reader *reader = &builder->reader;
    size_t start = reader->offset;
    uint32_t id, input = 0, wire, first = 0;
    uint64_t outputs, inputs;
    if (!literal(reader, "\xa3\x62ID", 4, "MHints") || !number(reader, &id, "MHints") ||
        !literal(reader, "\x65Wires", 6, "MHints") || !cbor_array(reader, 1, 0, &outputs, "MHints")) {
        return 0;
    }
    for (uint64_t i = 0; i < outputs; i++) {
        size_t place = reader->offset;
        if (!number(reader, &wire, "MHints")) return 0;
        if (i == 0) first = wire;
        if (wire != first + i) {
            return cbor_fail_at(reader, G16_UNSUPPORTED_KEY, place, "hint #%u: its outputs are not consecutive wires",
                                builder->cs->hints_count);
        }
    }
    if (!literal(reader, "\x66Inputs", 7, "MHints") || !cbor_array(reader, 1, 1, &inputs, "MHints")) return 0;
    uint64_t row_terms = builder->cs->file_terms; /* number of terms of the rows alone */
    for (uint64_t i = 0; i < inputs; i++) {
        if (!read_expression(builder, &input, "MHints")) return 0;
    }
    builder->cs->file_terms = row_terms;
    return cs_add_hint(builder, id, inputs, input, first, outputs, start);
}

/* The file repeats the whole record of a hint for each output wire. Wires ascend and outputs are consecutive, so the copies are
 * adjacent and must be identical. */
static int read_hints(cs_builder *builder) {
    cbor_reader *reader = &builder->reader;
    uint64_t count;
    size_t record = 0, record_bytes = 0;
    uint32_t expected = 0, left = 0, wire, previous = 0;
    if (!cbor_map(reader, MIN_HINT_BYTES, 1, &count, "MHints")) return 0;
    for (uint64_t i = 0; i < count; i++) {
        size_t start = reader->offset;
        if (!number(reader, &wire, "MHints")) return 0;
        if (i > 0 && wire <= previous) {
            return cbor_fail_at(reader, G16_MALFORMED_KEY, start, "MHints: wire %u is out of order", wire);
        }
        previous = wire;
        if (left == 0) {
            record = reader->offset;
            if (!read_hint(builder)) return 0;
            record_bytes = reader->offset - record;
            const cs_hint *hint = &builder->cs->hints[builder->cs->hints_count - 1];
            expected = hint->first_output;
            left = hint->outputs;
        } else {
            if (reader->size - reader->offset < record_bytes ||
                memcmp(reader->data + reader->offset, reader->data + record, record_bytes) != 0) {
                return cbor_fail(reader, "MHints: the record of wire %u differs from that of wire %u", wire, expected - 1);
            }
            reader->offset += record_bytes;
        }
        if (wire != expected) {
            return cbor_fail_at(reader, G16_MALFORMED_KEY, start, "MHints: found wire %u where wire %u should be", wire,
                                expected);
        }
        expected++;
        left--;
    }
    if (left) return cbor_fail(reader, "MHints: %u outputs of the last hint have no record", left);
    return 1;
}

static int read_levels(cs_builder *builder) {
    cbor_reader *reader = &builder->reader;
    constraint_system *cs = builder->cs;
    uint64_t levels, count, seen = 0;
    if (!cbor_array(reader, 1, 1, &levels, "Levels")) return 0;
    if (levels >= CS_NO_LEVEL) return cbor_fail(reader, "Levels: too many");
    for (uint64_t level = 0; level < levels; level++) {
        if (!cbor_array(reader, 1, 1, &count, "Levels")) return 0;
        for (uint64_t i = 0; i < count; i++) {
            size_t place = reader->offset;
            uint32_t row;
            if (!number(reader, &row, "Levels")) return 0;
            if (row >= cs->constraints || cs->rows[row].level != CS_NO_LEVEL) {
                return cbor_fail_at(reader, G16_MALFORMED_KEY, place, "Levels: constraint #%u %s", row,
                                    row >= cs->constraints ? "does not exist" : "occurs twice");
            }
            cs->rows[row].level = (uint32_t)level;
            seen++;
        }
    }
    cs->levels = (uint32_t)levels;
    if (seen == cs->constraints) return 1;
    uint32_t row = 0;
    while (cs->rows[row].level != CS_NO_LEVEL) row++;
    return cbor_fail(reader, "Levels: constraint #%u is missing", row);
}

static int read_coefficients(cs_builder *builder) {
    cbor_reader *reader = &builder->reader;
    uint64_t count;
    if (!cbor_array(reader, 5, 0, &count, "Coefficients") || !cs_allocate_coefficients(builder, count)) return 0;
    for (uint64_t i = 0; i < count; i++) {
        size_t start = reader->offset;
        uint64_t limbs[4], limb_count;
        if (!cbor_array(reader, 1, 0, &limb_count, "Coefficients")) return 0;
        if (limb_count != 4) {
            return cbor_fail_at(reader, G16_MALFORMED_KEY, start, "coefficient %llu has %llu limbs", (unsigned long long)i,
                                (unsigned long long)limb_count);
        }
        for (int j = 0; j < 4; j++) {
            if (!cbor_unsigned(reader, UINT64_MAX, &limbs[j], "Coefficients")) return 0;
        }
        if (!cs_set_coefficient(builder, i, limbs, start)) return 0;
    }
    return 1;
}

static int read_value(void *argument, cs_key key) {
    v08 *file = argument;
    switch (key) {
    case CS_KEY_LEVELS: /* read after the number of rows is known */
        file->levels_offset = file->builder->reader.offset;
        return cbor_skip(&file->builder->reader, 1, "Levels");
    case CS_KEY_HINTS: return read_hints(file->builder);
    case CS_KEY_CONSTRAINTS: return read_rows(file->builder);
    case CS_KEY_COEFFICIENTS: return read_coefficients(file->builder);
    default: return cs_read_unused_feature(file->builder, "CommitmentInfo");
    }
}

int cs_read_v08(cs_builder *builder) {
    v08 file = {builder, 0};
    if (!cs_read_body(builder, KEYS, 0, read_value, &file)) return 0;
    size_t end = builder->reader.offset;
    builder->reader.offset = file.levels_offset;
    if (!read_levels(builder)) return 0;
    builder->reader.offset = end;
    return 1;
}
