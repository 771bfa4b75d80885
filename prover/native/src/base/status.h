/* base/status.h - the error record that calls fill. */
#ifndef G16_BASE_STATUS_H
#define G16_BASE_STATUS_H

#include "groth16.h"

/* Fills *error (if not NULL) with a formatted message and returns status. */
g16_status g16_fail(g16_error *error, g16_status status, uint64_t offset, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

#endif
