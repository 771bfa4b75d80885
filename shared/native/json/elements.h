/* json/elements.h - reads JSON arrays of hexadecimal strings straight into field elements.
 *
 * Only the usual spelling is read: "0x", then 1 to 64 digits of a value below r, without escapes. Thread-safe, stateless, no
 * allocation.
 */
#ifndef SHARED_JSON_ELEMENTS_H
#define SHARED_JSON_ELEMENTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define JSON_ELEMENT_LEAST_BYTES 6 /* an element in an array: two quotes, 0x, a digit, and the bracket or comma before it */
#define JSON_ROW_LEAST_BYTES 3     /* an inner array with the bracket or comma before it */

/* Reads a whole text that is an array of strings, or if `nested` an array of such arrays. Writes 32 big-endian bytes for each
 * string to `out`, the number of strings of each innermost array to `lengths`, and the number of innermost arrays to *rows. The
 * rooms in elements are at least size / JSON_ELEMENT_LEAST_BYTES and 1 + size / JSON_ROW_LEAST_BYTES. Returns false for any other
 * text, valid or not; then the outputs are unspecified. */
bool json_elements(uint8_t *out, uint32_t *lengths, size_t *rows, const uint8_t *text, size_t size, bool nested);

#endif
