/* device_library_points.h - the part of the library's table that makes points of keys: multiples of one point for the trusted setup, and
 * lists of points for folding; included by device_library_impl.h.
 *
 * A handle takes its memory from the budget until it is closed, as a running proof does: in pieces that get smaller where the budget is
 * short.
 */
#ifndef G16_DEVICE_LIBRARY_POINTS_H
#define G16_DEVICE_LIBRARY_POINTS_H

#include <assert.h>

#include "device_library_budget.h"
#include "device_lists.h"
#include "device_setup.h"

static_assert(TUNING_MIN_SETUP_WINDOW == SETUP_MIN_WINDOW && TUNING_MAX_SETUP_WINDOW == SETUP_MAX_WINDOW, "windows of setups");
static_assert(TUNING_MIN_SETUP_PIECE == SETUP_MIN_PIECE && TUNING_MAX_SETUP_PIECE == SETUP_PIECE, "pieces of setups");
static_assert(TUNING_MAX_FOLD_PIECE == LISTS_PIECE, "pieces of foldings");

/* What both kinds of handles have. */
typedef struct library_work {
    library_device *device;
    device_queue queue;
    uint64_t bytes; /* of the budget */
    uint32_t number; /* of the present call */
} library_work;

typedef struct library_multiples {
    library_work work;
    uint32_t group;
    g1_setup_memory g1;
    g2_setup_memory g2;
} library_multiples;

typedef struct library_lists {
    library_work work;
    lists_memory memory;
} library_lists;

/* Reserves the bytes and begins the queue. */
static device_abi_status library_work_begin(library_work *work, library_device *device, uint64_t bytes, const int32_t *cancel,
                                            char *message) {
    device_queue queue;
    memset(&queue, 0, sizeof queue);
    gpu_use(device->index, &queue);
    if (queue.status != DEVICE_OK) return library_failed(device, &queue, message);
    pthread_mutex_lock(&device->lock);
    const device_abi_status status = library_reserve(device, bytes, NULL, cancel, message);
    pthread_mutex_unlock(&device->lock);
    if (status != DEVICE_ABI_OK) return status;
    work->device = device;
    work->bytes = bytes;
    device_queue_create(&work->queue);
    gpu_thread_order(&work->queue);
    return DEVICE_ABI_OK;
}

/* After its memory was released. */
static void library_work_end(library_work *work) {
    device_queue_destroy(&work->queue);
    library_release(work->device, work->bytes);
}

/* Begins a call of a handle, which may come from any thread. */
static device_abi_status library_work_call(library_work *work, gpu_point point, char *message) {
    device_queue queue;
    memset(&queue, 0, sizeof queue);
    gpu_use(work->device->index, &queue);
    if (queue.status != DEVICE_OK) return library_failed(work->device, &queue, message);
    pthread_mutex_lock(&work->device->lock);
    const int lost = work->device->lost;
    work->number = library_number(work->device, point);
    pthread_mutex_unlock(&work->device->lock);
    if (lost) return library_lost(work->device, message);
    gpu_fail(&work->queue, point, work->number);
    return DEVICE_ABI_OK;
}

static device_abi_status library_work_result(const library_work *work, char *message) {
    return work->queue.status == DEVICE_OK ? DEVICE_ABI_OK : library_failed(work->device, &work->queue, message);
}

/* ---- multiples ------------------------------------------------------------------------------------------ */

static uint64_t library_measure_multiples(uint32_t group, const setup_plan *plan) {
    device_queue queue = library_measuring_queue();
    g1_setup_memory g1;
    g2_setup_memory g2;
    if (group == DEVICE_ABI_G1) {
        g1_setup_allocate(&queue, &g1, plan);
    } else {
        g2_setup_allocate(&queue, &g2, plan);
    }
    return queue.bytes;
}

