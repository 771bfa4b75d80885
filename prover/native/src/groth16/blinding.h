/* groth16/blinding.h - fresh blinding values. */
#ifndef G16_GROTH16_BLINDING_H
#define G16_GROTH16_BLINDING_H

#include "groth16.h"

#define BLINDING_BYTES 64

/* Draws the values that re-randomise a proof: rho, which is not zero, and sigma. */
g16_status blinding_draw(uint8_t out[BLINDING_BYTES], g16_error *error);

#endif
