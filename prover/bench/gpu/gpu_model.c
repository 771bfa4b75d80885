/* gpu_model.c - the predicted time of a proof, by what the library would choose for a key on a GPU of so much memory:
 *
 * gpu_model MEMORY_GIB DOMAIN_LOG2 ROWS WIRES PUBLIC_WIRES A B K Z, or gpu_model MEMORY_GIB append_32_500
 *
 * Prints a JSON object. MEMORY_GIB: what is free; the library takes nine tenths. A, B, K, Z: lengths of the key's lists. */
#define GPU_TABLE_SHARE 2 /* as on a GPU */
#pragma GCC diagnostic ignored "-Wunused-function"
#include "cuda/library/table_impl.h"
#include "model.h"

#define NUMBERS 8

/* Batch append 32/500, as prover/bench/gpu/gpu_setup.c makes it. */
static const uint32_t APPEND_32_500[NUMBERS] = {23, 7903653, 7903653, 2, 7900000, 5310000, 7900000, 8388607};

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
    proof_memory memory;
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
    const uint64_t key_bytes = library_plan_key(&device, &key, &data, 1);
    if (key_bytes == LIBRARY_NO_PLAN || !proof_memory_plan(&memory, &key, 1)) {
        fprintf(stderr, "gpu_model: no plan fits\n");
        return 1;
    }
    const device_msm_plan *a = &memory.a_plan, *b = &memory.b_plan, *kz = &memory.kz_plan;
    const double sums_kz = model_sums_ms(kz, MODEL_G1_ADD), sums_a = model_sums_ms(a, MODEL_G1_ADD);
    const double sums_b = model_sums_ms(b, MODEL_G2_ADD), quotient = 6 * model_transform_ms(data.domain_log2);
    const double reductions = model_reduction_ms(a, MODEL_G1_ADD) + model_reduction_ms(kz, MODEL_G1_ADD) +
                              model_reduction_ms(b, MODEL_G2_ADD);
    const double sorts = model_sort_ms(a) + model_sort_ms(b) + model_sort_ms(kz);
    const double witness = named ? MODEL_WITNESS_MS : 0;
    printf("{\"name\": \"gpu_model\", \"memory_gib\": %s, \"key_gib\": %.2f, \"proof_gib\": %.2f, \"window_bits\": %u, \"sets\": %u, "
           "\"rows\": %llu, \"kz_ms\": %.2f, \"a_ms\": %.2f, \"b2_ms\": %.2f, \"reductions_ms\": %.2f, \"quotient_ms\": %.2f, "
           "\"sorts_ms\": %.2f, \"witness_ms\": %.2f, \"ms\": %.1f}\n",
           argv[1], (double)key_bytes / (1 << 30), (double)library_measure_batch(&key, 1) / (1 << 30), key.window_bits, kz->sets,
           (unsigned long long)kz->shifts, sums_kz, sums_a, sums_b, reductions, quotient, sorts, witness,
           sums_kz + sums_a + sums_b + reductions + quotient + sorts + witness);
    return 0;
}