/* The best plan that takes half of the budget at most, or the smallest; nothing that is tuned gets smaller. */
static setup_plan library_plan_multiples(const library_device *device, uint32_t group, uint64_t count) {
    const device_tuning *tuning = &device->tuning;
    const int keeps_piece = device_is_tuned(tuning, TUNING_SETUP_PIECE), keeps_window = device_is_tuned(tuning, TUNING_SETUP_WINDOW);
    uint64_t piece = device_tuned(tuning, TUNING_SETUP_PIECE, SETUP_PIECE);
    uint32_t window_bits = device_tuned(tuning, TUNING_SETUP_WINDOW, setup_plan_for(count, piece).window_bits);
    setup_plan plan = setup_plan_of(count, window_bits, piece);
    while (library_measure_multiples(group, &plan) > device->budget / 2) {
        if (piece > SETUP_MIN_PIECE && !keeps_piece) {
            piece /= 2;
        } else if (window_bits > SETUP_MIN_WINDOW && !keeps_window) {
            window_bits--;
        } else {
            break;
        }
        plan = setup_plan_of(count, window_bits, piece);
    }
    return plan;
}

static void library_multiples_close(void *handle) {
    library_multiples *multiples = (library_multiples *)handle;
    device_queue queue;
    memset(&queue, 0, sizeof queue);
    gpu_use(multiples->work.device->index, &queue);
    if (multiples->group == DEVICE_ABI_G1) {
        g1_setup_release(&multiples->work.queue, &multiples->g1);
    } else {
        g2_setup_release(&multiples->work.queue, &multiples->g2);
    }
    library_work_end(&multiples->work);
    free(multiples);
}

static device_abi_status library_multiples_open(void *handle, void **opened, uint32_t group, const void *point, uint64_t count,
                                                const int32_t *cancel, char *message) {
    library_device *device = (library_device *)handle;
    const setup_plan plan = library_plan_multiples(device, group, count);
    library_multiples *multiples = (library_multiples *)calloc(1, sizeof *multiples);
    if (!multiples) return DEVICE_ABI_HOST_OUT_OF_MEMORY;
    multiples->group = group;
    device_abi_status status =
        library_work_begin(&multiples->work, device, library_measure_multiples(group, &plan), cancel, message);
    if (status != DEVICE_ABI_OK) {
        free(multiples);
        return status;
    }
    device_queue *queue = &multiples->work.queue;
    status = library_work_call(&multiples->work, GPU_SETUP, message);
    if (group == DEVICE_ABI_G1) {
        g1_setup_allocate(queue, &multiples->g1, &plan);
        g1_setup_prepare(queue, &multiples->g1, point);
    } else {
        g2_setup_allocate(queue, &multiples->g2, &plan);
        g2_setup_prepare(queue, &multiples->g2, point);
    }
    device_finish(queue);
    if (status == DEVICE_ABI_OK) status = library_work_result(&multiples->work, message);
    if (status != DEVICE_ABI_OK) {
        library_multiples_close(multiples);
        return status;
    }
    *opened = multiples;
    return DEVICE_ABI_OK;
}

static device_abi_status library_multiples_run(void *handle, void *points, const void *scalars, uint64_t count, const int32_t *cancel,
                                               char *message) {
    library_multiples *multiples = (library_multiples *)handle;
    const int in_g1 = multiples->group == DEVICE_ABI_G1;
    const size_t bytes = in_g1 ? sizeof(g1_affine) : sizeof(g2_affine);
    const uint64_t piece = in_g1 ? multiples->g1.plan.piece : multiples->g2.plan.piece;
    device_queue *queue = &multiples->work.queue;
    device_abi_status status = library_work_call(&multiples->work, GPU_SETUP, message);
    for (uint64_t first = 0; first < count && status == DEVICE_ABI_OK; first += piece) {
        const uint64_t left = count - first, length = left < piece ? left : piece;
        uint8_t *const out = (uint8_t *)points + first * bytes;
        const fr *const in = (const fr *)scalars + first;
        if (device_is_cancelled(cancel)) return DEVICE_ABI_CANCELLED;
        if (in_g1) {
            g1_setup_run(queue, &multiples->g1, out, in, length);
        } else {
            g2_setup_run(queue, &multiples->g2, out, in, length);
        }
        status = library_work_result(&multiples->work, message);
    }
    if (status == DEVICE_ABI_OK && count) gpu_spoil_points(GPU_SETUP, points, bytes, count, multiples->work.number);
    return status;
}

/* ---- lists ---------------------------------------------------------------------------------------------- */

static uint64_t library_measure_lists(uint32_t log2, uint64_t piece) {
    device_queue queue = library_measuring_queue();
    lists_memory memory;
    lists_allocate(&queue, &memory, log2, piece);
    return queue.bytes;
}

