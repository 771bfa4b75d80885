/* cuda/msm/group_impl.h - the sums of a multi-scalar multiplication in one group; included once per group by cuda/msm/sums.h,
 * which defines AFFINE, XYZZ, C(name) and, for MSM_THREADS threads with the registers that the loops need, MSM_BLOCKS_PER_SM and
 * MSM_REDUCE_BLOCKS_PER_SM; and in G2, where the plan can choose other kernels, MSM_ADD_OUT_OF_LINE, an addition with products out of
 * line. All are undefined here.
 *
 * One thread sums a piece of a bucket, with the sum in registers, and loads the next base in advance. One block adds the pieces
 * of a long bucket. Then the sum of (b + 1) * bucket b is computed level by level. A node over `width` children of `size` buckets
 * each has their plain sum P and W = sum of b * bucket b, with b counted from the node's first bucket: W = sum of W_j + size *
 * (sum of j * P_j). Levels of few nodes would leave most of the GPU idle: the last 2^MSM_TAIL_LOG2 nodes of a set are added at once, by
 * a block for each bit of j, as sum of j * P_j = sum of 2^k * (sum of the P_j whose j has bit k). Each of those sums, and then each set,
 * is doubled by a thread of its own, and a block adds them in pairs.
 */

/* Addition and doubling out of line, for kernels that add in several places. */
DEVICE_COLD XYZZ C(xyzz_sum)(XYZZ p, XYZZ q) {
    XYZZ r;
    C(xyzz_add)(&r, &p, &q);
    return r;
}

DEVICE_COLD XYZZ C(xyzz_twice)(XYZZ p) {
    XYZZ r;
    C(xyzz_double)(&r, &p);
    return r;
}

/* Sums of a range of buckets. */
typedef struct C(msm_node) {
    XYZZ plain, weighted;
} C(msm_node);

typedef struct C(msm_memory) {
    XYZZ *sums;              /* of buckets, then of pieces */
    C(msm_node) *nodes[2];   /* of two levels */
    XYZZ *parts, *totals;    /* of each set: sums of its tail, and its sum */
    XYZZ *results;           /* one per multiplication */
} C(msm_memory);

typedef struct C(msm_arguments) {
    msm_sort_arguments sort;
    const AFFINE *bases; /* shifts rows of count */
    C(msm_memory) memory;
} C(msm_arguments);

/* ---- buckets ------------------------------------------------------------------------------------ */

/* The base of an entry with its sign. */
DEVICE void C(msm_base)(AFFINE *r, const AFFINE *bases, uint32_t entry) {
    *r = bases[entry >> 1];
    if (entry & 1) C(affine_neg)(r, r);
}

#define ACCUMULATE C(msm_accumulate)
#define ADD C(xyzz_add_affine)
#include "cuda/msm/accumulate_impl.h"
#undef ACCUMULATE
#undef ADD

#if defined(MSM_ADD_OUT_OF_LINE)
#define ACCUMULATE C(msm_accumulate_small)
#define ADD MSM_ADD_OUT_OF_LINE
#include "cuda/msm/accumulate_impl.h"
#undef ACCUMULATE
#undef ADD
#include "cuda/msm/accumulate_halves.h"
#endif

#define MSM_JOIN_PHASES (1 + MSM_JOIN_LOG2)

/* Number of phases of a block, which joins the long buckets block, block + blocks, ... one after another. */
DEVICE uint32_t C(msm_join_phases)(grid_place place, const C(msm_arguments) *arguments) {
    const uint32_t longs = arguments->sort.memory.counts->longs;
    return longs > place.block ? (longs - place.block + place.blocks - 1) / place.blocks * MSM_JOIN_PHASES : 0;
}

