/* cuda/msm/sort.h - from scalars to pieces: runs of entries, one per thread; the same for both groups.
 *
 * An entry is an index into the table of bases and a sign. Digits are sorted by bucket in two passes: in the first, blocks
 * distribute the entries of their digits to partitions of buckets; in the second, one block sorts a partition. Then buckets are
 * divided into pieces of at most plan->piece entries, and pieces are ordered by length, longest first, so that the threads of a
 * warp finish together. The order of entries within a bucket is not deterministic; sums do not depend on it.
 * The buckets of several multiplications are consecutive, so only the first pass distinguishes them.
 */
#ifndef CUDA_MSM_SORT_H
#define CUDA_MSM_SORT_H

#include "cuda/base/scan.h"
#include "cuda/field/fields.h"
#include "cuda/msm/plan.h"

#define MSM_SORT_THREADS 256
#define MSM_LISTS 2

/* Digits of scalars, and the scalars that a list of bases uses. */
typedef struct msm_list {
    const int32_t *digits;   /* of scalar i of multiplication m in window w: digits[w * stride + m * step + i] */
    uint64_t stride, step;
    const uint32_t *scalars; /* number of the scalar of base i; NULL: i */
    uint32_t count;
} msm_list;

/* A run of sorted entries; `place` is the index of its sum: the bucket, or an index above all buckets for a part of one. */
typedef struct msm_piece {
    uint32_t start, length, place;
} msm_piece;

/* A bucket of several pieces, and the index of the first piece's sum. */
typedef struct msm_long {
    uint32_t bucket, place, pieces;
} msm_long;

/* Counters on the device. */
typedef struct msm_counts {
    uint32_t entries, pieces, partials, longs;
    uint32_t lengths[DEVICE_MSM_MAX_PIECE + 1]; /* pieces of each length, then the index of the next piece of that length */
} msm_counts;

/* All device memory of the sort. */
typedef struct msm_sort_memory {
    uint32_t *counters, *scan_sums;
    uint64_t *partitioned; /* low bits of the bucket, then the entry */
    uint32_t *sorted;
    uint32_t *starts; /* first entry of each bucket in `sorted`, and the end */
    msm_piece *pieces;
    msm_long *longs;
    msm_counts *counts;
} msm_sort_memory;

typedef struct msm_sort_arguments {
    device_msm_plan plan;
    msm_list lists[MSM_LISTS]; /* plan.count bases together */
    msm_sort_memory memory;
} msm_sort_arguments;

/* ---- digits ---------------------------------------------------------------------------------- */

typedef struct msm_recode_arguments {
    int32_t *digits;
    const fr *values;
    uint32_t unit[LIMBS]; /* scalar i is the plain number values[i] * unit */
    uint32_t count, window_bits, windows;
} msm_recode_arguments;

DEVICE void msm_recode(grid_place place, const msm_recode_arguments *arguments, void *shared, uint32_t phase) {
    const uint64_t i = device_index(place);
    const uint32_t bits = arguments->window_bits, half = 1u << (bits - 1), mask = (half << 1) - 1;
    uint32_t limbs[LIMBS], carry = 0;
    (void)shared;
    (void)phase;
    if (i >= arguments->count) return;
    const fr value = arguments->values[i];
    fr_mul_plain(limbs, &value, arguments->unit);
    for (uint32_t w = 0; w < arguments->windows; w++) {
        const uint32_t digit = (limbs[0] & mask) + carry;
        carry = digit >= half;
        arguments->digits[(uint64_t)w * arguments->count + i] = (int32_t)digit - (int32_t)(carry << bits);
        DEVICE_UNROLL
        for (int j = 0; j < LIMBS - 1; j++) limbs[j] = limbs[j] >> bits | limbs[j + 1] << (32 - bits);
        limbs[LIMBS - 1] >>= bits;
    }
}
KERNEL(msm_recode, msm_recode_arguments, MSM_SORT_THREADS, 4, 1)

/* ---- first pass: into partitions ------------------------------------------------------------ */

/* The work of a block of the first pass; blocks are ordered by multiplication, window and tile. */
typedef struct msm_tile {
    uint32_t multiplication, window;
    uint32_t tile;        /* index within the window */
    uint32_t first, last; /* range of bases */
} msm_tile;

DEVICE msm_tile msm_tile_of(const device_msm_plan *plan, uint32_t block) {
    msm_tile tile;
    const uint32_t row = block / plan->tiles;
    tile.multiplication = row / plan->windows;
    tile.window = row % plan->windows;
    tile.tile = block % plan->tiles;
    tile.first = tile.tile * plan->tile;
    tile.last = plan->count - tile.first < plan->tile ? plan->count : tile.first + plan->tile;
    return tile;
}