static void library_lists_close(void *handle) {
    library_lists *lists = (library_lists *)handle;
    device_queue queue;
    memset(&queue, 0, sizeof queue);
    gpu_use(lists->work.device->index, &queue);
    device_finish(&lists->work.queue);
    lists_release(&lists->memory);
    library_work_end(&lists->work);
    free(lists);
}

static device_abi_status library_lists_open(void *handle, void **opened, uint32_t log2, const void *roots, const int32_t *cancel,
                                            char *message) {
    library_device *device = (library_device *)handle;
    const int keeps_piece = device_is_tuned(&device->tuning, TUNING_FOLD_PIECE);
    uint64_t piece = device_tuned(&device->tuning, TUNING_FOLD_PIECE, LISTS_PIECE);
    while (!keeps_piece && piece > LISTS_MIN_PIECE && library_measure_lists(log2, piece) > device->budget) piece /= 2;
    library_lists *lists = (library_lists *)calloc(1, sizeof *lists);
    if (!lists) return DEVICE_ABI_HOST_OUT_OF_MEMORY;
    device_abi_status status =
        library_work_begin(&lists->work, device, library_measure_lists(log2, piece), cancel, message);
    if (status != DEVICE_ABI_OK) {
        free(lists);
        return status;
    }
    device_queue *queue = &lists->work.queue;
    status = library_work_call(&lists->work, GPU_FOLD, message);
    lists_allocate(queue, &lists->memory, log2, piece);
    device_write(queue, lists->memory.roots, roots, sizeof(fr) << log2);
    device_finish(queue);
    if (status == DEVICE_ABI_OK) status = library_work_result(&lists->work, message);
    if (status != DEVICE_ABI_OK) {
        library_lists_close(lists);
        return status;
    }
    *opened = lists;
    return DEVICE_ABI_OK;
}

static void library_report(const device_abi_watch *watch, uint64_t points) {
    if (watch->report) watch->report(watch->argument, points);
}

static device_abi_status library_lists_scale(void *handle, void *points, const void *scalars, uint64_t count,
                                             const device_abi_watch *watch, char *message) {
    library_lists *lists = (library_lists *)handle;
    const uint64_t piece = lists->memory.piece;
    device_abi_status status = library_work_call(&lists->work, GPU_FOLD, message);
    for (uint64_t first = 0; first < count && status == DEVICE_ABI_OK; first += piece) {
        const uint64_t left = count - first, length = left < piece ? left : piece;
        if (device_is_cancelled(watch->cancel)) return DEVICE_ABI_CANCELLED;
        lists_scale_run(&lists->work.queue, &lists->memory, (g1_affine *)points + first, (const fr *)scalars + first, length);
        status = library_work_result(&lists->work, message);
        library_report(watch, length);
    }
    if (status == DEVICE_ABI_OK && count) gpu_spoil_points(GPU_FOLD, points, sizeof(g1_affine), count, lists->work.number);
    return status;
}

static device_abi_status library_lists_transform(void *handle, void *points, uint32_t log2, int forward,
                                                 const device_abi_watch *watch, char *message) {
    library_lists *lists = (library_lists *)handle;
    const size_t bytes = sizeof(g1_affine) << log2;
    device_queue *queue = &lists->work.queue;
    device_abi_status status = library_work_call(&lists->work, GPU_FOLD, message);
    if (status != DEVICE_ABI_OK) return status;
    device_write(queue, lists->memory.points, points, bytes);
    for (uint32_t stage = 0; stage < log2; stage++) {
        if (device_is_cancelled(watch->cancel)) {
            device_finish(queue);
            return DEVICE_ABI_CANCELLED;
        }
        lists_stage_run(queue, &lists->memory, log2, forward ? stage : log2 - 1 - stage, forward ? 1 : 0);
        device_finish(queue);
        library_report(watch, ((uint64_t)1 << log2) / 2);
    }
    device_read(queue, points, lists->memory.points, bytes);
    status = library_work_result(&lists->work, message);
    if (status == DEVICE_ABI_OK) gpu_spoil_points(GPU_FOLD, points, sizeof(g1_affine), (uint64_t)1 << log2, lists->work.number);
    return status;
}

#endif