/* Step `step` of adding up the 2^log2 partial sums of a block, from 1; the last one writes the sum. */
DEVICE void C(msm_fold)(XYZZ *partials, uint32_t log2, uint32_t thread, uint32_t step, XYZZ *to) {
    const uint32_t half = 1u << (log2 - step);
    if (thread >= half) return;
    XYZZ sum = partials[thread], other = partials[thread + half];
    sum = C(xyzz_sum)(sum, other);
    if (step < log2) {
        partials[thread] = sum;
    } else {
        *to = sum;
    }
}

DEVICE void C(msm_join_pieces)(grid_place place, const C(msm_arguments) *arguments, void *shared, uint32_t phase) {
    XYZZ *partials = (XYZZ *)shared;
    const uint32_t step = phase % MSM_JOIN_PHASES;
    const msm_long entry = arguments->sort.memory.longs[place.block + phase / MSM_JOIN_PHASES * place.blocks];
    if (step > 0) {
        C(msm_fold)(partials, MSM_JOIN_LOG2, place.thread, step, &arguments->memory.sums[entry.bucket]);
        return;
    }
    const XYZZ *sums = arguments->memory.sums + entry.place;
    XYZZ sum;
    C(xyzz_set_infinity)(&sum);
    for (uint32_t i = place.thread; i < entry.pieces; i += MSM_JOIN_THREADS) {
        const XYZZ other = sums[i];
        sum = C(xyzz_sum)(sum, other);
    }
    partials[place.thread] = sum;
}
KERNEL(C(msm_join_pieces), C(msm_arguments), MSM_JOIN_THREADS, 1, C(msm_join_phases)(place, arguments))

/* ---- sums over buckets ----------------------------------------------------------------------------- */

/* First level: nodes of 2^reduce_log2 buckets. The sums of empty buckets are uninitialised. */
DEVICE void C(msm_reduce_buckets)(grid_place place, const C(msm_arguments) *arguments, void *shared, uint32_t phase) {
    const uint64_t keys = (uint64_t)arguments->sort.plan.all_sets * arguments->sort.plan.buckets;
    const uint32_t width = 1u << arguments->sort.plan.reduce_log2;
    const uint64_t node = device_index(place), first = node * width;
    C(msm_node) sum;
    (void)shared;
    (void)phase;
    if (first >= keys) return;
    C(xyzz_set_infinity)(&sum.plain);
    C(xyzz_set_infinity)(&sum.weighted);
    for (uint32_t b = width; b-- > 0;) {
        if (msm_length(&arguments->sort, first + b)) {
            const XYZZ bucket = arguments->memory.sums[first + b];
            sum.plain = C(xyzz_sum)(sum.plain, bucket);
        }
        if (b > 0) sum.weighted = C(xyzz_sum)(sum.weighted, sum.plain);
    }
    arguments->memory.nodes[0][node] = sum;
}
KERNEL(C(msm_reduce_buckets), C(msm_arguments), MSM_THREADS, MSM_REDUCE_BLOCKS_PER_SM, 1)

typedef struct C(msm_level) {
    const C(msm_node) *children;
    C(msm_node) *nodes;
    uint64_t count;      /* number of nodes */
    uint32_t width_log2; /* children of a node */
    uint32_t size_log2;  /* buckets of a child */
} C(msm_level);

DEVICE void C(msm_reduce_nodes)(grid_place place, const C(msm_level) *arguments, void *shared, uint32_t phase) {
    const uint64_t node = device_index(place);
    const uint32_t width = 1u << arguments->width_log2;
    (void)shared;
    (void)phase;
    if (node >= arguments->count) return;
    const C(msm_node) *children = arguments->children + node * width;
    C(msm_node) sum;
    C(xyzz_set_infinity)(&sum.plain);
    C(xyzz_set_infinity)(&sum.weighted);
    for (uint32_t j = width; j-- > 0;) {
        const XYZZ plain = children[j].plain;
        sum.plain = C(xyzz_sum)(sum.plain, plain);
        if (j > 0) sum.weighted = C(xyzz_sum)(sum.weighted, sum.plain);
    }
    for (uint32_t i = 0; i < arguments->size_log2; i++) sum.weighted = C(xyzz_twice)(sum.weighted);
    for (uint32_t j = 0; j < width; j++) {
        const XYZZ weighted = children[j].weighted;
        sum.weighted = C(xyzz_sum)(sum.weighted, weighted);
    }
    arguments->nodes[node] = sum;
}
KERNEL(C(msm_reduce_nodes), C(msm_level), MSM_THREADS, MSM_REDUCE_BLOCKS_PER_SM, 1)

