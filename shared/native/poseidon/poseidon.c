/* poseidon/poseidon.c - lists the backends that the CPU supports. */
#include "poseidon/poseidon.h"

#include "simd/cpu.h"

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
