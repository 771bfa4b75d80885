/* cuda/library/table_impl.h - the table of gpu/abi.h: devices, keys and proofs; included by cuda/library/library.cu and, in
 * tests, by host_gpu/library.c. */
#include "cuda/library/chains.h"

/* ---- devices ---------------------------------------------------------------------------------------- */

static device_abi_status library_count(uint32_t *count, char *message) { return gpu_count(count, message); }

static device_abi_status library_open(void **opened, uint32_t index, uint64_t budget, char *message) {
    g16_device_info info;
    device_queue queue;
    device_tuning tuning;
    uint32_t count = 0;
    memset(&info, 0, sizeof info);
    memset(&queue, 0, sizeof queue);
    device_abi_status status = gpu_count(&count, message);
    if (status == DEVICE_ABI_OK && index >= count) {
        snprintf(message, DEVICE_ABI_MESSAGE, "there is no GPU %u: GPUs have numbers from 0, and %u were found", index, count);
        status = DEVICE_ABI_UNAVAILABLE;
    }
    if (status == DEVICE_ABI_OK) status = gpu_describe(&info, index, message);
    if (status == DEVICE_ABI_OK) status = gpu_check(&info, message);
    if (status == DEVICE_ABI_OK && !device_tuning_read(&tuning, getenv(DEVICE_TUNING_VARIABLE), message, DEVICE_ABI_MESSAGE)) {
        status = DEVICE_ABI_UNAVAILABLE;
    }
    if (status != DEVICE_ABI_OK) return status;
    library_device *device = (library_device *)calloc(1, sizeof *device);
    if (!device) return DEVICE_ABI_HOST_OUT_OF_MEMORY;
    device->index = index;
    device->budget = budget ? budget : info.free_bytes / 10 * 9;
    device->tuning = tuning;
    pthread_mutex_init(&device->lock, NULL);
    pthread_condattr_t monotonic; /* waits for a time must not end with the wall clock, which may be set back */
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&device->changed, &monotonic);
    pthread_condattr_destroy(&monotonic);
    gpu_use(index, &queue);
    gpu_inject_failure(&queue, GPU_OPEN, 1);
    if (queue.status != DEVICE_OK) {
        status = library_failed(device, &queue, message);
        free(device);
        return status;
    }
    *opened = device;
    return DEVICE_ABI_OK;
}

static void library_close(void *handle) {
    library_device *device = (library_device *)handle;
    if (device->lost) gpu_reset(device->index);
    pthread_cond_destroy(&device->changed);
    pthread_mutex_destroy(&device->lock);
    free(device);
}

static device_abi_status library_describe(void *handle, g16_device_info *info, char *message) {
    library_device *device = (library_device *)handle;
    pthread_mutex_lock(&device->lock);
    const uint64_t used = device->used;
    const int lost = device->lost;
    pthread_mutex_unlock(&device->lock);
    if (lost) return library_lost(device, message);
    const device_abi_status status = gpu_describe(info, device->index, message);
    info->budget_bytes = device->budget;
    info->used_bytes = used;
    return status;
}

/* ---- keys --------------------------------------------------------------------------------------------- */

/* Returns a queue that counts allocations without making them. */
static device_queue library_measuring_queue(void) {
    device_queue queue;
    memset(&queue, 0, sizeof queue);
    queue.measuring = 1;
    return queue;
}

static uint64_t library_measure_key(proof_key *key) {
    device_queue queue = library_measuring_queue();
    proof_key_allocate(&queue, key);
    return queue.bytes;
}

#define LIBRARY_NO_PLAN UINT64_MAX

/* Returns the memory of a batch, or LIBRARY_NO_PLAN if it is too large. */
static uint64_t library_measure_batch(const proof_key *key, uint32_t room) {
    device_queue queue = library_measuring_queue();
    proof_memory memory;
    if (!proof_memory_plan(&memory, key, room)) return LIBRARY_NO_PLAN;
    proof_memory_allocate(&queue, &memory, key);
    return queue.bytes;
}

#define LIBRARY_NO_LIMIT UINT64_MAX
#define LIBRARY_NO_TABLES 0

