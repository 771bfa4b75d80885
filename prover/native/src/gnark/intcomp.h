/* gnark/intcomp.h - reader of the compressed integer columns in key files of generation 0.14.
 *
 * A column is a u64le word count and that many little-endian words of 32 or 64 bits: blocks of
 * bit-packed or byte-coded differences, then the length of the last block. gnark writes them by the Go
 * library intcomp.
 */
#ifndef G16_GNARK_INTCOMP_H
#define G16_GNARK_INTCOMP_H

#include "groth16.h"

typedef struct intcomp_column {
    uint64_t count; /* values */
    size_t bytes;   /* length of the encoding, word count included */
} intcomp_column;

/* Reads the column that starts at data[0] and lies within `size` bytes. Values go to values[0 .. column->count);
 * more than `capacity` of them are refused before anything is written past the end. Returns NULL, or an English
 * phrase that says what is wrong and *place, the byte where. */
const char *intcomp_read_u32(intcomp_column *column, uint32_t *values, uint64_t capacity, const uint8_t *data,
                             size_t size, size_t *place);
const char *intcomp_read_u64(intcomp_column *column, uint64_t *values, uint64_t capacity, const uint8_t *data,
                             size_t size, size_t *place);

#endif
