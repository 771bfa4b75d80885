/* gnark/v014.c - constraint systems of format version 0.14: framed sections.
 *
 * A head (total length, version), the four sections levels, instructions, calldata and body, and the table of coefficients to the
 * end. Instructions are rows and hints in an order that solves the witness.
 */
#include <stdlib.h>
#include <string.h>

#include "gnark/builder.h"
#include "gnark/intcomp.h"
#include "gnark/leb128.h"
#include "gnark/steps.h"

#define TAG_HINT_BLUEPRINT 5309735
#define TAG_ROW_BLUEPRINT 5309736
#define TAG_NO_COMMITMENTS 5309737
#define TYPE_R1CS 1
#define MAX_BLUEPRINTS 8
/* The calldata of a row is at least its length and three term counts. */
#define MIN_INSTRUCTION_WORDS 4

typedef struct section {
    size_t offset, size;
} section;

typedef struct v014 {
    cs_builder *builder;
    section levels, instructions, calldata, body, coefficients;
    uint32_t blueprints;
    uint8_t is_row[MAX_BLUEPRINTS];
    uint64_t calldata_words, instruction_count, row_count;
    /* Columns with one entry per instruction. */
    uint32_t *blueprint, *row_offset, *wire_offset, *level;
    uint64_t *start;
} v014;

static uint64_t load_u64(const uint8_t *bytes) {
    uint64_t value = 0;
    for (int i = 0; i < 8; i++) value |= (uint64_t)bytes[i] << (8 * i);
    return value;
}

/* ---- framing and body ------------------------------------------------------------------------- */

static int read_u64(cbor_reader *reader, uint64_t *value, const char *what) {
    *value = 0;
    if (reader->size - reader->offset < 8) return cbor_fail(reader, "%s: the file ends early", what);
    *value = load_u64(reader->data + reader->offset);
    reader->offset += 8;
    return 1;
}

static int read_frame(v014 *file) {
    cbor_reader *reader = &file->builder->reader;
    uint64_t total, major, minor, patch;
    if (!read_u64(reader, &total, "constraint system length")) return 0;
    if (reader->size < 64 || total != reader->size - 32) {
        return cbor_fail_at(reader, G16_MALFORMED_KEY, 0,
                            "the constraint system says that %llu bytes follow its head, but %zu bytes remain in all",
                            (unsigned long long)total, reader->size);
    }
    if (!read_u64(reader, &major, "version") || !read_u64(reader, &minor, "version") ||
        !read_u64(reader, &patch, "version")) {
        return 0;
    }
    if (major != 0 || minor != 14 || patch != 0) {
        return cbor_fail_at(reader, G16_UNSUPPORTED_KEY, 8, "constraint system version is not 0.14.0");
    }
    section *const sections[4] = {&file->levels, &file->instructions, &file->calldata, &file->body};
    static const char *const names[4] = {"levels", "instructions", "calldata", "body"};
    size_t place = 64;
    for (int i = 0; i < 4; i++) {
        uint64_t length;
        size_t at = reader->offset;
        if (!read_u64(reader, &length, "section length")) return 0;
        if (length > reader->size - place) {
            return cbor_fail_at(reader, G16_MALFORMED_KEY, at, "the section of %s is longer than the file", names[i]);
        }
        *sections[i] = (section){place, (size_t)length};
        place += (size_t)length;
    }
    file->coefficients = (section){place, reader->size - place};
    return 1;
}

static int read_blueprints(v014 *file) {
    cbor_reader *reader = &file->builder->reader;
    uint64_t count, tag;
    if (!cbor_array(reader, 2, 0, &count, "Blueprints")) return 0;
    if (count > MAX_BLUEPRINTS) {
        return cbor_fail_at(reader, G16_UNSUPPORTED_KEY, reader->offset, "there are more than %d blueprints", MAX_BLUEPRINTS);
    }
    for (uint64_t i = 0; i < count; i++) {
        size_t start = reader->offset;
        if (!cbor_tag(reader, &tag, "Blueprints")) return 0;
        if (tag != TAG_HINT_BLUEPRINT && tag != TAG_ROW_BLUEPRINT) {
            return cbor_fail_at(reader, G16_UNSUPPORTED_KEY, start, "blueprint tag %llu is unknown", (unsigned long long)tag);
        }
        file->is_row[i] = tag == TAG_ROW_BLUEPRINT;
        if (!cs_read_unused_feature(file->builder, "Blueprints")) return 0;
    }
    file->blueprints = (uint32_t)count;
    return 1;
}