/* Chooses the fewest bucket sets with which the key stays within table_limit bytes and its share of the memory that other keys and
 * one proof leave, or no table. Returns the key's bytes, or LIBRARY_NO_PLAN for a key with too many points. The caller holds the lock. */
static uint64_t library_plan_key(const library_device *device, proof_key *key, const device_abi_key *data, uint64_t table_limit) {
    const device_tuning *tuning = &device->tuning;
    for (uint32_t sets = 1; sets <= 8 && table_limit != LIBRARY_NO_TABLES && !device_is_tuned(tuning, TUNING_SETS); sets *= 2) {
        if (!proof_key_plan(key, data, sets, tuning)) continue;
        const uint64_t bytes = library_measure_key(key), others = device->used_by_keys + library_measure_batch(key, 1);
        if (bytes <= table_limit && others < device->budget && bytes <= (device->budget - others) / GPU_TABLE_SHARE) return bytes;
    }
    return proof_key_plan(key, data, device_tuned(tuning, TUNING_SETS, 0), tuning) ? library_measure_key(key) : LIBRARY_NO_PLAN;
}

/* Returns the log2 of the largest batch of a key of `bytes` bytes: a batch stays within its share of the budget, and key and
 * batch within the budget. */
static uint32_t library_room_log2(const library_device *device, const proof_key *key, uint64_t bytes) {
    if (key->domain_log2 > PROOF_BATCH_LOG2 || bytes >= device->budget) return 0;
    uint32_t log2 = 0;
    while (log2 + 1 < LIBRARY_ROOMS) {
        const uint64_t batch = library_measure_batch(key, 2u << log2);
        if (batch > device->budget / LIBRARY_BATCH_SHARE || batch > device->budget - bytes) break;
        log2++;
    }
    return log2;
}

static uint32_t library_batch_limit(const library_device *device, const proof_key *key, uint64_t bytes) {
    const uint32_t limit = 1u << library_room_log2(device, key, bytes);
    return device_msm_at_most(limit, device_tuned(&device->tuning, TUNING_BATCH, limit));
}

/* What a key would get now. */
static void library_sizes(void *handle, const device_abi_key *data, g16_device_sizes *sizes) {
    library_device *device = (library_device *)handle;
    proof_key key;
    pthread_mutex_lock(&device->lock);
    const uint64_t bytes = library_plan_key(device, &key, data, LIBRARY_NO_LIMIT);
    pthread_mutex_unlock(&device->lock);
    const int planned = bytes != LIBRARY_NO_PLAN;
    sizes->key_bytes = bytes;
    sizes->proof_bytes = planned ? library_measure_batch(&key, 1) : bytes;
    sizes->batch_limit = planned ? library_batch_limit(device, &key, bytes) : 1;
}

static uint32_t library_number(library_device *device, gpu_point point) { return ++device->calls[point]; }

/* Allocates and fills the key's memory. */
static device_abi_status library_key_fill(library_key *key, const device_abi_key *data, uint32_t number, char *message) {
    device_queue queue;
    device_queue_create(&queue);
    gpu_inject_failure(&queue, GPU_KEY_LOAD, number);
    proof_key_allocate(&queue, &key->key);
    proof_key_fill(&queue, &key->key, data);
    device_finish(&queue);
    const device_abi_status status = queue.status == DEVICE_OK ? DEVICE_ABI_OK : library_failed(key->device, &queue, message);
    device_queue_destroy(&queue);
    if (status != DEVICE_ABI_OK) device_release_all(&key->key.owner);
    return status;
}

/* Plans a key and reserves its memory, and that of one proof, without which a key is useless. The caller holds the lock, so keys
 * loaded at once share what is left. */
static device_abi_status library_key_reserve(library_key *key, const device_abi_key *data, uint64_t table_limit,
                                             const int32_t *cancel, char *message) {
    library_device *device = key->device;
    key->bytes = library_plan_key(device, &key->key, data, table_limit);
    if (key->bytes == LIBRARY_NO_PLAN) {
        gpu_set_message(message, "the key has too many points for this GPU code, or for what " DEVICE_TUNING_VARIABLE " makes of it");
        return DEVICE_ABI_OUT_OF_MEMORY;
    }
    for (uint32_t room = 0; room < LIBRARY_ROOMS; room++) key->batch_bytes[room] = library_measure_batch(&key->key, 1u << room);
    device->used_by_keys += key->bytes;
    const device_abi_status status = library_reserve(device, key->bytes + key->batch_bytes[0], NULL, cancel, message);
    if (status != DEVICE_ABI_OK) device->used_by_keys -= key->bytes;
    return status;
}

