/* gnark/intcomp.c - see gnark/intcomp.h. One implementation for both word widths, which the compiler specialises. */
#include "gnark/intcomp.h"

#include <string.h>

/* Groups per unit: a descriptor word has one byte for each. */
#define GROUPS 4

typedef struct column_state {
    const uint8_t *words; /* first word after the word count */
    uint64_t word_count;
    uint64_t position;    /* next word */
    uint64_t produced;
    uint64_t capacity;
    void *values;
} column_state;

static inline uint64_t load(const uint8_t *bytes, unsigned width) {
    uint64_t value = 0;
    for (unsigned i = 0; i < width / 8; i++) value |= (uint64_t)bytes[i] << (8 * i);
    return value;
}

static inline uint64_t word_at(const column_state *state, uint64_t index, unsigned width) {
    return load(state->words + index * (width / 8), width);
}

static inline void store(column_state *state, uint64_t value, unsigned width) {
    if (width == 32) {
        ((uint32_t *)state->values)[state->produced++] = (uint32_t)value;
    } else {
        ((uint64_t *)state->values)[state->produced++] = value;
    }
}

/* Returns packed value i of `bits` bits; packing starts at the least significant bit of the first word. */
static inline uint64_t packed_value(const column_state *state, uint64_t first_word, unsigned index, unsigned bits,
                                    unsigned width) {
    unsigned bit = index * bits;
    uint64_t word = first_word + bit / width;
    unsigned shift = bit % width;
    uint64_t value = word_at(state, word, width) >> shift;
    if (shift + bits > width) value |= word_at(state, word + 1, width) << (width - shift);
    return value & (((uint64_t)1 << bits) - 1);
}

static inline const char *packed_block(column_state *state, uint64_t count, uint64_t end, unsigned width) {
    const uint64_t mask = width == 64 ? ~(uint64_t)0 : ((uint64_t)1 << width) - 1;
    uint64_t header = width == 32 ? 3 : 2;
    if (end - state->position < header) return "a packed block is shorter than its header";
    uint64_t previous = word_at(state, state->position + header - 1, width);
    uint64_t next = state->position + header;
    for (uint64_t unit = 0; unit < count / (GROUPS * width); unit++) {
        if (next >= end) return "a packed block ends early";
        uint64_t descriptor = word_at(state, next++, width);
        if (width == 64 && descriptor >> 32) return "a packed block describes signed values";
        for (unsigned group = 0; group < GROUPS; group++) {
            unsigned byte = (unsigned)(descriptor >> (8 * (GROUPS - 1 - group))) & 0xff;
            unsigned bits = byte & 0x7f;
            int zigzag = byte >> 7;
            if (bits > width) return "a packed group has more bits than a word";
            if (end - next < bits) return "a packed block ends early";
            for (unsigned i = 0; i < width; i++) {
                if (bits == width) {
                    previous = word_at(state, next + i, width);
                } else if (bits) {
                    uint64_t difference = packed_value(state, next, i, bits, width);
                    if (zigzag) difference = (difference >> 1) ^ ((uint64_t)0 - (difference & 1));
                    previous = (previous + difference) & mask;
                }
                store(state, previous, width);
            }
            next += bits;
        }
    }
    state->position = next;
    return NULL;
}

static inline const char *small_block(column_state *state, uint64_t count, uint64_t end, unsigned width) {
    const uint64_t mask = width == 64 ? ~(uint64_t)0 : ((uint64_t)1 << width) - 1;
    const unsigned word_bytes = width / 8;
    uint64_t start = state->position + (width == 32 ? 2 : 1);
    if (end < start) return "a block is shorter than its header";
    uint64_t bytes = (end - start) * word_bytes, next = 0, previous = 0;
    const uint8_t *base = state->words + start * word_bytes;
/* Within a word, bytes are stored from the most significant one down. */
#define BYTE_AT(i) base[(i) / word_bytes * word_bytes + (word_bytes - 1 - (i) % word_bytes)]
    for (uint64_t i = 0; i < count; i++) {
        uint64_t difference = 0;
        unsigned shift = 0;
        uint8_t byte;
        do {
            if (next >= bytes) return "a block ends inside a value";
            byte = BYTE_AT(next);
            next++;
            if (shift >= width || (shift + 7 > width && (byte & 0x7f) >> (width - shift))) {
                return "a value is wider than a word";
            }
            difference |= (uint64_t)(byte & 0x7f) << shift;
            shift += 7;
        } while (byte & 0x80);
        previous = (previous + difference) & mask;
        store(state, previous, width);
    }
    if (bytes - next >= word_bytes) return "a block is longer than its values";
    for (; next < bytes; next++) {
        if (BYTE_AT(next) != 0x80) return "a block is padded with other bytes than 0x80";
    }
#undef BYTE_AT
    state->position = end;
    return NULL;
}

static inline const char *read_blocks(column_state *state, uint64_t *place, unsigned width) {
    const uint64_t packed_from = GROUPS * (uint64_t)width;
    uint64_t last_length = 0;
    while (state->word_count - state->position > 1) {
        uint64_t start = state->position, count, length;
        *place = start;
        if (width == 32) {
            count = word_at(state, start, width);
            length = word_at(state, start + 1, width);
        } else {
            uint64_t header = word_at(state, start, width);
            count = header & 0xffffffff;
            length = header >> 32;
        }
        if (count == 0) return "a block has no values";
        if (length < 2 || length > state->word_count - 1 - start) return "a block length is out of range";
        if (count > state->capacity - state->produced) return "there are more values than expected";
        const char *problem;
        if (count >= packed_from) {
            if (count % packed_from) return "a packed block has a partial unit";
            problem = packed_block(state, count, start + length, width);
        } else {
            problem = small_block(state, count, start + length, width);
        }
        if (problem) return problem;
        if (state->position != start + length) return "a block does not end where its length says";
        last_length = length;
    }
    *place = state->position;
    if (state->position == state->word_count) {
        return state->word_count ? "the last block length is missing" : NULL;
    }
    if (last_length == 0 || word_at(state, state->position, width) != last_length) {
        return "the last word is not the length of the last block";
    }
    return NULL;
}

static inline const char *read_column(intcomp_column *column, void *values, uint64_t capacity, const uint8_t *data,
                                      size_t size, size_t *place, unsigned width) {
    *place = 0;
    if (size < 8) return "the word count is cut off";
    uint64_t word_count = load(data, 64);
    if (word_count > (size - 8) / (width / 8)) return "there are fewer bytes than the word count says";
    column_state state = {.words = data + 8, .word_count = word_count, .capacity = capacity, .values = values};
    uint64_t word = 0;
    const char *problem = read_blocks(&state, &word, width);
    if (problem) {
        *place = 8 + (size_t)word * (width / 8);
        return problem;
    }
    column->count = state.produced;
    column->bytes = 8 + (size_t)word_count * (width / 8);
    return NULL;
}

const char *intcomp_read_u32(intcomp_column *column, uint32_t *values, uint64_t capacity, const uint8_t *data,
                             size_t size, size_t *place) {
    return read_column(column, values, capacity, data, size, place, 32);
}

const char *intcomp_read_u64(intcomp_column *column, uint64_t *values, uint64_t capacity, const uint8_t *data,
                             size_t size, size_t *place) {
    return read_column(column, values, capacity, data, size, place, 64);
}
