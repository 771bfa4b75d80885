/* gpu/parts.h - the instructions that the CPU keeps, and the components of the others. Private to gpu/chains.c. */
#ifndef G16_GPU_PARTS_H
#define G16_GPU_PARTS_H

#include "r1cs/constraint_system.h"

/* The CPU's first and second part, and the GPU's. */
#define CS_PARTS 3
#define CS_DEVICE_PART 2

typedef struct cs_parts {
    uint32_t *program;          /* [solvers] instructions, component by component, each in the order of the system's program */
    uint32_t *start;            /* [first[CS_PARTS] + 1] into program */
    uint32_t first[CS_PARTS + 1]; /* first component of each part; small components of the CPU are merged */
    int is_disordered;            /* the program solves a wire after an instruction that reads it, so there are no parts */
} cs_parts;

/* Returns 1, or 0 when disordered, out of memory, or when the flag was set. */
int cs_parts_build(cs_parts *parts, const constraint_system *cs, const g16_cancel *cancel);
void cs_parts_free(cs_parts *parts);

#endif
