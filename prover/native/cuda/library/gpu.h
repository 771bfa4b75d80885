/* cuda/library/gpu.h - functions of the CUDA runtime other than work: counting, describing and selecting GPUs, error texts. Tests
 * replace them by GPUs in software (prover/native/tests/gpu/host_gpu/gpu.h). */
#ifndef CUDA_LIBRARY_GPU_H
#define CUDA_LIBRARY_GPU_H

#include <stdio.h>
#include <stdlib.h>

#include "gpu/abi.h"
#include "cuda/curve/points.h"

/* Calls in which GPUs in software can fail. */
typedef enum gpu_point { GPU_OPEN, GPU_KEY_LOAD, GPU_PROVE } gpu_point;
#define GPU_POINTS 3

/* A key with its tables of shifted bases takes at most this part of the memory that other keys leave, so that later keys get tables
 * too. */
#if !defined(GPU_TABLE_SHARE)
#if defined(__CUDACC__)
#define GPU_TABLE_SHARE 2
#else
#define GPU_TABLE_SHARE 65536 /* in software, computing a table takes longer than any proof gains */
#endif
#endif

static inline void gpu_set_message(char *message, const char *text) { snprintf(message, DEVICE_ABI_MESSAGE, "%s", text); }

/* With GROTH16_CUDA_GRAPHS=never, for measurements, kernels are launched one by one, so that the times of stages are known. */
static inline int gpu_makes_graphs(void) {
    const char *graphs = getenv("GROTH16_CUDA_GRAPHS");
    return !graphs || strcmp(graphs, "never") != 0;
}

#if defined(__CUDACC__)

static inline device_abi_status gpu_unavailable(char *message, cudaError_t error) {
    int driver = 0;
    (void)cudaGetLastError();
    if (error == cudaErrorInsufficientDriver && cudaDriverGetVersion(&driver) == cudaSuccess && driver == 0) {
        gpu_set_message(message, "CUDA does not start: this machine has no NVIDIA driver");
    } else {
        snprintf(message, DEVICE_ABI_MESSAGE, "CUDA does not start: %s", cudaGetErrorString(error));
    }
    return DEVICE_ABI_UNAVAILABLE;
}

static inline device_abi_status gpu_count(uint32_t *count, char *message) {
    int found = 0;
    const cudaError_t error = cudaGetDeviceCount(&found);
    if (error != cudaSuccess && error != cudaErrorNoDevice) return gpu_unavailable(message, error);
    (void)cudaGetLastError();
    *count = (uint32_t)found;
    return DEVICE_ABI_OK;
}

/* Selects the GPU of this thread. */
static inline void gpu_use(uint32_t index, device_queue *queue) {
    (void)cudaGetLastError();
    device_record_error(queue, cudaSetDevice((int)index));
}

static inline device_abi_status gpu_describe(g16_device_info *info, uint32_t index, char *message) {
    struct cudaDeviceProp properties;
    int driver = 0, runtime = 0;
    size_t free_bytes = 0, memory_bytes = 0;
    cudaError_t error = cudaSetDevice((int)index);
    if (error == cudaSuccess) error = cudaGetDeviceProperties(&properties, (int)index);
    if (error == cudaSuccess) error = cudaDriverGetVersion(&driver);
    if (error == cudaSuccess) error = cudaRuntimeGetVersion(&runtime);
    if (error == cudaSuccess) error = cudaMemGetInfo(&free_bytes, &memory_bytes);
    if (error != cudaSuccess) return gpu_unavailable(message, error);
    snprintf(info->name, sizeof info->name, "%.127s", properties.name);
    info->index = index;
    info->capability_major = (uint32_t)properties.major;
    info->capability_minor = (uint32_t)properties.minor;
    info->multiprocessors = (uint32_t)properties.multiProcessorCount;
    info->driver_version = (uint32_t)driver;
    info->runtime_version = (uint32_t)runtime;
    info->memory_bytes = memory_bytes;
    info->free_bytes = free_bytes;
    return DEVICE_ABI_OK;
}

/* Refuses a GPU for which the library has no code. */
static inline device_abi_status gpu_check(const g16_device_info *info, char *message) {
    cudaFuncAttributes attributes;
    if (cudaFuncGetAttributes(&attributes, KERNEL_NAME(points_to_r256)) == cudaSuccess) return DEVICE_ABI_OK;
    (void)cudaGetLastError();
    snprintf(message, DEVICE_ABI_MESSAGE, "this CUDA library has no code for GPUs of compute capability %u.%u, as this %.60s is",
             info->capability_major, info->capability_minor, info->name);
    return DEVICE_ABI_UNAVAILABLE;
}

static inline const char *gpu_reason(const device_queue *queue) { return cudaGetErrorString(queue->error); }

/* Recovers from a failure that requires a new context. No other handle may be open. */
static inline void gpu_reset(uint32_t index) {
    if (cudaSetDevice((int)index) == cudaSuccess) cudaDeviceReset();
    (void)cudaGetLastError();
}

static inline void gpu_inject_failure(device_queue *queue, gpu_point point, uint32_t number) {
    (void)queue;
    (void)point;
    (void)number;
}

static inline void gpu_inject_wrong_sums(device_abi_sums *sums, uint32_t number) {
    (void)sums;
    (void)number;
}

static inline void gpu_set_order(device_queue *queues, uint32_t count) { (void)queues, (void)count; }
static inline void gpu_clear_order(device_queue *queues) { (void)queues; }

#else
#include "host_gpu/gpu.h"
#endif

#endif
