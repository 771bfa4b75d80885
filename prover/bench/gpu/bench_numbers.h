/* bench_numbers.h - the numbers of a multiplication or transform and our result as files, for another program to compute the same;
 * peer.py says what they hold. Included by gpu_bench.cu. */

static const uint64_t FR_ROOT_28[4] = {0x636e735580d13d9c, 0xa22bf3742445ffd6, 0x56452ac01eb203d8, 0x1860ef942963f9e7}; /* field/fr.h */

static void *take(size_t bytes) {
    void *memory = malloc(bytes);
    if (!memory) {
        fprintf(stderr, "gpu_bench: no memory\n");
        exit(1);
    }
    return memory;
}

static fr fr_of_words(const uint64_t words[4]) {
    fr value;
    memcpy(&value, words, sizeof value);
    return value;
}

static void write_file(const char *folder, const char *name, const void *data, size_t bytes) {
    char path[4096];
    const int length = snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = length > 0 && (size_t)length < sizeof path ? fopen(path, "wb") : NULL;
    const int written = file && fwrite(data, 1, bytes, file) == bytes;
    if (!file || fclose(file) != 0 || !written) {
        fprintf(stderr, "gpu_bench: %s cannot be written\n", path);
        exit(1);
    }
}

static void write_from_device(const char *folder, const char *name, const void *from, size_t bytes) {
    void *data = take(bytes);
    device_read_later(&queue, data, from, bytes);
    stop_on_failure();
    write_file(folder, name, data, bytes);
    free(data);
}

/* ---- multiplications ---------------------------------------------------------------------------- */

__global__ void plain_numbers_kernel(uint32_t *out, const fr *values, uint32_t count) {
    const uint32_t i = blockIdx.x * blockDim.x + threadIdx.x, one[LIMBS] = {1};
    if (i >= count) return;
    const fr value = values[i];
    fr_mul_plain(out + LIMBS * (uint64_t)i, &value, one);
}

static void write_scalars(const char *folder, const fr *values, uint32_t count) {
    uint32_t *plain = (uint32_t *)device_allocate(&queue, (size_t)count * sizeof(fr));
    stop_on_failure();
    plain_numbers_kernel<<<(count + 127) / 128, 128, 0, queue.stream>>>(plain, values, count);
    write_from_device(folder, "scalars", plain, (size_t)count * sizeof(fr));
    device_release(plain);
}

#define GROUP_NUMBERS(group)                                                                                    \
    __global__ void group##_affine_kernel(group##_affine *out, const group##_xyzz *in) {                        \
        const group##_xyzz sum = *in;                                                                           \
        group##_affine point;                                                                                   \
        group##_xyzz_to_affine(&point, &sum);                                                                   \
        *out = point;                                                                                           \
    }                                                                                                           \
    static void group##_write_numbers(const char *folder, const group##_affine *bases, const fr *values,        \
                                      const group##_xyzz *sum, uint32_t count) {                                \
        group##_affine *point = (group##_affine *)device_allocate(&queue, sizeof *point);                       \
        stop_on_failure();                                                                                      \
        group##_affine_kernel<<<1, 1, 0, queue.stream>>>(point, sum);                                           \
        write_from_device(folder, "ours", point, sizeof *point);                                                \
        write_from_device(folder, "points", bases, (size_t)count * sizeof *bases);                              \
        write_scalars(folder, values, count);                                                                   \
        device_release(point);                                                                                  \
    }

GROUP_NUMBERS(g1)
GROUP_NUMBERS(g2)

/* ---- transforms --------------------------------------------------------------------------------- */

/* table[i] = psi^bitrev(i), psi of order 2^(log2 + 1): a product of one root for each bit of i. root_28 has order 2^28. */
__global__ void roots_kernel(fr *table, fr root_28, uint32_t log2) {
    const uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;
    fr product, root = root_28;
    if (i >= 1u << log2) return;
    fr_set_one(&product);
    for (uint32_t order = 28; order > 1; order--) {
        const uint32_t bit = order - 2; /* whose root has this order */
        if (bit < log2 && i >> bit & 1) fr_mul(&product, &product, &root);
        fr_mul(&root, &root, &root);
    }
    table[i] = product;
}

/* coefficients: as a transform takes them, in bit-reversed order; they are written in their own. */
static void ntt_write_numbers(const char *folder, const fr *coefficients, const fr *values, uint32_t log2) {
    const size_t count = (size_t)1 << log2;
    fr *ordered = (fr *)take(count * sizeof *ordered);
    for (size_t i = 0; i < count; i++) {
        size_t reversed = 0;
        for (uint32_t bit = 0; bit < log2; bit++) reversed |= (i >> bit & 1) << (log2 - 1 - bit);
        ordered[reversed] = coefficients[i];
    }
    write_file(folder, "coefficients", ordered, count * sizeof *ordered);
    write_file(folder, "ours", values, count * sizeof *values);
    free(ordered);
}
