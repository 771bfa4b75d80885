/* gnark/reader.c - see gnark/reader.h. */
#include "gnark/reader.h"

#include <stdlib.h>
#include <string.h>

#include "gnark/builder.h"
#include "gnark/steps.h"

g16_status constraint_system_read(constraint_system *cs, const uint8_t *data, size_t size, uint64_t base_offset,
                                  g16_format_version format_version, const g16_cancel *cancel, g16_error *error) {
    memset(cs, 0, sizeof *cs);
    cs_builder builder = {
        .cs = cs,
        .reader = {.data = data, .size = size, .base_offset = base_offset, .error = error, .status = G16_OK},
        .cancel = cancel,
        .format_version = format_version,
    };
    int done = format_version == G16_FORMAT_0_8 ? cs_read_v08(&builder) : cs_read_v014(&builder);
    if (done && builder.reader.offset != size) {
        done = cbor_fail(&builder.reader, "%zu bytes follow the constraint system", size - builder.reader.offset);
    }
    done = done && cs_order(&builder) && cs_schedule(&builder);
    free(builder.order);
    free(builder.place_level);
    free(builder.solved_by);
    if (done) return G16_OK;
    constraint_system_free(cs);
    return builder.reader.status;
}
