/* groth16/setup.h - the contents of a g16_setup handle, and the layout of the key file. */
#ifndef G16_GROTH16_SETUP_H
#define G16_GROTH16_SETUP_H

#include "groth16.h"
#include "r1cs/constraint_system.h"

/* Secrets of a setup in the order of g16_setup_run(). */
enum { SETUP_TAU, SETUP_ALPHA, SETUP_BETA, SETUP_GAMMA, SETUP_DELTA, SETUP_SECRETS };

struct g16_setup {
    constraint_system cs;
    const uint8_t *system; /* the caller's bytes, copied to the end of the key file */
    size_t system_bytes;
    uint32_t header[4], header_words;
    uint32_t domain_log2;
    /* Whether a wire has a term on the left, or on the right, of some row; one byte per wire. */
    uint8_t *in_a, *in_b;
    uint32_t a_count, b_count;
    /* Offsets in the key file. */
    size_t domain_at, singles_at, a_at, b_at, z_at, k_at, singles2_at, b2_at, maps_at, vk_at, system_at, bytes;
};

static inline uint32_t setup_private_wires(const struct g16_setup *s) { return s->cs.wires - s->cs.public_wires; }
static inline uint32_t setup_z_count(const struct g16_setup *s) { return ((uint32_t)1 << s->domain_log2) - 1; }

#endif