static int read_commitments(cbor_reader *reader) {
    size_t start = reader->offset;
    uint64_t tag, count;
    if (!cbor_tag(reader, &tag, "CommitmentInfo")) return 0;
    if (tag != TAG_NO_COMMITMENTS) {
        return cbor_fail_at(reader, G16_UNSUPPORTED_KEY, start, "CommitmentInfo has tag %llu", (unsigned long long)tag);
    }
    if (!cbor_array(reader, 1, 0, &count, "CommitmentInfo")) return 0;
    if (count) return cbor_fail_at(reader, G16_UNSUPPORTED_KEY, start, "CommitmentInfo is not empty");
    return 1;
}

static int read_type(cbor_reader *reader) {
    size_t start = reader->offset;
    uint64_t type;
    if (!cbor_unsigned(reader, UINT64_MAX, &type, "Type")) return 0;
    if (type == TYPE_R1CS) return 1;
    return cbor_fail_at(reader, G16_UNSUPPORTED_KEY, start, "constraint system type %llu is not R1CS", (unsigned long long)type);
}

static int read_value(void *argument, cs_key key) {
    v014 *file = argument;
    cbor_reader *reader = &file->builder->reader;
    switch (key) {
    case CS_KEY_TYPE: return read_type(reader);
    case CS_KEY_BLUEPRINTS: return read_blueprints(file);
    case CS_KEY_ROW_COUNT: return cbor_unsigned(reader, CS_IS_HINT - 1, &file->row_count, "NbConstraints");
    case CS_KEY_COMMITMENTS: return read_commitments(reader);
    default: return cs_read_unused_feature(file->builder, "GkrInfo");
    }
}

static int read_body(v014 *file) {
    cbor_reader *reader = &file->builder->reader;
    const size_t whole = reader->size, end = file->body.offset + file->body.size;
    const uint32_t keys = CS_KEY_BIT(TYPE) | CS_KEY_BIT(BLUEPRINTS) | CS_KEY_BIT(ROW_COUNT);
    reader->offset = file->body.offset;
    reader->size = end; /* nothing beyond the section may be read */
    if (!cs_read_body(file->builder, keys, CS_KEY_BIT(GKR), read_value, file)) return 0;
    if (reader->offset != end) return cbor_fail(reader, "%zu bytes follow the map in the body", end - reader->offset);
    reader->size = whole;
    return 1;
}

static int read_coefficients(v014 *file) {
    cbor_reader *reader = &file->builder->reader;
    uint64_t count;
    reader->offset = file->coefficients.offset;
    if (!read_u64(reader, &count, "coefficient table")) return 0;
    size_t left = reader->size - reader->offset;
    if (left % 32 || count != left / 32) {
        return cbor_fail(reader, "%llu coefficients do not take the %zu bytes that remain", (unsigned long long)count, left);
    }
    if (!cs_allocate_coefficients(file->builder, count)) return 0;
    for (uint64_t i = 0; i < count; i++) {
        uint64_t limbs[4];
        for (int j = 0; j < 4; j++) limbs[j] = load_u64(reader->data + reader->offset + 8 * j);
        if (!cs_set_coefficient(file->builder, i, limbs, reader->offset)) return 0;
        reader->offset += 32;
    }
    return 1;
}

/* ---- integer columns -------------------------------------------------------------------------- */

static int bad_column(cbor_reader *reader, const char *what, const char *problem, size_t place) {
    return cbor_fail_at(reader, G16_MALFORMED_KEY, reader->offset + place, "%s: %s", what, problem);
}