/* The digit of base i in the tile's window. */
DEVICE int32_t msm_digit(const msm_list *lists, const msm_tile *tile, uint32_t i) {
    const int second = i >= lists[0].count;
    const msm_list *list = &lists[second];
    if (second) i -= lists[0].count;
    return list->digits[tile->window * list->stride + tile->multiplication * list->step + (list->scalars ? list->scalars[i] : i)];
}

/* The bucket of a non-zero digit. */
DEVICE uint32_t msm_bucket(int32_t digit) { return (uint32_t)(digit < 0 ? -digit : digit) - 1; }

/* The counter of partition `partition` of the tile's bucket set. */
DEVICE uint64_t msm_counter(const device_msm_plan *plan, const msm_tile *tile, uint32_t partition) {
    const uint32_t set = tile->multiplication * plan->sets + tile->window % plan->sets;
    const uint64_t row = (uint64_t)set * plan->partitions + partition;
    return (row * plan->shifts + tile->window / plan->sets) * plan->tiles + tile->tile;
}

DEVICE void msm_sort_count(grid_place place, const msm_sort_arguments *arguments, void *shared, uint32_t phase) {
    const device_msm_plan *plan = &arguments->plan;
    const msm_tile tile = msm_tile_of(plan, place.block);
    uint32_t *counters = (uint32_t *)shared;
    if (phase == 0) {
        for (uint32_t p = place.thread; p < plan->partitions; p += place.threads) counters[p] = 0;
    } else if (phase == 1) {
        for (uint32_t i = tile.first + place.thread; i < tile.last; i += place.threads) {
            const int32_t digit = msm_digit(arguments->lists, &tile, i);
            if (digit) device_add(&counters[msm_bucket(digit) >> plan->low_bits], 1);
        }
    } else {
        for (uint32_t p = place.thread; p < plan->partitions; p += place.threads) {
            arguments->memory.counters[msm_counter(plan, &tile, p)] = counters[p];
        }
    }
}
KERNEL(msm_sort_count, msm_sort_arguments, MSM_SORT_THREADS, 4, 3)

DEVICE void msm_sort_partition(grid_place place, const msm_sort_arguments *arguments, void *shared, uint32_t phase) {
    const device_msm_plan *plan = &arguments->plan;
    const msm_tile tile = msm_tile_of(plan, place.block);
    uint32_t *next = (uint32_t *)shared;
    if (phase == 0) {
        for (uint32_t p = place.thread; p < plan->partitions; p += place.threads) {
            next[p] = arguments->memory.counters[msm_counter(plan, &tile, p)];
        }
    } else {
        const uint32_t row = tile.window / plan->sets * plan->count, low = (1u << plan->low_bits) - 1;
        for (uint32_t i = tile.first + place.thread; i < tile.last; i += place.threads) {
            const int32_t digit = msm_digit(arguments->lists, &tile, i);
            if (!digit) continue;
            const uint32_t bucket = msm_bucket(digit), entry = (row + i) << 1 | (digit < 0);
            const uint32_t to = device_add(&next[bucket >> plan->low_bits], 1);
            arguments->memory.partitioned[to] = (uint64_t)(bucket & low) << 32 | entry;
        }
    }
}
KERNEL(msm_sort_partition, msm_sort_arguments, MSM_SORT_THREADS, 4, 2)

/* ---- second pass: by bucket -------------------------------------------------------------------- */

/* Returns where partition `partition`, counted over all sets, begins. */
DEVICE uint32_t msm_partition_start(const msm_sort_arguments *arguments, uint32_t partition) {
    const device_msm_plan *plan = &arguments->plan;
    if (partition == plan->all_sets * plan->partitions) return arguments->memory.counts->entries;
    return arguments->memory.counters[(uint64_t)partition * plan->shifts * plan->tiles];
}

