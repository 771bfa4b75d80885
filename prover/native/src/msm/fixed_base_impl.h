/* msm/fixed_base_impl.h - many multiples of one generator, for the trusted setup; included once per group.
 *
 * A table holds j * 2^(w c) * G for 1 <= j <= 2^(c-1) and every window w. A multiple is then a sum of one table point per signed
 * digit of its scalar. Thousands of such sums are computed as trees with shared inversions, by the routine that sums buckets. The
 * including header defines the macros of msm/group_impl.h.
 */

typedef struct C(fixed_base) {
    uint32_t window_bits, windows, multiples; /* multiples = 2^(window_bits - 1) per window */
    AFFINE *table;                            /* in the stored representation, [windows * multiples] */
    AFFINE generator;
    const g16_cancel *cancel;
} C(fixed_base);

static void C(fixed_base_fill_window)(void *argument, uint32_t window, uint32_t worker) {
    C(fixed_base) *base = argument;
    AFFINE *out = base->table + (size_t)window * base->multiples, step;
    XYZZ sum;
    (void)worker;
    C(xyzz_from_affine)(&sum, &base->generator);
    for (uint32_t i = 0; i < window * base->window_bits; i++) C(xyzz_double)(&sum, &sum);
    C(xyzz_to_affine)(&step, &sum);
    for (uint32_t j = 0; j < base->multiples; j++) {
        if (j % FIXED_BASE_POLL_EVERY == 0 && g16_is_cancelled(base->cancel)) return;
        C(xyzz_to_affine)(&out[j], &sum);
        C(xyzz_add_affine)(&sum, &sum, &step);
    }
    C(msm_to_stored)(out, base->multiples);
}

/* Returns the window size with the fewest additions for `count` multiples. */
static uint32_t C(fixed_base_window)(size_t count) {
    uint32_t best = FIXED_BASE_MIN_WINDOW;
    double best_cost = 0;
    for (uint32_t bits = FIXED_BASE_MIN_WINDOW; bits <= 16; bits++) {
        const double windows = (double)((FIXED_BASE_BITS + bits - 1) / bits);
        /* A table point needs its own inversion, which costs about ten additions. */
        const double cost = windows * ((double)count + 10.0 * (double)(1u << (bits - 1)));
        if (bits == FIXED_BASE_MIN_WINDOW || cost < best_cost) {
            best = bits;
            best_cost = cost;
        }
    }
    return best;
}

static g16_status C(fixed_base_create)(C(fixed_base) *base, const AFFINE *generator, size_t count, thread_pool *pool,
                                       const g16_cancel *cancel) {
    base->window_bits = C(fixed_base_window)(count);
    base->windows = (FIXED_BASE_BITS + base->window_bits - 1) / base->window_bits;
    base->multiples = 1u << (base->window_bits - 1);
    base->generator = *generator;
    base->cancel = cancel;
    base->table = malloc((size_t)base->windows * base->multiples * sizeof *base->table);
    if (!base->table) return G16_OUT_OF_MEMORY;
    const g16_status status = thread_pool_for(pool, base->windows, C(fixed_base_fill_window), base, cancel);
    return g16_is_cancelled(cancel) ? G16_CANCELLED : status; /* a window may be incomplete */
}

/* A list of multiples to compute and write, compressed. */
typedef struct C(fixed_base_job) {
    const C(fixed_base) *base;
    const fr *scalars;
    size_t count;
    uint8_t *out;
    uint8_t *worker_memory;
    size_t worker_bytes;
    uint32_t zeros; /* scalars that are zero: their points are infinity */
} C(fixed_base_job);

static size_t C(fixed_base_worker_bytes)(void) {
    const msm_plan plan = msm_plan_of_window(MSM_MIN_WINDOW);
    return C(msm_scratch_bytes)(&plan, 0) + FIXED_BASE_CHUNK * sizeof(AFFINE) + 2 * ARENA_ALIGNMENT;
}

/* Writes the non-zero digits of one scalar as table points; returns their number. */
static uint32_t C(fixed_base_operands)(const C(fixed_base) *base, C(msm_operand) *operands, const fr *scalar) {
    uint64_t limbs[4];
    uint32_t used = 0;
    int32_t carry = 0;
    fr_to_limbs(limbs, scalar);
    for (uint32_t w = 0; w < base->windows; w++) {
        const uint32_t bit = w * base->window_bits, limb = bit / 64, shift = bit % 64;
        uint64_t word = limbs[limb] >> shift;
        if (shift && limb < 3) word |= limbs[limb + 1] << (64 - shift);
        int32_t digit = (int32_t)(word & (2 * (uint64_t)base->multiples - 1)) + carry;
        carry = digit > (int32_t)base->multiples;
        if (carry) digit -= 2 * (int32_t)base->multiples;
        if (digit == 0) continue;
        const uint32_t magnitude = (uint32_t)(digit < 0 ? -digit : digit);
        operands[used++] = C(msm_operand_of)(base->table, w * base->multiples + magnitude - 1, digit < 0);
    }
    MONT256_INVARIANT(carry == 0);
    os_random_wipe(limbs, sizeof limbs);
    return used;
}

static void C(fixed_base_chunk)(void *argument, uint32_t chunk, uint32_t worker) {
    C(fixed_base_job) *job = argument;
    const C(fixed_base) *base = job->base;
    const msm_plan plan = msm_plan_of_window(MSM_MIN_WINDOW);
    const size_t first = (size_t)chunk * FIXED_BASE_CHUNK;
    const size_t last = first + FIXED_BASE_CHUNK < job->count ? first + FIXED_BASE_CHUNK : job->count;
    arena memory = arena_over(job->worker_memory + (size_t)worker * job->worker_bytes);
    AFFINE *sums = arena_take(&memory, FIXED_BASE_CHUNK * sizeof *sums);
    C(msm_scratch) scratch;
    C(msm_scratch_lay_out)(&scratch, arena_over(memory.base + memory.used), &plan, 0);
    memset(sums, 0, FIXED_BASE_CHUNK * sizeof *sums);
    uint32_t used = 0, zeros = 0;
    for (size_t i = first; i < last; i++) {
        const uint32_t length = C(fixed_base_operands)(base, scratch.operands + used, &job->scalars[i]);
        for (uint32_t j = 0; j < length; j++) scratch.owners[used + j] = (uint32_t)(i - first);
        zeros += length == 0;
        used += length;
    }
    C(msm_sum_operands)(&scratch, sums, used);
    for (size_t i = first; i < last; i++) {
        AFFINE point;
        C(msm_from_stored)(&point, &sums[i - first]);
        C(encode_compressed)(job->out + FIXED_BASE_BYTES * i, &point);
    }
    __atomic_fetch_add(&job->zeros, zeros, __ATOMIC_RELAXED);
}

/* Writes scalars[i] * generator for all i, compressed. */
static g16_status C(fixed_base_write)(const C(fixed_base) *base, uint8_t *out, const fr *scalars, size_t count,
                                      uint8_t *worker_memory, size_t worker_bytes, thread_pool *pool,
                                      uint32_t *zeros, const g16_cancel *cancel) {
    C(fixed_base_job) job = {base, scalars, count, out, worker_memory, worker_bytes, 0};
    const uint32_t chunks = (uint32_t)((count + FIXED_BASE_CHUNK - 1) / FIXED_BASE_CHUNK);
    g16_status status = thread_pool_for(pool, chunks, C(fixed_base_chunk), &job, cancel);
    *zeros += job.zeros;
    return status;
}
