/* testing_arithmetic_ifma.c - the arithmetic hooks of the backend with AVX-512 IFMA. */
#if defined(__x86_64__)
#pragma GCC target("avx512f,avx512dq,avx512vl,avx512ifma,bmi2,adx")
#define G16_COMPILE_IFMA 1
#define MONT256_ADX 1
#define T_BACKEND ifma
#include "testing_field_impl.h"
#include "testing_pairing_impl.h"
#endif