DEVICE void msm_sort_buckets(grid_place place, const msm_sort_arguments *arguments, void *shared, uint32_t phase) {
    const msm_sort_memory *memory = &arguments->memory;
    const uint32_t buckets = 1u << arguments->plan.low_bits;
    const uint32_t first = msm_partition_start(arguments, place.block);
    const uint32_t last = msm_partition_start(arguments, place.block + 1);
    uint32_t *next = (uint32_t *)shared, *partials = next + buckets;
    const uint32_t own = (buckets + place.threads - 1) / place.threads, own_first = place.thread * own;
    if (phase == 0) {
        for (uint32_t b = place.thread; b < buckets; b += place.threads) next[b] = 0;
    } else if (phase == 1) {
        for (uint32_t i = first + place.thread; i < last; i += place.threads) {
            device_add(&next[memory->partitioned[i] >> 32], 1);
        }
    } else if (phase == 2) {
        partials[place.thread] = scan_sum(next, buckets, own_first, own);
    } else if (phase == 3) {
        scan_group(partials, place.threads, place.thread);
    } else if (phase == 4) {
        scan_replace(next, buckets, own_first, own, first + scan_before(partials, place.threads, place.thread));
    } else if (phase == 5) {
        uint32_t *starts = memory->starts + (uint64_t)place.block * buckets;
        for (uint32_t b = place.thread; b < buckets; b += place.threads) starts[b] = next[b];
        if (place.thread == 0 && place.block == place.blocks - 1) starts[buckets] = last;
    } else {
        for (uint32_t i = first + place.thread; i < last; i += place.threads) {
            const uint64_t entry = memory->partitioned[i];
            memory->sorted[device_add(&next[entry >> 32], 1)] = (uint32_t)entry;
        }
    }
}
KERNEL(msm_sort_buckets, msm_sort_arguments, MSM_SORT_THREADS, 4, 7)

/* ---- pieces ------------------------------------------------------------------------------------- */

/* Returns the number of entries of bucket `key`, counted over all sets. */
DEVICE uint32_t msm_length(const msm_sort_arguments *arguments, uint64_t key) {
    return arguments->memory.starts[key + 1] - arguments->memory.starts[key];
}

/* Adds the pieces of this thread's bucket to the block's counters of lengths. */
DEVICE void msm_count_pieces(const msm_sort_arguments *arguments, uint32_t *lengths, uint64_t key) {
    const uint32_t piece = arguments->plan.piece;
    if (key >= (uint64_t)arguments->plan.all_sets * arguments->plan.buckets) return;
    const uint32_t length = msm_length(arguments, key);
    if (length >= piece) device_add(&lengths[piece], length / piece);
    if (length % piece) device_add(&lengths[length % piece], 1);
}

DEVICE void msm_pieces_count(grid_place place, const msm_sort_arguments *arguments, void *shared, uint32_t phase) {
    const uint32_t piece = arguments->plan.piece;
    uint32_t *lengths = (uint32_t *)shared;
    if (phase == 0) {
        for (uint32_t l = place.thread; l <= piece; l += place.threads) lengths[l] = 0;
    } else if (phase == 1) {
        msm_count_pieces(arguments, lengths, device_index(place));
    } else {
        for (uint32_t l = place.thread; l <= piece; l += place.threads) {
            if (lengths[l]) device_add(&arguments->memory.counts->lengths[l], lengths[l]);
        }
    }
}
KERNEL(msm_pieces_count, msm_sort_arguments, MSM_SORT_THREADS, 4, 3)

/* Runs in one block, with a thread for each length, longest first: converts counts of lengths to start indices. */
DEVICE void msm_pieces_order(grid_place place, const msm_sort_arguments *arguments, void *shared, uint32_t phase) {
    msm_counts *counts = arguments->memory.counts;
    uint32_t *partials = (uint32_t *)shared;
    const uint32_t piece = arguments->plan.piece, thread = place.thread;
    if (phase == 0) {
        partials[thread] = thread < piece ? counts->lengths[piece - thread] : 0;
    } else if (phase == 1) {
        scan_group(partials, place.threads, thread);
    } else {
        if (thread < piece) counts->lengths[piece - thread] = scan_before(partials, place.threads, thread);
        if (thread == 0) counts->pieces = scan_before(partials, place.threads, place.threads);
    }
}
KERNEL(msm_pieces_order, msm_sort_arguments, DEVICE_MSM_MAX_PIECE, 1, 3)

/* Writes the pieces of bucket `key`; next: index of the block's next piece of each length. */
DEVICE void msm_place_pieces(const msm_sort_arguments *arguments, uint32_t *next, uint64_t key) {
    const msm_sort_memory *memory = &arguments->memory;
    const uint32_t piece = arguments->plan.piece;
    const uint64_t keys = (uint64_t)arguments->plan.all_sets * arguments->plan.buckets;
    if (key >= keys) return;
    const uint32_t length = msm_length(arguments, key), full = length / piece, rest = length % piece;
    const uint32_t pieces = full + (rest != 0);
    uint32_t start = memory->starts[key], place = (uint32_t)key;
    if (pieces == 0) return;
    if (pieces > 1) {
        const uint32_t partial = device_add(&memory->counts->partials, pieces);
        const msm_long entry = {(uint32_t)key, (uint32_t)keys + partial, pieces};
        place = entry.place;
        memory->longs[device_add(&memory->counts->longs, 1)] = entry;
    }
    if (full) {
        const uint32_t to = device_add(&next[piece], full);
        for (uint32_t i = 0; i < full; i++, start += piece, place++) {
            const msm_piece run = {start, piece, place};
            memory->pieces[to + i] = run;
        }
    }
    if (rest) {
        const msm_piece run = {start, rest, place};
        memory->pieces[device_add(&next[rest], 1)] = run;
    }
}