static void library_key_unreserve(library_key *key) {
    pthread_mutex_lock(&key->device->lock);
    key->device->used -= key->bytes;
    key->device->used_by_keys -= key->bytes;
    pthread_mutex_unlock(&key->device->lock);
}

static device_abi_status library_key_make(library_key *key, const device_abi_key *data, uint64_t table_limit,
                                          const int32_t *cancel, char *message) {
    library_device *device = key->device;
    pthread_mutex_lock(&device->lock);
    device_abi_status status = library_key_reserve(key, data, table_limit, cancel, message);
    const uint32_t number = library_number(device, GPU_KEY_LOAD);
    pthread_mutex_unlock(&device->lock);
    if (status != DEVICE_ABI_OK) return status;
    status = library_key_fill(key, data, number, message);
    if (status != DEVICE_ABI_OK) library_key_unreserve(key);
    library_release(device, key->batch_bytes[0]);
    return status;
}

/* Without tables if proofs, or other processes, leave no memory for them. */
static device_abi_status library_key_load(void *handle, void **loaded, uint32_t *batch_limit, const device_abi_key *data,
                                          uint64_t table_limit, const int32_t *cancel, char *message) {
    library_device *device = (library_device *)handle;
    device_queue queue;
    memset(&queue, 0, sizeof queue);
    gpu_use(device->index, &queue);
    if (queue.status != DEVICE_OK) return library_failed(device, &queue, message);
    library_key *key = (library_key *)calloc(1, sizeof *key);
    if (!key) return DEVICE_ABI_HOST_OUT_OF_MEMORY;
    key->device = device;
    device_abi_status status = library_key_make(key, data, table_limit ? table_limit : LIBRARY_NO_LIMIT, cancel, message);
    if (status == DEVICE_ABI_OUT_OF_MEMORY && key->key.a_plan.shifts > 1) {
        status = library_key_make(key, data, LIBRARY_NO_TABLES, cancel, message);
    }
    if (status != DEVICE_ABI_OK) {
        free(key);
        return status;
    }
    pthread_mutex_lock(&device->lock);
    key->next = device->keys;
    device->keys = key;
    pthread_mutex_unlock(&device->lock);
    *loaded = key;
    *batch_limit = library_batch_limit(device, &key->key, key->bytes);
    return DEVICE_ABI_OK;
}

static uint64_t library_key_bytes(void *handle) { return ((library_key *)handle)->bytes; }

static void library_key_destroy(void *handle) {
    library_key *key = (library_key *)handle;
    library_device *device = key->device;
    library_taken idle = {NULL, 0};
    device_queue queue;
    memset(&queue, 0, sizeof queue);
    gpu_use(device->index, &queue);
    pthread_mutex_lock(&device->lock);
    library_key **link = &device->keys;
    while (*link != key) link = &(*link)->next;
    *link = key->next;
    library_take_idle(key, &idle, device->budget + 1); /* takes all */
    device->running++;                                 /* others wait for this memory instead of being refused */
    pthread_mutex_unlock(&device->lock);
    library_free_taken(&idle);
    while (key->staging) {
        library_staging *staging = key->staging;
        key->staging = staging->next;
        device_host_release(staging);
    }
    device_release_all(&key->key.owner);
    device_release_all(&key->witness.owner);
    pthread_mutex_lock(&device->lock);
    device->used_by_keys -= key->bytes;
    library_end_call(device, key->bytes + idle.bytes);
    pthread_mutex_unlock(&device->lock);
    free(key);
}

/* ---- page-locked memory ---------------------------------------------------------------------------------- */

/* The list is sorted by size. */
static library_staging **library_staging_of(library_key *key, uint64_t bytes) {
    library_staging **link = &key->staging;
    while (*link && (*link)->bytes < bytes) link = &(*link)->next;
    return link;
}

