/* gnark/cbor.h - a bounded reader of CBOR (RFC 8949) for untrusted key files.
 *
 * It accepts core deterministic encoding: definite lengths and shortest integers. Nesting is limited to CBOR_MAX_DEPTH, and every
 * count is checked against the bytes that remain before the caller allocates memory for it. The reader neither allocates nor
 * recurses.
 *
 * Every function returns 1, or 0 after it has written status, offset and message to the reader's error; the caller only returns.
 * `what` names the item in messages.
 */
#ifndef G16_GNARK_CBOR_H
#define G16_GNARK_CBOR_H

#include "groth16.h"

#define CBOR_MAX_DEPTH 8

typedef struct cbor_reader {
    const uint8_t *data;
    size_t size;
    size_t offset;        /* next byte, at most size */
    uint64_t base_offset; /* offset of data[0] in the key file */
    g16_error *error;     /* may be NULL */
    g16_status status;    /* G16_OK until an error occurs */
} cbor_reader;

enum cbor_major {
    CBOR_UNSIGNED = 0,
    CBOR_NEGATIVE = 1,
    CBOR_BYTES = 2,
    CBOR_TEXT = 3,
    CBOR_ARRAY = 4,
    CBOR_MAP = 5,
    CBOR_TAG = 6,
    CBOR_SIMPLE = 7
};

/* Fails with G16_MALFORMED_KEY at the current offset. Returns 0. */
int cbor_fail(cbor_reader *reader, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* The same with another status and offset (into data). */
int cbor_fail_at(cbor_reader *reader, g16_status status, size_t offset, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* Reads the initial byte of an item and its argument. */
int cbor_head(cbor_reader *reader, unsigned *major, uint64_t *argument, const char *what);
/* Reads an unsigned integer of at most `limit`. */
int cbor_unsigned(cbor_reader *reader, uint64_t limit, uint64_t *value, const char *what);
/* Reads the head of an array whose items take at least min_item_bytes each. With null_ok, null is an empty array. */
int cbor_array(cbor_reader *reader, size_t min_item_bytes, int null_ok, uint64_t *count, const char *what);
/* Reads the head of a map; count is its number of pairs. With null_ok, null is an empty map. */
int cbor_map(cbor_reader *reader, size_t min_pair_bytes, int null_ok, uint64_t *count, const char *what);
/* Reads a text of at most `limit` bytes; *text points into the reader's data. */
int cbor_text(cbor_reader *reader, size_t limit, const uint8_t **text, size_t *length, const char *what);
/* Reads a tag; its item follows. */
int cbor_tag(cbor_reader *reader, uint64_t *tag, const char *what);
/* Skips one whole item of any type inside `depth` enclosing arrays and maps. */
int cbor_skip(cbor_reader *reader, unsigned depth, const char *what);

/* Returns 1 when the text equals `expected`. */
int cbor_text_is(const uint8_t *text, size_t length, const char *expected);

#endif
