/* gpu/programs.h - chains as code for a device; those of one shape share it. Private to gpu/chains.c. */
#ifndef G16_GPU_PROGRAMS_H
#define G16_GPU_PROGRAMS_H

#include "r1cs/constraint_system.h"
#include "gpu/abi.h"

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
