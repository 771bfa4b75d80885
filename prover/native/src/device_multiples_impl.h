/* device_multiples_impl.h - multiples of the generator of one group that a device makes, for the trusted setup; included once per group by
 * groth16_setup_impl.h, which defines AFFINE, XYZZ, C(name), GENERATOR, DEVICE_GROUP and ENCODED_BYTES, and undefines them afterwards.
 *
 * The device is not trusted. Points of a chunk must lie on the curve, and their sum with random weights of 126 bits must be that of the
 * scalars times the generator: wrong points pass with a probability of 2^-126. (Of G2's curve this holds for the group; points that
 * are off by an element of order 10069, the smallest outside of it, pass once in 10069 times.)
 */

/* What one worker needs for checking a chunk. */
typedef struct C(device_room) {
    uint64_t (*weights)[2]; /* DEVICE_CHUNK, below 2^126 */
    int16_t *digits, *none; /* of the weights, window after window; zeros for a chunk */
    AFFINE *points;         /* DEVICE_CHUNK, in the form in which this backend adds */
    C(msm_scratch) scratch;
} C(device_room);

/* Points of a task. */
typedef struct C(device_chunk) {
    const AFFINE *points;
    const fr *scalars;
    uint32_t count;
} C(device_chunk);

/* Places (or, on a measuring arena, measures) the room of a worker. */
static size_t C(device_place_room)(C(device_room) *room, arena a, const msm_plan *plan) {
    room->weights = arena_take(&a, DEVICE_CHUNK * sizeof *room->weights);
    room->digits = arena_take(&a, (size_t)plan->windows * DEVICE_CHUNK * sizeof *room->digits);
    room->none = arena_take(&a, DEVICE_CHUNK * sizeof *room->none);
    room->points = arena_take(&a, DEVICE_CHUNK * sizeof *room->points);
    const size_t scratch = C(msm_scratch_bytes)(plan, DEVICE_CHUNK);
    uint8_t *memory = arena_take(&a, scratch + ARENA_ALIGNMENT);
    if (memory) C(msm_scratch_place)(&room->scratch, arena_over(memory), plan, DEVICE_CHUNK);
    return a.used;
}

/* sum of weight * point; infinity weighs nothing */
static void C(device_weigh_points)(XYZZ *sum, C(device_room) *room, const msm_plan *plan, const C(device_chunk) *chunk) {
    XYZZ windows[MSM_MAX_WINDOWS];
    memcpy(room->points, chunk->points, chunk->count * sizeof *room->points);
    C(msm_prepare)(room->points, chunk->count);
    for (uint32_t i = 0; i < chunk->count; i++) {
        glv_half weight = {{room->weights[i][0], room->weights[i][1]}, 0};
        if (C(affine_is_infinity)(&chunk->points[i])) weight.magnitude[0] = weight.magnitude[1] = 0;
        glv_digits(room->digits + i, DEVICE_CHUNK, &weight, plan);
        room->none[i] = 0;
    }
    for (uint32_t w = 0; w < plan->windows; w++) {
        C(msm_window_part)(&windows[w], &room->scratch, msm_window_buckets(plan, w), 0, 1, room->points, chunk->count,
                           room->digits + (size_t)w * DEVICE_CHUNK, room->none);
    }
    C(msm_join_windows)(sum, windows, 1, plan);
}

static int C(device_is_point)(const AFFINE *point) {
    const uint64_t *words = (const uint64_t *)point;
    for (size_t i = 0; i < sizeof *point / sizeof(fp); i++) {
        if (mont256_compare_var(words + 4 * i, FP_MODULUS.p) >= 0) return 0;
    }
    return C(affine_is_infinity)(point) || C(affine_on_curve)(point);
}

/* The room has random weights. */
static int C(device_points_hold)(C(device_room) *room, const msm_plan *plan, const C(device_chunk) *chunk) {
    XYZZ sum, expected;
    fr total = FR_ZERO, t;
    uint64_t limbs[4];
    for (uint32_t i = 0; i < chunk->count; i++) {
        if (!C(device_is_point)(&chunk->points[i])) return 0;
        const uint64_t weight[4] = {room->weights[i][0], room->weights[i][1] &= UINT64_MAX >> 2, 0, 0};
        fr_from_limbs(&t, weight);
        fr_mul(&t, &t, &chunk->scalars[i]);
        fr_add(&total, &total, &t);
    }
    C(device_weigh_points)(&sum, room, plan, chunk);
    fr_to_limbs(limbs, &total);
    C(xyzz_mul_var)(&expected, &GENERATOR, limbs);
    C(xyzz_neg)(&expected, &expected);
    C(xyzz_add)(&sum, &sum, &expected);
    os_random_wipe(&total, sizeof total);
    os_random_wipe(limbs, sizeof limbs);
    return C(xyzz_is_infinity)(&sum);
}

