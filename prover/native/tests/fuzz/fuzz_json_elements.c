/* fuzz_json_elements.c - texts that are meant to be arrays of numbers, from bytes that nobody vouches for.
 *
 * The first byte of an input says how deep the array is. What is read must fit, be below r, and be read again from the same
 * numbers in the longest spelling.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "json/elements.c"

#define REQUIRE(condition)                                                                                   \
    do {                                                                                                     \
        if (!(condition)) abort();                                                                           \
    } while (0)

enum { WRITTEN_BYTES = 5 + ELEMENT_DIGITS, ROW_BYTES = 3 };

static size_t write_again(char *text, const uint8_t *elements, const uint32_t *lengths, size_t rows, bool nested) {
    char *at = text;
    if (nested) *at++ = '[';
    for (size_t row = 0; row < rows; row++) {
        if (row) *at++ = ',';
        *at++ = '[';
        for (uint32_t i = 0; i < lengths[row]; i++, elements += ELEMENT_BYTES) {
            if (i) *at++ = ',';
            at += sprintf(at, "\"0x");
            for (uint32_t j = 0; j < ELEMENT_BYTES; j++) at += sprintf(at, "%02x", elements[j]);
            *at++ = '"';
        }
        *at++ = ']';
    }
    if (nested) *at++ = ']';
    return (size_t)(at - text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size == 0) return 0;
    /* Buffers of the exact size, so that a byte too far is seen. */
    const size_t length = size - 1, room = length / JSON_ELEMENT_LEAST_BYTES, rooms = 1 + length / JSON_ROW_LEAST_BYTES;
    const bool nested = data[0] & 1;
    uint8_t *text = malloc(length ? length : 1), *out = malloc(room ? room * ELEMENT_BYTES : 1);
    uint32_t *lengths = malloc(rooms * sizeof *lengths);
    REQUIRE(text && out && lengths);
    memcpy(text, data + 1, length);
    size_t rows, rows_again, count = 0;
    if (json_elements(out, lengths, &rows, text, length, nested)) {
        REQUIRE(rows <= rooms && (nested || rows == 1));
        for (size_t i = 0; i < rows; i++) count += lengths[i];
        REQUIRE(count <= room);
        char *written = malloc(count * WRITTEN_BYTES + rows * ROW_BYTES + 3);
        uint8_t *again = malloc(count ? count * ELEMENT_BYTES : 1);
        uint32_t *lengths_again = malloc(rows ? rows * sizeof *lengths_again : 1);
        REQUIRE(written && again && lengths_again);
        const size_t written_bytes = write_again(written, out, lengths, rows, nested);
        REQUIRE(json_elements(again, lengths_again, &rows_again, (const uint8_t *)written, written_bytes, nested));
        REQUIRE(rows_again == rows && memcmp(again, out, count * ELEMENT_BYTES) == 0);
        REQUIRE(memcmp(lengths_again, lengths, rows * sizeof *lengths) == 0);
        free(written);
        free(again);
        free(lengths_again);
    }
    free(text);
    free(out);
    free(lengths);
    return 0;
}
