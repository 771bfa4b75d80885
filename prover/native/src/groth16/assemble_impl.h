/* groth16/assemble_impl.h - from the sums of a proof to its blinded bytes; included by groth16/prove_impl.h, which has the
 * formulas.
 */
#ifndef G16_GROTH16_ASSEMBLE_IMPL_H
#define G16_GROTH16_ASSEMBLE_IMPL_H

#include "base/random.h"
#include "curve/encoding_impl.h"
#include "curve/g2.h"
#include "key/key.h"

/* The sums over A, B in G2, K with Z, and, for classical blinding, B in G1; later the points of the proof. */
typedef struct prove_base {
    g1_xyzz ar, krs, bs1;
    g2_xyzz bs;
} prove_base;

/* r, s and rs, their product, are plain numbers. */
static void prove_blind_classical(const proving_key *pk, groth16_proof *proof, prove_base *base, const uint64_t r[4],
                                  const uint64_t s[4], const uint64_t rs[4]) {
    g1_xyzz t;
    g2_xyzz t2;
    g1_affine bs1, minus_delta;

    g1_xyzz_mul_var(&t, &pk->delta, r);
    g1_xyzz_add(&base->ar, &base->ar, &t);
    g1_xyzz_to_affine(&proof->ar, &base->ar);

    g1_xyzz_add_affine(&base->bs1, &base->bs1, &pk->beta);
    g1_xyzz_mul_var(&t, &pk->delta, s);
    g1_xyzz_add(&base->bs1, &base->bs1, &t);
    g1_xyzz_to_affine(&bs1, &base->bs1);

    g2_xyzz_mul_var(&t2, &pk->delta2, s);
    g2_xyzz_add(&base->bs, &base->bs, &t2);
    g2_xyzz_to_affine(&proof->bs, &base->bs);

    g1_xyzz_mul_var(&t, &proof->ar, s);
    g1_xyzz_add(&base->krs, &base->krs, &t);
    g1_xyzz_mul_var(&t, &bs1, r);
    g1_xyzz_add(&base->krs, &base->krs, &t);
    g1_affine_neg(&minus_delta, &pk->delta);
    g1_xyzz_mul_var(&t, &minus_delta, rs);
    g1_xyzz_add(&base->krs, &base->krs, &t);
    g1_xyzz_to_affine(&proof->krs, &base->krs);

    os_random_wipe(&t, sizeof t);
    os_random_wipe(&t2, sizeof t2);
    os_random_wipe(&bs1, sizeof bs1);
}

/* rho, its inverse and sigma are plain numbers; rho is not zero. */
static void prove_blind_rerandomised(const proving_key *pk, groth16_proof *proof, prove_base *base, const uint64_t rho[4],
                              const uint64_t rho_inverse[4], const uint64_t sigma[4]) {
    g1_affine ar;
    g2_affine bs;
    g1_xyzz t;
    g2_xyzz t2;
    g1_xyzz_to_affine(&ar, &base->ar);
    g1_xyzz_mul_var(&t, &ar, rho_inverse);
    g1_xyzz_to_affine(&proof->ar, &t);

    g1_xyzz_mul_var(&t, &ar, sigma);
    g1_xyzz_add(&base->krs, &base->krs, &t);
    g1_xyzz_to_affine(&proof->krs, &base->krs);

    g2_xyzz_mul_var(&t2, &pk->delta2, sigma);
    g2_xyzz_add(&base->bs, &base->bs, &t2);
    g2_xyzz_to_affine(&bs, &base->bs);
    g2_xyzz_mul_var(&t2, &bs, rho);
    g2_xyzz_to_affine(&proof->bs, &t2);

    os_random_wipe(&t, sizeof t);
    os_random_wipe(&t2, sizeof t2);
    os_random_wipe(&ar, sizeof ar);
    os_random_wipe(&bs, sizeof bs);
}

/* Adds alpha and beta, blinds and encodes. Consumes and wipes base. */
static g16_status prove_finish(const struct g16_key *key, g16_blinding method, prove_base *base, uint8_t *out,
                               const fr blinding[2], g16_error *error) {
    const proving_key *pk = &key->pk;
    groth16_proof proof;
    uint64_t plain[3][4];
    fr third;
    g1_xyzz_add_affine(&base->ar, &base->ar, &pk->alpha);
    g2_xyzz_add_affine(&base->bs, &base->bs, &pk->beta2);
    if (method == G16_BLINDING_RERANDOMISED && g1_xyzz_is_infinity(&base->ar)) {
        /* Infinity cannot be blinded. Only a person who knows the key's secrets can cause this. */
        os_random_wipe(base, sizeof *base);
        return g16_fail(error, G16_UNSUPPORTED_KEY, 0, "this key maps the witness to the point at infinity");
    }
    fr_to_limbs(plain[0], &blinding[0]);
    fr_to_limbs(plain[1], &blinding[1]);
    if (method == G16_BLINDING_CLASSICAL) {
        fr_mul(&third, &blinding[0], &blinding[1]);
        fr_to_limbs(plain[2], &third);
        prove_blind_classical(pk, &proof, base, plain[0], plain[1], plain[2]);
    } else {
        fr_inv(&third, &blinding[0]);
        fr_to_limbs(plain[2], &third);
        prove_blind_rerandomised(pk, &proof, base, plain[0], plain[2], plain[1]);
    }
    groth16_proof_encode(out, &proof);
    os_random_wipe(base, sizeof *base);
    os_random_wipe(plain, sizeof plain);
    os_random_wipe(&third, sizeof third);
    return G16_OK;
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
