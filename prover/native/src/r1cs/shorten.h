/* r1cs/shorten.h - short forms of the expressions of a constraint system, which the witness solver evaluates. */
#ifndef G16_R1CS_SHORTEN_H
#define G16_R1CS_SHORTEN_H

#include "r1cs/constraint_system.h"

/* Computes the short forms; the rest of cs is not changed and may be read-only. */
g16_status constraint_system_shorten(constraint_system *cs, const g16_cancel *cancel, g16_error *error);

#endif
