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

/* The sums over A, B in G2, K with Z, and, for classical blinding, B in G1; later the points of the proof. */
typedef struct prove_base {
    g1_xyzz ar, krs, bs1;
    g2_xyzz bs;
} prove_base;

/* Blinding values as plain numbers: rho, sigma, their product and 1 / rho; or r, s, their product and zero. */
enum { BLINDING_FIRST, BLINDING_SECOND, BLINDING_PRODUCT, BLINDING_INVERSE, BLINDING_VALUES };

/* The blinding of one proof. Re-randomisation has steps for tasks: B; A; then both multiples of A, in any order. */
typedef struct prove_blinding {
    const proving_key *pk;
    g16_blinding method;
    uint64_t values[BLINDING_VALUES][4];
    g1_affine ar; /* alpha and the sum over A */
    g1_xyzz krs;  /* what is added to the sum over K and Z */
    groth16_proof proof;
} prove_blinding;

static void prove_begin_blinding(prove_blinding *b, const proving_key *pk, g16_blinding method, const fr values[2]) {
    fr t;
    memset(b, 0, sizeof *b);
    b->pk = pk;
    b->method = method;
    fr_to_limbs(b->values[BLINDING_FIRST], &values[0]);
    fr_to_limbs(b->values[BLINDING_SECOND], &values[1]);
    fr_mul(&t, &values[0], &values[1]);
    fr_to_limbs(b->values[BLINDING_PRODUCT], &t);
    if (method == G16_BLINDING_RERANDOMISED) {
        fr_inv(&t, &values[0]); /* rho is not zero */
        fr_to_limbs(b->values[BLINDING_INVERSE], &t);
    }
    os_random_wipe(&t, sizeof t);
}

/* Bs = rho (beta + sum over B) + rho sigma delta. Overwrites the sum. */
static void prove_blind_b(prove_blinding *b, g2_xyzz *sum) {
    g2_affine bs;
    const g2_msm_multiple multiples[2] = {{b->values[BLINDING_FIRST], &bs}, {b->values[BLINDING_PRODUCT], &b->pk->delta2}};
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
    const g1_msm_multiple multiple = {b->values[BLINDING_SECOND], &b->ar};
    g1_msm_multiples(&b->krs, &multiple, 1);
}

/* Classical blinding of all sums, which it overwrites. */
static void prove_blind_classical(prove_blinding *b, prove_base *base) {
    const proving_key *pk = b->pk;
    const uint64_t *r = b->values[BLINDING_FIRST], *s = b->values[BLINDING_SECOND], *rs = b->values[BLINDING_PRODUCT];
    g1_affine bs1, minus_delta;
    const g1_msm_multiple r_delta = {r, &pk->delta}, s_delta = {s, &pk->delta};
    const g2_msm_multiple s_delta2 = {s, &pk->delta2};
    const g1_msm_multiple krs[3] = {{s, &b->proof.ar}, {r, &bs1}, {rs, &minus_delta}};
    g1_xyzz t;
    g2_xyzz t2;

    prove_blind_a(b, &base->ar);
    g1_msm_multiples(&t, &r_delta, 1);
    g1_xyzz_add(&base->ar, &base->ar, &t);
    g1_xyzz_to_affine(&b->proof.ar, &base->ar);

    g1_xyzz_add_affine(&base->bs1, &base->bs1, &pk->beta);
    g1_msm_multiples(&t, &s_delta, 1);
    g1_xyzz_add(&base->bs1, &base->bs1, &t);
    g1_xyzz_to_affine(&bs1, &base->bs1);

    g2_xyzz_add_affine(&base->bs, &base->bs, &pk->beta2);
    g2_msm_multiples(&t2, &s_delta2, 1);
    g2_xyzz_add(&base->bs, &base->bs, &t2);
    g2_xyzz_to_affine(&b->proof.bs, &base->bs);

    g1_affine_neg(&minus_delta, &pk->delta);
    g1_msm_multiples(&b->krs, krs, 3);

    os_random_wipe(&t, sizeof t);
    os_random_wipe(&t2, sizeof t2);
    os_random_wipe(&bs1, sizeof bs1);
}

/* Adds the last term, encodes the proof, and wipes base and blinding. */
static g16_status prove_encode(prove_blinding *b, prove_base *base, uint8_t *out, g16_error *error) {
    g16_status status = G16_OK;
    if (b->method == G16_BLINDING_RERANDOMISED && g1_affine_is_infinity(&b->ar)) {
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
static g16_status prove_finish(const struct g16_key *key, g16_blinding method, prove_base *base, uint8_t *out,
                               const fr blinding[2], g16_error *error) {
    prove_blinding b;
    prove_begin_blinding(&b, &key->pk, method, blinding);
    if (method == G16_BLINDING_CLASSICAL) {
        prove_blind_classical(&b, base);
    } else {
        prove_blind_b(&b, &base->bs);
        prove_blind_a(&b, &base->ar);
        prove_blind_ar(&b);
        prove_blind_krs(&b);
    }
    return prove_encode(&b, base, out, error);
}

/* Reads the blinding values of a proof. */
static g16_status prove_read_blinding(fr blinding[2], g16_blinding method, const uint8_t *first, const uint8_t *second,
                                      g16_error *error) {
    if (!fr_from_bytes(&blinding[0], first) || !fr_from_bytes(&blinding[1], second)) {
        return g16_fail(error, G16_INVALID_ARGUMENT, 0, "a blinding value is not below the scalar field order");
    }
    if (method != G16_BLINDING_CLASSICAL && (method != G16_BLINDING_RERANDOMISED || fr_is_zero(&blinding[0]))) {
        return g16_fail(error, G16_INVALID_ARGUMENT, 0, "the blinding method is unknown or rho is zero");
    }
    return G16_OK;
}

static g16_status prove_check_scratch(size_t given, size_t needed, g16_error *error) {
    if (given >= needed) return G16_OK;
    return g16_fail(error, G16_OUT_OF_MEMORY, 0, "the proof needs %zu bytes of scratch memory, %zu were given", needed,
                    given);
}

#endif
