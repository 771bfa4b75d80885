/* gnark/cbor.c - see gnark/cbor.h. */
#include "gnark/cbor.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/status.h"

#define CBOR_NULL 22

static int fail_with(cbor_reader *reader, g16_status status, size_t offset, const char *format, va_list arguments) {
    char message[sizeof reader->error->message];
    vsnprintf(message, sizeof message, format, arguments);
    int has_place = status == G16_MALFORMED_KEY || status == G16_UNSUPPORTED_KEY;
    reader->status = g16_fail(reader->error, status, has_place ? reader->base_offset + offset : 0, "%s", message);
    return 0;
}

int cbor_fail(cbor_reader *reader, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    fail_with(reader, G16_MALFORMED_KEY, reader->offset, format, arguments);
    va_end(arguments);
    return 0;
}

int cbor_fail_at(cbor_reader *reader, g16_status status, size_t offset, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    fail_with(reader, status, offset, format, arguments);
    va_end(arguments);
    return 0;
}

static size_t remaining(const cbor_reader *reader) { return reader->size - reader->offset; }

int cbor_head(cbor_reader *reader, unsigned *major, uint64_t *argument, const char *what) {
    size_t start = reader->offset;
    *major = 0;
    *argument = 0;
    if (remaining(reader) < 1) return cbor_fail(reader, "%s: the file ends early", what);
    uint8_t first = reader->data[reader->offset++];
    unsigned info = first & 31;
    *major = first >> 5;
    if (info < 24) {
        *argument = info;
        return 1;
    }
    if (info > 27) {
        return cbor_fail_at(reader, G16_MALFORMED_KEY, start, "%s: indefinite or reserved CBOR length", what);
    }
    size_t width = (size_t)1 << (info - 24);
    if (remaining(reader) < width) {
        return cbor_fail_at(reader, G16_MALFORMED_KEY, start, "%s: the file ends early", what);
    }
    uint64_t value = 0;
    for (size_t i = 0; i < width; i++) value = (value << 8) | reader->data[reader->offset++];
    /* Only the shortest encoding is accepted. */
    uint64_t smallest = width == 1 ? 24 : (uint64_t)1 << (4 * width);
    if (value < smallest) {
        return cbor_fail_at(reader, G16_MALFORMED_KEY, start, "%s: CBOR number is not in its shortest form", what);
    }
    *argument = value;
    return 1;
}

/* Reads a head of the given major type; with null_ok, null sets *argument = 0. */
static int head_of(cbor_reader *reader, unsigned expected, int null_ok, uint64_t *argument, const char *what) {
    size_t start = reader->offset;
    unsigned major;
    if (!cbor_head(reader, &major, argument, what)) return 0;
    if (null_ok && major == CBOR_SIMPLE && *argument == CBOR_NULL) {
        *argument = 0;
        return 1;
    }
    if (major != expected) {
        static const char *const names[8] = {"an unsigned integer", "a negative integer", "a byte string", "a text",
                                             "an array",            "a map",              "a tag",         "a simple value"};
        return cbor_fail_at(reader, G16_MALFORMED_KEY, start, "%s: expected %s, found %s", what, names[expected],
                            names[major]);
    }
    return 1;
}

int cbor_unsigned(cbor_reader *reader, uint64_t limit, uint64_t *value, const char *what) {
    size_t start = reader->offset;
    if (!head_of(reader, CBOR_UNSIGNED, 0, value, what)) return 0;
    if (*value > limit) {
        return cbor_fail_at(reader, G16_MALFORMED_KEY, start, "%s: %llu is above the limit %llu", what,
                            (unsigned long long)*value, (unsigned long long)limit);
    }
    return 1;
}

static int counted(cbor_reader *reader, unsigned major, size_t min_bytes, int null_ok, uint64_t *count,
                   const char *what) {
    size_t start = reader->offset;
    if (!head_of(reader, major, null_ok, count, what)) return 0;
    if (*count > remaining(reader) / min_bytes) {
        return cbor_fail_at(reader, G16_MALFORMED_KEY, start, "%s: %llu items do not fit the bytes that remain", what,
                            (unsigned long long)*count);
    }
    return 1;
}

int cbor_array(cbor_reader *reader, size_t min_item_bytes, int null_ok, uint64_t *count, const char *what) {
    return counted(reader, CBOR_ARRAY, min_item_bytes, null_ok, count, what);
}

int cbor_map(cbor_reader *reader, size_t min_pair_bytes, int null_ok, uint64_t *count, const char *what) {
    return counted(reader, CBOR_MAP, min_pair_bytes, null_ok, count, what);
}

int cbor_text(cbor_reader *reader, size_t limit, const uint8_t **text, size_t *length, const char *what) {
    size_t start = reader->offset;
    uint64_t bytes;
    if (!counted(reader, CBOR_TEXT, 1, 0, &bytes, what)) return 0;
    if (bytes > limit) {
        return cbor_fail_at(reader, G16_MALFORMED_KEY, start, "%s: text is longer than %zu bytes", what, limit);
    }
    *text = reader->data + reader->offset;
    *length = (size_t)bytes;
    reader->offset += (size_t)bytes;
    return 1;
}

int cbor_tag(cbor_reader *reader, uint64_t *tag, const char *what) { return head_of(reader, CBOR_TAG, 0, tag, what); }

int cbor_skip(cbor_reader *reader, unsigned depth, const char *what) {
    uint64_t open[CBOR_MAX_DEPTH + 1]; /* items still to read at each nesting level */
    unsigned level = 0;
    open[0] = 1;
    for (;;) {
        while (open[level] == 0) {
            if (level == 0) return 1;
            level--;
        }
        open[level]--;
        size_t start = reader->offset;
        unsigned major;
        uint64_t argument;
        if (!cbor_head(reader, &major, &argument, what)) return 0;
        switch (major) {
        case CBOR_UNSIGNED:
        case CBOR_NEGATIVE: break;
        case CBOR_BYTES:
        case CBOR_TEXT:
            if (argument > remaining(reader)) {
                return cbor_fail_at(reader, G16_MALFORMED_KEY, start, "%s: the file ends inside a string", what);
            }
            reader->offset += (size_t)argument;
            break;
        case CBOR_ARRAY:
        case CBOR_MAP:
        case CBOR_TAG: {
            uint64_t items = argument;
            if (major == CBOR_TAG) items = 1;
            if (items > remaining(reader) / (major == CBOR_MAP ? 2 : 1)) {
                return cbor_fail_at(reader, G16_MALFORMED_KEY, start, "%s: %llu items do not fit the bytes that remain",
                                    what, (unsigned long long)items);
            }
            if (level + depth >= CBOR_MAX_DEPTH) {
                return cbor_fail_at(reader, G16_MALFORMED_KEY, start, "%s: nested deeper than %d", what, CBOR_MAX_DEPTH);
            }
            open[++level] = major == CBOR_MAP ? 2 * items : items;
            break;
        }
        default:
            if (argument < 20 || argument > 22) { /* false, true, null */
                return cbor_fail_at(reader, G16_MALFORMED_KEY, start, "%s: unexpected CBOR simple value or float", what);
            }
        }
    }
}

int cbor_text_is(const uint8_t *text, size_t length, const char *expected) {
    return length == strlen(expected) && memcmp(text, expected, length) == 0;
}
