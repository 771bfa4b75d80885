/* base/random.h - random scalars from the operating system, and wiping of secrets. */
#ifndef G16_BASE_RANDOM_H
#define G16_BASE_RANDOM_H

#include "groth16.h"

/* Fills `out` with random bytes; returns 0 when the system provides none. */
int os_random_fill(uint8_t *out, size_t bytes);

/* Draws a uniform scalar below r by rejection, 32 bytes big-endian. */
g16_status os_random_scalar(uint8_t out[32]);

/* Returns 1 when all 32 bytes are zero. */
static inline int os_random_is_zero(const uint8_t scalar[32]) {
    uint8_t any = 0;
    for (int i = 0; i < 32; i++) any |= scalar[i];
    return any == 0;
}

/* Clears memory by writes that the compiler does not remove. */
void os_random_wipe(void *memory, size_t bytes);

#endif
