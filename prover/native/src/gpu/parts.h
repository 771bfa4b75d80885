/* gpu/parts.h - which instructions the processor keeps, and the components of what is left. Private to
 * gpu/chains.c. */
#ifndef G16_GPU_PARTS_H
#define G16_GPU_PARTS_H

#include "r1cs/constraint_system.h"

/* The processor's first and second part, and the device's. */
#define CS_PARTS 3
#define CS_DEVICE_PART 2

typedef struct cs_parts {
    uint32_t *program;          /* [solvers] instructions, component after component, each in the order of the system's program */
    uint32_t *start;            /* [first[CS_PARTS] + 1] into program */
    uint32_t first[CS_PARTS + 1]; /* component of a part; small ones of the processor's share one */
} cs_parts;

/* 1, or 0 when there was no memory or the flag was raised. */
int cs_parts_make(cs_parts *parts, const constraint_system *cs, const g16_cancel *cancel);
void cs_parts_free(cs_parts *parts);

#endif