/* Reads a column of the instructions section that must have `count` entries. */
static int read_column(v014 *file, void *values, unsigned width, uint64_t count, const char *what) {
    cbor_reader *reader = &file->builder->reader;
    size_t left = file->instructions.offset + file->instructions.size - reader->offset, place;
    const uint8_t *data = reader->data + reader->offset;
    intcomp_column column;
    const char *problem = width == 32 ? intcomp_read_u32(&column, values, count, data, left, &place)
                                      : intcomp_read_u64(&column, values, count, data, left, &place);
    if (problem) return bad_column(reader, what, problem, place);
    if (column.count != count) {
        return cbor_fail(reader, "%s: %llu entries, expected %llu", what, (unsigned long long)column.count,
                         (unsigned long long)count);
    }
    reader->offset += column.bytes;
    return 1;
}

/* The length of the first column is the number of instructions, which is bounded by the calldata. */
static int read_blueprint_column(v014 *file) {
    cs_builder *builder = file->builder;
    cbor_reader *reader = &builder->reader;
    const uint8_t *data = reader->data + reader->offset;
    uint64_t most = file->calldata_words / MIN_INSTRUCTION_WORDS;
    intcomp_column column;
    size_t place;
    file->blueprint = cs_allocate(builder, most, sizeof *file->blueprint);
    if (!file->blueprint) return 0;
    const char *problem = intcomp_read_u32(&column, file->blueprint, most, data, file->instructions.size, &place);
    if (problem) return bad_column(reader, "blueprint column", problem, place);
    uint64_t count = column.count, rows = 0;
    if (count >= CS_IS_HINT) return cbor_fail(reader, "there are 2^31 instructions or more");
    for (uint64_t i = 0; i < count; i++) {
        if (file->blueprint[i] >= file->blueprints) {
            return cbor_fail(reader, "instruction %llu: blueprint %u does not exist", (unsigned long long)i, file->blueprint[i]);
        }
        rows += file->is_row[file->blueprint[i]];
    }
    if (rows != file->row_count) {
        return cbor_fail(reader, "NbConstraints is %llu, but %llu instructions are constraints",
                         (unsigned long long)file->row_count, (unsigned long long)rows);
    }
    file->instruction_count = count;
    reader->offset += column.bytes;
    return 1;
}

static int read_instructions(v014 *file) {
    cs_builder *builder = file->builder;
    cbor_reader *reader = &builder->reader;
    reader->offset = file->instructions.offset;
    if (!read_blueprint_column(file)) return 0;
    uint64_t count = file->instruction_count;
    file->row_offset = cs_allocate(builder, count, sizeof *file->row_offset);
    if (!file->row_offset || !read_column(file, file->row_offset, 32, count, "constraint offset column")) return 0;
    file->wire_offset = cs_allocate(builder, count, sizeof *file->wire_offset);
    if (!file->wire_offset || !read_column(file, file->wire_offset, 32, count, "wire offset column")) return 0;
    file->start = cs_allocate(builder, count, sizeof *file->start);
    if (!file->start || !read_column(file, file->start, 64, count, "calldata start column")) return 0;
    if (reader->offset != file->instructions.offset + file->instructions.size) {
        return cbor_fail(reader, "bytes follow the columns of the instructions");
    }
    return 1;
}

