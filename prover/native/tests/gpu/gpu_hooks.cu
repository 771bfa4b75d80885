/* gpu_hooks.cu - the hooks of testing_cuda_impl.h on the GPU, as t_gpu_*. */
#include <stdlib.h>

#define T(name) t_gpu_##name
#define T_QUEUE(threads) {0, ((void)(threads), DEVICE_OK), cudaSuccess, 0, 0}
extern "C" {
#include "testing_cuda_impl.h"
}