/* The GPU copies from page-locked memory without the CPU. Kept for reuse, because allocating it is slow. */
static void *library_staging_take(void *handle, uint64_t bytes) {
    library_key *key = (library_key *)handle;
    device_queue queue;
    pthread_mutex_lock(&key->device->lock);
    library_staging **link = library_staging_of(key, bytes), *staging = *link;
    if (staging) {
        *link = staging->next;
        key->staging_count--;
    }
    pthread_mutex_unlock(&key->device->lock);
    if (!staging) {
        memset(&queue, 0, sizeof queue);
        gpu_use(key->device->index, &queue);
        staging = (library_staging *)device_host_allocate(LIBRARY_STAGING_OFFSET + bytes);
        if (!staging) return NULL;
        staging->bytes = bytes;
    }
    return (uint8_t *)staging + LIBRARY_STAGING_OFFSET;
}

/* Keeps the largest buffers, which fit all sizes. */
static void library_staging_give_back(void *handle, void *memory) {
    library_key *key = (library_key *)handle;
    library_staging *staging = (library_staging *)((uint8_t *)memory - LIBRARY_STAGING_OFFSET), *surplus = NULL;
    pthread_mutex_lock(&key->device->lock);
    library_staging **link = library_staging_of(key, staging->bytes);
    staging->next = *link;
    *link = staging;
    if (key->staging_count < LIBRARY_STAGING_KEPT) {
        key->staging_count++;
    } else {
        surplus = key->staging;
        key->staging = surplus->next;
    }
    pthread_mutex_unlock(&key->device->lock);
    if (surplus) device_host_release(surplus);
}

/* ---- proofs ------------------------------------------------------------------------------------------- */

/* Creates memory for a batch, whose bytes are reserved. */
static device_abi_status library_memory_create(library_key *key, uint32_t room_log2, library_memory **made, char *message) {
    library_memory *memory = (library_memory *)calloc(1, sizeof *memory);
    if (!memory) return DEVICE_ABI_HOST_OUT_OF_MEMORY;
    device_queue *queue = &memory->proof.queues[0];
    memory->room_log2 = room_log2;
    memory->proof.without_graph = !gpu_makes_graphs();
    proof_memory_plan(&memory->proof, &key->key, 1u << room_log2);
    proof_queues_create(&memory->proof);
    gpu_set_order(memory->proof.queues, PROOF_QUEUES);
    proof_memory_allocate(queue, &memory->proof, &key->key);
    for (int i = 1; i < PROOF_QUEUES && queue->status == DEVICE_OK; i++) {
        if (memory->proof.queues[i].status != DEVICE_OK) queue = &memory->proof.queues[i];
    }
    if (queue->status == DEVICE_OK) {
        *made = memory;
        return DEVICE_ABI_OK;
    }
    const device_abi_status status = library_failed(key->device, queue, message);
    library_memory_free(memory);
    return status;
}

/* Takes idle memory for `count` proofs, or creates new memory. */
static device_abi_status library_memory_take(library_key *key, uint32_t count, library_memory **taken, uint32_t *number,
                                             const int32_t *cancel, char *message) {
    library_device *device = key->device;
    library_memory *memory = NULL;
    uint32_t room_log2 = 0;
    while (1u << room_log2 < count) room_log2++;
    library_memory **idle = &key->idle[room_log2];
    pthread_mutex_lock(&device->lock);
    *number = library_number(device, GPU_PROVE);
    device_abi_status status = library_reserve(device, key->batch_bytes[room_log2], idle, cancel, message);
    if (status == DEVICE_ABI_OK && *idle) {
        memory = *idle;
        *idle = memory->next;
    }
    pthread_mutex_unlock(&device->lock);
    if (status == DEVICE_ABI_OK && !memory) {
        status = library_memory_create(key, room_log2, &memory, message);
        if (status != DEVICE_ABI_OK) library_release(device, key->batch_bytes[room_log2]);
    }
    *taken = memory;
    return status;
}

