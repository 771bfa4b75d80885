/* device_multiples_impl.h - multiples of the generator of one group that a device makes, for the trusted setup; included once per group by
 * groth16_setup_impl.h, which defines AFFINE, XYZZ, C(name), GENERATOR, DEVICE_GROUP and ENCODED_BYTES, and undefines them afterwards.
 *
 * The device is not trusted. Points of a chunk must lie on the curve, and their sum with random weights of 16 bits must be that of
 * the scalars times the generator: a wrong point passes with a probability of 2^-16.
 */

/* Points of a task. */
typedef struct C(device_chunk) {
    const AFFINE *points;
    const fr *scalars;
    uint32_t count;
    uint64_t seed;
} C(device_chunk);

/* 16 bits that nobody knew when the point was made. */
static inline uint32_t C(device_weight)(const C(device_chunk) *chunk, uint32_t i) {
    uint64_t x = chunk->seed + (uint64_t)(i + 1) * 0x9e3779b97f4a7c15; /* splitmix64 */
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9;
    x = (x ^ x >> 27) * 0x94d049bb133111eb;
    return (uint32_t)((x ^ x >> 31) & 0xffff);
}

/* sum of weight * point, by one set of buckets for each byte of the weights */
static void C(device_weigh_points)(XYZZ *sum, const C(device_chunk) *chunk) {
    XYZZ buckets[255], running, part;
    C(xyzz_set_infinity)(sum);
    for (int byte = 1; byte >= 0; byte--) {
        for (int i = 0; i < 255; i++) C(xyzz_set_infinity)(&buckets[i]);
        for (uint32_t i = 0; i < chunk->count; i++) {
            const uint32_t weight = C(device_weight)(chunk, i) >> (8 * byte) & 255;
            if (weight) C(xyzz_add_affine)(&buckets[weight - 1], &buckets[weight - 1], &chunk->points[i]);
        }
        C(xyzz_set_infinity)(&running);
        C(xyzz_set_infinity)(&part);
        for (int i = 254; i >= 0; i--) {
            C(xyzz_add)(&running, &running, &buckets[i]);
            C(xyzz_add)(&part, &part, &running);
        }
        for (int i = 0; i < 8; i++) C(xyzz_double)(sum, sum);
        C(xyzz_add)(sum, sum, &part);
    }
}

static int C(device_points_hold)(const C(device_chunk) *chunk) {
    XYZZ sum, expected;
    fr total = FR_ZERO, t;
    uint64_t limbs[4];
    for (uint32_t i = 0; i < chunk->count; i++) {
        const uint64_t *words = (const uint64_t *)&chunk->points[i];
        for (size_t j = 0; j < sizeof(AFFINE) / sizeof(fp); j++) {
            if (mont256_compare_var(words + 4 * j, FP_MODULUS.p) >= 0) return 0;
        }
        if (!C(affine_is_infinity)(&chunk->points[i]) && !C(affine_on_curve)(&chunk->points[i])) return 0;
        fr_from_u64(&t, C(device_weight)(chunk, i));
        fr_mul(&t, &t, &chunk->scalars[i]);
        fr_add(&total, &total, &t);
    }
    C(device_weigh_points)(&sum, chunk);
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
    uint64_t seed;
    uint32_t zeros, wrong; /* points at infinity; chunks that do not hold */
} C(device_piece);

static void C(device_write_chunk)(void *argument, uint32_t number, uint32_t worker) {
    C(device_piece) *piece = argument;
    const size_t first = (size_t)number * DEVICE_CHUNK, left = piece->count - first;
    const C(device_chunk) chunk = {piece->points + first, piece->scalars + first,
                                   (uint32_t)(left < DEVICE_CHUNK ? left : DEVICE_CHUNK), piece->seed + (uint64_t)number * DEVICE_CHUNK};
    uint32_t zeros = 0;
    (void)worker;
    if (!C(device_points_hold)(&chunk)) {
        __atomic_fetch_add(&piece->wrong, 1, __ATOMIC_RELAXED);
        return;
    }
    for (uint32_t i = 0; i < chunk.count; i++) {
        zeros += (uint32_t)C(affine_is_infinity)(&chunk.points[i]);
        C(encode_compressed)(piece->out + (first + i) * ENCODED_BYTES, &chunk.points[i]);
    }
    __atomic_fetch_add(&piece->zeros, zeros, __ATOMIC_RELAXED);
}

/* Writes scalars[i] * generator, compressed, one after the other. */
static g16_status C(device_write)(const device_multiples *device, uint8_t *out, const fr *scalars, size_t count, thread_pool *pool,
                                  uint32_t *zeros, const g16_cancel *cancel, g16_error *error) {
    char message[DEVICE_ABI_MESSAGE] = "";
    for (size_t first = 0; first < count; first += DEVICE_PIECE) {
        const size_t length = count - first < DEVICE_PIECE ? count - first : DEVICE_PIECE;
        const device_abi_status made = device->device->library->multiples_run(device->handles[DEVICE_GROUP - 1], device->points,
                                                                              scalars + first, length, cancel, message);
        if (made != DEVICE_ABI_OK) return g16_device_result(made, message, error);
        C(device_piece) piece = {.points = device->points, .scalars = scalars + first, .count = length,
                                 .out = out + first * ENCODED_BYTES, .seed = device->seed + first};
        const uint32_t chunks = (uint32_t)((length + DEVICE_CHUNK - 1) / DEVICE_CHUNK);
        const g16_status status = thread_pool_for(pool, chunks, C(device_write_chunk), &piece, cancel);
        if (status != G16_OK) return status;
        if (piece.wrong) {
            return g16_fail(error, G16_DEVICE_LOST, 0, "the GPU returned points that are not those of the key; none of them was used");
        }
        *zeros += piece.zeros;
    }
    return G16_OK;
}
