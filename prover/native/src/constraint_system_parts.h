/* constraint_system_parts.h - which instructions the processor keeps, and the components of what is left. Private to
 * constraint_system_chains.c, constraint_system_parts.c and constraint_system_programs.c. */
#ifndef G16_CONSTRAINT_SYSTEM_PARTS_H
#define G16_CONSTRAINT_SYSTEM_PARTS_H

#include "constraint_system_chains.h"

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

/* ---- programs (constraint_system_programs.c) ---- */

#define CS_SHAPES 256

typedef struct cs_shape {
    uint64_t hash; /* of the code */
    uint32_t *code, code_count;
    device_abi_place *places;
    uint32_t places_count, shifts, chains, chains_room;
    uint32_t (*shift_of)[DEVICE_ABI_SHIFTS]; /* [chains] */
    uint64_t products;
} cs_shape;

typedef struct cs_programs {
    const constraint_system *cs;
    cs_shape shapes[CS_SHAPES];
    uint32_t shapes_count;
    /* The chain that is being written. */
    uint32_t *code, *numbers;
    uint64_t code_count, code_room, numbers_count, numbers_room, products;
    uint8_t *trial;      /* shift of each number, if the chain fits */
    uint64_t trial_room;
    uint32_t now, begun; /* values made by all chains so far, from 1 on; before this chain */
    uint32_t *wire_time;       /* [wires] when a wire was solved, if in this chain */
    uint32_t *expression_time; /* [expressions] when a sum was made */
    uint32_t *stored_time;     /* [expressions] when it was stored as a side of a row ... */
    uint32_t *stored_side;     /* ... 2 * row + (0: a, 1: b) */
    const char *refused;       /* why there is no program, or NULL; no memory without */
} cs_programs;

int cs_programs_open(cs_programs *programs, const constraint_system *cs);
/* Adds a chain. 0: see refused. */
int cs_programs_add(cs_programs *programs, const uint32_t *instructions, uint32_t count);
void cs_programs_close(cs_programs *programs);

#endif
