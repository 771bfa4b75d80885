/* cuda/base/scan.h - exclusive prefix sums of 32-bit numbers in place, in three launches: sums of blocks, prefix sums of those by
 * one block, prefix sums within blocks. */
#ifndef CUDA_BASE_SCAN_H
#define CUDA_BASE_SCAN_H

#include "cuda/base/device.h"

#define SCAN_THREADS 256
#define SCAN_PER_THREAD 8
#define SCAN_BLOCK (SCAN_THREADS * SCAN_PER_THREAD)

typedef struct scan_arguments {
    uint32_t *values;
    uint32_t *sums; /* one per block */
    uint32_t *total;
    uint64_t count, blocks;
} scan_arguments;

static inline uint64_t scan_blocks(uint64_t count) { return device_blocks(count, SCAN_BLOCK); }

/* Returns the sum of the existing elements of values[first .. first + length). */
DEVICE uint32_t scan_sum(const uint32_t *values, uint64_t count, uint64_t first, uint64_t length) {
    uint32_t sum = 0;
    for (uint64_t i = first; i < first + length && i < count; i++) sum += values[i];
    return sum;
}

/* Replaces values[first .. first + length) by their exclusive prefix sums, starting from `sum`. */
DEVICE void scan_replace(uint32_t *values, uint64_t count, uint64_t first, uint64_t length, uint32_t sum) {
    for (uint64_t i = first; i < first + length && i < count; i++) {
        const uint32_t value = values[i];
        values[i] = sum;
        sum += value;
    }
}

/* Sums of the threads of a block, then of groups of threads: in shared memory, and without a thread that adds all of them. */
#define SCAN_GROUPS 16
#define SCAN_SHARED_BYTES(threads) (((threads) + SCAN_GROUPS) * sizeof(uint32_t))

/* Adds up the thread's group; for the first SCAN_GROUPS threads. threads: a multiple of SCAN_GROUPS. */
DEVICE void scan_group(uint32_t *partials, uint32_t threads, uint32_t thread) {
    const uint32_t size = threads / SCAN_GROUPS;
    if (thread < SCAN_GROUPS) partials[threads + thread] = scan_sum(partials, threads, thread * size, size);
}

/* Returns the sum of the threads before `thread`, or of all for `threads`, after scan_group(). */
DEVICE uint32_t scan_before(const uint32_t *partials, uint32_t threads, uint32_t thread) {
    const uint32_t size = threads / SCAN_GROUPS, group = thread / size;
    return scan_sum(partials + threads, SCAN_GROUPS, 0, group) + scan_sum(partials, threads, group * size, thread % size);
}

DEVICE void scan_sums(grid_place place, const scan_arguments *arguments, void *shared, uint32_t phase) {
    uint32_t *partials = (uint32_t *)shared;
    if (phase == 0) {
        const uint64_t first = device_index(place) * SCAN_PER_THREAD;
        partials[place.thread] = scan_sum(arguments->values, arguments->count, first, SCAN_PER_THREAD);
    } else if (phase == 1) {
        scan_group(partials, place.threads, place.thread);
    } else if (place.thread == 0) {
        arguments->sums[place.block] = scan_before(partials, place.threads, place.threads);
    }
}
KERNEL(scan_sums, scan_arguments, SCAN_THREADS, 1, 3)

/* Runs in one block. */
DEVICE void scan_of_sums(grid_place place, const scan_arguments *arguments, void *shared, uint32_t phase) {
    uint32_t *partials = (uint32_t *)shared;
    const uint64_t length = (arguments->blocks + place.threads - 1) / place.threads, first = place.thread * length;
    if (phase == 0) {
        partials[place.thread] = scan_sum(arguments->sums, arguments->blocks, first, length);
    } else if (phase == 1) {
        scan_group(partials, place.threads, place.thread);
    } else {
        scan_replace(arguments->sums, arguments->blocks, first, length, scan_before(partials, place.threads, place.thread));
        if (place.thread == 0) *arguments->total = scan_before(partials, place.threads, place.threads);
    }
}
KERNEL(scan_of_sums, scan_arguments, SCAN_THREADS, 1, 3)

DEVICE void scan_apply(grid_place place, const scan_arguments *arguments, void *shared, uint32_t phase) {
    uint32_t *partials = (uint32_t *)shared;
    const uint64_t first = device_index(place) * SCAN_PER_THREAD;
    if (phase == 0) {
        partials[place.thread] = scan_sum(arguments->values, arguments->count, first, SCAN_PER_THREAD);
    } else if (phase == 1) {
        scan_group(partials, place.threads, place.thread);
    } else {
        scan_replace(arguments->values, arguments->count, first, SCAN_PER_THREAD,
                     arguments->sums[place.block] + scan_before(partials, place.threads, place.thread));
    }
}
KERNEL(scan_apply, scan_arguments, SCAN_THREADS, 1, 3)

/* sums: scan_blocks(count) elements. The total must be below 2^32. */
static inline void scan_run(device_queue *queue, uint32_t *values, uint64_t count, uint32_t *sums, uint32_t *total) {
    const scan_arguments arguments = {values, sums, total, count, scan_blocks(count)};
    const size_t shared = SCAN_SHARED_BYTES(SCAN_THREADS);
    LAUNCH(queue, scan_sums, arguments.blocks, SCAN_THREADS, shared, &arguments);
    LAUNCH(queue, scan_of_sums, 1, SCAN_THREADS, shared, &arguments);
    LAUNCH(queue, scan_apply, arguments.blocks, SCAN_THREADS, shared, &arguments);
}

#endif