/* The last nodes of all sets. */
typedef struct C(msm_tail) {
    const C(msm_node) *nodes;
    XYZZ *parts, *totals, *results;
    uint32_t log2;              /* of the nodes of a set */
    uint32_t size_log2;         /* buckets of a node */
    uint32_t sets, sets_log2, window_bits; /* of a multiplication; rounded up */
} C(msm_tail);

/* Sums of a tail: one for each bit, the plain one, and the weighted one. */
DEVICE uint32_t C(msm_tail_parts)(const C(msm_tail) *arguments) { return arguments->log2 + 2; }

/* One block for each sum. */
DEVICE void C(msm_tail_sums)(grid_place place, const C(msm_tail) *arguments, void *shared, uint32_t phase) {
    XYZZ *partials = (XYZZ *)shared;
    const uint32_t log2 = arguments->log2, parts = C(msm_tail_parts)(arguments);
    const uint32_t part = place.block % parts, is_bit = part < log2;
    if (phase > 0) {
        C(msm_fold)(partials, MSM_JOIN_LOG2, place.thread, phase, &arguments->parts[place.block]);
        return;
    }
    const C(msm_node) *nodes = arguments->nodes + ((uint64_t)(place.block / parts) << log2);
    const uint32_t low = (1u << part) - 1, count = 1u << (log2 - is_bit);
    XYZZ sum;
    C(xyzz_set_infinity)(&sum);
    for (uint32_t i = place.thread; i < count; i += MSM_JOIN_THREADS) {
        const uint32_t node = is_bit ? (i & ~low) << 1 | 1u << part | (i & low) : i;
        const XYZZ other = part == log2 + 1 ? nodes[node].weighted : nodes[node].plain;
        sum = C(xyzz_sum)(sum, other);
    }
    partials[place.thread] = sum;
}
KERNEL(C(msm_tail_sums), C(msm_tail), MSM_JOIN_THREADS, 1, MSM_JOIN_PHASES)

/* One block per set, with a thread for each of its sums: the sum of the set, where buckets count from one. */
DEVICE void C(msm_tail_totals)(grid_place place, const C(msm_tail) *arguments, void *shared, uint32_t phase) {
    XYZZ *partials = (XYZZ *)shared;
    const uint32_t log2 = arguments->log2, parts = C(msm_tail_parts)(arguments), part = place.thread;
    if (phase > 0) {
        C(msm_fold)(partials, MSM_PARTS_LOG2, place.thread, phase, &arguments->totals[place.block]);
        return;
    }
    XYZZ sum;
    C(xyzz_set_infinity)(&sum);
    if (part < parts) sum = arguments->parts[(uint64_t)place.block * parts + part];
    const uint32_t doublings = part < log2 ? arguments->size_log2 + part : 0;
    for (uint32_t i = 0; i < doublings; i++) sum = C(xyzz_twice)(sum);
    partials[part] = sum;
}
KERNEL(C(msm_tail_totals), C(msm_tail), 1u << MSM_PARTS_LOG2, 1, 1 + MSM_PARTS_LOG2)

