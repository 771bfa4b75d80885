/* gnark/intcomp.h - reads the compressed integer columns in key files of format version 0.14.
 *
 * A column is a u64le word count and as many little-endian words of 32 or 64 bits: blocks of bit-packed or byte-coded
 * differences, then the length of the last block. gnark writes them with the Go library intcomp.
 */
#ifndef G16_GNARK_INTCOMP_H
#define G16_GNARK_INTCOMP_H

#include "groth16.h"

typedef struct intcomp_column {
    uint64_t count; /* number of values */
    size_t bytes;   /* length of the encoding, including the word count */
} intcomp_column;

/* Reads the column that starts at data[0] and ends within `size` bytes to values[0 .. column->count). More than `capacity` values
 * are refused before any is written beyond it. Returns NULL, or an English phrase that describes the error; *place is then its
 * byte offset. */
const char *intcomp_read_u32(intcomp_column *column, uint32_t *values, uint64_t capacity, const uint8_t *data,
                             size_t size, size_t *place);
const char *intcomp_read_u64(intcomp_column *column, uint64_t *values, uint64_t capacity, const uint8_t *data,
                             size_t size, size_t *place);

#endif
