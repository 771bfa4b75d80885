/* r1cs/shorten.h - the expressions of a constraint system as the witness solver evaluates them. */
#ifndef G16_R1CS_SHORTEN_H
#define G16_R1CS_SHORTEN_H

#include "r1cs/constraint_system.h"

/* Makes the short forms, which the witness solver needs; the rest of cs stays as it is and may be read-only. */
g16_status constraint_system_shorten(constraint_system *cs, const g16_cancel *cancel, g16_error *error);

#endif