static int read_levels(v014 *file) {
    cs_builder *builder = file->builder;
    cbor_reader *reader = &builder->reader;
    size_t end = file->levels.offset + file->levels.size;
    uint64_t count = file->instruction_count, levels, seen = 0;
    reader->offset = file->levels.offset;
    if (file->levels.size < 8) return cbor_fail(reader, "the section of levels is cut off");
    if (!read_u64(reader, &levels, "levels")) return 0;
    if (levels > (end - reader->offset) / 8 || levels >= CS_NO_LEVEL) {
        return cbor_fail(reader, "%llu levels do not fit the bytes that remain", (unsigned long long)levels);
    }
    file->level = cs_allocate(builder, count, sizeof *file->level);
    uint32_t *ids = file->level ? cs_allocate(builder, count, sizeof *ids) : NULL;
    int done = ids != NULL;
    if (done) memset(file->level, 0xff, (size_t)count * sizeof *file->level); /* CS_NO_LEVEL */
    for (uint64_t level = 0; done && level < levels; level++) {
        intcomp_column column;
        size_t place;
        const char *problem =
            intcomp_read_u32(&column, ids, count - seen, reader->data + reader->offset, end - reader->offset, &place);
        if (problem) done = bad_column(reader, "level column", problem, place);
        for (uint64_t i = 0; done && i < column.count; i++) {
            if (ids[i] >= count || file->level[ids[i]] != CS_NO_LEVEL) {
                done = cbor_fail(reader, "level %llu: instruction %u %s", (unsigned long long)level, ids[i],
                                 ids[i] >= count ? "does not exist" : "occurs twice in the levels");
            } else {
                file->level[ids[i]] = (uint32_t)level;
            }
        }
        if (done) {
            seen += column.count;
            reader->offset += column.bytes;
        }
    }
    free(ids);
    if (!done) return 0;
    if (reader->offset != end) return cbor_fail(reader, "bytes follow the levels");
    builder->cs->levels = (uint32_t)levels;
    if (seen == count) return 1;
    uint64_t id = 0;
    while (file->level[id] != CS_NO_LEVEL) id++;
    return cbor_fail(reader, "instruction %llu is missing from the levels", (unsigned long long)id);
}

/* ---- calldata --------------------------------------------------------------------------------- */

static int bad_word(v014 *file, const leb128_words *from, uint64_t instruction) {
    cbor_reader *reader = &file->builder->reader;
    return cbor_fail_at(reader, G16_MALFORMED_KEY, (size_t)(from->next - reader->data),
                        "instruction %llu: its calldata is cut off or has a word of 2^32 or more",
                        (unsigned long long)instruction);
}

static int read_terms(v014 *file, leb128_words *from, uint32_t count, uint32_t *expression, uint64_t instruction) {
    cs_term *terms;
    if (count > (size_t)(from->end - from->next) / 2) return bad_word(file, from, instruction);
    if (!cs_open_expression(file->builder, count, &terms)) return 0;
    for (uint32_t i = 0; i < count; i++) {
        if (!leb128_read(from, &terms[i].coefficient) || !leb128_read(from, &terms[i].wire)) {
            return bad_word(file, from, instruction);
        }
    }
    return cs_close_expression(file->builder, count, expression);
}

static int wrong_length(v014 *file, size_t place, uint64_t instruction, uint32_t length, uint64_t taken) {
    return cbor_fail_at(&file->builder->reader, G16_MALFORMED_KEY, place,
                        "instruction %llu: it says %u words, but has %llu", (unsigned long long)instruction, length,
                        (unsigned long long)taken);
}

static int read_row(v014 *file, leb128_words *from, uint64_t instruction, uint32_t row_number) {
    cs_row *row = &file->builder->cs->rows[row_number];
    size_t place = (size_t)(from->next - file->builder->reader.data);
    uint64_t before = from->taken;
    uint32_t length, left, right, out;
    if (!leb128_read(from, &length) || !leb128_read(from, &left) || !leb128_read(from, &right) || !leb128_read(from, &out)) {
        return bad_word(file, from, instruction);
    }
    uint64_t terms = (uint64_t)left + right + out;
    if (length != 4 + 2 * terms) return wrong_length(file, place, instruction, length, 4 + 2 * terms);
    if (!read_terms(file, from, left, &row->left, instruction) || !read_terms(file, from, right, &row->right, instruction) ||
        !read_terms(file, from, out, &row->out, instruction)) {
        return 0;
    }
    if (from->taken - before != length) return wrong_length(file, place, instruction, length, from->taken - before);
    row->level = file->level[instruction];
    file->builder->cs->file_terms += terms;
    return 1;
}

