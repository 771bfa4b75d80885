/* simd/cpu.h - the instructions that CPU and operating system support. CPUID is read here: the run-time library that Zig's compiler
 * links answers __builtin_cpu_supports with 0. */
#ifndef SHARED_SIMD_CPU_H
#define SHARED_SIMD_CPU_H

#include <stdint.h>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

typedef struct cpu_support {
    int adx;    /* ADX and BMI2 */
    int avx2;   /* also AVX2 and FMA */
    int avx512; /* ADX, BMI2, AVX-512 F, DQ and VL */
    int ifma;   /* also AVX-512 IFMA */
} cpu_support;

static inline cpu_support cpu_supports(void) {
    cpu_support found = {0, 0, 0, 0};
#if defined(__x86_64__)
    const uint32_t ymm = 0x6, zmm = 0xe6; /* registers that the operating system saves, in XCR0 */
    uint32_t eax, ebx, ecx, edx, saved = 0, high;
    if (!__get_cpuid(1, &eax, &ebx, &ecx, &edx)) return found;
    const int fma = ecx >> 12 & 1;
    if (ecx >> 27 & 1) __asm__("xgetbv" : "=a"(saved), "=d"(high) : "c"(0));
    if (!__get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx)) return found;
    found.adx = ebx >> 8 & ebx >> 19 & 1;
    found.avx2 = found.adx && fma && (ebx >> 5 & 1) && (saved & ymm) == ymm;
    found.avx512 = found.adx && (ebx >> 16 & ebx >> 17 & ebx >> 31 & 1) && (saved & zmm) == zmm;
    found.ifma = found.avx512 && (ebx >> 21 & 1);
#endif
    return found;
}

#endif