/* One block per multiplication of several sets, with a thread for each set: sum of 2^(window_bits * set) * set. */
DEVICE void C(msm_join_sets)(grid_place place, const C(msm_tail) *arguments, void *shared, uint32_t phase) {
    XYZZ *partials = (XYZZ *)shared;
    const uint32_t set = place.thread;
    if (phase > 0) {
        C(msm_fold)(partials, arguments->sets_log2, place.thread, phase, &arguments->results[place.block]);
        return;
    }
    XYZZ sum;
    C(xyzz_set_infinity)(&sum);
    if (set < arguments->sets) sum = arguments->totals[(uint64_t)place.block * arguments->sets + set];
    const uint32_t doublings = set < arguments->sets ? arguments->window_bits * set : 0;
    for (uint32_t i = 0; i < doublings; i++) sum = C(xyzz_twice)(sum);
    partials[set] = sum;
}
KERNEL(C(msm_join_sets), C(msm_tail), DEVICE_MSM_MAX_SETS, 1, 1 + arguments->sets_log2)

/* ---- memory and launches ------------------------------------------------------------------------------ */

static inline void C(msm_allocate)(device_queue *queue, device_owner *owner, C(msm_memory) *memory,
                                   const device_msm_plan *plan) {
    const uint64_t keys = device_msm_keys(plan), nodes = keys >> plan->reduce_log2;
    memory->sums = (XYZZ *)device_own(queue, owner, (keys + device_msm_partials(plan)) * sizeof(XYZZ));
    memory->nodes[0] = (C(msm_node) *)device_own(queue, owner, nodes * sizeof(C(msm_node)));
    memory->nodes[1] = (C(msm_node) *)device_own(queue, owner, (nodes + 1) / 2 * sizeof(C(msm_node)));
    memory->parts = (XYZZ *)device_own(queue, owner, (uint64_t)plan->all_sets * (MSM_TAIL_LOG2 + 2) * sizeof(XYZZ));
    memory->totals = (XYZZ *)device_own(queue, owner, plan->all_sets * sizeof(XYZZ));
    memory->results = (XYZZ *)device_own(queue, owner, plan->multiplications * sizeof(XYZZ));
}

static inline void C(msm_reduce)(device_queue *queue, const C(msm_arguments) *arguments) {
    const device_msm_plan *plan = &arguments->sort.plan;
    uint32_t done = plan->reduce_log2, from = 0;
    uint64_t count = device_msm_keys(plan) >> done;
    LAUNCH(queue, C(msm_reduce_buckets), device_blocks(count, plan->threads), plan->threads, 0, arguments);
    while (plan->window_bits - 1 - done > MSM_TAIL_LOG2) {
        const uint32_t left = plan->window_bits - 1 - done - MSM_TAIL_LOG2;
        const uint32_t width = left < plan->level_log2 ? left : plan->level_log2;
        C(msm_node) *const *nodes = arguments->memory.nodes;
        count >>= width;
        const C(msm_level) level = {nodes[from], nodes[1 - from], count, width, done};
        LAUNCH(queue, C(msm_reduce_nodes), device_blocks(count, plan->threads), plan->threads, 0, &level);
        done += width;
        from = 1 - from;
    }
    const C(msm_memory) *memory = &arguments->memory;
    const uint32_t sets_log2 = device_msm_sets_log2(plan);
    XYZZ *totals = plan->sets == 1 ? memory->results : memory->totals;
    const C(msm_tail) tail = {memory->nodes[from], memory->parts, totals, memory->results, plan->window_bits - 1 - done, done,
                              plan->sets, sets_log2, plan->window_bits};
    const uint64_t parts = (uint64_t)plan->all_sets * (tail.log2 + 2);
    LAUNCH(queue, C(msm_tail_sums), parts, MSM_JOIN_THREADS, MSM_JOIN_THREADS * sizeof(XYZZ), &tail);
    LAUNCH(queue, C(msm_tail_totals), plan->all_sets, 1u << MSM_PARTS_LOG2, sizeof(XYZZ) << MSM_PARTS_LOG2, &tail);
    if (plan->sets == 1) return;
    LAUNCH(queue, C(msm_join_sets), plan->multiplications, 1u << sets_log2, sizeof(XYZZ) << sets_log2, &tail);
}

