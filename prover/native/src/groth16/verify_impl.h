/* groth16/verify_impl.h - the pairing equation of a Groth16 proof.
 *
 * e(Ar, Bs) = e(alpha, beta) * e(K_0 + sum x_i K_{i+1}, gamma) * e(Krs, delta)
 *
 * One final exponentiation for three Miller loops; the key contains e(alpha, beta).
 */
#ifndef G16_GROTH16_VERIFY_IMPL_H
#define G16_GROTH16_VERIFY_IMPL_H

#include "curve/encoding_impl.h"
#include "curve/pairing_impl.h"
#include "key/key.h"

/* r = K_0 + sum x_i K_{i+1} with shared doublings. Public values: time may depend on them. */
static void groth16_public_point(g1_affine *r, const struct g16_vk *vk, const uint8_t *inputs, size_t count) {
    g1_xyzz sum;
    g1_xyzz_set_infinity(&sum);
    for (size_t bit = 0; bit < 256; bit++) { /* from the most significant */
        g1_xyzz_double(&sum, &sum);
        for (size_t i = 0; i < count; i++) {
            if ((inputs[32 * i + bit / 8] >> (7 - bit % 8)) & 1) g1_xyzz_add_affine(&sum, &sum, &vk->k[i + 1]);
        }
    }
    g1_xyzz_add_affine(&sum, &sum, &vk->k[0]);
    g1_xyzz_to_affine(r, &sum);
}

/* Returns G16_MALFORMED_PROOF when a coordinate is not canonical, a point is not on its curve or not in the subgroup of order r,
 * or a point is infinity: an honest proof contains infinity with probability 2^-254. */
static g16_status groth16_verify(const struct g16_vk *vk, const uint8_t *proof, const uint8_t *public_inputs,
                                 size_t count, g16_error *error) {
    if (count != vk->k_count - 1) {
        return g16_fail(error, G16_INVALID_ARGUMENT, 0, "%zu public inputs given, the verifying key has %u", count,
                        vk->k_count - 1);
    }
    for (size_t i = 0; i < count; i++) {
        fr value;
        if (!fr_from_bytes(&value, public_inputs + 32 * i)) {
            return g16_fail(error, G16_INVALID_ARGUMENT, 0, "public input %zu is not below the group order", i);
        }
    }
    groth16_proof points;
    const char *which;
    point_fault fault = groth16_proof_decode(&points, proof, &which);
    if (fault != POINT_GOOD) {
        return g16_fail(error, G16_MALFORMED_PROOF, 0, "%s of the proof %s", which, point_fault_text(fault));
    }
    g1_affine left[3] = {points.ar};
    g2_affine right[3] = {points.bs, vk->gamma2, vk->delta2};
    fp12 value;
    groth16_public_point(&left[1], vk, public_inputs, count);
    g1_affine_neg(&left[1], &left[1]);
    g1_affine_neg(&left[2], &points.krs);
    pairing_product(&value, left, right, 3);
    if (!fp12_equal(&value, &vk->alpha_beta)) {
        return g16_fail(error, G16_PROOF_REJECTED, 0, "the proof does not hold for these public inputs");
    }
    return G16_OK;
}

#endif
