/* device_setup_group_impl.h - multiples of one point of one group; included once per group by device_setup.h, which defines FE, AFFINE,
 * XYZZ, C(name) and, for SETUP_THREADS threads with the registers that the sums need, SETUP_BLOCKS_PER_SM, and undefines them afterwards.
 *
 * A table holds j * 2^(w window_bits) * point for 1 <= j <= 2^(window_bits - 1) and every window w: a thread adds one of its points per
 * digit of a scalar.
 */

typedef struct C(setup_memory) {
    setup_plan plan;
    AFFINE *bases; /* of the windows, from the point on */
    AFFINE *table;
    fr *scalars; /* of a piece, like the next three */
    XYZZ *sums;
    FE *prefixes;
    AFFINE *points;
} C(setup_memory);

typedef struct C(setup_arguments) {
    const AFFINE *bases, *table;
    const fr *scalars;
    XYZZ *sums;
    uint64_t first, count; /* points of the table */
    uint32_t window_bits, windows;
} C(setup_arguments);

/* 2^(window * window_bits) * bases[0] */
DEVICE void C(setup_windows)(grid_place place, const C(setup_arguments) *arguments, void *shared, uint32_t phase) {
    const uint64_t window = device_index(place);
    (void)shared;
    (void)phase;
    if (window >= arguments->windows) return;
    const AFFINE point = arguments->bases[0];
    XYZZ sum;
    C(xyzz_from_affine)(&sum, &point);
    for (uint32_t i = 0; i < window * arguments->window_bits; i++) sum = C(xyzz_twice)(sum);
    arguments->sums[window] = sum;
}
KERNEL(C(setup_windows), C(setup_arguments), SETUP_THREADS, 1, 1)

DEVICE void C(setup_table)(grid_place place, const C(setup_arguments) *arguments, void *shared, uint32_t phase) {
    const uint64_t i = device_index(place), number = arguments->first + i;
    const uint32_t log2 = arguments->window_bits - 1;
    (void)shared;
    (void)phase;
    if (i >= arguments->count) return;
    const AFFINE base = arguments->bases[number >> log2];
    const uint32_t multiple = (uint32_t)(number & (((uint64_t)1 << log2) - 1)) + 1;
    XYZZ sum;
    C(xyzz_mul_bits)(&sum, &base, &multiple, (int)arguments->window_bits);
    arguments->sums[i] = sum;
}
KERNEL(C(setup_table), C(setup_arguments), SETUP_THREADS, SETUP_BLOCKS_PER_SM, 1)

DEVICE void C(setup_sum)(grid_place place, const C(setup_arguments) *arguments, void *shared, uint32_t phase) {
    const uint64_t i = device_index(place);
    const uint32_t log2 = arguments->window_bits - 1, one[LIMBS] = {1};
    (void)shared;
    (void)phase;
    if (i >= arguments->count) return;
    const fr scalar = arguments->scalars[i];
    uint32_t plain[LIMBS];
    int32_t carry = 0;
    XYZZ sum;
    fr_mul_plain(plain, &scalar, one);
    C(xyzz_set_infinity)(&sum);
    for (uint32_t window = 0; window < arguments->windows; window++) {
        const int32_t digit = setup_digit(plain, window, arguments->window_bits, &carry);
        if (digit == 0) continue;
        const uint32_t magnitude = (uint32_t)(digit < 0 ? -digit : digit);
        AFFINE point = arguments->table[((uint64_t)window << log2) + magnitude - 1];
        if (digit < 0) C(affine_neg)(&point, &point);
        C(xyzz_add_affine)(&sum, &sum, &point);
    }
    arguments->sums[i] = sum;
}
KERNEL(C(setup_sum), C(setup_arguments), SETUP_THREADS, SETUP_BLOCKS_PER_SM, 1)

static inline void C(setup_allocate)(device_queue *queue, C(setup_memory) *memory, const setup_plan *plan) {
    const uint64_t sums = plan->piece > plan->windows ? plan->piece : plan->windows;
    memory->plan = *plan;
    memory->bases = (AFFINE *)device_allocate(queue, plan->windows * sizeof(AFFINE));
    memory->table = (AFFINE *)device_allocate(queue, plan->table * sizeof(AFFINE));
    memory->scalars = (fr *)device_allocate(queue, plan->piece * sizeof(fr));
    memory->sums = (XYZZ *)device_allocate(queue, sums * sizeof(XYZZ));
    memory->prefixes = (FE *)device_allocate(queue, sums * sizeof(FE));
    memory->points = (AFFINE *)device_allocate(queue, plan->piece * sizeof(AFFINE));
}

/* The secrets of a setup were there. */
static inline void C(setup_release)(device_queue *queue, C(setup_memory) *memory) {
    if (memory->scalars) device_zero(queue, memory->scalars, memory->plan.piece * sizeof(fr));
    device_finish(queue);
    device_release(memory->bases);
    device_release(memory->table);
    device_release(memory->scalars);
    device_release(memory->sums);
    device_release(memory->prefixes);
    device_release(memory->points);
}

static inline C(setup_arguments) C(setup_arguments_of)(const C(setup_memory) *memory, uint64_t first, uint64_t count) {
    const C(setup_arguments) arguments = {memory->bases, memory->table,           memory->scalars,     memory->sums, first,
                                          count,         memory->plan.window_bits, memory->plan.windows};
    return arguments;
}

static inline void C(setup_normal)(device_queue *queue, const C(setup_memory) *memory, AFFINE *out, uint64_t count) {
    const C(normal_arguments) arguments = {out, memory->sums, memory->prefixes, 0, count, NORMAL_LIST, 0};
    C(normal_run)(queue, &arguments);
}

/* The table of a point. */
static inline void C(setup_prepare)(device_queue *queue, const C(setup_memory) *memory, const void *point) {
    const setup_plan *plan = &memory->plan;
    const C(setup_arguments) windows = C(setup_arguments_of)(memory, 0, plan->windows);
    device_write(queue, memory->bases, point, sizeof(AFFINE));
    LAUNCH(queue, C(setup_windows), 1, SETUP_THREADS, 0, &windows);
    C(setup_normal)(queue, memory, memory->bases, plan->windows);
    for (uint64_t first = 0; first < plan->table; first += plan->piece) {
        const uint64_t left = plan->table - first, count = left < plan->piece ? left : plan->piece;
        const C(setup_arguments) arguments = C(setup_arguments_of)(memory, first, count);
        LAUNCH(queue, C(setup_table), device_blocks(count, SETUP_THREADS), SETUP_THREADS, 0, &arguments);
        C(setup_normal)(queue, memory, memory->table + first, count);
    }
}

/* points[i] = scalars[i] * point, at most a piece; waits. */
static inline void C(setup_run)(device_queue *queue, const C(setup_memory) *memory, void *points, const void *scalars, uint64_t count) {
    const C(setup_arguments) arguments = C(setup_arguments_of)(memory, 0, count);
    device_write(queue, memory->scalars, scalars, count * sizeof(fr));
    LAUNCH(queue, C(setup_sum), device_blocks(count, SETUP_THREADS), SETUP_THREADS, 0, &arguments);
    C(setup_normal)(queue, memory, memory->points, count);
    device_read(queue, points, memory->points, count * sizeof(AFFINE));
}
