/* groth16/verify_impl.h - the pairing equation of a Groth16 proof.
 *
 * e(Ar, Bs) = e(alpha, beta) * e(K_0 + sum x_i K_{i+1}, gamma) * e(Krs, delta)
 *
 * One final exponentiation for all Miller loops; the key contains e(alpha, beta) and the lines of gamma and delta. The loop of Bs
 * and the rest are two tasks of about the same length, or share their squarings on one thread.
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

typedef struct {
    const struct g16_vk *vk;
    const groth16_proof *points;
    const uint8_t *public_inputs;
    size_t count;
    int is_alone; /* one thread: all in the second task */
    fp12 values[2];
    int bs_has_order_r;
} groth16_verification;

static void groth16_verify_task(void *argument, uint32_t index, uint32_t worker) {
    groth16_verification *job = argument;
    (void)worker;
    if (index == 0) {
        pairing_miller_loop(&job->values[0], &job->points->ar, &job->points->bs, 1, NULL, 0);
        return;
    }
    pairing_fixed fixed[2];
    g1_affine point;
    job->bs_has_order_r = g2_in_subgroup(&job->points->bs);
    groth16_public_point(&point, job->vk, job->public_inputs, job->count);
    g1_affine_neg(&point, &point);
    uint32_t pairs = (uint32_t)pairing_fixed_of(&fixed[0], &job->vk->gamma_lines, &point);
    g1_affine_neg(&point, &job->points->krs);
    pairs += (uint32_t)pairing_fixed_of(&fixed[pairs], &job->vk->delta_lines, &point);
    pairing_miller_loop(&job->values[1], &job->points->ar, &job->points->bs, (uint32_t)job->is_alone, fixed, pairs);
}

/* Returns G16_MALFORMED_PROOF when a coordinate is not canonical, a point is not on its curve or not in the subgroup of order r,
 * or a point is infinity: an honest proof contains infinity with probability 2^-254. */
static g16_status groth16_verify(const struct g16_vk *vk, thread_pool *pool, const uint8_t *proof, const uint8_t *public_inputs,
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
    groth16_verification job = {.vk = vk, .points = &points, .public_inputs = public_inputs, .count = count};
    job.is_alone = thread_pool_share(pool, 0) == 1;
    if (job.is_alone) {
        job.values[0] = FP12_ONE;
        groth16_verify_task(&job, 1, 0);
    } else {
        thread_pool_for(pool, 2, groth16_verify_task, &job, NULL);
    }
    if (!job.bs_has_order_r) {
        return g16_fail(error, G16_MALFORMED_PROOF, 0, "Bs of the proof %s", point_fault_text(POINT_OUTSIDE_SUBGROUP));
    }
    fp12 value;
    fp12_mul(&value, &job.values[0], &job.values[1]);
    pairing_final_exponentiation(&value, &value);
    if (!fp12_equal(&value, &vk->alpha_beta)) {
        return g16_fail(error, G16_PROOF_REJECTED, 0, "the proof does not hold for these public inputs");
    }
    return G16_OK;
}

#endif
