/* gpu_keys_impl.h - keys made and folded on a GPU, byte for byte the processor's; included by gpu_proof.c. */
#ifndef G16_GPU_KEYS_IMPL_H
#define G16_GPU_KEYS_IMPL_H

#define SMALL_DOMAIN ((uint64_t)1 << 16) /* the processor folds larger keys in minutes */

static void report_times(const setting *s, const char *what, double on_processor, double on_gpu, int ok) {
    char detail[96];
    snprintf(detail, sizeof detail, "%s, %.0f ms on the processor, %.0f ms on the GPU", what, 1e3 * on_processor, 1e3 * on_gpu);
    report(s, detail, 1, ok);
}

static void check_setup(const setting *s, g16_device *device, file source) {
    const size_t offset = (size_t)s->info.constraint_system_offset;
    uint8_t secrets[5][32] = {{0}};
    g16_setup *setup;
    g16_error error;
    for (size_t i = 0; i < sizeof secrets; i++) secrets[i / 32][i % 32] = (uint8_t)(i % 32 ? 97 * i + 5 : 1);
    must("setup", g16_setup_create(s->engine, &setup, source.data + offset, source.size - offset, s->info.header,
                                   s->info.header_words, NULL, &error), &error);
    const size_t size = g16_setup_key_bytes(setup);
    uint8_t *expected = take(size), *made = take(size);
    const double begun = now();
    must("setup on the processor", g16_setup_run(s->engine, setup, expected, size, secrets[0], NULL, NULL, &error), &error);
    const double half = now();
    must("setup on the GPU", g16_device_setup_run(s->engine, device, setup, made, size, secrets[0], NULL, NULL, &error), &error);
    report_times(s, "trusted setup", half - begun, now() - half, !memcmp(made, expected, size));
    free(expected);
    free(made);
    g16_setup_destroy(setup);
}

static void check_folding(const setting *s, g16_device *device) {
    const uint8_t digest[32] = {0};
    const size_t size = g16_prepared_bytes(s->key, 0, 1);
    uint8_t *expected = take(size), *made = take(size);
    g16_error error;
    const double begun = now();
    must("folding on the processor",
         g16_prepared_write(s->engine, s->key, expected, size, 0, 1, digest, NULL, NULL, NULL, &error), &error);
    const double half = now();
    must("folding on the GPU",
         g16_device_prepared_write(s->engine, device, s->key, made, size, 0, 1, digest, NULL, NULL, &error), &error);
    report_times(s, "folding", half - begun, now() - half, !memcmp(made, expected, size));
    free(expected);
    free(made);
}

static void check_keys(const setting *s, file source) {
    g16_device *device = open_device(s, 0);
    if (s->info.generation == G16_GENERATION_0_14 && s->info.file_bytes == source.size) check_setup(s, device, source);
    if (s->info.domain_size <= SMALL_DOMAIN && !s->info.fold_bytes) check_folding(s, device);
    g16_device_close(device);
}

#endif
