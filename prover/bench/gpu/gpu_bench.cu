/* gpu_bench.cu - rates and times of the CUDA code on one GPU.
 *
 * gpu_bench NAME [LOG2 [SETS [WINDOW_BITS [MANY [FOLDER]]]]] prints one JSON object: the median of REPEATS timings by events after
 * three that are thrown away, what the model predicts for an H200 (model.h), and the share of the bound that follows from the rate of
 * wide multiply-adds, which each run measures again. Names: imad_wide_rate, mul_imad, sqr_imad, madd_g1, madd_g2, msm_g1, msm_g2,
 * ntt. WINDOW_BITS 0: the plan's choice. MANY: multiplications at once. accumulate_ms, reduce_ms: of the kernels alone. host_ms: with
 * scalars, or values, that come from the host's memory, and results that go there; bases and roots are on the GPU. FOLDER: an
 * existing one, for the numbers and the result (peer.py). `sweep_g1 LOG2`, `sweep_g2 LOG2`: an object for each of some numbers of
 * bucket sets and windows. `gather MIB`: random reads of points of G1 from a table of so many MiB. `witness CHAINS LEVELS`: the chains
 * of a batch circuit, one for each Merkle path. GROTH16_CUDA_TUNING overrides the plans (cuda/base/tuning.h).
 */
#include <stdio.h>
#include <stdlib.h>

#include "gpu_generators.h"
#include "model.h"
#include "cuda/msm/sums.h"
#include "cuda/ntt/transform.h"
#include "cuda/proof/witness.h"
#include "cuda/library/tuning_read.h"

#define REPEATS 10
#define DISCARDED 3
#define BENCH_THREADS 128
#define PRODUCT_STEPS 128.0 /* wide multiply-adds of a Montgomery product */

static device_queue queue = {0, DEVICE_OK, cudaSuccess, 0, 0};
static device_tuning tuning; /* of all plans */

static void stop_on_failure(void) {
    device_record_error(&queue, cudaStreamSynchronize(queue.stream));
    if (queue.status == DEVICE_OK) return;
    fprintf(stderr, "gpu_bench: %s\n", cudaGetErrorString(queue.error));
    exit(1);
}

