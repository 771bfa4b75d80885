/* groth16/blinding.h - fresh blinding values. */
#ifndef G16_GROTH16_BLINDING_H
#define G16_GROTH16_BLINDING_H

#include "groth16.h"

/* Draws the values that re-randomise a proof: rho, which is not zero, and sigma. */
g16_status blinding_draw(uint8_t out[2][32], g16_error *error);

#endif