DEVICE void msm_pieces_place(grid_place place, const msm_sort_arguments *arguments, void *shared, uint32_t phase) {
    const uint32_t piece = arguments->plan.piece;
    uint32_t *next = (uint32_t *)shared;
    if (phase == 0) {
        for (uint32_t l = place.thread; l <= piece; l += place.threads) next[l] = 0;
    } else if (phase == 1) {
        msm_count_pieces(arguments, next, device_index(place));
    } else if (phase == 2) {
        for (uint32_t l = place.thread; l <= piece; l += place.threads) {
            if (next[l]) next[l] = device_add(&arguments->memory.counts->lengths[l], next[l]);
        }
    } else {
        msm_place_pieces(arguments, next, device_index(place));
    }
}
KERNEL(msm_pieces_place, msm_sort_arguments, MSM_SORT_THREADS, 4, 4)

/* ---- memory and launches -------------------------------------------------------------------------- */

/* Errors are recorded in the queue. */
static inline void msm_sort_allocate(device_queue *queue, device_owner *owner, msm_sort_memory *memory,
                                     const device_msm_plan *plan) {
    const uint64_t counters = device_msm_counters(plan), entries = device_msm_entries(plan);
    memory->counters = (uint32_t *)device_own(queue, owner, counters * sizeof(uint32_t));
    memory->scan_sums = (uint32_t *)device_own(queue, owner, scan_blocks(counters) * sizeof(uint32_t));
    memory->partitioned = (uint64_t *)device_own(queue, owner, entries * sizeof(uint64_t));
    memory->sorted = (uint32_t *)device_own(queue, owner, entries * sizeof(uint32_t));
    memory->starts = (uint32_t *)device_own(queue, owner, (device_msm_keys(plan) + 1) * sizeof(uint32_t));
    memory->pieces = (msm_piece *)device_own(queue, owner, device_msm_pieces(plan) * sizeof(msm_piece));
    memory->longs = (msm_long *)device_own(queue, owner, device_msm_longs(plan) * sizeof(msm_long));
    memory->counts = (msm_counts *)device_own(queue, owner, sizeof(msm_counts));
}

static inline void msm_recode_run(device_queue *queue, const msm_recode_arguments *arguments) {
    LAUNCH(queue, msm_recode, device_blocks(arguments->count, MSM_SORT_THREADS), MSM_SORT_THREADS, 0, arguments);
}

static inline void msm_sort_run(device_queue *queue, const msm_sort_arguments *arguments) {
    const device_msm_plan *plan = &arguments->plan;
    const msm_sort_memory *memory = &arguments->memory;
    const uint64_t counters = device_msm_counters(plan), tiles = (uint64_t)plan->multiplications * plan->windows * plan->tiles;
    const uint64_t key_blocks = device_blocks(device_msm_keys(plan), MSM_SORT_THREADS);
    const size_t partition_bytes = plan->partitions * sizeof(uint32_t);
    const size_t bucket_bytes = (sizeof(uint32_t) << plan->low_bits) + SCAN_SHARED_BYTES(MSM_SORT_THREADS);
    const size_t length_bytes = (plan->piece + 1) * sizeof(uint32_t);
    device_zero(queue, memory->counts, sizeof(msm_counts));
    device_zero(queue, memory->counters, counters * sizeof(uint32_t)); /* the last row of windows may be incomplete */
    LAUNCH(queue, msm_sort_count, tiles, MSM_SORT_THREADS, partition_bytes, arguments);
    scan_run(queue, memory->counters, counters, memory->scan_sums, &memory->counts->entries);
    LAUNCH(queue, msm_sort_partition, tiles, MSM_SORT_THREADS, partition_bytes, arguments);
    LAUNCH(queue, msm_sort_buckets, (uint64_t)plan->all_sets * plan->partitions, MSM_SORT_THREADS, bucket_bytes, arguments);
    LAUNCH(queue, msm_pieces_count, key_blocks, MSM_SORT_THREADS, length_bytes, arguments);
    LAUNCH(queue, msm_pieces_order, 1, DEVICE_MSM_MAX_PIECE, SCAN_SHARED_BYTES(DEVICE_MSM_MAX_PIECE), arguments);
    LAUNCH(queue, msm_pieces_place, key_blocks, MSM_SORT_THREADS, length_bytes, arguments);
}

#endif
