/* json/compact.h - removes white space and unwanted members from JSON, with bounded output.
 *
 * Reads a text of RFC 8259 once, without recursion, and checks its whole grammar. Bytes above 0x7f and surrogates in \u escapes
 * are not checked; that is left to the decoder of the result. Thread-safe, stateless, no allocation.
 */
#ifndef SHARED_JSON_COMPACT_H
#define SHARED_JSON_COMPACT_H

#include <stddef.h>
#include <stdint.h>

#define JSON_COMPACT_MOST_DEPTH 512 /* nesting of arrays and objects */
#define JSON_COMPACT_MOST_NAMES 64
#define JSON_COMPACT_MOST_NAME_BYTES 63

typedef enum json_compact_status {
    JSON_COMPACT_OK = 0,
    JSON_COMPACT_MALFORMED,    /* at *place */
    JSON_COMPACT_TRUNCATED,    /* the text ends too early */
    JSON_COMPACT_TRAILING,     /* more text after the value, at *place */
    JSON_COMPACT_TOO_DEEP,     /* at *place */
    JSON_COMPACT_TOO_LONG,     /* the result has more than `room` bytes */
    JSON_COMPACT_INVALID_NAMES /* too many names, or one too long */
} json_compact_status;

/* Writes at most `room` bytes to `out`, or nothing if the result is a part of the text. *result becomes its address and *written the
 * number of its bytes. `names`: names of members to keep, in every object, each followed by a line feed. A name that is written with an
 * escape is kept as well. Duplicates are kept. */
json_compact_status json_compact(uint8_t *out, size_t room, const uint8_t **result, size_t *written, const uint8_t *text, size_t size,
                                 const char *names, size_t *place);

/* Returns the number of commas in a text, those in strings included. */
size_t json_commas(const uint8_t *text, size_t size);

#endif
