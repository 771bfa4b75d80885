/* gpu_model.c - the predicted time of a proof, by what the library would choose for a key on a GPU of so much memory:
 *
 * gpu_model MEMORY_GIB DOMAIN_LOG2 ROWS WIRES PUBLIC_WIRES A B K Z, or gpu_model MEMORY_GIB append_32_500
 *
 * Prints a JSON object. MEMORY_GIB: what is free; the library takes nine tenths. A, B, K, Z: lengths of the key's lists. */
#define GPU_TABLE_SHARE 2 /* as on a GPU */
#pragma GCC diagnostic ignored "-Wunused-function"
#include "cuda/library/table_impl.h"
#include "key/fold_shape.h"
#include "model.h"

#define NUMBERS 8

/* Batch append 32/500, as prover/bench/gpu/gpu_setup.c makes it. */
static const uint32_t APPEND_32_500[NUMBERS] = {23, 7903653, 7903653, 2, 7900000, 5310000, 7900000, 8388607};

/* The parts of a proof, in milliseconds. */
typedef struct model_parts {
    double kz, a, b, reductions, quotient, sorts;
} model_parts;

static double model_sum(const model_parts *parts) {
    return parts->kz + parts->a + parts->b + parts->reductions + parts->quotient + parts->sorts;
}

/* Returns the parts for a key, which is planned for the device. transforms: 6, or 4 of a folded key. */
static model_parts model_key(const library_device *device, proof_key *key, const device_abi_key *data, int transforms) {
    proof_memory memory;
    if (library_plan_key(device, key, data, LIBRARY_NO_LIMIT) == LIBRARY_NO_PLAN || !proof_memory_plan(&memory, key, 1)) {
        fprintf(stderr, "gpu_model: no plan fits\n");
        exit(1);
    }
    const device_msm_plan *a = &memory.a_plan, *b = &memory.b_plan, *kz = &memory.kz_plan;
    const model_parts parts = {
        .kz = model_sums_ms(kz, MODEL_G1_ADD),
        .a = model_sums_ms(a, MODEL_G1_ADD),
        .b = model_sums_ms(b, MODEL_G2_ADD),
        .reductions = model_reduction_ms(a, MODEL_G1_ADD) + model_reduction_ms(kz, MODEL_G1_ADD) + model_reduction_ms(b, MODEL_G2_ADD),
        .quotient = transforms * model_transform_ms(data->domain_log2),
        .sorts = model_sort_ms(a) + model_sort_ms(b) + model_sort_ms(kz),
    };
    return parts;
}

int main(int argc, char **argv) {
    uint32_t numbers[NUMBERS];
    memcpy(numbers, APPEND_32_500, sizeof numbers);
    const int named = argc == 3 && strcmp(argv[2], "append_32_500") == 0;
    if (!named && argc != 2 + NUMBERS) {
        fprintf(stderr, "usage: gpu_model MEMORY_GIB append_32_500|DOMAIN_LOG2 ROWS WIRES PUBLIC_WIRES A B K Z\n");
        return 2;
    }
    for (int i = 0; i < NUMBERS && !named; i++) numbers[i] = (uint32_t)strtoul(argv[2 + i], NULL, 10);
    device_abi_key data;
    proof_key key;
    library_device device;
    memset(&data, 0, sizeof data);
    memset(&device, 0, sizeof device);
    data.domain_log2 = numbers[0];
    data.rows = numbers[1];
    data.wires = numbers[2];
    data.public_wires = numbers[3];
    data.a_count = numbers[4];
    data.b_count = numbers[5];
    data.k_count = numbers[6];
    data.z_count = numbers[7];
    device.budget = (uint64_t)(strtod(argv[1], NULL) * (double)(1 << 30)) / 10 * 9;
    device.tuning = device_untuned();
    const double witness = named ? MODEL_WITNESS_MS : 0;
    const fold_shape shape = fold_shape_for(data.rows, data.domain_log2);
    device_abi_key folded_data = data;
    folded_data.z_count = shape.points;
    folded_data.cosets_count = shape.parts_count;
    const model_parts folded = model_key(&device, &key, &folded_data, 4), plain = model_key(&device, &key, &data, 6);
    printf("{\"name\": \"gpu_model\", \"memory_gib\": %s, \"key_gib\": %.2f, \"proof_gib\": %.2f, \"window_bits\": %u, \"sets\": %u, "
           "\"rows\": %u, \"kz_ms\": %.2f, \"a_ms\": %.2f, \"b2_ms\": %.2f, \"reductions_ms\": %.2f, \"quotient_ms\": %.2f, "
           "\"sorts_ms\": %.2f, \"witness_ms\": %.2f, \"ms\": %.1f, \"folded_ms\": %.1f}\n",
           argv[1], (double)library_plan_key(&device, &key, &data, LIBRARY_NO_LIMIT) / (1 << 30), (double)library_measure_batch(&key, 1) / (1 << 30),
           key.window_bits, key.kz_plan.sets, key.kz_plan.shifts, plain.kz, plain.a, plain.b, plain.reductions, plain.quotient,
           plain.sorts, witness, model_sum(&plain) + witness, model_sum(&folded) + witness);
    return 0;
}