/* Keeps the memory for the next batch unless an error occurred. */
static void library_memory_give_back(library_key *key, library_memory *memory, int sound) {
    library_device *device = key->device;
    const uint32_t room_log2 = memory->room_log2;
    if (!sound) {
        library_memory_free(memory);
        library_release(device, key->batch_bytes[room_log2]);
        return;
    }
    pthread_mutex_lock(&device->lock);
    memory->next = key->idle[room_log2];
    key->idle[room_log2] = memory;
    device->running--;
    pthread_cond_broadcast(&device->changed);
    pthread_mutex_unlock(&device->lock);
}

static device_abi_status library_run(library_key *key, proof_memory *memory, uint32_t number, device_abi_sums *sums,
                                     device_abi_times *times, const device_abi_witness *witnesses, uint32_t count,
                                     const int32_t *cancel, char *message) {
    device_queue *queue = &memory->queues[PROOF_QUOTIENT];
    int complete = 0;
    gpu_inject_failure(queue, GPU_PROVE, number);
    if (queue->status == DEVICE_OK) complete = proof_run(memory, &key->key, sums, times, witnesses, count, cancel);
    for (int i = 0; i < PROOF_QUEUES; i++) {
        if (memory->queues[i].status != DEVICE_OK && memory->queues[i].status >= queue->status) queue = &memory->queues[i];
    }
    if (queue->status != DEVICE_OK) return library_failed(key->device, queue, message);
    if (!complete) return DEVICE_ABI_CANCELLED;
    gpu_inject_wrong_sums(&sums[count - 1], number);
    return DEVICE_ABI_OK;
}

/* Proves a batch from witnesses or, if there are none, one proof from inputs. */
static device_abi_status library_prove_from(library_key *key, device_abi_sums *sums, device_abi_times *times,
                                            const device_abi_witness *witnesses, uint32_t count, const device_abi_inputs *inputs,
                                            const int32_t *cancel, char *message) {
    library_memory *memory;
    uint32_t number;
    device_queue queue;
    memset(&queue, 0, sizeof queue);
    gpu_use(key->device->index, &queue);
    if (queue.status != DEVICE_OK) return library_failed(key->device, &queue, message);
    device_abi_status status = library_memory_take(key, count, &memory, &number, cancel, message);
    if (status != DEVICE_ABI_OK) return status;
    if (inputs && !library_witness(key, &memory->proof, inputs)) {
        const device_queue *solving = &memory->proof.queues[PROOF_QUOTIENT];
        status = solving->status == DEVICE_OK ? DEVICE_ABI_CANCELLED : library_failed(key->device, solving, message);
    }
    if (status == DEVICE_ABI_OK) {
        status = library_run(key, &memory->proof, number, sums, times, witnesses, count, cancel, message);
    }
    if (status == DEVICE_ABI_OK && inputs) {
        times->witness = device_nanoseconds(&memory->proof.marks[PROOF_INPUTS], &memory->proof.marks[PROOF_BEGUN]);
        if (*memory->proof.failures) status = DEVICE_ABI_UNSATISFIED;
    }
    const int sound = status == DEVICE_ABI_OK || status == DEVICE_ABI_CANCELLED || status == DEVICE_ABI_UNSATISFIED;
    library_memory_give_back(key, memory, sound);
    return status;
}

static device_abi_status library_prove(void *key, device_abi_sums *sums, device_abi_times *times,
                                       const device_abi_witness *witnesses, uint32_t count, const int32_t *cancel, char *message) {
    return library_prove_from((library_key *)key, sums, times, witnesses, count, NULL, cancel, message);
}

static device_abi_status library_prove_inputs(void *key, device_abi_sums *sums, device_abi_times *times,
                                              const device_abi_inputs *inputs, const int32_t *cancel, char *message) {
    return library_prove_from((library_key *)key, sums, times, NULL, 1, inputs, cancel, message);
}

static const device_abi_library LIBRARY = {
    DEVICE_ABI_VERSION, sizeof(device_abi_library), library_count,        library_open,
    library_close,        library_describe,     library_sizes,             library_key_load,
    library_key_bytes,    library_key_destroy,  library_staging_take,      library_staging_give_back,
    library_prove,        library_chains_load,  library_prove_inputs,
};
