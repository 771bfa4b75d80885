/* host_gpu/gpu.h - GPUs in software, one or several, that fail on demand; included by cuda/library/gpu.h. */
#ifndef HOST_GPU_GPU_H
#define HOST_GPU_GPU_H

#include "host_gpu/faults.h"

static inline device_abi_status gpu_count(uint32_t *count, char *message) {
    if (faults_any(device_current, "count", 0, "unavailable")) {
        gpu_set_message(message, "CUDA does not start: a fault was asked for");
        return DEVICE_ABI_UNAVAILABLE;
    }
    *count = (uint32_t)faults_number("GROTH16_CUDA_HOST_DEVICES", 1);
    return DEVICE_ABI_OK;
}

static inline void gpu_use(uint32_t index, device_queue *queue) {
    device_current = index;
    queue->device = index;
}

static inline device_abi_status gpu_describe(g16_device_info *info, uint32_t index, char *message) {
    (void)message;
    device_current = index;
    snprintf(info->name, sizeof info->name, "GPU in software");
    info->index = index;
    info->capability_major = 9;
    info->capability_minor = 0;
    info->multiprocessors = 1;
    info->driver_version = info->runtime_version = 12000;
    info->memory_bytes = info->free_bytes = faults_number_of("GROTH16_CUDA_HOST_MEMORY", index, (uint64_t)1 << 30);
    return DEVICE_ABI_OK;
}

static inline device_abi_status gpu_check(const g16_device_info *info, char *message) {
    if (!faults_any(info->index, "open", 0, "unavailable")) return DEVICE_ABI_OK;
    gpu_set_message(message, "this CUDA library has no code for the GPU: a fault was asked for");
    return DEVICE_ABI_UNAVAILABLE;
}

static inline const char *gpu_reason(const device_queue *queue) {
    if (queue->device != device_current) return "a thread that uses another GPU";
    return queue->status == DEVICE_OUT_OF_MEMORY ? "out of memory" : "a fault was asked for";
}

static inline void gpu_reset(uint32_t index) { device_current = index; }

static inline const char *gpu_point_name(gpu_point point) {
    static const char *const names[GPU_POINTS] = {"open", "key_load", "prove"};
    return names[point];
}

/* number: which call of its kind this is, from 1. */
static inline void gpu_inject_failure(device_queue *queue, gpu_point point, uint32_t number) {
    if (queue->status != DEVICE_OK) return;
    if (faults_any(queue->device, gpu_point_name(point), number, "out_of_memory")) queue->status = DEVICE_OUT_OF_MEMORY;
    if (faults_any(queue->device, gpu_point_name(point), number, "lost")) queue->status = DEVICE_FAILED;
}

static inline void gpu_inject_wrong_sums(device_abi_sums *sums, uint32_t number) {
    if (faults_any(device_current, "prove", number, "wrong")) memcpy(sums->kz, sums->a, sizeof sums->kz);
    if (faults_any(device_current, "prove", number, "garbage")) memset(sums->kz, 0xff, sizeof sums->kz);
}

/* Lets related queues run in the order that GROTH16_CUDA_HOST_ORDER selects. */
static inline void gpu_set_order(device_queue *queues, uint32_t count) {
    const char *order = getenv("GROTH16_CUDA_HOST_ORDER");
    device_schedule *schedule = order && *order ? (device_schedule *)calloc(1, sizeof *schedule) : NULL;
    if (!schedule) return;
    schedule->order = strcmp(order, "eager") == 0 ? SCHEDULE_EAGER : SCHEDULE_LAZY;
    for (uint32_t i = 0; i < count; i++) queues[i].schedule = schedule;
}

static inline void gpu_clear_order(device_queue *queues) {
    if (!queues->schedule) return;
    schedule_release(&queues->schedule->now);
    free(queues->schedule);
}

#endif
