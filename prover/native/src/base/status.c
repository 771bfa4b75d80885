/* base/status.c - status names and the error record. */
#include <stdarg.h>
#include <stdio.h>

#include "base/status.h"

static const char *const STATUS_NAMES[G16_STATUS_COUNT] = {
    "ok",
    "invalid_argument",
    "out_of_memory",
    "cancelled",
    "malformed_key",
    "unsupported_key",
    "unsatisfied_constraint",
    "malformed_proof",
    "proof_rejected",
    "randomness_unavailable",
    "threads_unavailable",
    "device_unavailable",
    "device_out_of_memory",
    "device_lost",
};

const char *g16_status_name(g16_status status) {
    return (unsigned)status < G16_STATUS_COUNT ? STATUS_NAMES[status] : "unknown_status";
}

g16_status g16_fail(g16_error *error, g16_status status, uint64_t offset, const char *format, ...) {
    if (error) {
        va_list arguments;
        va_start(arguments, format);
        vsnprintf(error->message, sizeof error->message, format, arguments);
        va_end(arguments);
        error->offset = offset;
        error->constraint = 0;
    }
    return status;
}
