/* base/random.h - random scalars from the operating system. */
#ifndef G16_BASE_RANDOM_H
#define G16_BASE_RANDOM_H

#include "groth16.h"

/* Random bytes; 0 where the system gives none. */
int os_random_fill(uint8_t *out, size_t bytes);

/* A uniform scalar below r, 32 bytes big-endian, by rejection. */
g16_status os_random_scalar(uint8_t out[32]);

/* Whether all 32 bytes are zero. */
static inline int os_random_is_zero(const uint8_t scalar[32]) {
    uint8_t any = 0;
    for (int i = 0; i < 32; i++) any |= scalar[i];
    return any == 0;
}

/* Clears memory in a way that the compiler keeps. */
void os_random_wipe(void *memory, size_t bytes);

#endif
