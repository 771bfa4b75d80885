/* gnark/steps.h - the steps of reading a constraint system, one file each. All return 1, or 0 with the reader's status and error
 * set. */
#ifndef G16_GNARK_STEPS_H
#define G16_GNARK_STEPS_H

#include "gnark/builder.h"

/* gnark/v08.c, gnark/v014.c: decode a file of that format version into the builder. */
int cs_read_v08(cs_builder *builder);
int cs_read_v014(cs_builder *builder);

/* gnark/order.c. Checks ids, inserts lazy hints, and verifies that the instructions solve each wire exactly once. */
int cs_order(cs_builder *builder);
/* gnark/schedule.c. Divides the ordered instructions into slices and components. */
int cs_schedule(cs_builder *builder);

#endif