/* A piece of a list, checked and written by all threads. */
typedef struct C(device_piece) {
    const AFFINE *points;
    const fr *scalars;
    size_t count;
    uint8_t *out;
    msm_plan plan;
    uint8_t *memory; /* room_bytes of each worker */
    size_t room_bytes;
    uint32_t zeros, wrong, failed; /* points at infinity; chunks that do not hold, and that had no random numbers */
} C(device_piece);

static void C(device_write_chunk)(void *argument, uint32_t number, uint32_t worker) {
    C(device_piece) *piece = argument;
    const size_t first = (size_t)number * DEVICE_CHUNK, left = piece->count - first;
    const C(device_chunk) chunk = {piece->points + first, piece->scalars + first,
                                   (uint32_t)(left < DEVICE_CHUNK ? left : DEVICE_CHUNK)};
    C(device_room) room;
    uint32_t zeros = 0;
    C(device_place_room)(&room, arena_over(piece->memory + (size_t)worker * piece->room_bytes), &piece->plan);
    if (!os_random_fill((uint8_t *)room.weights, chunk.count * sizeof *room.weights)) {
        __atomic_fetch_add(&piece->failed, 1, __ATOMIC_RELAXED);
        return;
    }
    if (!C(device_points_hold)(&room, &piece->plan, &chunk)) {
        __atomic_fetch_add(&piece->wrong, 1, __ATOMIC_RELAXED);
        return;
    }
    for (uint32_t i = 0; i < chunk.count; i++) {
        zeros += (uint32_t)C(affine_is_infinity)(&chunk.points[i]);
        C(encode_compressed)(piece->out + (first + i) * ENCODED_BYTES, &chunk.points[i]);
    }
    __atomic_fetch_add(&piece->zeros, zeros, __ATOMIC_RELAXED);
}

/* Checks and writes a piece. */
static g16_status C(device_write_piece)(const device_multiples *device, C(device_piece) *piece, thread_pool *pool,
                                        const g16_cancel *cancel, g16_error *error) {
    const uint32_t chunks = (uint32_t)((piece->count + DEVICE_CHUNK - 1) / DEVICE_CHUNK);
    const g16_status status = thread_pool_for(pool, chunks, C(device_write_chunk), piece, cancel);
    if (status != G16_OK) return status;
    if (piece->failed) {
        return g16_fail(error, G16_RANDOMNESS_UNAVAILABLE, 0, "the operating system gave no random numbers for checking a GPU's points");
    }
    return piece->wrong ? g16_device_wrong(device->device, "points that are not those of the key", error) : G16_OK;
}

/* Writes scalars[i] * generator, compressed, one after the other. */
static g16_status C(device_write)(const device_multiples *device, uint8_t *out, const fr *scalars, size_t count, thread_pool *pool,
                                  uint32_t *zeros, const g16_cancel *cancel, g16_error *error) {
    char message[DEVICE_ABI_MESSAGE] = "";
    const msm_plan plan = msm_plan_for((count < DEVICE_CHUNK ? count : DEVICE_CHUNK) / 2); /* the weights have no second half */
    C(device_room) room;
    const size_t room_bytes = C(device_place_room)(&room, arena_measure(), &plan) + ARENA_ALIGNMENT;
    g16_status status = G16_OK;
    uint8_t *memory = malloc(room_bytes * thread_pool_threads(pool));
    if (!memory) return G16_OUT_OF_MEMORY;
    for (size_t first = 0; first < count && status == G16_OK; first += DEVICE_PIECE) {
        const size_t length = count - first < DEVICE_PIECE ? count - first : DEVICE_PIECE;
        const device_abi_status made = device->device->library->multiples_run(device->handles[DEVICE_GROUP - 1], device->points,
                                                                              scalars + first, length, cancel, message);
        C(device_piece) piece = {.points = device->points, .scalars = scalars + first, .count = length,
                                 .out = out + first * ENCODED_BYTES, .plan = plan, .memory = memory, .room_bytes = room_bytes};
        status = made == DEVICE_ABI_OK ? C(device_write_piece)(device, &piece, pool, cancel, error)
                                       : g16_device_result(made, message, error);
        *zeros += piece.zeros;
    }
    free(memory);
    return status;
}
