/* gpu_counts.cu - the kernels in which a proof spends its time, as they run: prover/tests/support/gpu/gpu_counts.py counts their instructions.
 * The headers' other kernels, which take minutes of the assembler, are omitted. */
#include "cuda/base/device.h"

#pragma push_macro("KERNEL")
#undef KERNEL
#undef LAUNCH
#define KERNEL(...)
#define LAUNCH(...) ((void)0)
#include "cuda/msm/sums.h"
#include "cuda/ntt/transform.h"
#pragma pop_macro("KERNEL")

KERNEL(g1_msm_accumulate, g1_msm_arguments, MSM_THREADS, 4, 1)
KERNEL(g2_msm_accumulate, g2_msm_arguments, MSM_THREADS, 2, 1)
KERNEL(g2_msm_accumulate_small, g2_msm_arguments, MSM_THREADS, 2, 1)
KERNEL(g2_msm_accumulate_halves, g2_msm_arguments, MSM_THREADS, 4, 1)
KERNEL(ntt_pass, ntt_pass_arguments, NTT_THREADS, 2, 2 + (arguments->levels + 1) / 2)

DEVICE void product(grid_place place, fp *const *values, void *shared, uint32_t phase) {
    fp *own = *values + 2 * place.thread;
    (void)shared;
    (void)phase;
    fp_mul(&own[0], &own[0], &own[1]);
}
typedef fp *product_operands;
KERNEL(product, product_operands, 128, 1, 1)
