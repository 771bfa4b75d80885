/* base/types.h - data types without arithmetic, which every translation unit may include. */
#ifndef G16_BASE_TYPES_H
#define G16_BASE_TYPES_H

#include <stddef.h>
#include <stdint.h>

#include "groth16.h"
#include "field/fr.h"

/* Element of Fp: Montgomery form, little-endian limbs, below p. */
typedef struct fp {
    uint64_t v[4];
} fp;

typedef struct fp2 {
    fp c0, c1;
} fp2;

/* Affine points. (0, 0), on neither curve, represents the point at infinity. */
typedef struct g1_affine {
    fp x, y;
} g1_affine;

typedef struct g2_affine {
    fp2 x, y;
} g2_affine;

/* Element of Fp6 = Fp2[v] / (v^3 - (9 + u)): c0 + c1*v + c2*v^2. */
typedef struct fp6 {
    fp2 c0, c1, c2;
} fp6;

/* Element of Fp12 = Fp6[w] / (w^2 - v): c0 + c1*w. */
typedef struct fp12 {
    fp6 c0, c1;
} fp12;

/* Lines of the Miller loop of a fixed point of G2 in the order of the loop: a1 and a3 of curve/pairing_impl.h, divided by a0. */
#define PAIRING_LINES 88
typedef struct pairing_lines {
    fp2 a1[PAIRING_LINES], a3[PAIRING_LINES];
} pairing_lines;

/* Keys with domains up to 2^16 share one table of roots of unity. */
#define SMALL_ROOTS_LOG2 16

#endif
