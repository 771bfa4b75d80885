/* poseidon/poseidon.c - lists the backends that the CPU supports. */
#include "poseidon/poseidon.h"

#if defined(__x86_64__)
#include <cpuid.h>

/* Leaf 7: BMI2 is bit 8 and ADX bit 19 of EBX. Both use general registers and need no support of the operating system. */
static int cpu_has_adx_and_bmi2(void) {
    unsigned eax, ebx, ecx, edx;
    return __get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) && (ebx >> 8 & 1) && (ebx >> 19 & 1);
}
#endif

const poseidon_backend *poseidon_runnable(uint32_t place) {
    const poseidon_backend *runnable[4];
    uint32_t count = 0;
#if defined(__x86_64__)
    const int adx = cpu_has_adx_and_bmi2();
    const int avx512 = adx && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
                       __builtin_cpu_supports("avx512vl");
    if (avx512 && __builtin_cpu_supports("avx512ifma")) runnable[count++] = &poseidon_ifma;
    if (avx512) runnable[count++] = &poseidon_avx512;
    if (adx) runnable[count++] = &poseidon_adx;
#endif
    runnable[count++] = &poseidon_portable;
    return place < count ? runnable[place] : NULL;
}
