/* cuda/library/chains.h - witnesses on the device, with their memory; included by cuda/library/table_impl.h. */
#ifndef CUDA_LIBRARY_CHAINS_H
#define CUDA_LIBRARY_CHAINS_H

#include "cuda/library/budget.h"

static uint64_t library_measure_chains(const device_abi_chains *chains) {
    device_queue queue;
    witness_key key;
    memset(&queue, 0, sizeof queue);
    queue.measuring = 1;
    witness_key_load(&queue, &key, chains);
    return queue.bytes;
}

/* Reserves bytes of the budget for the lifetime of the key; one proof of it must still fit. */
static int library_chains_reserve(library_key *key, uint64_t bytes) {
    library_device *device = key->device;
    pthread_mutex_lock(&device->lock);
    while (library_evict(device, bytes + key->batch_bytes[0])) {
    }
    const int fits = device->used + bytes + key->batch_bytes[0] <= device->budget;
    if (fits) {
        device->used += bytes;
        device->used_by_keys += bytes;
        key->bytes += bytes;
    }
    pthread_mutex_unlock(&device->lock);
    return fits;
}

static void library_chains_unreserve(library_key *key, uint64_t bytes) {
    pthread_mutex_lock(&key->device->lock);
    key->device->used -= bytes;
    key->device->used_by_keys -= bytes;
    key->bytes -= bytes;
    pthread_mutex_unlock(&key->device->lock);
}

static device_abi_status library_chains_load(void *handle, const device_abi_chains *chains, char *message) {
    library_key *key = (library_key *)handle;
    const uint64_t bytes = library_measure_chains(chains);
    device_queue queue;
    if (!library_chains_reserve(key, bytes)) {
        gpu_set_message(message, "the budget of GPU memory does not hold the chains of the circuit");
        return DEVICE_ABI_OUT_OF_MEMORY;
    }
    memset(&queue, 0, sizeof queue);
    gpu_use(key->device->index, &queue);
    if (queue.status == DEVICE_OK) device_queue_create(&queue);
    memset(&key->witness, 0, sizeof key->witness);
    witness_key_load(&queue, &key->witness, chains);
    device_finish(&queue);
    const device_abi_status status = queue.status == DEVICE_OK ? DEVICE_ABI_OK : library_failed(key->device, &queue, message);
    device_queue_destroy(&queue);
    if (status != DEVICE_ABI_OK) {
        device_release_all(&key->witness.owner);
        library_chains_unreserve(key, bytes);
    }
    return status;
}

/* Queues the solution of a witness in the memory of its proof; the sums may be queued at once. Returns 0 when cancelled. */
static int library_witness(library_key *key, proof_memory *memory, const device_abi_inputs *inputs) {
    const witness_room room = {{memory->wires, memory->a, memory->b}, memory->c, (uint64_t)1 << key->key.domain_log2,
                               key->key.wires, key->key.rows};
    *memory->failures = 0;
    proof_mark(memory, PROOF_QUOTIENT, PROOF_INPUTS);
    return witness_run(&memory->queues[PROOF_QUOTIENT], &key->witness, &room, inputs, memory->failures);
}

#endif
