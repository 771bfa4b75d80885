/* gpu/prove_impl.h - a proof whose sums a GPU computes; witness, blinding and assembly as in groth16/prove_impl.h; included by
 * backend.c. */
#ifndef G16_GPU_PROVE_IMPL_H
#define G16_GPU_PROVE_IMPL_H

#include "groth16/prove_impl.h"
#include "gpu/abi.h"
#include "gpu/chains_impl.h"

_Static_assert(sizeof(((device_abi_sums *)0)->a) == sizeof(g1_xyzz), "sums in G1 are g1_xyzz");
_Static_assert(sizeof(((device_abi_sums *)0)->b2) == sizeof(g2_xyzz), "sums in G2 are g2_xyzz");
_Static_assert(sizeof(((device_abi_key *)0)->quotient_unit) == 4 * sizeof(uint64_t), "a number below r");
_Static_assert((int)DEVICE_ABI_R256 == G16_POINTS_R256 && (int)DEVICE_ABI_R260_LOOSE == G16_POINTS_R260_LOOSE, "point forms");

_Static_assert(DEVICE_ABI_COSETS == FOLD_MAX_PARTS, "a coset for each part of a shape");

/* Replaces K and Z by the lists of a folded key. */
static void groth16_device_fold(const struct g16_key *key, device_abi_key *data) {
    const proving_key *pk = &key->pk;
    const fold_shape shape = fold_shape_for(key->cs.constraints, pk->domain_log2);
    data->k_count = pk->fold_k_count;
    data->z_count = pk->fold_t_count;
    data->k_wires = pk->fold_wires;
    data->k = pk->fold_k;
    data->z = pk->fold_t;
    data->cosets_count = shape.parts_count;
    for (uint32_t i = 0; i < shape.parts_count; i++) {
        data->cosets[i] = (device_abi_coset){shape.parts[i].log2, shape.parts[i].residue, shape.parts[i].first};
    }
}

static void groth16_device_key(const struct g16_key *key, device_abi_key *data) {
    const proving_key *pk = &key->pk;
    uint64_t unit[4];
    fr scale;
    quotient_unit(unit, pk->domain_log2, key_is_folded(pk));
    quotient_product_scale(&scale, pk->domain_log2);
    *data = (device_abi_key){
        .wires = key->cs.wires,
        .public_wires = key->cs.public_wires,
        .rows = key->cs.constraints,
        .domain_log2 = pk->domain_log2,
        .a_count = pk->a_count,
        .b_count = pk->b_count,
        .k_count = pk->k_count,
        .z_count = pk->z_count,
        .point_format = (uint32_t)key->backend->point_format,
        .a_wires = pk->a_wires,
        .b_wires = pk->b_wires,
        .a = pk->a,
        .k = pk->k,
        .z = pk->z,
        .b2 = pk->b2,
        .roots = pk->twiddles,
    };
    if (key_is_folded(pk)) groth16_device_fold(key, data);
    memcpy(data->product_scale, &scale, sizeof scale);
    memcpy(data->quotient_unit, unit, sizeof unit);
}

static size_t groth16_device_lay_out(device_arrays *arrays, arena at, const struct g16_key *key) {
    arrays->wires = arena_take(&at, key->cs.wires * sizeof(fr));
    arrays->a = arena_take(&at, key->cs.constraints * sizeof(fr));
    arrays->b = arena_take(&at, key->cs.constraints * sizeof(fr));
    return at.used;
}

static size_t groth16_device_scratch_bytes(const struct g16_key *key) {
    device_arrays arrays;
    return groth16_device_lay_out(&arrays, arena_measure(), key) + ARENA_ALIGNMENT;
}

/* Returns 1 when all coordinates are below p. The following code relies on that, and the GPU is not trusted. */
static int groth16_device_sums_are_reduced(const uint64_t *words, size_t count) {
    for (size_t i = 0; i < count; i += 4) {
        if (mont256_compare_var(words + i, FP_MODULUS.p) >= 0) return 0;
    }
    return 1;
}

static g16_status groth16_device_base(prove_base *base, const device_abi_sums *sums, g16_error *error) {
    if (!groth16_device_sums_are_reduced(sums->a, sizeof *sums / sizeof(uint64_t))) {
        return g16_fail(error, G16_DEVICE_LOST, 0, "the GPU returned a coordinate that is not below the modulus");
    }
    memcpy(&base->ar, sums->a, sizeof base->ar);
    memcpy(&base->krs, sums->kz, sizeof base->krs);
    memcpy(&base->bs, sums->b2, sizeof base->bs);
    return G16_OK;
}

static void groth16_device_times(uint64_t *stage_ns, const device_abi_times *times) {
    if (!stage_ns) return;
    stage_ns[G16_STAGE_QUOTIENT] = times->quotient;
    stage_ns[G16_STAGE_MSM_A] = times->a;
    stage_ns[G16_STAGE_MSM_B2] = times->b2;
    stage_ns[G16_STAGE_MSM_K] = times->kz;
}

static g16_status groth16_device_prove(const struct g16_key *key, thread_pool *pool, const device_calls *calls,
                                       uint8_t *proof, uint64_t *stage_ns, const uint8_t *blinding_bytes, const uint8_t *inputs,
                                       size_t count, void *scratch, size_t scratch_size, const g16_cancel *cancel,
                                       g16_error *error) {
    fr blinding[2];
    device_arrays arrays;
    device_abi_sums sums;
    device_abi_times times;
    prove_state timer = {.stage_ns = stage_ns};
    g16_status status = prove_check_scratch(scratch_size, groth16_device_scratch_bytes(key), error);
    if (status == G16_OK) status = prove_read_blinding(blinding, blinding_bytes, error);
    if (status != G16_OK) return status;
    groth16_device_lay_out(&arrays, arena_over(scratch), key);
    memset(&sums, 0, sizeof sums);
    memset(&times, 0, sizeof times);
    if (stage_ns) memset(stage_ns, 0, G16_STAGE_COUNT * sizeof *stage_ns);

    uint64_t start = prove_now_ns(), solving_ns = 0;
    if (calls->chains) {
        status = groth16_device_sum_inputs(&key->cs, pool, calls, &arrays, &sums, &times, inputs, count, &solving_ns, cancel,
                                           error);
    } else {
        const device_abi_witness witness = {arrays.wires, arrays.a, arrays.b};
        status = witness_solver_solve(&key->cs, pool, arrays.wires, arrays.a, arrays.b, NULL, inputs, count, cancel, error);
        solving_ns = prove_now_ns() - start;
        if (status == G16_OK) status = calls->sum(calls->handle, &sums, &times, &witness, 1, cancel, error);
    }
    if (stage_ns) stage_ns[G16_STAGE_WITNESS] = solving_ns + times.witness;
    if (status == G16_OK) {
        prove_base base;
        start = prove_now_ns();
        groth16_device_times(stage_ns, &times);
        status = groth16_device_base(&base, &sums, error);
        if (status == G16_OK) status = prove_finish(key, &base, proof, blinding, error);
        prove_add_time(&timer, G16_STAGE_ASSEMBLE, start);
    }
    /* Sums without blinding would allow to test guesses of the witness against the proof. */
    os_random_wipe(&sums, sizeof sums);
    os_random_wipe(blinding, sizeof blinding);
    return status;
}

#endif
