/* cuda/base/cuda_queue.h - kernels, queues, marks and graphs by CUDA. */
#ifndef CUDA_BASE_CUDA_QUEUE_H
#define CUDA_BASE_CUDA_QUEUE_H

#include <string.h>

#include "cuda/base/grid.h"

#define DEVICE static __device__ __forceinline__
#define DEVICE_COLD static __device__ __noinline__ /* rare: must not cost the callers registers */
#if defined(DEVICE_SMALL_CODE)
#define DEVICE_PRODUCT DEVICE_COLD /* for builds that only check: minutes less in the assembler */

#endif
