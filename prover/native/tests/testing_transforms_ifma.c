/* Hooks into sums and transforms, AVX-512 IFMA backend. */
#if defined(__x86_64__)
#pragma GCC target("avx512f,avx512dq,avx512vl,avx512ifma,bmi2,adx")
#define G16_COMPILE_IFMA 1
#define MONT256_ADX 1
#define T(name) name##_ifma
#include "testing_transforms_impl.h"
#endif