static int read_hint(v014 *file, leb128_words *from, uint64_t instruction) {
    cs_builder *builder = file->builder;
    size_t place = (size_t)(from->next - builder->reader.data);
    uint64_t before = from->taken;
    uint32_t length, id, inputs, count, input = 0, first, end;
    if (!leb128_read(from, &length) || !leb128_read(from, &id) || !leb128_read(from, &inputs)) return bad_word(file, from, instruction);
    for (uint32_t i = 0; i < inputs; i++) {
        if (!leb128_read(from, &count)) return bad_word(file, from, instruction);
        if (!read_terms(file, from, count, &input, instruction)) return 0;
    }
    if (!leb128_read(from, &first) || !leb128_read(from, &end)) return bad_word(file, from, instruction);
    if (from->taken - before != length) return wrong_length(file, place, instruction, length, from->taken - before);
    return cs_add_hint(builder, id, inputs, input, first, end > first ? end - first : 0, place);
}

static int read_calldata(v014 *file) {
    cs_builder *builder = file->builder;
    cbor_reader *reader = &builder->reader;
    uint64_t instructions = file->instruction_count;
    uint64_t wires = (uint64_t)builder->cs->public_wires + builder->cs->secret_wires + builder->cs->internal_wires;
    leb128_words from = {.next = reader->data + file->calldata.offset + 8,
                  .end = reader->data + file->calldata.offset + file->calldata.size};
    if (!cs_allocate_rows(builder, file->row_count)) return 0;
    builder->rows_offset = file->calldata.offset;
    builder->order = cs_allocate(builder, instructions, sizeof *builder->order);
    if (!builder->order) return 0;
    uint32_t rows = 0;
    for (uint64_t i = 0; i < instructions; i++) {
        size_t place = (size_t)(from.next - reader->data);
        if (file->start[i] != from.taken) {
            return cbor_fail_at(reader, G16_MALFORMED_KEY, place, "instruction %llu: its calldata starts at word %llu, not %llu",
                                (unsigned long long)i, (unsigned long long)from.taken, (unsigned long long)file->start[i]);
        }
        if (file->row_offset[i] != rows) {
            return cbor_fail_at(reader, G16_MALFORMED_KEY, place, "instruction %llu: its constraint offset is %u, not %u",
                                (unsigned long long)i, file->row_offset[i], rows);
        }
        if (file->wire_offset[i] > wires) {
            return cbor_fail_at(reader, G16_MALFORMED_KEY, place, "instruction %llu: its wire offset %u is above the number of wires",
                                (unsigned long long)i, file->wire_offset[i]);
        }
        if (file->is_row[file->blueprint[i]]) {
            if (!read_row(file, &from, i, rows)) return 0;
            builder->order[i] = rows++;
        } else {
            if (!read_hint(file, &from, i)) return 0;
            builder->order[i] = CS_IS_HINT | (builder->cs->hints_count - 1);
        }
        if (i % 4096 == 0 && cs_cancelled(builder)) return 0;
    }
    if (from.next != from.end || from.taken != file->calldata_words) {
        return cbor_fail_at(reader, G16_MALFORMED_KEY, (size_t)(from.next - reader->data),
                            "the instructions end at word %llu of %llu of the calldata", (unsigned long long)from.taken,
                            (unsigned long long)file->calldata_words);
    }
    builder->order_count = (uint32_t)instructions;
    return 1;
}

/* Reads the number of words, which bounds the number of instructions. */
static int read_calldata_head(v014 *file) {
    cbor_reader *reader = &file->builder->reader;
    reader->offset = file->calldata.offset;
    if (file->calldata.size < 8) return cbor_fail(reader, "the section of calldata is cut off");
    if (!read_u64(reader, &file->calldata_words, "calldata")) return 0;
    if (file->calldata_words <= file->calldata.size - 8) return 1;
    return cbor_fail(reader, "%llu words of calldata do not fit the bytes that remain", (unsigned long long)file->calldata_words);
}

int cs_read_v014(cs_builder *builder) {
    v014 file = {.builder = builder};
    int done = read_frame(&file) && read_body(&file) && read_coefficients(&file) && read_calldata_head(&file) &&
               read_instructions(&file) && read_levels(&file) && read_calldata(&file);
    free(file.blueprint);
    free(file.row_offset);
    free(file.wire_offset);
    free(file.level);
    free(file.start);
    builder->reader.offset = builder->reader.size; /* the sections cover the whole file */
    return done;
}
