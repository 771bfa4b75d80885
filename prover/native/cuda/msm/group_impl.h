/* cuda/msm/group_impl.h - the sums of a multi-scalar multiplication in one group; included once per group by cuda/msm/sums.h,
 * which defines AFFINE, XYZZ, C(name) and, for MSM_THREADS threads with the registers that the loops need, MSM_BLOCKS_PER_SM and
 * MSM_REDUCE_BLOCKS_PER_SM, and undefines them afterwards.
 *
 * One thread sums a piece of a bucket, with the sum in registers, and loads the next base in advance. One block adds the pieces
 * of a long bucket. Then the sum of (b + 1) * bucket b is computed level by level. A node over `width` children of `size` buckets
 * each has their plain sum P and W = sum of b * bucket b, with b counted from the node's first bucket: W = sum of W_j + size *
 * (sum of j * P_j).
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

DEVICE void C(msm_accumulate)(grid_place place, const C(msm_arguments) *arguments, void *shared, uint32_t phase) {
    const msm_sort_memory *sort = &arguments->sort.memory;
    const uint64_t i = device_index(place);
    (void)shared;
    (void)phase;
    if (i >= sort->counts->pieces) return;
    const msm_piece piece = sort->pieces[i];
    const uint32_t *entries = sort->sorted + piece.start;
    AFFINE base, next;
    XYZZ sum;
    C(msm_base)(&base, arguments->bases, entries[0]);
    C(xyzz_from_affine)(&sum, &base);
    if (piece.length > 1) C(msm_base)(&next, arguments->bases, entries[1]);
    for (uint32_t k = 1; k < piece.length; k++) {
        base = next;
        if (k + 1 < piece.length) C(msm_base)(&next, arguments->bases, entries[k + 1]);
        C(xyzz_add_affine)(&sum, &sum, &base);
    }
    arguments->memory.sums[piece.place] = sum;
}
KERNEL(C(msm_accumulate), C(msm_arguments), MSM_THREADS, MSM_BLOCKS_PER_SM, 1)

#define MSM_JOIN_PHASES (1 + MSM_JOIN_LOG2)

/* Number of phases of a block, which joins the long buckets block, block + blocks, ... one after another. */
DEVICE uint32_t C(msm_join_phases)(grid_place place, const C(msm_arguments) *arguments) {
    const uint32_t longs = arguments->sort.memory.counts->longs;
    return longs > place.block ? (longs - place.block + place.blocks - 1) / place.blocks * MSM_JOIN_PHASES : 0;
}

DEVICE void C(msm_join_pieces)(grid_place place, const C(msm_arguments) *arguments, void *shared, uint32_t phase) {
    XYZZ *partials = (XYZZ *)shared;
    const uint32_t step = phase % MSM_JOIN_PHASES, thread = place.thread;
    const msm_long entry = arguments->sort.memory.longs[place.block + phase / MSM_JOIN_PHASES * place.blocks];
    if (step == 0) {
        const XYZZ *sums = arguments->memory.sums + entry.place;
        XYZZ sum;
        C(xyzz_set_infinity)(&sum);
        for (uint32_t i = thread; i < entry.pieces; i += MSM_JOIN_THREADS) {
            const XYZZ other = sums[i];
            sum = C(xyzz_sum)(sum, other);
        }
        partials[thread] = sum;
        return;
    }
    const uint32_t half = MSM_JOIN_THREADS >> step;
    if (thread >= half) return;
    XYZZ sum = partials[thread], other = partials[thread + half];
    sum = C(xyzz_sum)(sum, other);
    if (step < MSM_JOIN_LOG2) {
        partials[thread] = sum;
    } else {
        arguments->memory.sums[entry.bucket] = sum;
    }
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

typedef struct C(msm_last) {
    const C(msm_node) *sets;
    XYZZ *results;
    uint32_t count, window_bits; /* count: sets of a multiplication */
} C(msm_last);

/* One thread per multiplication: sum of 2^(window_bits * set) * set, where buckets count from one. */
DEVICE void C(msm_join_sets)(grid_place place, const C(msm_last) *arguments, void *shared, uint32_t phase) {
    const C(msm_node) *sets = arguments->sets + (uint64_t)place.block * arguments->count;
    XYZZ sum;
    (void)shared;
    (void)phase;
    C(xyzz_set_infinity)(&sum);
    for (uint32_t set = arguments->count; set-- > 0;) {
        for (uint32_t i = 0; i < arguments->window_bits; i++) sum = C(xyzz_twice)(sum);
        const C(msm_node) node = sets[set];
        sum = C(xyzz_sum)(sum, node.weighted);
        sum = C(xyzz_sum)(sum, node.plain);
    }
    arguments->results[place.block] = sum;
}
KERNEL(C(msm_join_sets), C(msm_last), 1, 1, 1)

/* ---- memory and launches ------------------------------------------------------------------------------ */

static inline void C(msm_release)(C(msm_memory) *memory) {
    device_release(memory->sums);
    device_release(memory->nodes[0]);
    device_release(memory->nodes[1]);
    device_release(memory->results);
}

static inline void C(msm_allocate)(device_queue *queue, C(msm_memory) *memory, const device_msm_plan *plan) {
    const uint64_t keys = device_msm_keys(plan), nodes = keys >> plan->reduce_log2;
    memory->sums = (XYZZ *)device_allocate(queue, (keys + device_msm_partials(plan)) * sizeof(XYZZ));
    memory->nodes[0] = (C(msm_node) *)device_allocate(queue, nodes * sizeof(C(msm_node)));
    memory->nodes[1] = (C(msm_node) *)device_allocate(queue, (nodes + 1) / 2 * sizeof(C(msm_node)));
    memory->results = (XYZZ *)device_allocate(queue, plan->multiplications * sizeof(XYZZ));
}

static inline void C(msm_reduce)(device_queue *queue, const C(msm_arguments) *arguments) {
    const device_msm_plan *plan = &arguments->sort.plan;
    uint32_t done = plan->reduce_log2, from = 0;
    uint64_t count = device_msm_keys(plan) >> done;
    LAUNCH(queue, C(msm_reduce_buckets), device_blocks(count, plan->threads), plan->threads, 0, arguments);
    while (done < plan->window_bits - 1) {
        const uint32_t left = plan->window_bits - 1 - done;
        const uint32_t width = left < plan->level_log2 ? left : plan->level_log2;
        C(msm_node) *const *nodes = arguments->memory.nodes;
        count >>= width;
        const C(msm_level) level = {nodes[from], nodes[1 - from], count, width, done};
        LAUNCH(queue, C(msm_reduce_nodes), device_blocks(count, plan->threads), plan->threads, 0, &level);
        done += width;
        from = 1 - from;
    }
    const C(msm_last) last = {arguments->memory.nodes[from], arguments->memory.results, plan->sets, plan->window_bits};
    LAUNCH(queue, C(msm_join_sets), plan->multiplications, 1, 0, &last);
}

/* The sums of all buckets over the sorted lists. */
static inline void C(msm_buckets_run)(device_queue *queue, const C(msm_arguments) *arguments) {
    const device_msm_plan *plan = &arguments->sort.plan;
    LAUNCH(queue, C(msm_accumulate), device_blocks(device_msm_pieces(plan), plan->threads), plan->threads, 0, arguments);
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
