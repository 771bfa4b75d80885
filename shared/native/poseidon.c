/* poseidon.c - chooses the backend. */
#include "poseidon.h"

#if defined(__x86_64__)
#include <cpuid.h>

/* Leaf 7: BMI2 is bit 8 and ADX bit 19 of EBX. Both work on general registers: no operating system support needed. */
static int processor_has_adx_and_bmi2(void) {
    unsigned eax, ebx, ecx, edx;
    return __get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) && (ebx >> 8 & 1) && (ebx >> 19 & 1);
}
#endif

const poseidon_backend *poseidon_choose(void) {
#if defined(__x86_64__)
    if (processor_has_adx_and_bmi2()) return &poseidon_adx;
#endif
    return &poseidon_portable;
}
