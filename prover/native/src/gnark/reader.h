/* gnark/reader.h - reads constraint systems of gnark 0.8 and 0.14. */
#ifndef G16_GNARK_READER_H
#define G16_GNARK_READER_H

#include "r1cs/constraint_system.h"

/* Reads a constraint system of the given format version from data[0 .. size), which it must fill exactly; base_offset is the
 * offset of data[0] in the key file, for error->offset. Verifies the system, including that the program solves each wire exactly
 * once. */
g16_status constraint_system_read(constraint_system *cs, const uint8_t *data, size_t size,
                                  uint64_t base_offset, g16_format_version format_version,
                                  const g16_cancel *cancel, g16_error *error);

#endif