static int ascending(const void *a, const void *b) {
    const float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

/* Median milliseconds of what `work` launches. */
template <typename Work> static double median_ms(Work work) {
    cudaEvent_t begin, end;
    float times[REPEATS];
    cudaEventCreate(&begin);
    cudaEventCreate(&end);
    for (int i = -DISCARDED; i < REPEATS; i++) {
        cudaEventRecord(begin, queue.stream);
        work();
        cudaEventRecord(end, queue.stream);
        stop_on_failure();
        if (i >= 0) cudaEventElapsedTime(&times[i], begin, end);
    }
    qsort(times, REPEATS, sizeof *times, ascending);
    return times[REPEATS / 2];
}

static uint32_t grid_that_fills(uint32_t blocks_per_sm) {
    cudaDeviceProp properties;
    device_record_error(&queue, cudaGetDeviceProperties(&properties, 0));
    stop_on_failure();
    return (uint32_t)properties.multiProcessorCount * blocks_per_sm;
}

/* ---- rates -------------------------------------------------------------------------------------- */

#define RATE_CHAINS 8
#define RATE_STEPS 4096

__global__ void __launch_bounds__(BENCH_THREADS) imad_wide_kernel(uint64_t *out, uint32_t x, uint32_t y) {
    uint64_t sums[RATE_CHAINS];
    for (int i = 0; i < RATE_CHAINS; i++) sums[i] = threadIdx.x + i;
    for (int k = 0; k < RATE_STEPS; k++) {
#pragma unroll
        for (int i = 0; i < RATE_CHAINS; i++) {
            /* A factor that depends on the chain, or the product would be taken out of the loop. */
            asm volatile("mad.wide.u32 %0, %1, %2, %0;" : "+l"(sums[i]) : "r"(x + i), "r"(y));
        }
    }
    uint64_t sum = 0;
    for (int i = 0; i < RATE_CHAINS; i++) sum ^= sums[i];
    out[blockIdx.x * (uint64_t)blockDim.x + threadIdx.x] = sum;
}

/* Wide multiply-adds per second. */
static double imad_wide_rate(void) {
    const uint32_t blocks = grid_that_fills(16);
    uint64_t *out = (uint64_t *)device_allocate(&queue, (size_t)blocks * BENCH_THREADS * sizeof *out);
    const double ms = median_ms([&] { imad_wide_kernel<<<blocks, BENCH_THREADS, 0, queue.stream>>>(out, 12345, 67891); });
    device_release(out);
    return (double)blocks * BENCH_THREADS * RATE_CHAINS * RATE_STEPS / ms * 1e3;
}

#define MUL_STEPS 1024

__global__ void __launch_bounds__(BENCH_THREADS, 4) mul_kernel(fp *values, int squares) {
    fp *own = values + 3 * (blockIdx.x * (uint64_t)blockDim.x + threadIdx.x);
    fp a = own[0], b = own[1];
    const fp factor = own[2];
    for (int k = 0; k < MUL_STEPS && !squares; k++) {
        fp_mul(&a, &a, &factor);
        fp_mul(&b, &b, &factor);
    }
    for (int k = 0; k < MUL_STEPS && squares; k++) {
        fp_sqr(&a, &a);
        fp_sqr(&b, &b);
    }
    own[0] = a;
    own[1] = b;
}

static double mul_rate(int squares) {
    const uint32_t blocks = grid_that_fills(8);
    const size_t bytes = (size_t)blocks * BENCH_THREADS * 3 * sizeof(fp);
    fp *values = (fp *)device_allocate(&queue, bytes);
    if (values) device_record_error(&queue, cudaMemsetAsync(values, 0x17, bytes, queue.stream));
    const double ms = median_ms([&] { mul_kernel<<<blocks, BENCH_THREADS, 0, queue.stream>>>(values, squares); });
    device_release(values);
    return (double)blocks * BENCH_THREADS * 2 * MUL_STEPS / ms * 1e3;
}

/* ---- memory ------------------------------------------------------------------------------------- */

#define GATHER_STEPS 64

__global__ void __launch_bounds__(BENCH_THREADS) gather_kernel(uint32_t *out, const g1_affine *table, uint32_t mask) {
    const uint32_t thread = blockIdx.x * blockDim.x + threadIdx.x;
    uint32_t state = thread * 2654435761u + 1, sum = 0;
    for (int k = 0; k < GATHER_STEPS; k++) {
        state = state * 1664525u + 1013904223u; /* does not depend on what was read: several reads are in flight */
        const g1_affine point = table[(state >> 4 ^ state << 15) & mask];
        sum ^= point.x.v[0] ^ point.x.v[7] ^ point.y.v[0] ^ point.y.v[7];
    }
    out[thread] = sum;
}

/* Bytes per second of random points; mib: a power of two. */
static double gather_rate(uint32_t mib) {
    const uint32_t blocks = grid_that_fills(64), points = mib << 14;
    g1_affine *table = (g1_affine *)device_allocate(&queue, (size_t)points * sizeof *table);
    uint32_t *out = (uint32_t *)device_allocate(&queue, (size_t)blocks * BENCH_THREADS * sizeof *out);
    if (table) device_record_error(&queue, cudaMemsetAsync(table, 0x17, (size_t)points * sizeof *table, queue.stream));
    const double ms = median_ms([&] { gather_kernel<<<blocks, BENCH_THREADS, 0, queue.stream>>>(out, table, points - 1); });
    device_release(table);
    device_release(out);
    return (double)blocks * BENCH_THREADS * GATHER_STEPS * sizeof(g1_affine) / ms * 1e3;
}

/* ---- groups ------------------------------------------------------------------------------------- */

/* Values below 2^252, which are good as scalars. */
__global__ void random_values_kernel(fr *values, uint32_t count) {
    const uint64_t i = blockIdx.x * (uint64_t)blockDim.x + threadIdx.x;
    uint64_t state = (i + 1) * 0x9e3779b97f4a7c15u;
    if (i >= count) return;
    for (int j = 0; j < LIMBS; j++) {
        state = (state ^ state >> 30) * 0xbf58476d1ce4e5b9u; /* splitmix64, Steele 2014 */
        state = (state ^ state >> 27) * 0x94d049bb133111ebu;
        values[i].v[j] = (uint32_t)(state >> 32);
    }
    values[i].v[LIMBS - 1] &= 0x0fffffff;
}

#include "bench_numbers.h"

#define MADD_STEPS 512
#define MADD_BASES 4096

#define GROUP_BENCH(group, blocks_per_sm)                                                                       \
    __global__ void group##_multiples_kernel(group##_affine *out, group##_affine generator, uint32_t count) {   \
        const uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;                                               \
        const uint64_t scalar = i + 1;                                                                          \
        group##_affine point = generator;                                                                       \
        group##_xyzz sum;                                                                                       \
        if (i >= count) return;                                                                                 \
        group##_xyzz_mul_bits_var(&sum, &point, &scalar, 32);                                                   \
        group##_xyzz_to_affine(&point, &sum);                                                                   \
        out[i] = point;                                                                                         \
    }                                                                                                           \
    __global__ void __launch_bounds__(MSM_THREADS, blocks_per_sm)                                               \
        group##_madd_kernel(group##_xyzz *out, const group##_affine *bases) {                                   \
        const uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;                                               \
        group##_affine base = bases[i % MADD_BASES], next;                                                      \
        group##_xyzz sum;                                                                                       \
        group##_xyzz_from_affine(&sum, &base);                                                                  \
        next = bases[(i + 1) % MADD_BASES];                                                                     \
        for (uint32_t k = 2; k < MADD_STEPS + 2; k++) {                                                         \
            base = next;                                                                                        \
            next = bases[(i + k * k) % MADD_BASES];                                                             \
            group##_xyzz_add_affine(&sum, &sum, &base);                                                         \
        }                                                                                                       \
        out[i] = sum;                                                                                           \
    }                                                                                                           \
    static group##_affine *group##_bases(uint32_t count, uint32_t rows, const uint64_t *generator) {            \
        group##_affine *bases = (group##_affine *)device_allocate(&queue, (size_t)rows * count * sizeof *bases); \
        group##_affine point;                                                                                   \
        memcpy(&point, generator, sizeof point);                                                                \
        stop_on_failure();                                                                                      \
        group##_multiples_kernel<<<(count + 63) / 64, 64, 0, queue.stream>>>(bases, point, count);              \
        stop_on_failure();                                                                                      \
        return bases;                                                                                           \
    }                                                                                                           \
    static double group##_madd_rate(const uint64_t *generator) {                                                \
        const uint32_t blocks = grid_that_fills(blocks_per_sm);                                                 \
        group##_affine *bases = group##_bases(MADD_BASES, 1, generator);                                        \
        group##_xyzz *out =                                                                                     \
            (group##_xyzz *)device_allocate(&queue, (size_t)blocks * MSM_THREADS * sizeof *out);                \
        const double ms =                                                                                       \
            median_ms([&] { group##_madd_kernel<<<blocks, MSM_THREADS, 0, queue.stream>>>(out, bases); });      \
        device_release(bases);                                                                                  \
        device_release(out);                                                                                    \
        return (double)blocks * MSM_THREADS * MADD_STEPS / ms * 1e3;                                            \
    }                                                                                                           \
    /* `many` multiplications with the same bases. */                                                           \
    static void group##_msm_times(uint32_t count, uint32_t sets, uint32_t window_bits, uint32_t many,           \
                                  double products, double slots, const uint64_t *generator,                     \
                                  const char *folder) {                                                         \
        const device_msm_plan plan = device_msm_plan_batch(                                                     \
            window_bits ? device_msm_plan_of(count, window_bits, sets, &tuning)                                 \
                        : device_msm_plan_for(count, sets, &tuning), many, &tuning);                            \
        msm_sort_arguments sort;                                                                                \
        group##_msm_memory memory;                                                                              \
        memset(&sort, 0, sizeof sort);                                                                          \
        memset(&memory, 0, sizeof memory);                                                                      \
        device_owner owner = {{0}, 0};                                                                          \
        if (!device_msm_fits(&plan)) {                                                                          \
            fprintf(stderr, "gpu_bench: no plan fits\n");                                                       \
            exit(1);                                                                                            \
        }                                                                                                       \
        group##_affine *bases = group##_bases(count, plan.shifts, generator);                                   \
        fr *values = (fr *)device_own(&queue, &owner, (size_t)many * count * sizeof *values);                   \
        int32_t *digits = (int32_t *)device_own(&queue, &owner, device_msm_entries(&plan) * sizeof *digits);    \
        sort.plan = plan;                                                                                       \
        msm_sort_allocate(&queue, &owner, &sort.memory, &plan);                                                 \
        group##_msm_allocate(&queue, &owner, &memory, &plan);                                                   \
        stop_on_failure();                                                                                      \
        group##_msm_table_run(&queue, bases, &plan);                                                            \
        random_values_kernel<<<(many * count + 127) / 128, 128, 0, queue.stream>>>(values, many * count);       \
        const msm_recode_arguments recode = {digits, values, {1}, many * count, plan.window_bits, plan.windows}; \
        const msm_list list = {digits, (uint64_t)many * count, count, NULL, count};                             \
        sort.lists[0] = list;                                                                                   \
        const double sorting = median_ms([&] {                                                                  \
            msm_recode_run(&queue, &recode);                                                                    \
            msm_sort_run(&queue, &sort);                                                                        \
        });                                                                                                     \
        const double all = median_ms([&] {                                                                      \
            msm_recode_run(&queue, &recode);                                                                    \
            group##_msm_run(&queue, &sort, bases, &memory);                                                     \
        });                                                                                                     \
        const group##_msm_arguments arguments = {sort, bases, memory};                                          \
        const double accumulating = median_ms([&] { group##_msm_buckets_run(&queue, &arguments); });            \
        const double reducing = median_ms([&] { group##_msm_reduce(&queue, &arguments); });                     \
        const double predicted =                                                                                \
            model_sums_ms(&plan, slots) + model_reduction_ms(&plan, slots) + model_sort_ms(&plan);              \
        const size_t bytes = (size_t)many * count * sizeof *values;                                             \
        group##_xyzz *sums = (group##_xyzz *)take(many * sizeof *sums);                                         \
        fr *from = (fr *)take(bytes);                                                                           \
        device_read_later(&queue, from, values, bytes);                                                         \
        const double host = median_ms([&] {                                                                     \
            device_write(&queue, values, from, bytes);                                                          \
            msm_recode_run(&queue, &recode);                                                                    \
            group##_msm_run(&queue, &sort, bases, &memory);                                                     \
            device_read_later(&queue, sums, memory.results, many * sizeof *sums);                               \
        });                                                                                                     \
        if (folder) group##_write_numbers(folder, bases, values, memory.results, count);                        \
        free(from);                                                                                             \
        free(sums);                                                                                             \
        device_release_all(&owner);                                                                             \
        device_release(bases);                                                                                  \
        const double bound = (double)device_msm_entries(&plan) * products * PRODUCT_STEPS / imad_wide_rate() * 1e3; \
        printf("{\"name\": \"gpu_msm_" #group "\", \"count\": %u, \"multiplications\": %u, \"window_bits\": %u, " \
               "\"sets\": %u, \"ms\": %.4f, \"predicted_ms\": %.4f, \"sort_ms\": %.4f, \"accumulate_ms\": %.4f, "    \
               "\"reduce_ms\": %.4f, \"host_ms\": %.4f, \"bound_ms\": %.4f, \"fraction\": %.3f}\n",              \
               count, many, plan.window_bits, plan.sets, all, predicted, sorting, accumulating, reducing, host, \
               bound, bound / all);                                                                             \
        fflush(stdout);                                                                                         \
    }                                                                                                           \
    /* The plan's window and its neighbours, without tables and with 1, 2 and 4 bucket sets. */                 \
    static void group##_sweep(uint32_t count, double products, double slots, const uint64_t *generator) {       \
        static const uint32_t sets[] = {0, 1, 2, 4};                                                            \
        for (int i = 0; i < 4; i++) {                                                                           \
            const uint32_t window = device_msm_plan_for(count, sets[i], &tuning).window_bits;                  \
            for (uint32_t bits = window - 1; bits <= window + 1 && bits <= DEVICE_MSM_MAX_WINDOW; bits++) {     \
                const device_msm_plan plan = device_msm_plan_of(count, bits, sets[i], &tuning);                 \
                if (!device_msm_fits(&plan)) continue;                                                          \
                group##_msm_times(count, sets[i], bits, 1, products, slots, generator, NULL);                   \
            }                                                                                                   \
        }                                                                                                       \
    }

GROUP_BENCH(g1, 4)
GROUP_BENCH(g2, 2)

static void ntt_times(uint32_t log2, const char *folder) {
    const uint32_t count = 1u << log2;
    const size_t bytes = count * sizeof(fr);
    const ntt_plan plan = ntt_plan_for(log2, &tuning);
    const ntt_ends ends = ntt_plain_ends();
    fr *values = (fr *)device_allocate(&queue, bytes), *table = (fr *)device_allocate(&queue, bytes), *from = (fr *)take(bytes);
    stop_on_failure();
    random_values_kernel<<<(count + 127) / 128, 128, 0, queue.stream>>>(values, count);
    roots_kernel<<<(count + 127) / 128, 128, 0, queue.stream>>>(table, fr_of_words(FR_ROOT_28), log2);
    device_read_later(&queue, from, values, bytes);
    stop_on_failure();
    const double inverse = median_ms([&] { ntt_run(&queue, values, table, &plan, 1, 0, &ends); });
    const double forward = median_ms([&] { ntt_run(&queue, values, table, &plan, 1, 1, &ends); });
    fr *to = (fr *)take(bytes);
    const double host = median_ms([&] {
        device_write(&queue, values, from, bytes);
        ntt_run(&queue, values, table, &plan, 1, 1, &ends);
        device_read_later(&queue, to, values, bytes);
    });
    if (folder) ntt_write_numbers(folder, from, to, log2);
    free(from);
    free(to);
    const double bound = 0.5 * count * log2 * PRODUCT_STEPS / imad_wide_rate() * 1e3;
    printf("{\"name\": \"gpu_ntt_%u\", \"passes\": %u, \"inverse_ms\": %.4f, \"forward_ms\": %.4f, \"predicted_ms\": %.4f, "
           "\"host_ms\": %.4f, \"bound_ms\": %.4f, \"fraction\": %.3f}\n",
           log2, plan.passes, inverse, forward, model_transform_ms(log2), host, bound, 2 * bound / (inverse + forward));
}

#include "bench_witness.h"

static void print_rate(const char *name, double rate, double predicted, double bound) {
    printf("{\"name\": \"gpu_%s\", \"per_second\": %.6g, \"predicted\": %.6g, \"bound\": %.6g, \"fraction\": %.3f}\n", name, rate,
           predicted, bound, rate / bound);
}

int main(int argc, char **argv) {
    const char *name = argc > 1 ? argv[1] : "";
    const uint32_t log2 = argc > 2 ? (uint32_t)atoi(argv[2]) : 20, sets = argc > 3 ? (uint32_t)atoi(argv[3]) : 0;
    const uint32_t window_bits = argc > 4 ? (uint32_t)atoi(argv[4]) : 0, many = argc > 5 ? (uint32_t)atoi(argv[5]) : 1;
    const char *folder = argc > 6 ? argv[6] : NULL;
    if (!*name) {
        fprintf(stderr, "usage: gpu_bench imad_wide_rate|mul_imad|sqr_imad|madd_g1|madd_g2|msm_g1|msm_g2|ntt "
                        "[log2 [sets [window_bits [many [folder]]]]]\n"
                        "       gpu_bench sweep_g1|sweep_g2 log2\n"
                        "       gpu_bench gather mib\n"
                        "       gpu_bench witness chains levels\n");
        return 2;
    }
    char message[DEVICE_ABI_MESSAGE];
    if (!device_tuning_read(&tuning, getenv(DEVICE_TUNING_VARIABLE), message, sizeof message)) {
        fprintf(stderr, "gpu_bench: %s\n", message);
        return 2;
    }
    const double g2_add = device_tuned(&tuning, TUNING_G2, 0) == DEVICE_MSM_G2_HALVES ? MODEL_G2_HALVES_ADD : MODEL_G2_ADD;
    device_record_error(&queue, cudaStreamCreate(&queue.stream));
    stop_on_failure();
    if (!strcmp(name, "imad_wide_rate")) {
        const double rate = imad_wide_rate();
        print_rate(name, rate, model_per_second(1), 32.0 * grid_that_fills(1) * 1.98e9); /* per clock and multiprocessor */
    } else if (!strcmp(name, "mul_imad")) {
        print_rate(name, mul_rate(0), model_per_second(MODEL_PRODUCT), imad_wide_rate() / PRODUCT_STEPS);
    } else if (!strcmp(name, "sqr_imad")) {
        print_rate(name, mul_rate(1), model_per_second(MODEL_SQUARE), imad_wide_rate() / PRODUCT_STEPS);
    } else if (!strcmp(name, "madd_g1")) {
        print_rate(name, g1_madd_rate(G1_GENERATOR), model_per_second(MODEL_G1_ADD), imad_wide_rate() / (10 * PRODUCT_STEPS));
    } else if (!strcmp(name, "madd_g2")) {
        print_rate(name, g2_madd_rate(G2_GENERATOR), model_per_second(MODEL_G2_ADD), imad_wide_rate() / (28 * PRODUCT_STEPS));
    } else if (!strcmp(name, "msm_g1")) {
        g1_msm_times(1u << log2, sets, window_bits, many, 10, MODEL_G1_ADD, G1_GENERATOR, folder);
    } else if (!strcmp(name, "msm_g2")) {
        g2_msm_times(1u << log2, sets, window_bits, many, 28, g2_add, G2_GENERATOR, folder);
    } else if (!strcmp(name, "sweep_g1")) {
        g1_sweep(1u << log2, 10, MODEL_G1_ADD, G1_GENERATOR);
    } else if (!strcmp(name, "sweep_g2")) {
        g2_sweep(1u << log2, 28, g2_add, G2_GENERATOR);
    } else if (!strcmp(name, "gather")) {
        const double rate = gather_rate(log2);
        printf("{\"name\": \"gpu_gather\", \"mib\": %u, \"bytes_per_second\": %.6g, \"predicted\": %.6g}\n", log2, rate,
               1e3 * MODEL_BYTES_PER_MS);
    } else if (!strcmp(name, "ntt") && log2 <= 27) {
        ntt_times(log2, folder);
    } else if (!strcmp(name, "witness") && argc > 3) {
        witness_times(log2, sets); /* chains, levels */
    } else {
        fprintf(stderr, "gpu_bench: there is no measurement %s of these numbers\n", name);
        return 2;
    }
    return 0;
}
