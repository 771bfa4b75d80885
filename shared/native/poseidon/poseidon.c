/* poseidon/poseidon.c - lists the backends that the CPU supports. */
#include "poseidon/poseidon.h"

#include <string.h>

#include "simd/cpu.h"

/* Rows that are put together at a time: a multiple of the SIMD lanes. */
#define ROWS 16

size_t poseidon_hash_columns(const poseidon_backend *backend, uint8_t *out, const uint8_t *const *columns, uint32_t width,
                             size_t count) {
    uint8_t rows[ROWS * POSEIDON_MAX_INPUTS * 32];
    for (size_t first = 0; first < count; first += ROWS) {
        const size_t size = count - first < ROWS ? count - first : ROWS;
        for (size_t i = 0; i < size * width; i++) memcpy(rows + 32 * i, columns[i % width] + 32 * (first + i / width), 32);
        const size_t invalid = backend->hash_many(out + 32 * first, rows, width, size);
        if (invalid) return first * width + invalid;
    }
    return 0;
}

const poseidon_backend *poseidon_runnable(uint32_t place) {
    const poseidon_backend *runnable[4];
    uint32_t count = 0;
#if defined(__x86_64__)
    const cpu_support cpu = cpu_supports();
    if (cpu.ifma) runnable[count++] = &poseidon_ifma;
    if (cpu.avx512) runnable[count++] = &poseidon_avx512;
    if (cpu.adx) runnable[count++] = &poseidon_adx;
#endif
    runnable[count++] = &poseidon_portable;
    return place < count ? runnable[place] : NULL;
}
