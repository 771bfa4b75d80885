/* groth16/assemble_impl.h - from the sums of a proof to its blinded bytes; included by groth16/prove_impl.h, which has the
 * formulas.
 */
#ifndef G16_GROTH16_ASSEMBLE_IMPL_H
#define G16_GROTH16_ASSEMBLE_IMPL_H

#include "base/random.h"
#include "curve/encoding_impl.h"
#include "curve/g2.h"
#include "msm/sums_impl.h"
#include "key/key.h"

/* The sums over A, B in G2, and K with Z; later the points of the proof. */
typedef struct prove_base {
    g1_xyzz ar, krs;
    g2_xyzz bs;
} prove_base;

/* Blinding values as plain numbers: rho, sigma, their product and 1 / rho. */
enum { BLINDING_RHO, BLINDING_SIGMA, BLINDING_PRODUCT, BLINDING_INVERSE, BLINDING_VALUES };

/* The blinding of one proof, in steps for tasks: B; A; then both multiples of A, in any order. */
typedef struct prove_blinding {
    const proving_key *pk;
    uint64_t values[BLINDING_VALUES][4];
    g1_affine ar; /* alpha and the sum over A */
    g1_xyzz krs;  /* what is added to the sum over K and Z */
    groth16_proof proof;
} prove_blinding;

static void prove_begin_blinding(prove_blinding *b, const proving_key *pk, const fr values[2]) {
    fr t;
    memset(b, 0, sizeof *b);
    b->pk = pk;
    fr_to_limbs(b->values[BLINDING_RHO], &values[0]);
    fr_to_limbs(b->values[BLINDING_SIGMA], &values[1]);
    fr_mul(&t, &values[0], &values[1]);
    fr_to_limbs(b->values[BLINDING_PRODUCT], &t);
    fr_inv(&t, &values[0]); /* rho is not zero */
    fr_to_limbs(b->values[BLINDING_INVERSE], &t);
    os_random_wipe(&t, sizeof t);
}

/* Bs = rho (beta + sum over B) + rho sigma delta. Overwrites the sum. */
static void prove_blind_b(prove_blinding *b, g2_xyzz *sum) {
    g2_affine bs;
    const g2_msm_multiple multiples[2] = {{b->values[BLINDING_RHO], &bs}, {b->values[BLINDING_PRODUCT], &b->pk->delta2}};
    g2_xyzz_add_affine(sum, sum, &b->pk->beta2);
    g2_xyzz_to_affine(&bs, sum);
    g2_msm_multiples(sum, multiples, 2);
    g2_xyzz_to_affine(&b->proof.bs, sum);
    os_random_wipe(&bs, sizeof bs);
}

/* Adds alpha to the sum over A. */
static void prove_blind_a(prove_blinding *b, g1_xyzz *sum) {
    g1_xyzz_add_affine(sum, sum, &b->pk->alpha);
    g1_xyzz_to_affine(&b->ar, sum);
}

/* Ar = (1 / rho) (alpha + sum over A) */
static void prove_blind_ar(prove_blinding *b) {
    const g1_msm_multiple multiple = {b->values[BLINDING_INVERSE], &b->ar};
    g1_xyzz t;
    g1_msm_multiples(&t, &multiple, 1);
    g1_xyzz_to_affine(&b->proof.ar, &t);
    os_random_wipe(&t, sizeof t);
}

/* sigma (alpha + sum over A), a part of Krs */
static void prove_blind_krs(prove_blinding *b) {
    const g1_msm_multiple multiple = {b->values[BLINDING_SIGMA], &b->ar};
    g1_msm_multiples(&b->krs, &multiple, 1);
}

/* Adds the last term, encodes the proof, and wipes base and blinding. */
static g16_status prove_encode(prove_blinding *b, prove_base *base, uint8_t *out, g16_error *error) {
    g16_status status = G16_OK;
    if (g1_affine_is_infinity(&b->ar)) {
        /* Infinity cannot be blinded. Only a person who knows the key's secrets can cause this. */
        status = g16_fail(error, G16_UNSUPPORTED_KEY, 0, "this key maps the witness to the point at infinity");
    } else {
        g1_xyzz_add(&base->krs, &base->krs, &b->krs);
        g1_xyzz_to_affine(&b->proof.krs, &base->krs);
        groth16_proof_encode(out, &b->proof);
    }
    os_random_wipe(base, sizeof *base);
    os_random_wipe(b, sizeof *b);
    return status;
}

/* Adds alpha and beta, blinds and encodes. Consumes and wipes base. */
static g16_status prove_finish(const struct g16_key *key, prove_base *base, uint8_t *out, const fr blinding[2], g16_error *error) {
    prove_blinding b;
    prove_begin_blinding(&b, &key->pk, blinding);
    prove_blind_b(&b, &base->bs);
    prove_blind_a(&b, &base->ar);
    prove_blind_ar(&b);
    prove_blind_krs(&b);
    return prove_encode(&b, base, out, error);
}

/* Reads the blinding values of a proof. */
static g16_status prove_read_blinding(fr blinding[2], const uint8_t *bytes, g16_error *error) {
    if (!fr_from_bytes(&blinding[0], bytes) || !fr_from_bytes(&blinding[1], bytes + 32)) {
        return g16_fail(error, G16_INVALID_ARGUMENT, 0, "a blinding value is not below the scalar field order");
    }
    return fr_is_zero(&blinding[0]) ? g16_fail(error, G16_INVALID_ARGUMENT, 0, "rho is zero") : G16_OK;
}

static g16_status prove_check_scratch(size_t given, size_t needed, g16_error *error) {
    if (given >= needed) return G16_OK;
    return g16_fail(error, G16_OUT_OF_MEMORY, 0, "the proof needs %zu bytes of scratch memory, %zu were given", needed,
                    given);
}

#endif
