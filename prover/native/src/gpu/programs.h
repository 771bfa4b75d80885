/* gpu/programs.h - chains encoded as code for a GPU; those of one shape share it. Private to gpu/chains.c. */
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
    /* The chain that is being encoded. */
    uint32_t *code, *numbers;
    uint64_t code_count, code_room, numbers_count, numbers_room, products;
    uint8_t *trial;      /* shift of each number, if the chain fits the shape */
    uint64_t trial_room;
    uint32_t now, begun; /* values produced so far, counted from 1; before this chain */
    uint32_t *wire_time;       /* [wires] time at which a wire was solved, valid if in this chain */
    uint32_t *expression_time; /* [expressions] time at which a sum was computed */
    uint32_t *stored_time;     /* [expressions] time at which it was stored as a side of a row */
    uint32_t *stored_side;     /* [expressions] 2 * row + (0: a, 1: b) */
    const char *refused;       /* why there is no program; NULL: out of memory */
} cs_programs;

int cs_programs_open(cs_programs *programs, const constraint_system *cs);
/* Adds a chain. Returns 0 on failure, see `refused`. */
int cs_programs_add(cs_programs *programs, const uint32_t *instructions, uint32_t count);
void cs_programs_close(cs_programs *programs);

#endif
