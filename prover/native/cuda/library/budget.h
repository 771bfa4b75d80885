/* cuda/library/budget.h - devices, keys and proof memory of the library, and their memory budget; included by
 * cuda/library/table_impl.h.
 *
 * The budget covers keys and proof memory. Proof memory has room for 1, 2, 4, ... proofs at once. A batch uses the smallest
 * sufficient one: idle memory of its key, or new memory. When the budget is exhausted, idle memory is freed, and then the batch
 * waits for another one to end. A failure of the device is permanent for its handle.
 */
#ifndef CUDA_LIBRARY_BUDGET_H
#define CUDA_LIBRARY_BUDGET_H

#include <pthread.h>
#include <time.h>

#include "cuda/proof/proof.h"
#include "cuda/proof/witness.h"
#include "cuda/library/gpu.h"
#include "cuda/library/tuning_read.h"

#define LIBRARY_WAIT_NS 20000000 /* between two checks of a cancel flag */
#define LIBRARY_STAGING_KEPT 4   /* per key */
#define LIBRARY_ROOMS 7          /* values of the log2 of proofs at once */
#define LIBRARY_BATCH_SHARE 8    /* share of the budget that a batch may use, so that others can run concurrently */

struct library_key;

typedef struct library_device {
    uint32_t index;
    uint64_t budget;
    device_tuning tuning;
    pthread_mutex_t lock; /* protects all following members and the lists of the device's keys */
    pthread_cond_t changed;
    uint64_t used, used_by_keys;
    uint32_t running;           /* calls that hold memory or free it, and will release it */
    uint32_t calls[GPU_POINTS]; /* of each kind so far */
    int lost;
    char reason[DEVICE_ABI_MESSAGE];
    struct library_key *keys;
} library_device;

/* Proof memory, used by one batch at a time. */
typedef struct library_memory {
    struct library_memory *next;
    uint32_t room_log2;
    proof_memory proof;
} library_memory;

/* Page-locked host memory for a witness, which starts at LIBRARY_STAGING_OFFSET. */
typedef struct library_staging {
    struct library_staging *next;
    uint64_t bytes;
} library_staging;
#define LIBRARY_STAGING_OFFSET 64

typedef struct library_key {
    struct library_key *next;
    library_device *device;
    proof_key key;
    witness_key witness; /* empty if no chains were loaded */
    uint64_t bytes;
    uint64_t batch_bytes[LIBRARY_ROOMS]; /* by room_log2 */
    library_memory *idle[LIBRARY_ROOMS];
    library_staging *staging; /* idle */
    uint32_t staging_count;
} library_key;

/* ---- failures --------------------------------------------------------------------------------------- */

static device_abi_status library_lost(library_device *device, char *message) {
    gpu_set_message(message, device->reason);
    return DEVICE_ABI_LOST;
}

/* Converts a queue's failure; any failure except lack of memory makes the device lost. */
static device_abi_status library_failed(library_device *device, const device_queue *queue, char *message) {
    if (queue->status == DEVICE_OUT_OF_MEMORY) {
        snprintf(message, DEVICE_ABI_MESSAGE, "GPU %u has too little free memory: prove fewer at a time, or load fewer keys",
                 device->index);
        return DEVICE_ABI_OUT_OF_MEMORY;
    }
    pthread_mutex_lock(&device->lock);
    if (!device->lost) {
        device->lost = 1;
        snprintf(device->reason, sizeof device->reason, "GPU %u failed: %.120s", device->index, gpu_reason(queue));
    }
    pthread_cond_broadcast(&device->changed);
    pthread_mutex_unlock(&device->lock);
    return library_lost(device, message);
}

/* ---- the budget ------------------------------------------------------------------------------------- */

static void library_memory_free(library_memory *memory) {
    device_release_all(&memory->proof.owner);
    gpu_clear_order(memory->proof.queues);
    proof_queues_destroy(&memory->proof);
    free(memory);
}

/* Idle memory that no batch can take any more, and its bytes, which count as used until they are freed. */
typedef struct library_taken {
    library_memory *list;
    uint64_t bytes;
} library_taken;

/* Takes idle memory of a key until freeing what was taken would leave `bytes` free, or none is left. The caller holds the lock. */
static void library_take_idle(library_key *key, library_taken *taken, uint64_t bytes) {
    const library_device *device = key->device;
    for (uint32_t room = LIBRARY_ROOMS; room-- > 0;) {
        while (key->idle[room] && device->used - taken->bytes + bytes > device->budget) {
            library_memory *memory = key->idle[room];
            key->idle[room] = memory->next;
            memory->next = taken->list;
            taken->list = memory;
            taken->bytes += key->batch_bytes[room];
        }
    }
}

/* The caller does not hold the lock: a driver may take long, or never return. */
static void library_free_taken(library_taken *taken) {
    while (taken->list) {
        library_memory *memory = taken->list;
        taken->list = memory->next;
        library_memory_free(memory);
    }
}

/* Ends a running call and releases `bytes`. The caller holds the lock. */
static void library_end_call(library_device *device, uint64_t bytes) {
    device->used -= bytes;
    device->running--;
    pthread_cond_broadcast(&device->changed);
}

/* Frees idle memory of all keys until `bytes` are free or none is left. The caller holds the lock. Returns 1 when memory was freed:
 * then the lock was released meanwhile, and everything that it protects may have changed. */
static int library_evict(library_device *device, uint64_t bytes) {
    library_taken taken = {NULL, 0};
    for (library_key *key = device->keys; key; key = key->next) library_take_idle(key, &taken, bytes);
    if (!taken.list) return 0;
    device->running++; /* others wait for this memory instead of being refused */
    pthread_mutex_unlock(&device->lock);
    library_free_taken(&taken);
    pthread_mutex_lock(&device->lock);
    library_end_call(device, taken.bytes);
    return 1;
}

/* The caller holds the lock, which is released while waiting. */
static void library_wait(library_device *device) {
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_nsec += LIBRARY_WAIT_NS;
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    pthread_cond_timedwait(&device->changed, &device->lock, &until);
}

/* Reserves bytes of the budget for a call that starts now. idle: NULL, or a list; if it is not empty, nothing is reserved. The
 * caller holds the lock. */
static device_abi_status library_reserve(library_device *device, uint64_t bytes, library_memory *const *idle,
                                         const int32_t *cancel, char *message) {
    for (;;) {
        if (device->lost) return library_lost(device, message);
        if (device_is_cancelled(cancel)) return DEVICE_ABI_CANCELLED;
        if (idle && *idle) break;
        if (library_evict(device, bytes)) continue;
        if (device->used + bytes <= device->budget) {
            device->used += bytes;
            break;
        }
        if (device->running == 0) {
            const double mebibyte = 1 << 20;
            snprintf(message, DEVICE_ABI_MESSAGE, "%.1f MiB of GPU memory are needed, and %.1f of the budget of %.1f MiB are left",
                     (double)bytes / mebibyte, (double)(device->budget - device->used) / mebibyte,
                     (double)device->budget / mebibyte);
            return DEVICE_ABI_OUT_OF_MEMORY;
        }
        library_wait(device);
    }
    device->running++;
    return DEVICE_ABI_OK;
}

static void library_release(library_device *device, uint64_t bytes) {
    pthread_mutex_lock(&device->lock);
    library_end_call(device, bytes);
    pthread_mutex_unlock(&device->lock);
}

#endif
