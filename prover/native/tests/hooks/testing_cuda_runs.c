/* testing_cuda_runs.c - whole computations of the device, run by the host. */
#pragma GCC diagnostic ignored "-Wunused-function"

#define T(name) t_cuda_##name
/* threads: the device_order in which phases run */
#define T_QUEUE(threads) {DEVICE_OK, (device_order)(threads), 0, 0, NULL, 0}
#include "testing_cuda_impl.h"