static inline void C(msm_accumulate_run)(device_queue *queue, const C(msm_arguments) *arguments) {
    const device_msm_plan *plan = &arguments->sort.plan;
    const uint64_t blocks = device_blocks(device_msm_pieces(plan), plan->threads);
#if defined(MSM_ADD_OUT_OF_LINE)
    if (plan->g2 == DEVICE_MSM_G2_SMALL) {
        LAUNCH(queue, C(msm_accumulate_small), blocks, plan->threads, 0, arguments);
        return;
    }
    if (plan->g2 == DEVICE_MSM_G2_HALVES) {
        LAUNCH(queue, C(msm_accumulate_halves), device_blocks(2 * device_msm_pieces(plan), plan->threads), plan->threads, 0, arguments);
        return;
    }
#endif
    LAUNCH(queue, C(msm_accumulate), blocks, plan->threads, 0, arguments);
}

/* The sums of all buckets over the sorted lists. */
static inline void C(msm_buckets_run)(device_queue *queue, const C(msm_arguments) *arguments) {
    const device_msm_plan *plan = &arguments->sort.plan;
    C(msm_accumulate_run)(queue, arguments);
    LAUNCH(queue, C(msm_join_pieces), plan->joins, MSM_JOIN_THREADS, MSM_JOIN_THREADS * sizeof(XYZZ), arguments);
}

/* memory.results = the sums of digit * base over the sorted lists, for a plan that fits. */
static inline void C(msm_sum_run)(device_queue *queue, const msm_sort_arguments *sort, const AFFINE *bases,
                                  const C(msm_memory) *memory) {
    const C(msm_arguments) arguments = {*sort, bases, *memory};
    C(msm_buckets_run)(queue, &arguments);
    C(msm_reduce)(queue, &arguments);
}

/* The same, including the sort. */
static inline void C(msm_run)(device_queue *queue, const msm_sort_arguments *sort, const AFFINE *bases,
                              const C(msm_memory) *memory) {
    msm_sort_run(queue, sort);
    C(msm_sum_run)(queue, sort, bases, memory);
}

/* ---- tables of shifted bases ------------------------------------------------------------------------- */

typedef struct C(msm_table_arguments) {
    AFFINE *table; /* rows of count */
    uint32_t count, row, doublings;
} C(msm_table_arguments);

/* Computes row `row` of a table from the row before it: each base times 2^doublings. */
DEVICE void C(msm_table_row)(grid_place place, const C(msm_table_arguments) *arguments, void *shared, uint32_t phase) {
    const uint64_t i = device_index(place);
    (void)shared;
    (void)phase;
    if (i >= arguments->count) return;
    AFFINE *to = arguments->table + (uint64_t)arguments->row * arguments->count + i, base = to[-(int64_t)arguments->count];
    XYZZ sum;
    C(xyzz_from_affine)(&sum, &base);
    for (uint32_t k = 0; k < arguments->doublings; k++) sum = C(xyzz_twice)(sum);
    C(xyzz_to_affine)(&base, &sum);
    *to = base;
}
KERNEL(C(msm_table_row), C(msm_table_arguments), MSM_THREADS, MSM_BLOCKS_PER_SM, 1)

/* Computes all rows of a table whose first row holds the bases. */
static inline void C(msm_table_run)(device_queue *queue, AFFINE *table, const device_msm_plan *plan) {
    for (uint32_t row = 1; row < plan->shifts; row++) {
        const C(msm_table_arguments) arguments = {table, plan->count, row, plan->window_bits * plan->sets};
        LAUNCH(queue, C(msm_table_row), device_blocks(plan->count, plan->threads), plan->threads, 0, &arguments);
    }
}

#undef MSM_JOIN_PHASES
#undef AFFINE
#undef XYZZ
#undef C
#undef MSM_BLOCKS_PER_SM
#undef MSM_REDUCE_BLOCKS_PER_SM
#undef MSM_ADD_OUT_OF_LINE
#undef MSM_HALVES_BLOCKS_PER_SM
